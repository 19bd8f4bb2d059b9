"""What the sentences of an utterance do: tell of their speaker, only ask, or deny knowing. Pure; knows no model."""

from __future__ import annotations

from collections.abc import Sequence

from ld_agent.languages.reading import Reading
from ld_agent.text import SENTENCE_END

ASKS = ("?", "？")


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, line by line."""
    return [s.strip() for line in text.split("\n") for s in SENTENCE_END.split(line) if s.strip()]


def asks(sentence: str) -> bool:
    """Whether a text ends with a question."""
    return sentence.rstrip().endswith(ASKS)


def speaks_of_self(sentence: str, reading: Reading) -> bool:
    """Whether a sentence says something about its speaker; a question about the other person does not."""
    rest = reading.pattern("saying").sub(" ", sentence).strip(" \"“'(-")
    me = reading.pattern("first_person")
    if asks(sentence) and reading.pattern("second_person").search(rest) and not me.match(rest):
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
    me, you = map(reading.pattern, ("first_person", "second_person"))
    return any(asks(one) and (me.search(one) or not you.search(one)) for one in sentences_of(text))


def stated(lines: Sequence[tuple[str, str]], reading: Reading) -> list[tuple[str, str]]:
    """(speaker, sentence) of what people state: not their questions, unless about themselves, nor what is about "you" alone."""
    you = reading.pattern("second_person")
    return [
        (speaker, sentence)
        for speaker, text in lines
        for sentence in sentences_of(text)
        if speaks_of_self(sentence, reading) or not (asks(sentence) or you.search(sentence))
    ]


def says_unknown(reply: str, reading: Reading) -> bool:
    """Whether a reply says that something is not known: "I don't think you've told me that."."""
    return reading.pattern("not_knowing").search(reply) is not None
