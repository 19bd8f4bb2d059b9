"""Agreement of a judge with human labels: accuracy, Cohen's kappa and, for numeric labels, correlations.

scipy computes the correlations.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ld_agent.datasets.records import json_lines, raise_bad
from ld_agent.errors import InputError
from ld_agent.evaluation.judging.form import cohen
from ld_agent.evaluation.judging.verdicts import read_verdicts


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement over the cases with a verdict.

    Attributes:
        cases: number of cases with a verdict.
        unparsed: number of cases without a verdict, excluded from all figures below.
        accuracy: share of equal labels, in [0, 1].
        kappa: Cohen's kappa, in [-1, 1]; None: undefined, because judge and people use one and the same label only.
        pearson, spearman: correlations in [-1, 1]; None: the labels are not numbers, or they are constant.
    """

    cases: int
    unparsed: int
    accuracy: float
    kappa: float | None
    pearson: float | None
    spearman: float | None


def agreement(judged: Sequence[int | float | str | None], labels: Sequence[int | float | str]) -> Agreement:
    """Compare a judge's verdicts with human labels of the same cases.

    Args:
        judged: None for a case without a verdict.

    Raises:
        InputError: the lists differ in length, or there is no verdict at all.
    """
    from scipy.stats import pearsonr, spearmanr

    if len(judged) != len(labels):
        raise InputError(f"{len(judged)} verdicts but {len(labels)} labels; give one label per verdict")
    pairs = [(verdict, label) for verdict, label in zip(judged, labels, strict=True) if verdict is not None]
    if not pairs:
        raise InputError(f"none of the {len(judged)} cases has a verdict; there is nothing to compare")
    ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    pearson = spearman = None
    numeric = all(isinstance(value, int | float) for value in (*ours, *theirs))
    if numeric and len(set(ours)) > 1 and len(set(theirs)) > 1:
        pearson = _number(pearsonr(ours, theirs).statistic)
        spearman = _number(spearmanr(ours, theirs).statistic)
    return Agreement(
        cases=len(pairs),
        unparsed=len(judged) - len(pairs),
        accuracy=sum(a == b for a, b in pairs) / len(pairs),
        kappa=cohen(pairs),
        pearson=pearson,
        spearman=spearman,
    )


def read_labels(path: Path, known: Collection[tuple[str, str]]) -> dict[tuple[str, str], int | float | str]:
    """Read human labels by (key, aspect): JSON lines of ``key``, ``label`` and, for ratings, ``aspect``.

    A label of one of several runs names its folder under ``run``; its key is then `of_run`.

    Args:
        known: the (key, aspect) pairs that were judged.

    Raises:
        DataFileError: a line is malformed, repeated, or about a case that was not judged.
        InputError: the file cannot be read or is empty.
    """
    labels: dict[tuple[str, str], int | float | str] = {}
    for record in json_lines(path, raise_bad):
        key, run = record.text("key"), str(record.values.get("run") or "")
        place = (of_run(run, key) if run else key, str(record.values.get("aspect") or ""))
        label = record.values.get("label")
        if isinstance(label, bool) or not isinstance(label, int | float | str):
            raise record.error(f"label={label!r} is neither a number nor text")
        if place in labels:
            raise record.error(f"key {place[0]!r} is labelled twice; keep one label")
        if place not in known:
            of = f" on {place[1]}" if place[1] else ""
            raise record.error(f"key {place[0]!r}{of} was not judged; label only judged cases")
        labels[place] = label
    if not labels:
        raise InputError(f'{path} contains no labels; add lines such as {{"key": "valid_3/1", "label": 2}}')
    return labels


def of_run(run: str, key: str) -> str:
    """Return a case's key among those of several runs."""
    return f"{run}: {key}"


def agreement_with_people(files: Sequence[Path], labels: Path) -> dict[str, Any]:
    """Compare a judge's verdicts in one or several files with people's labels, by aspect if there are any.

    Raises:
        InputError: the files have verdicts of different judges; and as in `read_labels` and `agreement`.
    """
    read = {path: read_verdicts(path) for path in files}
    judges = {(judged.kind, judged.judge) for judged in read.values()}
    if len(judges) > 1:
        raise InputError(f"the files have verdicts of {len(judges)} judges or kinds of judgement; give files of one")
    verdicts = [
        (of_run(path.parent.name, key) if len(files) > 1 else key, aspect, verdict)
        for path, judged in read.items()
        for key, aspect, verdict in judged.verdicts
    ]
    given = read_labels(labels, {(key, aspect) for key, aspect, _ in verdicts})
    kind, judge = judges.pop()
    by_aspect = {}
    for aspect in dict.fromkeys(aspect for _, aspect, _ in verdicts):
        pairs = [(v, given[key, of]) for key, of, v in verdicts if of == aspect and (key, of) in given]
        if pairs:
            by_aspect[aspect] = asdict(agreement([v for v, _ in pairs], [label for _, label in pairs]))
    return {"kind": kind, "judge": judge} | (by_aspect[""] if set(by_aspect) == {""} else by_aspect)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
