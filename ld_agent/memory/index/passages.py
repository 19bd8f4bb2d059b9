"""A record's passages: its turns and the sentences of its summary, each as a vector and stems.

They are stored with the record so that a question about one remark finds its session. All of it is derived from stored
text and recomputed if missing. Knows no store, time or score.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ld_agent.languages.reading import Reading
from ld_agent.memory.encoder import SentenceEncoder, Vectors
from ld_agent.memory.index.lexical import stems
from ld_agent.types import Utterance

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")


@dataclass(frozen=True, slots=True)
class PackedVectors:
    """p unit vectors with one signed byte per dimension; cosines have errors below 0.005.

    Attributes:
        scale: (p,) float32 step size of each vector.
        steps: (p, dimension).
    """

    scale: NDArray[np.float32]
    steps: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.scale)

    @classmethod
    def of(cls, vectors: Vectors) -> PackedVectors:
        """Pack (p, dimension) vectors."""
        scale = np.maximum(np.abs(vectors).max(axis=1, initial=0.0), 1e-12).astype(np.float32) / np.float32(127)
        return cls(scale, np.rint(vectors / scale[:, None]).astype(np.int8))

    @property
    def unpacked(self) -> Vectors:
        """(p, dimension) the unpacked vectors."""
        return self.scale[:, None] * self.steps

    @property
    def stored(self) -> bytes:
        """The scales as little-endian float32, then the steps."""
        return self.scale.astype("<f4").tobytes() + self.steps.tobytes()

    @classmethod
    def from_stored(cls, blob: bytes, dimension: int) -> PackedVectors:
        """The vectors of `stored`."""
        count = len(blob) // (dimension + 4)
        steps = np.frombuffer(blob, np.int8, offset=4 * count) if count else np.zeros(0, np.int8)
        return cls(np.frombuffer(blob, "<f4", count), steps.reshape(count, dimension))


NO_VECTORS = PackedVectors(np.zeros(0, np.float32), np.zeros((0, 0), np.int8))


@dataclass(frozen=True, slots=True)
class Passages:
    """p = t + s passages of one record: t windows of a turn and its predecessor, then s sentences of the summary.

    Attributes:
        speakers: (t,) the speaker of each window's last turn.
        turns: (t,) stems of each turn alone, including its speaker's name.
        sentences: (s,) stems of each sentence.
        vectors: (t + s, dimension) their unit vectors.
    """

    speakers: tuple[str, ...]
    turns: tuple[tuple[str, ...], ...]
    sentences: tuple[tuple[str, ...], ...]
    vectors: PackedVectors

    @property
    def windows(self) -> list[tuple[str, ...]]:
        """(t,) stems of each turn and its predecessor."""
        return [(*self.turns[n - 1], *turn) if n else turn for n, turn in enumerate(self.turns)]

    @property
    def counts(self) -> Counter[str]:
        """How often each stem occurs in turns and sentences."""
        return Counter(word for words in (*self.turns, *self.sentences) for word in words)

    @property
    def counts_by(self) -> dict[str, Counter[str]]:
        """How often each speaker's turns say each stem."""
        counts: dict[str, Counter[str]] = {}
        for speaker, turn in zip(self.speakers, self.turns, strict=True):
            counts.setdefault(speaker, Counter()).update(turn)
        return counts

    @property
    def words_text(self) -> str:
        """Speakers and stems as JSON text."""
        return json.dumps([self.speakers, self.turns, self.sentences], ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_words(cls, text: str) -> Passages:
        """The passages of `words_text`, without their vectors."""
        speakers, turns, sentences = json.loads(text)
        return cls(tuple(speakers), tuple(map(tuple, turns)), tuple(map(tuple, sentences)), NO_VECTORS)


NO_PASSAGES = Passages((), (), (), NO_VECTORS)


def passages_of(
    records: Sequence[tuple[str, Sequence[Utterance]]], encoder: SentenceEncoder, reading: Reading
) -> list[Passages]:
    """Make the passages of records, encoded in one batch.

    Args:
        records: text and source utterances of each record.
    """
    plans = [(windows(said), _sentences(text)) for text, said in records]
    vectors = encoder.encode([passage for turns, sentences in plans for passage in (*turns, *sentences)])
    result, start = [], 0
    for (_, said), (turns, sentences) in zip(records, plans, strict=True):
        count = len(turns) + len(sentences)
        result.append(
            Passages(
                tuple(u.speaker for u in said),
                tuple(tuple(stems(f"{u.speaker} {u.text}", reading)) for u in said),
                tuple(tuple(stems(sentence, reading)) for sentence in sentences),
                PackedVectors.of(vectors[start : start + count]),
            )
        )
        start += count
    return result


def windows(said: Sequence[Utterance]) -> list[str]:
    """Each turn with its predecessor in the session, as text."""
    lines = [f"{u.speaker}: {u.text}" for u in said]
    follows = [n > 0 and said[n - 1].session == u.session for n, u in enumerate(said)]
    return [f"{lines[n - 1]}\n{line}" if follows[n] else line for n, line in enumerate(lines)]


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in _SENTENCE_END.split(text) if sentence.strip()]
