"""Answers from a person or a pipe, and pictures inside a terminal that can show them.

In: standard input. Out: one key at a time: pressed, where it is a terminal, else the letters of each line.
"""

import base64
import os
import sys
import termios
import tty
from pathlib import Path

END = ("", "\x04")
"""What a closed input and Ctrl-D give."""
WORDS = ("yes", "no", "skip", "undo", "finish", "quit")
"""Lines that stand for one key, their first letter; of any other line, each letter is one."""
CHUNK = 4_096
"""Characters that kitty takes at a time."""


class Keys:
    """Answers in lower case, one at a time."""

    def __init__(self) -> None:
        self._ahead: list[str] = []  # what a line from a pipe holds besides

    def read(self) -> str | None:
        """The next key, "" for an empty line; None when there will be no more."""
        if sys.stdin is None:
            return None
        if sys.stdin.isatty():
            return _pressed()
        if not self._ahead:
            line = read_line()
            if line is None:
                return None
            word = line.strip().lower()
            self._ahead = [word[:1]] if not word or word in WORDS else [*"".join(word.split())]
        return self._ahead.pop(0)


def _pressed() -> str | None:
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    try:
        tty.setcbreak(file, termios.TCSADRAIN)  # keys pressed ahead are kept; Ctrl-C stays Ctrl-C
        key = os.read(file, 1).decode(errors="replace")
        if key == "\033":  # an arrow or the like: the letters that follow are no answers
            termios.tcflush(file, termios.TCIFLUSH)
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
    return None if key in END else key.lower()


def read_line() -> str | None:
    """The next line; None when there will be no more."""
    line = sys.stdin.readline() if sys.stdin is not None else ""
    return line or None


def inline(path: str) -> None:
    """Draw a picture in the terminal, where it is known to be one that can; nothing elsewhere."""
    if "KITTY_WINDOW_ID" in os.environ and path.lower().endswith(".png"):
        data = base64.b64encode(Path(path).read_bytes()).decode()
        parts = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
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
