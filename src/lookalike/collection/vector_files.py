"""Import vectors that were computed elsewhere, for pictures that are in the collection, as a space.

Formats, by the extension of the file: Parquet (a column of ids or paths, and one of lists of numbers), npz as
`Collection.export` writes it, and npy, fvecs, ivecs and bvecs with a second file of ids or paths. The *vecs formats are
those of the TEXMEX datasets (Jégou et al.): for each vector its dimension as int32, then its values. A file is read in
batches and checked completely before anything becomes part of the collection.
"""

import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.collection.fitting import SEGMENT_BYTES, SEGMENT_ROWS, update_spaces
from lookalike.collection.picture_names import match_names
from lookalike.collection.space import Space, Spaces
from lookalike.collection.specs import is_space_name
from lookalike.collection.tables import VECTOR, need, parquet_errors
from lookalike.errors import InputError, UnknownNameError
from lookalike.recipes import RECIPES
from lookalike.registry import Spec
from lookalike.store.vectors import Pending
from lookalike.types import Ids, Progress, Vectors, format_id, parse_id

READ_ROWS = 8_192
"""Rows read from a file at a time."""

NAME_COLUMNS = ("id", "path", "file_name", "filepath")
"""Columns that name the picture of a row, in the order in which they are looked for."""

VECTOR_COLUMNS = (VECTOR, "vectors", "embedding", "embeddings")
"""Columns of vectors, in the order in which they are looked for."""

UNREADABLE = (OSError, ValueError, EOFError, MemoryError, TokenError, zipfile.BadZipFile, zlib.error)
"""Errors of NumPy for a file that is damaged or has another format."""


class Batch(NamedTuple):
    """Rows of a file that have a vector."""

    names: list[str]  # (n,) ids or paths of pictures
    numbers: Ids  # (n,) numbers of the rows in the file, from 1
    X: Vectors  # (n, d)


@dataclass(frozen=True, slots=True)
class VectorReport:
    """The result of an import of vectors."""

    space: str
    imported: int  # pictures that now have an imported vector from this file
    dim: int
    unknown: list[str] = field(default_factory=list)  # ids or paths that are not in the collection


def import_vectors(
    spaces: Spaces, source: Path, name: str, names_file: Path | None, column: str | None, progress: Progress
) -> VectorReport:
    """Import the vectors of a file as the space `name`, or add them to it if it has imported vectors."""
    if not is_space_name(name) or name in RECIPES:
        taken = "is the name of a built-in recipe" if name in RECIPES else "is not a valid name"
        raise InputError(f"'{name}' {taken}. Choose a name of letters, digits, _ and - for the space.")
    existing = spaces.stored().get(name)
    if existing is not None and (len(existing.chain) > 1 or not spaces.get(name).is_imported):
        raise InputError(
            f"Space '{name}' already exists with another chain: {' | '.join(existing.chain)}. Choose another name."
        )
    n, d, batches = _open(source, names_file, column)
    spec = str(Spec("imported", {"name": name, "dim": d}))
    if existing is not None and existing.chain[0] != spec:
        raise InputError(
            f"{source} has vectors of {d} dimensions. Those of space '{name}' have {spaces.get(name).dim}. Choose"
            " another name."
        )
    pendings, unknown = _write(spaces, spec, source, n, batches, progress)
    if not pendings:
        raise InputError(
            f"No picture named in {source} is in the collection. Names are ids of 16 hexadecimal digits, or paths; the"
            f" first is {unknown[0]!r:.120}."
            if unknown
            else f"{source} has no vectors."
        )
    ids = np.concatenate([pending.ids for pending in pendings])
    if existing is not None:
        _check_derived(spaces, spec, name, ids)
    with spaces.store.transaction():
        if existing is None:
            if spec not in spaces:
                spaces.store.vectors.create_space(spec, [spec])
            spaces.store.vectors.create_space(name, [spec], spec)
        for pending in pendings:
            spaces.store.vectors.commit(pending, overwrite=True)
    update_spaces([space for space in spaces if space.specs[0] == spec], progress)
    return VectorReport(name, len(ids), d, unknown)


def _write(
    spaces: Spaces, spec: str, source: Path, n: int, batches: Iterator[Batch], progress: Progress
) -> tuple[list[Pending], list[str]]:
    """Write the vectors of known pictures to segments; return them, and the names of unknown pictures."""
    items, pendings, unknown = spaces.store.items, list[Pending](), list[str]()
    first: dict[str, int] = {}  # the number of the row of each name
    seen: set[int] = set()
    waiting: list[tuple[Ids, Vectors]] = []
    waiting_rows = 0

    def flush() -> None:
        nonlocal waiting, waiting_rows
        if waiting:
            ids, X = (np.concatenate(parts) for parts in zip(*waiting, strict=True))
            pendings.append(spaces.store.vectors.write(spec, ids, X))
        waiting, waiting_rows = [], 0

    for names, numbers, X in batches:
        progress("importing", int(numbers[0]) - 1, n)
        for name, at in zip(names, numbers.tolist(), strict=True):
            if first.setdefault(name, at) != at:
                raise InputError(
                    f"{source} names {name!r} twice, in rows {first[name]} and {at}. Nothing was imported."
                )
        bad = numbers[~np.isfinite(X).all(axis=1)]
        if len(bad):
            raise InputError(f"The vector of row {bad[0]} of {source} has NaN or infinity. Nothing was imported.")
        matched = match_names(items, names, source.parent)
        unknown += [name for name, item in zip(names, matched, strict=True) if item is None]
        rows = []
        for at, item in enumerate(matched):
            if item is not None and item not in seen:  # a picture can have several paths
                seen.add(item)
                rows.append(at)
        if rows:
            waiting.append((np.array([matched[at] for at in rows], np.int64), X[rows]))
            waiting_rows += len(rows)
        if waiting_rows >= min(SEGMENT_ROWS, SEGMENT_BYTES // (4 * X.shape[1])):
            flush()
    flush()
    progress("importing", n, n)
    return pendings, unknown


def _check_derived(spaces: Spaces, spec: str, name: str, ids: Ids) -> None:
    """Raise InputError if vectors would be replaced from which another space was computed."""
    replaced = np.intersect1d(ids, spaces.store.vectors.live_ids(spec))
    derived: list[Space] = [space for space in spaces if space.specs[0] == spec and len(space.specs) > 1]
    if len(replaced) and derived:
        raise InputError(
            f"Space '{name}' already has vectors of {len(replaced):,} of these pictures, and space '{derived[0].name}'"
            f" was computed from them. Remove that space first: lookalike remove --space {derived[0].name}"
        )


def _open(source: Path, names_file: Path | None, column: str | None) -> tuple[int, int, Iterator[Batch]]:
    """Return the number of rows of a file, their dimension, and the rows in batches."""
    suffix = source.suffix.lower()
    if suffix not in READERS:
        raise UnknownNameError("type of vector file", suffix or source.name, READERS)
    if not source.is_file():
        raise InputError(f"{source} does not exist. Give a file that ends in {', '.join(READERS)}.")
    has_names = suffix in (".parquet", ".npz")
    if has_names != (names_file is None):
        raise InputError(
            f"{source} contains the names of its pictures. Leave out --ids."
            if has_names
            else f"{source} does not name its pictures. Give a file with one id or path per vector: --ids FILE"
        )
    if column is not None and suffix != ".parquet":
        raise InputError(f"Only Parquet files have columns. Leave out --column for {source}.")
    try:
        if suffix == ".parquet":
            return _open_parquet(source, column)
        if suffix == ".npz":
            names, X = _load_npz(source)
        else:
            names, X = None, READERS[suffix](source)
        if X.ndim != 2 or X.dtype.kind not in "fiu" or not X.shape[1]:
            raise InputError(f"{source} must contain a matrix of numbers. Got {X.dtype} of shape {X.shape}.")
        if names is None:
            assert names_file is not None
            names = _read_names(names_file)
    except InputError:
        raise
    except UNREADABLE as error:
        raise InputError(f"Cannot read vectors from {source}: {error}.") from None
    if len(names) != len(X):
        raise InputError(f"{source} has {len(X):,} vectors, but {names_file or source} has {len(names):,} names.")
    parts = chunks(len(X), 1, READ_ROWS)
    return (
        len(X),
        X.shape[1],
        (
            Batch(names[part], np.arange(part.start, part.start + len(names[part])) + 1, _as_float32(X[part]))
            for part in parts
        ),
    )


def _open_parquet(source: Path, column: str | None) -> tuple[int, int, Iterator[Batch]]:
    pa, parquet = need("pyarrow"), need("pyarrow.parquet")
    with parquet_errors(source):
        file = parquet.ParquetFile(source, memory_map=True)
    schema = file.schema_arrow
    keys = [name for name in NAME_COLUMNS if name in schema.names]
    key = next((name for name in keys if name != "id" or len(keys) == 1 or _has_own_ids(file)), None)
    if key is None:
        raise InputError(
            f"{source} has no column that names the pictures. Allowed: {', '.join(NAME_COLUMNS)}. Got"
            f" {', '.join(schema.names):.200}."
        )
    if not _is_text(pa, schema.field(key).type):
        raise InputError(f"The column {key} of {source} must contain text. Got {schema.field(key).type}.")
    lists = [name for name in schema.names if _is_list(pa, schema.field(name).type)]
    chosen = column or next((name for name in VECTOR_COLUMNS if name in lists), lists[0] if len(lists) == 1 else None)
    if chosen is None or chosen not in lists:
        found = ", ".join(lists) or "none"
        missing = f"no column {column!r} of vectors" if column else "no column of vectors that is clear"
        raise InputError(f"{source} has {missing}. Choose one with --column. Its columns of lists of numbers: {found}.")
    with parquet_errors(source):
        d = next((len(value) for value in _values(file, chosen)), 0)
    if not d:
        raise InputError(f"The column {chosen} of {source} has no vectors.")

    def batches() -> Iterator[Batch]:
        row = 0
        with parquet_errors(source):
            for batch in file.iter_batches(READ_ROWS, columns=[key, chosen]):
                has = batch.column(chosen).is_valid().to_numpy(zero_copy_only=False)
                numbers = row + 1 + np.flatnonzero(has)
                names = [name for name, there in zip(batch.column(key).to_pylist(), has, strict=True) if there]
                vectors = batch.column(chosen).drop_null()
                lengths = vectors.value_lengths().to_numpy(zero_copy_only=False)
                if len(wrong := np.flatnonzero(lengths != d)):
                    raise InputError(
                        f"The vector of row {numbers[wrong[0]]} of {source} has {lengths[wrong[0]]} dimensions; the"
                        f" first one has {d}. Nothing was imported."
                    )
                if any(name is None for name in names):
                    raise InputError(f"The column {key} of {source} has rows without a value. Nothing was imported.")
                values = vectors.flatten()
                if values.null_count:
                    raise InputError(f"Vectors of {source} after row {row} have missing values. Nothing was imported.")
                row += len(has)
                if names:
                    X = values.to_numpy(zero_copy_only=False).reshape(-1, d)
                    yield Batch([str(name) for name in names], numbers, _as_float32(X))

    return file.metadata.num_rows, d, batches()


def _has_own_ids(file: Any) -> bool:
    """Whether the column `id` has ids of items; other tools also have columns of this name."""
    first = next(file.iter_batches(1, columns=["id"]), None)
    return first is not None and parse_id(str(first.column(0)[0].as_py())) is not None


def _values(file: Any, column: str) -> Iterator[Any]:
    """The vectors of a column, without missing ones."""
    for batch in file.iter_batches(64, columns=[column]):
        yield from batch.column(0).drop_null()


def _is_text(pa: Any, type: Any) -> bool:
    value = type.value_type if pa.types.is_dictionary(type) else type
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _is_list(pa: Any, type: Any) -> bool:
    is_list = pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type)
    return bool(is_list and (pa.types.is_floating(type.value_type) or pa.types.is_integer(type.value_type)))


def _as_float32(X: NDArray[Any]) -> Vectors:
    with np.errstate(over="ignore"):  # values that are too large become infinite, which is an error of their row
        return np.asarray(X, np.float32)


def _load_npz(source: Path) -> tuple[list[str], NDArray[Any]]:
    with zipfile.ZipFile(source):  # np.load accepts other files, too
        arrays = np.load(source, allow_pickle=False)
    with arrays:
        if missing := [name for name in ("ids", "vectors") if name not in arrays]:
            raise InputError(
                f"{source} has no array {' or '.join(missing)}. It must have the arrays ids and vectors. Got"
                f" {', '.join(arrays) or 'none'}."
            )
        return _as_names(arrays["ids"], source), arrays["vectors"]


def _load_npy(source: Path) -> NDArray[Any]:
    return open_memmap(source, "r")


def _load_vecs(dtype: str) -> Callable[[Path], NDArray[Any]]:
    """Return a reader of a format of the TEXMEX datasets with values of this type."""

    def load(source: Path) -> NDArray[Any]:
        size, width = source.stat().st_size, np.dtype(dtype).itemsize
        if size < 4:
            raise InputError(f"{source} has no vectors.")
        d = int(np.fromfile(source, "<i4", 1)[0])
        row = 4 + width * d
        if d < 1 or size < row:
            raise InputError(f"{source} is not a file of vectors: the first has {d} dimensions, in {size} bytes.")
        n = size // row
        rows = np.memmap(source, np.uint8, "r", shape=(n, row))
        dims = np.ascontiguousarray(rows[:, :4]).view("<i4")[:, 0]
        if len(wrong := np.flatnonzero(dims != d)) or size % row:
            at = (
                f"The vector of row {wrong[0] + 1} of {source} has another dimension"
                if len(wrong)
                else f"{source} ends"
            )
            problem = f"than the first one, {d}" if len(wrong) else f"within the vector of row {n + 1}"
            raise InputError(f"{at} {problem}. All vectors must have the same dimension. Nothing was imported.")
        return np.ndarray((n, d), dtype, rows, offset=4, strides=(row, width))

    return load


def _read_names(file: Path) -> list[str]:
    """Read one id or path per vector: a .npy array of text or numbers, or a text file with one per line."""
    if file.suffix.lower() == ".npy":
        return _as_names(np.load(file, allow_pickle=False), file)
    try:
        with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
            return [line.rstrip("\r\n") for line in stream]
    except OSError as error:
        raise InputError(f"Cannot read the names in {file}: {error.strerror}.") from None


def _as_names(names: NDArray[Any], file: Path) -> list[str]:
    if names.ndim != 1 or names.dtype.kind not in "Uiu":
        raise InputError(
            f"The ids in {file} must be a list of text or whole numbers. Got {names.dtype} of shape {names.shape}."
        )
    return [str(name) if names.dtype.kind == "U" else format_id(int(name)) for name in names.tolist()]


READERS: dict[str, Callable[..., Any]] = {
    ".parquet": _open_parquet,
    ".npz": _load_npz,
    ".npy": _load_npy,
    ".fvecs": _load_vecs("<f4"),
    ".ivecs": _load_vecs("<i4"),
    ".bvecs": _load_vecs("u1"),
}
"""The readers of vector files, by extension."""
