"""Agreement of people with one another and of a judge with people: accuracy, Cohen's and Fleiss' kappa, correlations.

scipy computes the correlations. Knows no page.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from ld_agent.datasets.records import json_lines, raise_bad
from ld_agent.errors import InputError
from ld_agent.evaluation.judging.judge import Value
from ld_agent.evaluation.judging.verdicts import read_verdicts


def among_people(items: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return the agreement over the values of items by annotator.

    Cohen's κ is the mean over pairs of annotators; Fleiss' κ covers the items that every annotator rated.
    """
    people = sorted({who for given in items.values() for who in given})
    of_pairs = [cohen([(g[a], g[b]) for g in items.values() if a in g and b in g]) for a, b in combinations(people, 2)]
    kappas = [kappa for kappa in of_pairs if kappa is not None]
    whole = [list(given.values()) for given in items.values() if len(given) == len(people)]
    return {
        "annotators": len(people),
        "items": len(items),
        "rated_by_all": len(whole),
        "cohen": fmean(kappas) if kappas else None,
        "fleiss": fleiss(whole) if len(people) > 1 else None,
    }


def cohen(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Return Cohen's κ of two annotators, in [-1, 1]; None if it is undefined."""
    values = {value for pair in pairs for value in pair}
    if len(values) < 2:
        return None
    n = len(pairs)
    observed = sum(a == b for a, b in pairs) / n
    chance = sum(sum(a == v for a, _ in pairs) * sum(b == v for _, b in pairs) for v in values) / n**2
    return (observed - chance) / (1 - chance)


def fleiss(rows: Sequence[Sequence[int]]) -> float | None:
    """Return Fleiss' κ of (items, annotators) values, at least two annotators, in [-1, 1]; None if it is undefined."""
    values = {value for row in rows for value in row}
    if len(values) < 2:
        return None
    n = len(rows[0])
    observed = fmean((sum(row.count(v) ** 2 for v in values) - n) / (n * (n - 1)) for row in rows)
    chance = sum((sum(row.count(v) for row in rows) / (len(rows) * n)) ** 2 for v in values)
    return (observed - chance) / (1 - chance)


def with_labels(judged: Sequence[Value | float], labels: Sequence[Value | float]) -> dict[str, Any]:
    """Compare a judge's verdicts with people's labels of the same cases.

    ``unparsed`` counts the cases without a verdict, which are in no other figure. ``kappa`` and the correlations are None
    where they are undefined: labels that are all the same, or no numbers.
    """
    from scipy.stats import pearsonr, spearmanr

    pairs = [(verdict, label) for verdict, label in zip(judged, labels, strict=True) if verdict is not None]
    if not pairs:
        raise InputError(f"none of the {len(judged)} cases has a verdict; there is nothing to compare")
    correlations: dict[str, float | None] = {"pearson": None, "spearman": None}
    columns = [list(column) for column in zip(*pairs, strict=True)]
    if all(isinstance(value, int | float) for pair in pairs for value in pair) and all(
        len(set(c)) > 1 for c in columns
    ):
        for name, correlation in (("pearson", pearsonr), ("spearman", spearmanr)):
            value = float(correlation(*columns).statistic)
            correlations[name] = None if math.isnan(value) else value
    return {
        "cases": len(pairs),
        "unparsed": len(judged) - len(pairs),
        "accuracy": sum(a == b for a, b in pairs) / len(pairs),
        "kappa": cohen(pairs),
        **correlations,
    }


def read_labels(path: Path, known: Collection[tuple[str, str]]) -> dict[tuple[str, str], Any]:
    """Read people's labels by (key, aspect): JSON lines of ``key``, ``label`` and, for ratings, ``aspect``.

    A label of one of several runs names its folder under ``run``; its key is then `of_run`. ``known`` are the pairs judged.
    """
    labels: dict[tuple[str, str], Any] = {}
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


def with_people(files: Sequence[Path], labels: Path) -> dict[str, Any]:
    """Compare a judge's verdicts in one or several files with people's labels, by aspect if there are any."""
    read = {path: read_verdicts(path) for path in files}
    judges = {(judged.kind, judged.judge) for judged in read.values()}
    if len(judges) > 1:
        raise InputError(f"the files have verdicts of {len(judges)} judges or kinds of judgement; give files of one")
    [(kind, judge)] = judges
    verdicts = {
        (of_run(path.parent.name, one.key) if len(files) > 1 else one.key, one.aspect): one.value
        for path, judged in read.items()
        for one in judged.verdicts
    }
    given = read_labels(labels, verdicts.keys())
    by_aspect = {}
    for aspect in dict.fromkeys(aspect for _, aspect in verdicts):
        places = [place for place in verdicts if place[1] == aspect and place in given]
        if places:
            by_aspect[aspect] = with_labels([verdicts[p] for p in places], [given[p] for p in places])
    return {"kind": kind, "judge": judge} | (by_aspect[""] if set(by_aspect) == {""} else by_aspect)
