"""Questions that name whom they are about, "What does Melanie play?", and what tells something of that person.

What another speaker said about themselves is no answer to such a question. Pure; knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ld_agent.languages.reading import Reading
from ld_agent.text import questions
from ld_agent.types import Utterance

NAME_END = r"(?![^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])"
"""No letter follows, except in languages without spaces, or whose particles follow a name directly."""
_ADDRESSED = r"(?!\s*(?:[,.!?;:，。！？]|$))"
"""Does not follow a name in "Thanks, Melanie!"."""


def asked_about(question: str, speakers: Iterable[str], reading: Reading) -> str:
    """The only speaker whom a question names; "": it names several or none, or says "I" or "you"."""
    named = {name for name in set(speakers) if name and occurs(name, question)}
    of_us = any(reading.pattern(person).search(question) for person in ("first_person", "second_person"))
    if len(named) != 1 or of_us:
        return ""
    return named.pop()


def occurs(name: str, text: str) -> bool:
    """Whether a text contains a name, not only as a part of a longer one."""
    return re.search(_pattern(name), text) is not None


def names(person: str, text: str) -> bool:
    """Whether a text says something about a person by name; addressing them is not enough."""
    return re.search(_pattern(person) + _ADDRESSED, text) is not None


def tells_of(person: str, said: Utterance) -> bool:
    """Whether an utterance is a person's own or names them; always, if ``person`` is ""."""
    return not person or said.speaker == person or names(person, said.text)


def part_about(person: str, said: Utterance) -> Utterance | None:
    """An utterance if it tells of a person, or else its questions, which the person may have answered; None: it has
    none."""
    return said if tells_of(person, said) else part_asked(said)


def part_asked(said: Utterance) -> Utterance | None:
    """The questions of an utterance; None: it has none."""
    text = questions(said.text)
    return replace(said, text=text) if text else None


def _pattern(name: str) -> str:
    return rf"(?<![A-Za-z\d]){re.escape(name)}{NAME_END}"
