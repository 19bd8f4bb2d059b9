"""What a loader gives: recorded conversations, dated, with their speakers. Knows no corpus and no agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ld_agent.errors import DataFileError

Report = Callable[[DataFileError], None]


@dataclass(frozen=True, slots=True)
class Turn:
    """One recorded utterance.

    Attributes:
        at: an aware UTC datetime.
        session: number of the session in the corpus, from 1; None: the corpus draws no borders, the gap β does.
        traits: persona facts that annotators found in this utterance; None: the corpus has no such annotation.
    """

    speaker: str
    text: str
    at: datetime
    session: int | None = None
    traits: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """One recorded conversation between the same named speakers, oldest utterance first.

    Attributes:
        id: the conversation id, unique in its file and the same on every reading.
        agent: the speaker whose part the agent plays.
        personas: persona facts of each speaker given by the corpus.
        source: file and line, for messages ("valid.txt:3"); two readings of one conversation are equal whatever the
            file was called, so it does not take part in comparisons.
    """

    id: str
    agent: str
    turns: tuple[Turn, ...]
    personas: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    source: str = field(default="", compare=False)

    @property
    def speakers(self) -> tuple[str, ...]:
        """Names in the order in which they first spoke."""
        return tuple(dict.fromkeys(turn.speaker for turn in self.turns))


@dataclass(frozen=True, slots=True)
class AnnotatedUtterance:
    """One utterance with the traits that annotators found in it.

    Attributes:
        turn: counts from 1 within the session.
        before: what another speaker said right before it in the session; "" for nothing.
    """

    episode: str
    session: int
    turn: int
    speaker: str
    text: str
    traits: tuple[str, ...]
    before: str = ""


def annotated(
    episode: str, said: Iterable[tuple[int, str, str, tuple[str, ...] | None]]
) -> Iterator[AnnotatedUtterance]:
    """Pair each utterance that has an annotation with what it answers.

    Args:
        said: session, speaker, text and traits of each utterance of an episode, oldest first.
    """
    last, turn = (0, "", ""), 0
    for session, speaker, text, traits in said:
        turn = turn + 1 if session == last[0] else 1
        answers = session == last[0] and speaker != last[1]
        if traits is not None:
            yield AnnotatedUtterance(episode, session, turn, speaker, text, traits, last[2] if answers else "")
        last = (session, speaker, text)


@dataclass(frozen=True, slots=True)
class Loader:
    """One corpus format.

    Attributes:
        recognises: whether a parsed value has this format's shape: the first readable line of a JSON-lines file, or
            the whole of a JSON document.
        read: the episodes of a file, one at a time and no further than asked for. A bad record goes to the report,
            which raises or returns; when it returns, reading goes on with the next record.
    """

    recognises: Callable[[Any], bool]
    read: Callable[[Path, Report], Iterator[Episode]]
