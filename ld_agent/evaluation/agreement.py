"""How far a judge agrees with people: accuracy, Cohen's kappa, and correlations where the labels are numbers.

Knows labels and nothing of what was labelled. The statistics are scipy's and scikit-learn's.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ld_agent.datasets.records import json_lines, raise_bad
from ld_agent.errors import InputError


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement over the cases for which the judge stated a verdict.

    Attributes:
        cases: how many those are.
        unparsed: cases without a verdict, which count nowhere below.
        accuracy: share of equal labels, in [0, 1].
        kappa: Cohen's kappa, in [-1, 1]; None: all labels of both are one and the same, so that chance explains all.
        pearson, spearman: correlations in [-1, 1]; None: labels that are no numbers, or that do not vary.
    """

    cases: int
    unparsed: int
    accuracy: float
    kappa: float | None
    pearson: float | None
    spearman: float | None

    def as_json(self) -> dict[str, float | int | None]:
        return asdict(self)


def agreement(judged: Sequence[int | float | str | None], labels: Sequence[int | float | str]) -> Agreement:
    """Compare a judge's verdicts with people's labels of the same cases.

    Args:
        judged: None where the judge stated no verdict.

    Raises:
        InputError: lists of different lengths, or not one verdict.
    """
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import cohen_kappa_score

    if len(judged) != len(labels):
        raise InputError(f"{len(judged)} verdicts stand against {len(labels)} labels; give one label for each verdict")
    pairs = [(verdict, label) for verdict, label in zip(judged, labels, strict=True) if verdict is not None]
    if not pairs:
        raise InputError(f"none of {len(judged)} verdicts was stated; there is nothing to compare")
    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    equal = sum(ours[i] == theirs[i] for i in range(len(pairs))) / len(pairs)
    pearson = spearman = None
    numeric = all(isinstance(value, int | float) for value in (*ours, *theirs))
    if numeric and len(set(ours)) > 1 and len(set(theirs)) > 1:
        pearson = _number(pearsonr(ours, theirs).statistic)
        spearman = _number(spearmanr(ours, theirs).statistic)
    names = sorted({_name(value) for value in (*ours, *theirs)})
    kappa = None
    if len(names) > 1:
        kappa = _number(cohen_kappa_score([_name(v) for v in ours], [_name(v) for v in theirs], labels=names))
    return Agreement(len(pairs), len(judged) - len(pairs), equal, kappa, pearson, spearman)


def read_labels(path: Path, known: Collection[tuple[str, str]]) -> dict[tuple[str, str], int | float | str]:
    """Read people's labels, JSON lines of ``key``, ``label`` and, for ratings, ``aspect``; by (key, aspect).

    Args:
        known: what was judged.

    Raises:
        DataFileError: a line of another shape, one given twice, or one about what was not judged.
        InputError: the file cannot be read, or is empty.
    """
    labels: dict[tuple[str, str], int | float | str] = {}
    for record in json_lines(path, raise_bad):
        place = (record.text("key"), str(record.values.get("aspect") or ""))
        label = record.values.get("label")
        if isinstance(label, bool) or not isinstance(label, int | float | str):
            raise record.error(f"label={label!r} is neither a number nor a text")
        if place in labels:
            raise record.error(f"key {place[0]!r} was labelled already; give each label once")
        if place not in known:
            of = f" on {place[1]}" if place[1] else ""
            raise record.error(f"key {place[0]!r}{of} was not judged; label what the verdicts are about")
        labels[place] = label
    if not labels:
        raise InputError(f'{path} holds no labels; give lines like {{"key": "valid_3/1", "label": 2}}')
    return labels


def _name(value: int | float | str) -> str:
    """A label as a category: 2 and 2.0 are one."""
    return value if isinstance(value, str) else format(float(value), "g")


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
