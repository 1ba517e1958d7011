"""Make the screenshots of the page in the manual from those that the tests have saved.

Run it after `make test`: python docs-build/page_shots.py
"""

import io
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
SHOTS = {
    "start": ["start-light"],
    "session": ["session-played"],
    "dark": ["words-dark"],
    "phone": ["start-phone-light", "session-phone-light", "session-phone-dark", "class-phone-dark"],
}
"""The pictures in docs/, and the screenshots that each shows side by side."""
GAP = 24
"""Pixels between screenshots."""
MAX_BYTES = 150_000


def join(images: list[Image.Image]) -> Image.Image:
    """Return one picture with all images side by side, aligned at the top."""
    width = sum(image.width for image in images) + GAP * (len(images) - 1)
    whole = Image.new("RGB", (width, max(image.height for image in images)), "white")
    left = 0
    for image in images:
        whole.paste(image, (left, 0))
        left += image.width + GAP
    return whole


def compress(image: Image.Image) -> bytes:
    """Return a JPEG with the highest quality that stays within MAX_BYTES."""
    for quality in range(90, 30, -5):
        data = io.BytesIO()
        image.save(data, "JPEG", quality=quality, optimize=True, progressive=True)
        if data.tell() <= MAX_BYTES:
            break
    return data.getvalue()


for name, shots in SHOTS.items():
    data = compress(join([Image.open(ROOT / "page-shots" / f"{shot}.jpg") for shot in shots]))
    (ROOT / "docs" / f"page-{name}.jpg").write_bytes(data)
