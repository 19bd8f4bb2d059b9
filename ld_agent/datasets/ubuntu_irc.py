"""Ubuntu IRC, multi-party: JSON lines, each with a context and one speaker's answer to one of its utterances.

The corpus numbers its speakers; they become "Speaker 0", "Speaker 1", …. The agent is the speaker of the answer, which
is the last utterance. The corpus has neither dates nor ids: a record is one session that begins at `dating.ANCHOR`, and
its id consists of file name and line. Reply links (`relation_at`, `ctx_adr`) are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import Episode, Report, Turn
from ld_agent.datasets.dating import ANCHOR, spaced
from ld_agent.datasets.records import Record, built, json_lines


def recognises(value: Any) -> bool:
    return isinstance(value, dict) and "ctx_spk" in value and "ans_spk" in value


def read(path: Path, report: Report) -> Iterator[Episode]:
    """Yield one episode per line."""
    return built(json_lines(path, report), _episode, report)


def _episode(record: Record) -> Episode:
    texts = [*record.texts("context"), record.text("answer")]
    numbers = [*record.items("ctx_spk"), record.integer("ans_spk")]
    if len(texts) != len(numbers):
        raise record.error(f"context has {len(texts) - 1} utterances and ctx_spk {len(numbers) - 1} speakers")
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise record.error(f"the speakers are {numbers}; each must be a non-negative integer")
    turns = tuple(
        Turn(f"Speaker {number}", text.strip(), at, 1)
        for number, text, at in zip(numbers, texts, spaced(ANCHOR, len(texts)), strict=True)
    )
    return Episode(f"{record.path.stem}-{record.line}", turns[-1].speaker, turns, {}, record.source)
