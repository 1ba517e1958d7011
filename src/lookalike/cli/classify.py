"""`lookalike classify`, and the verbs of `lookalike classes` about what pictures are taken for.

In: pictures by path, folder or id; classes that people made. Out: predictions and what people answer to them, how
classes are told apart, and how good that is.
"""

import dataclasses
from typing import Annotated, Literal

import typer

from lookalike.cli.class_tables import print_evaluation, print_predicted, print_predictions, print_table
from lookalike.cli.classes import Author, Images, Name, app
from lookalike.cli.options import Json, Where, opened
from lookalike.cli.terminal import bars, print_json, print_line, print_note, say
from lookalike.errors import InputError
from lookalike.text import many

Kind = Annotated[
    Literal["ncm", "ncmc", "second"] | None,
    typer.Option("--kind", help="One mean a class, ten, or one covariance for all."),
]


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
    say(json, f"{n:,} confirmed as {name}.", name=name, confirmed=n)
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
    say(json, f"{many(n, 'prediction')} gone; {name} is never predicted for these again.", name=name, gone=n)
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
    print_evaluation(found, k, json)
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
            print_predicted(collection.classes.predict(progress), json)
            return 0
        verdicts = collection.classify(images or (), on_skip=skipped.__setitem__, progress=progress)
        if not collection.classes.can_reject():
            print_note("No class has two pictures yet: what is none of these cannot be told, nor how sure to be.")
    print_predictions(verdicts, skipped, json)
    return 1 if skipped else 0
