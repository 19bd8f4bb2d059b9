"""A page on which people rate runs blind, and the evaluation of their ratings (LD-Agent, appendix B; Rsum; ECM, Table
7).

The page names no system; a key file next to it maps items to systems. Knows no terminal.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from ld_agent.datasets.records import json_lines, raise_bad
from ld_agent.errors import DataFileError, InputError
from ld_agent.evaluation.judging.form_items import Item
from ld_agent.evaluation.judging.judge import ERRORS
from ld_agent.files import write_text

RATED = ("0", "1", "2")
ANSWERED = ("no", "yes")
Question = tuple[str, tuple[str, ...]]
"""A question and the values to choose from."""
QUESTIONS: dict[str, dict[str, Question]] = {
    "chat": {
        "coherence": ("Do the replies follow from the conversation, across its sessions?", RATED),
        "fluency": ("Are the replies natural, correct language?", RATED),
        "engagingness": ("Would you like to continue this conversation?", RATED),
    },
    "recursive": {
        "engagingness": ("Is the reply interesting and engaging?", RATED),
        "coherence": ("Does the reply fit the conversation?", RATED),
        "consistency": ("Does the reply agree with what was said before?", RATED),
    },
    "benchmark": {
        "related": ("Is the question related to the source dialogue?", ANSWERED),
        "appropriate": ("Is the reply appropriate, given the source dialogue?", ANSWERED),
    },
    "pairs": {
        "preferred": ("Which reply would you rather get from a friend?", ("A", "no difference", "B")),
        "memory": ("Would it help here to remember an earlier conversation?", ANSWERED),
    },
    "memory": {"error": ("What is wrong with this statement of the memory?", ("nothing", *ERRORS.values()))},
}
LARGEST = max(len(values) for kind in QUESTIONS.values() for _, values in kind.values()) - 1
TEMPLATE = Path(__file__).with_name("form.html")


def write_form(
    items: Sequence[Item], kind: str, out: Path, *, seed: int = 0, about: Mapping[str, Any] | None = None
) -> Path:
    """Write the page and, next to it, the key that maps items to systems; return the key's path.

    Args:
        kind: a key of `QUESTIONS`.
        seed: of the shuffled order.
        about: further entries of the key, such as the runs' folders.

    Raises:
        InputError: the kind is unknown, or a file cannot be written.
    """
    if kind not in QUESTIONS:
        raise InputError(f"questions={kind!r} is not one of {', '.join(QUESTIONS)}")
    order = list(items)
    random.Random(seed).shuffle(order)
    content = json.dumps([[item.key, item.system, item.lines, item.reply] for item in order])
    form = hashlib.sha256(f"{kind} {seed} {content}".encode()).hexdigest()[:12]
    shown = [{"id": str(n), "lines": item.lines, "reply": item.reply} for n, item in enumerate(order, 1)]
    write_page(out, form, QUESTIONS[kind], shown)
    systems = {str(n): {"key": item.key, "system": item.system} for n, item in enumerate(order, 1)}
    key = out.with_suffix(".key.json")
    write_text(key, json.dumps({"form": form, "questions": kind, **(about or {}), "items": systems}, indent=1))
    return key


def write_page(
    out: Path,
    form: str,
    questions: Mapping[str, Question],
    items: Sequence[Mapping[str, Any]],
    labels: Sequence[str] = (),
) -> None:
    """Write a page that asks questions about items, one at a time.

    Args:
        form: identifies the page; what was answered on it is kept in the browser under this name.
        items: the ``id``, ``lines`` and ``reply`` of each.
        labels: names for the values of the only question; the page then exports ``{"id", "label"}`` instead of ratings.
    """
    asked = [{"name": name, "text": text, "values": values} for name, (text, values) in questions.items()]
    page = json.dumps({"form": form, "questions": asked, "items": items, "labels": labels}, ensure_ascii=False)
    write_text(out, TEMPLATE.read_text(encoding="utf-8").replace("{{DATA}}", page.replace("<", "\\u003c")))


Ratings = dict[str, dict[str, dict[str, int]]]
"""Values by aspect, item and annotator."""


def read_ratings(paths: Sequence[Path]) -> tuple[str, Ratings]:
    """Read exported ratings; return the form's id and the ratings.

    Raises:
        DataFileError: a line is malformed, given twice, or from another form.
        InputError: a file cannot be read, or there are no ratings.
    """
    form = ""
    ratings: Ratings = defaultdict(lambda: defaultdict(dict))
    for path in paths:
        for record in json_lines(path, raise_bad):
            form = form or record.text("form")
            if record.text("form") != form:
                raise record.error(f"form {record.text('form')!r} is not {form!r}; compare ratings of one page")
            value, annotator = record.values.get("value"), record.text("annotator")
            if type(value) is not int or value not in range(LARGEST + 1):
                raise record.error(f"value={value!r} is not a whole number from 0 to {LARGEST}")
            given = ratings[record.text("aspect")][record.text("item")]
            if annotator in given:
                raise record.error(f"{annotator!r} rates item {record.text('item')!r} twice; keep one rating")
            given[annotator] = value
    if not ratings:
        raise InputError("the files contain no ratings; export them from the page first")
    return form, ratings


def read_key(path: Path, form: str) -> Mapping[str, Any]:
    """Return a form's key, as `write_form` wrote it.

    Raises:
        DataFileError: the file is not a form's key, or another form's.
    """
    try:
        key: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        systems_of(key)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise DataFileError(path, 1, "not a key written by ld-agent judge form") from exc
    if key.get("form") != form:
        raise DataFileError(path, 1, f"the key of form {key.get('form')!r}, but the ratings are for form {form!r}")
    return key


def systems_of(key: Mapping[str, Any]) -> dict[str, str]:
    """Return the system of each item."""
    return {item: str(about["system"]) for item, about in key["items"].items()}


def preferences(ratings: Ratings, systems: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Count who was preferred in pairs: of all, and of those in which remembering would help.

    Args:
        systems: "A|B", the names of the two systems, by item.
    """
    helped = {(item, who) for item, given in ratings.get("memory", {}).items() for who, value in given.items() if value}
    counts = {"all": Counter[str](), "where memory helps": Counter[str]()}
    for item, given in ratings["preferred"].items():
        first, _, second = systems[item].partition("|")
        for who, value in given.items():
            preferred = (first, "no difference", second)[value]
            counts["all"][preferred] += 1
            if (item, who) in helped:
                counts["where memory helps"][preferred] += 1
    return {group: dict(counted) for group, counted in counts.items()}


def summary(ratings: Ratings, systems: dict[str, str] | None = None) -> dict[str, Any]:
    """Return mean and agreement by aspect and, with the systems of the items, means by system.

    Cohen's κ is the mean over pairs of annotators; Fleiss' κ covers the items that every annotator rated. κ is None where
    it is undefined. "qualified" is the share, in per cent, of ratings with two yeses (ECM, Table 7).
    """
    result: dict[str, Any] = {"aspects": {aspect: agreement(items) for aspect, items in ratings.items()}}
    if systems is not None:
        result["systems"] = {
            name: _means(
                {a: {i: v for i, v in items.items() if systems.get(i) == name} for a, items in ratings.items()}
            )
            for name in sorted(set(systems.values()))
        }
    return result | {"all": _means(ratings)}


def _means(ratings: Ratings) -> dict[str, float | None]:
    means = {a: _mean([v for given in items.values() for v in given.values()]) for a, items in ratings.items()}
    if set(ratings) == set(QUESTIONS["benchmark"]):
        means["qualified"] = _mean([100.0 * value for given in qualified(ratings).values() for value in given.values()])
    return means


def qualified(ratings: Ratings) -> dict[str, dict[str, int]]:
    """Return whether each sample is qualified, by item and annotator: 1 if both answers are yes (ECM, Table 7)."""
    return {
        item: {
            who: min(value, ratings["appropriate"][item][who])
            for who, value in given.items()
            if who in ratings["appropriate"].get(item, {})
        }
        for item, given in ratings["related"].items()
    }


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def agreement(items: dict[str, dict[str, int]]) -> dict[str, Any]:
    people = sorted({who for given in items.values() for who in given})
    pairs = [
        kappa
        for a, b in combinations(people, 2)
        if (kappa := cohen([(g[a], g[b]) for g in items.values() if a in g and b in g])) is not None
    ]
    whole = [list(given.values()) for given in items.values() if len(given) == len(people)]
    return {
        "annotators": len(people),
        "items": len(items),
        "rated_by_all": len(whole),
        "cohen": _mean(pairs),
        "fleiss": fleiss(whole) if len(people) > 1 else None,
    }


def cohen(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Return Cohen's κ of two annotators, in [-1, 1]; None if it is undefined."""
    if not pairs:
        return None
    n = len(pairs)
    observed = sum(a == b for a, b in pairs) / n
    values = {value for pair in pairs for value in pair}
    chance = sum(sum(a == v for a, _ in pairs) * sum(b == v for _, b in pairs) for v in values) / n**2
    return None if len(values) == 1 else (observed - chance) / (1 - chance)


def fleiss(rows: Sequence[Sequence[int]]) -> float | None:
    """Return Fleiss' κ of (items, annotators) values, at least two annotators, in [-1, 1]; None if it is undefined."""
    values = {value for row in rows for value in row}
    if len(values) < 2:
        return None
    n = len(rows[0])
    observed = fmean((sum(row.count(v) ** 2 for v in values) - n) / (n * (n - 1)) for row in map(list, rows))
    chance = sum((sum(list(row).count(v) for row in rows) / (len(rows) * n)) ** 2 for v in values)
    return (observed - chance) / (1 - chance)
