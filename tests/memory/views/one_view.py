"""One view of the conversation "alice" by itself: real store, encoder and topics, a scripted model, no agent around it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import parse_config
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.memory.views import VIEWS, Query, View, ViewContext
from ld_agent.modules.base import Models
from ld_agent.modules.summarizer import Summarizer
from ld_agent.steps import run
from ld_agent.storage.sqlite.store import SQLiteStore
from ld_agent.types import Recalled, Record

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


class OneView:
    """A view and what it is made from; opening it anew makes everything but the file anew."""

    def __init__(
        self,
        name: str,
        path: Path,
        encoder: SentenceEncoder,
        topics: TopicExtractor,
        script: dict[str, Any] | None = None,
        context_window: int = 4096,
        **memory: Any,
    ) -> None:
        config = parse_config({"memory": {"gamma": -1.0, "views": [name], **memory}})
        self.backbone = ScriptedBackbone(script or {}, context_window)
        self.models = Models(config, self.backbone)
        self.store = SQLiteStore(path)
        self.key = self.store.open_conversation("alice", "Sam").key
        self._encoder, self._topics = encoder, topics
        summarizer = Summarizer(self.models, encoder.encode)
        self.view: View = VIEWS[name](
            ViewContext(self.store, self.key, encoder, topics, summarizer, config.memory, self.models, "Sam")
        )

    def say(self, days: float, *lines: str) -> None:
        """Say lines "Maya: Hello!" a minute apart, the first so many days after the start."""
        for number, line in enumerate(lines):
            speaker, _, text = line.partition(": ")
            self.store.append(self.key, speaker, text, START + days * DAY + number * MINUTE, 3600.0, lambda: START)

    def session(self, days: float, *lines: str) -> None:
        """Hold a session, end it, and let the view take it in."""
        self.say(days, *lines)
        self.store.close_session(self.key)
        self.digest()

    def digest(self) -> None:
        """Let the view take in the sessions that wait."""
        run(self.view.digest(self.store.shelf(self.key, self.view.name).undigested()), self.models.complete)

    def ask(self, text: str, days: float = 100) -> list[Recalled]:
        """What the view recalls."""
        vector = self._encoder.encode([text])[0]
        query = Query(text, vector, self._topics.extract([text])[0], START + days * DAY)
        return run(self.view.recall(query), self.models.complete)

    def texts(self, text: str, days: float = 100) -> list[str]:
        return [recalled.record.text for recalled in self.ask(text, days)]

    @property
    def records(self) -> list[Record]:
        return self.store.records(self.key)

    def cosine(self, one: str, other: str) -> float:
        first, second = self._encoder.encode([one, other])
        return float(first @ second)
