"""Metrics of texts against references: BLEU, ROUGE, METEOR, token F1, Distinct-n, accuracy, perplexity.

A metric is a `Measure`: additive statistics per prediction, and a function of their sum. One pass over the texts thus
yields the metric of the whole corpus, of each session and of every bootstrap sample. All metrics except perplexity are
fractions. Knows no model, corpus or file.

``bleu_n``, as the papers report it, is that of the nlg-eval package: corpus level, uniform weights for n-grams up to n,
lower-cased words split at white space, closest reference length, no smoothing.

ROUGE counts lower-cased words of any script, without stemming by default; ROUGE-L is the F1 of the longest common
subsequence of the whole text. Of several references, the best one counts. Chinese and Japanese have no spaces: there, each
character is a word of ``bleu_n``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ld_agent.text import words_of

Floats = NDArray[np.float64]
References = Sequence[Sequence[str]]
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\u3001-\u3003\uff01-\uff0f\uff1a-\uff1f]")
"""Kana, Chinese characters and their punctuation."""
ROUGE_TYPES = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric computed from sums over predictions.

    Attributes:
        parts: (predictions, k), the statistics of each prediction.
        value: sums (samples, k) → metric (samples,); nan where nothing was counted.
    """

    parts: Floats
    value: Callable[[Floats], Floats]

    @property
    def overall(self) -> float:
        """The metric over all predictions."""
        return float(self.value(self.parts.sum(axis=0, keepdims=True))[0])

    def where(self, chosen: Sequence[bool]) -> Measure:
        """Restrict the metric to some predictions."""
        return Measure(self.parts * np.asarray(chosen, dtype=np.float64)[:, None], self.value)


def mean(values: Iterable[float]) -> Measure:
    """Return the mean of one value per prediction."""
    return shares([(value, 1.0) for value in values])


def shares(counts: Sequence[tuple[float, float]]) -> Measure:
    """Return a share over all predictions, given (count, total) of each."""
    parts = np.array(counts, dtype=np.float64).reshape(-1, 2)
    return Measure(parts, lambda sums: _divided(sums[:, 0], sums[:, 1]))


def accuracy(predicted: Sequence[bool], actual: Sequence[bool]) -> Measure:
    """Return the share of correct decisions, such as trait or no trait (LD-Agent, table 3)."""
    return mean(float(a == b) for a, b in zip(predicted, actual, strict=True))


def perplexity(nats: Sequence[float], tokens: Sequence[int]) -> Measure:
    """Return the exponential of the mean negative log-likelihood per token, given the ``nats`` and ``tokens`` of each text."""
    average = shares([*zip(nats, tokens, strict=True)])
    return Measure(average.parts, lambda sums: np.exp(average.value(sums)))


def bleu(
    predictions: Sequence[str], references: References, orders: Sequence[int] = (1, 2, 3, 4)
) -> dict[str, Measure]:
    """Compute nlg-eval's cumulative BLEU-n for every n in ``orders`` (Papineni et al., 2002)."""
    spaced = [[_spaced(text) for text in texts] for texts in references]
    parts = _bleu_parts([_spaced(text) for text in predictions], spaced)
    return {f"bleu_{n}": Measure(parts, partial(_bleu, order=n)) for n in orders}


def rouge(
    predictions: Sequence[str], references: References, kinds: Iterable[str] = tuple(ROUGE_TYPES), stem: bool = False
) -> dict[str, Measure]:
    """Compute the mean F1 of ROUGE-1, -2 and -L (Lin, 2004), with ``stem`` after Porter's stemmer, as is usual for summaries."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(
        [ROUGE_TYPES[kind] for kind in kinds], tokenizer=SimpleNamespace(tokenize=partial(_words, stem=stem))
    )
    scored = [
        scorer.score_multi(list(texts), prediction) for prediction, texts in zip(predictions, references, strict=True)
    ]
    return {kind: mean(score[ROUGE_TYPES[kind]].fmeasure for score in scored) for kind in kinds}


def meteor(predictions: Sequence[str], references: References) -> Measure:
    """Compute the mean METEOR (Lavie and Agarwal, 2007) with α = 0.9, β = 3, γ = 0.5, of words equal or with one Porter stem."""
    from nltk.translate.meteor_score import meteor_score

    no_synonyms = SimpleNamespace(synsets=lambda word: ())
    return mean(
        meteor_score([words_of(r) for r in texts], words_of(prediction), wordnet=no_synonyms) if texts else 0.0
        for prediction, texts in zip(predictions, references, strict=True)
    )


def token_f1(predictions: Sequence[str], references: References) -> Measure:
    """Compute the mean F1 over bags of words."""
    return mean(
        max((_overlap(words_of(prediction), words_of(r)) for r in texts), default=0.0)
        for prediction, texts in zip(predictions, references, strict=True)
    )


def distinct(predictions: Sequence[str], order: int) -> float:
    """Return the share of distinct n-grams among all n-grams of the corpus (Li et al., 2016).

    0 without n-grams. Not a `Measure`: resampling with replacement repeats n-grams, so a bootstrap interval would be biased.
    """
    grams: Counter[tuple[str, ...]] = Counter()
    for prediction in predictions:
        words = words_of(prediction)
        grams.update(zip(*(words[start:] for start in range(order)), strict=False))
    return len(grams) / max(grams.total(), 1)


def _spaced(text: str) -> str:
    return _UNSPACED.sub(r" \g<0> ", text)


def _bleu_parts(predictions: Sequence[str], references: References) -> Floats:
    """Return (predictions, 10): length, reference length, matches and totals of 1- to 4-grams."""
    from sacrebleu.metrics.bleu import BLEU

    counter = BLEU(tokenize="none", lowercase=True)
    rows = []
    for prediction, texts in zip(predictions, references, strict=True):
        score: Any = counter.corpus_score([prediction], [[text] for text in texts])
        rows.append((score.sys_len, score.ref_len, *score.counts, *score.totals))
    return np.array(rows, dtype=np.float64).reshape(-1, 10)


def _bleu(sums: Floats, order: int) -> Floats:
    from sacrebleu.metrics.bleu import BLEU

    def score(length: int, reference: int, *counts: int) -> float:
        if not reference:
            return np.nan
        matches, totals = list(counts[:order]), list(counts[4 : 4 + order])
        bleu = BLEU.compute_bleu(matches, totals, length, reference, smooth_method="none", max_ngram_order=order)
        return bleu.score / 100

    return np.array([score(*row) for row in sums.astype(int).tolist()])


def _overlap(predicted: Sequence[str], expected: Sequence[str]) -> float:
    shared = (Counter(predicted) & Counter(expected)).total()
    return 2 * shared / (len(predicted) + len(expected)) if shared else 0.0


def _divided(numerator: Floats, denominator: Floats) -> Floats:
    return np.divide(numerator, denominator, out=np.full_like(numerator, np.nan), where=denominator > 0)


def _words(text: str, stem: bool) -> list[str]:
    """Split a text for rouge_score, whose default drops all letters except a to z."""
    words = words_of(text)
    # Short words are not stemmed, as in the original Perl script.
    return [_stemmer().stem(word) if len(word) > 3 else word for word in words] if stem else words


@cache
def _stemmer() -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()
