"""The widget for notebooks in which a user marks the pictures of a session: its Python part, and its page."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from lookalike import Collection
from lookalike.errors import MissingError
from lookalike.notebook import SessionWidget
from serving import copy_shelf

ROOT = Path(__file__).parents[1]


@pytest.fixture
def labelled(shelf, tmp_path):
    """An open copy of the labelled collection."""
    with Collection(copy_shelf(shelf, tmp_path)) as collection:
        yield collection


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "lookalike.notebook")
    with pytest.raises(MissingError, match=r"pip install 'lookalike\[notebook\]'"):
        importlib.import_module("lookalike.notebook")


def test_the_widget_runs_rounds_undoes_marks_and_saves_a_class(labelled):
    ids, names = labelled.page_ids().tolist(), labelled.labels(labelled.page_ids().tolist())
    beaches = {item for item in ids if names[item] == ["beach"]}
    session = labelled.session(min(beaches), name="my beaches")
    widget = SessionWidget(session, k=6, window=4)
    assert (len(widget.questions), len(widget.best), session.summary.rounds) == (4, 6, 1)
    assert all(tile["image"].startswith("data:image/jpeg;base64,") for tile in widget.questions + widget.best)
    marks = {tile["id"]: "relevant" if int(tile["id"], 16) in beaches else "irrelevant" for tile in widget.questions}
    widget.handle({"action": "round", "marks": marks})
    assert session.summary.rounds == 2
    assert session.marks.items() >= {int(item, 16): kind for item, kind in marks.items()}.items()
    widget.handle({"action": "undo"})
    assert widget.status == "Undid 4 marks."
    assert len(session.marks) == 1
    widget.handle({"action": "round", "marks": {"0" * 16: "relevant"}})
    assert "item" in widget.status
    widget.handle({"action": "finish", "name": "coast", "marks": {f"{max(beaches):016x}": "relevant"}})
    assert (widget.status, widget.finished) == ("2 pictures labelled as coast.", True)
    assert labelled.label_counts()["coast"] == 2
    assert widget.answer == 4


PAGE = """
<div id="cell"></div>
<script type="module">
const source = SOURCE;
const { default: widget } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
const listeners = {};
const tile = (id, name) => ({ id, name, image: "", mark: "" });
window.traits = { title: "a session", name: "beaches", questions: [tile("a1", "<b>one</b>"), tile("b2", "two")],
  best: [tile("c3", "three")], status: "Round 1", finished: false };
window.sent = [];
window.change = (name, value) => { traits[name] = value; listeners[`change:${name}`](); };
const model = { get: (name) => traits[name], send: (message) => sent.push(message),
  on: (name, listener) => { listeners[name] = listener; }, off: () => {} };
widget.render({ model, el: document.querySelector("#cell") });
window.ready = true;
</script>
"""


def test_in_the_browser_one_click_means_yes_and_two_mean_no(browser):
    source = (ROOT / "src/lookalike/notebook.js").read_text()
    page = browser.new_page()
    try:
        page.set_content(PAGE.replace("SOURCE", json.dumps(source)))
        page.wait_for_function("window.ready")
        first, second = page.get_by_role("button", name="<b>one</b>"), page.get_by_role("button", name="two")
        first.click()
        second.click()
        second.click()
        assert (first.get_attribute("data-mark"), second.get_attribute("data-mark")) == ("relevant", "irrelevant")
        page.get_by_role("button", name="Next round").click()
        assert page.evaluate("sent") == [{"action": "round", "marks": {"a1": "relevant", "b2": "irrelevant"}}]
        assert page.get_by_role("button", name="Undo").is_disabled()
        page.evaluate("change('questions', [{ id: 'd4', name: 'four', image: '', mark: '' }])")
        page.evaluate("change('status', 'Round 2')")
        page.get_by_role("textbox", name="Name of the class").fill("coast")
        page.get_by_role("button", name="four").click()
        page.get_by_role("button", name="Save as class").click()
        assert page.evaluate("sent.at(-1)") == {"action": "finish", "name": "coast", "marks": {"d4": "relevant"}}
        page.evaluate("traits.finished = true")
        page.evaluate("change('status', '1 picture labelled.')")
        assert page.get_by_role("button", name="Next round").is_disabled()
        assert page.get_by_role("status").text_content() == "1 picture labelled."
    finally:
        page.close()
