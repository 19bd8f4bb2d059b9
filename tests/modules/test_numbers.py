"""Numbers in digits and in words."""

import pytest

from ld_agent.checks.numbers import numbers


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("thirty-eight and 38", ["38", "38"]),
        ("a thousand words, 1,000 in all", ["1000", "1000"]),
        ("three hundred and fifty goats and two cats", ["350", "2"]),
        ("five thousand two hundred and six", ["5206"]),
        ("two, three", ["2", "3"]),
        ("the fifth, or 5th, place", ["5", "5"]),
        ("ten past two", ["10", "2"]),
        ("1.5 km and Ann", ["1.5"]),
        ("and", []),
        ("", []),
    ],
)
def test_numbers_are_read_in_order(text: str, values: list[str]):
    assert [value for _, value in numbers(text)] == values


def test_a_number_is_returned_as_written():
    assert numbers("I have Thirty-One plants.") == [("Thirty-One", "31")]
