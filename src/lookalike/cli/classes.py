"""`lookalike classes` and `lookalike classify`: make, show, correct and measure classes, and predict them.

A class is a label: `lookalike label` and finished feedback sessions make classes, too.
"""

import dataclasses
import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import NONE, Author, Json, Where, opened
from lookalike.cli.output import bars, print_either, print_json, print_line, print_note, print_table, show_path
from lookalike.errors import InputError
from lookalike.text import many

if TYPE_CHECKING:
    from lookalike import Collection, types
    from lookalike.collection import ClassView, Evaluation, Prediction, PredictionCounts
else:
    types = Lazy("lookalike.types")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A class.")]
Images = Annotated[list[str], typer.Argument(metavar="IMAGE", help="Pictures of the collection, ids or folders.")]
Kind = Annotated[
    Literal["ncm", "ncmc", "second"] | None,
    typer.Option("--kind", help="One mean a class, ten, or one covariance for all."),
]

app = typer.Typer(name="classes", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def classes(ctx: typer.Context) -> None:
    """Classes that never stop growing: make, look at, correct and measure them. Every label is a class.

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
    name: Annotated[str, typer.Argument(metavar="NAME", help="A class, which may be new.")],
    where: Where,
    images: Annotated[
        list[str] | None, typer.Argument(metavar="IMAGE", help="Pictures of the collection, ids or folders.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="What a feedback session has as relevant.")
    ] = None,
    author: Author = None,
    json: Json = False,
) -> int:
    """Put pictures into a class, which may be new. Nothing is trained: it is there at once.

    Without pictures the class is only named; the hierarchy may lend it a mean.

    \b
    Examples:
      lookalike classes add beach holiday/1.jpg holiday/2.jpg
      lookalike classes add beach ~/Pictures/beaches
      lookalike classes add beach --session 3f9a1c02
    """
    with opened(where) as collection:
        if session is not None:
            if images or author is not None:
                raise InputError("--session has its own pictures, and whoever clicked is their author. Give no others.")
            added = collection.classes.add_session(session, name).labelled
        else:
            added = collection.classes.add(name, images or (), author=author)
        total = len(collection.classes.show(name).members)
    print_either(json, f"{added:,} added to {name}, which has {total:,} now.", name=name, added=added, pictures=total)
    return 0


@app.command()
def remove(name: Name, images: Images, where: Where, json: Json = False) -> int:
    """Take pictures out of a class again. They stay in the collection.

    \b
    Examples:
      lookalike classes remove beach holiday/2.jpg
    """
    with opened(where) as collection:
        removed = collection.classes.remove(name, images)
    print_either(json, f"{removed:,} taken out of {name}.", name=name, removed=removed)
    return 0


@app.command("list")
def list_(where: Where, json: Json = False) -> int:
    """List the classes. Pictures that people put into each, and predicted ones.

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
        print_note("No classes yet. Make one: lookalike classes add NAME IMAGE…, or lookalike label SOURCE")
        return 0
    rows = [
        [
            summary.name,
            f"{summary.pictures:,}",
            f"{summary.predicted:,}",
            ", ".join(summary.parents),
            f"{summary.elsewhere:,} not in the collection now" if summary.elsewhere else "",
        ]
        for summary in found
    ]
    print_table(["class", "pictures", "predicted", "a kind of", ""], rows)
    return 0


@app.command()
def show(
    name: Name,
    where: Where,
    k: Annotated[
        int | None, typer.Option("-k", metavar="N", min=0, help="At most so many of each. Default: all.")
    ] = None,
    json: Json = False,
) -> int:
    """Show the pictures of a class. First those that people put into it, then the predicted ones, the surest first.

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
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
    where: Where,
    json: Json = False,
) -> int:
    """Give a class another name. Its sessions and its place in the hierarchy go with it.

    \b
    Examples:
      lookalike classes rename beech beach
    """
    with opened(where) as collection:
        n = collection.classes.rename(name, new)
    print_either(json, f"{name} is {new} now, with {many(n, 'picture')}.", name=new, pictures=n)
    return 0


@app.command()
def merge(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Two classes or more.")],
    where: Where,
    into: Annotated[str, typer.Option("--into", metavar="NAME", help="A new name, or one of theirs.")],
    json: Json = False,
) -> int:
    """Make one class of several.

    \b
    Examples:
      lookalike classes merge beach dunes --into coast
    """
    with opened(where) as collection:
        n = collection.classes.merge(*names, into=into)
    print_either(json, f"{into} has {many(n, 'picture')} now.", name=into, pictures=n)
    return 0


@app.command()
def split(
    name: Name,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The class that they become.")],
    images: Images,
    where: Where,
    author: Author = None,
    json: Json = False,
) -> int:
    """Make some pictures of a class a class of their own.

    \b
    Examples:
      lookalike classes split coast cliffs holiday/7.jpg holiday/9.jpg
    """
    with opened(where) as collection:
        n = collection.classes.split(name, new, images, author=author)
    print_either(json, f"{many(n, 'picture')} of {name} moved to {new}.", name=new, pictures=n)
    return 0


@app.command()
def delete(name: Name, where: Where, json: Json = False) -> int:
    """Forget a class: its labels and what was predicted. The pictures stay.

    \b
    Examples:
      lookalike classes delete beach
    """
    with opened(where) as collection:
        n = collection.classes.delete(name)
    print_either(json, f"{name} is gone; {many(n, 'picture')} had it.", name=name, pictures=n)
    return 0


@app.command()
def confirm(
    name: Name,
    where: Where,
    images: Annotated[
        list[str] | None, typer.Argument(metavar="IMAGE", help="Pictures of the collection, ids or folders.")
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="Everything that is predicted to be of the class.")] = False,
    at_least: Annotated[
        float | None, typer.Option("--at-least", metavar="P", help="What is predicted with this probability or more.")
    ] = None,
    author: Author = None,
    json: Json = False,
) -> int:
    """Say that predictions are right. From now on the pictures count for the class.

    \b
    Examples:
      lookalike classes confirm beach new/3.jpg new/4.jpg
      lookalike classes confirm beach --at-least 0.9
      lookalike classes confirm beach --all
    """
    if bool(images) + all + (at_least is not None) != 1:
        raise InputError("Say what to confirm: pictures, --at-least P, or --all; one of the three.")
    with opened(where) as collection:
        chosen = 0.0 if all else at_least
        n = collection.classes.confirm(name, images or None, at_least=chosen, author=author)
    print_either(json, f"{n:,} confirmed as {name}.", name=name, confirmed=n)
    return 0


@app.command()
def reject(name: Name, images: Images, where: Where, author: Author = None, json: Json = False) -> int:
    """Say that pictures are not of a class. It is never predicted for them again.

    \b
    Examples:
      lookalike classes reject beach new/5.jpg
    """
    with opened(where) as collection:
        n = collection.classes.reject(name, images, author=author)
    print_either(json, f"{many(n, 'prediction')} gone; {name} is never predicted for these again.", name=name, gone=n)
    return 0


@app.command()
def hierarchy(
    where: Where,
    source: Annotated[
        str | None, typer.Argument(metavar="SOURCE", help="A CSV file of child,parent, or nested folders.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Forget the hierarchy.")] = False,
    json: Json = False,
) -> int:
    """Say which class is a kind of which. Classes with few pictures, or none, borrow from their relatives.

    Without a source, lists what is known.

    \b
    Examples:
      lookalike classes hierarchy tree.csv
      lookalike classes hierarchy ~/Pictures/sorted
      lookalike classes hierarchy --clear
    """
    if clear and source is not None:
        raise InputError("Give a source or --clear, one of the two.")
    with opened(where) as collection:
        if clear or source is not None:
            collection.classes.set_hierarchy([] if source is None else source)
        pairs = collection.classes.hierarchy()
    if json:
        print_json([{"child": child, "parent": parent} for child, parent in pairs])
    elif source is not None or clear:
        print_line(f"{many(len(pairs), 'pair')} of child and parent.")
    elif not pairs:
        print_note("No hierarchy. Give one: lookalike classes hierarchy tree.csv")
    else:
        print_table(["class", "a kind of"], [list(pair) for pair in pairs])
    return 0


@app.command()
def use(
    where: Where,
    space: Annotated[str | None, typer.Option("--space", metavar="NAME", help="Where classes are told apart.")] = None,
    kind: Kind = None,
    reject: Annotated[
        float | None, typer.Option("--reject", metavar="SHARE", help="Of a class's own that may be none of these.")
    ] = None,
    prior: Annotated[
        float | None, typer.Option("--prior", metavar="N", help="Pictures that the hierarchy counts for.")
    ] = None,
    on_add: Annotated[
        bool | None, typer.Option("--on-add/--no-on-add", help="Whether new pictures are classified.")
    ] = None,
    json: Json = False,
) -> int:
    """Say how classes are told apart. Also whether new pictures are classified; without options, list that.

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
    print_line(f"space   {settings.space or 'the first'}")
    print_line(f"kind    {settings.kind}")
    print_line(f"reject  {settings.reject:g}")
    print_line(f"prior   as much as {settings.prior:g} pictures")
    print_line(f"on add  {'new pictures are classified' if settings.on_add else 'no'}")
    return 0


@app.command()
def evaluate(
    where: Where,
    space: Annotated[str | None, typer.Option("--space", metavar="NAME", help="In another space.")] = None,
    kind: Kind = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="How many classes to list, the worst first.")] = 40,
    json: Json = False,
) -> int:
    """Measure how good the classes are. Every picture is judged by classes that it was taken out of.

    A tenth of each class at a time; in a space that learned from labels, it is fitted anew without them. Then whole
    classes are left out, to see whether their pictures are called none of these. Nothing is changed.

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
    images: Annotated[list[str] | None, typer.Argument(metavar="IMAGE", help="Pictures, ids or folders.")] = None,
    all: Annotated[
        bool, typer.Option("--all", help="Every picture of the collection that nobody labelled; kept as predictions.")
    ] = False,
    json: Json = False,
) -> int:
    """Say which class pictures are of, how surely, and what they would be next; or none of these.

    Pictures that are named need not be in the collection, and nothing is kept of them. With --all, predictions are
    kept, apart from what people said: classes show lists them, classes confirm and reject answer them.

    \b
    Examples:
      lookalike classify new.jpg other.jpg
      lookalike classify ~/Pictures/new
      lookalike classify 0f3a5c7e9b1d2f40 --json
      lookalike classify --all
    """
    if bool(images) == all:
        raise InputError("Say what to classify: pictures, or --all for all that nobody labelled.")
    skipped: dict[str, str] = {}
    with opened(where) as collection, bars(lines=not json) as progress:
        if all:
            _print_predicted(collection.classes.predict(progress), json)
            return 0
        classified = collection.classify(images or (), on_skip=skipped.__setitem__, progress=progress)
        if not collection.classes.can_reject():
            print_note("No class has two pictures yet: what is none of these cannot be told, nor how sure to be.")
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
    of = f", a kind of {', '.join(view.parents)}" if view.parents else ""
    print_line(f"{view.name}{of}: {many(len(view.members), 'picture')}, {len(view.predicted):,} predicted.")
    for m in members:
        when = time.strftime("%Y-%m-%d", time.localtime(m.at))
        print_line(f"  {f'{m.source} {m.author} {when}':32}  {show_path(paths[m.item])}")
    for p in predicted:
        print_line(f"  {f'predicted {p.probability:.2f}':32}  {show_path(paths[p.item])}")


def _print_classified(classified: list["Prediction"], skipped: dict[str, str], json: bool) -> None:
    """Print the predicted classes of pictures, and the pictures that could not be read."""
    if json:
        rows = [
            {"id": None if v.id is None else types.format_id(v.id), "path": v.path, "class": v.label}
            | {"probability": v.probability, "nearest": v.nearest, "runner_up": v.runner_up}
            | {"runner_up_probability": v.runner_up_probability, "labels": v.labels}
            for v in classified
        ]
        print_json({"pictures": rows, "skipped": skipped})
        return
    lines = []
    for v in classified:
        rest = f"then {v.runner_up} {v.runner_up_probability:.2f}" if v.runner_up is not None else ""
        if v.label is None:
            rest = "" if v.nearest is None else f"nearest {v.nearest}"
        chance = "" if v.label is None else f"{v.probability:.2f}"
        labels = f"  (people say: {', '.join(v.labels)})" if v.labels else ""
        lines.append([v.label or NONE, chance, rest, f"{show_path(v.path)}{labels}"])
    if lines:
        print_table(["class", "sure", "", "picture"], lines)
    for name, reason in skipped.items():
        print_line(f"skipped: {name}: {reason}")


def _print_predicted(found: "PredictionCounts", json: bool) -> None:
    """Print how many pictures were predicted to be in each class."""
    if json:
        print_json({"predicted": found.classes, "none": found.none})
        return
    print_line(f"{many(sum(found.classes.values()), 'picture')} classified, {found.none:,} {NONE}.")
    if found.classes:
        print_table(["class", "predicted"], [[name, f"{n:,}"] for name, n in found.classes.items()])


def _print_evaluation(found: "Evaluation", k: int, json: bool) -> None:
    """Print the accuracy over all classes, then of each."""
    if json:
        print_json(dataclasses.asdict(found))
        return
    of = many(found.classes, "class", "classes")
    print_line(f"{many(found.pictures, 'picture')} of {of}: {found.kind} in {found.space}.")
    print_line(f"right: {found.accuracy:.3f} of the pictures, {found.class_accuracy:.3f} as the mean over classes.")
    print_line(f"{NONE}: said of {found.own_none:.3f} of them, wrongly;")
    strangers = "not known, of one class" if found.strangers_none is None else f"{found.strangers_none:.3f}"
    print_line(f"  of pictures whose class was left out, rightly: {strangers}.")
    rows = [
        [c.name, f"{c.pictures:,}", _share(c.right), _share(c.none), c.mistaken_for or ""] for c in found.by_class[:k]
    ]
    print_table(["class", "pictures", "right", "none", "mistaken for"], rows)
    if found.confused:
        print_line("Most often mistaken:")
        for truth, guess, n in found.confused:
            print_line(f"  {n:>5,} × {truth} for {guess}")
    if len(found.by_class) > k:
        left = many(len(found.by_class) - k, "class", "classes")
        print_note(f"Better than these: {left}. To see more: -k {len(found.by_class)}")
    for note in found.notes:
        print_note(note)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
