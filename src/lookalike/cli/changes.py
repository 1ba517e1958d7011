"""The verbs that change a collection.

In: the words of a command line. Out: what the verb reports, printed; exit code 1 where something was left out.
"""

import dataclasses
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from lookalike.cli.class_tables import NONE
from lookalike.cli.options import OWN, Json, Wait, Where, Workers, filtered, opened
from lookalike.cli.terminal import bars, print_json, print_line, print_note, say
from lookalike.errors import InputError
from lookalike.text import many

if TYPE_CHECKING:
    from lookalike import Filter
    from lookalike.collection import CalibrationReport, Report

SHOWN = 12
"""Classes that the line about new pictures names, at most."""


def add(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE", help="Folders, archives, pictures, patterns.")],
    where: Where,
    recipe: Annotated[
        list[str] | None,
        typer.Option("--recipe", help="A recipe, or NAME = SPEC | SPEC; may be repeated. See: lookalike recipes"),
    ] = None,
    workers: Workers = None,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Index pictures: folders, tar and zip archives, single files.

    What is known and unchanged is not read again. A file that cannot be read is skipped and listed with the reason;
    the exit code is then 1. Stopped at any moment, the same command goes on where it was.

    \b
    Examples:
      lookalike add ~/Pictures
      lookalike -c work.lookalike add photos/ more.tar --recipe deep --recipe color
    """
    with opened(where, create=True, wait=wait) as collection, bars() as progress:
        report = collection.add(*sources, recipes=recipe, progress=progress, workers=workers)
    return _print_report(report, json)


def refresh(
    where: Where,
    roots: Annotated[list[str] | None, typer.Argument(metavar="SOURCE", help="Default: everything ever added.")] = None,
    workers: Workers = None,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Look again at what was added: new, changed, moved and gone files.

    \b
    Examples:
      lookalike refresh
      lookalike refresh ~/Pictures/2024
    """
    with opened(where, wait=wait) as collection, bars() as progress:
        report = collection.refresh(*roots or (), progress=progress, workers=workers)
    return _print_report(report, json)


@filtered
def remove(
    where: Where,
    which: Annotated[
        list[str] | None, typer.Argument(metavar="ITEM", help="Paths, folders (all below them) or ids.")
    ] = None,
    space: Annotated[
        str | None, typer.Option("--space", metavar="NAME", help="A space instead: its vectors go, the pictures stay.")
    ] = None,
    wait: Wait = 0.0,
    json: Json = False,
    *,
    filter: "Filter | None",
) -> int:
    """Take pictures out of the collection. Their files stay where they are.

    \b
    Examples:
      lookalike remove ~/Pictures/screenshots
      lookalike remove --max-side 64
      lookalike remove --space vlad
    """
    with opened(where, wait=wait) as collection:
        if space is not None:
            if which or filter is not None:
                raise InputError("--space stands alone: remove a space, or pictures.")
            collection.remove_space(space)
            say(json, f"Space {space} removed.", removed=space)
            return 0
        removed = collection.remove(*which or (), filter=filter)
    say(json, f"{removed:,} removed.", removed=removed)
    return 0


def fit(
    where: Where,
    spaces: Annotated[
        list[str] | None,
        typer.Argument(metavar="SPACE", help="Default: all that can be fitted. A new one: NAME = SPEC | SPEC."),
    ] = None,
    negatives: Annotated[
        str | None,
        typer.Option("--negatives", metavar="SOURCE", help="A collection or pictures that slem tells yours from."),
    ] = None,
    more_negatives: Annotated[
        str | None,
        typer.Option("--more-negatives", metavar="SOURCE", help="Add these to the pool that a slem has."),
    ] = None,
    features: Annotated[
        bool, typer.Option("--features", help="Also make vocabularies anew, and describe every picture again.")
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Choose lam and gamma first, by altered versions of your pictures.")
    ] = False,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="[SOURCE]",
            help="Learn, or calibrate, by labels: import these first (CSV, class folders); alone: those there are.",
        ),
    ] = None,
    workers: Workers = None,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Fit spaces anew on what the collection holds now, for instance after it has grown a lot.

    With --features a space whose feature learns (vlad, fisher) is empty until its pictures are described again;
    stopped on the way, lookalike refresh goes on.

    With --calibrate the last transform's lam, and gamma where it has one, are those of a grid that serve best:
    altered versions of some pictures, or with --labels pictures of the same label, must find each other.

    ncmml, lmnn, fda, tsvm and the like learn from the pictures that have exactly one label.

    codes(bits=64) makes a space of codes, a few bytes a picture: tsvm where labels are enough, else itq.

    \b
    Examples:
      lookalike fit
      lookalike fit deep
      lookalike fit vlad --features
      lookalike fit 'slem(lam=0.001)' --negatives ~/other-pictures
      lookalike fit slem --more-negatives ~/still-others
      lookalike fit 'slem()' --calibrate
      lookalike fit 'ncmml(dim=64)' --labels labels.csv
      lookalike fit 'codes(bits=64)'
    """
    names = spaces or []
    if calibrate and (features or len(names) != 1):
        raise InputError("--calibrate goes with one space, and without --features: lookalike fit 'slem()' --calibrate")
    if more_negatives is not None and (features or negatives or calibrate or len(names) != 1):
        raise InputError("--more-negatives goes with one space that is fitted, and stands alone.")
    with opened(where, wait=wait) as collection, bars() as progress:
        if labels is not None and labels != OWN:
            if "(" in labels and not names:
                raise InputError(f"{labels} was taken for a file of labels. Write: lookalike fit '{labels}' --labels")
            imported = collection.import_labels(labels)
            if imported.unknown:
                print_note(f"Not in the collection: {many(len(imported.unknown), 'name')} of {labels}.")
        if calibrate:
            by_labels = labels is not None
            report = collection.calibrate(
                names[0], labels=by_labels, negatives=negatives, progress=progress, workers=workers
            )
            return _print_calibration(report, by_labels, json)
        if more_negatives is not None:
            n = collection.add_negatives(names[0], more_negatives, progress=progress, workers=workers)
            say(json, f"{names[0]}: told from {many(n, 'negative')}.", negatives=n)
            return 0
        fitted = collection.fit(
            *names,
            features=features,
            negatives=negatives,
            labels=labels is not None,
            progress=progress,
            workers=workers,
        )
        spaces_now = {} if json else {space["name"]: space for space in collection.stats()["spaces"]}
    if json:
        print_json(fitted)
    elif not fitted:
        print_line("Nothing to fit.")
    for name, rows in () if json else fitted.items():
        print_line(f"{name}: fitted on {_fitted(rows, spaces_now.get(name))}.")
    if labels is not None and not json:
        name = next(iter(fitted), "NAME")
        print_note(
            f"To compare: lookalike classes evaluate --space {name}; to go by it: lookalike classes use --space {name}"
        )
    if any(name.startswith("codes(") for name in names) and not json:
        print_note("What it finds: lookalike stats")
    return 0


def _fitted(n: int, space: dict[str, Any] | None) -> str:
    """How many pictures a space was fitted on, and which, where that is not all; the coder that nobody named."""
    if space is None or space["fitted_on"] != n:  # only its feature was
        return many(n, "picture")
    which = space["fitted_which"]
    pictures = f"{n:,} of {many(space['rows'], 'picture')}" if which else many(n, "picture")
    by = f" by {space['chain'][-1]}" if space["name"] == "codes" else ""
    return f"{pictures}{by}, {which}" if which else f"{pictures}{by}"


class Fit(TyperCommand):
    """`--labels` may stand alone, as its usage line says: it is then the collection's own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write the word for the collection's own labels where `--labels` has none."""
        words: list[str] = []
        for word, following in zip_longest(args, args[1:]):
            words.append(word)
            if word == "--labels" and (following is None or following.startswith("-")):
                words.append(OWN)
        return super().parse_args(ctx, words)


def label(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A CSV file or a folder of class folders.")],
    where: Where,
    author: Annotated[str, typer.Option("--author", help="Who says so.")] = "import",
    json: Json = False,
) -> int:
    """Import labels from a CSV file (path,label or id,label) or a folder with one sub-folder per class.

    Names that no picture of the collection answers to are listed; the exit code is then 1.

    \b
    Examples:
      lookalike label labels.csv
      lookalike label ~/Pictures/sorted --author anna
    """
    with opened(where) as collection:
        report = collection.import_labels(source, author=author)
    if json:
        print_json(dataclasses.asdict(report))
    else:
        print_line(f"{report.labelled:,} labelled, {len(report.unknown):,} unknown.")
        for name in report.unknown:
            print_line(f"unknown: {name}")
    return 1 if report.unknown else 0


def _print_calibration(report: "CalibrationReport", labels: bool, json: bool) -> int:
    if json:
        print_json(dataclasses.asdict(report))
        return 0
    measures = [field.name for field in dataclasses.fields(report.trials[0]) if field.name != "params"]
    print_line("  " + "  ".join(f"{name:>9}" for name in (*report.params, *measures)))
    for trial in report.trials:
        star = "*" if trial.params == report.params else " "
        values = [f"{trial.params[name]:>9g}" for name in report.params]
        values += [f"{getattr(trial, name):>9.4f}" for name in measures]
        print_line(f"{star} {'  '.join(values)}")
    if labels:
        print_note("precision: how well pictures find the others of their label; the best is taken.")
    else:
        print_note(
            "precision: how well altered pictures find their own; behind: by how many standard errors it is below the"
            " best. Of those not behind by 2 or more, the largest margin is taken."
        )
    asked = "labelled pictures" if labels else "pictures and altered versions of them"
    print_line(
        f"{report.space}: {report.chain[-1]}, by {report.questions:,} {asked} and {many(report.pool, 'negative')}."
    )
    print_line(f"{report.space}: fitted on {many(report.fitted_on, 'picture')}.")
    return 0


def _print_report(report: "Report", json: bool) -> int:
    if json:
        print_json(dataclasses.asdict(report))
    else:
        counts = {name: getattr(report, name) for name in ("added", "known", "copied", "moved", "changed", "gone")}
        said = [f"{count:,} {name}" for name, count in counts.items() if count or name == "added"]
        print_line(f"{', '.join(said)}, {len(report.skipped):,} skipped in {report.seconds:.1f} s.")
        if report.predicted or report.none:
            most = sorted(report.predicted.items(), key=lambda pair: -pair[1])
            classes = [f"{n:,} {name}" for name, n in most[:SHOWN]]
            if rest := sum(n for _, n in most[SHOWN:]):
                classes.append(f"{rest:,} of other classes")
            print_line(f"classified: {', '.join([*classes, f'{report.none:,} {NONE}'])}.")
        for path, reason in report.skipped.items():
            print_line(f"skipped: {path}: {reason}")
        for note in report.notes:
            print_note(note)
    return 1 if report.skipped else 0
