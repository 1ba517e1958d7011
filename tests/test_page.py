"""The web page in a real browser: mouse, keyboard, phone and error cases."""

import io
import itertools
import json
import re
import shutil
import time
import urllib.request
from pathlib import Path

import cv2
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import expect

import lookalike
from browser import (
    LARGE_PHONE,
    PHONE,
    SHOTS,
    WIDE,
    cut,
    go,
    name_faults,
    needs_browser,
    shoot,
    wait_until_idle,
)
from lookalike import Collection
from lookalike.images.demo import draw_folder
from lookalike.text import human_probability
from serving import running

pytestmark = needs_browser

MANY = 10  # pictures of each kind
TABLET = 861  # pixels: the narrowest window with the navigation at the top
STATIC = Path(lookalike.__file__).parent / "server" / "static"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Synthetic pictures, with one identical copy and one copy saved at another size."""
    folder = tmp_path_factory.mktemp("page") / "pictures"
    draw_folder(folder, per_kind=MANY)
    shutil.copy(folder / "face" / "face-000.jpg", folder / "face" / "copy.jpg")
    small = cv2.resize(cv2.imread(str(folder / "face" / "face-001.jpg")), (240, 180), interpolation=cv2.INTER_AREA)
    cv2.imwrite(str(folder / "face" / "small.jpg"), small)
    return folder


@pytest.fixture(scope="module")
def address(folder, read_here):
    with Collection(folder.parent / "demo.lookalike", create=True) as collection:
        collection.add(folder, recipes=["color"])
        collection.classes.add("house", [folder / "house" / f"house-00{i}.jpg" for i in range(3)])
        collection.classes.add("night", [folder / "night" / f"night-00{i}.jpg" for i in range(3)])
        collection.classes.predict()
    with running(folder.parent / "demo.lookalike", roots=(folder,)) as service:
        yield service.address


def items(address, **query):
    """List items through the API."""
    text = "&".join(f"{name}={value}" for name, value in query.items())
    with urllib.request.urlopen(f"{address}/api/v1/items?{text}") as answer:
        return json.load(answer)["items"]


def first(address, kind):
    return items(address, path=f"*/{kind}-000.jpg")[0]


def names(page, lane):
    """The file names of the pictures in a lane."""
    tiles = page.locator(f"{lane} [data-focus]")
    return [label.split(",")[0] for label in tiles.evaluate_all("all => all.map(one => one.ariaLabel)")]


def place(page):
    """The current address."""
    return page.evaluate("location.hash")


def part(page):
    """The selected part of the picture, from the address."""
    return [float(share) for share in place(page).split("box=")[1].split(",")]


def wait_until_drawn(page):
    """Wait until the canvas has its size."""
    page.wait_for_function("() => { const one = document.querySelector('canvas'); return one && one.width !== 300; }")


def heading(page, text):
    expect(page.locator("main h1")).to_have_text(text)


def imports(name):
    """The modules that a module imports statically, including itself."""
    found, new = set(), {name}
    while new:
        found |= new
        text = "".join((STATIC / one).read_text() for one in new)
        new = set(re.findall(r'^(?:import|\}) .*from "\./(.+)";', text, re.MULTILINE)) - found
    return found


def test_the_page_is_small_and_loads_nothing_from_elsewhere():
    files = {path.name: path.read_text() for path in STATIC.iterdir()}
    assert not re.findall(r"style=|<style|<script>| on\w+=", files["index.html"])  # the policy allows nothing inline
    elsewhere = [re.findall(r"https?://[^\"' ]+", text) for text in files.values()]
    assert {url for urls in elsewhere for url in urls} == {"http://www.w3.org/2000/svg"}  # an XML namespace
    preloaded = set(re.findall(r'modulepreload" href="/(.+?)"', files["index.html"]))
    assert preloaded == imports("main.js") - {"main.js"}  # loaded in parallel, not one after the other
    lazy = {name for text in files.values() for name in re.findall(r'import\("\./(.+?)"\)', text)} & set(files)
    used = set().union(*(imports(name) for name in ["main.js", *lazy]))
    shared = {name for name in files if not name.endswith(".js")} | {"theme.js"} | imports("main.js")
    for view in lazy:
        assert sum(len(files[name]) for name in shared | imports(view)) <= 250_000  # bytes, not compressed
    assert {name for name in files if name.endswith(".js")} == used | {"theme.js"}


def test_first_visit_shows_the_collection(site, address):
    page = site.visit()
    expect(page.locator("main h1")).to_have_text("demo")
    expect(page.locator("header.lead")).to_contain_text(f"{len(items(address, limit=1000))} pictures · ")
    expect(page.locator(".grid")).to_have_role("grid")
    expect(page.locator(".grid a.pic").first).to_be_visible()
    expect(page.get_by_role("combobox", name="Search by words")).to_be_visible()
    wait_until_idle(page)
    shoot(page, "start-light")


def test_an_empty_collection_offers_to_add_pictures(site, address):
    page = site.visit("jobs")
    about = json.load(urllib.request.urlopen(f"{address}/api/v1/collection"))
    page.route("**/api/v1/collection", lambda route: route.fulfill(json=about | {"items": 0, "spaces": []}))
    page.route("**/api/v1/items?*", lambda route: route.fulfill(json={"total": 0, "offset": 0, "items": []}))
    page.reload()
    go(page, "map")
    expect(page.locator(".empty")).to_have_text("There are no pictures to show yet.")
    go(page, "")
    expect(page.locator(".empty")).to_contain_text("This collection is empty.")
    assert re.split(r"\n+", page.locator("main").inner_text())[2:] == [
        "This collection is empty. Add a folder, or upload pictures.",
        "Add pictures",
    ]


def test_the_first_pictures_need_only_two_api_requests(site):
    """Before the first thumbnails, the page requests its own files, the collection, and the first page of items.

    The time depends on the machine and is not asserted; it is written to page-shots/first-pictures.txt.
    """
    page = site.visit("jobs")
    asked = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(site.address)))
    page.goto("/")
    page.locator(".grid a.pic img.there").first.wait_for()
    (SHOTS / "first-pictures.txt").write_text(f"{page.evaluate('performance.now()') / 1000:.2f} s\n")
    api = [url for url in asked if url.startswith("/api/")]
    before = itertools.takewhile(lambda url: "thumbnail" not in url, api)
    needed = [url.split("?")[0] for url in before if not url.endswith(("/events", "/jobs"))]
    assert needed[:2] == ["/api/v1/collection", "/api/v1/items"]
    assert set(needed[2:]) <= {"/api/v1/classes"}  # names for the search box, loaded in the background
    assert {url.strip("/") for url in asked[: asked.index(api[0])]} <= {"", *(path.name for path in STATIC.iterdir())}


def test_dropping_or_pasting_a_picture_searches_with_it(site, folder, tmp_path):
    page = site.visit()
    drop = """async ([name, bytes, how]) => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(bytes)], name, {type: "image/jpeg"}));
      if (how === "paste") return void dispatchEvent(new ClipboardEvent("paste", {clipboardData: data}));
      const event = {dataTransfer: data, bubbles: true, cancelable: true};
      for (const kind of ["dragenter", "dragover", "drop"]) document.body.dispatchEvent(new DragEvent(kind, event));
    }"""
    known = (folder / "flower" / "flower-003.jpg").read_bytes()
    page.evaluate(drop, ["mine.jpg", list(known), "drop"])
    heading(page, "Similar to this picture")
    expect(page.locator(".grid a.pic").first).to_have_attribute("aria-label", "flower-003.jpg, positive example")
    picture = cv2.imread(str(folder / "fish" / "fish-002.jpg"))[20:, 20:]
    page.evaluate(drop, ["new.jpg", cv2.imencode(".jpg", picture)[1].tolist(), "paste"])  # not in the collection
    heading(page, "Similar to these pictures")
    expect(page.locator("#tray li")).to_have_count(2)
    wait_until_idle(page)
    shoot(page, "search-light")
    page.go_back()
    heading(page, "Similar to this picture")
    page.go_forward()
    heading(page, "Similar to these pictures")
    go(page, "search?words=night")
    page.evaluate(drop, ["mine.jpg", list(known), "drop"])
    heading(page, "“night”, similar to this picture")
    site.allowed.append("422")  # the browser logs the rejected request
    page.evaluate(drop, ["broken.jpg", list(b"not a picture"), "drop"])
    expect(page.locator(".note.problem")).to_be_visible()


def test_examples_are_collected_in_the_tray_and_kept_in_the_address(site, address):
    page = site.visit(f"item/{first(address, 'beach')['id']}")
    page.get_by_role("button", name="Add as positive", exact=True).click()
    expect(page.locator("#tray li.with")).to_have_count(1)
    go(page, f"item/{first(address, 'fish')['id']}?{place(page).split('?')[1]}")
    page.get_by_role("button", name="Add as negative", exact=True).click()
    expect(page.locator("#tray li.without")).to_have_count(1)
    page.locator("#tray").get_by_role("link", name="Search").click()
    heading(page, "Similar to this picture")
    assert all(name.startswith("beach") for name in names(page, ".grid")[: MANY // 2])
    page.reload()
    expect(page.locator("#tray li")).to_have_count(2)
    expect(page.locator("#tray").get_by_role("button", name="Start a session")).to_be_visible()
    page.get_by_role("button", name="Remove this negative example").click()
    expect(page.locator("#tray li")).to_have_count(1)
    page.get_by_role("button", name="Clear").click()
    heading(page, "demo")
    expect(page.locator("#tray")).to_be_hidden()


def test_words_and_enter_search_and_show_what_was_understood(site):
    page = site.visit()
    page.keyboard.press("/")
    page.keyboard.type("houses")
    page.keyboard.press("Enter")
    heading(page, "“houses”")
    expect(page.locator(".understood")).to_contain_text("houses: ")
    expect(page.locator(".understood")).to_contain_text("label house (")
    expect(page.locator(".understood")).to_contain_text(f"{MANY} paths")
    expect(page.locator("header.lead")).to_contain_text(f"The {MANY} best matches")
    expect(page.locator("main")).not_to_contain_text("similar")  # scores of words are not distances
    assert all(name.startswith("house") for name in names(page, ".grid"))
    expect(page.locator("#search")).to_have_value("houses")
    page.locator("#search").fill("night not face")
    page.locator(".search-box").get_by_role("button", name="Search", exact=True).click()
    heading(page, "“night”, not “face”")
    expect(page.locator("#search")).to_have_value("night not face")


def test_suggestions_complete_the_words_at_the_cursor(site):
    page = site.visit()
    field, options = page.locator("#search"), page.locator("#suggestions").get_by_role("option")
    field.fill(" night at beach")
    field.evaluate("field => field.setSelectionRange(0, 0)")
    page.keyboard.type("hous")
    expect(options).to_have_text(["house"])
    expect(field).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(field).to_have_attribute("aria-activedescendant", options.first.get_attribute("id"))
    page.keyboard.press("Enter")
    expect(field).to_have_value("house night at beach")
    expect(options).to_have_count(0)
    heading(page, "demo")  # Enter chose the suggestion and did not search
    field.fill("night not fi")
    field.press_sequentially("s")
    expect(options).to_have_text(["fish"])
    options.first.click()
    expect(field).to_have_value("night not fish")
    field.evaluate("field => { field.value = 'x'.repeat(201); }")  # a text from the address can be as long
    page.keyboard.press("ArrowDown")  # asks for no suggestions: the page would report that the server rejects the text
    field.fill("")
    field.press_sequentially("fi")
    expect(options).to_have_text(["fish"])
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    expect(field).to_have_value("fi")
    page.keyboard.press("ArrowDown")  # asks again
    options.first.click()
    expect(field).to_have_value("fish")
    page.keyboard.press("Enter")
    heading(page, "“fish”")


def test_unknown_words_are_shown_with_similar_words(site):
    page = site.visit("search?words=night+hause")
    line = page.locator(".understood li", has_text="hause")
    expect(line).to_contain_text("hause: unknown.")
    line.get_by_role("link", name="house", exact=True).click()
    heading(page, "“night house”")
    expect(page.locator(".understood")).not_to_contain_text("unknown")
    site.allowed.append("422")  # the browser logs the rejected search
    page.locator("#search").fill("hause")
    page.keyboard.press("Enter")
    expect(page.locator(".empty")).to_contain_text("'hause' is unknown")
    page.locator(".understood").get_by_role("link", name="house", exact=True).click()
    heading(page, "“house”")
    expect(page.locator(".grid a.pic")).to_have_count(MANY)


def test_words_are_examples_in_the_tray_and_in_the_address(site, address):
    page = site.visit(f"search?words=beach&with={first(address, 'fish')['id']}")
    heading(page, "“beach”, similar to this picture")
    tray = page.locator("#tray")
    expect(tray.locator("li")).to_have_count(2)
    tray.get_by_role("button", name="make “beach” negative").click()
    heading(page, "Similar to this picture, not “beach”")
    expect(tray.locator("li.without")).to_contain_text("not beach")
    assert not any(name.startswith("beach") for name in names(page, ".grid")[:MANY])
    tray.get_by_role("button", name="make “beach” positive").click()
    heading(page, "“beach”, similar to this picture")
    tray.get_by_role("button", name="Remove this positive example").click()
    heading(page, "“beach”")
    found = names(page, ".grid")
    copy = site.visit(place(page).removeprefix("#/"))  # the link repeats the search
    heading(copy, "“beach”")
    assert names(copy, ".grid") == found
    tray.get_by_role("button", name="Remove the words “beach”").click()
    heading(page, "Search")
    expect(tray).to_be_hidden()


def test_a_session_starts_from_words(site):
    page = site.visit("search?words=balloons&without_words=night")
    page.locator("#tray").get_by_role("button", name="Start a session").click()
    expect(page.locator(".judge .tile")).to_have_count(9)
    expect(page.get_by_label("Class name")).to_have_value("balloons")
    assert sum(name.startswith("balloons") for name in names(page, ".judge")) > 4
    expect(page.locator("#tray")).to_be_hidden()
    assert "words" not in place(page)
    expect(page.get_by_role("list", name="Started from").locator("li")).to_have_text(["“balloons”", "not “night”"])


def test_a_picture_lists_what_the_network_recognizes(site, address):
    item = first(address, "night")["id"]
    page = site.visit(f"item/{item}")
    expect(page.locator(".facts")).to_be_visible()
    expect(page.get_by_role("heading", name="Recognized")).to_have_count(0)  # this collection has no kinds
    shares = {"night": 0.71, "balloon": 0.1, "beacon": 0.07, "maze": 0.05, "comic book": 0.049}
    kinds = [{"name": name, "probability": share} for name, share in shares.items()]
    page.route("**/kinds", lambda route: route.fulfill(json=kinds))
    page.reload()
    expect(page.locator(".side section", has_text="Recognized").locator("li")).to_have_text(
        ["night 71 %", "balloon 10 %", "beacon 7 %", "maze 5 %"]
    )
    page.get_by_role("link", name="night 71 %").click()
    heading(page, "“night”")


def test_the_filter_offers_to_search_if_no_name_matches(site):
    page = site.visit()
    page.get_by_label("Filter by folder, file name or class").fill("house by night")
    page.keyboard.press("Enter")
    expect(page.locator(".empty")).to_contain_text("The filter compares names only")
    page.get_by_role("link", name="Search for “house by night”").click()
    heading(page, "“house by night”")
    assert "path" not in place(page)


def test_a_part_of_a_picture_is_selected_by_dragging_and_by_keys(site, address):
    page = site.visit(f"item/{first(address, 'flower')['id']}")
    sheet = page.locator(".sheet").bounding_box()
    page.mouse.move(sheet["x"] + sheet["width"] * 0.2, sheet["y"] + sheet["height"] * 0.3)
    page.mouse.down()
    page.mouse.move(sheet["x"] + sheet["width"] * 0.6, sheet["y"] + sheet["height"] * 0.8, steps=4)
    page.mouse.up()
    expect(page.locator(".part")).to_be_visible()
    box = part(page)
    assert box == pytest.approx([0.2, 0.3, 0.6, 0.8], abs=0.02)
    page.locator(".part").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowDown")
    assert part(page) == pytest.approx([box[0] + 0.02, box[1], box[2] + 0.02, box[3] + 0.02], abs=0.005)
    shoot(page, "part-light")
    page.keyboard.press("s")
    heading(page, "Similar to this picture")
    assert "@" in place(page)
    page.go_back()
    expect(page.locator(".part")).to_be_visible()


def test_a_new_user_gets_to_a_named_class_by_mouse(site, address):
    """At most 12 clicks and one minute from the first visit to a named class (it takes about four seconds)."""
    started = time.monotonic()
    page = site.visit()
    clicks = 0

    def click(target):
        nonlocal clicks
        target.click()
        clicks += 1

    page.locator("#search").fill("sunset")
    page.keyboard.press("Enter")
    heading(page, "“sunset”")
    click(page.locator(".grid a.pic").first)
    click(page.locator(".doing").get_by_role("button", name="Start a session"))
    found = 1
    for _ in range(3):
        expect(page.locator(".judge .tile")).to_have_count(9)
        matches = page.locator('.judge [data-focus][aria-label^="sunset"]').count()
        fewer, more = ("No", "Yes") if matches > 4 else ("Yes", "No")
        for tile in page.locator(".judge .tile").all():
            if (tile.locator('[aria-label^="sunset"]').count() > 0) == (fewer == "Yes"):
                click(tile.get_by_role("button", name=f"{fewer}:"))
        click(page.get_by_role("button", name=f"{more} to the rest"))
        expect(page.get_by_role("button", name="No to the rest")).to_be_disabled()
        found += matches
        if found == MANY:
            break
        click(page.get_by_role("button", name="Next round"))
        expect(page.locator('.judge [data-mark="yes"], .judge [data-mark="no"]')).to_have_count(0)
        if page.get_by_role("button", name=f"Yes to these {MANY - found}").is_visible():
            click(page.get_by_role("button", name="Yes to these"))
            break
    shoot(page, "session-played")
    expect(page.locator(".gauge")).to_contain_text(f"you have found {MANY}", ignore_case=True)
    page.locator("[name=name]").fill("sunsets")
    click(page.get_by_role("button", name="Save as class"))
    heading(page, "sunsets")
    expect(page.locator("header.lead")).to_contain_text(f"{MANY} pictures")
    assert {item["name"][:6] for item in items(address, label="sunsets")} == {"sunset"}
    assert clicks <= 12
    assert time.monotonic() - started <= 60


def test_a_session_by_keyboard_only(site, address):
    page = site.visit(f"item/{first(address, 'forest')['id']}")
    page.keyboard.press("t")
    expect(page.locator(".judge .tile")).to_have_count(9)
    expect(page.locator(".judge [data-focus]").first).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator('.judge [data-mark="skip"]')).to_have_count(1)
    page.keyboard.press("u")
    expect(page.locator('.judge [data-mark="skip"]')).to_have_count(0)
    for number in (1, 2):
        expect(page.locator(".timer")).to_contain_text(f"Round {number}")
        for name in names(page, ".judge"):
            page.keyboard.press("y" if name.startswith("forest") else "n")
        expect(page.locator('.judge [data-mark="none"]')).to_have_count(0)
        page.keyboard.press("Enter")  # the focus is on "Next round"
        expect(page.locator(".timer")).to_contain_text(f"Round {number + 1}")
    page.keyboard.press("w")
    expect(page.get_by_role("dialog")).to_contain_text("Most similar pictures you marked yes")
    shoot(page, "why-light")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".judge [data-focus]").nth(3)).to_be_focused()
    page.reload()  # the same questions, not a new round
    expect(page.locator(".timer")).to_contain_text("Round 3")
    for _ in range(30):
        if page.locator("[name=name]").evaluate("field => field === document.activeElement"):
            break
        page.keyboard.press("Shift+Tab")
    page.keyboard.type("forests")
    page.keyboard.press("Enter")
    heading(page, "forests")
    assert {item["name"][:6] for item in items(address, label="forests")} == {"forest"}


def test_a_session_keeps_every_mark_and_shows_its_history(site, address):
    page = site.visit(f"item/{first(address, 'fish')['id']}")
    page.get_by_role("button", name="Start a session").click()
    expect(page.locator(".judge .tile")).to_have_count(9)
    page.locator(".judge .answers .yes").first.click()
    page.locator(".judge .answers .no").nth(1).click()
    page.locator(".judge [data-focus]").first.click()  # the second click: no
    expect(page.locator('.judge [data-mark="no"]')).to_have_count(2)
    page.get_by_text("Answers so far").click()
    expect(page.locator(".log li")).to_have_count(4)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator('.judge [data-mark="yes"]')).to_have_count(1)
    page.reload()
    expect(page.locator('.judge [data-mark="yes"]')).to_have_count(1)
    expect(page.locator('.judge [data-mark="no"]')).to_have_count(1)
    go(page, "sessions")
    page.get_by_role("link", name="Untitled").first.click()
    expect(page.locator('.judge [data-mark="yes"]')).to_have_count(1)


ANSWER_LATE = """() => {
  const send = window.fetch;
  window.fetch = (...request) => new Promise((done) => setTimeout(done, 300)).then(() => send(...request));
}"""


def test_suggestions_of_a_class_are_confirmed_and_rejected(site, address):
    page = site.visit("classes")
    page.locator(".card", has_text="house").click()
    heading(page, "house")
    shown = names(page, ".suggested")
    assert len(shown) > 2
    expect(page.locator(".suggestions .lane-head")).to_contain_text("Few examples so far")
    expect(page.locator(".suggested .sure")).to_have_count(0)  # no probabilities with only two classes
    page.locator(".suggested .answers .yes").first.click()
    expect(page.locator(".suggested .tile")).to_have_count(len(shown) - 1)
    expect(page.locator(".suggested .answers .yes")).to_have_count(len(shown) - 1)
    page.evaluate(ANSWER_LATE)
    page.locator(".suggested [data-focus]").first.focus()
    page.keyboard.press("n")
    expect(page.locator(".suggested .tile")).to_have_count(len(shown) - 2)
    expect(page.locator(".suggested [data-focus]").first).to_be_focused()
    page.keyboard.press("n")
    page.keyboard.press("Control+z")  # undoes a rejection that is still on its way, not the confirmation
    expect(page.locator(".note")).to_contain_text("Undid")
    expect(page.locator(".suggested [data-focus]:focus")).to_have_count(1)
    now = [item["name"] for item in items(address, label="house")]
    assert shown[0] in now
    assert shown[1] not in now
    page.reload()
    expect(page.locator("header.lead")).to_contain_text("4 pictures")


def test_probabilities_are_never_shown_as_certain(site, address):
    """The page never shows 0 or 100 %, even if the model predicts a probability of 0 or 1."""
    page = site.visit("jobs")
    about = json.load(urllib.request.urlopen(f"{address}/api/v1/collection"))
    page.route("**/api/v1/collection", lambda route: route.fulfill(json=about | {"classes": 9, "labelled": 900}))
    item = first(address, "flower")

    def sure(route):
        predicted = [{"item": item, "probability": share} for share in (1.0, 0.994, 0.8, 0.0)]
        route.fulfill(json={"name": "house", "pictures": 3, "parents": [], "predicted": predicted})

    page.route("**/api/v1/classes/one?*", sure)
    page.goto(f"{address}/#/class/house")
    page.reload()  # reads the faked collection
    expect(page.locator(".suggested .sure")).to_have_text(["over 99 %", "over 99 %", "80 %", "under 1 %"])
    shares = [n / 400 for n in range(401)]
    shown = page.evaluate("async (all) => all.map((await import('/format.js')).likely)", shares)
    assert shown == [human_probability(share) for share in shares]  # as on the command line
    expect(page.locator(".suggestions .lane-head")).to_contain_text("Most likely first.")


def test_a_class_is_created_from_a_picture_renamed_and_deleted(site, address):
    odd = "50 % + / & co? <b>#1</b>"
    page = site.visit(f"item/{first(address, 'balloons')['id']}")
    field = page.get_by_label("Add to a class")
    names = page.locator(f"#{field.get_attribute('list')} option")
    expect(names.and_(page.locator("[value=night]"))).to_be_attached()  # a suggestion
    field.fill("party")
    page.keyboard.press("Enter")
    page.locator(".chips").get_by_role("link", name="party").click()
    heading(page, "party")
    page.get_by_text("Edit class").click()
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("New name").fill(odd)
    page.keyboard.press("Enter")
    heading(page, odd)
    page.get_by_text("Edit class").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    heading(page, "Classes")
    expect(page.locator(".card", has_text="50")).to_have_count(0)


def test_duplicates_are_shown_in_tiers(site, folder):
    page = site.visit("duplicates")  # opens the first type with groups
    expect(page.locator(".group")).to_have_count(1)  # found by a job, shown when it has finished
    expect(page.locator(".group .path")).to_have_text(
        [str(folder / "face" / name) for name in ("copy.jpg", "face-000.jpg")]
    )
    expect(page.locator(".tabs a")).to_have_text(["Identical 1", "Same photo 1", "Edited copy", "Similar"])
    page.get_by_role("link", name="Similar").click()
    expect(page.locator('.tabs [aria-current="true"]')).to_contain_text("Similar")
    expect(page.locator(".group, .empty").first).to_be_visible()
    page.go_back()
    expect(page.locator('.tabs [aria-current="true"]')).to_have_text("Identical 1")
    expect(page.locator(".group")).to_have_count(1)
    expect(page.locator(".group input")).to_have_count(0)  # one picture with two paths: nothing to mark
    page.get_by_text("Export").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Table (CSV)").click()
    assert download.value.suggested_filename == "duplicates.csv"
    assert download.value.path().read_text().count("face-000.jpg") == 1


def test_selected_duplicates_are_removed_after_confirmation(site, address):
    page = site.visit("jobs")
    both = [first(address, "face"), first(address, "beach") | {"width": 160, "height": 120, "bytes": 900}]
    job = {"id": "77", "kind": "remove", "state": "running", "done": 0, "total": None, "message": ""}
    asked = []

    def groups(route):
        group = {"id": "same-1", "tier": "same", "why": "the same photo", "items": both, "distances": [0, 0.1]}
        captions = ["largest", "smaller copy, 25 % of the pixels"]
        group["relations"] = [{"caption": caption, "box": None, "mirrored": False} for caption in captions]
        group["keep"] = both[0]["id"]
        found = [] if asked else [group]
        route.fulfill(json={"total": len(found), "offset": 0, "groups": found, "current": True, "job": None})

    def submit(route):
        asked.append(route.request.post_data_json)
        route.fulfill(status=202, json=job)

    page.route("**/api/v1/duplicates?*", groups)
    copies = {"items": [both[1]["id"]], "n_groups": 1, "bytes": 900}
    page.route("**/api/v1/duplicates/copies", lambda route: route.fulfill(json=copies))
    page.route("**/api/v1/jobs", lambda route: submit(route) if route.request.method == "POST" else route.fallback())
    done = job | {"state": "done", "message": "1 removed from the collection. Their files are kept."}
    page.route("**/api/v1/jobs/77", lambda route: route.fulfill(json=done))
    go(page, "duplicates?tier=same")
    box = page.get_by_label("Select beach-000.jpg")
    remove = page.get_by_role("button", name="Remove from the collection")
    expect(remove).to_be_hidden()
    expect(page.locator(".size").first).to_contain_text("Largest320 × 240")
    expect(page.locator(".size").last).to_have_text("Smaller copy, 25 % of the pixels160 × 120900 bytes")
    largest = page.locator(".group input").first
    largest.check()
    expect(box).to_be_disabled()  # the last copy
    page.get_by_role("button", name="Select the copies").click()
    expect(box).to_be_checked()
    expect(largest).to_be_disabled()
    expect(page.locator(".take-out")).to_contain_text("1 picture selected")
    shoot(page, "duplicates-marked-light")
    remove.click()
    expect(page.get_by_role("dialog")).to_contain_text("no files are deleted")
    shoot(page, "duplicates-confirm-light")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not asked
    remove.click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator(".empty")).to_contain_text("No copies of the same photo")  # reloaded when the job has finished
    assert asked == [{"kind": "remove", "items": [both[1]["id"]]}]


def test_a_session_is_deleted_after_confirmation(site, address):
    session = create(address, "sessions", examples=[{"id": first(address, "balloons")["id"]}])
    page = site.visit("sessions")
    card = page.locator("li", has=page.locator(f'a[href*="session/{session}"]'))
    card.get_by_role("button", name="Delete the session").click()
    expect(page.get_by_role("dialog")).to_contain_text("Delete the session (untitled) with 1 answer?")
    shoot(page, "sessions-confirm-light")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(card).to_have_count(0)
    assert session not in json.dumps(json.load(urllib.request.urlopen(f"{address}/api/v1/sessions")))


def test_arrow_keys_move_from_the_page_into_its_pictures(site):
    page = site.visit()
    tiles = page.locator(".grid [data-focus]")
    expect(tiles.nth(1)).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(tiles.first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(tiles.nth(1)).to_be_focused()


def test_not_duplicates_is_remembered(site):
    page = site.visit("duplicates?tier=same")
    group = page.locator(".group", has=page.get_by_label("small.jpg"))
    expect(group.locator("[data-focus]")).to_have_count(2)
    assert {name.split(".")[0] for name in names(page, ".group")} >= {"small", "face-001"}
    group.get_by_role("button", name="Not duplicates").click()
    expect(group).to_have_count(0)
    page.reload()
    heading(page, "Duplicates")
    expect(page.locator(".follow")).to_have_count(0)
    expect(group).to_have_count(0)


def test_the_map_is_drawn_and_opens_a_picture(site):
    page = site.visit("map")
    canvas = page.locator("canvas").last
    expect(canvas).to_be_visible()  # computed by a job
    expect(page.locator("header.lead")).to_contain_text("pictures. Similar ones are close together.")
    wait_until_drawn(page)
    shoot(page, "map-light")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".map-card")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".large")).to_be_visible()
    page.go_back()
    wait_until_drawn(page)
    sheet = canvas.bounding_box()
    for x, y in [(x, y) for x in range(40, int(sheet["width"]) - 60, 40) for y in range(40, int(sheet["height"]), 40)]:
        page.mouse.move(sheet["x"] + x, sheet["y"] + y)
        if "aimed" in (canvas.get_attribute("class") or ""):
            page.mouse.down()
            page.mouse.up()
            break
    expect(page.locator(".large")).to_be_visible()


def test_pictures_are_added_with_progress(site, folder, tmp_path):
    draw_folder(tmp_path, per_kind=1, random_state=7)
    fresh = tmp_path / "flower" / "flower-000.jpg"
    page = site.visit("jobs")
    expect(page.locator("main")).to_contain_text("full access")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add pictures from this device").click()
    chooser.value.set_files(fresh)
    job = page.locator(".job", has_text="Adding pictures").first
    expect(job).to_contain_text("finished")
    job.get_by_text("Details (1 file)").click()
    expect(job.locator(".path")).to_have_text("flower-000.jpg new")
    shoot(page, "jobs-light")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add pictures from this device").click()
    chooser.value.set_files([fresh])
    expect(page.locator(".starters")).to_contain_text("Already in the collection: flower-000.jpg.")
    go(page, "?path=uploads")
    heading(page, "“uploads”")
    expect(page.locator(".grid a.pic")).to_have_count(1)
    go(page, "jobs")
    site.allowed.append("403")
    page.get_by_label("Folder on the server").fill(str(folder.parent))
    page.get_by_role("button", name="Add folder").click()
    expect(page.locator(".note.problem")).to_contain_text("isn't inside an allowed folder")


def test_broken_links_show_not_found(site):
    site.allowed.append("404")
    page = site.visit("nothing/at/all")
    heading(page, "Not found")
    for place in ("item/0000000000000000", "session/00000000", "class/no such class"):
        go(page, place)
        heading(page, "Not found")
    shoot(page, "not-found-light")
    page.get_by_role("link", name="Show all pictures").click()
    heading(page, "demo")


def test_the_page_reports_an_unreachable_server_and_reconnects(site):
    site.allowed.append("net::ERR_")
    page = site.visit()
    cut(page)
    go(page, "classes")
    heading(page, "Cannot reach the server")
    shoot(page, "unreachable-light")
    page.context.set_offline(False)
    heading(page, "Classes")


def test_a_mark_that_cannot_be_sent_is_reverted_with_a_message(site, address):
    site.allowed.append("net::ERR_")
    page = site.visit(f"item/{first(address, 'chart')['id']}")
    page.keyboard.press("t")
    expect(page.locator(".judge .tile")).to_have_count(9)
    cut(page)
    page.keyboard.press("y")
    expect(page.locator(".note.problem")).to_contain_text("Lookalike isn't running.")
    expect(page.locator('.judge [data-mark="yes"]')).to_have_count(0)
    page.context.set_offline(False)


def test_users_without_a_token_are_asked_to_log_in(site):
    site.allowed.append("401")
    page = site.visit()
    refusal = json.dumps({"error": {"kind": "token", "message": "Give a token.", "field": None}})
    asked = []

    def answer(route):
        asked.append(route.request.post_data_json)
        route.fulfill(status=200 if "good" in str(asked[-1]) else 401, body=refusal, content_type="application/json")

    page.route("**/api/v1/login", answer)
    page.route(
        "**/api/v1/classes",
        lambda route: route.fulfill(status=401, body=refusal) if len(asked) < 2 else route.fallback(),
    )
    go(page, "classes")
    heading(page, "Log in")
    page.get_by_label("Token").fill("bad")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("Give a token.")
    shoot(page, "login-light")
    page.get_by_label("Token").fill("good")
    page.keyboard.press("Enter")
    heading(page, "Classes")
    assert [one["token"] for one in asked] == ["bad", "good"]


def test_a_grid_of_a_hundred_thousand_holds_few_elements(site, address):
    page = site.visit("jobs")
    known = [item | {"labels": []} for item in items(address, limit=200)]  # labels would be part of the names

    def many(route):
        query = dict(pair.split("=") for pair in route.request.url.split("?")[1].split("&"))
        start = int(query["offset"])
        cut = [known[(start + i) % len(known)] | {"name": f"no. {start + i}"} for i in range(min(200, 100_000 - start))]
        route.fulfill(json={"total": 100_000, "offset": start, "items": cut})

    page.route("**/api/v1/items?*", many)
    go(page, "")
    expect(page.get_by_label("no. 0", exact=True)).to_be_visible()
    page.locator(".grid [data-focus]").first.focus()
    expect(page.get_by_label("no. 0", exact=True)).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_label("no. 99999", exact=True)).to_be_focused()
    assert page.locator(".grid [role=row]").count() < 30
    seen = page.evaluate("scrollY") - 30_000
    page.mouse.wheel(0, -30_000)
    page.wait_for_function("y => Math.abs(scrollY - y) < 1 && history.state?.y === scrollY", arg=seen)
    name = page.locator(".grid a.pic >> visible=true").nth(20).get_attribute("aria-label")
    page.unroute("**/api/v1/items?*")
    page.get_by_label(name, exact=True).click()
    expect(page.locator(".large")).to_be_visible()
    page.route("**/api/v1/items?*", many)
    page.go_back()
    expect(page.get_by_label(name, exact=True)).to_be_visible()
    assert abs(page.evaluate("scrollY") - seen) < 400


def test_filters_are_stored_in_the_address(site):
    page = site.visit("?path=night")
    heading(page, "“night”")
    expect(page.locator("header.lead")).to_contain_text(f"{MANY} of")
    expect(page.locator("#labels option").first).to_be_attached()  # the class names are loaded
    page.get_by_label("Filter by folder, file name or class").fill("night")
    page.keyboard.press("Enter")  # “night” is a class
    heading(page, "Class night")
    expect(page.locator("header.lead")).to_contain_text("3 of")
    page.get_by_label("Size").select_option("2000")
    expect(page.locator(".empty")).to_contain_text("No pictures match")
    page.go_back()
    expect(page.locator("header.lead")).to_contain_text("3 of")  # the heading is the same with and without the size
    page.get_by_text("Export").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="List of paths").click()
    assert len(download.value.path().read_text().split()) == 3
    page.get_by_role("link", name="Clear filters").click()
    heading(page, "demo")


def test_the_theme_follows_the_system_or_the_switch(site):
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = site.visit(), site.visit(theme="dark")
    assert light.evaluate(ground) != dark.evaluate(ground)
    light.get_by_role("button", name="Switch to dark theme").click()
    assert light.evaluate(ground) == dark.evaluate(ground)
    light.reload()
    light.locator("main h1").wait_for()
    assert light.evaluate(ground) == dark.evaluate(ground)
    wait_until_idle(dark)
    shoot(dark, "start-dark")
    dark.emulate_media(color_scheme="light")  # without a stored choice, the page follows the system
    expect(dark.locator("html")).to_have_attribute("data-theme", "light")
    light.emulate_media(color_scheme="light")
    expect(light.locator("html")).to_have_attribute("data-theme", "dark")


def test_question_mark_opens_the_list_of_keys(site):
    page = site.visit()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("yes, this is a match")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("?")  # typed into the field
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator(".grid [data-focus]").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".large")).to_be_visible()
    page.keyboard.press("Escape")
    heading(page, "demo")


VIEWS = {  # view: its address, and an element that is visible once it has loaded
    "start": ("", ".grid img.there"),
    "item": ("item/{id}?with={other}", ".strip img.there"),
    "search": ("search?with={id}&without={other}", ".grid img.there"),
    "words": ("search?words=night+elefant&with={id}&without_words=house", ".grid img.there"),
    "sessions": ("sessions", ".card img"),
    "session": ("session/{session}", ".judge img.there"),
    "saved": ("saved/{saved}", ".grid img.there"),
    "compare": ("compare?id={id}&id={other}", ".pane img"),
    "classes": ("classes", ".card img"),
    "class": ("class/house?without={other}", ".grid img.there"),
    "duplicates": ("duplicates?tier=identical", ".group"),
    "map": ("map", "canvas"),
    "jobs": ("jobs", ".starters"),
    "history": ("history", ".history li"),
    "nothing": ("nothing", ".notice"),
}


def create(address, what, **body):
    """Create a session or a saved search through the API; return its id."""
    headers = {"Content-Type": "application/json", "X-Lookalike": "1"}
    request = urllib.request.Request(f"{address}/api/v1/{what}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["id"]


@pytest.fixture(scope="module")
def places(address):
    """The addresses of all views."""
    known = {"id": first(address, "beach")["id"], "other": first(address, "fish")["id"]}
    known["session"] = create(address, "sessions", examples=[{"id": known["id"]}])
    known["saved"] = create(address, "saved", name="By night", words=["night"])
    return {view: (place.format(**known), ready) for view, (place, ready) in VIEWS.items()}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_is_accessible(site, places, theme):
    """axe-core reports no violations, and no two controls that do different things have the same name.

    In the dark theme, only contrast is checked: nothing else differs.
    """
    rules = {"resultTypes": ["violations"]} | ({"runOnly": ["color-contrast"]} if theme == "dark" else {})
    page = site.visit(theme=theme, size=WIDE)
    page.evaluate(Axe().axe_script)  # once: links do not reload the page
    found = []

    def check(view):
        answer = page.evaluate("rules => axe.run(document, rules)", rules)
        assert answer["passes"]  # the rules did run
        for violation in answer["violations"]:
            found.extend(f"{view}: {violation['id']}: {node['html'][:150]}" for node in violation["nodes"])

    for view, (place, ready) in places.items():
        go(page, place)
        page.locator(ready).first.wait_for()
        wait_until_idle(page)
        shoot(page, f"{view}-{theme}")
        for width in (TABLET, WIDE[0]):
            page.set_viewport_size({"width": width, "height": WIDE[1]})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        check(view)
        if theme == "light":
            found.extend(f"{view}: {fault}" for fault in name_faults(page))
    page.keyboard.press("?")
    check("keys")
    assert not found, "\n".join(found)


SMALL = """() => {
  const shown = (one) => one.checkVisibility({opacityProperty: true, visibilityProperty: true});
  const all = [...document.querySelectorAll("button, a, input:not([type=file]), select, summary")];
  const targets = all.filter((one) => shown(one) && !one.closest(".skip, [aria-hidden], p, label"));
  const sides = (one) => [one.getBoundingClientRect().width, one.getBoundingClientRect().height];
  const small = targets.filter((one) => Math.min(...sides(one)) < 39.5);
  return small.map((one) => `${one.outerHTML.slice(0, 120)} ${sides(one)}`);
}"""


CUT = """() => {
  const pen = document.createElement("canvas").getContext("2d");
  const needed = (one) => ((pen.font = getComputedStyle(one).font), pen.measureText(one.selectedOptions[0].text).width);
  const cut = [...document.querySelectorAll("select")].filter((one) => one.clientWidth < needed(one) + 32);
  return cut.map((one) => `${one.selectedOptions[0].text} in ${one.clientWidth}`);
}"""
"""Selects that are too narrow for their text."""

STRIP = """() => {
  const side = (name, end) => document.querySelector(name)?.getBoundingClientRect()[end];
  const foot = side("#tray:not([hidden])", "bottom") ?? side(".acts", "bottom");
  return foot === undefined ? 0 : side(".top nav", "top") - foot;
}"""
"""The gap in pixels between the bars at the bottom."""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_fits_phones_and_has_large_touch_targets(site, places, theme):
    page = site.visit(size=LARGE_PHONE, theme=theme, touch=True)

    def two_spaces(route):
        about = route.fetch().json()
        route.fulfill(json=about | {"spaces": [*about["spaces"], {"name": "deep", "about": ""}]})

    job = {"id": "99", "kind": "fit", "state": "running", "done": 0, "total": None, "message": ""}
    page.route("**/api/v1/jobs", lambda route: route.fulfill(json={"jobs": [job]}))  # the header shows that it runs
    page.route("**/api/v1/collection", two_spaces)
    page.reload()
    for view, (place, ready) in places.items():
        go(page, place)
        page.locator(ready).first.wait_for()
        wait_until_idle(page)
        shoot(page, f"{view}-phone-{theme}")
        for width, height in (LARGE_PHONE, PHONE):
            page.set_viewport_size({"width": width, "height": height})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view
            assert not page.evaluate(SMALL), view
            assert not page.evaluate(CUT), view
            assert abs(page.evaluate(STRIP)) < 0.6, view
        page.set_viewport_size({"width": LARGE_PHONE[0], "height": LARGE_PHONE[1]})


@pytest.mark.parametrize("way", ["mouse", "touch", "keys"])
def test_all_views_can_be_reached_by_mouse_touch_and_keys(site, way):
    page = site.visit(size=LARGE_PHONE if way == "touch" else WIDE, touch=way == "touch")
    for name in ("Sessions", "Classes", "Duplicates", "Map", "Jobs", "Pictures"):
        target = page.get_by_role("navigation", name="Views").get_by_role("link", name=name)
        if way == "keys":
            page.locator("#skip").focus()  # the first control
            while not target.evaluate("one => one === document.activeElement"):
                page.keyboard.press("Tab")
            page.keyboard.press("Enter")
        else:
            (target.tap if way == "touch" else target.click)()
        expect(page.locator("main h1")).to_have_text("demo" if name == "Pictures" else name)
        expect(target).to_have_attribute("aria-current", "page")


def test_a_session_on_a_phone(site, address):
    page = site.visit(f"item/{first(address, 'night')['id']}", size=PHONE, touch=True)
    page.get_by_role("button", name="Start a session").tap()
    expect(page.locator(".judge .tile")).to_have_count(9)
    page.locator(".judge .answers .yes").first.tap()
    page.get_by_role("button", name="No to the rest").tap()
    expect(page.locator('.judge [data-mark="no"]')).to_have_count(8)
    page.get_by_role("button", name="Next round").tap()
    expect(page.locator(".timer")).to_contain_text("Round 2")


def test_portrait_pictures_fit_their_tiles(site):
    page = site.visit("jobs")
    upright = io.BytesIO()
    Image.new("RGB", (60, 240), "teal").save(upright, "JPEG")
    page.route("**/thumbnail*", lambda route: route.fulfill(body=upright.getvalue(), content_type="image/jpeg"))
    go(page, "")
    expect(page.locator(".grid img.there").first).to_be_visible()
    heights = page.evaluate(
        "[...document.querySelectorAll('.grid .row')].map(row => [row.clientHeight,"
        " ...[...row.querySelectorAll('.cell, .pic, img')].map(one => one.getBoundingClientRect().height)])"
    )
    assert heights
    for row, *inside in heights:
        assert max(inside) <= row + 1
