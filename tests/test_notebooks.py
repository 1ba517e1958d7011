"""What notebooks show: representations, progress, and the notebooks in examples/."""

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from lookalike import Collection, show_progress
from serving import copy_shelf

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.fixture
def labelled(shelf, tmp_path):
    """An open copy of the labelled collection."""
    with Collection(copy_shelf(shelf, tmp_path)) as collection:
        yield collection


def test_representations_have_counts(labelled):
    assert repr(labelled) == f"<Collection {labelled.path}: 60 pictures, 12 classes; spaces: color>"
    assert repr(labelled.classes) == "<12 classes, 60 labels>"
    found = labelled.search(labelled.page(limit=1).items[0].id, k=3)
    assert re.fullmatch(r"<3 results, scores 0 to [\d.e+-]+>", repr(found))
    session = labelled.session(found[0].id, name="mine")
    session.mark(found[1].id, found[2].id)
    assert repr(session) == f"<Session {session.id} 'mine': open, 0 rounds, 2 positive, 1 negative>"
    assert repr(labelled.duplicates("identical")) == "<0 groups of duplicates, 0 pictures>"


def test_a_closed_collection_has_a_representation(labelled):
    labelled.close()
    assert repr(labelled) == f"<Collection {labelled.path}>"


def test_html_has_pictures_inline_and_loads_nothing(labelled, tmp_path, pictures):
    item = labelled.page(limit=1).items[0]
    shutil.copy(item.paths[0], tmp_path / "copy.jpg")
    found = labelled.search(item.id, k=60)
    html = found._repr_html_()
    assert html.count("data:image/jpeg;base64,") == 50
    assert "… and 10 more" in html
    labelled.add(tmp_path / "copy.jpg")
    session = labelled.session(item.id)
    session.mark(found[1].id, found[2].id)
    for shown, n in ((session, 3), (labelled.duplicates("identical"), 1), (labelled.classes, 48)):
        html = shown._repr_html_()
        assert html.count("<img ") == html.count('src="data:image/jpeg;base64,') == n
        assert not re.search(r"https?://|<script|<link", html)


def test_html_escapes_names_and_reports_missing_files(collection, tmp_path, pictures):
    folder = tmp_path / "pictures"
    folder.mkdir()
    name = "<img src=x onerror=alert(1)>.jpg"
    shutil.copy(next(pictures.rglob("*.jpg")), folder / name)
    collection.add(folder, recipes="color", workers=1)
    found = collection.search(folder / name, k=1)
    assert "&lt;img src=x onerror=alert(1)&gt;.jpg" in found._repr_html_()
    assert "<img src=x" not in found._repr_html_()
    (folder / name).unlink()
    html = found._repr_html_()
    assert "not found" in html
    assert "<img" not in html


def test_progress_is_silent_where_there_is_no_terminal(capsys):
    with show_progress() as progress:
        progress("reading", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_the_example_notebooks_have_no_outputs():
    assert len(NOTEBOOKS) == 3
    for file in NOTEBOOKS:
        for cell in nbformat.read(file, as_version=4).cells:
            assert cell.cell_type == "markdown" or (cell.outputs, cell.execution_count) == ([], None), file.name


def test_the_example_notebooks_run(tmp_path):
    """All in one kernel, because starting one takes seconds; the names of one are deleted before the next."""
    together = nbformat.v4.new_notebook()
    for file in NOTEBOOKS:
        together.cells += nbformat.read(file, as_version=4).cells
        together.cells.append(nbformat.v4.new_code_cell("%reset -f"))
    for number, cell in enumerate(together.cells):
        cell["id"] = str(number)
    NotebookClient(together, timeout=240, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in together.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    shown = [data for output in outputs if "data" in output for data in output.data]
    assert shown.count("text/html") >= 5
    assert "application/vnd.jupyter.widget-view+json" in shown
