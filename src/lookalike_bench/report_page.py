"""The frame and the looks of the report, and its drawings.

In: what stands in the page. Out: HTML that needs nothing beside it, in light and in dark.
"""

import io
from collections.abc import Sequence

from lookalike_bench.plot import draw
from lookalike_bench.tables import Cell

MARKS = {"reproduced": "=", "better": "▲", "short": "▼", "not comparable": "≠", "": "·"}
"""A sign for each verdict, for those who do not see colours."""
STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --dim: #5b6670; --line: #d8dde2; --page: #fff;
  --good: #14683c; --best: #1f55b8; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebee; --dim: #a3adb7; --line: #3a424a; --page: #14181c;
  --good: #5fd394; --best: #8db4ff; --bad: #ff8a80 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto;
  max-width: 90rem; padding: 0 1rem }
section { margin-bottom: 3rem } .wide, details { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
tbody th { position: sticky; left: 0; background: var(--page); white-space: nowrap }
small { color: var(--dim); display: block; white-space: nowrap }
.summary { display: flex; flex-wrap: wrap; gap: .5rem; list-style: none; padding: 0 }
.summary li { border: 1px solid var(--line); border-radius: .5rem; padding: .4rem .8rem }
.summary b { font-size: 1.3em }
.reproduced, .holds { color: var(--good) } .better, .within { color: var(--best) } .short, .does { color: var(--bad) }
svg { max-width: 100%; height: auto; background: #fff }
"""


def page(body: str) -> str:
    """The whole page around a body."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Lookalike: figures</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body><h1>Lookalike: figures</h1>\n{body}</body></html>\n"
    )


def draw_svg(title: str, cells: Sequence[Cell]) -> str:
    """The cells of a bench as a drawing inside the page."""
    drawn = io.StringIO()
    draw(title, cells).savefig(drawn, format="svg")
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]
