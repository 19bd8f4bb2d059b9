"""Figures of texts against references: BLEU in two flavours, ROUGE, METEOR, token F1, Distinct-n, accuracy, perplexity.

Every figure is a `Measure`: numbers per prediction that add up, and what is made of their sum. So one pass over the texts
gives the figure of the whole, of each session and of every bootstrap sample. All are fractions but the perplexity. Knows
no model, no corpus and no file.

BLEU comes named apart, since the flavours differ by points:

- ``bleu_n`` is that of the nlg-eval package, which the papers report: corpus level, n-grams up to n weighted alike, words
  as white space gives them in lower case, the closest reference length, no smoothing.
- ``sacrebleu`` is sacrebleu's default: 13a tokens, case kept, up to 4-grams, exponential smoothing.

ROUGE counts words in lower case, of any script, unstemmed unless asked; ROUGE-L is the F1 of the longest common
subsequence of the whole text. Where there are several references the best one counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ld_agent.modules.wording import words_of

Floats = NDArray[np.float64]
References = Sequence[Sequence[str]]
ROUGE_TYPES = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure that is made of sums.

    Attributes:
        parts: (predictions, k), what each prediction adds.
        value: sums (samples, k) → figures (samples,); nan where nothing was counted.
    """

    parts: Floats
    value: Callable[[Floats], Floats]

    @property
    def overall(self) -> float:
        """The figure of all predictions together."""
        return float(self.value(self.parts.sum(axis=0, keepdims=True))[0])

    def where(self, chosen: Sequence[bool]) -> Measure:
        """The same figure of some predictions."""
        return Measure(self.parts * np.asarray(chosen, dtype=np.float64)[:, None], self.value)


def mean(values: Iterable[float]) -> Measure:
    """The mean of one value a prediction."""
    parts = np.array([(value, 1.0) for value in values], dtype=np.float64).reshape(-1, 2)
    return Measure(parts, lambda sums: _divided(sums[:, 0], sums[:, 1]))


def accuracy(found: Sequence[bool], true: Sequence[bool]) -> Measure:
    """The share of decisions that are right, such as trait or no trait (LD-Agent, table 3)."""
    return mean(float(a == b) for a, b in zip(found, true, strict=True))


def perplexity(nats: Sequence[float], tokens: Sequence[int]) -> Measure:
    """exp of the mean negative log-likelihood of a token.

    Args:
        nats: negative log-likelihood of each text.
        tokens: its length.
    """
    parts = np.array([*zip(nats, tokens, strict=True)], dtype=np.float64).reshape(-1, 2)
    return Measure(parts, lambda sums: np.exp(_divided(sums[:, 0], sums[:, 1])))


def bleu(
    predictions: Sequence[str], references: References, orders: Sequence[int] = (1, 2, 3, 4)
) -> dict[str, Measure]:
    """nlg-eval's cumulative BLEU-n for every n of ``orders`` (Papineni et al., 2002)."""
    parts = _bleu_parts(predictions, references, tokenize="none", lowercase=True)
    return {f"bleu_{n}": Measure(parts, partial(_bleu, order=n, smoothing="none")) for n in orders}


def sacrebleu(predictions: Sequence[str], references: References) -> Measure:
    """Sacrebleu's default BLEU, as a fraction (Post, 2018)."""
    return Measure(_bleu_parts(predictions, references, tokenize="13a"), lambda sums: _bleu(sums, 4, "exp"))


def rouge(
    predictions: Sequence[str], references: References, kinds: Iterable[str] = tuple(ROUGE_TYPES), stem: bool = False
) -> dict[str, Measure]:
    """F1 of ROUGE-1, -2 and -L (Lin, 2004), the mean over predictions.

    Args:
        stem: count English words of one Porter stem as one, as is usual for summaries.
    """
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([ROUGE_TYPES[kind] for kind in kinds], tokenizer=_Words(stem))
    scored = [
        scorer.score_multi(list(own), prediction) for prediction, own in zip(predictions, references, strict=True)
    ]
    return {kind: mean(score[ROUGE_TYPES[kind]].fmeasure for score in scored) for kind in kinds}


def meteor(predictions: Sequence[str], references: References) -> Measure:
    """METEOR (Lavie and Agarwal, 2007), the mean over predictions: α 0.9, β 3, γ 0.5.

    Words match as they are, by Porter stem and, where NLTK finds WordNet on this machine, as synonyms; `meteor_stages` says
    which of these it was.
    """
    from nltk.translate.meteor_score import meteor_score

    lexicon = _wordnet() or _NoSynonyms()
    return mean(
        meteor_score([words_of(r) for r in own], words_of(prediction), wordnet=lexicon) if own else 0.0
        for prediction, own in zip(predictions, references, strict=True)
    )


def meteor_stages() -> str:
    """How words are matched on this machine: "exact, stem" or "exact, stem, synonym"."""
    return "exact, stem, synonym" if _wordnet() is not None else "exact, stem"


def token_f1(predictions: Sequence[str], references: References) -> Measure:
    """F1 of the words of prediction and reference as bags, the mean over predictions."""
    return mean(
        max((_overlap(words_of(prediction), words_of(r)) for r in own), default=0.0)
        for prediction, own in zip(predictions, references, strict=True)
    )


def distinct(predictions: Sequence[str], order: int) -> float:
    """Different n-grams over all n-grams of the whole corpus (Li et al., 2016); 0 where there are none.

    No `Measure`: a sample with repetitions has fewer different n-grams by its making, so no interval can be drawn from it.
    """
    grams: Counter[tuple[str, ...]] = Counter()
    for prediction in predictions:
        words = words_of(prediction)
        grams.update(zip(*(words[start:] for start in range(order)), strict=False))
    return len(grams) / max(grams.total(), 1)


def _bleu_parts(predictions: Sequence[str], references: References, **options: Any) -> Floats:
    """(predictions, 10): length, reference length, matches and totals of 1- to 4-grams."""
    from sacrebleu.metrics.bleu import BLEU

    counter = BLEU(**options)
    rows = []
    for prediction, own in zip(predictions, references, strict=True):
        score: Any = counter.corpus_score([prediction], [[reference] for reference in own])
        rows.append((score.sys_len, score.ref_len, *score.counts, *score.totals))
    return np.array(rows, dtype=np.float64).reshape(-1, 10)


def _bleu(sums: Floats, order: int, smoothing: Literal["none", "exp"]) -> Floats:
    from sacrebleu.metrics.bleu import BLEU

    return np.array(
        [
            BLEU.compute_bleu(
                [int(n) for n in row[2 : 2 + order]],
                [int(n) for n in row[6 : 6 + order]],
                int(row[0]),
                int(row[1]),
                smooth_method=smoothing,
                max_ngram_order=order,
            ).score
            / 100
            if row[1]
            else np.nan
            for row in sums
        ]
    )


def _overlap(said: Sequence[str], wanted: Sequence[str]) -> float:
    shared = (Counter(said) & Counter(wanted)).total()
    return 2 * shared / (len(said) + len(wanted)) if shared else 0.0


def _divided(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


class _Words:
    """The tokenizer that rouge_score asks for; its own knows no letters but a to z."""

    def __init__(self, stem: bool) -> None:
        self._stem = stem

    def tokenize(self, text: str) -> list[str]:
        words = words_of(text)
        # Short words are left alone, as in the original Perl script.
        return [_stemmer().stem(word) if len(word) > 3 else word for word in words] if self._stem else words


class _NoSynonyms:
    def synsets(self, word: str) -> tuple[()]:
        return ()


@cache
def _stemmer() -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


@cache
def _wordnet() -> Any:
    """NLTK's WordNet, or None: nothing is ever fetched for it."""
    from nltk.corpus import wordnet

    try:
        wordnet.ensure_loaded()
    except LookupError:
        return None
    return wordnet
