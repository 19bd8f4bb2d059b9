"""Stores people's ratings where `tables` and `figures` find them: next to the runs they are about or, of a benchmark and of chats
that belong to no run, next to the key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ld_agent.errors import InputError
from ld_agent.evaluation.judging.form import Ratings, agreement, qualified, summary, systems_of
from ld_agent.evaluation.judging.verdicts import FORMAT, PEOPLE, write_lines
from ld_agent.evaluation.tables.table_figures import CHATS, RATINGS
from ld_agent.files import written_atomically

FOR_TABLES = ("recursive", "memory")
"""Questions whose answers appear in a table; those of chats are in Figure 3b."""


def keep_ratings(ratings: Ratings, key: Mapping[str, Any], path: Path) -> list[Path]:
    """Write the ratings for `tables` and return the files.

    Args:
        key: the form's key, and ``path`` its file.

    Raises:
        InputError: an item is rated that the form does not have, or a run's folder is gone.
    """
    if strange := {item for items in ratings.values() for item in items} - set(key["items"]):
        raise InputError(
            f"{path} has no item {min(strange)!r}, which has a rating; export the ratings from the page again"
        )
    beside = path.with_suffix("").with_suffix(RATINGS)
    if "runs" not in key:
        about = _of_benchmark(ratings, key) if "benchmark" in key else _of_chats(ratings, key)
        with written_atomically(beside) as file:
            file.write(json.dumps({"ratings": about}, indent=2, ensure_ascii=False) + "\n")
        return [beside]
    kind = PEOPLE if key["questions"] in FOR_TABLES else f"{PEOPLE}-{key['questions']}"
    people = len({who for items in ratings.values() for given in items.values() for who in given})
    written = []
    for system, about in key["runs"].items():
        folder = Path(about["folder"])
        if not folder.is_dir():
            raise InputError(
                f"{folder}, the run of {system!r}, is gone; restore it, because its ratings are kept there"
            )
        lines = [
            {"key": key["items"][item]["key"], "aspect": aspect, "verdict": value, "answers": [who]}
            for aspect, items in ratings.items()
            for item, given in items.items()
            if key["items"][item]["system"] == system
            for who, value in given.items()
        ]
        runs = [{"name": system, "hash": about["hash"]}]
        head = {"format": FORMAT, "kind": kind, "judge": f"{people} people", "seed": 0, "empty": 0, "runs": runs}
        written.append(write_lines(folder / f"judge-{kind}.jsonl", head, lines))
    return written


def _of_chats(ratings: Ratings, key: Mapping[str, Any]) -> dict[str, Any]:
    means = summary(ratings, systems_of(key))["systems"]
    agreed = {aspect: agreement(items) for aspect, items in ratings.items()}
    return {
        CHATS: {system: {a: m for a, m in of_system.items() if m is not None} for system, of_system in means.items()},
        "items": max(each["items"] for each in agreed.values()),
        "annotators": max(each["annotators"] for each in agreed.values()),
        "fleiss": {aspect: each["fleiss"] for aspect, each in agreed.items()},
    }


def _of_benchmark(ratings: Ratings, key: Mapping[str, Any]) -> dict[str, Any]:
    both = qualified(ratings)
    agreed = agreement(both)
    values = [value for given in both.values() for value in given.values()]
    return {
        "benchmark": key["benchmark"],
        "data": key["data"],
        "items": agreed["items"],
        "annotators": agreed["annotators"],
        "qualified": 100 * sum(values) / len(values) if values else None,
        "kappa": agreed["fleiss"],
    }
