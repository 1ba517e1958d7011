"""Tables out, vectors in: Arrow, pandas, Parquet, npy and the *vecs formats."""

import dataclasses
import datetime
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from lookalike import Collection, Filter
from lookalike.collection import tables
from lookalike.errors import InputError, MissingError, UnknownNameError
from lookalike.types import format_id, parse_id

pytestmark = pytest.mark.usefixtures("read_here")
KINDS = ("fish", "house")
UTC = datetime.UTC


@pytest.fixture
def ids(filled):
    return [item.id for item in filled.items()]


def rows(n, d=5):
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def write_parquet(file, **columns):
    pq.write_table(pa.table(columns), file)
    return file


def write_vecs(file, X, dtype):
    """Write a file of the TEXMEX datasets, value by value."""
    file.write_bytes(b"".join(np.int32(len(row)).tobytes() + np.asarray(row, dtype).tobytes() for row in X))
    return file


def as_lines(file, values):
    file.write_text("".join(f"{value}\n" for value in values))
    return file


def test_a_table_has_typed_columns_labels_predictions_and_vectors(filled, ids):
    filled.classes.add("fish", ids[:3])
    filled.classes.add("house", ids[4:6])
    filled.classes.predict()
    table = filled.to_arrow(vectors="plain")
    types = dict(zip(table.schema.names, table.schema.types, strict=True))
    assert types["taken_at"] == types["added_at"] == pa.timestamp("us", tz="UTC")
    assert types["labels"] == types["paths"] == pa.list_(pa.string())
    assert (types["iso"], types["latitude"], types["camera"]) == (pa.int32(), pa.float64(), pa.string())
    known, X = filled.vectors("plain")
    assert types["vector"] == pa.list_(pa.float32(), X.shape[1])
    row = table.slice(0, 1).to_pylist()[0]
    item = filled.get(ids[:1])[ids[0]]
    assert (row["id"], row["path"], row["width"], row["bytes"]) == (
        format_id(item.id), item.paths[0], item.width, item.bytes
    )  # fmt: skip
    assert (row["labels"], row["predicted"], row["taken_at"]) == (["fish"], None, None)
    assert row["added_at"] == datetime.datetime.fromtimestamp(item.added_at, UTC)
    np.testing.assert_array_equal(row["vector"], X[known == ids[0]][0])
    predictions = filled.predictions(ids)
    for one in table.to_pylist():
        guess = predictions.get(parse_id(one["id"]))
        assert (one["predicted"], one["probability"]) == (
            (None, None) if guess is None else (guess.label, guess.probability)
        )


def test_times_are_rounded_as_datetime_rounds_them(filled, ids, monkeypatch):
    seconds = 1795130079.1945674  # times 1e6, this is rounded up
    moved = [dataclasses.replace(item, added_at=seconds) for item in filled.items()]
    monkeypatch.setattr(tables, "items_in", lambda store, chosen: moved)
    added = filled.to_arrow().column("added_at").to_pylist()
    assert set(added) == {datetime.datetime.fromtimestamp(seconds, UTC)}


def test_exif_and_times_are_typed(collection, tmp_path):
    exif = Image.Exif()
    exif[0x0110] = "Lumix"
    exif.get_ifd(0x8769).update({0x9003: "2024:05:01 12:30:00", 0x8827: 200, 0x829D: 2.8})
    Image.new("RGB", (40, 30), "red").save(tmp_path / "a.jpg", exif=exif)
    collection.add(tmp_path / "a.jpg", recipes=["color"])
    (row,) = collection.to_arrow().to_pylist()
    assert (row["camera"], row["iso"], row["lens"], row["latitude"]) == ("Lumix", 200, None, None)
    assert row["aperture"] == pytest.approx(2.8)
    assert row["taken_at"] == datetime.datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
    (listed,) = json.loads("".join(collection.lines("json")))
    assert listed["taken_at"] == "2024-05-01T12:30:00+00:00"
    assert listed["id"] == row["id"]


def test_a_data_frame_has_the_ids_as_index(filled, ids):
    frame = filled.to_pandas(ids=[ids[2], ids[0]])
    assert frame.index.tolist() == [format_id(ids[2]), format_id(ids[0])]
    assert str(frame["added_at"].dtype).startswith("datetime64")
    assert len(filled.to_pandas(filter=Filter(label=None, labelled=True))) == 0


def test_parquet_is_written_in_row_groups_with_progress(filled, ids, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "GROUP_ROWS", 3)
    stages = []
    target = tmp_path / "out.parquet"
    n = filled.export(target, format="parquet", space="plain", progress=lambda *stage: stages.append(stage))
    file = pq.ParquetFile(target)
    assert (n, file.metadata.num_rows, file.num_row_groups) == (8, 8, 3)
    assert stages == [("exporting", done, 8) for done in (0, 3, 6, 8)]
    _known, X = filled.vectors("plain")
    np.testing.assert_array_equal(np.stack(file.read()["vector"].to_numpy(zero_copy_only=False)), X)
    assert file.schema_arrow.field("vector").metadata[b"lookalike.space"] == b"plain"
    assert "vector" not in pq.read_schema(export_without(filled, tmp_path)).names


def export_without(collection, folder):
    collection.export(folder / "plain.parquet", format="parquet")
    return folder / "plain.parquet"


def test_an_export_that_fails_leaves_the_file_that_was_there(filled, tmp_path):
    target = tmp_path / "out.parquet"
    target.write_text("old")

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        filled.export(target, format="parquet", progress=stop)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.parquet"]


def test_codes_are_lists_of_bytes(filled):
    filled.fit("itq(bits=16)")
    table = filled.to_arrow(vectors="itq")
    assert table.schema.field("vector").type == pa.list_(pa.uint8(), 2)
    np.testing.assert_array_equal(np.stack(table["vector"].to_numpy(zero_copy_only=False)), filled.vectors("itq")[1])


def test_without_pyarrow_the_error_names_the_extra(filled, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingError, match=r"pip install 'lookalike\[tables\]'"):
        filled.to_arrow()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingError, match=r"pandas.*pip install 'lookalike\[tables\]'"):
        filled.to_pandas()


def test_a_collection_works_without_pyarrow_and_pandas():
    code = "import sys; sys.modules |= {'pyarrow': None, 'pandas': None}; import lookalike.collection.collection"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_vectors_of_a_parquet_file_become_a_space(filled, ids, tmp_path):
    X = rows(8)
    report = filled.import_vectors(
        write_parquet(tmp_path / "v.parquet", id=[*map(format_id, ids), "7" * 16], embedding=[*X.tolist(), [0.0] * 5]),
        "mine",
    )
    assert (report.space, report.imported, report.dim, report.unknown) == ("mine", 8, 5, ["7" * 16])
    _known, found = filled.vectors("mine")
    np.testing.assert_array_equal(found, X[np.argsort(ids)])
    assert filled.search(ids[2], space="mine", k=1)[0].id == ids[2]
    assert filled.search(X[4] + 1e-3, space="mine", k=1)[0].id == ids[4]
    filled.fit("small = imported(name='mine', dim=5) | pca(dim=2)")
    assert filled.vectors("small")[1].shape == (8, 2)
    assert filled.glance()["spaces"]
    assert filled.verify() == []


def test_other_files_give_the_same_vectors(filled, ids, tmp_path):
    X = np.round(rows(8) * 10).clip(0)
    names = as_lines(tmp_path / "names.txt", map(format_id, ids))
    np.save(tmp_path / "ids.npy", np.array(ids))
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", ids=np.array([format_id(item) for item in ids]), vectors=X)
    files = {
        "npy": (tmp_path / "x.npy", tmp_path / "ids.npy"),
        "npz": (tmp_path / "x.npz", None),
        "fvecs": (write_vecs(tmp_path / "x.fvecs", X, "<f4"), names),
        "ivecs": (write_vecs(tmp_path / "x.ivecs", X, "<i4"), names),
        "bvecs": (write_vecs(tmp_path / "x.bvecs", X, "u1"), names),
    }
    for name, (file, which) in files.items():
        assert filled.import_vectors(file, name, ids=which).imported == 8
        np.testing.assert_array_equal(filled.vectors(name)[1], X[np.argsort(ids)])


def test_exported_vectors_can_be_imported_again(filled, tmp_path):
    for name in ("out.parquet", "out.npz"):
        filled.export(tmp_path / name, format=name.split(".")[1], space="plain")
        space = name.replace(".", "-")
        filled.import_vectors(tmp_path / name, space)
        np.testing.assert_array_equal(filled.vectors(space)[1], filled.vectors("plain")[1])


def test_paths_are_relative_to_the_file_and_copies_of_a_picture_count_once(collection, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    Image.new("RGB", (20, 20), "red").save(folder / "a.png")
    (folder / "b.png").write_bytes((folder / "a.png").read_bytes())
    collection.add(folder, recipes=["color"])
    file = write_parquet(tmp_path / "v.parquet", path=["photos/a.png", "photos/b.png"], vector=[[1.0, 2.0], [3.0, 4.0]])
    assert collection.import_vectors(file, "mine").imported == 1
    assert collection.vectors("mine")[1].tolist() == [[1, 2]]


def test_an_id_column_of_another_tool_is_not_mistaken_for_ids_of_items(filled, ids, tmp_path):
    paths = [filled.get([item])[item].paths[0] for item in ids[:2]]
    file = write_parquet(tmp_path / "v.parquet", id=["a-1", "a-2"], filepath=paths, vector=[[1.0], [2.0]])
    assert filled.import_vectors(file, "mine").imported == 2
    labels = write_parquet(tmp_path / "l.parquet", id=["a-1", "a-2"], file_name=paths, label=["x", "y"])
    assert filled.import_labels(labels).unknown == []


def test_new_pictures_are_added_without_imported_vectors(filled, ids, tmp_path):
    filled.import_vectors(
        write_parquet(tmp_path / "v.parquet", id=list(map(format_id, ids)), vector=rows(8).tolist()), "mine"
    )
    Image.new("RGB", (30, 30), "blue").save(tmp_path / "new.png")
    report = filled.add(tmp_path / "new.png")
    assert report.added == 1
    assert any("1 picture has no vector in space 'mine'" in note for note in report.notes)
    assert (len(filled), len(filled.space("mine")), len(filled.space("plain"))) == (9, 8, 9)
    new = filled.find(str(tmp_path / "new.png"))
    with pytest.raises(InputError, match="were imported"):
        filled.search(tmp_path / "new.png", space="mine")
    assert filled.to_arrow(ids=[new], vectors="mine")["vector"].to_pylist() == [None]
    more = write_parquet(tmp_path / "w.parquet", id=[format_id(new), format_id(ids[0])], vector=[[1.0] * 5, [2.0] * 5])
    assert filled.import_vectors(more, "mine").imported == 2
    assert len(filled.space("mine")) == 9
    assert filled.search(np.full(5, 2, np.float32), space="mine", k=1)[0].id == ids[0]  # replaced
    filled.remove(new)
    filled.undo()  # a picture without an imported vector comes back, too
    assert len(filled) == 9


def refused(collection, file, match, error=InputError, **options):
    before = collection.vectors("plain")[0].tolist(), [space.name for space in collection.spaces]
    with pytest.raises(error, match=match):
        collection.import_vectors(file, "mine", **options)
    assert (collection.vectors("plain")[0].tolist(), [space.name for space in collection.spaces]) == before


def test_errors_of_vector_files_name_the_row_and_import_nothing(filled, ids, tmp_path):
    names, file = list(map(format_id, ids[:3])), tmp_path / "v.parquet"
    X = rows(3).tolist()
    refused(
        filled, write_parquet(file, id=names, vector=[X[0], X[1], X[2][:4]]), r"row 3 of .* has 4 dimensions.*has 5"
    )
    refused(filled, write_parquet(file, id=[names[0], names[1], names[0]], vector=X), r"twice, in rows 1 and 3")
    refused(filled, write_parquet(file, id=names, vector=[X[0], [float("nan")] * 5, X[2]]), "row 2 .* NaN")
    refused(filled, write_parquet(file, name=names, vector=X), "no column that names the pictures.*id, path")
    refused(filled, write_parquet(file, id=names, a=X, b=X), "--column.* a, b")
    refused(filled, write_parquet(file, id=names, vector=X), "no column 'w' of vectors", column="w")
    refused(filled, write_parquet(file, id=["zz", "yy", "xx"], vector=X), "No picture .* first is 'zz'")
    refused(filled, write_parquet(file, id=names, vector=X), "contains the names", ids=file)
    refused(filled, as_lines(file, ["text"]), "Cannot read .* as a Parquet file")
    refused(filled, tmp_path / "none.npy", "does not exist")
    refused(filled, tmp_path / "v.mat", "No type of vector file named '.mat'", UnknownNameError)
    np.save(tmp_path / "x.npy", np.ones(3))
    refused(filled, tmp_path / "x.npy", "--ids FILE")
    few = as_lines(tmp_path / "few.txt", names[:2])
    refused(filled, tmp_path / "x.npy", r"matrix of numbers. Got float64 of shape \(3,\)", ids=few)
    np.save(tmp_path / "x.npy", rows(3))
    refused(filled, tmp_path / "x.npy", "3 vectors, but .* has 2 names", ids=few)
    np.savez(tmp_path / "x.npz", vectors=rows(3))
    refused(filled, tmp_path / "x.npz", "no array ids")
    mixed = write_vecs(tmp_path / "x.fvecs", [[1.0, 2.0], [1.0, 2.0, 3.0], [1.0]], "<f4")
    refused(filled, mixed, "row 2 .* another dimension", ids=few)
    vectors = [X[0], None, [1e300] * 5]
    refused(filled, write_parquet(file, id=names, vector=vectors), r"row 3 of .* infinity")
    np.save(tmp_path / "x.npy", rows(2))
    data = (tmp_path / "x.npy").read_bytes()
    for name, content in (
        ("z.npy", b""), ("z.npy", b"text"), ("z.npy", data[:-1]), ("z.npy", data.replace(b"}", b"[")),
        ("z.npz", b""), ("z.npz", data), ("z.npz", (tmp_path / "x.npz").read_bytes()[:-30]),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        refused(filled, tmp_path / name, f"Cannot read vectors from .*{name}", ids=few if name == "z.npy" else None)
    (tmp_path / "y.fvecs").write_bytes(write_vecs(tmp_path / "x.fvecs", rows(3), "<f4").read_bytes()[:-2])
    refused(filled, tmp_path / "y.fvecs", "ends within the vector of row 3", ids=few)


def test_an_imported_space_accepts_only_vectors_that_fit_it(filled, ids, tmp_path):
    file = write_parquet(tmp_path / "v.parquet", id=list(map(format_id, ids)), vector=rows(8).tolist())
    for name, problem in (("plain", "already exists"), ("deep", "built-in recipe"), ("a b", "not a valid name")):
        with pytest.raises(InputError, match=problem):
            filled.import_vectors(file, name)
    filled.import_vectors(file, "mine")
    other = write_parquet(tmp_path / "w.parquet", id=[format_id(ids[0])], vector=[[1.0, 2.0]])
    with pytest.raises(InputError, match=r"2 dimensions\. Those of space 'mine' have 5"):
        filled.import_vectors(other, "mine")
    with pytest.raises(InputError, match="No vectors were imported as"):
        filled.fit("other = imported(name='their', dim=5) | pca(dim=2)")
    filled.fit("small = imported(name='mine', dim=5) | pca(dim=2)")
    with pytest.raises(InputError, match="'small' was computed from them"):
        filled.import_vectors(file, "mine")


def test_a_request_for_too_many_dimensions_is_a_note_of_the_fit(filled):
    fitted = filled.fit("small = fourier() | pca(dim=200)")
    assert "dim=200 was requested" in fitted.notes["small"]
    assert "Dimensions used: 7" in fitted.notes["small"]
    assert filled.fit("other = fourier() | pca(dim=3)").notes == {}


def test_spaces_of_a_collection_can_be_removed_and_imported_again(filled, ids, tmp_path):
    file = write_parquet(tmp_path / "v.parquet", id=list(map(format_id, ids)), vector=rows(8).tolist())
    filled.import_vectors(file, "mine")
    filled.remove_space("mine")
    assert [space.name for space in filled.spaces] == ["plain"]
    filled.import_vectors(file, "mine")
    with Collection(filled.path) as again:
        assert len(again.space("mine")) == 8
        assert again.refresh().notes == []
