"""`make gallery`: run every program in examples/ and save its figure as docs/gallery/NAME.png.

Figures are at most 800 pixels wide and have 256 colours, which keeps the files small.
"""

import os
import runpy
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
WIDTH, COLORS = 800, 256


def main() -> None:
    """Run the examples one after the other in a temporary folder."""
    target = ROOT / "docs" / "gallery"
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for script in sorted((ROOT / "examples").glob("*.py")):
            started = time.monotonic()
            runpy.run_path(str(script))
            picture = Image.open(f"{script.stem}.png").convert("RGB")
            picture.thumbnail((WIDTH, WIDTH), Image.Resampling.LANCZOS)
            picture.quantize(COLORS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
                target / f"{script.stem}.png", optimize=True
            )
            sys.stdout.write(f"{script.stem}.png {time.monotonic() - started:.1f} s\n")
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
