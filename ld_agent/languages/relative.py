"""Relative times of a language ("yesterday", "next month"), and how it writes them as dates: ``relative`` in ``dates.yaml``.

Knows no calendar: `ld_agent.memory.when` computes the dates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, field_validator

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


class Relative(BaseModel):
    """The relative times of one language. Words are in lower case.

    Attributes:
        days: how many days ahead a word is: "yesterday" is -1.
        turns: how many periods ahead: "last" is -1, "next" 1.
        counts: numbers in words. Digits and Chinese numerals are read in every language.
        parts_of_day: how a part of the day is written, where it is not as it is said: "tonight" is the evening.
        future, past, unclear: what makes a clause one about what is to come or what has been, and what makes that unsure; for
            times that are said of both ("on Saturday").
        ending: what says in a sentence that something holds until the time that it names.
        clause: what separates clauses.
        ages, reached: words before a number that is an age, or one that was reached then; none: no age is recognized.
        after_age: words that may follow it, beside the end of the clause.
        aged: how an age said years ago is written after it, with ``{age}``, the present one.
        written: for each form, how the time is written by itself and where the pattern's group ``noun`` matched
            ("since …"), with ``{day}``, ``{month}``, ``{month_name}``, ``{year}``, ``{part}`` and ``{season}``.
        month_names: January to December.
        patterns: kind and regular expression, in matching order; case is ignored. They may refer to these words as
            ``{days}``, ``{turns}`` and ``{counts}``, and to what patterns of ``dates.yaml`` may.

    Kinds and their groups, ``?`` if they may be absent; any may have ``noun`` and ``part`` (of the day):

    - ``day``: day
    - ``count``: number, unit, ahead? (counted from now on), planned? (only in a clause about what is to come)
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
    ending: str
    clause: str
    ages: tuple[str, ...] = ()
    reached: tuple[str, ...] = ()
    after_age: tuple[str, ...] = ()
    aged: str = ""
    written: Mapping[Form, tuple[str, str]]
    month_names: tuple[str, ...]
    patterns: tuple[tuple[RelativeKind, str], ...]

    @field_validator("future", "past", "unclear", "ending", "clause")
    @classmethod
    def _is_a_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as exc:
            raise ValueError(f"{pattern!r} is not a regular expression: {exc}") from exc
        return pattern

    @field_validator("written")
    @classmethod
    def _every_form_is_written(cls, written: Mapping[str, object]) -> Mapping[str, object]:
        if missing := [form for form in get_args(Form) if form not in written]:
            raise ValueError(f"lacks the key {missing[0]!r}")
        return written

    def age(self, year: int) -> re.Pattern[str]:
        """Matches an age that somebody had (group ``age``) or reached (``reached``) when it was told, in a year."""
        ages, reached, after = ("|".join(map(re.escape, words)) for words in (self.ages, self.reached, self.after_age))
        number, end = r"\d{1,2}|[^\W\d_]+(?:[ -][^\W\d_]+)??", rf"[.!?;)](?!\d)|$| (?:{after})\b"
        had = rf"(?:{ages}) (?P<age>{number})(?=,|{end})"
        return re.compile(
            rf"\b(?:{had}|(?:{reached}) (?P<reached>{number})(?=[^.,;!?]* {year}\b|{end}))", re.IGNORECASE
        )

    def as_written(self, form: Form, day: date, *, noun: bool = False, part: str = "", season: str = "") -> str:
        """How the language writes a time that begins on a day."""
        words = {"day": day.day, "month": day.month, "month_name": self.month_names[day.month - 1], "year": day.year}
        return self.written[form][noun].format(**words, part=part, season=season)
