"""The periods of time that a question names ("on 7 May 2023", "去年五月", "지난주"), and how close a record is to them.

Parsed by the ``dates.yaml`` of an agent's languages, relative to the time of the question: a month without a year is the last one
that has begun by then. Contains no words of any language. Knows no records, stores or scores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from ld_agent.languages.dates import Dates, Kind, Unit
from ld_agent.languages.numbers import chinese_number
from ld_agent.languages.reading import Reading

DAY = 86_400.0
NEAR = 7 * DAY
"""Seconds outside a period after which the closeness has fallen to 1/e: people mention things within days."""
_DAYS: Mapping[Unit, int] = {"day": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}


@dataclass(frozen=True, slots=True)
class Period:
    """From ``start`` up to ``end``, seconds since the epoch."""

    start: float
    end: float


def periods(text: str, at: datetime, reading: Reading) -> list[Period]:
    """Return the periods that a text names, in the order of the patterns; periods outside the calendar are omitted.

    If a year or a date is named, relative expressions ("last week") are ignored: in "the weekend before 10 April 2023"
    the date decides.

    Args:
        at: the time of the text, aware.
    """
    periods: list[Period] = []
    languages = reading.dates_in(text)
    for kind, resolve in (_NAMED | _RECKONED).items():
        if kind in _NAMED or not periods:
            text = _of_kind(languages, kind, resolve, text, at, periods)
    return periods


def dates_named(text: str, at: datetime, reading: Reading) -> list[Period]:
    """Return the periods that a text names with their year: "on 7 May 2023", "in 2022"; not "on 7 May" or "last week"."""
    periods: list[Period] = []
    for kind, resolve in _NAMED.items():

        def of_a_year(match: Matched, at: datetime, resolve: Resolve = resolve) -> Period:
            if match.year(at) is None:
                raise ValueError(match.match.group())
            return resolve(match, at)

        text = _of_kind(reading.dates_in(text), kind, of_a_year, text, at, periods)
    return periods


def nearness(named: Sequence[Period], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how close records are to the nearest period: 1 inside it, e^(-gap / 7 days) outside.

    The gap of a record before a period counts twice: things are told after they happen.

    Args:
        at: (n,) times in seconds since the epoch.

    Returns:
        (n,) in [0, 1]; 0 where no period is named.
    """
    best = np.zeros(len(at))
    for period in named:
        gap = np.maximum(np.maximum(2 * (period.start - at), at - period.end), 0.0)
        best = np.maximum(best, np.exp(-gap / NEAR))
    return best


@dataclass(frozen=True, slots=True)
class Matched:
    """The groups that a pattern matched, interpreted by the words of its language."""

    match: re.Match[str]
    dates: Dates

    def word(self, group: str) -> str:
        """A group as the tables of words have it; "" if it is absent."""
        return " ".join((self.match.groupdict().get(group) or "").casefold().split())

    def number(self, group: str, words: Mapping[str, int]) -> int:
        """A number in digits or Chinese numerals, or one of these words."""
        word = self.word(group)
        return int(word) if word.isdecimal() else words[word] if word in words else chinese_number(word)

    def day_in(self, year: int) -> datetime:
        """The day and month that are named, in a year.

        Raises:
            ValueError: no such day.
        """
        return datetime(year, self.number("month", self.dates.months), self.number("day", {}), tzinfo=UTC)

    def year(self, at: datetime) -> int | None:
        """The year that is named; None: none is."""
        if year := self.word("year"):
            return int(year)
        return at.year - self.dates.back[back] if (back := self.word("back")) else None


Resolve = Callable[[Matched, datetime], Period]


def _of_kind(
    languages: Sequence[Dates], kind: Kind, resolve: Resolve, text: str, at: datetime, periods: list[Period]
) -> str:
    """Append the periods that the patterns of a kind find, and return the rest: one stretch names one period."""
    for dates, pattern in ((language, pattern) for language in languages for pattern in language.compiled[kind]):

        def taken(match: re.Match[str], dates: Dates = dates) -> str:
            try:
                periods.append(resolve(Matched(match, dates), at))
            except (ValueError, OverflowError, KeyError):
                return match.group()
            return " " * len(match.group())

        text = pattern.sub(taken, text)
    return text


def _span(start: datetime, days: float) -> Period:
    return Period(start.timestamp(), start.timestamp() + days * DAY)


def _months(year: int, month: int, count: int = 1) -> Period:
    last = month - 1 + count
    end = datetime(year + last // 12, last % 12 + 1, 1, tzinfo=UTC)
    return Period(datetime(year, month, 1, tzinfo=UTC).timestamp(), end.timestamp())


def _today(at: datetime) -> datetime:
    return datetime(at.year, at.month, at.day, tzinfo=UTC)


def _date(match: Matched, at: datetime) -> Period:
    year = match.year(at)
    date = match.day_in(year or at.year)
    return _span(date if year or date <= at else date.replace(year=at.year - 1), 1)


def _month(match: Matched, at: datetime) -> Period:
    month, year = match.number("month", match.dates.months), match.year(at)
    past = bool(match.word("last"))  # "last May", said in May, is not this one
    return _months(year or at.year - (month > at.month or (past and month == at.month)), month)


def _season(match: Matched, at: datetime) -> Period:
    first, year = match.dates.seasons[match.word("season")], match.year(at)
    past, running = bool(match.word("last")), first <= at.month < first + 3
    return _months(year or at.year - (first > at.month or (past and running)), first, 3)


def _year(match: Matched, at: datetime) -> Period:
    return _months(match.year(at) or at.year, 1, 12)


def _ago(match: Matched, at: datetime) -> Period:
    days = _DAYS[match.dates.unit_of[match.word("unit")]]
    middle = (at - timedelta(days=days * match.number("number", match.dates.numbers))).timestamp()
    return Period(middle - days * DAY / 2, middle + days * DAY / 2)


def _recent(match: Matched, at: datetime) -> Period:
    unit, back = match.dates.unit_of[match.word("unit")], match.dates.back[match.word("back")]
    if unit == "year":
        return _months(at.year - back, 1, 12)
    if unit == "month":
        month = at.year * 12 + at.month - 1 - back
        return _months(month // 12, month % 12 + 1)
    if unit == "day":
        return _span(_today(at) - timedelta(days=back), 1)
    monday = _today(at) - timedelta(days=at.weekday() + 7 * back)
    if unit == "weekend":
        return _span(monday + timedelta(days=5), 2)
    weekday = match.word("weekday")
    return _span(monday + timedelta(days=match.dates.weekdays[weekday] - 1), 1) if weekday else _span(monday, 7)


def _weekday(match: Matched, at: datetime) -> Period:
    back = (at.isoweekday() - match.dates.weekdays[match.word("weekday")]) % 7
    return _span(_today(at) - timedelta(days=back or 7), 1)


def _day(match: Matched, at: datetime) -> Period:
    return _span(_today(at) - timedelta(days=match.dates.back[match.word("back")]), 1)


_NAMED: dict[Kind, Resolve] = {"date": _date, "month": _month, "season": _season, "year": _year}
_RECKONED: dict[Kind, Resolve] = {"ago": _ago, "recent": _recent, "weekday": _weekday, "day": _day}
