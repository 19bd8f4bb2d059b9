"""The agent's interface to a memory mechanism: a view digests sessions and recalls the records it made from them.

The methods are steps (`ld_agent.steps`): a view that needs the model yields requests; others just return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar

from ld_agent.checks.learned import StatementCheck
from ld_agent.config.sections import MemorySection
from ld_agent.datasets.base import AnnotatedMemory
from ld_agent.languages.reading import Reading
from ld_agent.memory.encoder import Progress, SentenceEncoder, Vectors, no_progress
from ld_agent.memory.index.records import IndexCache
from ld_agent.memory.topics import TopicExtractor
from ld_agent.modules.base import Models
from ld_agent.modules.summarizer import Summarizer
from ld_agent.steps import Steps
from ld_agent.storage.store import Store
from ld_agent.types import Recalled, Session


@dataclass(frozen=True, slots=True)
class Query:
    """A query to the memory.

    Attributes:
        vector: (dimension,) unit vector of the text.
        topics: V_q, sorted.
        at: nothing younger than this is recalled.
        goes_on: see `ld_agent.memory.scoring.goes_on`.
    """

    text: str
    vector: Vectors
    topics: tuple[str, ...]
    at: datetime
    goes_on: float = 0.0


@dataclass(frozen=True, slots=True)
class ViewContext:
    """What a view needs from its conversation.

    ``models`` builds the requests of views that ask a model (module ``memory``); ``agent`` is the agent's name.
    ``waits``: failed work will be retried later; false in a rebuild. ``indexes``: the search indexes of the views.
    ``progress``: called during long work on them.

    ``annotated``: the corpus's annotated memories of this conversation, oldest first, if any. ``check``: judges what a model
    wrote before it is stored; None: it is stored as it is.
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
    progress: Progress = no_progress
    annotated: Sequence[AnnotatedMemory] = ()
    check: StatementCheck | None = None

    @property
    def reading(self) -> Reading:
        """How the conversation's texts are read."""
        return self.models.language.reading


@dataclass(frozen=True, slots=True)
class Guidance:
    """What the reply's prompt says besides the memories: steps to follow, and examples if there is room."""

    steps: str = ""
    examples: tuple[str, ...] = ()


class View:
    """One memory mechanism of one conversation. A subclass declares its attributes and overrides its behaviour.

    Attributes:
        name: its name in configs.
        asks_model: digesting a session requires model calls; if false, any number of sessions is digested at once.
        rewrites: each record replaces the previous one, so that records are versions of one text.
        observes: also processes the running session, utterance by utterance.
        alone: the reason it cannot be combined with other views; "": it can.
        bound: the key below ``memory`` with the maximum number of recalled records; "": none.
        shelf: its records.
        decides: the generator's call also decides if the answered utterance is worth remembering.
        explanation: what explains the last recall beyond its numbers, as plain JSON values.
        notes: on what the last recall left out.
    """

    name: ClassVar[str]
    asks_model: ClassVar[bool] = True
    rewrites: ClassVar[bool] = False
    observes: ClassVar[bool] = False
    alone: ClassVar[str] = ""
    bound: ClassVar[str] = ""
    decides = False

    def __init__(self, context: ViewContext) -> None:
        self.context = context
        self.shelf = context.store.shelf(context.key, self.name)
        self.explanation: Mapping[str, Any] = {}
        self.notes: tuple[str, ...] = ()

    @classmethod
    def most(cls, settings: MemorySection) -> int | None:
        """Maximum number of recalled records; None: unbounded."""
        return int(attrgetter(cls.bound)(settings)) if cls.bound else None

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        """One line that explains the numbers of a recall and what decides."""
        return f"overall is what {cls.name} ranks by"

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        """Digest closed sessions, oldest first, into records.

        Each session is marked as digested together with storing its records, so that it is digested exactly once.

        Raises:
            BackboneError: the model failed; undigested sessions stay pending.
        """
        raise NotImplementedError

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        """Return the records relevant to a query, best first; empty: no relevant memory."""
        raise NotImplementedError

    def observe(self, session: Session) -> Steps[None]:
        """Process new utterances of a running session; for views that observe."""
        yield from ()

    def guidance(self, recalled: Sequence[Recalled]) -> Guidance:
        """How the generator should use these memories."""
        return Guidance()
