"""Which periods a question names, and how near records lie to them."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest

from ld_agent.languages import ENGLISH
from ld_agent.memory.dates import DAY, Period, nearness, periods

READING = ENGLISH.reading

AT = datetime(2023, 10, 18, 15, 30, tzinfo=UTC)  # a Wednesday


def day(value: str) -> float:
    return datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("What did she do on 7 May 2023?", "2023-05-07", "2023-05-08"),
        ("What happened on December 1,2022?", "2022-12-01", "2022-12-02"),
        ("the 3rd of June, 2022", "2022-06-03", "2022-06-04"),
        ("on Aug 15th", "2023-08-15", "2023-08-16"),
        ("on 25 December", "2022-12-25", "2022-12-26"),  # this year's is to come
        ("since 2023-01-31", "2023-01-31", "2023-02-01"),
        ("in June 2023", "2023-06-01", "2023-07-01"),
        ("last May", "2023-05-01", "2023-06-01"),
        ("last October", "2022-10-01", "2022-11-01"),  # said in October
        ("in October", "2023-10-01", "2023-11-01"),
        ("during the summer", "2023-06-01", "2023-09-01"),
        ("last winter", "2022-12-01", "2023-03-01"),
        ("in 2022", "2022-01-01", "2023-01-01"),
        ("last week", "2023-10-09", "2023-10-16"),
        ("last weekend", "2023-10-14", "2023-10-16"),
        ("last month", "2023-09-01", "2023-10-01"),
        ("this year", "2023-01-01", "2024-01-01"),
        ("on Tuesday", "2023-10-17", "2023-10-18"),
        ("last Wednesday", "2023-10-11", "2023-10-12"),
        ("yesterday", "2023-10-17", "2023-10-18"),
    ],
)
def test_a_period(text: str, start: str, end: str):
    assert periods(text, AT, READING) == [Period(day(start), day(end))]


def test_two_weeks_ago_is_a_week_around_that_day():
    [found] = periods("We met two weeks ago.", AT, READING)
    assert (found.start + found.end) / 2 == pytest.approx(AT.timestamp() - 14 * DAY)
    assert found.end - found.start == 7 * DAY


@pytest.mark.parametrize(
    "text",
    [
        "May I march with you?",
        "She may fall in love.",
        "on 31 June 2022 or the like".replace("2022", ""),
        "Room 1234",
        "1 day",
    ],
)
def test_what_names_no_date(text: str):
    assert [p for p in periods(text, AT, READING) if p.end - p.start == DAY] == []
    assert "June" in text or periods(text, AT, READING) == []


def test_a_date_tells_more_than_what_is_reckoned_from_now():
    assert periods("last weekend before 10 April 2023", AT, READING) == [Period(day("2023-04-10"), day("2023-04-11"))]


def test_several_dates():
    assert len(periods("between 3 May 2023 and 9 June 2023", AT, READING)) == 2


def test_nearness_inside_after_and_before():
    week = Period(100 * DAY, 107 * DAY)
    near = nearness([week], np.array([103.0, 114.0, 96.5]) * DAY)
    # inside: 1; 7 days after: e^-1; 3.5 days before counts twice: e^-1
    assert near == pytest.approx([1.0, math.exp(-1), math.exp(-1)])


def test_no_period_is_near_nothing():
    assert nearness([], np.array([1.0, 2.0])).tolist() == [0.0, 0.0]


def test_years_and_months_by_name():
    times = [datetime(2024, 9, 1, tzinfo=UTC), datetime(2023, 5, 2, tzinfo=UTC), datetime(2024, 9, 30, tzinfo=UTC)]
    assert ENGLISH.dates.years_and_months(times) == "2023 2024 May Sep Sept September"
