"""Measure how often recall finds the session that answers a question (``ld-agent eval retrieval``).

Each conversation of a LoCoMo file passes through the agent's own store, event view, index and scorer. A hit is a session
that contains the evidence. A language model is called only to summarise sessions (records ``pipeline``). Questions without
evidence and adversarial questions, which have no answer, are skipped. For conversations with questions in the project's own
format see `stated_questions`, for a corpus without questions `last_sessions`.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.datasets import format_of, load_episodes
from ld_agent.datasets.records import current_report, json_lines
from ld_agent.errors import InputError
from ld_agent.evaluation.fallbacks import MEMORY, of_memory
from ld_agent.evaluation.metrics import Measure, mean
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.runner import Task
from ld_agent.evaluation.tasks.question_data import load_questions, locomo_records
from ld_agent.evaluation.tasks.retrieval_cases import (
    Case,
    last_sessions,
    own_questions,
    stated_questions,
)
from ld_agent.memory.views.events import EventView
from ld_agent.modules.summarizer import Summary
from ld_agent.steps import run

RECORDS = ("summaries", "pipeline", "utterances", "extracts")
DEPTHS = (1, 3, 5)
LISTED = 5
"""Number of sessions in the text of a prediction."""
ASKED_AFTER = timedelta(days=1)
"""Time between the last utterance and the questions."""


class RetrievalTask(Task):
    """Recall the sessions that answer each question of a corpus.

    Args:
        limit: maximum number of conversations; None: all.
        records: how sessions are stored: as their ``summaries`` in the corpus (the default if it has any), as summaries
            made by the ``pipeline``, as individual ``utterances``, or as ``extracts``: the two utterances that the pipeline
            falls back to if the model gives no summary.

    """

    name = "retrieval"
    prompts = ("summarizer*.yaml",)

    def __init__(self, data: Path, config: Config, limit: int | None = None, records: str = "") -> None:
        cases = load_cases(data, limit)
        self._cases = {case.id: case for case in cases}
        self._records = records or ("summaries" if any(case.summaries for case in cases) else "extracts")
        if self._records not in RECORDS:
            raise InputError(f"--records {records} is unknown; give one of {', '.join(RECORDS)}")
        self.options = {"records": self._records}
        self.items = [
            Item(
                f"{case.id}/{number}",
                case.id,
                1,
                tuple(map(str, sorted(asked.sessions))),
                {"text": asked.text, "category": asked.category, "records": self._records},
            )
            for case in cases
            for number, asked in enumerate(case.questions, 1)
        ]

    def predict(self, config: Config, items: Sequence[Item]) -> Iterator[Prediction]:
        with self._agent(config) as agent:
            for name in dict.fromkeys(item.episode for item in items):
                case = self._cases[name]
                view, numbers = remembered(agent, case, self._records)
                counted = {MEMORY: of_memory(agent.store, view.context.key)} if self._records == "pipeline" else {}
                at = case.sessions[-1].utterances[-1].at + ASKED_AFTER
                queries = [(i, agent.resources.query(i.about["text"], at)) for i in items if i.episode == name]
                run(view.recall(queries[0][1]), agent.models.complete)  # load the index before timing the questions
                for item, query in queries:
                    start = time.perf_counter()
                    recalled = run(view.recall(query), agent.models.complete)
                    milliseconds = round(1000 * (time.perf_counter() - start), 3)
                    ranking = list(dict.fromkeys(numbers[r.record.session] for r in recalled))  # by their best record
                    text = f"sessions {', '.join(map(str, ranking[:LISTED])) or 'none'}"
                    yield item.predicted(text, {"ranking": ranking, "milliseconds": milliseconds} | counted)

    def _agent(self, config: Config) -> Agent:
        """An agent that recalls as many records as the cases require."""
        cases = self._cases.values()
        recalled = max(case.recalled or sum(len(session.utterances) for session in case.sessions) for case in cases)
        silent = ScriptedBackbone({"summarizer": ""}) if self._records == "extracts" else None
        return Agent(config.changed(memory={"k": recalled}, store={"path": ":memory:"}), backbone=silent)


def load_cases(path: Path, limit: int | None = None) -> list[Case]:
    """Read a LoCoMo file, conversations with questions, or any corpus with several sessions per episode.

    Args:
        limit: maximum number of conversations; None: all.

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


def remembered(agent: Agent, case: Case, records: str) -> tuple[EventView, dict[int, int]]:
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


def measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Compute "recall_any@n", the share of questions with an answering session among the first n; "recall_all@5", the share
    with all of them among the first 5; and "mrr"."""
    places = [_places(p) for p in predictions]
    return {
        **{f"recall_any@{depth}": mean(float(min(p) < depth) for p in places) for depth in DEPTHS},
        "recall_all@5": mean(float(max(p) < 5) for p in places),
        "mrr": mean(1 / (1 + min(p)) for p in places),
    }


def figures(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return the same by category of question, how sessions were stored, and the median duration of recall without encoding."""
    by_category = {}
    for name in sorted({str(p.details["category"]) for p in predictions}):
        of_category = [p for p in predictions if p.details["category"] == name]
        measured = {key: round(m.overall, 4) for key, m in measures(of_category).items()}
        by_category[name] = {"questions": len(of_category)} | measured
    return {
        "questions": len(predictions),
        "records": predictions[0].details["records"],
        "ms_per_query": statistics.median(p.details["milliseconds"] for p in predictions),
        "by_category": by_category,
    }


def _places(prediction: Prediction) -> list[float]:
    """The place of each answering session among those recalled; infinite if it is not."""
    ranking = [str(session) for session in prediction.details["ranking"]]
    return [ranking.index(s) if s in ranking else math.inf for s in prediction.references]


def _no_clock() -> datetime:
    raise AssertionError("every utterance of a corpus has a time")
