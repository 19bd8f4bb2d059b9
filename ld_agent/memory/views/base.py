"""What a memory mechanism is to the agent: a view that takes sessions in and recalls what it made of them.

The methods are steps (`ld_agent.steps`): a view that needs the model yields requests, one that does not just returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from ld_agent.config import MemorySection
from ld_agent.memory.encoder import SentenceEncoder, Vectors
from ld_agent.memory.topics import TopicExtractor
from ld_agent.modules.base import Models
from ld_agent.modules.summarizer import Summarizer
from ld_agent.steps import Steps
from ld_agent.storage.sqlite import Store
from ld_agent.types import Recalled, Session


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for.

    Attributes:
        vector: (dimension,) unit vector of the text.
        topics: V_q, sorted.
        at: nothing younger than this is recalled.
    """

    text: str
    vector: Vectors
    topics: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class Parts:
    """What a view may be made from: the parts it shares with the rest of one conversation.

    ``models`` makes the requests of views that ask a model of their own (module ``memory``); ``agent`` is the agent's name.
    ``waits``: more sessions will end and give another occasion for what failed; not so in a rebuild.
    """

    store: Store
    key: int
    encoder: SentenceEncoder
    topics: TopicExtractor
    summarizer: Summarizer
    settings: MemorySection
    models: Models
    agent: str
    waits: bool = True


class View(Protocol):
    """One memory mechanism of one conversation."""

    @property
    def name(self) -> str: ...

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        """Take in closed sessions, oldest first, and keep what is to be remembered of them.

        Each session is stored as digested together with its records, so that it is taken in once whatever happens.
        """
        ...

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        """The records that matter to a query, best first; none: no relevant memory."""
        ...


@runtime_checkable
class Observing(Protocol):
    """A view that takes the running session in too, utterance by utterance, after each turn."""

    @property
    def decides(self) -> bool:
        """Whether the reply's call shall also decide if the answered utterance is worth remembering."""
        ...

    def observe(self, session: Session, verdicts: Mapping[str, bool]) -> Steps[None]:
        """Take in what was said in the running session and not taken in yet.

        Args:
            session: the running session so far.
            verdicts: by utterance id, whether it is worth remembering, where the reply's call has said so.
        """
        ...


@runtime_checkable
class Guiding(Protocol):
    """A view that tells the generator how to use what it recalled."""

    def guidance(self, recalled: Sequence[Recalled]) -> Guidance:
        """What to say in a prompt that has these memories."""
        ...


@runtime_checkable
class Explaining(Protocol):
    """A view whose recall has more to tell than the numbers of what it found."""

    @property
    def explanation(self) -> Mapping[str, Any]:
        """How the last recall came about, as plain values that JSON can hold; empty: nothing to tell."""
        ...


@runtime_checkable
class Noting(Protocol):
    """A view whose recall may have had to leave something out."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the last recall left out, in words; empty: nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Guidance:
    """What stands in the reply's prompt beside the memories: steps to follow, and examples where there is room for them."""

    steps: str = ""
    examples: tuple[str, ...] = ()
