"""The questions of ``ld-agent eval retrieval`` and the memories they are asked of.

LoCoMo is asked about each conversation separately. The project's own questions, and utterances of every episode's last
session where a corpus has no questions, are the queries to a single memory of all episodes. Reads no file and recalls
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

from ld_agent.datasets import Episode, Turn
from ld_agent.datasets.records import Record as JsonRecord
from ld_agent.errors import InputError
from ld_agent.evaluation.tasks.question_data import ADVERSARIAL, Questioned, of_locomo
from ld_agent.evaluation.tasks.spoken_answers import contains
from ld_agent.types import Session, Utterance, checked_text

ONE_MEMORY = "all episodes"
LOOKED_THROUGH = 16
"""Records recalled from a memory of all episodes: few enough that candidate selection is measured too."""
_STEP = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the numbers of the sessions that answer it."""

    text: str
    sessions: frozenset[int]
    category: str


@dataclass(frozen=True, slots=True)
class Case:
    """A memory and the questions asked of it.

    Attributes:
        sessions: the sessions, numbered as in the corpus.
        summaries: the corpus's summaries by session; "" where it has none.
        recalled: number of records to recall; None: all.
    """

    id: str
    agent: str
    sessions: tuple[Session, ...]
    summaries: Mapping[int, str]
    questions: tuple[Asked, ...]
    recalled: int | None = None


def own_questions(episode: Episode, sample: JsonRecord) -> Case:
    """Return the questions with evidence of a LoCoMo sample.

    Args:
        sample: the record from which the episode was read.
    """
    sessions = tuple(
        Session(number, tuple(_said(turn, place, number) for place, turn in enumerate(turns, 1)))
        for number, turns in episode.by_session().items()
    )
    given = sample.record("session_summary").values if "session_summary" in sample else {}
    summaries = {session.number: str(given.get(f"session_{session.number}_summary") or "") for session in sessions}
    questions = tuple(
        Asked(q.text, frozenset(episode.turns[place].session or 1 for place in q.evidence), q.category)
        for q in of_locomo(episode, sample)
        if q.evidence and q.category != ADVERSARIAL
    )
    return Case(episode.id, episode.agent, sessions, summaries, questions)


def last_sessions(episodes: Sequence[Episode]) -> Case:
    """Build one memory of all sessions except each episode's last, whose utterances are the queries.

    Each utterance to the agent in a last session, together with the one before it, must find the sessions of the same
    episode. Sessions are ordered by their ends; where they overlap, the times of the later one are shifted by the minimum
    that preserves the order. A question's category is the number of earlier sessions of its episode.

    """
    by_session = [(episode, list(episode.by_session().values())) for episode in episodes]
    spoken = [(place, episode, turns[:-1], turns[-1]) for place, (episode, turns) in enumerate(by_session) if turns[1:]]
    if not spoken:
        raise InputError(
            "no episode has at least two numbered sessions; give a corpus with several, such as Multi-Session Chat"
        )
    sessions, of_episode = _in_one_memory([(turns, place) for place, _, earlier, _ in spoken for turns in earlier])
    questions = tuple(
        Asked(f"{before.text}\n{turn.text}", frozenset(s.number for s in of_episode[place]), f"{len(earlier)} sessions")
        for place, episode, earlier, last in spoken
        for before, turn in pairwise(last)
        if turn.speaker != episode.agent
    )
    return Case(ONE_MEMORY, episodes[0].agent, sessions, {}, questions, LOOKED_THROUGH)


def stated_questions(conversations: Sequence[Questioned]) -> Case:
    """Build one memory of the sessions of all conversations; their questions with an answer are the queries.

    A question must find a session of its conversation in which one of its answers is said, or any of its sessions if
    none says one word for word.

    """
    said = [(turns, place) for place, one in enumerate(conversations) for turns in one.episode.by_session().values()]
    sessions, of_conversation = _in_one_memory(said)
    questions = []
    for place, one in enumerate(conversations):
        for question in one.questions:
            past = of_conversation[place]
            saying = [s for s in past if any(contains(said.text, question.answers) for said in s.utterances)]
            if question.answers:
                questions.append(Asked(question.text, frozenset(s.number for s in saying or past), question.category))
    if not questions:
        raise InputError("no question has an answer; list some under `answers` (data/README.md shows how)")
    return Case(ONE_MEMORY, conversations[0].episode.agent, sessions, {}, tuple(questions), LOOKED_THROUGH)


def _in_one_memory(
    said: Sequence[tuple[Sequence[Turn], int]],
) -> tuple[tuple[Session, ...], dict[int, list[Session]]]:
    """The sessions of several episodes in the order of their ends, renumbered; and those of each episode.

    Args:
        said: the turns of each session, with the place of its episode.
    """
    ordered = sorted(said, key=lambda s: s[0][-1].at)
    sessions: list[Session] = []
    of_episode: dict[int, list[Session]] = {}
    now = ordered[0][0][0].at - _STEP
    for number, (turns, place) in enumerate(ordered, 1):
        utterances: list[Utterance] = []
        for turn in turns:
            now = max(now + _STEP, turn.at)
            utterances.append(replace(_said(turn, len(utterances) + 1, number), at=now))
        sessions.append(Session(number, tuple(utterances)))
        of_episode.setdefault(place, []).append(sessions[-1])
    return tuple(sessions), of_episode


def _said(turn: Turn, number: int, session: int) -> Utterance:
    return Utterance(f"u{number}", turn.speaker, checked_text(turn.text), turn.at, session)
