"""Answers from a person or a pipe, and pictures inside a terminal that can show them.

In: standard input. Out: one key at a time: pressed, where it is a terminal, else the first letter of each line.
"""

import base64
import os
import sys
import termios
import tty
from pathlib import Path

END = ("", "\x04")
"""What a closed input and Ctrl-D give."""
CHUNK = 4_096
"""Characters that kitty takes at a time."""


def read_key() -> str | None:
    """The next answer, in lower case; None when there will be no more."""
    if sys.stdin is None:
        return None
    if not sys.stdin.isatty():
        line = read_line()
        return None if line is None else line.strip().lower()[:1]
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
