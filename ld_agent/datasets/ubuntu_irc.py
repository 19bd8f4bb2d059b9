"""Ubuntu IRC, multi-party: JSON lines, each with a context and one speaker's answer to one of its utterances.

The corpus numbers its speakers; they become "Speaker 0", "Speaker 1", …. The agent is the speaker of the answer, which
is the last utterance. The corpus has neither dates nor ids: a record is one session that begins at `dating.ANCHOR`, and
its id consists of file name and line. An utterance to somebody begins with the name, as on IRC ("@Speaker 0 …"), except
for the answer, which is the reference. Which utterance an utterance answers is its `Turn.answers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import Episode
from ld_agent.datasets.dating import dated
from ld_agent.datasets.records import Record, episodes, json_lines


def recognises(value: Any) -> bool:
    return isinstance(value, dict) and "ctx_spk" in value and "ans_spk" in value


def read(path: Path) -> Iterator[Episode]:
    """Yield one episode per line."""
    return episodes(json_lines(path), _episode)


def _episode(record: Record) -> Episode:
    texts = [*record.texts("context"), record.text("answer")]
    numbers = [*record.items("ctx_spk"), record.integer("ans_spk")]
    if len(texts) != len(numbers):
        raise record.error(f"context has {len(texts) - 1} utterances and ctx_spk {len(numbers) - 1} speakers")
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise record.error(f"the speakers are {numbers}; each must be a non-negative integer")
    answered = _answered(record, len(texts))
    addressed = record.items("ctx_adr") if "ctx_adr" in record else [-1] * (len(texts) - 1)
    if len(addressed) != len(texts) - 1 or not all(isinstance(number, int) for number in addressed):
        raise record.error(f"ctx_adr is {addressed}; it needs a number for each of {len(texts) - 1} utterances")
    said = [
        (f"Speaker {number}", (f"@Speaker {to} {text}" if to >= 0 else text).strip())
        for number, to, text in zip(numbers, [*addressed, -1], texts, strict=True)
    ]
    turns = tuple(replace(turn, answers=answered.get(place)) for place, turn in enumerate(dated(said)))
    return Episode(f"{record.path.stem}-{record.line}", turns[-1].speaker, turns, answer_only=True)


def _answered(record: Record, turns: int) -> dict[int, int]:
    """For each utterance that answers another, the index of the one it answers."""
    links = record.items("relation_at") if "relation_at" in record else []
    if "ans_idx" in record:
        links = [*links, [turns - 1, record.integer("ans_idx")]]
    replies: dict[int, int] = {}
    for link in links:
        if not (isinstance(link, list) and len(link) == 2 and all(isinstance(n, int) for n in link)):
            raise record.error(f"relation_at has {link!r}, which is not a pair of places")
        child, parent = link
        if not 0 <= parent < child < turns:
            raise record.error(f"utterance {child} cannot answer utterance {parent} of {turns}")
        replies[child] = parent
    return replies
