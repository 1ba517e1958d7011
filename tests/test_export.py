"""The content of exports."""

import csv
import io
import json

import pytest

from lookalike.collection import export
from lookalike.store.items import Item
from lookalike.store.judgements import LabelRecord


def row(paths, *labels):
    return Item(1, paths, 10, 4, 3, "png", 0.0, -5.0), [LabelRecord(label, "anna", "hand", 0.0) for label in labels]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_csv_cells_contain_no_spreadsheet_formulas(start):
    """Formulas are quoted in each label, because some spreadsheets also split cells at semicolons."""
    rows = [row([f"{start}cmd|x!A1", "/a/=b.png"], "good", f"{start}1+1")]
    cells = list(csv.DictReader(io.StringIO("".join(export.lines(rows, "csv", {})), newline="")))
    assert [cell["path"] for cell in cells] == [f"'{start}cmd|x!A1", "/a/=b.png"]
    assert [cell["labels"] for cell in cells] == [f"good;'{start}1+1"] * 2
    assert [cell["taken_at"] for cell in cells] == ["1969-12-31T23:59:55+00:00"] * 2  # ISO 8601, in UTC
    (found,) = json.loads("".join(export.lines(rows, "json", {})))
    assert (found["paths"], found["labels"]) == (rows[0][0].paths, ["good", f"{start}1+1"])
