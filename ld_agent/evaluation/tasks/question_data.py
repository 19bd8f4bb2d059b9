"""Questions about conversations: the project's own JSON lines with ``questions``, and LoCoMo; and whether a text contains an
accepted answer. Knows no agent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from ld_agent.datasets import format_of, load_episodes
from ld_agent.datasets.base import Episode
from ld_agent.datasets.records import Record, built, json_lines, json_list
from ld_agent.errors import InputError
from ld_agent.text import EAST_ASIAN


def contains(text: str, answers: Sequence[str]) -> bool:
    """Whether a text contains one of the accepted answers; a word may continue after it, as in a plural.

    An answer begins where a word begins; a Chinese, Japanese or Korean one anywhere, because spaces do not separate
    words there.
    """
    plain = _plain(text)
    return any(re.search(f"{_begins(a)}{re.escape(_plain(a))}", plain) for a in answers if a.strip())


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace("’", "'").split())


def _begins(answer: str) -> str:
    if EAST_ASIAN.match(answer.lstrip()):
        return ""
    return r"(?<![^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])"  # Latin letters within Chinese begin a word


LATER = timedelta(weeks=3)
"""How long after a LoCoMo conversation its questions are asked."""
ADVERSARIAL = "adversarial"
LOCOMO = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: ADVERSARIAL}
_DIALOGUE_ID = re.compile(r"D\s*+:?\s*+(\d+)\s*+:\s*+(\d+)", re.IGNORECASE)
"""Names an utterance of LoCoMo: its session, and its place there. One text of evidence may name several."""
_KEYS = ("speaker", "text", "at", "answers", "category")


@dataclass(frozen=True, slots=True)
class Question:
    """A question asked after a conversation.

    Attributes:
        key: unique in the data.
        answers: accepted answers; (): it was never said.
        evidence: indices of the episode's turns that contain the answer, according to the corpus.
    """

    key: str
    speaker: str
    text: str
    at: datetime
    answers: tuple[str, ...]
    category: str
    evidence: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Questioned:
    """A conversation and the questions asked after it."""

    episode: Episode
    questions: tuple[Question, ...]


def load_questions(path: Path, limit: int | None = None) -> list[Questioned]:
    """Return the conversations of a file that have questions."""
    kind = format_of(path)
    if kind not in ("jsonl", "locomo"):
        raise InputError(f"{path} ({kind}) has no questions; give conversations with questions, or LoCoMo")
    read = _stated if kind == "jsonl" else of_locomo
    asked = built(with_records(path, kind, limit), lambda pair: Questioned(pair[0], read(*pair)))
    questioned = [one for one in asked if one.questions]
    if not questioned:
        raise InputError(f'{path} has no questions; add "questions" to its conversations (data/README.md shows how)')
    return questioned


def with_records(path: Path, kind: str, limit: int | None) -> Iterator[tuple[Episode, Record]]:
    """The conversations of a JSON-lines or LoCoMo file, each with the record that it was read from."""
    episodes = {episode.source: episode for episode in load_episodes(path, kind, limit=limit)}
    records = (json_lines if kind == "jsonl" else json_list)(path)
    whole = (record for record in records if record.source in episodes)
    return ((episodes[record.source], record) for record in islice(whole, len(episodes)))


def _stated(episode: Episode, record: Record) -> tuple[Question, ...]:
    questions = []
    for number, one in enumerate(record.records("questions") if "questions" in record else ()):
        one.refuse_unknown(_KEYS)
        at = one.time("at")
        if at < episode.turns[-1].at:
            raise one.error("is asked before the conversation's last utterance; choose a later time")
        speaker = one.text("speaker")
        if speaker == episode.agent:
            raise one.error(f"{speaker!r} is the agent, which answers and does not ask; name another speaker")
        answers = tuple(one.texts("answers")) if "answers" in one else ()
        category = one.text("category") if "category" in one else ("told" if answers else "never told")
        questions.append(Question(f"{episode.id}/{number}", speaker, one.text("text"), at, answers, category))
    return tuple(questions)


def of_locomo(episode: Episode, record: Record) -> tuple[Question, ...]:
    """Return the questions of a LoCoMo sample: speaker A asks; adversarial questions count as never said."""
    asker = next(name for name in episode.speakers if name != episode.agent)
    at = episode.turns[-1].at + LATER
    places = _places(episode, record.record("conversation"))
    questions = []
    for number, one in enumerate(record.records("qa") if "qa" in record else ()):
        category = LOCOMO.get(one.integer("category"), "other")
        answer = one.values.get("answer")
        answers = () if category == ADVERSARIAL or answer is None else (str(answer),)
        named = " ".join(map(str, one.items("evidence"))) if "evidence" in one else ""
        evidence = frozenset(places[i] for i in _dialogue_ids(named) if i in places)
        questions.append(
            Question(f"{episode.id}/{number}", asker, one.text("question"), at, answers, category, evidence)
        )
    return tuple(questions)


def _places(episode: Episode, conversation: Record) -> dict[tuple[int, int], int]:
    """The index of every ``dia_id`` among the turns, in the loader's order."""
    said = [utterance for number in episode.by_session() for utterance in conversation.records(f"session_{number}")]
    return {i: place for place, u in enumerate(said) for i in _dialogue_ids(str(u.values.get("dia_id")))}


def _dialogue_ids(text: str) -> list[tuple[int, int]]:
    return [(int(session), int(place)) for session, place in _DIALOGUE_ID.findall(text)]
