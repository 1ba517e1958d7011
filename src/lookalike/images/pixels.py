"""Any kind of decoded image in, RGB out.

In: a loaded Pillow image of any mode (1 bit, grey, palette, alpha, CMYK, Lab, 16 bit, float). Out: (height, width, 3)
uint8 RGB, transparency laid on white.
"""

import numpy as np
from PIL import Image, ImageChops, ImageCms

from lookalike.types import Pixels

BAND_PIXELS = 2**20
"""Pixels converted at a time, so that a large picture is not held three times over."""

_BITS, _PHOTOMETRIC = 258, 262
"""TIFF tags: bits per sample; 0 where white is zero."""


def to_rgb(image: Image.Image) -> Pixels:
    """The image's pixels, (h, w, 3) uint8 RGB, in memory of their own."""
    if image.mode == "CMYK" and image.format in ("JPEG", "MPO") and "adobe" not in image.info:
        image = ImageChops.invert(image)  # Pillow takes every CMYK JPEG for an inverted one, as Adobe writes them
    ends = _ends(image) if image.mode[0] in "IF" else None
    width, height = image.size
    rows = max(1, BAND_PIXELS // width)
    pixels = np.empty((height, width, 3), np.uint8)
    for top in range(0, height, rows):
        band = image if rows >= height else image.crop((0, top, width, min(height, top + rows)))
        pixels[top : top + rows] = np.asarray(_convert(band)) if ends is None else _stretch(band, *ends)
    return pixels


def _convert(image: Image.Image) -> Image.Image:
    """An image of 1 or 8 bits a sample, as RGB."""
    if image.mode == "LAB":
        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB")
        assert converted is not None
        return converted
    if image.mode == "La":
        image = image.convert("LA")
    if image.mode[-1] in "Aa" or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=image.getchannel("A"))
        return white
    return image if image.mode == "RGB" else image.convert("RGB")


def _ends(image: Image.Image) -> tuple[float, float]:
    """The values that are black and white in a grey image of more than 8 bits."""
    tags = getattr(image, "tag_v2", {})
    if image.mode.startswith("I;16"):
        low, high = 0.0, 2.0 ** tags.get(_BITS, (16,))[0] - 1
    else:  # integers of 32 bits, floats: no range is declared, so the picture's own
        values = np.asarray(image)
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return (high, low) if tags.get(_PHOTOMETRIC) == 0 else (low, high)


def _stretch(image: Image.Image, black: float, white: float) -> Pixels:
    grey = (np.asarray(image, np.float64) - black) * (255 / ((white - black) or 1))  # (h, w)
    rounded: Pixels = np.clip(np.nan_to_num(np.rint(grey)), 0, 255).astype(np.uint8)
    return rounded[:, :, None]  # (h, w, 1)
