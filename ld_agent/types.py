"""The records that everything else passes around: frozen, plain, without behaviour that needs a model or a store.

Times are aware UTC datetimes throughout. Input from callers is checked here and nowhere else: times by `utc`, texts by
`checked_text`, names by `checked_name`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from ld_agent.errors import InputError
from ld_agent.passed import NOTHING_PASSED, Passed

LONGEST_NAME = 100
CHANNELS = ("chat", "observe", "import", "tool", "document")
"""Ways by which text reaches the memory, most trusted first: said to the agent by a person; passed in by an
application; imported; written by a tool; taken from a document."""
SAID = frozenset({"chat", "observe", "import"})
"""Channels of what people said, here or elsewhere: what they ask about is answered from it."""
JOINERS = "\u200c\u200d"
"""Invisible marks that join or separate letters and emoji."""
UNNAMABLE = frozenset(("Cc", "Cs", "Zl", "Zp"))  # control characters, surrogates, line and paragraph separators


def utc(at: datetime | str, what: str = "at") -> datetime:
    """Return ``at`` as an aware UTC datetime, parsing ISO 8601 text.

    Raises:
        InputError: a naive datetime, text that is not an ISO 8601 time, or a time outside the years 1 to 9999 in UTC.
    """
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError as exc:
            raise InputError(
                f"{what}={at!r} is not an ISO 8601 time; expected something like 2024-05-01T18:30:00+00:00"
            ) from exc
    if not isinstance(at, datetime):
        raise InputError(f"{what}={at!r} is not a time; give an aware datetime or text like 2024-05-01T18:30:00+00:00")
    if at.utcoffset() is None:
        raise InputError(f"{what}={at.isoformat()} has no time zone; add one, for example {at.isoformat()}+00:00")
    try:
        return at.astimezone(UTC)
    except OverflowError as exc:
        raise InputError(f"{what}={at.isoformat()} is outside the calendar in UTC; give a year from 1 to 9999") from exc


def zoned(at: datetime | str) -> datetime:
    """Return a time as `utc` does, but with its own offset from UTC: whose "yesterday" it is.

    Raises: as `utc`.
    """
    moment = utc(at)
    offset = (datetime.fromisoformat(at) if isinstance(at, str) else at).utcoffset()
    return moment.astimezone(timezone(offset or timedelta()))


def checked_channel(channel: str) -> str:
    """Return a channel unchanged.

    Raises:
        InputError: it is not one of `CHANNELS`.
    """
    if channel not in CHANNELS:
        raise InputError(f"channel={channel!r} is unknown; give one of {', '.join(CHANNELS)}")
    return channel


def least_trusted(channels: Iterable[str]) -> str:
    """The least trusted of some channels; "chat" for none."""
    return CHANNELS[max((CHANNELS.index(channel) for channel in channels), default=0)]


def iso(at: datetime) -> str:
    """Return an aware UTC datetime as ISO 8601 text, fixed width to the microsecond so that text order is time order."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def checked_text(text: str) -> str:
    """Return a text unchanged, except that lone surrogates, which cannot be stored, become "?".

    Raises:
        InputError: not a string, or nothing but white space.
    """
    if not isinstance(text, str):
        raise InputError(f"the utterance is {type(text).__name__}, not text; give a string")
    if not text.strip():
        raise InputError("the utterance is empty; give it some text")
    return text.encode("utf-8", "replace").decode("utf-8")


def checked_name(name: str, what: str = "speaker") -> str:
    """Return a speaker's name as it is stored: NFC, with single blanks, without invisible marks or WhatsApp's "~ " before
    the names of strangers.

    A colon is allowed, because stored names contain them; prompts replace it (`ld_agent.prompts.as_name`).

    Raises:
        InputError: empty, longer than `LONGEST_NAME` characters, or with a line break or another control character.
    """
    clean = cleaned_name(name) if isinstance(name, str) else ""
    if not clean or len(clean) > LONGEST_NAME or any(unicodedata.category(c) in UNNAMABLE for c in clean):
        raise InputError(f"{what} {str(name)[:120]!r} is not a name; give 1 to {LONGEST_NAME} characters on one line")
    return clean


def cleaned_name(name: str) -> str:
    """A name as `checked_name` returns it, unchecked; joiners inside it stay, because scripts and emoji need them."""
    visible = "".join(c for c in name if unicodedata.category(c) != "Cf" or c in JOINERS)
    blanks = "".join(" " if unicodedata.category(c) == "Zs" else c for c in visible)
    parts = [part for part in unicodedata.normalize("NFC", blanks).split(" ") if part.strip(JOINERS)]
    return " ".join(parts).removeprefix("~").strip(" " + JOINERS)


def name_key(name: str) -> str:
    """What the names of one person have in common, however they are written: "Zoë", "ZOË" and "~ zoë" are one."""
    folded = unicodedata.normalize("NFC", cleaned_name(name)).casefold()
    return unicodedata.normalize("NFC", "".join(c for c in folded if c not in JOINERS))


def as_known(name: str, known: Iterable[str]) -> str:
    """A name as somebody of those known is called, if it is the same; else the name itself."""
    key = name_key(name)
    return next((other for other in known if name_key(other) == key), name)


@dataclass(frozen=True, slots=True)
class Utterance:
    """One utterance. ``id`` ("u12") is unique within its conversation and never reused.

    ``channel``: how it reached the memory, one of `CHANNELS`; set when it is stored. ``interrupted``: a reply that was cut
    short. ``utc_offset``: in seconds, of where it was said.
    """

    id: str
    speaker: str
    text: str
    at: datetime
    session: int
    channel: str = "chat"
    interrupted: bool = False
    utc_offset: int = 0

    @property
    def local_at(self) -> datetime:
        """When it was said by the speaker's clock, whose "yesterday" it is."""
        return self.at.astimezone(timezone(timedelta(seconds=self.utc_offset)))


@dataclass(frozen=True, slots=True)
class Session:
    """Consecutive utterances with no gap longer than β. ``number`` counts from 1."""

    number: int
    utterances: tuple[Utterance, ...]

    @property
    def speakers(self) -> tuple[str, ...]:
        """Names in the order in which they first spoke."""
        return tuple(dict.fromkeys(u.speaker for u in self.utterances))


@dataclass(frozen=True, slots=True)
class Record:
    """One memory of a view: for the event view, the paper's (φ(t, o)).

    Attributes:
        id: unique within the conversation and never reused ("m3").
        view: name of the memory mechanism that made it.
        text: the memory itself (the event summary *o*).
        at: time *t* of the session's last utterance.
        session: the session it came from, counted from 1.
        topics: topic set *V*, sorted.
        sources: ids of the utterances it came from.
        fallback: the model's answer was unusable, so the text was extracted from the session.
        pinned: included in every prompt at a person's request.
        channel: the least trusted channel among its sources; set when it is stored.
        said_by: the speakers of its sources, without the agent.
        expires: of what a program stores: when it is removed, unless it is pinned; None: never.
    """

    id: str
    view: str
    text: str
    at: datetime
    session: int
    topics: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    fallback: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    pinned: bool = False
    channel: str = "chat"
    said_by: tuple[str, ...] = ()
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class Recalled:
    """A record with the numbers that recalled it, equations (1)–(3).

    Attributes:
        s_sem: cosine of query and record embedding, in [-1, 1].
        s_top: topic overlap, in [0, 1].
        decay: λ_t, in (0, 1].
        score: s_overall, what the ranking used.
        overlap: the topics that query and record share, sorted.
        terms: further numbers that the scorer used, by name (``hybrid``: s_sent, s_word, s_pass, s_like, s_date, s_new).
    """

    record: Record
    s_sem: float
    s_top: float
    decay: float
    score: float
    overlap: tuple[str, ...] = ()
    terms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trait:
    """One persona fact of one speaker. One that has ended, or was superseded, is kept as history.

    Attributes:
        at, last_at: when it was told first and last.
        source, channel: id of the utterance that revealed it, and its channel; "": the configuration.
        superseded_by: id of the trait that replaced it.
        pinned: included in every prompt while it holds, and never superseded or ended.
        holds_from: when it began; None: unknown, counts as ``at``.
        holds_until: when it ends, as far as is known; None: open.
        ended_by, planned_by: id of the utterance that said that it ended, or on which day to come it will; "": none.
        otherwise_until: until when one that was ended was to hold before that; None: open.
    """

    id: str
    speaker: str
    text: str
    at: datetime
    source: str
    last_at: datetime
    mentions: int = 1
    superseded_by: str | None = None
    pinned: bool = False
    channel: str = "chat"
    holds_from: datetime | None = None
    holds_until: datetime | None = None
    ended_by: str = ""
    planned_by: str = ""
    otherwise_until: datetime | None = None

    @property
    def active(self) -> bool:
        """Whether nothing said has superseded or ended it; a plan stays active after its date."""
        return self.superseded_by is None and not self.ended_by

    def over(self, at: datetime) -> bool:
        """Whether it no longer held at a time."""
        return not self.active if self.holds_until is None else self.holds_until <= at

    def held(self, at: datetime) -> bool:
        """Whether it held at a time, whenever that was told."""
        return (self.holds_from or self.at) <= at and not self.over(at)


def listed(traits: Iterable[Trait], history: bool = False, as_of: datetime | None = None) -> list[Trait]:
    """The traits that held at a time; without one, the active ones, or all with ``history``."""
    return [t for t in traits if (history or t.active if as_of is None else t.held(as_of))]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts of the model calls behind one reply: recall and generation, but not learning."""

    prompt: int = 0
    completion: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.prompt + other.prompt, self.completion + other.completion)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What your own model needs to answer an utterance.

    Attributes:
        messages: ``{"role", "content"}``, the system message first, as chat APIs take them.
        heard: the utterance to answer, as stored.
        recalled, traits, notes: as in `Reply`.
    """

    messages: list[dict[str, str]]
    heard: Utterance
    recalled: tuple[Recalled, ...] = ()
    traits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """Overrides of the config for one reply.

    Attributes:
        max_new_tokens: upper bound of the reply; None: ``modules.generator.max_new_tokens``.
        temperature: 0 is greedy; None: ``modules.generator.temperature``.
        top_p: of the sampling; None: ``modules.generator.top_p``.
        seed: of the sampling; None: each utterance of a conversation has its own.
        instructions: added to the agent's own instructions, cut to a quarter of the model's window.
        passed: what a client sent besides text.
    """

    max_new_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    instructions: str = ""
    passed: Passed = NOTHING_PASSED


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of one turn: the text, and everything needed to explain it.

    Attributes:
        text: the generated reply.
        utterance: the agent's utterance as stored (with teacher forcing, the recorded reply); None: the reply was
            interrupted before its first word, or calls a tool.
        heard: the user's utterance that was answered.
        recalled: the memories in the prompt, best first; empty: no relevant memory.
        traits: the traits in the prompt, by speaker.
        notes: warnings for the caller (context that did not fit, an interrupted reply).
        timings_ms: milliseconds by step, from storing what was heard to storing the reply; without the wait for other callers.
        quotes: utterances of recalled sessions quoted in the prompt, the most relevant last.
        explanations: what each view can say about its recall beyond the numbers (rounds, keywords, selections).
        finish: "stop" (the model ended the reply) or "length" (``max_new_tokens`` did).
        prompt: the prompt as sent to the model, one ``{"role", "content"}`` per message.
        calls: calls of the client's tools; ``text`` then goes with them, and nothing of it is stored.
    """

    text: str
    utterance: Utterance | None
    heard: Utterance
    recalled: tuple[Recalled, ...] = ()
    traits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    tokens: Tokens = Tokens()
    explanations: Mapping[str, Any] = field(default_factory=dict)
    quotes: tuple[Utterance, ...] = ()
    finish: str = "stop"
    prompt: tuple[Mapping[str, str], ...] = ()
    calls: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class PersonSummary:
    """How much is known about one person: a row in a list of people."""

    id: str
    sessions: int
    utterances: int
    records: int
    traits: int
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """A thread of a person, as a list shows it; ``name`` is empty for the one without a name."""

    name: str
    utterances: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One session, as a timeline shows it; ``start`` and ``end`` are the times of its first and last utterance."""

    number: int
    thread: str
    closed: bool
    utterances: int
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Change:
    """One manual change of a record or trait. ``before`` is its earlier text, empty once it was forgotten.

    ``action``: ``edit``, ``pin``, ``unpin`` or ``forget``.
    """

    target: str
    action: str
    at: datetime
    before: str = ""
