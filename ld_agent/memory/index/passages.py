"""A record's passages: its turns and the sentences of its summary, each as a vector and stems, and how well the best match.

They are stored with the record so that a question about one remark finds its session. All of it is derived from stored
text and recomputed if missing. Knows no store and no time.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ld_agent.languages.reading import Reading
from ld_agent.memory.encoder import SentenceEncoder, Vectors
from ld_agent.text import LONGEST_READ, SENTENCE_END, stems
from ld_agent.types import Utterance

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Counts = NDArray[np.integer]

COVER, SPEAKER, SHARPNESS = 0.2, 0.1, 12.0
"""s_pass = ln(Σ e^(SHARPNESS · x)) / SHARPNESS over the windows of a record, x = cos + COVER · cover + SPEAKER [said by the
speaker asked about]; cover as in `Lexicon.cover`."""
LIKE = 4
"""s_like = ln(Σ e^(SHARPNESS · cos(window, p))) / SHARPNESS, p the mean of the LIKE best windows of all records."""


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
                tuple(tuple(stems(f"{u.speaker} {u.text[:LONGEST_READ]}", reading)) for u in said),
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
    return [sentence for sentence in SENTENCE_END.split(text) if sentence.strip()]


def best_passages(
    vectors: Sequence[PackedVectors], windows: Counts, vector: NDArray[np.float32], further: Floats
) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Score the best sentence and the best windows of each of m records.

    Args:
        vectors: (m,) the vectors of each record, windows before sentences.
        windows: (m,) the number of windows.
        vector: (dimension,) unit vector of the question.
        further: (w,) additional scores of the windows of all records, record by record.

    Returns:
        (m,) s_sent, 0 without sentences; (m,) s_pass and (m,) s_like, 0 without windows; (m,) the greatest cosine, -1
        without either.
    """
    counts = windows.tolist()
    s_sent, s_pass, s_like = np.zeros(len(vectors)), np.zeros(len(vectors)), np.zeros(len(vectors))
    turned = [n for n, packed in enumerate(vectors) if counts[n] and len(packed)]
    summarized = [n for n, packed in enumerate(vectors) if len(packed) > counts[n]]
    nearest = np.full(len(vectors), -1.0)
    # All windows, then all sentences, so that each kind is contiguous.
    parts = [(n, slice(0, counts[n])) for n in turned] + [(n, slice(counts[n], None)) for n in summarized]
    if not parts:
        return s_sent, s_pass, s_like, nearest
    steps = np.concatenate([vectors[n].steps[rows] for n, rows in parts], dtype=np.float32, casting="unsafe")
    scale = np.concatenate([vectors[n].scale[rows] for n, rows in parts])
    cosines = (steps @ vector) * scale
    np.maximum(np.minimum(cosines, 1.0, out=cosines), -1.0, out=cosines)
    spoken = sum(counts[n] for n in turned)
    if summarized:
        starts = list(accumulate((len(vectors[n]) - counts[n] for n in summarized[:-1]), initial=spoken))
        s_sent[summarized] = nearest[summarized] = np.maximum.reduceat(cosines, starts)
    if turned:
        if len(turned) < len(vectors):
            ends = list(accumulate(counts))
            further = np.concatenate([further[ends[n] - counts[n] : ends[n]] for n in turned])
        starts = list(accumulate((counts[n] for n in turned[:-1]), initial=0))
        alone = cosines[:spoken]
        nearest[turned] = np.maximum(nearest[turned], np.maximum.reduceat(alone, starts))
        near = alone + further
        like = _like_the_best(near, steps[:spoken], scale[:spoken])
        s_pass[turned], s_like[turned] = _soft_maxima(np.stack([near, like]), starts)
    return s_sent, s_pass, s_like, nearest


def _like_the_best(near: Floats, steps: NDArray[np.float32], scale: NDArray[np.float32]) -> Floats:
    """(w,) the cosine of each window with the mean of the `LIKE` best by ``near`` (w,); its vector is ``steps`` × ``scale``."""
    best = near.argpartition(max(len(near) - LIKE, 0))[-LIKE:]
    middle = scale[best] @ steps[best]
    middle /= max(math.sqrt(middle @ middle), 1e-12)
    like: Floats = (steps @ middle) * scale
    return like


def _soft_maxima(values: Floats, starts: Sequence[int]) -> NDArray[np.float64]:
    """ln(Σ e^(SHARPNESS · x)) / SHARPNESS over the columns from each start to the next, for every row."""
    bounded = np.minimum(SHARPNESS * values, 600.0)  # e^709 overflows, which long pasted texts can reach
    return np.asarray(np.log(np.add.reduceat(np.exp(bounded), starts, axis=1)) / SHARPNESS, np.float64)
