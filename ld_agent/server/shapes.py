"""The JSON shapes of what is remembered, and the requests and responses of the memory API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ld_agent.types import Change, PersonSummary, Recalled, SessionSummary, ThreadSummary


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

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, hit: Any) -> Any:
        """What was recalled as one object, of its record and its numbers."""
        if not isinstance(hit, Recalled):
            return hit
        numbers = {name: getattr(hit, name) for name in ("s_sem", "s_top", "decay", "score", "overlap", "terms")}
        return RecordShape.of(hit.record).model_dump() | numbers


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


# ---- the memory API


def _written(at: object) -> object:
    """A time unchanged; a number is rejected, because pydantic would guess between seconds and milliseconds."""
    if isinstance(at, int | float) or (isinstance(at, str) and at.strip().lstrip("+-").replace(".", "").isdigit()):
        raise ValueError("give a time such as 2024-05-01T18:30:00+00:00")
    return at


When = Annotated[AwareDatetime, BeforeValidator(_written)]
Text = Annotated[str, Field(min_length=1, max_length=200_000, pattern=r"\S")]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"\S")]
Thread = Annotated[str, Field(max_length=200, description="The thread's name; empty: the one without a name.")]


class PeoplePage(BaseModel):
    """``next``: give it as ``after`` for the next page; null: this is the last."""

    people: list[PersonSummary]
    next: str | None


class ThreadList(BaseModel):
    threads: list[ThreadSummary]


class SessionPage(BaseModel):
    """The latest first. ``next``: give it as ``before`` for the next page; null: this is the last."""

    sessions: list[SessionSummary]
    next: int | None


class SessionDetail(BaseModel):
    number: int
    utterances: list[UtteranceShape]
    records: list[RecordShape]


class RecordPage(BaseModel):
    """In the order of storing. ``next``: give it as ``after`` for the next page; null: this is the last."""

    records: list[RecordShape]
    next: str | None


class TraitList(BaseModel):
    traits: list[TraitShape]


class ChangeList(BaseModel):
    changes: list[Change]


class RecallList(BaseModel):
    """Best first; empty: no relevant memory."""

    recalled: list[RecalledShape]


class PromptRequest(BaseModel):
    text: Text
    thread: Thread = ""
    speaker: Name | None = None
    at: When | None = None


class PromptShape(BaseModel):
    """The prompt for a model of your own; store its reply with ``observe``, under the name ``agent``."""

    messages: list[dict[str, str]]
    agent: str
    heard: UtteranceShape
    recalled: list[RecalledShape]
    traits: dict[str, list[str]]
    notes: list[str]


class Said(BaseModel):
    """Something that was said. ``speaker``: null is the person, under the configured name.

    ``channel``: how you received it; only the agent's replies count as said
    in the chat.
    """

    text: Text
    speaker: Name | None = None
    at: When | None = None
    thread: Thread = ""
    channel: Literal["observe", "import", "tool", "document"] = "observe"


class ObserveRequest(BaseModel):
    utterances: Annotated[list[Said], Field(min_length=1, max_length=1000)]
    end_session: bool = False


class Observed(BaseModel):
    utterances: list[UtteranceShape]


class MemoryChange(BaseModel):
    """What to change of a record, trait or utterance."""

    text: Text | None = None
    pinned: bool | None = None


class Done(BaseModel):
    done: bool = True


class Imported(BaseModel):
    person: str
    counts: dict[str, int]
