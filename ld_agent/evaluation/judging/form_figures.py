"""Stores people's ratings where `tables` finds them: next to the runs they are about or, of a benchmark, next to the key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ld_agent.errors import InputError
from ld_agent.evaluation.judging.form import Ratings, agreement, qualified
from ld_agent.evaluation.judging.verdicts import FORMAT, PEOPLE
from ld_agent.evaluation.tables.table_figures import RATINGS
from ld_agent.files import write_json, write_lines

FOR_TABLES = ("recursive", "memory", "benchmark")
"""Questions whose answers appear in a table."""


def keep_ratings(ratings: Ratings, key: Mapping[str, Any], path: Path) -> list[Path]:
    """Write the ratings for `tables` and return the files.

    Args:
        key: the form's key, and ``path`` its file.

    Raises:
        InputError: no table has these ratings, an item is rated that the form does not have, or a run's folder is gone.
    """
    if (asked := key["questions"]) not in FOR_TABLES:
        raise InputError(f"no table has ratings of {asked!r}, only of {', '.join(FOR_TABLES)}; omit --keep")
    if strange := {item for items in ratings.values() for item in items} - set(key["items"]):
        raise InputError(
            f"{path} has no item {min(strange)!r}, which has a rating; export the ratings from the page again"
        )
    beside = path.with_suffix("").with_suffix(RATINGS)
    if asked == "benchmark":
        write_json(beside, {"ratings": _of_benchmark(ratings, key)})
        return [beside]
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
        head = {"format": FORMAT, "kind": PEOPLE, "judge": f"{people} people", "seed": 0, "empty": 0, "runs": runs}
        written.append(folder / f"judge-{PEOPLE}.jsonl")
        write_lines(written[-1], ({"verdicts": head}, *lines))
    return written


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
