"""`lookalike classes` and `lookalike classify`: create, show, correct and evaluate classes, and predict them.

A class is a label: `lookalike label` and finished feedback sessions create classes, too.
"""

import dataclasses
import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import NONE, Author, Json, Where, opened
from lookalike.cli.output import bars, print_either, print_json, print_line, print_note, print_table, show_path
from lookalike.errors import InputError
from lookalike.text import human_probability, many

if TYPE_CHECKING:
    from lookalike import Collection, types
    from lookalike.collection import ClassView, Evaluation, Prediction, PredictionCounts
else:
    types = Lazy("lookalike.types")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the class.")]
Images = Annotated[
    list[str], typer.Argument(metavar="IMAGE", help="Paths or ids of pictures in the collection, or folders.")
]
Kind = Annotated[
    Literal["ncm", "ncmc", "second"] | None,
    typer.Option("--kind", help="Model: ncm, one mean per class; ncmc, ten means; second, a shared covariance."),
]

app = typer.Typer(name="classes", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def classes(ctx: typer.Context) -> None:
    """Create, show, correct and evaluate classes. Every label is a class.

    \b
    Examples:
      lookalike classes add beach holiday/1.jpg holiday/2.jpg
      lookalike classes list
      lookalike classes evaluate
      lookalike classify new.jpg
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of an existing or a new class.")],
    where: Where,
    images: Annotated[
        list[str] | None,
        typer.Argument(metavar="IMAGE", help="Paths or ids of pictures in the collection, or folders."),
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Add the positive pictures of this feedback session.")
    ] = None,
    author: Author = None,
    json: Json = False,
) -> int:
    """Add pictures to a class. If the class is new, it is created; no training is needed.

    Without pictures, the class is created empty. If it has a parent in the hierarchy, it can still be predicted.

    \b
    Examples:
      lookalike classes add beach holiday/1.jpg holiday/2.jpg
      lookalike classes add beach ~/Pictures/beaches
      lookalike classes add beach --session 3f9a1c02
    """
    with opened(where) as collection:
        if session is not None:
            if images or author is not None:
                raise InputError(
                    "--session adds the pictures of the session under its author. Leave out IMAGE and --author."
                )
            added = collection.classes.add_session(session, name).labelled
        else:
            added = collection.classes.add(name, images or (), author=author)
        total = len(collection.classes.show(name).members)
    print_either(
        json,
        f"Added {many(added, 'picture')} to {name}, which now has {total:,}.",
        name=name,
        added=added,
        pictures=total,
    )
    return 0


@app.command()
def remove(name: Name, images: Images, where: Where, json: Json = False) -> int:
    """Remove pictures from a class. They stay in the collection.

    \b
    Examples:
      lookalike classes remove beach holiday/2.jpg
    """
    with opened(where) as collection:
        removed = collection.classes.remove(name, images)
    print_either(json, f"Removed {many(removed, 'picture')} from {name}.", name=name, removed=removed)
    return 0


@app.command("list")
def list_(where: Where, json: Json = False) -> int:
    """List the classes.

    The table shows the number of labelled and predicted pictures and the parents of each class.

    \b
    Examples:
      lookalike classes list
      lookalike classes list --json
    """
    with opened(where) as collection:
        found = collection.classes.all()
    if json:
        print_json([dataclasses.asdict(summary) for summary in found])
        return 0
    if not found:
        print_note("No classes yet. Create one: lookalike classes add NAME IMAGE…, or lookalike label SOURCE")
        return 0
    rows = [
        [
            summary.name,
            f"{summary.pictures:,}",
            f"{summary.predicted:,}",
            ", ".join(summary.parents),
            f"{summary.elsewhere:,} no longer in the collection" if summary.elsewhere else "",
        ]
        for summary in found
    ]
    print_table(["class", "pictures", "predicted", "parents", ""], rows)
    return 0


@app.command()
def show(
    name: Name,
    where: Where,
    k: Annotated[
        int | None,
        typer.Option(
            "-k", metavar="N", min=0, help="Maximum number of labelled and of predicted pictures. Default: all."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Show the pictures of a class.

    Labelled pictures come first, then predicted ones by decreasing probability.

    \b
    Examples:
      lookalike classes show beach
      lookalike classes show beach -k 20 --json
    """
    with opened(where) as collection:
        view = collection.classes.show(name)
        _print_class(collection, view, k, json)
    return 0


@app.command()
def rename(
    name: Name,
    new: Annotated[str, typer.Argument(metavar="NEW", help="New name.")],
    where: Where,
    json: Json = False,
) -> int:
    """Rename a class. Its sessions and the hierarchy are updated, too.

    \b
    Examples:
      lookalike classes rename beech beach
    """
    with opened(where) as collection:
        n = collection.classes.rename(name, new)
    print_either(json, f"Renamed {name} to {new} ({many(n, 'picture')}).", name=new, pictures=n)
    return 0


@app.command()
def merge(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Two or more classes.")],
    where: Where,
    into: Annotated[
        str, typer.Option("--into", metavar="NAME", help="Name of the merged class: a new one, or one of these.")
    ],
    json: Json = False,
) -> int:
    """Merge several classes into one.

    \b
    Examples:
      lookalike classes merge beach dunes --into coast
    """
    with opened(where) as collection:
        n = collection.classes.merge(*names, into=into)
    print_either(json, f"{into} now has {many(n, 'picture')}.", name=into, pictures=n)
    return 0


@app.command()
def split(
    name: Name,
    new: Annotated[str, typer.Argument(metavar="NEW", help="Name of the new class.")],
    images: Images,
    where: Where,
    author: Author = None,
    json: Json = False,
) -> int:
    """Move some pictures of a class to a new class.

    \b
    Examples:
      lookalike classes split coast cliffs holiday/7.jpg holiday/9.jpg
    """
    with opened(where) as collection:
        n = collection.classes.split(name, new, images, author=author)
    print_either(json, f"Moved {many(n, 'picture')} from {name} to {new}.", name=new, pictures=n)
    return 0


@app.command()
def delete(name: Name, where: Where, json: Json = False) -> int:
    """Delete a class with its labels and predictions. The pictures stay in the collection.

    \b
    Examples:
      lookalike classes delete beach
    """
    with opened(where) as collection:
        n = collection.classes.delete(name)
    print_either(json, f"Deleted {name}, which had {many(n, 'picture')}.", name=name, pictures=n)
    return 0


@app.command()
def confirm(
    name: Name,
    where: Where,
    images: Annotated[
        list[str] | None,
        typer.Argument(metavar="IMAGE", help="Paths or ids of pictures in the collection, or folders."),
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="Confirm all predictions of the class.")] = False,
    at_least: Annotated[
        float | None, typer.Option("--at-least", metavar="P", help="Confirm predictions with this probability or more.")
    ] = None,
    author: Author = None,
    json: Json = False,
) -> int:
    """Confirm predictions. The pictures become labelled members of the class.

    \b
    Examples:
      lookalike classes confirm beach new/3.jpg new/4.jpg
      lookalike classes confirm beach --at-least 0.9
      lookalike classes confirm beach --all
    """
    if bool(images) + all + (at_least is not None) != 1:
        raise InputError("Give exactly one of: pictures to confirm, --at-least P, or --all.")
    with opened(where) as collection:
        chosen = 0.0 if all else at_least
        n = collection.classes.confirm(name, images or None, at_least=chosen, author=author)
    print_either(json, f"Confirmed {many(n, 'prediction')} of {name}.", name=name, confirmed=n)
    return 0


@app.command()
def reject(name: Name, images: Images, where: Where, author: Author = None, json: Json = False) -> int:
    """Reject predictions. The class is never predicted for these pictures again.

    \b
    Examples:
      lookalike classes reject beach new/5.jpg
    """
    with opened(where) as collection:
        n = collection.classes.reject(name, images, author=author)
    print_either(
        json, f"Removed {many(n, 'prediction')}; {name} is never predicted for these again.", name=name, gone=n
    )
    return 0


@app.command()
def hierarchy(
    where: Where,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE", help="CSV file with the columns child,parent, or a folder with nested subfolders."
        ),
    ] = None,
    from_names: Annotated[
        bool, typer.Option("--from-names", help="Look up the names of the classes in WordNet, a dictionary of nouns.")
    ] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Delete the hierarchy.")] = False,
    json: Json = False,
) -> int:
    """Set or list the hierarchy: the parents of each class. Classes with few or no pictures use the means of
    related classes.

    Without a source, list the current hierarchy.

    \b
    Examples:
      lookalike classes hierarchy tree.csv
      lookalike classes hierarchy ~/Pictures/sorted
      lookalike classes hierarchy --from-names
      lookalike classes hierarchy --clear
    """
    if (source is not None) + from_names + clear > 1:
        raise InputError("Give a source, --from-names or --clear, but only one of them.")
    with opened(where) as collection:
        if from_names:
            collection.classes.set_hierarchy(collection.classes.named_hierarchy())
        elif clear or source is not None:
            collection.classes.set_hierarchy([] if source is None else source)
        pairs = collection.classes.hierarchy()
    if json:
        print_json([{"child": child, "parent": parent} for child, parent in pairs])
    elif source is not None or from_names or clear:
        print_line(f"The hierarchy has {many(len(pairs), 'pair')} of child and parent.")
    elif not pairs:
        print_note("No hierarchy yet. Import one: lookalike classes hierarchy tree.csv")
    else:
        print_table(["class", "parent"], [list(pair) for pair in pairs])
    return 0


@app.command()
def use(
    where: Where,
    space: Annotated[
        str | None, typer.Option("--space", metavar="NAME", help="Space in which pictures are classified.")
    ] = None,
    kind: Kind = None,
    reject: Annotated[
        float | None,
        typer.Option(
            "--reject",
            metavar="SHARE",
            help="Share of a class's own pictures that may be rejected (higher = stricter).",
        ),
    ] = None,
    prior: Annotated[
        float | None, typer.Option("--prior", metavar="N", help="Weight of the parent class, in pictures.")
    ] = None,
    on_add: Annotated[
        bool | None, typer.Option("--on-add/--no-on-add", help="Classify new pictures when they are added.")
    ] = None,
    json: Json = False,
) -> int:
    """Change how pictures are classified. Without options, print the current settings.

    \b
    Examples:
      lookalike classes use
      lookalike classes use --space ncmml --kind second
      lookalike classes use --no-on-add
    """
    given = {"space": space, "kind": kind, "reject": reject, "prior": prior, "on_add": on_add}
    with opened(where) as collection:
        settings = collection.classes.use(**{name: value for name, value in given.items() if value is not None})
    if json:
        print_json(dataclasses.asdict(settings))
        return 0
    print_line(f"space   {settings.space or 'first space'}")
    print_line(f"kind    {settings.kind}")
    print_line(f"reject  {settings.reject:g}")
    print_line(f"prior   {settings.prior:g} pictures")
    print_line(f"on add  {'yes' if settings.on_add else 'no'}")
    return 0


@app.command()
def evaluate(
    where: Where,
    space: Annotated[
        str | None,
        typer.Option("--space", metavar="NAME", help="Space to evaluate in. Default: the space used by the classes."),
    ] = None,
    kind: Kind = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Number of classes to list, worst first.")] = 40,
    json: Json = False,
) -> int:
    """Evaluate the classes by cross-validation.

    Each tenth of a class is classified by a model fitted without it; a space that learned from labels is refitted
    without it, too. Then whole classes are left out to test whether their pictures are rejected as “none of these”.
    Nothing is saved.

    \b
    Examples:
      lookalike classes evaluate
      lookalike classes evaluate --kind second --space deep
    """
    with opened(where) as collection, bars(lines=not json) as progress:
        found = collection.classes.evaluate(space=space, kind=kind, progress=progress)
    _print_evaluation(found, k, json)
    return 0


def classify(
    where: Where,
    images: Annotated[
        list[str] | None, typer.Argument(metavar="IMAGE", help="Paths or ids of pictures, or folders.")
    ] = None,
    all: Annotated[
        bool, typer.Option("--all", help="Classify all unlabelled pictures and store the predictions.")
    ] = False,
    json: Json = False,
) -> int:
    """Classify pictures into the classes of the collection.

    The result is a class with its probability and the runner-up, or “none of these”.

    Pictures need not be in the collection, and nothing about them is stored. With --all, predictions are stored
    separately from labels: `classes show` lists them; `classes confirm` and `classes reject` confirm or
    reject them.

    \b
    Examples:
      lookalike classify new.jpg other.jpg
      lookalike classify ~/Pictures/new
      lookalike classify 0f3a5c7e9b1d2f40 --json
      lookalike classify --all
    """
    if bool(images) == all:
        raise InputError("Give either pictures to classify, or --all for all unlabelled pictures.")
    skipped: dict[str, str] = {}
    with opened(where) as collection, bars(lines=not json) as progress:
        if all:
            _print_predicted(collection.classes.predict(progress), json)
            return 0
        classified = collection.classify(images or (), on_skip=skipped.__setitem__, progress=progress)
        if not collection.classes.can_reject():
            print_note("No class has two pictures yet, so there are no probabilities and no picture can be rejected.")
        elif any(found.probability is None for found in classified):
            print_note("No probabilities: the collection has one class and no unlabelled pictures to compare it with.")
    _print_classified(classified, skipped, json)
    return 1 if skipped else 0


def _print_class(collection: "Collection", view: "ClassView", k: int | None, json: bool) -> None:
    """Print a class with its labelled and its predicted pictures."""
    members, predicted = view.members[:k], view.predicted[:k]
    items = collection.get([one.item for one in members] + [one.item for one in predicted])
    paths = {item: next(iter(found.paths), None) for item, found in items.items()}
    if json:
        labelled = [
            {"id": types.format_id(m.item), "path": paths[m.item], "author": m.author, "source": m.source, "at": m.at}
            for m in members
        ]
        suggested = [
            {"id": types.format_id(p.item), "path": paths[p.item], "probability": p.probability}
            | {"source": "predicted", "space": p.space, "model": p.model, "at": p.at}
            for p in predicted
        ]
        print_json({"name": view.name, "parents": view.parents, "pictures": labelled, "predicted": suggested})
        return
    of = f" ({'parent' if len(view.parents) == 1 else 'parents'}: {', '.join(view.parents)})" if view.parents else ""
    print_line(f"{view.name}{of}: {many(len(view.members), 'picture')}, {len(view.predicted):,} predicted.")
    for m in members:
        when = time.strftime("%Y-%m-%d", time.localtime(m.at))
        print_line(f"  {f'{m.source} {m.author} {when}':32}  {show_path(paths[m.item])}")
    for p in predicted:
        print_line(f"  {f'predicted, {human_probability(p.probability)}':32}  {show_path(paths[p.item])}")


def _print_classified(classified: list["Prediction"], skipped: dict[str, str], json: bool) -> None:
    """Print the predicted classes and the pictures that could not be read."""
    if json:
        rows = [
            {
                "id": None if v.id is None else types.format_id(v.id),
                "path": v.path,
                "class": v.label,
                "probability": v.probability,
                "nearest": v.nearest,
                "runner_up": v.runner_up,
                "runner_up_probability": v.runner_up_probability,
                "labels": v.labels,
            }
            for v in classified
        ]
        print_json({"pictures": rows, "skipped": skipped})
        return
    lines = []
    for v in classified:
        rest = f"{v.runner_up} {_chance(v.runner_up_probability)}".rstrip() if v.runner_up is not None else ""
        if v.label is None:
            rest = "" if v.nearest is None else f"nearest {v.nearest}"
        chance = "" if v.label is None else _chance(v.probability)
        labels = f"  (labels: {', '.join(v.labels)})" if v.labels else ""
        lines.append([v.label or NONE, chance, rest, f"{show_path(v.path)}{labels}"])
    if lines:
        print_table(["class", "probability", "runner-up", "picture"], lines)
    for name, reason in skipped.items():
        print_line(f"skipped: {name}: {reason}")


def _print_predicted(found: "PredictionCounts", json: bool) -> None:
    """Print the number of predictions per class."""
    if json:
        print_json({"predicted": found.classes, "none": found.none})
        return
    print_line(f"{many(sum(found.classes.values()), 'picture')} classified, {found.none:,} {NONE}.")
    if found.classes:
        print_table(["class", "predicted"], [[name, f"{n:,}"] for name, n in found.classes.items()])


def _print_evaluation(found: "Evaluation", k: int, json: bool) -> None:
    """Print the accuracy over all classes, then per class."""
    if json:
        print_json(found.to_json())
        return
    of = many(found.classes, "class", "classes")
    print_line(f"{many(found.pictures, 'picture')} of {of}, kind {found.kind}, space {found.space}.")
    print_line(f"accuracy: {found.accuracy:.3f} over pictures, {found.class_accuracy:.3f} averaged over classes")
    print_line(f"wrongly rejected as {NONE}: {found.own_none:.3f} of the pictures")
    strangers = "unknown, needs two classes" if found.strangers_none is None else f"{found.strangers_none:.3f}"
    print_line(f"correctly rejected, if their class is left out: {strangers}")
    rows = [
        [c.name, f"{c.pictures:,}", _share(c.right), _share(c.none), c.mistaken_for or ""] for c in found.by_class[:k]
    ]
    print_table(["class", "pictures", "correct", "rejected", "confused with"], rows)
    if found.confused:
        print_line("Most frequent confusions:")
        for pair in found.confused:
            print_line(f"  {pair.pictures:>5,} × {pair.label} predicted as {pair.predicted}")
    if len(found.by_class) > k:
        left = many(len(found.by_class) - k, "class", "classes")
        print_note(f"{left} with better results not shown. To list all: -k {len(found.by_class)}")
    for note in found.notes:
        print_note(note)


def _chance(probability: float | None) -> str:
    return "" if probability is None else human_probability(probability)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
