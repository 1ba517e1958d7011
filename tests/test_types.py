from hypothesis import given
from hypothesis import strategies as st

from lookalike.types import format_id, parse_id


@given(st.integers(0, 2**63 - 1))
def test_an_id_is_written_as_16_digits_and_read_back(item):
    text = format_id(item)
    assert len(text) == 16
    assert parse_id(text) == item


def test_text_that_is_not_an_id_is_none():
    assert parse_id("beach.jpg") is None
    assert parse_id("ffffffffffffffff") is None  # above 63 bits
    assert parse_id("0123456789ABCDEF") is None
