"""What a memory mechanism is to the agent: a view that takes sessions in and recalls what it made of them.

The methods are steps (`ld_agent.steps`): a view that needs the model yields requests, one that does not just returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ld_agent.config import MemorySection
from ld_agent.memory.encoder import SentenceEncoder, Vectors
from ld_agent.memory.topics import TopicExtractor
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
    """What a view may be made from: the parts it shares with the rest of one conversation."""

    store: Store
    key: int
    encoder: SentenceEncoder
    topics: TopicExtractor
    summarizer: Summarizer
    settings: MemorySection


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
