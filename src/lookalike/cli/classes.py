"""`lookalike classes`: classes that never stop growing; what people put into them.

In: names of classes, pictures by path, folder or id. Out: what is in a class. A class is its labels: `lookalike label`
and a finished feedback session make them, too. How classes are told apart is in `classify.py`.
"""

import dataclasses
from typing import Annotated

import typer

from lookalike.cli.class_tables import print_table, print_view
from lookalike.cli.options import Json, Where, opened
from lookalike.cli.terminal import print_json, print_note, say
from lookalike.errors import InputError
from lookalike.text import many

Name = Annotated[str, typer.Argument(metavar="NAME", help="A class.")]
Images = Annotated[list[str], typer.Argument(metavar="IMAGE", help="Pictures of the collection, ids or folders.")]
Author = Annotated[str | None, typer.Option("--author", help="Who says so. Default: your login.")]

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
    say(json, f"{added:,} added to {name}, which has {total:,} now.", name=name, added=added, pictures=total)
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
    say(json, f"{removed:,} taken out of {name}.", name=name, removed=removed)
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
        print_view(collection, view, k, json)
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
    say(json, f"{name} is {new} now, with {many(n, 'picture')}.", name=new, pictures=n)
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
    say(json, f"{into} has {many(n, 'picture')} now.", name=into, pictures=n)
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
    say(json, f"{many(n, 'picture')} of {name} moved to {new}.", name=new, pictures=n)
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
    say(json, f"{name} is gone; {many(n, 'picture')} had it.", name=name, pictures=n)
    return 0
