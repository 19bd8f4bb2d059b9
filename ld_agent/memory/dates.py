"""The periods of time that a question names ("on 7 May 2023", "in June", "last week"), and how near a record lies to them.

English (Chinese and Korean: `east_asian_dates`), and reckoned from the time of the question: a month without a year is the last
one that has begun by then. Knows nothing of records, stores or scores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

DAY = 86_400.0
NEAR = 7 * DAY
"""Seconds outside a period at which the nearness has fallen to 1/e: people tell of a thing within days of it."""

_MONTHS = "january february march april may june july august september october november december".split()
_SHORT = {name[:3]: number for number, name in enumerate(_MONTHS, 1)} | {"sept": 9}
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_NUMBERS = {name: n for n, name in enumerate("zero one two three four five six seven eight nine ten".split())}
_NUMBERS |= {"a": 1, "an": 1, "a couple of": 2, "couple of": 2, "a few": 3, "few": 3}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}

_MONTH = rf"(?P<month>{'|'.join(_MONTHS)}|{'|'.join(sorted(_SHORT, key=len, reverse=True))})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_BEFORE = r"(?:(?:in|during|of|since|by|until|around|for|before|after|early|late|mid|this)\s+|mid-)"


@dataclass(frozen=True, slots=True)
class Period:
    """From ``start`` up to ``end``, seconds since the epoch."""

    start: float
    end: float


def periods(text: str, at: datetime) -> list[Period]:
    """The periods that a text names, in the order of the patterns; what lies outside the calendar is left out.

    Where a year or a date is named, what is reckoned from the time of the text ("last week") is not taken as well: in
    "the weekend before 10 April 2023" the date says when.

    Args:
        at: the time of the text, aware.
    """
    found: list[Period] = []
    if not _SOMETHING.search(text):
        return found
    for pattern, resolve in _PATTERNS:
        if found and resolve in _RECKONED:
            continue

        def taken(match: re.Match[str], resolve: Callable[[re.Match[str], datetime], Period] = resolve) -> str:
            try:
                found.append(resolve(match, at))
            except (ValueError, OverflowError):
                return match.group()
            return " " * len(match.group())  # one stretch of the text names one period

        text = pattern.sub(taken, text)
    return found


def nearness(named: Sequence[Period], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """How near records lie to the nearest of some periods: 1 inside it, e^(-gap / 7 days) outside.

    A record before a period is twice as far from it as one after: a thing is told after it happened.

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


def _month_number(name: str) -> int:
    return _SHORT[name.lower()[:3]]


def span(start: datetime, days: float) -> Period:
    return Period(start.timestamp(), start.timestamp() + days * DAY)


def months(year: int, month: int, count: int = 1) -> Period:
    last = month - 1 + count
    end = datetime(year + last // 12, last % 12 + 1, 1, tzinfo=UTC)
    return Period(datetime(year, month, 1, tzinfo=UTC).timestamp(), end.timestamp())


def _date(match: re.Match[str], at: datetime) -> Period:
    month, day = _month_number(match["month"]), int(match["day"])
    if match["year"]:
        return span(datetime(int(match["year"]), month, day, tzinfo=UTC), 1)
    found = datetime(at.year, month, day, tzinfo=UTC)
    return span(found if found <= at else found.replace(year=at.year - 1), 1)


def _iso(match: re.Match[str], at: datetime) -> Period:
    return span(datetime(int(match["year"]), int(match["number"]), int(match["day"]), tzinfo=UTC), 1)


def _month(match: re.Match[str], at: datetime) -> Period:
    month, year = _month_number(match["month"]), match.groupdict().get("year")
    if year:
        return months(int(year), month)
    past = bool(match.groupdict().get("last"))  # "last May", said in May, is not this one
    return months(at.year - (month > at.month or (past and month == at.month)), month)


def _season(match: re.Match[str], at: datetime) -> Period:
    first, year = _SEASONS[match["season"].lower()], match["year"]
    if year:
        return months(int(year), first, 3)
    past = bool(match["last"])
    running = first <= at.month < first + 3
    return months(at.year - (first > at.month or (past and running)), first, 3)


def _ago(match: re.Match[str], at: datetime) -> Period:
    number, days = match["number"].lower(), _UNITS[match["unit"].lower()]
    count = int(number) if number.isdigit() else _NUMBERS[" ".join(number.split())]
    middle = (at - timedelta(days=days * count)).timestamp()
    return Period(middle - days * DAY / 2, middle + days * DAY / 2)


def _recent(match: re.Match[str], at: datetime) -> Period:
    which, unit = match["which"].lower(), match["unit"].lower()
    today = datetime(at.year, at.month, at.day, tzinfo=UTC)
    if unit == "year":
        return months(at.year - (which == "last"), 1, 12)
    if unit == "month":
        month = at.month - (which == "last")
        return months(at.year - (month == 0), month or 12)
    monday = today - timedelta(days=today.weekday() + 7 * (which == "last"))
    return span(monday + timedelta(days=5), 2) if unit == "weekend" else span(monday, 7)


def _weekday(match: re.Match[str], at: datetime) -> Period:
    today = datetime(at.year, at.month, at.day, tzinfo=UTC)
    back = (today.weekday() - _WEEKDAYS.index(match["weekday"].lower())) % 7
    return span(today - timedelta(days=back or 7), 1)


def _near_day(match: re.Match[str], at: datetime) -> Period:
    today = datetime(at.year, at.month, at.day, tzinfo=UTC)
    return span(today - timedelta(days=match.group().lower() == "yesterday"), 1)


def _year(match: re.Match[str], at: datetime) -> Period:
    return months(int(match["year"]), 1, 12)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(rf"\b{text}\b", re.IGNORECASE)


_UNAMBIGUOUS = _MONTH.replace("march|", "").replace("may|", "").replace("mar|", "").replace("|may", "")
_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], Period]], ...] = (
    (_pattern(rf"{_YEAR}-(?P<number>\d\d)-(?P<day>\d\d)"), _iso),
    (_pattern(rf"{_DAY}\s+(?:of\s+)?{_MONTH}(?:(?:,\s*|\s+){_YEAR})?"), _date),
    (_pattern(rf"{_MONTH}\s+{_DAY}(?:(?:,\s*|\s+){_YEAR})?"), _date),
    (_pattern(rf"{_MONTH},?\s+{_YEAR}"), _month),
    (_pattern(rf"(?:(?P<last>last)\s+|{_BEFORE}){_MONTH}"), _month),
    (_pattern(_UNAMBIGUOUS), _month),  # "may" and "march" by themselves are verbs as well
    (
        _pattern(
            rf"(?:(?P<last>last)\s+|this\s+|(?:in|during|over|of)\s+(?:the\s+)?)"
            rf"(?P<season>{'|'.join(_SEASONS)})(?:\s+of)?(?:\s+{_YEAR})?"
        ),
        _season,
    ),
    (_pattern(_YEAR), _year),
    (
        _pattern(rf"(?P<number>\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})\s+"
                 r"(?P<unit>day|week|month|year)s?\s+ago"),
        _ago,
    ),
    (_pattern(r"(?P<which>last|this)\s+(?P<unit>week|weekend|month|year)"), _recent),
    (_pattern(rf"(?:last|on)\s+(?P<weekday>{'|'.join(_WEEKDAYS)})"), _weekday),
    (_pattern(r"(?:today|yesterday)"), _near_day),
)  # fmt: skip
_SOMETHING = re.compile(
    rf"\b(?:\d|{'|'.join(name[:3] for name in _MONTHS)}|{'|'.join(_SEASONS)}|ago|last|this|on\s|today|yesterday)",
    re.IGNORECASE,
)
"""What no text is without in which one of the patterns is found: most questions name no time, and are let go soon."""
_RECKONED = (_ago, _recent, _weekday, _near_day)
