"""The baselines without a search: the whole history in the prompt, as far as it fits, and none of it. Ask no model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ld_agent.backbones.base import Message
from ld_agent.config.sections import MemorySection
from ld_agent.memory.scoring import best
from ld_agent.memory.views.base import Query, View
from ld_agent.memory.views.stored import VerbatimView, dialogue, recalled
from ld_agent.prompts import as_line
from ld_agent.steps import Steps
from ld_agent.types import Recalled, Record, Session

INSTRUCTIONS = 0.25  # share of the window reserved for instructions and traits
PAGE = 16  # records read at once
LABEL = 12  # overhead of a record in the prompt: its age and its view


class NoneView(View):
    """Keeps no records and recalls nothing, so that a reply knows only the running session."""

    name = "none"
    asks_model = False
    alone = "recalls nothing"

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        return "no long-term memory"

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        yield from ()
        for session in sessions:
            self.shelf.digest(session.number, [])

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        yield from ()
        return []


class FullView(VerbatimView):
    """Every session verbatim, newest first; what does not fit next to the running session is dropped, oldest first."""

    name = "full"
    piece = 8  # smaller records fill the window better
    encoded = False
    alone = "recalls everything that was said"

    @classmethod
    def ranking(cls, settings: MemorySection) -> str:
        return "everything that was said, as far as it fits"

    def recall(self, query: Query) -> Steps[list[Recalled]]:
        yield from ()
        self._records.catch_up()
        at = self._records.at
        rows = [int(row) for row in best(at, self._records.known(query), at, len(at))]
        room, kept = self._room(), list[Record]()
        for record in self._read(rows):
            room -= self._tokens(record.text) + LABEL
            if room < 0:
                break
            kept.append(record)
        missing = len(rows) - len(kept)
        note = f"the oldest {missing} of {len(rows)} pieces of earlier sessions did not fit the model's window"
        self.notes = (note,) if missing else ()
        return [recalled(record, 0.0, score=1 / place) for place, record in enumerate(kept, 1)]

    def _read(self, rows: Sequence[int]) -> Iterator[Record]:
        """Yield the records of rows lazily."""
        for start in range(0, len(rows), PAGE):
            yield from self._records.fetch(rows[start : start + PAGE])

    def _room(self) -> int:
        """The number of tokens available for the history in a reply's prompt."""
        context = self.context
        running = context.store.open_utterances(context.key, None)
        budget = context.models.prompt_budget("generator")
        return int(budget * (1 - INSTRUCTIONS)) - self._tokens(dialogue(running))

    def _tokens(self, text: str) -> int:
        return self.context.models.count_tokens("generator", [Message("user", as_line(text))]) if text else 0
