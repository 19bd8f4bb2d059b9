"""What a memory mechanism is to the agent: a view that takes sessions in and recalls what it made of them.

The methods are steps (`ld_agent.steps`): a view that needs the model yields requests, one that does not just returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from ld_agent.config import MemorySection
from ld_agent.memory.encoder import SentenceEncoder, Vectors
from ld_agent.memory.index.base import Progress, untold
from ld_agent.memory.index.cache import IndexCache
from ld_agent.memory.topics import TopicExtractor
from ld_agent.modules.base import Models
from ld_agent.modules.summarizer import Summarizer
from ld_agent.steps import Steps
from ld_agent.storage.base import Shelf, Store
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
class ViewContext:
    """What a view is made from: the parts that it shares with the rest of one conversation.

    ``models`` makes the requests of views that ask a model of their own (module ``memory``); ``agent`` is the agent's name.
    ``waits``: there will be another occasion for what failed; false in a rebuild. ``indexes``: what views search in.
    ``progress``: is told of long work on them.
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
    indexes: IndexCache = field(default_factory=IndexCache)
    progress: Progress = untold

    def shelf(self, view: str) -> Shelf:
        """The records of a view of this conversation."""
        return self.store.shelf(self.key, view)


@dataclass(frozen=True, slots=True)
class Guidance:
    """What the reply's prompt says besides the memories: steps to follow, and examples where there is room for them."""

    steps: str = ""
    examples: tuple[str, ...] = ()


class View:
    """One memory mechanism of one conversation. A subclass says what it is and overrides what it does.

    Attributes:
        name: how configs name it.
        asks_model: taking a session in costs model calls; if not, any number of sessions is taken in at once.
        rewrites: each record replaces the one before, so that records are versions of one text.
        observes: takes the running session in too, utterance by utterance.
        alone: why it makes no sense with other views; "": it does.
        bound: the key below ``memory`` that says how many records it recalls at most; "": it has none.
    """

    name: ClassVar[str]
    asks_model: ClassVar[bool] = True
    rewrites: ClassVar[bool] = False
    observes: ClassVar[bool] = False
    alone: ClassVar[str] = ""
    bound: ClassVar[str] = ""

    def __init__(self, context: ViewContext) -> None:
        self._context = context
        self._shelf = context.shelf(self.name)

    @classmethod
    def most(cls, settings: MemorySection) -> int | None:
        """How many records it recalls at most; None: no such bound."""
        value: Any = settings
        for part in cls.bound.split(".") if cls.bound else ():
            value = getattr(value, part)
        return int(value) if cls.bound else None

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        """What the numbers of a recall are and what decides, in a line."""
        return f"overall is what {cls.name} ranks by"

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        """Take in closed sessions, oldest first, and keep what is to be remembered of them.

        Each session is stored as digested together with its records, so that it is taken in once whatever happens.

        Raises:
            BackboneError: the model failed; what was not taken in stays pending.
        """
        raise NotImplementedError

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        """The records that matter to a query, best first; none: no relevant memory."""
        raise NotImplementedError

    @property
    def decides(self) -> bool:
        """Whether the call that replies also decides if the answered utterance is worth remembering."""
        return False

    def observe(self, session: Session) -> Steps[None]:
        """Take in utterances of a running session that are not taken in yet; for views that observe."""
        yield from ()

    def guidance(self, recalled: Sequence[Recalled]) -> Guidance:
        """How the generator is to use these memories."""
        return Guidance()

    @property
    def explanation(self) -> Mapping[str, Any]:
        """How the last recall came about beyond its numbers, as plain values that JSON can hold."""
        return {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What the last recall left out, in words."""
        return ()
