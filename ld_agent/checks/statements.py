"""What the sentences of an utterance do: tell of their speaker or of somebody whom they name, ask, ask to forget, or deny
knowing. Pure; knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ld_agent.languages.reading import Reading
from ld_agent.text import LONGEST_READ, SENTENCE_END, words_of
from ld_agent.types import Utterance

ASKS = ("?", "？")
COMMAS = str.maketrans("，；;", ",,,")
SHORT = 3
"""Words of a clause that claims nothing: "Sorry, I don't know."."""
NAME_END = r"(?![^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])"
"""No letter follows, except in languages without spaces, or whose particles follow a name directly."""
_ADDRESSED = r"(?!\s*(?:[,.!?;:，。！？]|$))"
"""Does not follow a name in "Thanks, Melanie!"."""
_BORDERS = ",.!?:;，。！？"
"""One of these, or nothing, stands before a name that addresses."""
_TELLS, _LONGER = re.compile(r"['’]s\b|\w"), re.compile(r"\s{1,3}[A-Z]")
"""What follows a name that does not address ("Ben's", "小雨养了"), and one that is part of a longer one."""


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, line by line."""
    return [s.strip() for line in text.split("\n") for s in SENTENCE_END.split(line) if s.strip()]


def asks(sentence: str) -> bool:
    """Whether a text ends with a question."""
    return sentence.rstrip().endswith(ASKS)


def questions(text: str) -> str:
    """The questions of an utterance."""
    return " ".join(sentence for sentence in SENTENCE_END.split(text) if asks(sentence))


def speaks_of_self(sentence: str, reading: Reading) -> bool:
    """Whether a sentence says something about its speaker; a question about the other person does not."""
    rest = reading.patterns["saying"].sub(" ", sentence).strip(" \"“'(-")
    me = reading.patterns["first_person"]
    if asks(sentence) and reading.patterns["second_person"].search(rest) and not me.match(rest):
        return False
    return me.search(rest) is not None


def only_asks(text: str, reading: Reading) -> bool:
    """Whether a text consists of questions that say nothing about whoever asks them."""
    sentences = sentences_of(text)
    return bool(sentences) and all(asks(s) and not speaks_of_self(s, reading) for s in sentences)


def asks_for_facts(text: str, reading: Reading) -> bool:
    """Whether an utterance asks about something else than the hearer alone: "Is the sea salty?", "Do you recall my name?".

    The same question has the same answer, however often it is asked.
    """
    me, you = reading.patterns["first_person"], reading.patterns["second_person"]
    return any(asks(one) and (me.search(one) or not you.search(one)) for one in sentences_of(text))


def stated(lines: Sequence[tuple[str, str]], reading: Reading) -> list[tuple[str, str]]:
    """(speaker, sentence) of what people state: not their questions, unless about themselves, nor what is about "you" alone."""
    you = reading.patterns["second_person"]
    return [
        (speaker, sentence)
        for speaker, text in lines
        for sentence in sentences_of(text)
        if speaks_of_self(sentence, reading) or not (asks(sentence) or you.search(sentence))
    ]


def says_unknown(reply: str, reading: Reading) -> bool:
    """Whether a reply says that something is not known: "I don't think you've told me that."."""
    return reading.patterns["not_knowing"].search(reply) is not None


def only_denies(reply: str, reading: Reading) -> bool:
    """Whether a reply says that something is not known, and nothing else ("I don't know, but I think it's a Rolex.")."""
    clauses = [clause for sentence in sentences_of(reply) for clause in sentence.translate(COMMAS).split(",")]
    return says_unknown(reply, reading) and all(
        says_unknown(clause, reading) or asks(clause) or len(words_of(clause)) <= SHORT for clause in clauses
    )


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """A request to forget something.

    Attributes:
        sentence: the sentence of the utterance that asks.
        what: what is to be forgotten; "": what was said last.
    """

    sentence: str
    what: str


def forget_request(text: str, reading: Reading) -> ForgetRequest | None:
    """The first request of an utterance to forget something, if there is one."""
    if len(text) > 2 * LONGEST_READ:  # a request begins a long text, or ends it
        text = f"{text[:LONGEST_READ]}\n{text[-LONGEST_READ:]}"
    for sentence in sentences_of(text):
        if (what := reading.asked_to_forget(sentence)) is not None:
            return ForgetRequest(sentence, what)
    return None


def asked_about(question: str, speakers: Iterable[str], reading: Reading) -> str:
    """The only speaker whom a question names; "": it names several or none, or says "I" or "you"."""
    named = {name for name in set(speakers) if name and occurs(name, question)}
    return named.pop() if len(named) == 1 and not _of_us(question, reading) else ""


def asks_of(people: Iterable[str], text: str, reading: Reading) -> bool:
    """Whether a text asks about people by name, and about neither whoever asks nor the hearer. A name that begins a sentence or
    follows a comma addresses; one before another capital is part of a longer name ("Ben Affleck").
    """
    if not asks(text) or _of_us(text, reading):
        return False
    mentions = (match for person in people if person for match in re.finditer(_pattern(person), text))
    return any(
        not _LONGER.match(text, match.end())
        and (_TELLS.match(text, match.end()) or text[: match.start()].rstrip()[-1:] not in ("", *_BORDERS))
        for match in mentions
    )


def _of_us(text: str, reading: Reading) -> bool:
    """Whether a text says "I" or "you"."""
    return any(reading.patterns[person].search(text) for person in ("first_person", "second_person"))


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
