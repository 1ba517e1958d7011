"""Write labels, predictions and pictures as datasets of other tools; see `label_formats` for the table of formats.

A dataset is a new folder, or a tar. Names of pictures in it start with the id of the item, so that labels that were
changed elsewhere can be imported again. Pictures that cannot be read are left out of the dataset.
"""

import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from lookalike.atomic_files import atomic_write
from lookalike.collection.label_readers import classes_file
from lookalike.collection.picture_files import check_new_folder, write_pictures
from lookalike.collection.resolve import ITEMS_BATCH, items_in, read_item
from lookalike.collection.tables import valid_unicode
from lookalike.errors import ImageError, InputError
from lookalike.store.classes import StoredPrediction
from lookalike.store.directory import Store
from lookalike.store.items import Item
from lookalike.text import RENAMED, renamed_labels, safe_folders
from lookalike.types import Progress, format_id

OnSkip: TypeAlias = Callable[[str, str], None]
"""Called with the path of a picture that cannot be read, and the reason."""

FIELDS = {
    "filepath": "fiftyone.core.fields.StringField",
    "tags": "fiftyone.core.fields.ListField(fiftyone.core.fields.StringField)",
    "metadata": "fiftyone.core.fields.EmbeddedDocumentField(fiftyone.core.metadata.ImageMetadata)",
    "lookalike_id": "fiftyone.core.fields.StringField",
    "predictions": "fiftyone.core.fields.EmbeddedDocumentField(fiftyone.core.labels.Classification)",
}
"""The fields of the samples of a FiftyOne dataset, other than `ground_truth`."""


class Row(NamedTuple):
    """An item with its labels and its prediction."""

    item: Item
    labels: list[str]
    prediction: StoredPrediction | None

    @property
    def file(self) -> str:
        """The name of the picture in a dataset."""
        suffix = PurePath(self.item.paths[0].rpartition("::")[2] if self.item.paths else "").suffix
        return f"{format_id(self.item.id)}{suffix or f'.{self.item.format}'}"


class Target(NamedTuple):
    """What is written, and where."""

    store: Store
    ids: Sequence[int]
    path: Path
    copy: bool
    on_skip: OnSkip | None
    progress: Progress


def rows_of(store: Store, ids: Sequence[int]) -> Iterator[Row]:
    """Yield these items with their labels and predictions."""
    for start in range(0, len(ids), ITEMS_BATCH):
        batch = list(items_in(store, ids[start : start + ITEMS_BATCH]))
        numbers = [item.id for item in batch]
        labels, predictions = store.judgements.labels(numbers), store.judgements.predictions.get(numbers)
        for item in batch:
            names = [valid_unicode(label) for label in labels[item.id]]
            yield Row(item, names, predictions.get(item.id))


def label_studio_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Tasks of Label Studio as JSON: labels as annotations, and predictions with their probability as score.

    Pictures are named as files of Label Studio's local storage with the document root `/`. The control tag of the
    labels is `<Choices name="class" toName="image">`.
    """
    separator = "[\n"
    for row in rows:
        path = valid_unicode(row.item.paths[0]) if row.item.paths else ""
        task: dict[str, Any] = {
            "data": {
                "image": f"/data/local-files/?d={quote(path.lstrip('/'))}",
                "lookalike_id": format_id(row.item.id),
            },
            "annotations": [{"result": [_choices(row.labels)]}] if row.labels else [],
            "predictions": [],
        }
        if row.prediction is not None:
            task["predictions"] = [
                {
                    "model_version": f"lookalike {row.prediction.model}",
                    "score": row.prediction.probability,
                    "result": [_choices([valid_unicode(row.prediction.label)])],
                }
            ]
        yield separator + json.dumps(task, ensure_ascii=False)
        separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"


def write_folders(target: Target) -> int:
    """Write CLASS/ID.jpg, the layout of torchvision's ImageFolder. A picture with several labels is in several folders.

    Pictures without a label are left out. Labels that cannot be names of folders are in the file RENAMED.
    """
    check_new_folder(target.path)
    rows = [row for row in rows_of(target.store, target.ids) if row.labels]
    names = sorted({label for row in rows for label in row.labels})
    folders = safe_folders(names)
    files = [(row, target.path / folders[label] / row.file) for row in rows for label in row.labels]
    written = _write_files(target, files)
    if renamed := renamed_labels(folders):
        _write_lines(target.path / RENAMED, [renamed])
    return len({row.item.id for row in written})


def write_hugging_face(target: Target) -> int:
    """Write an `imagefolder` of Hugging Face datasets: the pictures, and metadata.jsonl with a row for each."""
    check_new_folder(target.path)
    several = _any_several(target)
    written = _write_files(target, [(row, target.path / row.file) for row in rows_of(target.store, target.ids)])

    def lines() -> Iterator[str]:
        for row in written:
            labels = {"labels": row.labels} if several else {"label": next(iter(row.labels), None)}
            values = {"file_name": row.file, **labels, **_predicted(row), "lookalike_id": format_id(row.item.id)}
            yield json.dumps(values, ensure_ascii=False) + "\n"

    _write_lines(target.path / "metadata.jsonl", lines())
    return len(written)


def write_fiftyone(target: Target) -> int:
    """Write a `FiftyOneDataset`: metadata.json, samples.json, and the pictures in data/.

    The fields are `ground_truth` (Classification, or Classifications if a picture has several labels), `predictions`
    (Classification with confidence) and `lookalike_id`. Without a version in metadata.json, FiftyOne reads the fields
    from their names instead of from its database documents, whose layout changes with its versions.
    """
    check_new_folder(target.path)
    several = _any_several(target)
    files = [(row, target.path / "data" / row.file) for row in rows_of(target.store, target.ids)]
    written = _write_files(target, files)
    kind = "Classifications" if several else "Classification"
    field = f"fiftyone.core.fields.EmbeddedDocumentField(fiftyone.core.labels.{kind})"

    def samples() -> Iterator[str]:
        separator = '{"samples": [\n'
        for row in written:
            yield separator + json.dumps(_sample(row, several), ensure_ascii=False)
            separator = ",\n"
        yield '{"samples": []}\n' if not written else "\n]}\n"

    metadata = {
        "name": target.path.name,
        "media_type": "image",
        "num_samples": len(written),
        "sample_fields": {**FIELDS, "ground_truth": field},
        "info": {"classes": sorted({label for row in written for label in row.labels})},
    }
    _write_lines(target.path / "metadata.json", [json.dumps(metadata, ensure_ascii=False, indent=1) + "\n"])
    _write_lines(target.path / "samples.json", samples())
    return len(written)


def write_web_dataset(target: Target) -> int:
    """Write a tar in the WebDataset format: ID.jpg, ID.json with the labels and, with a label, ID.cls with its number.

    The numbers are those of the lines of the file TARGET.classes.txt, from 0; a picture with several labels has the
    number of the first.
    """
    names = sorted({label for row in rows_of(target.store, target.ids) for label in row.labels})
    numbers = {name: number for number, name in enumerate(names)}
    n = 0
    with atomic_write(target.path) as part, tarfile.open(part, "w") as archive:
        for done, row in enumerate(rows_of(target.store, target.ids)):
            target.progress("writing pictures", done, len(target.ids))
            try:
                data = read_item(target.store, row.item)
            except ImageError as error:
                _skip(target, row.item.paths[0] if row.item.paths else row.file, str(error))
                continue
            key, _, suffix = row.file.partition(".")
            values = {"labels": row.labels, **_predicted(row), "width": row.item.width, "height": row.item.height}
            members = {suffix: data, "json": json.dumps(values, ensure_ascii=False).encode()}
            if row.labels:
                members["cls"] = str(numbers[row.labels[0]]).encode()
            for extension, content in members.items():
                member = tarfile.TarInfo(f"{key}.{extension}")
                member.size, member.mtime = len(content), int(row.item.added_at)
                archive.addfile(member, io.BytesIO(content))
            n += 1
    target.progress("writing pictures", len(target.ids), len(target.ids))
    _write_lines(classes_file(target.path), (f"{name}\n" for name in names))
    return n


def _choices(labels: Sequence[str]) -> dict[str, Any]:
    return {"from_name": "class", "to_name": "image", "type": "choices", "value": {"choices": list(labels)}}


def _predicted(row: Row) -> dict[str, Any]:
    if row.prediction is None:
        return {"predicted": None, "probability": None}
    return {"predicted": valid_unicode(row.prediction.label), "probability": row.prediction.probability}


def _sample(row: Row, several: bool) -> dict[str, Any]:
    labels: list[dict[str, Any]] = [{"_cls": "Classification", "label": label} for label in row.labels]
    truth: dict[str, Any] | None = next(iter(labels), None)
    if several:
        truth = {"_cls": "Classifications", "classifications": labels}
    guess = row.prediction
    return {
        "filepath": f"data/{row.file}",
        "tags": [],
        "metadata": {
            "_cls": "ImageMetadata",
            "size_bytes": row.item.bytes,
            "width": row.item.width,
            "height": row.item.height,
        },
        "ground_truth": truth,
        "predictions": None
        if guess is None
        else {"_cls": "Classification", "label": valid_unicode(guess.label), "confidence": guess.probability},
        "lookalike_id": format_id(row.item.id),
    }


def _any_several(target: Target) -> bool:
    """Whether a picture has several labels; then all labels are lists, so that all rows have the same type."""
    batches = (target.ids[start : start + ITEMS_BATCH] for start in range(0, len(target.ids), ITEMS_BATCH))
    return any(len(names) > 1 for ids in batches for names in target.store.judgements.labels(ids).values())


def _write_files(target: Target, files: Sequence[tuple[Row, Path]]) -> list[Row]:
    """Write pictures as links, or as copies; return the rows of those that were written, each once."""
    missing = write_pictures(
        target.store, [(row.item.id, path) for row, path in files], link=not target.copy, progress=target.progress
    )
    for path, reason in missing.items():
        _skip(target, path, reason)
    target.path.mkdir(parents=True, exist_ok=True)
    return list({row.item.id: row for row, path in files if str(path) not in missing}.values())


def _skip(target: Target, name: str, reason: str) -> None:
    if target.on_skip is None:
        raise InputError(f"Cannot read the picture {name}: {reason}.")
    target.on_skip(name, reason)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with atomic_write(path) as part, part.open("w", encoding="utf-8", newline="") as stream:
        stream.writelines(lines)
