"""Read labels of pictures from files and folders of other tools; see `label_formats` for the table of formats.

A reader returns the names of pictures, which are ids or paths, with one label each. It knows no collection:
`classes.import_labels` matches the names to items. A file with an error raises InputError that names the file and the
place, and no label of it is imported.
"""

import csv
import json
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from lookalike.collection.tables import need
from lookalike.errors import InputError
from lookalike.images.decoding import identify
from lookalike.images.sources import SEPARATOR, SUFFIXES
from lookalike.types import format_id, parse_id

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
"""The files with labels in a Hugging Face `imagefolder`."""

SPLITS = frozenset(("train", "training", "val", "valid", "validation", "dev", "test", "testing"))
"""Folders of the parts of a dataset, which are not classes."""

LABEL_KEYS = ("label", "labels", "class", "class_name", "cls", "category")
"""Names of the column or key with the label, in the order in which they are looked for."""

MAX_JSON_BYTES = 2**20
"""Size limit of the .json and .cls members of a tar."""


class NamedLabels(NamedTuple):
    """What a reader has found."""

    pairs: list[tuple[str, str]]  # the name of a picture, and one of its labels
    folder: Path  # relative paths start here
    anywhere: bool = True  # whether a relative path can also be the end of the path of a picture


def read_csv(file: Path, field: str | None) -> NamedLabels:
    """Read a CSV file with the header `path,label` or `id,label`."""
    key_of_label = field or "label"
    rows = list(_csv_rows(file))
    columns = list(rows[0][1]) if rows else _csv_header(file)
    key = next((name for name in ("id", "path") if name in columns), None)
    if key is None or key_of_label not in columns:
        raise InputError(
            f"{file} must start with the header path,{key_of_label} or id,{key_of_label}. Got {columns!s:.80}."
        )
    pairs = []
    for line, row in rows:
        if any("\n" in (row.get(column) or "") for column in ("id", "path", key_of_label)):
            raise InputError(
                f"Cannot read labels from {file}: the value that ends on line {line} spans several lines; a quote may"
                " be"
                " missing."
            )
        if label := (row[key_of_label] or "").strip():
            pairs.append((row[key] or "", label))
    return NamedLabels(pairs, file.parent, anywhere=False)


def read_coco(file: Path, field: str | None) -> NamedLabels:  # noqa: ARG001 — COCO has one kind of label
    """Read COCO annotations: the categories of a picture's annotations are its labels.

    A category counts once per picture, however many objects of it are annotated. An image with the key `item`, as
    Lookalike writes it, is matched by that id.
    """
    data = _load_json(file)
    if not isinstance(data, dict) or not all(isinstance(data.get(key), list) for key in COCO_KEYS):
        raise InputError(f"{file} is not a COCO file: it must be an object with the lists {', '.join(COCO_KEYS)}.")
    categories: dict[Any, str] = {}
    for row, category in enumerate(data["categories"], 1):
        categories[_need(file, f"category {row}", category, "id")] = _text(
            file, f"category {row}", _need(file, f"category {row}", category, "name")
        )
    names: dict[Any, str] = {}
    for row, image in enumerate(data["images"], 1):
        number = _need(file, f"image {row}", image, "id")
        if number in names:
            raise InputError(
                f"{file} has two images with the id {number!r}; the second is image {row}. Ids must be unique."
            )
        item = image.get("item")
        names[number] = (
            item
            if isinstance(item, str)
            else _text(file, f"image {row}", _need(file, f"image {row}", image, "file_name"))
        )
    pairs: dict[tuple[str, str], None] = {}
    for row, annotation in enumerate(data["annotations"], 1):
        image, category = (_need(file, f"annotation {row}", annotation, key) for key in ("image_id", "category_id"))
        if image not in names or category not in categories:
            wrong = f"image_id {image!r}" if image not in names else f"category_id {category!r}"
            raise InputError(f"Annotation {row} of {file} has the {wrong}, which is not in the file.")
        pairs[names[image], categories[category]] = None
    return NamedLabels(list(pairs), file.parent)


def read_label_studio(file: Path, field: str | None) -> NamedLabels:
    """Read the tasks of a Label Studio project, exported as JSON or JSON-MIN: their annotations, not their predictions.

    Choices, and the labels of regions, are labels of the whole picture. `field` is the name of the control tag; by
    default all. Skipped tasks and cancelled annotations have no labels.
    """
    tasks = _load_json(file)
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise InputError(f"{file} is not an export of Label Studio: it must be a list of tasks.")
    pairs: dict[tuple[str, str], None] = {}
    for row, task in enumerate(tasks, 1):
        data = task["data"] if isinstance(task.get("data"), dict) else task
        name = _picture_of_task(file, row, data)
        labels = _task_labels(file, row, task, field) if data is not task else _min_labels(task, field)
        pairs.update(((name, label), None) for label in labels)
    return NamedLabels(list(pairs), file.parent)


def read_fiftyone(folder: Path, field: str | None) -> NamedLabels:
    """Read a dataset in the format `FiftyOneDataset`: the classifications, or detections, in its samples.json.

    `field` is the name of the label field; by default `ground_truth`, or the only field with labels.
    """
    file = folder / "samples.json" if folder.is_dir() else folder
    data = _load_json(file)
    samples = data.get("samples") if isinstance(data, dict) else None
    if not isinstance(samples, list) or not all(isinstance(sample, dict) for sample in samples):
        raise InputError(f"{file} is not a FiftyOne dataset: it must be an object with a list of samples.")
    fields = {key for sample in samples for key, value in sample.items() if _is_fiftyone_label(value)}
    chosen = _choose(file, field, fields, "ground_truth", "label field")
    pairs: dict[tuple[str, str], None] = {}
    for row, sample in enumerate(samples, 1):
        name = _text(file, f"sample {row}", _need(file, f"sample {row}", sample, "filepath"))
        item = sample.get("lookalike_id")
        value = sample.get(chosen) or {}
        several = next((value[key] for key in ("classifications", "detections") if key in value), [value])
        for label in several:
            if isinstance(label, dict) and label.get("label") is not None:
                pairs[item if isinstance(item, str) else name, _text(file, f"sample {row}", label["label"])] = None
    return NamedLabels(list(pairs), file.parent)


def read_hugging_face(source: Path, field: str | None) -> NamedLabels:
    """Read a Hugging Face `imagefolder` with metadata.csv, .jsonl or .parquet, or a Parquet file of a dataset.

    In a Parquet file, pictures are embedded and matched by their bytes, or are named by `file_name` or the path in
    `image`. `field` is the column of the label. Numbers are replaced by the names in the file's metadata.
    """
    if not source.is_dir():
        return NamedLabels(list(_metadata_pairs(source, field)), source.parent)
    files = sorted(path for name in METADATA for path in source.rglob(name))
    if not files:
        return read_folders(source, field)
    pairs = []
    for file in files:
        inside = file.parent.relative_to(source).as_posix()
        pairs += [(_below(inside, name), label) for name, label in _metadata_pairs(file, field)]
    return NamedLabels(pairs, source)


def read_folders(folder: Path, field: str | None) -> NamedLabels:  # noqa: ARG001 — folders have one kind of label
    """Read the files in class folders, with folders of parts above them (PART/CLASS/file), as in an `imagefolder`."""
    pairs = []
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder).parts
        folders = inner[1:-1] if len(inner) > 2 and inner[0].lower() in SPLITS else inner[:-1]
        if folders and path.suffix.lower() in SUFFIXES and path.is_file():
            pairs.append((PurePosixPath(*inner).as_posix(), folders[0]))
    if not pairs:
        raise InputError(
            f"{folder} has no subfolder with pictures, and no {' or '.join(METADATA)}. Labels are the names of"
            " subfolders."
        )
    return NamedLabels(pairs, folder)


def read_web_dataset(file: Path, field: str | None) -> NamedLabels:
    """Read a tar in the WebDataset format: the .cls, .txt or .json members with the same key as a picture.

    The key of a member is its name up to the first dot of the base name. A .json member is an object with the label, or
    several, under `field`, by default one of `LABEL_KEYS`; without one, the .cls or .cls.txt member is the label.
    """
    samples: dict[str, dict[str, Any]] = {}
    try:
        with tarfile.open(file) as archive:
            for member in archive:
                head, _, base = member.name.rpartition("/")
                key, dot, suffix = base.partition(".")
                if not member.isfile() or not dot or not key:
                    continue
                sample = samples.setdefault(f"{head}/{key}" if head else key, {"pictures": []})
                if suffix.lower() in ("cls", "cls.txt", "json") and member.size <= MAX_JSON_BYTES:
                    stream = archive.extractfile(member)
                    sample[suffix.lower()] = b"" if stream is None else stream.read()
                elif f".{suffix.lower().rpartition('.')[2]}" in SUFFIXES:
                    sample["pictures"].append(member.name)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InputError(f"Cannot read labels from {file}: {error}.") from None
    pairs, names = [], _names_of_classes(file)
    for key, sample in samples.items():
        labels = [names.get(label, label) for label in _sample_labels(file, key, sample, field)]
        pairs += [(f"{file}{SEPARATOR}{name}", label) for name in sample["pictures"] for label in labels]
    if not pairs:
        raise InputError(f"{file} has no picture with a .cls, .cls.txt or .json member of the same key.")
    return NamedLabels(pairs, file.parent)


def read_parquet(file: Path, field: str | None) -> NamedLabels:
    """Read a Parquet file: that of an export (id or path, and labels), or that of a Hugging Face dataset."""
    return read_hugging_face(file, field)


COCO_KEYS = ("images", "annotations", "categories")


def sniff_json(file: Path) -> str:
    """Return the format of a JSON file by its content."""
    data = _load_json(file)
    if isinstance(data, list):
        return "labelstudio"
    if isinstance(data, dict) and "samples" in data:
        return "fiftyone"
    if isinstance(data, dict) and set(COCO_KEYS) & data.keys():
        return "coco"
    raise InputError(
        f"{file} has no labels in a known format: an object with {', '.join(COCO_KEYS)} (COCO), a list of tasks (Label"
        " Studio), or an object with samples (FiftyOne)."
    )


# Hugging Face


def _metadata_pairs(file: Path, field: str | None) -> Iterator[tuple[str, str]]:
    rows = {".csv": _csv_rows, ".jsonl": _jsonl_rows, ".parquet": _parquet_rows}.get(file.suffix.lower())
    if rows is None:
        raise InputError(f"{file} must be a .csv, .jsonl or .parquet file.")
    chosen: str | None = None
    for row, values in rows(file):
        if chosen is None:
            known = {name for name in values if name in LABEL_KEYS}
            chosen = _choose(
                file, field, set(values) if field else known, "labels" if "labels" in known else "label", "column"
            )
        name = _picture_of_row(file, row, values)
        value = values.get(chosen)
        for label in value if isinstance(value, list | tuple) else [value]:
            if label is not None and str(label).strip():
                yield name, _text(file, f"row {row}", label)


def _picture_of_row(file: Path, row: int, values: dict[str, Any]) -> str:
    """The id or path of the picture of a row of a table."""
    own = [values[key] for key in ("lookalike_id", "id") if isinstance(values.get(key), str)]
    if ids := [name for name in own if parse_id(name) is not None]:  # other datasets have ids of another kind
        return str(ids[0])
    for key in ("file_name", "path", "filepath", "id"):
        if isinstance(values.get(key), str) and values[key]:
            return str(values[key])
    image = values.get("image")
    if isinstance(image, dict) and image.get("bytes"):
        return format_id(identify(image["bytes"]))  # the id of a picture is a digest of its bytes
    if isinstance(image, dict) and isinstance(image.get("path"), str):
        return str(image["path"])
    raise InputError(
        f"Row {row} of {file} names no picture. It needs the column id, file_name, path or image. Got"
        f" {', '.join(values):.120}."
    )


def _csv_header(file: Path) -> list[str]:
    with file.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as stream:
        return list(csv.DictReader(stream, skipinitialspace=True).fieldnames or [])


def _csv_rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with file.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as stream:
            reader = csv.DictReader(stream, skipinitialspace=True, strict=True)
            for row in reader:
                yield reader.line_num, row
    except (OSError, csv.Error) as error:
        raise InputError(f"Cannot read labels from {file}: {error}.") from None


def _jsonl_rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with file.open(encoding="utf-8") as stream:
            for line, text in enumerate(stream, 1):
                if text.strip():
                    values = json.loads(text)
                    if not isinstance(values, dict):
                        raise InputError(f"Line {line} of {file} must be an object. Got {text.strip()!r:.80}.")
                    yield line, values
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read labels from {file}: {error}.") from None
    except json.JSONDecodeError as error:
        raise InputError(f"Line {line} of {file} is not valid JSON: {error.msg}.") from None


def _parquet_rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    pa, parquet = need("pyarrow"), need("pyarrow.parquet")
    try:
        table = parquet.ParquetFile(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"Cannot read labels from {file}: {error}.") from None
    names = _class_names(table.schema_arrow)
    wanted = {*LABEL_KEYS, *names, "id", "lookalike_id", "file_name", "path", "filepath", "image"}
    columns = [
        field.name
        for field in table.schema_arrow
        if field.name in wanted or pa.types.is_string(field.type) or pa.types.is_dictionary(field.type)
    ]
    row = 0
    for batch in table.iter_batches(256, columns=columns):
        for values in batch.to_pylist():
            row += 1
            for key, classes in names.items():
                values[key] = _named(file, row, values.get(key), classes)
            yield row, values


def _class_names(schema: Any) -> dict[str, list[str]]:
    """The names of the classes of each `ClassLabel` column, from the metadata that `datasets` writes."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError):
        return {}
    found = {}
    for name, feature in features.items():
        inner = (
            feature[0]
            if isinstance(feature, list)
            else feature.get("feature", feature)
            if isinstance(feature, dict)
            else {}
        )
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and isinstance(inner.get("names"), list):
            found[name] = [str(label) for label in inner["names"]]
    return found


def _named(file: Path, row: int, value: Any, classes: list[str]) -> Any:
    """Replace the numbers of classes by their names; -1 is a missing label."""
    if isinstance(value, list):
        return [_named(file, row, part, classes) for part in value]
    if not isinstance(value, int) or value == -1:
        return None if isinstance(value, int) else value
    if not 0 <= value < len(classes):
        raise InputError(f"Row {row} of {file} has the class number {value}. There are {len(classes)} classes.")
    return classes[value]


def _below(folder: str, name: str) -> str:
    return name if folder in ("", ".") or name.startswith("/") else f"{folder}/{name}"


# Label Studio


def _picture_of_task(file: Path, row: int, data: dict[str, Any]) -> str:
    """The id or path of the picture of a task; its URL can be one of Label Studio's own storage."""
    if isinstance(data.get("lookalike_id"), str):
        return str(data["lookalike_id"])
    texts = {key: value for key, value in data.items() if isinstance(value, str)}
    keys: list[str] = [key for key in ("image", "img", "picture", "photo", "url", "captioning", "ocr") if key in texts]
    keys += [key for key, value in texts.items() if urlsplit(value).path.lower().endswith(tuple(SUFFIXES))]
    keys += [key for key, value in texts.items() if value.startswith("/data/")]
    if not keys:
        raise InputError(
            f"Task {row} of {file} has no picture. Its data must have the key image. Got {', '.join(data):.80}."
        )
    url = urlsplit(texts[keys[0]])
    if url.path.rstrip("/").endswith("/data/local-files") and (local := parse_qs(url.query).get("d")):
        return local[0]
    path = unquote(url.path) if url.scheme or url.path.startswith("/data/") else texts[keys[0]]
    if "/data/upload/" in path:  # 4e1e7ae1-beach.jpg: an upload gets a prefix
        return re.sub(r"^[0-9a-f]{8}-", "", path.rpartition("/")[2])
    return path.lstrip("/") if url.scheme and url.scheme != "file" else path


def _task_labels(file: Path, row: int, task: dict[str, Any], field: str | None) -> Iterator[str]:
    annotations = task.get("annotations", task.get("completions", []))
    if not isinstance(annotations, list) or not all(isinstance(annotation, dict) for annotation in annotations):
        raise InputError(f"The annotations of task {row} of {file} must be a list. Got {annotations!r:.80}.")
    for annotation in annotations:
        if annotation.get("was_cancelled") or annotation.get("skipped"):
            continue
        for result in annotation.get("result") or []:
            if not isinstance(result, dict) or (field is not None and result.get("from_name") != field):
                continue
            value = result.get("value")
            found = value.get(str(result.get("type")), []) if isinstance(value, dict) else []
            for label in found if isinstance(found, list) else []:
                yield _text(file, f"task {row}", label[-1] if isinstance(label, list) and label else label)


def _min_labels(task: dict[str, Any], field: str | None) -> Iterator[str]:
    """The labels of a task of JSON-MIN, which has the value of a control tag under its name."""
    used = {"id", "annotation_id", "annotator", "created_at", "updated_at", "lead_time", "image", "img", "url"}
    for key, value in task.items():
        if (
            (key == field)
            if field is not None
            else (key not in used and key in ("choice", "choices", "label", "class"))
        ):
            found = value.get("choices", []) if isinstance(value, dict) else value
            yield from [str(label) for label in (found if isinstance(found, list) else [found]) if label]


# FiftyOne and WebDataset


def _is_fiftyone_label(value: Any) -> bool:
    return isinstance(value, dict) and value.get("_cls") in (
        "Classification",
        "Classifications",
        "Detection",
        "Detections",
    )


def _names_of_classes(file: Path) -> dict[str, str]:
    """The names of the classes of a tar by number, from TAR.classes.txt or classes.txt next to it; empty without."""
    for names in (file.with_name(f"{file.name}.classes.txt"), file.with_name("classes.txt")):
        if names.is_file():
            return {str(number): name for number, name in enumerate(names.read_text("utf-8").splitlines())}
    return {}


def _sample_labels(file: Path, key: str, sample: dict[str, Any], field: str | None) -> list[str]:
    labels: Any = None
    if "json" in sample:
        try:
            values = json.loads(sample["json"])
        except ValueError as error:
            raise InputError(f"The member {key}.json of {file} is not valid JSON: {error}.") from None
        if isinstance(values, dict):
            names = (field,) if field else LABEL_KEYS
            labels = next((values[name] for name in names if values.get(name) is not None), None)
    if labels is None and field is None:
        text = sample.get("cls", sample.get("cls.txt", b""))
        try:
            labels = text.decode().strip()
        except UnicodeDecodeError:
            raise InputError(f"The member {key}.cls of {file} must be text. Got {text!r:.40}.") from None
    found = labels if isinstance(labels, list) else [labels]
    return [_text(file, f"member {key}", label) for label in found if label is not None and str(label).strip()]


# Shared checks


def _load_json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except OSError as error:
        raise InputError(f"Cannot read labels from {file}: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"{file} is not valid JSON: {error}.") from None


def _need(file: Path, place: str, row: Any, key: str) -> Any:
    if not isinstance(row, dict) or key not in row:
        raise InputError(f"The {place} of {file} must be an object with {key}. Got {row!r:.80}.")
    if isinstance(row[key], list | dict):
        raise InputError(f"The {key} of {place} of {file} must be a number or text. Got {row[key]!r:.80}.")
    return row[key]


def _text(file: Path, place: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise InputError(f"The label or name in {place} of {file} must be text. Got {value!r:.80}.")
    return str(value).strip()


def _choose(file: Path, field: str | None, known: Iterable[str], usual: str, what: str) -> str:
    """The field that was requested, the usual one, or the only one."""
    names = sorted(known)
    if field is not None and field in names:
        return field
    if field is None and (usual in names or len(names) == 1):
        return usual if usual in names else names[0]
    problem = (
        f"has no {what} {field!r}"
        if field
        else f"has several of these {what}s"
        if names
        else f"has no {what} with labels"
    )
    raise InputError(f"{file} {problem}. Choose one with --field. Found: {', '.join(names) or 'none'}.")


Reader = Callable[[Path, str | None], NamedLabels]
