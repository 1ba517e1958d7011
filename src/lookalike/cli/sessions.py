"""`lookalike sessions`: the feedback sessions of a collection, and how one is forgotten.

In: nothing, or ids of sessions. Out: a list, the last touched first, as text or JSON; what was deleted.
"""

import dataclasses
import time
from typing import Annotated

import typer

from lookalike.cli.options import Json, Where, opened
from lookalike.cli.terminal import print_json, print_line, print_note, say
from lookalike.text import many

app = typer.Typer(name="sessions", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def sessions(ctx: typer.Context, where: Where, json: Json = False) -> int:
    """List the feedback sessions, the last touched first: id, state, marks, rounds, when, who, name.

    \b
    Examples:
      lookalike sessions
      lookalike sessions --json
      lookalike sessions delete 3f9a1c02
    """
    if ctx.invoked_subcommand is not None:
        return 0
    with opened(where) as collection:
        found = collection.sessions()
    if json:
        print_json([dataclasses.asdict(session) | {"state": session.state} for session in found])
        return 0
    for session in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.changed_at))
        marks = f"{session.relevant:>4} yes {session.irrelevant:>4} no {session.skipped:>3} skipped"
        rest = f"{many(session.rounds, 'round'):>10}  {when}  {session.author}  {session.name or ''}"
        print_line(f"{session.id}  {session.state:8}  {marks}  {rest}".rstrip())
    if not found:
        print_note("No sessions yet. Start one: lookalike feedback IMAGE")
    return 0


@app.command()
def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Open sessions, as lookalike sessions lists them.")],
    where: Where,
    json: Json = False,
) -> int:
    """Forget open sessions and every answer in them. A finished one stays: its class rests on it.

    Nothing is deleted where one of the ids cannot be.

    \b
    Examples:
      lookalike sessions delete 3f9a1c02
      lookalike sessions delete 3f9a1c02 51b7e0aa --json
    """
    wanted = list(dict.fromkeys(ids))
    with opened(where) as collection:
        known = [one for one in collection.sessions() if one.state == "open"]
        answers = {one.id: one.relevant + one.irrelevant + one.skipped for one in known}
        for session in sorted(wanted, key=answers.__contains__):  # what cannot be comes first, and ends it
            collection.remove_session(session)
    gone = sum(answers.get(session, 0) for session in wanted)
    say(json, f"{many(len(wanted), 'session')} deleted, with {many(gone, 'answer')}.", deleted=wanted)
    return 0
