"""The whole past in the prompt, as far as it fits: the baseline that long windows make possible. Asks no model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ld_agent.backbones.base import Message
from ld_agent.memory.scoring import best
from ld_agent.memory.views.base import Parts, Query
from ld_agent.memory.views.stored import UNENCODED, StoredRecords, dialogue, recalled, verbatim
from ld_agent.prompts import as_line
from ld_agent.steps import Steps
from ld_agent.types import Recalled, Record, Session

PIECE = 8  # utterances of one record; the fewer, the closer the window is filled
INSTRUCTIONS = 0.25  # share of the window that is left to instructions and traits
PAGE = 16  # records read at once
LABEL = 12  # tokens around a record in the prompt: how long ago it was, its view


class FullView:
    """Every session, word for word, newest first; what does not fit beside the running session is left out, oldest first.

    Attributes:
        notes: what the last recall had to leave out, in words.
    """

    name = "full"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._records = StoredRecords(parts, self.name, encoded=False)
        self.notes: tuple[str, ...] = ()

    def digest(self, sessions: Sequence[Session]) -> Steps[None]:
        yield from ()
        parts = self._parts
        for session in sessions:
            pieces = [session.utterances[i : i + PIECE] for i in range(0, len(session.utterances), PIECE)]
            parts.store.digest(
                parts.key, self.name, session.number, [(verbatim(self.name, p), UNENCODED) for p in pieces]
            )

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
        """The records of rows, read as far as they are wanted."""
        for start in range(0, len(rows), PAGE):
            yield from self._records.fetch(rows[start : start + PAGE])

    def _room(self) -> int:
        """Tokens that the prompt of a reply has for the past."""
        parts = self._parts
        running = parts.store.open_utterances(parts.key)
        budget = parts.models.prompt_budget("generator")
        return int(budget * (1 - INSTRUCTIONS)) - self._tokens(dialogue(running))

    def _tokens(self, text: str) -> int:
        return self._parts.models.count_tokens("generator", [Message("user", as_line(text))]) if text else 0
