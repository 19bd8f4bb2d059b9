"""Human relevance marks, and how well each scorer agrees with them (LD-Agent, section 3.5, Figure 3a).

A mark file has one JSON line per query: the conversation, the query and its time, the records shown and the relevant ones
among them. A scorer recalls a record that is among its k best and above γ. Knows no terminal.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent
from ld_agent.datasets.records import Record as JsonRecord
from ld_agent.datasets.records import json_lines, raise_bad
from ld_agent.errors import InputError
from ld_agent.memory.scoring import SCORERS
from ld_agent.memory.views.base import Query
from ld_agent.memory.views.events import EventView
from ld_agent.steps import run
from ld_agent.storage.exchange import found_conversation
from ld_agent.types import Record, iso, utc

SHOWN = 20
"""Maximum number of records shown per query, picked from the best of each scorer in turn."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One person's relevance judgement of one query.

    Attributes:
        at: the time of the query, ISO 8601.
        shown: ids of the records shown.
        relevant: ids of those that are relevant to the query.
    """

    conversation: str
    query: str
    at: str
    shown: tuple[str, ...]
    relevant: tuple[str, ...]


def candidates(agent: Agent, conversation_id: str, text: str, at: datetime) -> list[Record]:
    """Return the records to show, oldest first so that no scorer's ranking biases the annotator.

    Raises:
        StoreError: the conversation does not exist.
    """
    rankings = [_recalled(agent, conversation_id, scorer, agent.resources.query(text, at), SHOWN) for scorer in SCORERS]
    ranked = [records[place] for place in range(SHOWN) for records in rankings if place < len(records)]
    chosen = dict.fromkeys([record.id for record in ranked])
    by_id = {record.id: record for record in ranked}
    return sorted((by_id[i] for i in list(chosen)[:SHOWN]), key=lambda record: (record.at, int(record.id[1:])))


def add_mark(path: Path, mark: Mark) -> None:
    """Append a mark to a file.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(mark), ensure_ascii=False) + "\n")
    except OSError as exc:
        raise InputError(f"{path} cannot be written ({exc.strerror}); give a file in a writable folder") from exc


def load_marks(path: Path) -> list[Mark]:
    """Read a mark file.

    Raises:
        DataFileError: a line is not a mark; names file and line.
        InputError: the file is missing or has no marks.
    """
    if not path.is_file():
        raise InputError(f"no file {path}; create one with `ld-agent eval annotate`")
    marks = [_mark(record) for record in json_lines(path, raise_bad)]
    if not marks:
        raise InputError(f"{path} contains no marks; add some with `ld-agent eval annotate`")
    return marks


def _mark(record: JsonRecord) -> Mark:
    shown, relevant = tuple(record.texts("shown")), tuple(record.texts("relevant"))
    if stray := set(relevant) - set(shown):
        raise record.error(f"relevant contains {sorted(stray)[0]!r}, which was not shown")
    return Mark(record.text("conversation"), record.text("query"), record.text("at"), shown, relevant)


def agreement(agent: Agent, marks: Sequence[Mark]) -> dict[str, Any]:
    """Measure how well each scorer agrees with the marks.

    Returns:
        for each scorer, over the records shown: "accuracy", the share that are recalled if and only if they are relevant;
        "recall", the share of relevant ones that are recalled; "precision", the share of recalled ones that are relevant.
        An undefined figure is None.

    Raises:
        StoreError: the store lacks a marked conversation.
    """
    k = agent.config.memory.k
    scorers = {}
    for scorer in SCORERS:
        right = shown = hit = relevant = recalled = 0
        for mark in marks:
            query = agent.resources.query(mark.query, utc(mark.at))
            retrieved = {r.id for r in _recalled(agent, mark.conversation, scorer, query, k)} & set(mark.shown)
            wanted = set(mark.relevant)
            right += sum((record in retrieved) == (record in wanted) for record in mark.shown)
            shown, relevant, recalled = shown + len(mark.shown), relevant + len(wanted), recalled + len(retrieved)
            hit += len(retrieved & wanted)
        scorers[scorer] = {
            "accuracy": _share(right, shown),
            "recall": _share(hit, relevant),
            "precision": _share(hit, recalled),
        }
    return {"queries": len(marks), "records": sum(len(m.shown) for m in marks), "k": k, "scorers": scorers}


def _recalled(agent: Agent, conversation_id: str, scorer: str, query: Query, k: int) -> list[Record]:
    stored = found_conversation(agent.store, conversation_id)
    parts = agent.view_context(stored.key, stored.agent)
    settings = parts.settings.model_copy(update={"scorer": scorer, "k": k})
    view = EventView(replace(parts, settings=settings))
    return [r.record for r in run(view.recall(query), agent.models.complete)]


def new_mark(conversation_id: str, text: str, at: datetime, shown: Sequence[Record], chosen: str) -> Mark:
    """Create a mark from typed record numbers, counted from 1 ("1 3"; empty: none is relevant).

    Raises:
        InputError: the input contains something other than the number of a shown record.
    """
    numbers = chosen.replace(",", " ").split()
    for number in numbers:
        if not number.isdecimal() or not 1 <= int(number) <= len(shown):
            raise InputError(f"{number!r} is not a number from 1 to {len(shown)}; type numbers such as: 1 3")
    wanted = {int(number) for number in numbers}
    relevant = tuple(record.id for number, record in enumerate(shown, 1) if number in wanted)
    return Mark(conversation_id, text, iso(at), tuple(record.id for record in shown), relevant)


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
