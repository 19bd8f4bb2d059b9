"""The text encoder φ: texts in, unit vectors out, each text encoded once. Knows nothing about the texts' meaning."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ld_agent.config.named import is_dotted
from ld_agent.config.sections import MINILM, EncoderSection
from ld_agent.errors import ModelError
from ld_agent.memory.packaged_encoders import PACKAGED, mostly_in, packaged

Vectors = NDArray[np.float32]
Progress = Callable[[str, int, int], None]
"""Called with (what, done, total) while many texts are encoded, until done equals total."""
POOLING = {MINILM: "mean"}
"""How to pool sentence-transformers' models whose vectors are the same without it: importing it takes a second and a half."""
CUT = 1_000  # characters of a window where tokens are not known
UNKNOWN = 0.3
LOOKED_AT = 400  # characters whose tokens are counted
LONGEST = 8_000  # characters of a text that are looked at
MOST_WINDOWS = 4
TOKENS_OF_A_CUT_WORD = 8  # a word cut at a window's edge may need more tokens than before
MOST_TOKENS_A_CHARACTER = 3  # a Hangul syllable, taken apart by Unicode normalisation


def no_progress(what: str, done: int, total: int) -> None:
    """Show no progress."""


class SentenceEncoder:
    """A sentence-transformers model behind a bounded cache.

    A text longer than the model's window is encoded in windows and averaged: in up to `MOST_WINDOWS`, evenly spread over it,
    so that a text takes bounded time. Threads may share an encoder and take turns. On a CPU, numpy is limited to one thread.

    Args:
        model: hub id, local directory, ``package:NAME/PATH``, one of `PACKAGED`, or a `Packaged` as ``module:Name``.
        device: a torch device.
        sha256: expected digest of the weights; None: not checked.
        cache_size: number of texts whose vectors are cached.
        pooling: for a model of transformers, see `PooledTransformer`; None: sentence-transformers decides.
        question_model: a separate encoder for queries; None: the same model.

    Raises:
        ModelError: the model cannot be found, verified or loaded.
    """

    def __init__(
        self,
        model: str,
        device: str = "cpu",
        sha256: str | None = None,
        cache_size: int = 4096,
        *,
        pooling: str | None = None,
        question_model: str | None = None,
    ) -> None:
        from ld_agent.backbones.quiet import quiet_transformers
        from ld_agent.backbones.weights import resolve_model

        try:
            self._packaged = model in PACKAGED or is_dotted(model)
            if self._packaged:
                self._model: Any = packaged(model)
            else:
                source = resolve_model(model, sha256)
                with quiet_transformers():
                    self._model = _loaded(source, pooling or POOLING.get(model), device)
        except (OSError, ValueError, RuntimeError, KeyError) as exc:
            reason = (str(exc).strip().splitlines() or [type(exc).__name__])[0]
            raise ModelError(f"encoder {model!r} (encoder.model) cannot be loaded: {reason}") from exc
        if device == "cpu":
            _leave_the_cores_to_torch()
        self.name = model
        self.dimension = int(self._model.get_embedding_dimension())
        self._window = int(getattr(self._model, "max_seq_length", None) or 512) - 2
        self._unknown_token: int | None = getattr(getattr(self._model, "tokenizer", None), "unk_token_id", None)
        self._cache: OrderedDict[str, Vectors] = OrderedDict()
        self._cache_size = cache_size
        self._one_at_a_time = threading.Lock()
        self._questions = None
        if question_model is not None:
            self._questions = SentenceEncoder(question_model, device, cache_size=cache_size, pooling=pooling)
            if self._questions.dimension != self.dimension:
                raise ModelError(
                    f"encoder.question_model {question_model!r} has {self._questions.dimension} dimensions, encoder.model "
                    f"{model!r} {self.dimension}; give two encoders that were trained together"
                )

    def encode_query(self, text: str) -> Vectors:
        """Return the (dimension,) unit vector of a search query."""
        vector: Vectors = (self._questions or self).encode([text])[0]
        return vector

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return (n, dimension) float32 unit vectors, one row a text."""
        texts = [_sampled(text) for text in texts]
        wanted = dict.fromkeys(texts)
        with self._one_at_a_time:
            missing = [text for text in wanted if text not in self._cache]
            fresh = dict(zip(missing, self._encode(missing), strict=True))
            rows = {text: fresh[text] if text in fresh else self._cache[text] for text in wanted}
            for text, row in rows.items():
                self._cache[text] = row
                self._cache.move_to_end(text)
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        return np.stack([rows[text] for text in texts]) if rows else np.zeros((0, self.dimension), np.float32)

    def knows_script(self, text: str) -> bool:
        """Whether the encoder's vocabulary covers the words of a text; if it spells them out instead, all texts look alike.

        Counts unknown tokens and words split into single letters; emoji and punctuation are no script.
        """
        text = "".join(
            character if unicodedata.category(character)[0] in "LMNZ" else " " for character in text[:LOOKED_AT]
        )
        if text.isascii():
            return True
        if self._packaged:
            return self._model.scripts is None or mostly_in(text, self._model.scripts)
        if self._unknown_token is None:
            return True
        tokenizer = self._model.tokenizer
        tokens = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        spelt = sum(re.fullmatch(r"##[^\W\d_]", token) is not None for token in tokenizer.convert_ids_to_tokens(tokens))
        return bool(sum(token == self._unknown_token for token in tokens) + spelt <= UNKNOWN * len(tokens))

    def _encode(self, texts: list[str]) -> list[Vectors]:
        windows = [_spread(self._windows(text)) for text in texts]
        flat = [window for parts in windows for window in parts]
        if not flat:
            return []
        encoded = self._model.encode(
            flat, batch_size=32, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
        ).astype(np.float32)
        vectors, start = [], 0
        for parts in windows:
            mean = encoded[start : start + len(parts)].mean(axis=0)
            vectors.append(mean / max(float(np.linalg.norm(mean)), 1e-12))
            start += len(parts)
        return vectors

    def _windows(self, text: str) -> list[str]:
        if self._packaged:  # their tokenizers report no offsets
            return [text[start : start + CUT] for start in range(0, len(text), CUT)] or [text]
        if len(text) * MOST_TOKENS_A_CHARACTER <= self._window:
            return [text]
        offsets = self._model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)[
            "offset_mapping"
        ]
        if len(offsets) <= self._window:
            return [text]
        size = max(self._window - TOKENS_OF_A_CUT_WORD, 1)
        starts = range(0, len(offsets), size)
        return [text[offsets[s][0] : offsets[min(s + size, len(offsets)) - 1][1]] for s in starts]


def _sampled(text: str) -> str:
    """A text of at most `LONGEST` characters: evenly spread pieces of a longer one."""
    if len(text) <= LONGEST:
        return text
    size = LONGEST // MOST_WINDOWS
    starts = [n * (len(text) - size) // (MOST_WINDOWS - 1) for n in range(MOST_WINDOWS)]
    return "".join([text[start : start + size] for start in starts])


def _spread(windows: list[str]) -> list[str]:
    """At most `MOST_WINDOWS` of a text's windows, the first and the last among them."""
    last = len(windows) - 1
    return windows if last < MOST_WINDOWS else [windows[n * last // (MOST_WINDOWS - 1)] for n in range(MOST_WINDOWS)]


def configured(settings: EncoderSection, cache_size: int = 4096) -> SentenceEncoder:
    """Load the encoder of a configuration.

    Raises:
        ModelError: as `SentenceEncoder`.
    """
    return SentenceEncoder(
        settings.model,
        settings.device,
        settings.sha256,
        cache_size,
        pooling=settings.pooling,
        question_model=settings.question_model,
    )


def _loaded(source: Path | str, pooling: str | None, device: str) -> Any:
    if pooling is not None:
        from ld_agent.memory.pooled import PooledTransformer

        return PooledTransformer(source, pooling, device)
    from sentence_transformers import SentenceTransformer

    loaded = SentenceTransformer(str(source), device=device)
    config = getattr(getattr(loaded[0], "auto_model", None), "config", None)
    if getattr(config, "model_type", "") == "dpr":  # it would load the wrong half, with random weights
        raise ValueError("DPR's own encoders need encoder.pooling=pooler")
    return loaded


def _leave_the_cores_to_torch() -> None:
    """Limit numpy's BLAS to one thread: after a product its idle threads spin, which doubles the time of the next
    encoding."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")
