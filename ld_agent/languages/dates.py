"""How a language names times, ``dates.yaml``: its words for months, weekdays and units, patterns made of them, and how it writes
relative times ("yesterday", "next month") as dates.

Knows no calendar: `ld_agent.memory.dates` and `ld_agent.memory.when` compute the times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

Kind = Literal["date", "month", "season", "year", "ago", "recent", "weekday", "day"]
Unit = Literal["day", "week", "weekend", "month", "year"]
GROUPS: Mapping[Kind, tuple[str, ...]] = {
    "date": ("month", "day"),
    "month": ("month",),
    "season": ("season",),
    "year": (),
    "ago": ("number", "unit"),
    "recent": ("back", "unit"),
    "weekday": ("weekday",),
    "day": ("back",),
}
"""The groups that a pattern of each kind must have."""
RelativeKind = Literal["day", "count", "turn", "weekday", "season", "date"]
Form = Literal["day", "part", "week", "weekend", "month", "season", "year", "about_day", "about_month", "about_year"]
RELATIVE_GROUPS: Mapping[str, tuple[str, ...]] = {
    "day": ("day",),
    "count": ("number", "unit"),
    "turn": ("turn", "unit"),
    "weekday": ("weekday",),
    "season": ("turn", "season"),
    "date": ("day", "month"),
}
"""The groups that a pattern of each kind must have."""
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def regular(pattern: str) -> str:
    """A regular expression of a language's file, as it is.

    Raises:
        ValueError: it is none.
    """
    try:
        re.compile(pattern)
    except re.error as exc:
        raise ValueError(f"{pattern!r} is not a regular expression: {exc}") from exc
    return pattern


class Relative(BaseModel):
    """The relative times of one language. Words are in lower case.

    Attributes:
        days: how many days ahead a word is: "yesterday" is -1.
        turns: how many periods ahead: "last" is -1, "next" 1.
        counts: numbers in words. Digits and Chinese numerals are read in every language.
        parts_of_day: how a part of the day is written, where it is not as it is said: "tonight" is the evening.
        future, past, unclear: what makes a clause one about what is to come or what has been, and what makes that unsure; for
            times that are said of both ("on Saturday").
        duration: what in a clause makes "in two weeks" how long something takes, beside ``past`` and ``unclear``; "": anything
            that is not clearly about what is to come.
        ending, beginning: what says in a sentence that something holds until, or from, the time that it names.
        clause: what separates clauses.
        ages, reached: words before a number that is an age, or one that was reached then; none: no age is recognized.
        after_age: words that may follow it, beside the end of the clause.
        being, of_age: words before a number of years of anybody, and those of which one has to follow then.
        going_on: what goes on for years, with the number as its only group: "I've lived here for six years".
        born: what, before a date, says that it is the day of somebody's birth.
        aged: how an age or a number of years said years ago is written after it, with ``{age}``, the present one.
        written: for each form, how the time is written by itself and where the pattern's group ``noun`` matched
            ("since …"), with ``{day}``, ``{month}``, ``{month_name}``, ``{year}``, ``{part}`` and ``{season}``.
        month_names: January to December.
        patterns: kind and regular expression, in matching order; case is ignored. They may refer to these words as
            ``{days}``, ``{turns}`` and ``{counts}``, and to what patterns of ``dates.yaml`` may.

    Kinds and their groups, ``?`` if they may be absent; any may have ``noun`` and ``part`` (of the day):

    - ``day``: day
    - ``count``: number, unit, ahead? (counted from now on), planned? (not where it is a duration)
    - ``turn``: turn, unit, weekday? (of that week)
    - ``weekday``: weekday, turn?, or ahead? or back? (the next or the last one)
    - ``season``: turn, season
    - ``date``: day, month; without a year, which is added
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    days: Mapping[str, int]
    turns: Mapping[str, int]
    counts: Mapping[str, int]
    parts_of_day: Mapping[str, str]
    future: str
    past: str
    unclear: str
    duration: str = ""
    ending: str
    beginning: str = "(?!)"
    clause: str
    ages: tuple[str, ...] = ()
    reached: tuple[str, ...] = ()
    after_age: tuple[str, ...] = ()
    being: tuple[str, ...] = ()
    of_age: tuple[str, ...] = ()
    going_on: str = "(?!)"
    born: str = "(?!)"
    aged: str = ""
    written: Mapping[Form, tuple[str, str]]
    month_names: tuple[str, ...]
    patterns: tuple[tuple[RelativeKind, str], ...]

    @field_validator("future", "past", "unclear", "duration", "ending", "beginning", "clause", "going_on", "born")
    @classmethod
    def _is_a_pattern(cls, pattern: str) -> str:
        return regular(pattern)

    @field_validator("written")
    @classmethod
    def _every_form_is_written(cls, written: Mapping[str, object]) -> Mapping[str, object]:
        if missing := [form for form in get_args(Form) if form not in written]:
            raise ValueError(f"lacks the key {missing[0]!r}")
        return written

    def age(self, told: date) -> re.Pattern[str]:
        """Matches an age that somebody had (group ``age``) or reached (``reached``) when it was told, on a day."""
        words = (self.ages, self.reached, self.after_age, self.being, self.of_age)
        ages, reached, after, being, of_age = ("|".join(map(re.escape, each)) for each in words)
        ones = "|".join(word for word, value in self.counts.items() if value < 10 and len(word) > 2)  # of "forty-one"
        number = rf"\d{{1,2}}|[^\W\d_]+(?:[ -](?:{ones})\b)?+(?:[ -][^\W\d_]+)??"
        end = rf"[.!?;)](?!\d)|$| (?:{after})\b"
        today = re.escape(self.as_written("day", told))
        of_others = rf"|(?:{being})(?= (?:{number}) (?:{of_age}|{today})\b)" if being and of_age else ""
        had = rf"(?:{ages}{of_others}) (?P<age>{number})(?: {today})?(?=,|{end})"
        return re.compile(
            rf"\b(?:{had}|(?:{reached}) (?P<reached>{number})(?=[^.,;!?]{{0,80}} {told.year}\b|{end}))", re.IGNORECASE
        )

    def as_written(self, form: Form, day: date, *, noun: bool = False, part: str = "", season: str = "") -> str:
        """How the language writes a time that begins on a day."""
        words = {"day": day.day, "month": day.month, "month_name": self.month_names[day.month - 1], "year": day.year}
        return self.written[form][noun].format(**words, part=part, season=season)


class Dates(BaseModel):
    """The time expressions of one language, ``dates.yaml``. Words are in lower case.

    Attributes:
        months: 1 to 12.
        weekdays: 1, Monday, to 7.
        seasons: the number of each season's first month.
        units: the words for day, week, weekend, month and year.
        back: how many periods a word goes back: "last" is 1, "yesterday" is 1.
        numbers: small numbers in words. Digits and Chinese numerals are read in every language.
        parts: reusable pieces of patterns, by name. Parts and patterns may refer to the words above as ``{months}``,
            ``{weekdays}``, ``{seasons}``, ``{units}``, ``{back}`` and ``{numbers}``, and to a part as ``{name}``.
        patterns: kind and regular expression, in matching order; case is ignored.
        relative: what is replaced by dates when it becomes memory; None: nothing is.

    Kinds and their groups, ``?`` if they may be absent:

    - ``date``: month, day, year?, back? (years)
    - ``month``, ``season``: month or season, year?, back? (years), last? (the last that is over, or began before this one)
    - ``year``: year or back
    - ``ago``: number, unit
    - ``recent``: back, unit, weekday?
    - ``weekday``: weekday, the last one before today
    - ``day``: back
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    seasons: Mapping[str, int]
    units: Mapping[Unit, tuple[str, ...]]
    back: Mapping[str, int]
    numbers: Mapping[str, int]
    parts: Mapping[str, str]
    patterns: tuple[tuple[Kind, str], ...]
    relative: Relative | None = None

    def years_and_months(self, times: Iterable[datetime]) -> str:
        """The years of times and the names of their months, each once: "2024 Sep Sept September"."""
        days = list(times)
        named = {name.title() for name, month in self.months.items() if any(at.month == month for at in days)}
        return " ".join([*sorted({str(at.year) for at in days}), *sorted(named)])

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        self._check(self.patterns, GROUPS)
        if self.relative:
            self._check(self.relative.patterns, RELATIVE_GROUPS)
        return self

    def _check(self, patterns: Iterable[tuple[str, str]], groups_of: Mapping[Any, tuple[str, ...]]) -> None:
        for kind, pattern in patterns:
            try:
                groups = re.compile(self._expanded(pattern)).groupindex
            except re.error as exc:
                raise ValueError(f"patterns: {pattern!r} is not a regular expression: {exc}") from exc
            if missing := [name for name in groups_of[kind] if name not in groups]:
                raise ValueError(f"patterns: {kind} {pattern!r} lacks the group {missing[0]!r}")

    @cached_property
    def compiled(self) -> Mapping[Kind, tuple[re.Pattern[str], ...]]:
        """The patterns of each kind, in order."""
        of = {kind: [pattern for of_kind, pattern in self.patterns if of_kind == kind] for kind in GROUPS}
        return {
            kind: tuple(re.compile(self._expanded(p), re.IGNORECASE) for p in patterns) for kind, patterns in of.items()
        }

    @cached_property
    def relative_patterns(self) -> Sequence[tuple[RelativeKind, re.Pattern[str]]]:
        """The patterns of `Relative`, in order."""
        listed = self.relative.patterns if self.relative else ()
        return [(kind, re.compile(self._expanded(pattern), re.IGNORECASE)) for kind, pattern in listed]

    @cached_property
    def relative_hint(self) -> re.Pattern[str]:
        """A quick test that every text with a relative time passes; most texts have none and fail it."""
        listed = {*self.relative.days, *self.relative.turns} if self.relative else set[str]()
        words = {*listed, *self.weekdays, *self.months, *self.unit_of} if listed else set[str]()
        return re.compile(rf"(?<![a-z])(?:{_alternatives(words)})", re.IGNORECASE)

    @cached_property
    def hint(self) -> re.Pattern[str]:
        """A quick test that every text naming a time passes; most questions name none and fail it."""
        words = {*self.months, *self.weekdays, *self.seasons, *self.unit_of, *self.back}
        return re.compile(rf"[\d一二三四五六七八九十]|{_alternatives(words)}", re.IGNORECASE)

    @cached_property
    def unit_of(self) -> Mapping[str, Unit]:
        """The unit that each word stands for."""
        return {word: unit for unit, words in self.units.items() for word in words}

    def _expanded(self, pattern: str, depth: int = 0) -> str:
        words: dict[str, Iterable[str]] = {
            "months": self.months,
            "weekdays": self.weekdays,
            "seasons": self.seasons,
            "units": self.unit_of,
            "back": self.back,
            "numbers": self.numbers,
        }
        if self.relative:
            words |= {"days": self.relative.days, "turns": self.relative.turns, "counts": self.relative.counts}

        def piece(match: re.Match[str]) -> str:
            name = match[1]
            if name in self.parts and depth < len(self.parts):
                return self._expanded(self.parts[name], depth + 1)
            if name not in words:
                raise ValueError(f"patterns: {{{name}}} is neither a list of words nor one of the parts")
            return _alternatives(words[name])

        return _PLACEHOLDER.sub(piece, pattern)


def _alternatives(words: Iterable[str]) -> str:
    listed = sorted(words, key=len, reverse=True)
    return "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in listed) or "(?!)"
