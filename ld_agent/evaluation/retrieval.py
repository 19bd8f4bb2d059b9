"""Measure how often recall finds the session that answers a question (``ld-agent eval retrieval``).

Each conversation of a LoCoMo file passes through the agent's own store, event view, index and scorer. A hit is a session
that contains the evidence. A language model is called only to summarise sessions (records ``pipeline``). Questions without
evidence and adversarial questions, which have no answer, are skipped. For conversations with questions in the project's own
format see `stated_questions`, for a corpus without questions `last_sessions`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.datasets import format_of, load_episodes
from ld_agent.datasets.records import current_report, json_lines
from ld_agent.errors import InputError
from ld_agent.evaluation.fallbacks import Counts, as_json, merged, of_memory
from ld_agent.evaluation.question_data import load_questions, locomo_records
from ld_agent.evaluation.retrieval_cases import (
    ONE_MEMORY,
    Asked,
    Case,
    last_sessions,
    own_questions,
    stated_questions,
)
from ld_agent.memory.views.events import EventView
from ld_agent.modules.summarizer import Summary
from ld_agent.steps import run
from ld_agent.types import Recalled

Records = Literal["summaries", "pipeline", "utterances", "extracts"]
RECORDS: tuple[str, ...] = get_args(Records)
DEPTHS = (1, 3, 5)
NOWHERE = 10**9
ASKED_AFTER = timedelta(days=1)
"""Time between the last utterance and the questions."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one question: sessions ranked by their best record, and the duration."""

    asked: Asked
    ranking: tuple[int, ...]
    milliseconds: float


def load_cases(path: Path, limit: int | None = None) -> list[Case]:
    """Read a LoCoMo file, conversations with questions, or any corpus with several sessions per episode.

    Args:
        limit: maximum number of conversations; None: all.

    Raises:
        DataFileError: a record is malformed; names the file.
        InputError: the file is missing, a LoCoMo file has no question with evidence, or no episode of another corpus has
            two sessions.
    """
    kind = format_of(path)
    if kind == "jsonl" and any("questions" in record for record in json_lines(path, current_report())):
        return [stated_questions(load_questions(path, limit))]
    if kind != "locomo":
        return [last_sessions(load_episodes(path, limit=limit))]
    cases = locomo_cases(path, limit)
    if not any(case.questions for case in cases):
        raise InputError(
            f"{path} contains no question with evidence; give a LoCoMo file whose conversations have `qa` with `evidence`"
        )
    return cases


def locomo_cases(path: Path, limit: int | None = None) -> list[Case]:
    """Read the conversations of a LoCoMo file, with or without questions; raises as `load_cases`."""
    episodes = load_episodes(path, "locomo", limit=limit)
    samples = {sample.source: sample for sample in locomo_records(path)}
    return [own_questions(episode, samples[episode.source]) for episode in episodes]


def measure(
    config: Config, cases: Sequence[Case], records: Records = "summaries", progress: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Recall memories for every question and count the hits.

    Args:
        records: how sessions are stored: as their ``summaries`` in the corpus, as summaries made by the ``pipeline``, as
            individual ``utterances``, or as ``extracts``: the two utterances that the pipeline falls back to if the
            model gives no summary.
        progress: called with the id of each conversation before it is processed.

    Returns:
        fractions in [0, 1]: "recall_any@n", the share of questions with an answering session among the first n;
        "recall_all@5", the share with all answering sessions among the first 5; and "mrr". "ms_per_query" is the median
        duration of recall without encoding. "by_category" repeats these per category. "memory" is the scope of a
        memory: "each conversation" or "all episodes". "fallback_counts" counts the summaries of the ``pipeline`` that were none.

    Raises:
        InputError: ``records`` is unknown, or the corpus lacks summaries.
    """
    if records not in RECORDS:
        raise InputError(f"--records {records} is unknown; give one of {', '.join(RECORDS)}")
    outcomes: list[Outcome] = []
    counts: list[Counts] = []
    with asking(config, cases, records) as agent:
        for case in cases:
            if progress is not None:
                progress(case.id)
            outcomes += ask(agent, case, *remembered(agent, case, records))
        if records == "pipeline":
            counts = [of_memory(agent.store, stored.key) for stored in agent.store.conversations()]
    categories = sorted({outcome.asked.category for outcome in outcomes})
    return {
        "scorer": config.memory.scorer,
        "encoder": config.encoder.model,
        "records": records,
        "memory": ONE_MEMORY if any(case.id == ONE_MEMORY for case in cases) else "each conversation",
        "tau": config.memory.tau,
        "gamma": config.memory.least_cosine,
        "conversations": len(cases),
        **figures(outcomes),
        "fallback_counts": as_json(merged(counts)),
        "by_category": {name: figures([o for o in outcomes if o.asked.category == name]) for name in categories},
    }


def asking(config: Config, cases: Sequence[Case], records: Records = "summaries") -> Agent:
    """Create an agent with an in-memory store that recalls as many records as the cases require."""
    recalled = max(case.recalled or sum(len(session.utterances) for session in case.sessions) for case in cases)
    no_summaries = ScriptedBackbone({"summarizer": ""}) if records == "extracts" else None
    return Agent(config.changed(memory={"k": recalled}, store={"path": ":memory:"}), backbone=no_summaries)


def ask(agent: Agent, case: Case, view: EventView, numbers: Mapping[int, int]) -> Iterator[Outcome]:
    """Ask the questions of a case the day after its end; ``view`` and ``numbers`` come from `remembered`."""
    at = case.sessions[-1].utterances[-1].at + ASKED_AFTER
    queries = [agent.resources.query(question.text, at) for question in case.questions]
    if queries:
        run(view.recall(queries[0]), agent.models.complete)  # load the index before timing the questions
    for question, query in zip(case.questions, queries, strict=True):
        start = time.perf_counter()
        recalled = run(view.recall(query), agent.models.complete)
        milliseconds = 1000 * (time.perf_counter() - start)
        yield Outcome(question, _ranking(recalled, numbers), milliseconds)


def remembered(agent: Agent, case: Case, records: Records) -> tuple[EventView, dict[int, int]]:
    """Store a conversation; return its event view and a map from stored to corpus session numbers."""
    store = agent.store
    key = store.open_conversation(case.id, case.agent).key
    view = EventView(agent.view_context(key, case.agent))
    numbers: dict[int, int] = {}
    for session in case.sessions:
        for said in session.utterances:
            stored = store.append(key, said.speaker, said.text, said.at, float("inf"), _no_clock)
        numbers[stored.session] = session.number
        store.close_session(key)
    sessions = store.shelf(key, view.name).undigested()
    if records in ("pipeline", "extracts"):
        run(view.digest(sessions), agent.models.complete)
    elif records == "utterances":
        parts = [replace(session, utterances=(said,)) for session in sessions for said in session.utterances]
        view.take_in(parts, [Summary(part.utterances[0].text) for part in parts])
    else:
        summaries = [case.summaries.get(numbers[session.number], "") for session in sessions]
        if not all(summary.strip() for summary in summaries):
            raise InputError(
                f"{case.id}: the corpus has no summary of a session; use --records pipeline, extracts or utterances"
            )
        view.take_in(sessions, [Summary(summary) for summary in summaries])
    return view, numbers


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Summarise outcomes; see `measure`."""
    if not outcomes:
        return {"questions": 0}
    n = len(outcomes)
    places = [[o.ranking.index(s) if s in o.ranking else NOWHERE for s in o.asked.sessions] for o in outcomes]
    return {
        "questions": n,
        **{f"recall_any@{depth}": round(sum(min(p) < depth for p in places) / n, 4) for depth in DEPTHS},
        "recall_all@5": round(sum(max(p) < 5 for p in places) / n, 4),
        "mrr": round(sum(1 / (min(p) + 1) for p in places if min(p) < NOWHERE) / n, 4),
        "ms_per_query": round(statistics.median(o.milliseconds for o in outcomes), 3),
    }


def _ranking(recalled: Sequence[Recalled], numbers: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(numbers[r.record.session] for r in recalled))


def _no_clock() -> datetime:
    raise AssertionError("every utterance of a corpus has a time")
