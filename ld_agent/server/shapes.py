"""The JSON shapes of records, traits, utterances and recalls, the same wherever they appear."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Shape(BaseModel):
    """The shape of a record of the package, whose fields have the same names."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def of(cls, record: Any) -> Self:
        return cls.model_validate(record)


class UtteranceShape(Shape):
    """Something that was said. ``interrupted``: a reply that was cut short."""

    id: str
    session: int
    speaker: str
    text: str
    at: datetime
    channel: str
    interrupted: bool


class RecordShape(Shape):
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


class RecalledShape(RecordShape):
    """A memory with the numbers that recalled it; ``terms`` are those of the configured scorer."""

    s_sem: float
    s_top: float
    decay: float
    score: float
    overlap: list[str]
    terms: dict[str, float]

    @classmethod
    def of(cls, hit: Any) -> Self:
        return cls(
            **RecordShape.of(hit.record).model_dump(),
            s_sem=hit.s_sem,
            s_top=hit.s_top,
            decay=hit.decay,
            score=hit.score,
            overlap=list(hit.overlap),
            terms=dict(hit.terms),
        )


MaybeId = Annotated[str | None, BeforeValidator(lambda given: given or None)]


class TraitShape(Shape):
    """One fact about one speaker. One that was superseded or has ended stays as history.

    ``at``: when it was told first. ``holds_from``: when it began; null counts as ``at``. ``holds_until``: when it ends; null is
    open. ``ended_by``: the utterance that said that it ended. ``superseded_by``: the trait that replaced it.
    """

    id: str
    speaker: str
    text: str
    at: datetime
    last_at: datetime
    mentions: int
    source: MaybeId
    superseded_by: str | None
    pinned: bool
    channel: str
    holds_from: datetime | None
    holds_until: datetime | None
    ended_by: MaybeId


def rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in values.items()}
