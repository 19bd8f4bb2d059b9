"""Heavy resources shared by all conversations of one agent: models, encoder, topics and store, loaded on first use.

Locks have one order. A thread that holds a lock takes none that precedes it in this list:

1. `Relation.turnstile`: one caller in a conversation.
2. `Resources.loading`: the encoder and topics are loaded, and checked against the store; conversations are opened.
3. `IndexCache.get`, which waits while another thread makes the index, then the lock of a `RecordIndex`.
4. The store: a transaction (`Store.writing`), or one statement. Inside, nothing is loaded and no index is looked up.
5. Those held while nothing else is waited for: of the encoder, topics, `Models`, `Collector`, `IndexCache`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from ld_agent.backbones.base import Backbone
from ld_agent.checks.learned import StatementCheck
from ld_agent.config import Config
from ld_agent.datasets.base import AnnotatedMemory
from ld_agent.errors import ConfigError
from ld_agent.memory.encoder import Progress, SentenceEncoder, configured, no_progress
from ld_agent.memory.index.records import IndexCache
from ld_agent.memory.scoring import goes_on, scorer
from ld_agent.memory.topics import TopicExtractor
from ld_agent.memory.views import Query, ViewContext, check_memory
from ld_agent.memory.when import dated
from ld_agent.modules.base import MODULES, Models
from ld_agent.modules.summarizer import Summarizer
from ld_agent.running.collector import Collectors
from ld_agent.storage.opening import open_store
from ld_agent.text import LONGEST_READ

CHECKED = "en"
"""The language of the learned check."""


class Resources:
    """Models, encoder, topics and store of one agent, whose arguments and errors these are.

    Attributes:
        annotated: annotated memories by conversation key, for the view ``golden``.
        progress: called during long work on conversations opened from now on, such as encoding after an import.
    """

    def __init__(
        self,
        config: Config,
        backbone: Backbone | None = None,
        clock: Callable[[], datetime] | None = None,
        encoder: SentenceEncoder | None = None,
        topics: TopicExtractor | None = None,
    ) -> None:
        if not isinstance(config, Config):
            raise ConfigError(
                f"the config is {type(config).__name__}, not a Config; make one with load_config() or parse_config({{…}})"
            )
        check_memory(config.memory)
        scorer(config.memory.scorer)
        self.config = config
        self.clock = clock or (lambda: datetime.now(UTC))
        self.models = Models(config, backbone)
        self.asking = Collectors(self.models.complete, self.models.backbone_key, self.models.concurrent)
        self.store = open_store(config.store.path, config.store.redact)
        self.store.clock = self.clock
        days = {"record": config.memory.ttl, "trait": config.personas.ttl}
        self.store.lifetimes = {table: timedelta(days=ttl) for table, ttl in days.items() if ttl is not None}
        bound = config.memory.index_mb
        self.indexes = IndexCache(None if bound is None else int(bound * 2**20))
        self.progress: Progress = no_progress
        self.annotated: dict[int, list[AnnotatedMemory]] = {}
        self.loading = threading.RLock()
        if encoder is not None:
            try:
                self.store.check_encoder(encoder.name, encoder.dimension)
            except BaseException:
                self.store.close()
                raise
        self._encoder, self._topics = encoder, topics
        self._check: StatementCheck | None = None

    @property
    def encoder(self) -> SentenceEncoder:
        """The text encoder, checked against the store."""
        # Not a cached_property: its own lock, taken in the opposite order, deadlocked a request during warm_up.
        with self.loading:
            if self._encoder is None:
                settings = self.config.encoder
                encoder = configured(settings)
                self.store.check_encoder(encoder.name, encoder.dimension)
                self._encoder = encoder
            return self._encoder

    @property
    def topics(self) -> TopicExtractor:
        """The topic extractor."""
        with self.loading:
            if self._topics is None:
                self._topics = TopicExtractor(self.config.topics.model, self.config.topics.pos)
            return self._topics

    def check_for(self, language: str) -> StatementCheck | None:
        """The learned check; None: the config names none, or it does not know the language."""
        if language != CHECKED:
            return None
        with self.loading:
            if self._check is None and (settings := self.config.checks).adapter is not None:
                self._check = StatementCheck(settings.adapter, verbatim=settings.verbatim)
            return self._check

    def warm_up(self) -> None:
        """Load everything now instead of in the first turn, the spaCy pipeline in parallel with the rest."""
        import torch  # noqa: F401 - imported by both threads below, so complete it first

        with ThreadPoolExecutor(1) as pool:
            topics = pool.submit(lambda: self.topics.extract(["warm"]))
            for module in MODULES:
                self.models.backbone(module)
            self.encoder.encode_query("warm")
            topics.result()

    def view_context(self, key: int, agent_name: str, models: Models | None = None) -> ViewContext:
        """Return what the views of one conversation are made from.

        Args:
            models: in the conversation's language; None: in the agent's.
        """
        models = models or self.models

        def in_dates(text: str, at: datetime, lines: Sequence[str] | None = None) -> str:
            return dated(text, at, models.language.reading, lines)

        summarizer = Summarizer(models, self.encoder.encode, agent_name, in_dates)
        return ViewContext(
            self.store,
            key,
            self.encoder,
            self.topics,
            summarizer,
            self.config.memory,
            models,
            agent_name,
            indexes=self.indexes,
            progress=self.progress,
            annotated=self.annotated.setdefault(key, []),
            check=self.check_for(models.language.code),
        )

    def query(self, text: str, at: datetime, heard: str | None = None) -> Query:
        """Return the query for a text: its vector, and the topics of its end.

        Args:
            heard: the utterance to answer, if the text has more.
        """
        end = text[-LONGEST_READ:]
        [topics] = self.topics.extract([end])
        length = len((end if heard is None else heard[-LONGEST_READ:]).split())
        return Query(text, self.encoder.encode_query(text), topics, at, goes_on(length))

    def close(self) -> None:
        self.asking.close()
        self.models.close()
        self.store.close()
