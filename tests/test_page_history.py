"""Undo and the history on the web page, and the dialogs that ask before something is removed."""

import json
import re
import shutil
import urllib.request

import pytest
from playwright.sync_api import expect

from browser import go, needs_browser
from lookalike import Collection
from serving import running
from waiting import until

pytestmark = needs_browser

OLD = 60  # changes before the tests, more than one page of the history


@pytest.fixture(scope="module")
def address(shared, pictures, tmp_path_factory):
    folder = shutil.copytree(shared("color"), tmp_path_factory.mktemp("history") / "demo.lookalike")
    with Collection(folder) as collection:
        for i in range(OLD):
            collection.classes.add(f"old {i}", author="ada")
        for kind in ("house", "night"):
            collection.classes.add(kind, [pictures / kind / f"{kind}-00{i}.jpg" for i in range(2)])
        collection.classes.predict()
    with running(folder) as service:
        yield service.address


def ask(address, path, body=None):
    """Send a request to the API."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "X-Lookalike": "1"}
    with urllib.request.urlopen(urllib.request.Request(f"{address}/api/v1{path}", data, headers)) as answer:
        return json.load(answer)


def test_changes_are_undone_from_their_message_and_with_ctrl_z(site, address):
    page = site.visit("class/house")
    size, note = page.locator("header.lead .quiet"), page.locator(".note")
    all_shown = page.get_by_role("button", name="Yes to all")
    n = page.locator(".suggested .tile").count()
    assert n > 1
    expect(all_shown).to_have_text(f"Yes to all {n} shown")
    all_shown.click()
    expect(size).to_have_text(f"{2 + n} pictures")
    expect(note).to_contain_text(f"Confirmed {n} pictures.")
    note.get_by_role("button", name="Undo").click()
    expect(size).to_have_text("2 pictures")
    expect(all_shown).to_have_text(f"Yes to all {n} shown")
    note.get_by_role("button", name="Redo").click()
    expect(size).to_have_text(f"{2 + n} pictures")
    page.locator("body").press("Control+z")  # undoes what was redone
    expect(size).to_have_text("2 pictures")

    menu = page.get_by_text("Edit class")
    for close in (lambda: page.keyboard.press("Escape"), page.locator("main h1").click):
        menu.click()
        expect(page.get_by_role("button", name="Delete")).to_be_visible()
        close()
        expect(page.get_by_role("button", name="Delete")).to_be_hidden()
    menu.click()
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Delete the class house with 2 labels?")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    expect(dialog.get_by_role("button", name="Delete")).not_to_have_class(re.compile("main"))
    page.keyboard.press("Control+z")  # not in a dialog
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(menu).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.locator("main h1")).to_have_text("Classes")
    page.keyboard.press("Control+z")
    expect(page.locator("main h1")).to_have_text("house")  # not a class that is missing
    expect(size).to_have_text("2 pictures")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    expect(page.locator(".note", has_text="Nothing to undo")).to_have_count(1)


def test_double_clicks_and_repeated_keys_change_things_once(site, address):
    page = site.visit("classes")
    notes, dialog = page.locator(".note"), page.get_by_role("dialog")
    page.get_by_role("button", name="New class").click()
    page.get_by_label("Class name").fill("twice")
    dialog.get_by_role("button", name="Create").dblclick()
    expect(page.locator("main h1")).to_have_text("twice")
    expect(notes).to_have_text(["Created the class twice.UndoClose"])
    page.get_by_text("Edit class").click()
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").dblclick()
    expect(page.locator("main h1")).to_have_text("Classes")
    expect(notes).to_have_text(["Deleted the class twice.UndoClose"])

    go(page, "class/night")
    size, tiles = page.locator("header.lead .quiet"), page.locator(".suggested .tile")
    n = tiles.count()
    page.locator(".suggested [data-focus]").first.focus()
    for _ in range(2):
        page.keyboard.press("y")  # each key confirms another picture
    expect(size).to_have_text("4 pictures")
    expect(tiles).to_have_count(n - 2)
    for _ in range(2):
        page.keyboard.press("Control+z")
    expect(size).to_have_text("2 pictures")

    page.locator(".grid a.pic").first.click()
    before = len(ask(address, "/sessions"))
    page.get_by_role("button", name="Start a session").dblclick()
    expect(page.locator(".judge .tile")).to_have_count(9)
    assert len(ask(address, "/sessions")) == before + 1
    page.locator("[name=name]").fill("from a session")
    page.get_by_role("button", name="Save as class").dblclick()
    expect(page.locator("main h1")).to_have_text("from a session")
    expect(notes.last).to_contain_text("Added 1 picture to the class from a session.")
    assert [one["text"] for one in ask(address, "/actions?limit=2")["actions"]] == [
        "Finished a session: added 1 picture to from a session",
        "Undid: confirmed night for 1 picture",
    ]


def test_a_change_that_cannot_be_undone_does_not_block_earlier_ones(site, address):
    site.allowed.append("409 (Conflict)")
    page = site.visit("jobs")
    for name in ("early", "late"):
        go(page, "classes")
        page.get_by_role("button", name="New class").click()
        page.get_by_label("Class name").fill(name)
        page.keyboard.press("Enter")
        expect(page.locator("main h1")).to_have_text(name)
    go(page, "jobs")
    ask(address, "/classes/rename", {"name": "late", "to": "later"})  # by another user
    page.keyboard.press("Control+z")
    expect(page.locator(".note.problem")).to_contain_text("Undo that one first.")
    page.keyboard.press("Control+z")
    expect(page.locator(".note")).to_contain_text(["Undo that one first.", "Undid: created the class early"])


def test_an_undo_message_stays_while_it_is_used(site, address):
    page = site.visit("classes")
    page.clock.install()
    page.get_by_role("button", name="New class").click()
    page.get_by_label("Class name").fill("brief")
    page.keyboard.press("Enter")
    note = page.locator(".note")
    expect(note).to_contain_text("Created the class brief.")
    expect(page.locator("main h1")).to_have_text("brief")  # a new view takes the focus
    page.clock.run_for(8_000)
    note.get_by_role("button", name="Undo").focus()
    page.clock.run_for(60_000)
    expect(note).to_be_visible()
    page.locator("main").focus()
    page.clock.run_for(20_000)
    expect(note).to_have_count(0)


def test_the_history_undoes_older_changes_and_explains_what_it_cannot_undo(site, address):
    item = ask(address, "/items?limit=1")["items"][0]["id"]
    ask(address, "/classes/add", {"name": "first", "items": [item]})
    ask(address, "/classes/rename", {"name": "first", "to": "second"})
    job = ask(
        address, "/jobs", {"kind": "remove", "items": [ask(address, "/items?path=*fish-001.jpg")["items"][0]["id"]]}
    )
    until(lambda: ask(address, f"/jobs/{job['id']}")["state"] == "done")
    site.allowed.append("409 (Conflict)")
    page = site.visit("classes")
    page.get_by_role("link", name="History").click()
    rows, note = page.locator(".history li"), page.locator(".note")
    renamed, added = rows.nth(1), rows.nth(2)  # the first is the removal
    expect(added).to_contain_text("Added 1 picture to first")
    expect(added.locator("img")).to_have_count(1)
    added.get_by_role("button").click()
    expect(note).to_contain_text("Undo that one first.")
    note.get_by_role("button", name="Close").click()
    renamed.get_by_role("button").click()
    expect(rows.nth(0)).to_contain_text("Undid: renamed the class first to second")
    expect(rows.nth(2)).to_contain_text(re.compile(r"It was already undone by action \d+\."))
    expect(rows.nth(2).get_by_role("button")).to_have_count(0)
    rows.nth(0).get_by_role("button", name="Redo").click()
    expect(rows.nth(0)).to_contain_text("Redid: renamed the class first to second")
    page.get_by_role("button", name="Removed 1 picture").click()
    expect(note.last).to_contain_text("Brought 1 picture back.")
    page.get_by_role("link", name="Older").click()
    expect(rows.last).to_contain_text("Created the class old 0")
    expect(rows.last).to_contain_text("ada")
    page.get_by_role("link", name="Newer").click()
    expect(rows.first).to_contain_text("Undid: removed 1 picture")
