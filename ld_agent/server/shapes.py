"""The JSON shapes of records, traits, utterances and recalls, the same wherever they appear."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pydantic import BaseModel

from ld_agent.types import Recalled, Record, Trait, Utterance


class UtteranceShape(BaseModel):
    """Something that was said. ``interrupted``: a reply that was cut short."""

    id: str
    session: int
    speaker: str
    text: str
    at: datetime
    channel: str
    interrupted: bool

    @classmethod
    def of(cls, said: Utterance) -> UtteranceShape:
        return cls(id=said.id, session=said.session, speaker=said.speaker, text=said.text, at=said.at,
                   channel=said.channel, interrupted=said.interrupted)  # fmt: skip


class RecordShape(BaseModel):
    """One memory.

    ``fallback``: the model's answer was unusable, and the text was extracted from the session. ``channel``: the least trusted
    one of all it was made from. ``said_by``: who said that, without the agent.
    """

    id: str
    view: str
    text: str
    at: datetime
    session: int
    topics: list[str]
    sources: list[str]
    fallback: bool
    pinned: bool
    channel: str
    said_by: list[str]

    @classmethod
    def of(cls, record: Record) -> RecordShape:
        return cls(
            id=record.id, view=record.view, text=record.text, at=record.at, session=record.session,
            topics=list(record.topics), sources=list(record.sources), fallback=record.fallback, pinned=record.pinned,
            channel=record.channel, said_by=list(record.said_by),
        )  # fmt: skip


class RecalledShape(RecordShape):
    """A memory with the numbers that recalled it; ``terms`` are those of the configured scorer."""

    s_sem: float
    s_top: float
    decay: float
    score: float
    overlap: list[str]
    terms: dict[str, float]

    @classmethod
    def of_recalled(cls, hit: Recalled) -> RecalledShape:
        return cls(
            **RecordShape.of(hit.record).model_dump(),
            s_sem=hit.s_sem, s_top=hit.s_top, decay=hit.decay, score=hit.score, overlap=list(hit.overlap),
            terms=dict(hit.terms),
        )  # fmt: skip


class TraitShape(BaseModel):
    """One fact about one speaker. A superseded one stays as history, with the id of what replaced it."""

    id: str
    speaker: str
    text: str
    at: datetime
    last_at: datetime
    mentions: int
    source: str | None
    superseded_by: str | None
    pinned: bool
    channel: str

    @classmethod
    def of(cls, trait: Trait) -> TraitShape:
        return cls(
            id=trait.id, speaker=trait.speaker, text=trait.text, at=trait.at, last_at=trait.last_at,
            mentions=trait.mentions, source=trait.source or None, superseded_by=trait.superseded_by, pinned=trait.pinned,
            channel=trait.channel,
        )  # fmt: skip


def rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in values.items()}
