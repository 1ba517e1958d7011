"""`lookalike history` and `lookalike undo`: the changes to labels, classes, duplicates and pictures."""

import dataclasses
from typing import Annotated

import typer

from lookalike.cli.options import Author, Json, Wait, Where, opened
from lookalike.cli.output import bars, complete_commands, print_either, print_json, print_note, print_table, show_time
from lookalike.text import many


def history(
    where: Where,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Maximum number of actions, newest first.")] = 20,
    json: Json = False,
) -> int:
    """List the changes that can be undone, newest first.

    These are changes to labels, classes and duplicates, and removals of pictures.

    \b
    Examples:
      lookalike history
      lookalike history -k 100 --json
    """
    with opened(where, local=True) as collection:
        found = collection.actions(limit=k)
        total = collection.n_actions()
    if json:
        print_json([dataclasses.asdict(action) | {"text": action.text} for action in found])
        return 0
    if not found:
        print_note("No changes yet.")
        return 0
    rows = []
    for action in found:
        state = f"undone by {action.undone_by}" if action.undone_by else action.reason or "can be undone"
        rows.append([str(action.id), show_time(action.at), action.author, action.text, state])
    print_table(["action", "time", "author", "change", "undo"], rows)
    if len(found) < total:
        print_note(f"{total - len(found):,} older actions. To list them: lookalike history -k {total}")
    return 0


def undo(
    where: Where,
    action: Annotated[
        int | None,
        typer.Argument(
            metavar="ACTION", min=1, help="Number of the action (see lookalike history). Default: the last change."
        ),
    ] = None,
    author: Author = None,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Undo a change, such as a label or the removal of pictures.

    This undoes changes to labels, classes and duplicates, and brings removed pictures back.

    Without ACTION, undo the last change that is not undone yet. To redo a change, undo its undo. If a later action
    changed the same data, undo that one first.

    \b
    Examples:
      lookalike undo
      lookalike undo 12
    """
    with opened(where, wait=wait) as collection, bars(lines=not json) as progress:
        changed = collection.undo(action, author=author, progress=progress)
        assert changed.action is not None
        done = collection.action(changed.action)
        undone = collection.action(done.undoes or done.id)
    print_either(
        json,
        complete_commands(f"{done.text}. To redo it: lookalike undo {done.id}" if done.can_undo else f"{done.text}."),
        action=done.id,
        undid=undone.id,
        text=done.text,
    )
    if done.kind == "remove" and (lost := undone.count - changed) > 0:
        print_note(f"{many(lost, 'picture')} could not be brought back, because their vectors and files are missing.")
        return 1
    return 0
