"""What a loader returns: dated conversations with their speakers. Independent of any corpus or agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Turn:
    """One recorded utterance.

    Attributes:
        at: an aware UTC datetime.
        session: session number in the corpus, from 1; None: the corpus has no session boundaries and β sets them.
        traits: persona facts annotated in this utterance; None: the corpus has no such annotation.
        answers: index in the episode of the turn that this one answers; None: the corpus does not say.
    """

    speaker: str
    text: str
    at: datetime
    session: int | None = None
    traits: tuple[str, ...] | None = None
    answers: int | None = None


@dataclass(frozen=True, slots=True)
class AnnotatedMemory:
    """The annotated memory of a conversation up to a point.

    Attributes:
        at: the time of the last utterance it covers.
        facts: by speaker.
    """

    at: datetime
    facts: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Episode:
    """One recorded conversation between the same named speakers, oldest utterance first.

    Attributes:
        id: the conversation id, unique in its file and stable across reads.
        agent: the speaker that the agent plays.
        personas: persona facts by speaker, as given by the corpus.
        memories: the annotated memory after each session, as given by the corpus; see `golden_memories`.
        source: file and line, for messages ("valid.txt:3"). Excluded from comparisons, so that a conversation equals
            itself whatever its file is called.
        answer_only: the last turn is the only reply to learn or to score; other turns of the agent are context.
    """

    id: str
    agent: str
    turns: tuple[Turn, ...]
    personas: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    source: str = field(default="", compare=False)
    memories: tuple[AnnotatedMemory, ...] = ()
    answer_only: bool = False

    @property
    def speakers(self) -> tuple[str, ...]:
        """Speakers in order of first appearance."""
        return tuple(dict.fromkeys(turn.speaker for turn in self.turns))

    def by_session(self) -> dict[int, list[Turn]]:
        """Return the turns of each session in order of their numbers; turns without a number are of session 1."""
        sessions: dict[int, list[Turn]] = {}
        for turn in self.turns:
            sessions.setdefault(turn.session or 1, []).append(turn)
        return dict(sorted(sessions.items()))


def golden_memories(episode: Episode) -> tuple[AnnotatedMemory, ...]:
    """The annotated memory after each session: the corpus's, or else the traits of all utterances up to there."""
    if episode.memories or all(turn.traits is None for turn in episode.turns):
        return episode.memories
    memories, facts = [], dict[str, dict[str, None]]()
    for turn, following in zip_longest(episode.turns, episode.turns[1:]):
        facts.setdefault(turn.speaker, {}).update(dict.fromkeys(turn.traits or ()))
        if following is None or following.session != turn.session:
            known = {speaker: tuple(traits) for speaker, traits in facts.items() if traits}
            memories.append(AnnotatedMemory(turn.at, known))
    return tuple(memories)


@dataclass(frozen=True, slots=True)
class AnnotatedUtterance:
    """One utterance with its annotated traits.

    Attributes:
        turn: counts from 1 within the session.
        before: the utterance right before it in the session, if by another speaker; otherwise "".
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
    """Pair each annotated utterance with the utterance it answers.

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
        recognises: whether a parsed value has this format: the first readable line of a JSON-lines file, or a whole JSON
            document.
        read: yields the episodes of a file lazily; `records.reporting` decides about bad records.
    """

    recognises: Callable[[Any], bool]
    read: Callable[[Path], Iterator[Episode]]
