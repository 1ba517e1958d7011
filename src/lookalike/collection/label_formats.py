"""The formats of labels: which files and folders they are, and the functions that read and write them."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lookalike.collection import label_readers as readers
from lookalike.collection import label_writers as writers
from lookalike.errors import InputError, UnknownNameError


class LabelFormat(NamedTuple):
    """A format: its reader, and the writer of a folder or tar; formats of text are written by `collection.export`."""

    read: readers.Reader
    write: Callable[[writers.Target], int] | None = None


FORMATS: dict[str, LabelFormat] = {
    "csv": LabelFormat(readers.read_csv),
    "coco": LabelFormat(readers.read_coco),
    "fiftyone": LabelFormat(readers.read_fiftyone, writers.write_fiftyone),
    "huggingface": LabelFormat(readers.read_hugging_face, writers.write_hugging_face),
    "imagefolder": LabelFormat(readers.read_folders, writers.write_folders),
    "labelstudio": LabelFormat(readers.read_label_studio),
    "parquet": LabelFormat(readers.read_parquet),
    "webdataset": LabelFormat(readers.read_web_dataset, writers.write_web_dataset),
}
"""The formats of labels that are read."""

SUFFIXES = {".csv": "csv", ".jsonl": "huggingface", ".parquet": "parquet", ".tar": "webdataset"}
"""The formats by extension; a .json file is read to find its format."""

DATASETS = [name for name, known in FORMATS.items() if known.write is not None]
"""The formats that are written with the pictures, to a new folder or a tar."""


def find_format(source: Path, format: str | None = None) -> str:
    """Return the format of a file or folder, by its name or by the files in it, or check the one that was given."""
    if format is not None:
        if format not in FORMATS:
            raise UnknownNameError("format of labels", format, FORMATS)
        return format
    if source.is_dir():
        if (source / "samples.json").is_file():
            return "fiftyone"
        try:
            folders = [source, *(folder for folder in source.iterdir() if folder.name.lower() in readers.SPLITS)]
        except OSError as error:
            raise InputError(f"Cannot read labels from {source}: {error.strerror}.") from None
        found = any((folder / name).is_file() for folder in folders for name in readers.METADATA)
        return "huggingface" if found else "imagefolder"
    if not source.is_file():
        raise InputError(
            f"{source} does not exist. Give a file of labels ({', '.join([*SUFFIXES, '.json'])}), or a folder with one"
            " subfolder per class."
        )
    if source.name in readers.METADATA:
        return "huggingface"
    suffix = source.suffix.lower()
    return readers.sniff_json(source) if suffix == ".json" else SUFFIXES.get(suffix, "csv")
