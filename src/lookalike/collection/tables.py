"""Tables: the items of a collection as Arrow record batches, as a pandas DataFrame and as a Parquet file.

One row per item. Rows are made in groups of bounded size, so that a Parquet file can be much larger than memory.
pyarrow and pandas are imported on first use; they are in the extra `tables`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.atomic_files import atomic_write
from lookalike.collection.resolve import items_in, select
from lookalike.collection.space import Space
from lookalike.errors import InputError, MissingError
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item
from lookalike.types import NO_EXIF, Ids, Progress, format_id

GROUP_ROWS = 16_384
GROUP_BYTES = 64 * 2**20
"""Limits of a row group: rows and bytes of its vectors."""

VECTOR = "vector"
"""The column of the vectors."""

SPACE_KEY = b"lookalike.space"
"""Key of the space's name in the metadata of the column `vector`."""


def need(module: str) -> Any:
    """Import a module of the extra `tables`; raise MissingError if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingError(
            f"Tables need the package {package}. Install it with: pip install 'lookalike[tables]'"
        ) from None


@contextmanager
def parquet_errors(file: Path) -> Iterator[None]:
    """Raise InputError instead of the errors of pyarrow in this block, which reads a Parquet file."""
    try:
        yield
    except (need("pyarrow").ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read {file} as a Parquet file: {error}.") from None


def to_arrow(
    store: Store, filter: Filter | None, ids: Sequence[int] | None, space: Space | None, progress: Progress
) -> Any:
    """Return the items that pass a filter, or those with these ids, as a `pyarrow.Table`."""
    pa = need("pyarrow")
    schema, batches = _batches(store, filter, ids, space, progress)
    return pa.Table.from_batches(batches, schema)


def write_parquet(
    store: Store,
    target: Path,
    filter: Filter | None,
    ids: Sequence[int] | None,
    space: Space | None,
    progress: Progress,
) -> int:
    """Write the items to a Parquet file, one row group per batch; return their number."""
    parquet, n = need("pyarrow.parquet"), 0
    schema, batches = _batches(store, filter, ids, space, progress)
    with atomic_write(target) as part, parquet.ParquetWriter(part, schema) as writer:
        for batch in batches:
            writer.write_batch(batch, row_group_size=GROUP_ROWS)
            n += batch.num_rows
    return n


def _batches(
    store: Store, filter: Filter | None, ids: Sequence[int] | None, space: Space | None, progress: Progress
) -> tuple[Any, Iterator[Any]]:
    """Return the schema and the record batches."""
    pa = need("pyarrow")
    chosen: list[int] = select(store, filter or Filter()).tolist() if ids is None else [int(item) for item in ids]
    if ids is not None and filter is not None:
        passed = set(select(store, filter).tolist())
        chosen = [item for item in chosen if item in passed]
    columns = _columns(pa)
    row_bytes, add_vectors = 1_024, None
    if space is not None:
        add_vectors, field = _vectors(pa, space)
        columns.append((field, None))
        row_bytes += field.type.list_size * field.type.value_type.bit_width // 8
    schema = pa.schema([field for field, _ in columns])
    step = max(1, min(GROUP_ROWS, GROUP_BYTES // row_bytes))

    def batches() -> Iterator[Any]:
        for start in range(0, len(chosen), step):
            progress("exporting", start, len(chosen))
            items = list(items_in(store, chosen[start : start + step]))
            numbers = [item.id for item in items]
            labels = store.judgements.labels(numbers)
            predictions = store.judgements.predictions.get(numbers)
            arrays = [
                pa.array([value(item, labels[item.id], predictions.get(item.id)) for item in items], field.type)
                for field, value in columns
                if value is not None
            ]
            if add_vectors is not None:
                arrays.append(add_vectors(np.array(numbers, np.int64)))
            yield pa.record_batch(arrays, schema=schema)
        progress("exporting", len(chosen), len(chosen))

    return schema, batches()


def _columns(pa: Any) -> list[tuple[Any, Callable[[Item, list[str], Any], Any] | None]]:
    """The columns other than vectors: an Arrow field, and its value for an item, its labels and its prediction."""
    time, text = pa.timestamp("us", tz="UTC"), pa.string()

    def exif(name: str) -> Callable[[Item, list[str], Any], Any]:
        return lambda item, _, __: getattr(item.exif or NO_EXIF, name)

    return [
        (pa.field("id", text, nullable=False), lambda item, _, __: format_id(item.id)),
        (pa.field("path", text), lambda item, _, __: valid_unicode(item.paths[0]) if item.paths else None),
        (pa.field("paths", pa.list_(text)), lambda item, _, __: [valid_unicode(path) for path in item.paths]),
        (pa.field("width", pa.int32()), lambda item, _, __: item.width),
        (pa.field("height", pa.int32()), lambda item, _, __: item.height),
        (pa.field("format", text), lambda item, _, __: item.format),
        (pa.field("bytes", pa.int64()), lambda item, _, __: item.bytes),
        (pa.field("taken_at", time), lambda item, _, __: _datetime(item.taken_at)),
        (pa.field("added_at", time), lambda item, _, __: _datetime(item.added_at)),
        (pa.field("labels", pa.list_(text)), lambda _, labels, __: [valid_unicode(label) for label in labels]),
        (pa.field("predicted", text), lambda _, __, guess: None if guess is None else valid_unicode(guess.label)),
        (pa.field("probability", pa.float64()), lambda _, __, guess: None if guess is None else guess.probability),
        *((pa.field(name, text), exif(name)) for name in ("camera", "lens")),
        *((pa.field(name, pa.float64()), exif(name)) for name in ("exposure_s", "aperture")),
        (pa.field("iso", pa.int32()), exif("iso")),
        *((pa.field(name, pa.float64()), exif(name)) for name in ("focal_length_mm", "latitude", "longitude")),
    ]


def _vectors(pa: Any, space: Space) -> tuple[Callable[[Ids], Any], Any]:
    """Return a function from ids (n,) to a column of their vectors or codes, null if missing, and its field."""
    index: Any = space.index
    source = index.codes if space.is_coded else index
    known = source.ids  # ascending
    d = int(space.dim or 0)
    value = pa.uint8() if space.is_coded else pa.float32()
    field = pa.field(VECTOR, pa.list_(value, d), metadata={SPACE_KEY: space.name.encode()})

    def column(ids: Ids) -> Any:
        has = np.isin(ids, known)
        rows = np.zeros((len(ids), d), np.uint8 if space.is_coded else np.float32)
        if has.any():
            rows[has] = source.vectors(ids[has])
        return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), d, mask=pa.array(~has))

    return column, field


def _datetime(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def valid_unicode(text: str) -> str:
    """Escape undecodable bytes, so that the text is valid UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()
