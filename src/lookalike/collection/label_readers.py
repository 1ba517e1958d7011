"""Read labels of pictures from files and folders of other tools; see `label_formats` for the table of formats.

A reader returns the names of pictures, which are ids or paths, with one label each. It knows no collection:
`classes.import_labels` matches the names to items. A file with an error raises InputError that names the file and the
place, and no label of it is imported.
"""

import csv
import json
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from lookalike.collection.tables import need, parquet_errors
from lookalike.errors import InputError
from lookalike.images.decoding import identify
from lookalike.images.sources import SEPARATOR, SUFFIXES
from lookalike.text import RENAMED
from lookalike.types import format_id, parse_id

T = TypeVar("T")

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
"""The files with labels in a Hugging Face `imagefolder`."""

SPLITS = frozenset(("train", "training", "val", "valid", "validation", "dev", "test", "testing"))
"""Folders of the parts of a dataset, which are not classes."""

LABEL_KEYS = ("label", "labels", "class", "class_name", "cls", "category")
"""Names of the column or key with the label, in the order in which they are looked for."""

COCO_KEYS = ("images", "annotations", "categories")
"""The lists of a COCO file."""

MIN_KEYS = frozenset(("id", "annotation_id", "annotator", "created_at", "updated_at", "lead_time"))
"""Members of the tasks of Label Studio's JSON-MIN that are not control tags."""

MIN_TAGS = frozenset(("choice", "choices", "label", "class"))
"""Names of control tags with labels in JSON-MIN, which has no types."""

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
                " be missing."
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
    default all, but in JSON-MIN, which mixes control tags with other data, only `MIN_TAGS`. Skipped tasks and cancelled
    annotations have no labels.
    """
    tasks = _load_json(file)
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise InputError(f"{file} is not an export of Label Studio: it must be a list of tasks.")
    found: list[tuple[int, str, str, Any]] = []  # the row of a task, its picture, a control tag, and a label
    chosen: set[str] = set() if field is None else {field}
    for row, task in enumerate(tasks, 1):
        data = task["data"] if isinstance(task.get("data"), dict) else task
        name = _picture_of_task(file, row, data)
        labels = list(_min_labels(task) if data is task else _task_labels(file, row, task))
        found += [(row, name, tag, label) for tag, label in labels]
        if field is None:
            chosen.update(tag for tag, _ in labels if data is not task or tag in MIN_TAGS)
    tags = {tag for _, _, tag, _ in found}
    if tags and not tags & chosen:
        raise _choice_error(file, field, tags, "control tag")
    pairs = {(name, _text(file, f"task {row}", label)): None for row, name, tag, label in found if tag in chosen}
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
    if any("ground_truth" in sample for sample in samples):  # no sample may have a label in it
        fields.add("ground_truth")
    chosen = _choose(file, field, fields, "ground_truth", "label field") if samples else ""
    pairs: dict[tuple[str, str], None] = {}
    for row, sample in enumerate(samples, 1):
        name = _text(file, f"sample {row}", _need(file, f"sample {row}", sample, "filepath"))
        item = sample.get("lookalike_id")
        value = sample.get(chosen)
        several = value.get("classifications", value.get("detections", [value])) if isinstance(value, dict) else value
        if several is not None and not (isinstance(several, list) and all(isinstance(one, dict) for one in several)):
            raise InputError(f"The {chosen} of sample {row} of {file} must be labels. Got {value!r:.80}.")
        for label in several or []:
            if label.get("label") is not None:
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
    files = [
        path.relative_to(folder)
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in SUFFIXES and path.is_file()
    ]
    visible = [file for file in files if not any(part.startswith(".") for part in file.parts)]
    pairs = name_folders(folder, ((file.as_posix(), file.parts[:-1]) for file in visible))
    if not pairs:
        raise InputError(
            f"{folder} has no subfolder with pictures, and no {' or '.join(METADATA)}. Labels are the names of"
            " subfolders."
        )
    return NamedLabels(pairs, folder)


def name_folders(folder: Path, files: Iterable[tuple[T, Sequence[str]]]) -> list[tuple[T, str]]:
    """Label files by the outermost of their folders inside `folder`; files without one have no label.

    If all these folders are parts of a dataset, such as train and val, the folders in them are the labels.
    """
    renamed = _load_json(folder / RENAMED) if (folder / RENAMED).is_file() else {}
    if not isinstance(renamed, dict) or not all(isinstance(label, str) for label in renamed.values()):
        raise InputError(f"{folder / RENAMED} must be an object with the labels of folders.")
    inside = [(file, folders) for file, folders in files if folders]
    is_part = all(folders[0].lower() in SPLITS for _, folders in inside)
    depth = int(is_part and any(len(folders) > 1 for _, folders in inside))
    return [(file, renamed.get(folders[depth], folders[depth])) for file, folders in inside if len(folders) > depth]


def read_web_dataset(file: Path, field: str | None) -> NamedLabels:
    """Read a tar in the WebDataset format: the .cls, .cls.txt or .json members with the same key as a picture.

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
    if not any(len(sample) > 1 and sample["pictures"] for sample in samples.values()):
        raise InputError(f"{file} has no picture with a .cls, .cls.txt or .json member of the same key.")
    names = _names_of_classes(file)
    pairs = [
        (f"{file}{SEPARATOR}{name}", label)
        for key, sample in samples.items()
        for label in _sample_labels(file, key, sample, field, names)
        for name in sample["pictures"]
    ]
    return NamedLabels(pairs, file.parent)


def read_parquet(file: Path, field: str | None) -> NamedLabels:
    """Read a Parquet file: that of an export (id or path, and labels), or that of a Hugging Face dataset."""
    return read_hugging_face(file, field)


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
    parquet_rows: Rows = partial(_parquet_rows, field=field)
    rows = {".csv": _csv_rows, ".jsonl": _jsonl_rows, ".parquet": parquet_rows}.get(file.suffix.lower())
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
    except (json.JSONDecodeError, RecursionError) as error:
        reason = getattr(error, "msg", error)  # without the position, which would be that in the line
        raise InputError(f"Line {line} of {file} is not valid JSON: {reason}.") from None


def _parquet_rows(file: Path, field: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    parquet, is_nested = need("pyarrow.parquet"), need("pyarrow.types").is_nested
    with parquet_errors(file):
        table = parquet.ParquetFile(file)
    names = _class_names(table.schema_arrow)
    wanted = {*LABEL_KEYS, *names, field, "image"}
    columns = [column.name for column in table.schema_arrow if column.name in wanted or not is_nested(column.type)]
    row = 0
    with parquet_errors(file):
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
    for name, feature in features.items() if isinstance(features, dict) else ():
        inner = feature[0] if isinstance(feature, list) and feature else feature
        inner = inner.get("feature", inner) if isinstance(inner, dict) else {}
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
    keys += [key for key, value in texts.items() if _split_url(value).path.lower().endswith(tuple(SUFFIXES))]
    keys += [key for key, value in texts.items() if value.startswith("/data/")]
    if not keys:
        raise InputError(
            f"Task {row} of {file} has no picture. Its data must have the key image. Got {', '.join(data):.80}."
        )
    url = _split_url(texts[keys[0]])
    if url.path.rstrip("/").endswith("/data/local-files") and (local := parse_qs(url.query).get("d")):
        return local[0]
    path = unquote(url.path) if url.scheme or url.path.startswith("/data/") else texts[keys[0]]
    if "/data/upload/" in path:  # 4e1e7ae1-beach.jpg: an upload gets a prefix
        return re.sub(r"^[0-9a-f]{8}-", "", path.rpartition("/")[2])
    return path.lstrip("/") if url.scheme and url.scheme != "file" else path


def _split_url(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError:  # such as "[" in the place of the host
        return SplitResult("", "", text, "", "")


def _task_labels(file: Path, row: int, task: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The control tags of a task, each with a label."""
    annotations = task.get("annotations", task.get("completions", []))
    if not isinstance(annotations, list) or not all(isinstance(annotation, dict) for annotation in annotations):
        raise InputError(f"The annotations of task {row} of {file} must be a list. Got {annotations!r:.80}.")
    for annotation in annotations:
        if annotation.get("was_cancelled") or annotation.get("skipped"):
            continue
        results = annotation.get("result") or []
        if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
            raise InputError(f"The results of task {row} of {file} must be a list of objects. Got {results!r:.80}.")
        for result in results:
            kind, value = str(result.get("type")), result.get("value")
            if _is_label_key(kind) and isinstance(value, dict):
                for label in _labels_in(value.get(kind)):
                    yield str(result.get("from_name")), label


def _min_labels(task: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The members of a task of JSON-MIN that can be control tags, each with a label."""
    for key, value in task.items():
        if key not in MIN_KEYS:
            yield from ((key, label) for label in _labels_in(value))


def _labels_in(value: Any) -> Iterator[Any]:
    """The labels in the value of a control tag: text, a list of them, or an object with lists, such as a region."""
    if isinstance(value, dict):
        value = [label for key, found in value.items() if _is_label_key(key) for label in _labels_in(found)]
    for label in value if isinstance(value, list) else [value]:
        if isinstance(label, dict) and any(map(_is_label_key, label)):
            yield from _labels_in(label)
        elif isinstance(label, list) and label:  # a path in a taxonomy
            yield label[-1]
        elif label is not None and label != "":
            yield label


def _is_label_key(key: str) -> bool:
    return key in ("choices", "taxonomy") or key.endswith("labels")


# FiftyOne and WebDataset


def _is_fiftyone_label(value: Any) -> bool:
    kinds = ("Classification", "Classifications", "Detection", "Detections")
    return isinstance(value, dict) and value.get("_cls") in kinds


def classes_file(tar: Path) -> Path:
    """The file with the names of the classes of a tar, one per line."""
    return tar.with_name(f"{tar.name}.classes.txt")


def _names_of_classes(file: Path) -> dict[str, str]:
    """The names of the classes of a tar by number, from TAR.classes.txt or classes.txt next to it; empty without."""
    for names in (classes_file(file), file.with_name("classes.txt")):
        if names.is_file():
            try:
                lines = names.read_text("utf-8").split("\n")
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(f"Cannot read the names of the classes from {names}: {error}.") from None
            return {str(number): name.strip() for number, name in enumerate(lines) if name.strip()}
    return {}


def _sample_labels(file: Path, key: str, sample: dict[str, Any], field: str | None, names: dict[str, str]) -> list[str]:
    """The labels of a sample; numbers, other than text in a .json member, are replaced by the names of classes."""
    labels: Any = None
    if "json" in sample:
        try:
            values = json.loads(sample["json"])
        except (ValueError, RecursionError) as error:
            raise InputError(f"The member {key}.json of {file} is not valid JSON: {error}.") from None
        if isinstance(values, dict):
            keys = (field,) if field else LABEL_KEYS
            labels = next((values[name] for name in keys if values.get(name) is not None), None)
    if labels is None and field is None:
        text = sample.get("cls", sample.get("cls.txt", b""))
        try:
            labels = text.decode().strip()
        except UnicodeDecodeError:
            raise InputError(f"The member {key}.cls of {file} must be text. Got {text!r:.40}.") from None
        labels = names.get(labels, labels)
    found = labels if isinstance(labels, list) else [labels]
    found = [names.get(str(label), label) if type(label) is int else label for label in found]
    return [_text(file, f"member {key}", label) for label in found if label is not None and str(label).strip()]


# Shared checks


def _load_json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except OSError as error:
        raise InputError(f"Cannot read labels from {file}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
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
    raise _choice_error(file, field, names, what)


def _choice_error(file: Path, field: str | None, names: Iterable[str], what: str) -> InputError:
    """The error that the requested field does not exist, or that one must be requested."""
    found = ", ".join(sorted(names))
    several = f"could have labels in several {what}s" if found else f"has no {what} with labels"
    problem = several if field is None else f"has no {what} {field!r}"
    return InputError(f"{file} {problem}. Choose one with --field. Found: {found or 'none'}.")


Reader: TypeAlias = Callable[[Path, str | None], NamedLabels]
Rows: TypeAlias = Callable[[Path], Iterator[tuple[int, dict[str, Any]]]]
