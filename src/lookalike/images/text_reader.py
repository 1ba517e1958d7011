"""Read the text in pictures (OCR) with the package `rapidocr`, whose wheel contains its networks.

Its default settings download a network that is missing. `TextReader` passes the files of the networks instead, so it
never connects to the network.
"""

from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from lookalike.errors import MissingError
from lookalike.types import Pixels

SIDE = 1_000
"""Minimum length in pixels of the shorter side of a picture in which text is read, if the file has as many."""

LONGER_SIDE = 2_000
"""Length in pixels to which rapidocr shrinks the longer side of a picture."""

MAX_TEXT = 10_000
"""Maximum number of characters that are returned per picture."""

MAX_RATIO = 8
"""Maximum aspect ratio. Longer pictures get a white margin, because rapidocr fails for very thin ones."""

NETWORKS = {"Det": "det", "Cls": "cls", "Rec": "rec"}
"""The networks that find lines, turn them upright and read them: rapidocr's section, and part of the file's name."""


class TextReader:
    """Reads the text in a picture; Latin letters, digits and Chinese characters. Can be pickled.

    Raises MissingError if `rapidocr` or one of its networks is missing.
    """

    def __init__(self) -> None:
        self._files = _find_networks()

    def __call__(self, pixels: Pixels) -> str:
        """Return the lines of text in a picture, (h, w, 3) uint8 RGB; an empty string if there are none."""
        if max(pixels.shape[:2]) > MAX_RATIO * min(pixels.shape[:2]):
            picture = Image.fromarray(pixels)
            picture.thumbnail((LONGER_SIDE, LONGER_SIDE))  # rapidocr does so, too, but after the margin is added
            pixels = np.asarray(picture)
        height, width = pixels.shape[:2]
        margin = [(0, max(0, -(-width // MAX_RATIO) - height)), (0, max(0, -(-height // MAX_RATIO) - width)), (0, 0)]
        found = self._engine(np.pad(pixels[..., ::-1], margin, constant_values=255))
        return "\n".join(found.txts or ())[:MAX_TEXT]

    def __getstate__(self) -> dict[str, Any]:
        return {"_files": self._files}

    @cached_property
    def _engine(self) -> Any:
        from rapidocr import RapidOCR  # takes half a second to load

        files = {f"{section}.model_path": file for section, file in self._files.items()}
        # One thread, because several processes read pictures.
        return RapidOCR(
            params={**files, "Global.log_level": "critical", "EngineConfig.onnxruntime.intra_op_num_threads": 1}
        )


def _find_networks() -> dict[str, str]:
    spec = find_spec("rapidocr")
    if spec is None or spec.origin is None:
        raise MissingError(
            "Reading text in pictures needs the package rapidocr. Install it with: pip install 'lookalike[ocr]'"
        )
    folder = Path(spec.origin).parent / "models"
    found = {section: sorted(folder.glob(f"*_{part}_*.onnx")) for section, part in NETWORKS.items()}
    missing = [NETWORKS[section] for section, files in found.items() if not files]
    if missing:
        raise MissingError(
            f"The package rapidocr has no file models/*_{missing[0]}_*.onnx in {folder.parent}. Install it again with:"
            " pip install --force-reinstall --no-deps rapidocr"
        )
    return {section: str(files[0]) for section, files in found.items()}
