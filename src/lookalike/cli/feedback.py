"""`lookalike feedback`: a feedback session in the terminal, one key per picture; `lookalike sessions`: list and delete.

Every answer is stored immediately: an interrupted session can be resumed by its id.
"""

import base64
import dataclasses
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import (
    COLLECTION,
    OWN_LABELS,
    Json,
    Space,
    Where,
    filtered,
    opened,
    print_words,
    read_examples,
)
from lookalike.cli.output import (
    bars,
    on_terminal,
    print_either,
    print_json,
    print_line,
    print_note,
    show_path,
    show_time,
)
from lookalike.errors import InputError
from lookalike.system import read_key
from lookalike.text import MARK_NAMES, many

if TYPE_CHECKING:
    from lookalike import Collection, Filter, show, types
    from lookalike.collection import Finished, Item, Result, Round, Session, SimulatedRound, Summary
else:
    show, types = Lazy("lookalike.show"), Lazy("lookalike.types")

MARKS = {"y": "relevant", "n": "irrelevant", "s": "skip"}
KEYS = "y yes · n no · s skip · u undo · f finish · q quit"
KEYS_WITHOUT_QUESTIONS = "u undo · f finish · q quit"
END_OF_INPUT = ("", "\x04")
"""Input at the end of a file, and on Ctrl-D."""
LINE_COMMANDS = ("yes", "no", "skip", "undo", "finish", "quit")
"""Words that stand for their first letter, if they are the only word of a line."""
DEFAULT_K = 20
SIMULATED_ROUNDS = 10
KITTY_CHUNK = 4_096
"""Characters per escape sequence, the limit of kitty's graphics protocol."""

sessions_app = typer.Typer(name="sessions", rich_markup_mode=None)


class Interrupted(Exception):  # noqa: N818 — not an error: the user pressed Ctrl-C
    """The user quit a session with Ctrl-C; the message contains the command that resumes it."""


@filtered
def feedback(
    where: Where,
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="IMAGE|WORDS", help="Positive examples: paths or ids of pictures, or words."),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Option(
            "--words", metavar="WORDS", help="Words to start from, even if they look like a path; repeatable."
        ),
    ] = None,
    negatives: Annotated[
        list[str] | None,
        typer.Option("--not", "--without", metavar="IMAGE|WORDS", help="Negative example; repeatable."),
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", metavar="NAME", help="Start from the pictures with this label.")
    ] = None,
    box: Annotated[
        str | None, typer.Option("--box", metavar="L,T,R,B", help="Use only this part of IMAGE; numbers from 0 to 1.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Session name; also the name of the class it creates.")
    ] = None,
    resume: Annotated[str | None, typer.Option("--resume", metavar="ID", help="Resume this session.")] = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="At the end, label the positive pictures with --name.")
    ] = False,
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds", metavar="N", min=0, help="Stop after this number of rounds; 0 only prints the ranking."
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Number of best pictures to list.")] = DEFAULT_K,
    window: Annotated[int, typer.Option("--window", metavar="N", min=1, help="Questions per round.")] = 9,
    space: Space = None,
    author: Annotated[
        str | None, typer.Option("--author", help="Author of the marks. Default: your login name.")
    ] = None,
    sheet: Annotated[
        str | None,
        typer.Option(
            "--sheet", metavar="FILE", help="Contact sheet file. Default: feedback-ID.png in the current folder."
        ),
    ] = None,
    simulate: Annotated[
        str | None,
        typer.Option(
            "--simulate",
            metavar="LABELS",
            help="Answer from labels: a CSV file, a folder with one subfolder per class, or the word "
            f"{OWN_LABELS} for the collection's own labels.",
        ),
    ] = None,
    json: Json = False,
    *,
    filter: "Filter | None",
) -> int:
    """Answer yes, no or skip to find the pictures you mean.

    Each round lists the best pictures so far and asks about the most informative ones, one key per picture. q or
    Ctrl-C quits; --resume continues. If input comes from a pipe, a line is a word, such as yes or no, or one or more
    keys (yynu). Any other line is an error; earlier answers are saved.

    \b
    Examples:
      lookalike feedback beach.jpg
      lookalike feedback elephant --not statue --name elephants
      lookalike feedback beach.jpg dunes.jpg --not city.jpg --name 'beaches' --window 12
      lookalike feedback --resume 3f9a1c02
      lookalike feedback --resume 3f9a1c02 --rounds 0 --finish --name beaches
      lookalike feedback cat.jpg --simulate labels --rounds 10
      echo ynnysnnyy | lookalike feedback cat.jpg --rounds 1
    """
    if sheet is not None:
        show.check_sheet(sheet)
    if simulate is not None:
        ignored = {"--resume": resume, "--finish": finish, "--name": name, "--author": author, "--sheet": sheet}
        _check_simulation(simulate, ignored | {"-k": k != DEFAULT_K})
        limit = SIMULATED_ROUNDS if rounds is None else rounds
        with opened(where) as collection, bars():
            examples = read_examples(collection, given, words, negatives, box)
            print_words(collection, examples)
            played = collection.simulate(
                **examples.query,
                label=label,
                labels_from=None if simulate == OWN_LABELS else simulate,
                space=space,
                rounds=limit,
                window=window,
                filter=filter,
            )
        _print_simulated(played, limit, json)
        return 0
    with opened(where) as collection:
        if resume is None:
            examples = read_examples(collection, given, words, negatives, box)
            print_words(collection, examples)
            session = collection.session(**examples.query, label=label, space=space, name=name, author=author)
        elif given or words or negatives or box is not None or label is not None or space is not None:
            raise InputError(
                "--resume uses the session's own examples. Leave out IMAGE, WORDS, --words, --not, --box, --label and"
                " --space."
            )
        else:
            session = collection.session(id=resume, author=author)
        program = f"lookalike {'' if where == COLLECTION else f'-c {shlex.quote(where)} '}"
        _play(Dialogue(collection, session, k, window, filter, sheet, json), rounds, finish, name, program)
    return 0


def _check_simulation(labels: str, ignored: dict[str, Any]) -> None:
    """Raise InputError if labels are missing or options are given that a simulation ignores."""
    if not labels:
        raise InputError(
            f"--simulate needs labels: a CSV file, a folder with one subfolder per class, or the word {OWN_LABELS}."
            " Got none."
        )
    if given := [option for option, value in ignored.items() if value]:
        raise InputError(f"--simulate asks no questions and stores nothing. Leave out {', '.join(given)}.")


def _play(dialogue: "Dialogue", rounds: int | None, finish: bool, name: str | None, program: str) -> None:
    """Run rounds, finish the session if requested, and print how it ended."""
    session, json = dialogue.session, dialogue.json
    resume = f"{program}feedback --resume {session.id}"
    if not json:
        is_open = session.summary.state == "open"
        state = f"Every answer is saved. To resume later: {resume}" if is_open else ""
        print_note(f"Session {session.id}. {state or 'It is finished. This is its current ranking.'}")
    try:
        ended_by = dialogue.play(rounds)
        finished = None
        if finish or ended_by == "finish":
            finished = _finish(session, name, resume, json)
    except KeyboardInterrupt:
        raise Interrupted(f"Stopped. Every answer is saved. To resume: {resume}") from None
    _print_end(session, finished, program, json)


def _finish(session: "Session", name: str | None, resume: str, json: bool) -> "Finished":
    name = name or session.summary.name
    if name is None:
        if not json:
            print_line("Name of the class:")
        name = (_read_line() or "").strip() or None
    if name is None:
        raise InputError(f"A class name is required to finish. Run: {resume} --rounds 0 --finish --name NAME")
    return session.finish(name)


def _print_end(session: "Session", finished: "Finished | None", program: str, json: bool) -> None:
    summary = session.summary
    if json:
        contradicted = [types.format_id(item) for item in finished.contradicted] if finished else []
        ended = None if finished is None else dataclasses.asdict(finished) | {"contradicted": contradicted}
        print_json(_session_json(summary) | {"finished": ended})
        return
    print_line(f"{summary.relevant} positive, {summary.irrelevant} negative, {summary.skipped} skipped.")
    if finished is not None:
        print_line(f"Added the label “{finished.name}” to {many(finished.labelled, 'picture')}.")
        print_note(f"See: {program}items --label {shlex.quote(finished.name)}")
        print_note(f"The label is now a class. To find more of its pictures: {program}classify --all")
        if finished.contradicted:
            print_note(
                f"{many(len(finished.contradicted), 'negative picture')} already had the label; it was not removed."
            )
    elif summary.state == "open":
        print_note(f"To resume: {program}feedback --resume {session.id}")


def _print_simulated(played: list["SimulatedRound"], rounds: int, json: bool) -> None:
    """Print a table of the rounds, why the simulation ended, and when a session recommends stopping."""
    if json:
        print_json([dataclasses.asdict(row) for row in played])
        return
    print_line("round  precision  marked  found  estimate          seconds")
    for row in played:
        known = row.estimate
        estimate = "-" if known is None else f"{known.likely} ({known.low}–{known.high})"
        counts = f"{row.round:>5}  {row.precision:>9.3f}  {row.marked:>6}  {row.found:>5}"
        print_line(f"{counts}  {estimate:16}  {row.seconds:>7.3f}{'  stop' if row.stop else ''}")
    last = played[-1]
    if last.round == rounds:
        print_note(f"The simulation ended after {many(rounds, 'round')}, the limit set by --rounds.")
    else:
        print_note(f"The simulation ended after {many(last.round, 'round')}. {last.stop}")
    first = next((row for row in played if row.stop), None)
    if first is not None and (first is not last or last.round == rounds):
        print_note(f"First recommendation to stop: after {many(first.round, 'round')}. {first.stop}")
    print_note("Pictures without the label count as “no”, including those that have no label at all.")


@dataclasses.dataclass
class Dialogue:
    """A session in the terminal: prints rounds, as text or JSON and as a contact sheet, and reads marks."""

    collection: "Collection"
    session: "Session"
    k: int
    window: int
    filter: "Filter | None"
    sheet: str | None
    json: bool
    keys: "Keys" = dataclasses.field(default_factory=lambda: Keys(), init=False)

    def play(self, rounds: int | None) -> str:
        """Run this number of rounds, or until the user quits; return "leave", "finish" or "done"."""
        if self.session.summary.state != "finished" and rounds != 0:
            played = 0
            while rounds is None or played < rounds:
                found = self._next_round(is_first=played == 0)
                self._print_round(found)
                action = self._ask(found.questions) if found.questions else self._ask_what_next()
                if action != "next":
                    return action
                played += 1
        self._print_best(self.session.best(self.k, filter=self.filter))
        return "done"

    def _next_round(self, is_first: bool) -> "Round":
        """Repeat the last round of a resumed session without the answered questions, or run the next round."""
        if is_first:
            found = self.session.resume(self.k, self.window, filter=self.filter)
            marks = self.session.marks
            open_questions = [item for item in found.questions if item.id not in marks]
            if open_questions or not found.questions:
                return dataclasses.replace(found, questions=open_questions)
        return self.session.round(self.k, self.window, filter=self.filter)

    def _ask(self, questions: list["Item"]) -> str:
        """Ask about each picture in turn; undo returns to the picture whose mark it removed."""
        if not self.json:
            print_line(KEYS)
        at = 0
        while at < len(questions):
            item = questions[at]
            if not self.json:
                print_line(f"  {at + 1}/{len(questions)}  {show_path(_path(item))}")
            key = self.keys.read()
            if key is None or key == "q":
                return "leave"
            if key == "f":
                return "finish"
            if key == "u":
                at = self._undo(questions, at)
            elif key in MARKS:
                self.session.mark(**{MARKS[key]: [item.id]})
                at += 1
            else:
                print_note(f"Unknown key {key!r}. Keys: {KEYS}")
        return "next"

    def _ask_what_next(self) -> str:
        """Read undo, finish or quit when there is no picture to ask about."""
        if not self.json:
            print_line(KEYS_WITHOUT_QUESTIONS)
        key = self.keys.read()
        if key == "u":
            self._undo([], 0)
            return "next"
        return "finish" if key == "f" else "leave"

    def _undo(self, questions: list["Item"], at: int) -> int:
        """Undo a step and return the number of the question to ask next."""
        undone = self.session.undo()
        if not undone:
            print_note("Nothing to undo.")
        for item, kind in undone.items():
            known = self.collection.get([item])
            name = show_path(_path(known[item]) if item in known else types.format_id(item))
            print_note(f"Undone: {name}, {MARK_NAMES.get(kind, kind)}.")
        places = [place for place, question in enumerate(questions) if question.id in undone]
        return min(places, default=at)

    def _print_round(self, found: "Round") -> None:
        seconds = sum(found.seconds.values())
        drawn = self._draw(found)
        if self.json:
            print_json(
                {
                    "session": self.session.id,
                    "round": found.number,
                    "best": [_result_json(result) for result in found.best],
                    "questions": [{"id": types.format_id(item.id), "path": _path(item)} for item in found.questions],
                    "found": found.found,
                    "estimate": None if found.estimate is None else dataclasses.asdict(found.estimate),
                    "stop": found.stop,
                    "seconds": seconds,
                    "scored": found.scored,
                    "notes": found.notes,
                    "sheet": drawn,
                }
            )
            return
        estimate = found.estimate
        total = f" of about {estimate.likely:.0f} ({estimate.low:.0f}–{estimate.high:.0f})" if estimate else ""
        print_line(f"Round {found.number}: found {found.found}{total}, in {seconds * 1000:.0f} ms.")
        for note in found.notes:
            print_note(note)
        self._print_best(found.best)
        if found.stop:
            print_line(found.stop)
        if drawn:
            print_line(f"Contact sheet: {show_path(drawn)}")
            if on_terminal():
                draw_in_terminal(drawn)

    def _print_best(self, best: list["Result"]) -> None:
        if self.json:
            print_json({"session": self.session.id, "best": [_result_json(result) for result in best]})
            return
        marks = self.session.marks
        print_line("Best so far:")
        for rank, result in enumerate(best, 1):
            print_line(f"  {rank:>3}  {MARK_NAMES.get(marks.get(result.id, ''), ''):10}  {show_path(result.path)}")

    def _draw(self, found: "Round") -> str | None:
        """Write a sheet with the questions above the best pictures; return its path, or None if writing fails."""
        if self.json and self.sheet is None:
            return None
        marks = self.session.marks
        frames: dict[str, show.Frame] = {"relevant": "right", "irrelevant": "wrong"}
        asked = [
            show.Tile(_path(item), f"question {n}\n{os.path.basename(_path(item) or '')}", "example")
            for n, item in enumerate(found.questions, 1)
        ]
        best = [
            show.Tile(
                result.path, f"{rank}\n{os.path.basename(result.path or '')}", frames.get(marks.get(result.id, ""))
            )
            for rank, result in enumerate(found.best, 1)
        ]
        try:
            return str(show.write_sheet(show.arrange(asked, best), self.sheet or f"feedback-{self.session.id}.png"))
        except InputError as error:
            print_note(str(error))
            return None


class Keys:
    """Reader of single keys: key presses on a terminal, otherwise the keys of each line."""

    def __init__(self) -> None:
        self._pending: list[str] = []  # unread keys of a line from a pipe
        self._lines = 0

    def read(self) -> str | None:
        """Return the next key in lower case; None at the end of the input. In a pipe, empty lines are ignored."""
        if sys.stdin is None:
            return None
        if sys.stdin.isatty():
            return _read_key()
        while not self._pending:
            line = _read_line()
            if line is None:
                return None
            self._lines += 1
            self._pending = self._parse(line)
        return self._pending.pop(0)

    def _parse(self, line: str) -> list[str]:
        """Return the keys of a line from a pipe; raise InputError if it contains anything else."""
        word = line.strip().lower()
        if word in LINE_COMMANDS:
            return [word[0]]
        keys = [*"".join(word.split())]
        if not {command[0] for command in LINE_COMMANDS}.issuperset(keys):
            raise InputError(
                f"Line {self._lines} of the input is not an answer: {line.strip()[:80]!r}. Allowed: one of the words"
                f" {', '.join(LINE_COMMANDS)}, or their first letters, such as ynns. Earlier answers are saved."
            )
        return keys


def _read_key() -> str | None:
    key = read_key(sys.stdin.fileno())
    return None if key in END_OF_INPUT else key.lower()


def _read_line() -> str | None:
    """Return the next line; None at the end of the input."""
    line = sys.stdin.readline() if sys.stdin is not None else ""
    return line or None


def draw_in_terminal(path: str) -> None:
    """Draw a picture in kitty, iTerm or WezTerm; do nothing in other terminals."""
    if "KITTY_WINDOW_ID" in os.environ and path.lower().endswith(".png"):
        data = base64.b64encode(Path(path).read_bytes()).decode()
        parts = [data[start : start + KITTY_CHUNK] for start in range(0, len(data), KITTY_CHUNK)]
        for number, part in enumerate(parts):
            first = "a=T,f=100," if number == 0 else ""
            sys.stdout.write(f"\033_G{first}m={int(number < len(parts) - 1)};{part}\033\\")
    elif os.environ.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm"):
        data = base64.b64encode(Path(path).read_bytes()).decode()
        sys.stdout.write(f"\033]1337;File=inline=1:{data}\a")
    else:
        return
    sys.stdout.write("\n")
    sys.stdout.flush()


@sessions_app.callback(invoke_without_command=True)
def sessions(ctx: typer.Context, where: Where, json: Json = False) -> int:
    """List feedback sessions, most recently changed first.

    Each line has the id, state, marks, rounds, date, author and name of a session.

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
        print_json([_session_json(summary) for summary in found])
        return 0
    for summary in found:
        marks = f"{summary.relevant:>4} positive {summary.irrelevant:>4} negative {summary.skipped:>3} skipped"
        when = show_time(summary.changed_at)
        rest = f"{many(summary.rounds, 'round'):>10}  {when}  {summary.author}  {summary.name or ''}"
        print_line(f"{summary.id}  {summary.state:8}  {marks}  {rest}".rstrip())
    if not found:
        print_note("No sessions yet. Start one: lookalike feedback IMAGE")
    return 0


@sessions_app.command()
def delete(
    ids: Annotated[
        list[str], typer.Argument(metavar="ID", help="Ids of unfinished sessions (see lookalike sessions).")
    ],
    where: Where,
    json: Json = False,
) -> int:
    """Delete unfinished sessions and their marks. A finished session cannot be deleted: its class depends on it.

    If one of the sessions cannot be deleted, none of them is.

    \b
    Examples:
      lookalike sessions delete 3f9a1c02
      lookalike sessions delete 3f9a1c02 51b7e0aa --json
    """
    requested = list(dict.fromkeys(ids))
    with opened(where) as collection:
        known = [one for one in collection.sessions() if one.state == "open"]
        answers = {one.id: one.relevant + one.irrelevant + one.skipped for one in known}
        for session in sorted(requested, key=answers.__contains__):  # fail on invalid ids before deleting any
            collection.remove_session(session)
    n = sum(answers.get(session, 0) for session in requested)
    print_either(json, f"Deleted {many(len(requested), 'session')} with {many(n, 'answer')}.", deleted=requested)
    return 0


def _session_json(summary: "Summary") -> dict[str, Any]:
    return dataclasses.asdict(summary) | {"state": summary.state}


def _result_json(result: "Result") -> dict[str, Any]:
    return {"id": types.format_id(result.id), "path": result.path, "score": result.score}


def _path(item: "Item") -> str | None:
    return next(iter(item.paths), None)
