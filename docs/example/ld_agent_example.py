"""One of each that a config or a command of ld_agent can name: a view, a scorer, an encoder, a dataset, a metric."""

import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from ld_agent.config.sections import MemorySection
from ld_agent.datasets import Episode, Loader, Turn
from ld_agent.datasets.records import json_lines
from ld_agent.evaluation.metrics import Measure, mean
from ld_agent.evaluation.run_files import Prediction
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.scoring import Scorer
from ld_agent.memory.views import Query
from ld_agent.memory.views.stored import StoredView, draft_of
from ld_agent.steps import Steps
from ld_agent.types import Recalled, Session


class PromisesView(StoredView):
    """Remembers what was promised, word for word. `memory.views=[events, ld_agent_example:PromisesView]`"""

    name = "promises"
    asks_model = False

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        return f"overall = cosine of line and promise; k = {settings.k}"

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        yield from ()  # a view that asks a model yields its requests here
        for session in sessions:
            promised = [u for u in session.utterances if "promise" in u.text.lower()]
            vectors = self.context.encoder.encode([u.text for u in promised])
            drafts = [draft_of([u], u.text, vector) for u, vector in zip(promised, vectors, strict=True)]
            self.shelf.digest(session.number, drafts)

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        yield from ()
        self._records.catch_up()
        return self._records.nearest(query, self.context.settings.k, gamma=-1.0)


NEWEST = Scorer("newest", lambda terms: terms.decay * (1 + terms.s_sem), "λ (1 + s_sem)", most=2.0)
"""`memory.scorer=ld_agent_example:NEWEST`"""


class LettersEncoder:
    """Counts threes of letters: knows no meaning, needs no model. `encoder.model=ld_agent_example:LettersEncoder`"""

    scripts = None  # every writing system

    def get_embedding_dimension(self) -> int:
        return 256

    def encode(self, texts: list[str], **options: Any) -> Vectors:
        vectors = np.full((len(texts), 256), 1e-3, np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for place in range(len(text)):
                vector[zlib.crc32(text[place : place + 3].lower().encode()) % 256] += 1
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit


def read_diary(path: Path) -> Iterator[Episode]:
    """Lines like {"diary": "Ann", "days": {"2024-05-01": ["I keep bees.", "Nice."]}}: every second line is the agent's."""
    for number, record in enumerate(json_lines(path), 1):
        names, turns = (record.text("diary"), "Sam"), []
        for session, (day, lines) in enumerate(record.values["days"].items(), 1):
            noon = datetime.fromisoformat(f"{day}T12:00:00+00:00")
            for place, text in enumerate(lines):
                turns.append(Turn(names[place % 2], text, noon + timedelta(minutes=place), session))
        yield Episode(f"diary_{number}", "Sam", tuple(turns), source=f"{path.name}:{number}")


DIARY = Loader(lambda value: isinstance(value, dict) and "diary" in value, read_diary)
"""`ld-agent run diary.jsonl --format ld_agent_example:DIARY`; installed, the format is recognised (see pyproject.toml)."""


def words(predictions: Sequence[Prediction]) -> Measure:
    """Words of a reply, on average. `ld-agent eval response DATA --metric ld_agent_example:words`"""
    return mean(len(prediction.text.split()) for prediction in predictions)
