"""Labels in and out. The files that are read are written by hand here, as the tools describe their formats."""

import csv
import io
import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookalike import Collection
from lookalike.errors import InputError, UnknownNameError
from lookalike.types import format_id

pytestmark = pytest.mark.usefixtures("read_here")
KINDS = ("fish", "house")


@pytest.fixture
def paths(filled):
    """The paths of the pictures: four fish, four houses."""
    return [item.paths[0] for item in sorted(filled.items(), key=lambda item: item.paths)]


@pytest.fixture
def labelled(filled, paths):
    """The collection with two fish, one of them also a pet, and a house; the other pictures have predictions."""
    filled.classes.add("fish", paths[:2])
    filled.classes.add("pet", paths[:1])
    filled.classes.add("house", paths[4:6])
    filled.classes.predict()
    return filled


def labels_by_path(collection):
    items = list(collection.items())
    labels = collection.labels([item.id for item in items])
    return {item.paths[0]: labels[item.id] for item in items if labels[item.id]}


def tail(path, parts=2):
    return "/".join(path.split("/")[-parts:])


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text if isinstance(text, str) else json.dumps(text))
    return file


def refused(collection, file, match, error=InputError, **options):
    """Check that the import fails with this message, and that it labels nothing."""
    with pytest.raises(error, match=match):
        collection.import_labels(file, **options)
    assert collection.label_counts() == {}


def test_a_folder_that_cannot_be_read_is_an_error(filled, tmp_path, monkeypatch):
    def deny(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", deny)  # the tests may run as root
    refused(filled, tmp_path, "Cannot read labels from .*: Permission denied")


# COCO: https://cocodataset.org/#format-data


def coco(paths):
    """Annotations of objects, as in instances_val2017.json: a picture without one, one with two of a category."""
    return {
        "info": {"description": "COCO 2017 Dataset", "version": "1.0", "year": 2017},
        "licenses": [{"id": 1, "name": "Attribution License"}],
        "images": [
            {"license": 1, "file_name": path, "height": 96, "width": 128, "id": 397133 + number}
            for number, path in enumerate(paths)
        ],
        "categories": [
            {"supercategory": "animal", "id": 17, "name": "fish"},
            {"supercategory": "building", "id": 90, "name": "house"},
        ],
        "annotations": [
            {
                "id": 1768 + number,
                "image_id": image,
                "category_id": category,
                "bbox": [1.5, 2, 30, 40],
                "area": 1200,
                "iscrowd": 0,
                "segmentation": [[1.5, 2, 30, 2, 30, 40]],
            }
            for number, (image, category) in enumerate([(397133, 17), (397133, 17), (397133, 90), (397134, 90)])
        ],
    }


def test_coco_annotations_are_labels_of_the_pictures(filled, paths, tmp_path):
    names = [paths[0], tail(paths[1]), paths[2], "unknown.jpg"]
    data = coco(names)
    data["annotations"].append(data["annotations"][0] | {"image_id": 397136})
    report = filled.import_labels(write(tmp_path / "instances.json", data))
    assert (report.labelled, report.unknown) == (3, ["unknown.jpg"])
    assert labels_by_path(filled) == {paths[0]: ["fish", "house"], paths[1]: ["house"]}


def test_relative_paths_start_at_the_folder_of_the_pictures(filled, paths, tmp_path):
    file = write(tmp_path / "instances.json", coco([tail(paths[0], 1), tail(paths[4], 1)]))
    report = filled.import_labels(file, pictures=paths[0].rpartition("/")[0])
    assert report.unknown == [tail(paths[4], 1)]  # without `pictures`, it is found by the end of its path
    assert filled.import_labels(file).unknown == []
    assert labels_by_path(filled)[paths[4]] == ["house"]


def test_errors_of_coco_files_name_the_row(filled, paths, tmp_path):
    file = tmp_path / "instances.json"
    data = coco(paths[:3])
    wrong = data | {"annotations": [{"id": 1, "image_id": 1, "category_id": 17}]}
    refused(filled, write(file, wrong), "Annotation 1 .* image_id 1,")
    refused(filled, write(file, data | {"categories": []}), "Annotation 1 .* category_id 17,")
    refused(filled, write(file, data | {"annotations": [{"id": 1}]}), "annotation 1 .* image_id")
    twice = data | {"images": [data["images"][0]] * 2}
    refused(filled, write(file, twice), "two images with the id 397133; .* image 2")
    refused(filled, write(file, data | {"images": [{"id": 1}]}), "image 1 .* file_name")
    refused(filled, write(file, {"images": []}), "not a COCO file.*annotations, categories")
    refused(filled, write(file, "{"), "not valid JSON")
    refused(filled, write(file, {"a": 1}), "known format")
    refused(filled, tmp_path / "none.json", "does not exist")
    refused(filled, file, "No format of labels named 'voc'", UnknownNameError, format="voc")


# Label Studio: https://labelstud.io/guide/task_format


def task(image, *choices, **extra):
    result = {"id": "Dx_aB91ISN", "from_name": "kind", "to_name": "img", "type": "choices"}
    result["value"] = {"choices": list(choices)}
    return {
        "id": 1,
        "data": {"image": image},
        "annotations": [
            {"id": 1001, "result": [result], "was_cancelled": False, "ground_truth": False, "completed_by": 10}
        ],
        "predictions": [
            {"model_version": "model 1", "score": 0.9, "result": [result | {"value": {"choices": ["wrong"]}}]}
        ],
        **extra,
    }


def test_label_studio_annotations_are_labels_and_predictions_are_not(filled, paths, tmp_path):
    cancelled = task(paths[5], "house")
    cancelled["annotations"][0]["was_cancelled"] = True
    boxes = task(f"s3://bucket/{tail(paths[4])}")
    boxes["annotations"][0]["result"] = [
        {"type": "rectanglelabels", "from_name": "tag", "value": {"x": 1, "rectanglelabels": ["house"]}},
        {"type": "textarea", "from_name": "note", "value": {"text": ["a note"]}},
    ]
    tasks = [
        task(f"/data/local-files/?d={tail(paths[0]).replace('/', '%2F')}", "fish", "pet"),
        task(f"/data/upload/3/4e1e7ae1-{tail(paths[1], 1)}", "fish"),
        task(f"http://example.org/{tail(paths[2])}", "fish"),
        task("http://example.org/none.jpg", "fish"),
        task("http://[/none.jpg", "fish"),
        boxes,
        cancelled,
        {"id": 9, "data": {"image": paths[6]}, "annotations": []},
    ]
    report = filled.import_labels(write(tmp_path / "project.json", tasks))
    assert (report.labelled, report.unknown) == (5, ["none.jpg", "http://[/none.jpg"])
    assert labels_by_path(filled) == {
        paths[0]: ["fish", "pet"], paths[1]: ["fish"], paths[2]: ["fish"], paths[4]: ["house"]
    }  # fmt: skip


def test_label_studio_has_a_short_format_and_several_control_tags(filled, paths, tmp_path):
    short = [
        {"id": 1, "image": paths[0], "choice": "fish", "annotator": 1, "annotation_id": 2, "lead_time": 1.2},
        {"id": 2, "image": paths[1], "kind": {"choices": ["fish", "pet"]}, "choice": "other"},
    ]
    filled.import_labels(write(tmp_path / "min.json", short))
    assert labels_by_path(filled) == {paths[0]: ["fish"], paths[1]: ["other"]}
    filled.import_labels(tmp_path / "min.json", field="kind")
    assert labels_by_path(filled)[paths[1]] == ["fish", "other", "pet"]


def test_the_regions_of_the_short_format_of_label_studio_are_labels(filled, paths, tmp_path):
    box = {"x": 1, "y": 2, "width": 30, "height": 40, "rotation": 0, "original_width": 128, "original_height": 96}
    short = [
        {
            "id": 1,
            "image": paths[0],
            "label": [box | {"rectanglelabels": ["fish"]}, box | {"rectanglelabels": ["pet"]}],
        },
        {"id": 2, "image": paths[1], "label": [["animal", "fish"]], "note": "a picture"},
    ]
    filled.import_labels(write(tmp_path / "min.json", short))
    assert labels_by_path(filled) == {paths[0]: ["fish", "pet"], paths[1]: ["fish"]}


def test_errors_of_label_studio_files_name_the_task(filled, paths, tmp_path):
    file = tmp_path / "project.json"
    refused(filled, write(file, [task(paths[0], "fish")]), "no control tag 'another'.* Found: kind", field="another")
    short = {"id": 1, "image": paths[0], "animal": "fish"}
    refused(filled, write(file, [short]), "several control tags.* Found: animal, image")
    tasks = [task(paths[0], "fish"), {"data": {"text": "no picture"}}]
    refused(filled, write(file, tasks), "Task 2 .* no picture.*text")
    refused(filled, write(file, [task(paths[0], {"a": 1})]), "task 1 .* must be text")
    refused(filled, write(file, [1]), "list of tasks")
    refused(filled, write(file, [{"data": {"image": paths[0]}, "annotations": "x"}]), "task 1 .* must be a list")
    wrong = {"data": {"image": paths[0]}, "annotations": [{"result": 3}]}
    refused(filled, write(file, [wrong]), "results of task 1 .* must be a list")


# FiftyOne: https://docs.voxel51.com/user_guide/export_datasets.html (FiftyOneDataset)


def fiftyone(folder, paths):
    write(folder / "metadata.json", {"_id": {"$oid": "60"}, "name": "pets", "media_type": "image", "version": "1.0.0"})
    samples = [
        {
            "_id": {"$oid": f"66b1f{number}"},
            "filepath": path,
            "tags": ["validation"],
            "metadata": {"_cls": "ImageMetadata", "size_bytes": 1, "width": 128, "height": 96},
            "ground_truth": {
                "_id": {"$oid": "1"},
                "_cls": "Classification",
                "tags": [],
                "label": "fish",
                "confidence": None,
            },
            "resnet": {"_cls": "Classification", "label": "ship", "confidence": 0.4},
        }
        for number, path in enumerate(paths)
    ]
    one, two = {"_cls": "Classification", "label": "a"}, {"_cls": "Classification", "label": "b"}
    samples[1]["ground_truth"] = None
    samples[2]["resnet"] = {"_cls": "Classifications", "classifications": [one, two]}
    box = {"_cls": "Detection", "label": "c", "bounding_box": [0, 0, 1, 1]}
    samples[3]["resnet"] = {"_cls": "Detections", "detections": [box]}
    return write(folder / "samples.json", {"samples": samples})


def test_a_field_of_a_fiftyone_dataset_is_imported(filled, paths, tmp_path):
    file = fiftyone(tmp_path / "dataset", [paths[0], paths[1], tail(paths[2]), tail(paths[3]), "data/none.jpg"])
    report = filled.import_labels(tmp_path / "dataset")
    assert (report.labelled, report.unknown) == (3, ["data/none.jpg"])
    assert labels_by_path(filled) == {paths[0]: ["fish"], paths[2]: ["fish"], paths[3]: ["fish"]}
    filled.import_labels(file, field="resnet")
    found = labels_by_path(filled)
    assert (found[paths[1]], found[paths[2]], found[paths[3]]) == (["ship"], ["a", "b", "fish"], ["c", "fish"])


def test_predictions_are_not_labels_even_if_no_sample_has_a_label(filled, paths, tmp_path):
    prediction = {"_cls": "Classification", "label": "fish", "confidence": 0.9}
    samples = [{"filepath": path, "ground_truth": None, "predictions": prediction} for path in paths]
    report = filled.import_labels(write(tmp_path / "samples.json", {"samples": samples}))
    assert (report.labelled, report.unknown) == (0, [])
    assert filled.import_labels(write(tmp_path / "samples.json", {"samples": []})).labelled == 0


def test_errors_of_fiftyone_datasets_name_the_sample(filled, paths, tmp_path):
    folder = tmp_path / "dataset"
    fiftyone(folder, paths[:4])
    refused(filled, folder, "no label field 'vgg'.*ground_truth, resnet", field="vgg")
    first = {"filepath": 3, "a": {"_cls": "Classification", "label": "x"}}
    refused(filled, write(folder / "samples.json", {"samples": [first, {}]}).parent, "sample 2 .* filepath")
    refused(filled, write(folder / "samples.json", {"samples": 3}).parent, "list of samples")
    for wrong in (3, "fish", {"_cls": "Detections", "detections": [3]}):
        named = {"filepath": paths[0], "ground_truth": wrong}
        refused(filled, write(folder / "samples.json", {"samples": [named]}).parent, "sample 1 .* must be labels")
    bare = {"samples": [{"filepath": "a"}]}
    refused(filled, write(folder / "samples.json", bare).parent, "no label field with labels")


# Hugging Face imagefolder and Parquet: https://huggingface.co/docs/datasets/image_dataset


def test_the_metadata_of_an_imagefolder_is_read_from_each_part(filled, paths, tmp_path):
    rows = f"{tail(paths[0], 1)},fish\n{tail(paths[1], 1)},\nnone.jpg,fish\n"
    write(tmp_path / "ds/train/metadata.csv", f"file_name,label\n{rows}")
    line = json.dumps({"file_name": paths[4], "labels": ["house", "home"]})
    write(tmp_path / "ds/test/metadata.jsonl", f"{line}\n\n")
    with pytest.raises(InputError, match="has no subfolder with pictures"):
        filled.import_labels(write(tmp_path / "empty/a.txt", "").parent, format="huggingface")
    report = filled.import_labels(tmp_path / "ds")
    assert report.unknown == [f"train/{tail(paths[0], 1)}", "train/none.jpg"]
    assert labels_by_path(filled) == {paths[4]: ["home", "house"]}
    report = filled.import_labels(tmp_path / "ds/train/metadata.csv")
    assert report.unknown == ["none.jpg"]
    assert labels_by_path(filled)[paths[0]] == ["fish"]


def test_class_folders_of_the_parts_of_a_dataset_are_labels(collection, paths, tmp_path):
    for path, place in ((paths[0], "train/fish/a.jpg"), (paths[4], "val/house/b.jpg")):
        (tmp_path / "ds" / place).parent.mkdir(parents=True)
        (tmp_path / "ds" / place).symlink_to(path)
    collection.add(tmp_path / "ds", recipes=["plain = fourier()"])
    collection.import_labels(tmp_path / "ds")
    assert collection.label_counts() == {"fish": 1, "house": 1}
    with Collection(tmp_path / "other", create=True) as other:
        other.add(tmp_path / "ds", recipes=["plain = fourier()"])
        other.import_labels(tmp_path / "ds", format="huggingface")
        assert other.label_counts() == {"fish": 1, "house": 1}


def test_a_table_in_a_class_folder_does_not_change_its_format(filled, paths, tmp_path):
    write(tmp_path / "ds/fish/metadata.csv", "file_name,camera\na.jpg,Lumix\n")
    write(tmp_path / "ds/fish" / f"{format_id(filled.find(paths[0]))}.jpg", "a picture")
    assert filled.import_labels(tmp_path / "ds").labelled == 1


def test_hidden_files_and_pictures_beside_the_class_folders_have_no_label(filled, paths, tmp_path):
    for place in ("train/fish/.thumbs/a.jpg", "train/fish/._b.jpg", "train/c.jpg", "train/house/d.jpg"):
        write(tmp_path / "ds" / place, "a picture")
    refused(filled, tmp_path / "ds", "no subfolder with pictures in the collection")
    write(tmp_path / "ds/train/house" / f"{format_id(filled.find(paths[4]))}.jpg", "a picture")
    report = filled.import_labels(tmp_path / "ds")
    assert (report.labelled, report.unknown) == (1, ["train/house/d.jpg"])
    assert labels_by_path(filled) == {paths[4]: ["house"]}


def test_a_parquet_file_of_datasets_embeds_its_pictures(filled, paths, tmp_path):
    features = {
        "image": {"_type": "Image"},
        "label": {"names": ["fish", "house"], "_type": "ClassLabel"},
    }
    data = [Path(path).read_bytes() for path in (paths[0], paths[4], paths[5])]
    table = pa.table(
        {
            "image": pa.array(
                [
                    {"bytes": data[0], "path": None},
                    {"bytes": None, "path": tail(paths[4])},
                    {"bytes": data[2], "path": "x.jpg"},
                    {"bytes": b"?", "path": None},
                ],
                pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
            ),
            "label": pa.array([0, 1, -1, 1], pa.int64()),
        }
    ).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, tmp_path / "train-00000-of-00001.parquet")
    report = filled.import_labels(tmp_path / "train-00000-of-00001.parquet")
    assert (report.labelled, len(report.unknown)) == (2, 1)
    assert labels_by_path(filled) == {paths[0]: ["fish"], paths[4]: ["house"]}


def test_labels_of_a_parquet_file_can_be_in_a_column_of_any_type(filled, paths, tmp_path):
    columns = {"file_name": pa.array(paths[:2], pa.large_string()), "kind": [3, 4], "both": [["a", "b"], ["c"]]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    refused(filled, tmp_path / "a.parquet", "no column with labels")
    filled.import_labels(tmp_path / "a.parquet", field="kind")
    filled.import_labels(tmp_path / "a.parquet", field="both")
    assert labels_by_path(filled) == {paths[0]: ["3", "a", "b"], paths[1]: ["4", "c"]}


def test_a_damaged_parquet_file_is_an_error(filled, paths, tmp_path):
    names = pa.array([b"\xff", b"b"], pa.binary())
    table = pa.table({"file_name": pa.Array.from_buffers(pa.string(), 2, names.buffers()), "label": ["x", "y"]})
    pq.write_table(table, tmp_path / "a.parquet")
    refused(filled, tmp_path / "a.parquet", "Cannot read .* as a Parquet file: .*utf-8")


def test_errors_of_metadata_files_name_the_row(filled, paths, tmp_path):
    file = tmp_path / "metadata.jsonl"
    good = json.dumps({"file_name": paths[0], "label": "fish"}) + "\n"
    refused(filled, write(file, good + "{"), "Line 2 .* not valid JSON")
    refused(filled, write(file, good + "[]"), "Line 2 .* must be an object")
    refused(filled, write(file, good + '{"label": "fish"}'), "Row 2 .* names no picture.*file_name")
    refused(filled, write(file, good.replace('"fish"', "1.5")), "row 1 .* must be text")
    refused(filled, write(file, good.replace("label", "kind")), "no column with labels.*--field")
    assert filled.import_labels(file, field="kind").labelled == 1
    table = pa.table({"file_name": paths[:1], "label": [7]}).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": {"label": {"names": ["a"], "_type": "ClassLabel"}}}})}
    )
    pq.write_table(table, tmp_path / "bad.parquet")
    with pytest.raises(InputError, match=r"class number 7. There are 1 classes"):
        filled.import_labels(tmp_path / "bad.parquet")


# WebDataset: https://github.com/webdataset/webdataset (the key ends at the first dot of the base name)


def make_tar(file, members):
    with tarfile.open(file, "w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file


def shard(file, paths):
    a, b, c, d = (Path(path).read_bytes() for path in paths[:4])
    return make_tar(
        file,
        {
            "n01/0001.jpg": a, "n01/0001.cls": b"1",
            "n01/0002.left.jpg": b, "n01/0002.cls": b"0", "n01/0002.json": b'{"label": "pet", "author": "x"}',
            "0003.jpg": c, "0003.json": b'{"labels": ["fish", "pet"]}',
            "0004.jpg": d, "README": b"no key",
        },
    )  # fmt: skip


def test_the_members_of_a_tar_with_the_same_key_are_labels(collection, paths, tmp_path):
    tar = shard(tmp_path / "train-000.tar", paths)
    collection.add(tar, recipes=["plain = fourier()"])
    report = collection.import_labels(tar)
    assert (report.labelled, report.unknown) == (4, [])
    found = {path.partition("::")[2]: labels for path, labels in labels_by_path(collection).items()}
    assert found == {"n01/0001.jpg": ["1"], "n01/0002.left.jpg": ["pet"], "0003.jpg": ["fish", "pet"]}
    (tmp_path / "classes.txt").write_text("house\nfish\n")
    collection.import_labels(tar)
    assert collection.label_counts() == {"1": 1, "fish": 2, "pet": 2}
    (tmp_path / "classes.txt").write_bytes(b"\xff\n")
    with pytest.raises(InputError, match=r"Cannot read the names of the classes from .*classes\.txt"):
        collection.import_labels(tar)


def test_only_class_numbers_are_replaced_by_the_names_of_classes(collection, paths, tmp_path):
    data = [Path(path).read_bytes() for path in paths[:2]]
    members = {"a.jpg": data[0], "a.json": b'{"label": 1}', "b.jpg": data[1], "b.json": b'{"labels": ["1"]}'}
    tar = make_tar(tmp_path / "a.tar", members)
    (tmp_path / "classes.txt").write_text("zero\none\n")
    collection.add(tar, recipes=["plain = fourier()"])
    collection.import_labels(tar)
    assert collection.label_counts() == {"1": 1, "one": 1}


def test_errors_of_tars_name_the_member(filled, paths, tmp_path):
    data = Path(paths[0]).read_bytes()
    tar = tmp_path / "a.tar"
    refused(filled, make_tar(tar, {"a.jpg": data, "a.json": b"{"}), "a.json .* not valid JSON")
    refused(filled, make_tar(tar, {"a.jpg": data, "a.cls": b"\xff"}), "a.cls .* must be text")
    refused(filled, make_tar(tar, {"a.jpg": data, "b.cls": b"1"}), "no picture with a .cls")
    refused(filled, write(tar, "no tar"), "Cannot read labels")


# Round trips


@pytest.mark.parametrize(
    ("format", "name"),
    [
        ("coco", "coco.json"),
        ("labelstudio", "tasks.json"),
        ("fiftyone", "folder"),
        ("huggingface", "folder"),
        ("imagefolder", "folder"),
        ("webdataset", "all.tar"),
        ("parquet", "all.parquet"),
    ],
)
def test_exported_labels_can_be_imported_again(labelled, paths, tmp_path, format, name):
    target = tmp_path / name
    n = labelled.export(target, format=format)
    assert n == (4 if format == "imagefolder" else 8)
    expected = labels_by_path(labelled)
    assert expected[paths[0]] == ["fish", "pet"]
    with Collection(tmp_path / "again", create=True) as again:
        again.add(*{path.rpartition("/")[0] for path in paths}, recipes=["plain = fourier()"])
        report = again.import_labels(target)
        assert (report.labelled, report.unknown) == (5, [])
        found = again.labels([item.id for item in again.items()])
        assert {item: names for item, names in found.items() if names} == {
            labelled.find(path): names for path, names in expected.items()
        }


ODD = ["a/b", "Fish", "fish", "..", ".hidden", "CON", "1", "10", "two words", "ünï;,\"'", "=1+1", "x" * 300]


@pytest.mark.parametrize("format", ["coco", "labelstudio", "fiftyone", "huggingface", "imagefolder", "webdataset"])
def test_odd_labels_survive_a_round_trip(filled, paths, tmp_path, format):
    for number, label in enumerate(ODD):
        filled.classes.add(label, paths[number % len(paths)])
    expected = labels_by_path(filled)
    target = tmp_path / {"webdataset": "all.tar", "imagefolder": "train", "coco": "a.json"}.get(format, "all")
    filled.export(target, format=format)
    for label in ODD:
        filled.classes.delete(label)
    assert filled.import_labels(target, format=format).unknown == []
    assert labels_by_path(filled) == expected


def test_a_name_that_several_pictures_have_is_unknown(filled, paths, tmp_path):
    folder = tmp_path / "more" / "fish"
    folder.mkdir(parents=True)
    (folder / tail(paths[0], 1)).write_bytes(Path(paths[7]).read_bytes())
    filled.add(folder)
    report = filled.import_labels(write(tmp_path / "a.json", coco([tail(paths[0]), tail(paths[4])])))
    assert report.unknown == [tail(paths[0])]
    assert labels_by_path(filled) == {paths[4]: ["house"]}


def test_names_can_be_urls_and_names_of_no_file_are_unknown(filled, paths, tmp_path):
    report = filled.import_labels(write(tmp_path / "a.json", coco(["https://host/a.jpg", "\ud800.jpg"])))
    assert report.unknown == ["https://host/a.jpg", "\ud800.jpg"]


def test_an_import_of_labels_reports_its_progress(filled, paths, tmp_path):
    stages = []
    rows = "".join(f"{path},fish\n" for path in paths)
    file = write(tmp_path / "a.csv", f"path,label\n{rows}")
    filled.import_labels(file, progress=lambda *stage: stages.append(stage))
    assert stages == [
        ("reading labels", 0, None), ("matching names", 0, 8), ("storing labels", 0, 8), ("storing labels", 8, 8)
    ]  # fmt: skip


@pytest.mark.parametrize("format", ["csv", "coco", "labelstudio", "fiftyone", "webdataset"])
def test_an_export_reports_its_progress(filled, tmp_path, format):
    stages = []
    filled.export(tmp_path / "out", format=format, progress=lambda *stage: stages.append(stage))
    assert stages[0][:2] in (("exporting", 0), ("writing pictures", 0))


def test_datasets_contain_the_predictions_and_hex_ids(labelled, paths, tmp_path):
    predictions = {format_id(item.id): labelled.predictions([item.id]).get(item.id) for item in labelled.items()}
    assert any(predictions.values())
    labelled.export(tmp_path / "f", format="fiftyone", copy=True)
    metadata, data = (json.loads((tmp_path / "f" / name).read_text()) for name in ("metadata.json", "samples.json"))
    assert (metadata["media_type"], metadata["num_samples"]) == ("image", 8)
    for sample in data["samples"]:
        guess = predictions[sample["lookalike_id"]]
        assert sample["predictions"] == (
            guess and {"_cls": "Classification", "label": guess.label, "confidence": guess.probability}
        )
        assert (tmp_path / "f" / sample["filepath"]).is_file()
        assert not (tmp_path / "f" / sample["filepath"]).is_symlink()
    tasks = json.loads("".join(labelled.lines("labelstudio")))
    for one in tasks:
        guess = predictions[one["data"]["lookalike_id"]]
        found = [(each["score"], each["result"][0]["value"]["choices"]) for each in one["predictions"]]
        assert found == ([(guess.probability, [guess.label])] if guess else [])
    labelled.export(tmp_path / "w.tar", format="webdataset")
    names = (tmp_path / "w.tar.classes.txt").read_text().split()
    assert names == ["fish", "house", "pet"]
    with tarfile.open(tmp_path / "w.tar") as archive:
        key = format_id(labelled.find(paths[4]))
        assert names[int(archive.extractfile(f"{key}.cls").read())] == "house"
        assert json.loads(archive.extractfile(f"{key}.json").read())["labels"] == ["house"]


def test_a_picture_that_cannot_be_read_is_left_out_and_reported(collection, paths, tmp_path):
    for name, path in (("a.jpg", paths[0]), ("b.jpg", paths[4])):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_bytes(Path(path).read_bytes())
    collection.add(tmp_path / "in", recipes=["plain = fourier()"])
    (tmp_path / "in" / "a.jpg").unlink()
    for name in ("huggingface", "fiftyone", "webdataset"):
        skipped = {}
        assert collection.export(tmp_path / name, format=name, on_skip=skipped.__setitem__) == 1
        assert len(skipped) == 1
    assert len((tmp_path / "huggingface/metadata.jsonl").read_text().splitlines()) == 1
    with pytest.raises(InputError, match="Cannot read the picture"):
        collection.export(tmp_path / "again", format="huggingface")
    with pytest.raises(InputError, match="not empty"):
        collection.export(tmp_path / "huggingface", format="huggingface")
    with pytest.raises(InputError, match="open file"):
        collection.export(io.StringIO(), format="webdataset")
    with pytest.raises(UnknownNameError, match="voc"):
        collection.export(tmp_path / "x", format="voc")


def test_csv_labels_can_be_in_another_column(filled, paths, tmp_path):
    with (tmp_path / "a.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["path", "kind"], [paths[0], "fish"]])
    assert filled.import_labels(tmp_path / "a.csv", field="kind").labelled == 1
