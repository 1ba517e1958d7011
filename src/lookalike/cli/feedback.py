"""`lookalike feedback`: a session in the terminal, one key a picture.

In: pictures like those wanted, then keys. Out: the best so far, questions, how many there may be, a contact sheet.
Everything is kept at the click: a session that was left, or killed, is gone on with by its id.
"""

import dataclasses
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

import lookalike
from lookalike.cli.keys import read_line
from lookalike.cli.lazy import Lazy
from lookalike.cli.options import COLLECTION, OWN, Json, Space, Where, filtered, opened, parse_box
from lookalike.cli.table import SHOWN, Table
from lookalike.cli.terminal import bars, print_json, print_line, print_note
from lookalike.errors import InputError

if TYPE_CHECKING:
    from lookalike import Filter, show, types
    from lookalike.collection import Finished, Session, SimulatedRound
else:
    show, types = Lazy("lookalike.show"), Lazy("lookalike.types")


class Left(Exception):  # noqa: N818 — not an error: somebody pressed Ctrl-C
    """Somebody has left a session in the middle; the message says how to go on."""


@filtered
def feedback(
    where: Where,
    images: Annotated[
        list[str] | None, typer.Argument(metavar="IMAGE", help="Pictures, or ids, like those wanted.")
    ] = None,
    unwanted: Annotated[
        list[str] | None,
        typer.Option("--not", "--without", metavar="IMAGE...", help="Unlike these: all up to the next option."),
    ] = None,
    label: Annotated[str | None, typer.Option("--label", metavar="NAME", help="Like those with this label.")] = None,
    box: Annotated[
        str | None, typer.Option("--box", metavar="L,T,R,B", help="Only this part of IMAGE: shares from 0 to 1.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="What it is that you look for.")] = None,
    resume: Annotated[str | None, typer.Option("--resume", metavar="ID", help="Go on with this session.")] = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="At the end, give what is relevant the label --name.")
    ] = False,
    rounds: Annotated[
        int | None, typer.Option("--rounds", metavar="N", min=0, help="Stop after so many; 0 only lists the best.")
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="How many of the best to list.")] = SHOWN,
    window: Annotated[int, typer.Option("--window", metavar="N", min=1, help="Questions a round.")] = 9,
    space: Space = None,
    author: Annotated[str | None, typer.Option("--author", help="Who says so. Default: your login.")] = None,
    sheet: Annotated[
        str | None, typer.Option("--sheet", metavar="FILE", help="The contact sheet. Default: feedback-ID.png here.")
    ] = None,
    simulate: Annotated[
        str | None,
        typer.Option(
            "--simulate",
            metavar="LABELS",
            help=f"Nobody is asked: a CSV file, a folder of classes, or the collection's own ({OWN}) answer.",
        ),
    ] = None,
    json: Json = False,
    *,
    filter: "Filter | None",
) -> int:
    """Find what you mean by answering questions: yes, no, skip, one key a picture.

    Each round shows the best so far and asks about those that teach most. q or Ctrl-C leaves; --resume goes on.
    From a pipe, every letter is a key, on one line or on several: yynu, or y and n line by line, or yes and no.

    \b
    Examples:
      lookalike feedback beach.jpg
      lookalike feedback beach.jpg dunes.jpg --not city.jpg --name 'beaches' --window 12
      lookalike feedback --resume 3f9a1c02
      lookalike feedback --resume 3f9a1c02 --rounds 0 --finish --name beaches
      lookalike feedback cat.jpg --simulate labels --rounds 10
      echo ynnysnnyy | lookalike feedback cat.jpg --rounds 1
    """
    if sheet is not None:
        show.check_sheet(sheet)
    part = None if box is None else parse_box(box)
    if part is not None and len(images or ()) != 1:
        raise InputError(f"--box is a part of one picture. Got {len(images or ())} pictures: give one.")
    examples: list[Any] = list(images or ()) if part is None else [lookalike.Crop((images or [""])[0], part)]
    if simulate is not None:
        if not simulate:
            raise InputError(f"--simulate needs labels: a CSV file, a folder of classes, or the word {OWN}. Got none.")
        given = {"--resume": resume, "--finish": finish, "--name": name, "--author": author, "--sheet": sheet}
        if idle := [option for option, value in (given | {"-k": k != SHOWN}).items() if value]:
            raise InputError(
                f"With --simulate nobody is asked and nothing is listed or kept: leave out {', '.join(idle)}."
            )
        with opened(where) as collection, bars():
            played = collection.simulate(
                examples,
                without=unwanted or (),
                label=label,
                labels_from=None if simulate == OWN else simulate,
                space=space,
                rounds=10 if rounds is None else rounds,
                window=window,
                filter=filter,
            )
        _print_simulated(played, json)
        return 0
    with opened(where) as collection:
        if resume is not None:
            if examples or unwanted or label is not None or space is not None:
                raise InputError(
                    "--resume goes on with the session's own examples. Give no others, no label, no space."
                )
            session = collection.session(id=resume, author=author)
        else:
            session = collection.session(
                examples, without=unwanted or (), label=label, space=space, name=name, author=author
            )
        command = f"lookalike {'' if where == COLLECTION else f'-c {shlex.quote(where)} '}"
        how = f"{command}feedback --resume {session.id}"
        if not json:
            kept = f"It is kept as you go; to go on later: {how}"
            over = "It is finished: this is its ranking now."
            print_note(f"Session {session.id}. {kept if session.summary.state == 'open' else over}")
        table = Table(collection, session, k, window, filter, sheet, json)
        try:
            said = table.play(rounds)
            done = _finish(session, name, how, json) if finish or said == "finish" else None
        except KeyboardInterrupt:
            raise Left(f"Left. Every answer is kept; to go on: {how}") from None
        _print_end(session, done, command, json)
    return 0


def _finish(session: "Session", name: str | None, how: str, json: bool) -> "Finished":
    name = name or session.summary.name
    if name is None:
        if not json:
            print_line("What shall it be called?")
        name = (read_line() or "").strip() or None
    if name is None:
        raise InputError(f"A name is needed to finish: {how} --rounds 0 --finish --name NAME")
    return session.finish(name)


def _print_end(session: "Session", done: "Finished | None", command: str, json: bool) -> None:
    summary = session.summary
    if json:
        contradicted = [types.format_id(item) for item in done.contradicted] if done else []
        ended = None if done is None else dataclasses.asdict(done) | {"contradicted": contradicted}
        print_json(dataclasses.asdict(summary) | {"state": summary.state, "finished": ended})
        return
    print_line(f"{summary.relevant} relevant, {summary.irrelevant} irrelevant, {summary.skipped} skipped.")
    if done is not None:
        print_line(f"The label {done.name} is new on {done.labelled} of the pictures.")
        print_note(f"See: {command}items --label {shlex.quote(done.name)}")
        print_note(f"It is a class: {command}classify --all finds more of it.")
        if done.contradicted:
            print_note(
                f"{len(done.contradicted)} that you called irrelevant have that label already; it is left to them."
            )
    elif summary.state == "open":
        print_note(f"To go on: {command}feedback --resume {session.id}")


def _print_simulated(played: list["SimulatedRound"], json: bool) -> None:
    if json:
        print_json([dataclasses.asdict(row) for row in played])
        return
    print_line("round  precision  marked  found  believed          seconds")
    for row in played:
        known = row.estimate
        believed = "-" if known is None else f"{known.likely} ({known.low}–{known.high})"
        counts = f"{row.round:>5}  {row.precision:>9.3f}  {row.marked:>6}  {row.found:>5}"
        print_line(f"{counts}  {believed:16}  {row.seconds:>7.3f}{'  enough' if row.stop else ''}")
