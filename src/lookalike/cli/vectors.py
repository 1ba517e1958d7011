"""`lookalike import`: import vectors that were computed elsewhere as a space."""

import dataclasses
from typing import Annotated

import typer

from lookalike.cli.options import Json, Wait, Where, opened
from lookalike.cli.output import bars, print_json, print_line
from lookalike.text import many


def import_(
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="File of vectors: .parquet, .npz, .npy, .fvecs, .ivecs or .bvecs.")
    ],
    where: Where,
    space: Annotated[str, typer.Option("--space", metavar="NAME", help="Space that the vectors are imported to.")],
    ids: Annotated[
        str | None,
        typer.Option("--ids", metavar="FILE", help="Id or path of each vector, one per line, or a .npy array of them."),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option("--column", metavar="NAME", help="Column of the vectors of a .parquet. Default: vector."),
    ] = None,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Import vectors that were computed elsewhere.

    They must be of pictures in the collection, and become a space for searches, feedback and classes. New pictures have
    no vectors in it until theirs are imported. A .parquet or .npz file names its pictures; the other formats need
    --ids. Ids and paths that are not in the collection are listed; the exit code is then 1.

    \b
    Examples:
      lookalike import clip.parquet --space clip
      lookalike import vectors.npy --ids paths.txt --space mine
    """
    with opened(where, wait=wait) as collection, bars() as progress:
        report = collection.import_vectors(source, space, ids=ids, column=column, progress=progress)
    if json:
        print_json(dataclasses.asdict(report))
    else:
        print_line(
            f"Imported {many(report.imported, 'vector')} of {report.dim:,} dimensions to space {report.space},"
            f" {len(report.unknown):,} not in the collection."
        )
        for name in report.unknown:
            print_line(f"not in the collection: {name}")
    return 1 if report.unknown else 0
