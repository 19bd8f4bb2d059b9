"""How a language names times, ``dates.yaml``: its words for months, weekdays and units, and patterns made of them.

Knows no calendar: `ld_agent.memory.dates` computes the times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, model_validator

from ld_agent.languages.relative import RELATIVE_GROUPS, Relative, RelativeKind

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
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


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
        of = {kind: [pattern for of_kind, pattern in self.patterns if of_kind == kind] for kind in KINDS}
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


KINDS: Sequence[Kind] = get_args(Kind)


def _alternatives(words: Iterable[str]) -> str:
    listed = sorted(words, key=len, reverse=True)
    return "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in listed) or "(?!)"
