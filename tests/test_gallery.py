"""The programs in examples/ write their figures, and the site loads nothing from other hosts."""

import runpy
from pathlib import Path

import matplotlib.pyplot
import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.usefixtures("read_here")

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "gallery.md").read_text()
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def gallery_folder(tmp_path_factory):
    """A folder for all examples: the first generates and indexes the pictures, and the others reuse them."""
    return tmp_path_factory.mktemp("gallery")


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_of_the_gallery_writes_its_figure(script, gallery_folder, monkeypatch):
    monkeypatch.chdir(gallery_folder)
    runpy.run_path(str(script))
    matplotlib.pyplot.close("all")
    with Image.open(f"{script.stem}.png") as picture:
        colors = np.unique(np.asarray(picture.convert("RGB")) @ [2**16, 2**8, 1])  # single numbers are fast to sort
    assert len(colors) > 20  # it is not blank
    assert len(script.read_text().splitlines()) <= 40
    assert f'"examples/{script.name}"' in PAGE
    assert f"(gallery/{script.stem}.png)" in PAGE


def test_the_build_refuses_pages_that_load_files_from_other_hosts(tmp_path):
    outside = runpy.run_path(str(ROOT / "docs-build" / "offline.py"))["outside"]
    (tmp_path / "good.html").write_text(
        '<a href="https://a.example/x"><img src="x.png"></a><link rel="canonical" href="https://a.example">'
    )
    assert outside(tmp_path) == []
    bad = {
        "script.html": '<script src="https://cdn.example/x.js"></script>',
        "style.html": '<link rel="stylesheet" href="//cdn.example/x.css">',
        "inline.html": "<style>@import 'https://cdn.example/x.css';</style>",
        "mermaid.html": '<pre class="mermaid"><code>graph</code></pre>',
        "fonts.css": "@font-face { src: url(https://cdn.example/x.woff2) }",
    }
    for name, text in bad.items():
        (tmp_path / name).write_text(text)
    assert {path.name for path, _ in outside(tmp_path)} == set(bad)
