"""`lookalike fit`: fit spaces, choose their parameters, and extend their negative pools."""

import dataclasses
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli.options import Json, Wait, Where, Workers, opened
from lookalike.cli.output import bars, print_either, print_json, print_line, print_note
from lookalike.errors import InputError
from lookalike.text import many

if TYPE_CHECKING:
    from lookalike import Collection
    from lookalike.collection import CalibrationReport
    from lookalike.collection.fitting import Fitted


def fit(
    where: Where,
    spaces: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SPACE", help="Spaces to fit. Default: all that can be fitted. New space: NAME = SPEC | SPEC."
        ),
    ] = None,
    negatives: Annotated[
        str | None,
        typer.Option(
            "--negatives",
            metavar="SOURCE",
            help="Collection or pictures to use as negatives for slem. Default: a sample of this collection.",
        ),
    ] = None,
    more_negatives: Annotated[
        str | None,
        typer.Option("--more-negatives", metavar="SOURCE", help="Add negatives to the pool of a fitted slem space."),
    ] = None,
    features: Annotated[
        bool, typer.Option("--features", help="Also refit vocabularies and extract the features of all pictures again.")
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="First choose lam and gamma, using altered versions of your pictures.")
    ] = False,
    labels: Annotated[bool, typer.Option("--labels", help="Use the existing labels to learn or calibrate.")] = False,
    import_labels: Annotated[
        str | None,
        typer.Option(
            "--import-labels",
            metavar="SOURCE",
            help="Import labels first, from a file or folder as for lookalike label, then use them.",
        ),
    ] = None,
    workers: Workers = None,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Fit spaces on the current pictures.

    Run it after the collection has grown a lot.

    With --features, spaces with a learned feature (vlad, fisher) are empty until all features are extracted again. If
    the command is interrupted, lookalike refresh completes the work.

    With --calibrate, lam and gamma of the last transform are chosen from a grid. The best values are those for which a
    search with an altered picture most often finds the original or, with --labels, a search with a labelled picture
    finds others with the same label.

    ncmml, lmnn, fda, tsvm and similar methods are fitted on the pictures that have exactly one label.

    ncmml() chooses a metric on held-out labels, or plain vectors if no metric is clearly better. ncmml(dim=64) suits
    the labels that it is fitted on, and can be worse than plain vectors for others.

    codes(bits=64) creates a space of binary codes, a few bytes per picture. If at least two labels have 10
    pictures each, it uses the best of pq, itq, tsvm and sdh on held-out pictures; otherwise pq. If speed matters more,
    use itq(bits=64).

    \b
    Examples:
      lookalike fit
      lookalike fit deep
      lookalike fit vlad --features
      lookalike fit 'slem(lam=0.001)' --negatives ~/other-pictures
      lookalike fit slem --more-negatives ~/still-others
      lookalike fit 'slem()' --calibrate
      lookalike fit 'ncmml()' --labels
      lookalike fit 'ncmml(dim=64)' --import-labels labels.csv
      lookalike fit 'codes(bits=64)'
    """
    names = spaces or []
    if calibrate and (features or len(names) != 1):
        raise InputError(
            "--calibrate needs exactly one space and cannot be combined with --features. Example: lookalike fit"
            " 'slem()' --calibrate"
        )
    if more_negatives is not None and (features or negatives or calibrate or len(names) != 1):
        raise InputError(
            "--more-negatives needs exactly one fitted space and cannot be combined with --features, --negatives or"
            " --calibrate. Example: lookalike fit slem --more-negatives SOURCE"
        )
    by_labels = labels or import_labels is not None
    with opened(where, wait=wait) as collection:
        if labels:
            _check_no_files(collection, names)
        if import_labels is not None:
            with bars() as progress:
                imported = collection.import_labels(import_labels, progress=progress)
            if imported.unknown:
                print_note(f"Not in the collection: {many(len(imported.unknown), 'name')} from {import_labels}.")
        if calibrate:
            with bars() as progress:
                report = collection.calibrate(
                    names[0], labels=by_labels, negatives=negatives, progress=progress, workers=workers
                )
            _print_calibration(report, by_labels, json)
        elif more_negatives is not None:
            with bars() as progress:
                n = collection.add_negatives(names[0], more_negatives, progress=progress, workers=workers)
            print_either(json, f"{names[0]}: the pool has {many(n, 'negative')}.", negatives=n)
        else:
            with bars() as progress:
                fitted = collection.fit(
                    *names, features=features, negatives=negatives, labels=by_labels, progress=progress, workers=workers
                )
            _print_fitted(collection, fitted, names, by_labels, json)
    return 0


def _check_no_files(collection: "Collection", names: list[str]) -> None:
    """Raise InputError if a file was given as a space, as in `--labels FILE`."""
    spaces = {space.name for space in collection.spaces}
    for name in names:
        if name not in spaces and os.path.exists(name):
            raise InputError(
                f"{name} is a file, not a space. To learn from the labels in it, use --import-labels {name}"
            )


def _print_fitted(collection: "Collection", fitted: "Fitted", names: list[str], by_labels: bool, json: bool) -> None:
    if json:
        print_json({"fitted": fitted, "notes": fitted.notes})
        return
    if not fitted:
        print_line("Nothing to fit.")
    spaces = {space["name"]: space for space in collection.stats()["spaces"]}
    for name, rows in fitted.items():
        print_line(f"{name}: fitted on {_fitted_on(rows, spaces.get(name))}.")
        if name in fitted.notes:
            print_note(f"{name}: {fitted.notes[name]}.")
    if by_labels:
        name = next(iter(fitted), "NAME")
        print_note(
            f"To evaluate: lookalike classes evaluate --space {name}; to use: lookalike classes use --space {name}"
        )
    if any(name.startswith("codes(") for name in names):
        print_note("To see the recall of the codes: lookalike stats")


def _fitted_on(n: int, space: dict[str, Any] | None) -> str:
    """Describe the pictures that a space was fitted on, and the coder if `codes` chose one."""
    if space is None or space["fitted_on"] != n:  # only its feature was fitted
        return many(n, "picture")
    which = space["fitted_which"]
    pictures = f"{n:,} of {many(space['rows'], 'picture')}" if which else many(n, "picture")
    by = f" with {space['chain'][-1]}" if space["name"] == "codes" else ""
    return f"{pictures}{by} ({which})" if which else f"{pictures}{by}"


def _print_calibration(report: "CalibrationReport", by_labels: bool, json: bool) -> None:
    if json:
        print_json(dataclasses.asdict(report))
        return
    measures = [field.name for field in dataclasses.fields(report.trials[0]) if field.name != "params"]
    print_line("  " + "  ".join(f"{name:>9}" for name in (*report.params, *measures)))
    for trial in report.trials:
        star = "*" if trial.params == report.params else " "
        values = [f"{trial.params[name]:>9g}" for name in report.params]
        values += [f"{getattr(trial, name):>9.4f}" for name in measures]
        print_line(f"{star} {'  '.join(values)}")
    if by_labels:
        print_note(
            "precision: how well pictures find others with the same label. * marks the chosen values, which have the"
            " best precision."
        )
    else:
        print_note(
            "precision: how well altered pictures find their originals. behind: difference from the best precision, in"
            " standard errors. * marks the chosen values: among those at most 2 behind, the ones with the largest"
            " margin."
        )
    asked = "labelled pictures" if by_labels else "pictures and altered versions of them"
    print_line(
        f"{report.space}: chose {report.chain[-1]} with {report.questions:,} {asked} and"
        f" {many(report.pool, 'negative')}."
    )
    print_line(f"{report.space}: fitted on {many(report.fitted_on, 'picture')}.")
