"""When something was or will be: relative times in what people say, "yesterday", as the dates that they stood for.

Said on 12 March 2026, "I adopted a greyhound yesterday!" is remembered as "I adopted a greyhound on 11 March 2026!". What is
ambiguous stays as it was said: never a wrong date. Contains no words of any language; they are in ``relative`` of ``dates.yaml``.
Pure functions; knows no store and no model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial

from ld_agent.languages.dates import Dates, Form, Relative, RelativeKind
from ld_agent.languages.numbers import numbers
from ld_agent.languages.reading import Reading
from ld_agent.memory.dates import Matched, dates_named
from ld_agent.text import LONGEST_READ
from ld_agent.types import Utterance

EXACT_DAYS = 7
"""People count days up to here; "ten days ago" is about then."""
_SPANS: Mapping[Form, int] = {"week": 7, "weekend": 2}
"""Days of what is written by its first one."""
WEEKEND = 5  # its first day, counted from Monday
Resolved = tuple[Form, date] | None
Times = frozenset[tuple[Form, date]]
"""Each with the form in which it is written, and its first day."""
CLAUSE = 300  # characters before and after a time that may be its clause
NEAR = 5  # words between a verb and its time
OLDEST = 100  # years; who was born longer ago may well be dead


def dated(text: str, at: datetime, reading: Reading, lines: Sequence[str] | None = None) -> str:
    """Return a text with its relative times replaced by dates, in the text's own language.

    Args:
        at: when it was said, aware. Its day is that of its own offset.
        lines: if a model wrote the text, what it was made from. A time that none of them names is not believed: it is taken
            for the only one that they name, as models write "tomorrow" for "the day after tomorrow", or stays.

    >>> from datetime import UTC
    >>> from ld_agent.languages import ENGLISH
    >>> dated("Tomorrow we're flying home.", datetime(2026, 3, 12, 18, tzinfo=UTC), ENGLISH.reading)
    "On 13 March 2026 we're flying home."
    """
    today = at.date()
    named = [_replaced(line[:LONGEST_READ], today, reading)[1] for line in lines or ()]
    believed = None if lines is None else Times().union(*named)
    return _replaced(text[:LONGEST_READ], today, reading, believed)[0] + text[LONGEST_READ:]


def as_dated(
    passages: Sequence[Sequence[Utterance]], reading: Reading, now: datetime, *, in_place: bool = False
) -> list[tuple[Utterance, ...]]:
    """Return passages with the dates that their relative times stand for, and their ages ``now``, as models do not reckon.

    Args:
        in_place: what somebody was gives way to what they are: of two numbers, a small reader takes the first.
    """
    times = {one: one.local_at for said in passages for one in said}
    texts = {one: aged(dated(one.text, at, reading), at, now, reading, in_place=in_place) for one, at in times.items()}
    written = {one: one if one.text == text else replace(one, text=text) for one, text in texts.items()}
    return [tuple([written[one] for one in said]) for said in passages]


def aged(text: str, at: datetime, now: datetime, reading: Reading, *, in_place: bool = False) -> str:
    """Return a text with the ages and counts of years that it tells as they are ``now``: whole years after it was said ``at``, or
    since the day on which somebody was born.

    >>> from datetime import UTC
    >>> from ld_agent.languages import ENGLISH
    >>> aged("I turned fifty!", datetime(2025, 3, 12, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC), ENGLISH.reading)
    'I turned fifty (51 now)!'

    Args:
        in_place: see `as_dated`.
    """
    years = _whole_years(at, now)
    for dates, relative in ((dates, dates.relative) for dates in reading.dates if dates.relative):
        text = _with_ages_by_birth(text[:LONGEST_READ], now, dates, relative) + text[LONGEST_READ:]
        if years > 0 and relative.ages:
            present = partial(_with_present_number, years=years, written=relative.aged, in_place=in_place)
            for told in (relative.age(at.date()), re.compile(relative.going_on)):
                text = told.sub(present, text[:LONGEST_READ]) + text[LONGEST_READ:]
    return text


def _with_ages_by_birth(text: str, now: datetime, dates: Dates, relative: Relative) -> str:
    """A text with the age of who was born on a day that it names, if it names no other year, as of a death."""

    def with_age(match: re.Match[str]) -> str:
        before = text[max(match.start() - CLAUSE, 0) : match.start()]
        if not match["year"] or not re.search(relative.born, before):
            return match[0]
        try:
            age = _whole_years(Matched(match, dates).day_in(int(match["year"])), now)
        except ValueError:  # no such day
            return match[0]
        return f"{match[0]} {relative.aged.format(age=age)}" if 0 < age <= OLDEST else match[0]

    years = {year[0] for pattern in dates.compiled["year"] for year in pattern.finditer(text)}
    for pattern in dates.compiled["date"] if len(years) == 1 else ():
        text = pattern.sub(with_age, text)
    return text


def _whole_years(then: date, now: datetime) -> int:
    return now.year - then.year - ((now.month, now.day) < (then.month, then.day))


def _with_present_number(told: re.Match[str], years: int, written: str, in_place: bool) -> str:
    then = next(filter(None, told.groups()), "")
    number = numbers(then)
    if [word for word, _ in number] != [then]:
        return told[0]
    age = int(number[0][1]) + years
    if in_place and told.groupdict().get("age"):
        return f"{told[0].partition(then)[0]}{age}"
    return f"{told[0]} {written.format(age=age)}"


def held(text: str, at: datetime, reading: Reading) -> tuple[datetime | None, datetime | None]:
    """Return from when, and until when, what a text says holds: from its only date, or until the end of one that is still to come
    at ``at`` ("I am flying to Tallinn on 4 May 2026"), but not "from 4 May on", or that it calls the end ("until May 2025").
    None: it does not say, or names several dates.

    Args:
        at: when it was said, aware.
    """
    text = dated(text[:LONGEST_READ], at, reading)
    period = only_date(text, at, reading)
    if period is None:
        return None, None
    start, end = period
    relatives = [dates.relative for dates in reading.dates if dates.relative]
    for form, days in _SPANS.items():
        if any(relative.as_written(form, start.date(), noun=True) in text for relative in relatives):
            end = start + timedelta(days=days)
    clauses = [clause for relative in relatives for clause in re.split(relative.clause, text)]
    ending = any(re.search(r.ending, c) and only_date(c, at, reading) == period for r in relatives for c in clauses)
    begins = start <= at or any(re.search(relative.beginning, text) for relative in relatives)
    return (None, end) if ending or not begins else (start, None)


def only_date(text: str, at: datetime, reading: Reading) -> tuple[datetime, datetime] | None:
    """The first moment of the only date that a text says, relative or not, and that after it; None: it says none, or several.

    Args:
        at: when it was said, aware.
    """
    named = {(period.start, period.end) for period in dates_named(dated(text[:LONGEST_READ], at, reading), at, reading)}
    if len(named) != 1:
        return None
    start, end = (datetime.fromtimestamp(time, UTC).replace(tzinfo=at.tzinfo) for time in named.pop())
    return start, end


@lru_cache(8192)
def _replaced(text: str, today: date, reading: Reading, believed: Times | None = None) -> tuple[str, Times]:
    """A text with those of its relative times that are not ambiguous as dates, and these times.

    Args:
        believed: the times that they may be; None: any.
    """
    times = set[tuple[Form, date]]()

    def as_date(dates: Dates, relative: Relative, kind: RelativeKind, match: re.Match[str]) -> str:
        said = _Said(match, dates, relative, today)
        try:
            resolved = _RESOLVED[kind](said)
            if resolved is not None and believed is not None:
                resolved = _believable(*resolved, believed)
            if resolved is None:
                return match.group()
            written = said.written(*resolved)
        except (ValueError, OverflowError, KeyError):
            return match.group()
        times.add(resolved)
        return written

    for dates in reading.dates:
        if dates.relative is None or not dates.relative_hint.search(text):
            continue
        for kind, pattern in dates.relative_patterns:
            text = pattern.sub(partial(as_date, dates, dates.relative, kind), text)
    return text, frozenset(times)


def _believable(form: Form, day: date, believed: Times) -> Resolved:
    if any(day == other for _, other in believed):
        return form, day
    return next(iter(believed)) if len(believed) == 1 else None


@dataclass(frozen=True, slots=True)
class _Said(Matched):
    """A relative time as it was said on a day."""

    relative: Relative
    today: date

    def has(self, group: str) -> bool:
        return self.match.groupdict().get(group) is not None

    def written(self, form: Form, day: date) -> str:
        """A time that begins on a day, in place of what was said."""
        part = self.word("part")
        part = self.relative.parts_of_day.get(part, part)
        before = self.match.groupdict().get("noun")
        form = "part" if part and form == "day" else form
        words = {"part": part, "season": self.word("season")}
        text = (before or "") + self.relative.as_written(form, day, noun=before is not None, **words)
        return text[:1].upper() + text[1:] if self.match.group()[:1].isupper() else text

    @property
    def count(self) -> int:
        return self.number("number", self.relative.counts)

    @property
    def turn(self) -> int:
        return self.relative.turns[self.word("turn")]

    @property
    def weekday(self) -> int:
        """0, Monday, to 6."""
        return self.dates.weekdays[self.word("weekday")] - 1

    @property
    def monday(self) -> date:
        """The first day of the week in which it was said."""
        return self.today - timedelta(days=self.today.weekday())

    def tense(self) -> int:
        """1: the clause is about what is to come, -1: about what has been, 0: unsure."""
        before, after, unclear = self._clause()
        if unclear:
            return 0
        near = " ".join(before.split()[-NEAR:] or after.split()[:NEAR])
        future = bool(re.search(self.relative.future, f"{before} {after}"))
        past = re.search(self.relative.past, f"{before} {after}") is not None
        return 1 if future and not past else -1 if re.search(self.relative.past, near) and not future else 0

    def is_duration(self) -> bool:
        """Whether "in two weeks" may be how long something takes, or took, instead of when it will be."""
        before, after, unclear = self._clause()
        words = f"{before} {after}"
        return (
            unclear
            or self.count == 1
            or any(re.search(said, words) for said in (self.relative.past, self.relative.duration))
        )

    def _clause(self) -> tuple[str, str, bool]:
        """What stands in the same clause before and after the time, in the next one if the time is all of it ("In two weeks, …"),
        and whether that is a question or unclear."""
        whole, start, end = self.match.string, self.match.start(), self.match.end()
        first, last = max(start - CLAUSE, 0), end + CLAUSE
        clause = re.compile(self.relative.clause)
        begin = max((border.end() for border in clause.finditer(whole, first, start)), default=first)
        border = clause.search(whole, end, last)
        if (
            border is not None
            and border.group().startswith((",", "，"))
            and not whole[begin:start] + whole[end : border.start()]
        ):
            end = border.end()
            border = clause.search(whole, end, last)
        before, after = whole[begin:start], whole[end : border.start() if border else last]
        asked = border is not None and border.group().startswith(("?", "？"))
        return before, after, asked or re.search(self.relative.unclear, f"{before} {after}") is not None


def _day(said: _Said) -> Resolved:
    return "day", said.today + timedelta(days=said.relative.days[said.word("day")])


def _count(said: _Said) -> Resolved:
    if said.has("planned") and said.tense() != 1 and said.is_duration():
        return None
    number, unit = said.count, said.dates.unit_of[said.word("unit")]
    number = number if said.has("ahead") else -number
    if unit in ("day", "week"):
        days = timedelta(days=number if unit == "day" else 7 * number)
        exact = said.word("ahead") in said.relative.days or (
            unit == "day" and abs(number) <= EXACT_DAYS
        )  # "from today"
        return "day" if exact else "about_day", said.today + days
    months = number * (12 if unit == "year" else 1)
    form: Form = "about_month" if abs(months) <= 12 or unit == "month" else "about_year"
    return form, _month(said.today, months)


def _month(day: date, ahead: int) -> date:
    """The first day of a month."""
    months = day.year * 12 + day.month - 1 + ahead
    return date(months // 12, months % 12 + 1, 1)


def _turn(said: _Said) -> Resolved:
    turn, unit, today = said.turn, said.dates.unit_of[said.word("unit")], said.today
    if unit == "year":
        return "year", date(today.year + turn, 1, 1)
    if unit == "month":
        return "month", _month(today, turn)
    if unit == "weekend":
        return _weekend(said)
    if today.weekday() == 6:  # on a Sunday, people differ in which week is the next
        return None
    monday = said.monday + timedelta(weeks=turn)
    return ("day", monday + timedelta(days=said.weekday)) if said.word("weekday") else ("week", monday)


def _weekend(said: _Said) -> Resolved:
    turn, weekday = said.turn, said.today.weekday()
    if turn > 0 and weekday < WEEKEND:  # the coming one, or the one after
        return None
    if turn == 0 and weekday < WEEKEND and said.tense() != 1 and (weekday < 2 or said.tense() == -1):
        return None
    return "weekend", said.monday + timedelta(days=WEEKEND, weeks=turn)


def _weekday(said: _Said) -> Resolved:
    ahead = (said.weekday - said.today.weekday()) % 7
    if said.has("turn"):
        return _weekday_of_turn(said, ahead)
    tense = 1 if said.has("ahead") else -1 if said.has("back") else said.tense()
    if ahead == 0 or tense == 0 or (said.has("ahead") and said.tense() == -1):
        return None
    return "day", said.today + timedelta(days=ahead if tense > 0 else ahead - 7)


def _weekday_of_turn(said: _Said, ahead: int) -> Resolved:
    """A weekday of the last, this or the next week, where that is also the nearest one in this direction."""
    this = said.monday + timedelta(days=said.weekday)
    if said.turn == 0:
        return ("day", this) if this >= said.today or said.tense() == -1 else None
    nearest = said.today + timedelta(days=ahead or 7 if said.turn > 0 else ahead - 7)
    return ("day", nearest) if nearest == this + timedelta(weeks=said.turn) else None


def _season(said: _Said) -> Resolved:
    """A season of the year, unless it is unsure which: "next summer" is only the next year's once this year's has begun."""
    first, turn, today = said.dates.seasons[said.word("season")], said.turn, said.today
    begun, over = today.month >= first, today.month >= first + 3
    if (turn > 0 and not begun) or (turn < 0 and over):
        return None
    return "season", date(today.year + turn, first, 1)


def _date(said: _Said) -> Resolved:
    """A day that is to come, with its year."""
    if said.tense() != 1:
        return None
    day = date(said.today.year, said.dates.months[said.word("month")], int(said.word("day")))
    return "day", day if day >= said.today else day.replace(year=day.year + 1)


_RESOLVED: Mapping[RelativeKind, Callable[[_Said], Resolved]] = {
    "day": _day,
    "count": _count,
    "turn": _turn,
    "weekday": _weekday,
    "season": _season,
    "date": _date,
}
