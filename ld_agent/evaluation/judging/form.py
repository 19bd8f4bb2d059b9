"""A page on which people rate runs blind, and the evaluation of their ratings (LD-Agent, appendix B; Rsum; ECM, Table
7).

The page names no system; a key file next to it maps items to systems. Knows no terminal.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from ld_agent.errors import DataFileError, InputError
from ld_agent.evaluation.bootstrap import interval
from ld_agent.evaluation.judging.agreement import Ratings, Value, agreement
from ld_agent.evaluation.judging.judge import ERRORS, Case, Verdict
from ld_agent.evaluation.judging.verdicts import PEOPLE, Judged, write_verdicts
from ld_agent.evaluation.metrics import mean
from ld_agent.evaluation.tables.runs import FIGURES, write_figures
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
        "preferred": ("Which reply would you rather get from a friend?", ("left", "no difference", "right")),
        "memory": ("Would it help here to remember an earlier conversation?", ANSWERED),
    },
    "memory": {"error": ("What is wrong with this statement of the memory?", ("nothing", *ERRORS.values()))},
}
FOR_TABLES = ("recursive", "memory", "benchmark")
"""Questions whose answers appear in a table."""
TEMPLATE = Path(__file__).with_name("form.html")


def write_form(cases: Sequence[Case], kind: str, out: Path, seed: int = 0, **about: Any) -> Path:
    """Write the page and, next to it, the key that maps items to systems; return the key's path.

    Args:
        cases: each with candidates to rate by themselves or, of pairs, left and right; "": the lines as a whole.
        kind: a key of `QUESTIONS`.
        seed: of the shuffled order.
        about: further entries of the key, such as the runs' folders.
    """
    if kind not in QUESTIONS:
        raise InputError(f"questions={kind!r} is not one of {', '.join(QUESTIONS)}")
    order: list[tuple[Case, str | list[str], str | list[str]]] = (
        [(case, [*case.candidates], [*case.candidates.values()]) for case in cases]
        if kind == "pairs"
        else [(case, system, reply) for case in cases for system, reply in case.candidates.items()]
    )
    random.Random(seed).shuffle(order)
    content = json.dumps([[case.id, system, case.lines, reply] for case, system, reply in order])
    form = hashlib.sha256(f"{kind} {seed} {content}".encode()).hexdigest()[:12]
    shown = [{"id": str(n), "lines": case.lines, "reply": reply} for n, (case, _, reply) in enumerate(order, 1)]
    write_page(out, form, QUESTIONS[kind], shown)
    systems = {str(n): {"key": case.id, "system": system} for n, (case, system, _) in enumerate(order, 1)}
    key = out.with_suffix(".key.json")
    write_text(key, json.dumps({"form": form, "questions": kind, **about, "items": systems}, indent=1))
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
        items: the ``id``, ``lines`` and ``reply`` of each, or both replies of a pair.
        labels: names for the values of the only question; the page then exports ``{"id", "label"}`` instead of ratings.
    """
    asked = [{"name": name, "text": text, "values": values} for name, (text, values) in questions.items()]
    page = json.dumps({"form": form, "questions": asked, "items": items, "labels": labels}, ensure_ascii=False)
    write_text(out, TEMPLATE.read_text(encoding="utf-8").replace("{{DATA}}", page.replace("<", "\\u003c")))


def read_key(path: Path, form: str, ratings: Ratings) -> Mapping[str, Any]:
    """Return the key of a form, as `write_form` wrote it, after checking that it names the items of the ratings."""
    try:
        key: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        systems_of(key)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise DataFileError(path, 1, "not a key written by ld-agent judge form") from exc
    if key.get("form") != form:
        raise DataFileError(path, 1, f"the key of form {key.get('form')!r}, but the ratings are for form {form!r}")
    if strange := {item for items in ratings.values() for item in items} - set(key["items"]):
        raise InputError(
            f"{path} has no item {min(strange)!r}, which has a rating; export the ratings from the page again"
        )
    return key


def systems_of(key: Mapping[str, Any]) -> dict[str, str]:
    """Return the system of each item."""
    return {item: str(about["system"]) for item, about in key["items"].items()}


# ---- what the ratings say


def summary(ratings: Ratings, systems: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return mean and agreement by aspect and, with the systems of the items, means by system.

    "qualified" is the share, in per cent, of ratings with two yeses (ECM, Table 7).
    """
    result: dict[str, Any] = {"aspects": {aspect: agreement(items) for aspect, items in ratings.items()}}
    if systems is not None:
        result["systems"] = {name: _means(ratings, systems, name) for name in sorted(set(systems.values()))}
    return result | {"all": _means(ratings)}


def preferences(ratings: Ratings, key: Mapping[str, Any]) -> dict[str, Any]:
    """Return how often each run of a form of pairs was preferred, of all and where remembering would help.

    ``share`` is in [0, 1], of the ratings, those of no difference too. Its ``interval`` resamples conversations or, if there is
    only one, pairs.
    """
    given = [(item, who, value) for item, by in ratings.get("preferred", {}).items() for who, value in by.items()]
    if bad := [value for _, _, value in given if value not in (0, 1, 2)]:
        raise InputError(f"a rating of a pair is 0, 1 or 2, not {bad[0]!r}")
    helped = {(item, who) for item, by in ratings.get("memory", {}).items() for who, value in by.items() if value == 1}
    groups = {"preferred": given, "preferred where memory helps": [one for one in given if one[:2] in helped]}
    left_right = {item: about["system"] for item, about in key["items"].items()}
    systems = sorted({name for names in left_right.values() for name in names})
    of = {item: about["key"].rpartition("/")[0] for item, about in key["items"].items()}
    over = "conversations" if len(set(of.values())) > 1 else "pairs"
    result: dict[str, Any] = {"aspects": {aspect: agreement(items) for aspect, items in ratings.items()}}
    for group, rated in groups.items():
        chosen = [(left_right[item][0], "no difference", left_right[item][1])[int(value)] for item, _, value in rated]
        units = [of[item] if over == "conversations" else item for item, _, _ in rated]
        result[group] = {
            name: _preferred([one == name for one in chosen], units) for name in (*systems, "no difference")
        }
    return result | {"intervals_over": over}


def _preferred(chosen: Sequence[bool], units: Sequence[str]) -> dict[str, Any]:
    share = mean(map(float, chosen))
    return {
        "count": sum(chosen),
        "of": len(chosen),
        "share": share.overall if chosen else None,
        "interval": interval(share, units) if chosen else None,
    }


def _means(ratings: Ratings, systems: Mapping[str, str] | None = None, system: str = "") -> dict[str, float | None]:
    """The mean by aspect, of all items or of those of a system."""
    of_system = {
        aspect: {item: given for item, given in items.items() if systems is None or systems.get(item) == system}
        for aspect, items in ratings.items()
    }
    means = {aspect: _mean(items) for aspect, items in of_system.items()}
    if set(ratings) == set(QUESTIONS["benchmark"]):
        share = _mean(qualified(of_system))
        means["qualified"] = None if share is None else 100 * share
    return means


def _mean(items: Mapping[str, Mapping[str, Value]]) -> float | None:
    values = [value for given in items.values() for value in given.values() if not isinstance(value, str)]
    return fmean(values) if values else None


def qualified(ratings: Ratings) -> dict[str, dict[str, Value]]:
    """Return whether each sample is qualified, by item and annotator: 1 if both answers are yes (ECM, Table 7)."""
    both = {item: (given, ratings["appropriate"].get(item, {})) for item, given in ratings["related"].items()}
    return {
        item: {who: min(int(value), int(other[who])) for who, value in given.items() if who in other}
        for item, (given, other) in both.items()
    }


def keep_ratings(ratings: Ratings, key: Mapping[str, Any], path: Path) -> list[Path]:
    """Write ratings where `tables` finds them: next to the runs they are about or, of a benchmark, beside the key at ``path``."""
    if (asked := key["questions"]) not in FOR_TABLES:
        raise InputError(f"no table has ratings of {asked!r}, only of {', '.join(FOR_TABLES)}; omit --keep")
    if asked == "benchmark":
        both = qualified(ratings)
        agreed, share = agreement(both), _mean(both)
        values = {} if share is None else {"qualified": 100 * share}
        values |= {} if agreed["fleiss"] is None else {"kappa": agreed["fleiss"]}
        note = f"Ratings of {key['data']}: {agreed['items']} samples by {agreed['annotators']} people."
        facts = {"task": "ratings", "benchmark": key["benchmark"]}
        beside = path.with_suffix("").with_suffix(f".{FIGURES}")
        write_figures(beside, [{"data": key["data"], "facts": facts, "values": values, "note": note}])
        return [beside]
    people = len({who for items in ratings.values() for given in items.values() for who in given})
    written = []
    for system, about in key["runs"].items():
        folder = Path(about["folder"])
        if not folder.is_dir():
            raise InputError(
                f"{folder}, the run of {system!r}, is gone; restore it, because its ratings are kept there"
            )
        verdicts = tuple(
            Verdict(key["items"][item]["key"], aspect, int(value), (who,))
            for aspect, items in ratings.items()
            for item, given in items.items()
            if key["items"][item]["system"] == system
            for who, value in given.items()
        )
        judged = Judged(PEOPLE, f"{people} people", (system,), (about["hash"],), 0, verdicts)
        written.append(write_verdicts(folder, judged))
    return written
