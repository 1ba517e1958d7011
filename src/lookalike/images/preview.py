"""Small copies of pictures, to show them: `encode_preview`."""

import io

from PIL import Image

from lookalike.types import Pixels

QUALITY = 85
"""JPEG quality of a small copy."""


def encode_preview(pixels: Pixels, side: int) -> bytes:
    """Return a picture as JPEG, downscaled so that its longer side has at most `side` pixels."""
    image = Image.fromarray(pixels)
    image.thumbnail((side, side))
    data = io.BytesIO()
    image.save(data, "JPEG", quality=QUALITY)
    return data.getvalue()
