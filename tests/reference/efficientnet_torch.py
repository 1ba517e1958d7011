"""Reference implementation of EfficientNet-Lite0: torch layers, unfolded batch norms, weights loaded by torch."""

import math
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

# The published table of blocks: (repeats, stride of the first block)
STAGES = [(1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1)]


def feature_map(path: Path, pixels: np.ndarray) -> np.ndarray:
    """Return the last feature map, (n, 1280, 7, 7) float32, of pixels (n, 224, 224, 3) uint8."""
    weights = torch.load(path, weights_only=True)

    def conv(x: torch.Tensor, name: str, norm: str, stride: int = 1, relu6: bool = True) -> torch.Tensor:
        kernel = weights[f"{name}.weight"]
        size = kernel.shape[2]
        pad = max((math.ceil(x.shape[2] / stride) - 1) * stride + size - x.shape[2], 0)
        x = functional.pad(x, [pad // 2, pad - pad // 2, pad // 2, pad - pad // 2])
        x = functional.conv2d(x, kernel, stride=stride, groups=x.shape[1] // kernel.shape[1])
        learned = [weights[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
        x = functional.batch_norm(x, *learned, eps=1e-3)
        return functional.relu6(x) if relu6 else x

    with torch.no_grad():
        x = (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() - 127) / 128
        x = conv(x, "_conv_stem", "_bn0", 2)
        block = 0
        for repeats, first_stride in STAGES:
            for repeat in range(repeats):
                prefix = f"_blocks.{block}."
                y = x if block == 0 else conv(x, f"{prefix}_expand_conv", f"{prefix}_bn0")
                y = conv(y, f"{prefix}_depthwise_conv", f"{prefix}_bn1", first_stride if repeat == 0 else 1)
                y = conv(y, f"{prefix}_project_conv", f"{prefix}_bn2", relu6=False)
                x = x + y if repeat > 0 else y
                block += 1
        return conv(x, "_conv_head", "_bn1").numpy()
