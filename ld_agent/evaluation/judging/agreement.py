"""Ratings of the same items by several raters, people or a judge: how they are read, and how far the raters agree.

Knows no page and no run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from ld_agent.datasets.records import Record, json_lines, raise_bad
from ld_agent.errors import InputError

Value = int | float | str
Pairs = Sequence[tuple[Value, Value]]
Ratings = dict[str, dict[str, dict[str, Value]]]
"""Values by aspect ("": none), item and rater."""


def agreement(items: Mapping[str, Mapping[str, Value]]) -> dict[str, Any]:
    """Return the agreement over the ratings of items by rater.

    ``accuracy``, the share of equal ratings, Cohen's κ and Spearman's ρ are means over pairs of raters; Fleiss' κ covers the
    items that every rater rated. None: undefined.
    """
    raters = sorted({who for given in items.values() for who in given})
    pairs = [[(g[a], g[b]) for g in items.values() if a in g and b in g] for a, b in combinations(raters, 2)]
    whole = [list(given.values()) for given in items.values() if len(given) == len(raters)]
    return {
        "annotators": len(raters),
        "items": len(items),
        "rated_by_all": len(whole),
        "accuracy": _mean([fmean(a == b for a, b in pair) for pair in pairs if pair]),
        "cohen": _mean([cohen(pair) for pair in pairs]),
        "spearman": _mean([spearman(pair) for pair in pairs]),
        "fleiss": fleiss(whole) if len(raters) > 1 else None,
    }


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return fmean(defined) if defined else None


def cohen(pairs: Pairs) -> float | None:
    """Return Cohen's κ of two raters, in [-1, 1]; None if it is undefined."""
    values = {value for pair in pairs for value in pair}
    if len(values) < 2:
        return None
    n = len(pairs)
    observed = sum(a == b for a, b in pairs) / n
    chance = sum(sum(a == v for a, _ in pairs) * sum(b == v for _, b in pairs) for v in values) / n**2
    return (observed - chance) / (1 - chance)


def fleiss(rows: Sequence[Sequence[Value]]) -> float | None:
    """Return Fleiss' κ of (items, raters) values, at least two raters, in [-1, 1]; None if it is undefined."""
    values = {value for row in rows for value in row}
    if len(values) < 2:
        return None
    n = len(rows[0])
    observed = fmean((sum(row.count(v) ** 2 for v in values) - n) / (n * (n - 1)) for row in rows)
    chance = sum((sum(row.count(v) for row in rows) / (len(rows) * n)) ** 2 for v in values)
    return (observed - chance) / (1 - chance)


def spearman(pairs: Pairs) -> float | None:
    """Return Spearman's ρ of two raters' numbers, in [-1, 1]; None if it is undefined, as where one gives the same to all."""
    from scipy.stats import spearmanr

    if any(isinstance(value, str) for pair in pairs for value in pair):
        return None
    columns = [list(column) for column in zip(*pairs, strict=True)]
    if not columns or any(len(set(column)) < 2 for column in columns):
        return None
    rho = float(spearmanr(*columns).statistic)
    return None if math.isnan(rho) else rho


def read_ratings(paths: Sequence[Path]) -> tuple[str, Ratings]:
    """Read the ratings of the same items: those that a page exported, a judge's verdicts, and people's labels.

    A label is a line of ``key``, ``label`` and, of several aspects, ``aspect``; it names the folder of its ``run`` where the
    verdicts are on several.

    Returns: the page's id ("" of verdicts and labels), and the ratings.
    """
    judged = [path for path in paths if "verdicts" in next(iter(json_lines(path, raise_bad)), ())]
    forms: set[str] = set()
    ratings: Ratings = defaultdict(lambda: defaultdict(dict))
    for path in paths:
        for record, form, aspect, item, rater, value in _given(path, pooled=len(judged) > 1):
            forms.add(form)
            if len(forms) > 1:
                raise record.error(f"form {form!r} is not {min(forms - {form})!r}; compare ratings of one page")
            if isinstance(value, bool) or not isinstance(value, Value):
                raise record.error(f"value={value!r} is neither a number nor text")
            given = ratings[aspect][item]
            if rater in given:
                raise record.error(f"{rater!r} rates {item!r} twice; keep one rating")
            given[rater] = value
    if not ratings:
        raise InputError("the files contain no ratings; export them from the page first")
    if judged and not any(len(given) > 1 for items in ratings.values() for given in items.values()):
        raise InputError("no case has both a verdict and a label; give files about the same cases")
    return min(forms), ratings


def _given(path: Path, *, pooled: bool) -> Iterator[tuple[Record, str, str, str, str, Any]]:
    """Yield each rating of a file: its record, form, aspect, item, rater and value; ``pooled``: verdicts name their run."""
    judge, run = "", f"{path.parent.name}: " if pooled else ""
    for record in json_lines(path, raise_bad):
        aspect = str(record.values.get("aspect") or "")
        if "verdicts" in record:
            judge = record.record("verdicts").text("judge")
        elif judge:
            if (value := record.values.get("verdict")) is not None:
                yield record, "", aspect, run + record.text("key"), f"judge {judge}", value
        elif "form" in record:
            form, item, rater = (record.text(name) for name in ("form", "item", "annotator"))
            yield record, form, aspect, item, rater, record.values.get("value")
        else:
            of = f"{record.text('run')}: " if "run" in record else ""
            yield record, "", aspect, of + record.text("key"), str(path), record.values.get("label")
