"""How often recall finds the session that answers a question (``ld-agent eval retrieval``).

Each conversation of a LoCoMo file is stored, taken in and asked by the product's own parts: store, event view, index and
scorer. A hit is a session that holds the evidence. No language model is asked, except to summarise where the records are
``pipeline``. Questions without evidence and adversarial ones, whose answer was never said, are left out. A corpus without
questions is asked otherwise: see `last_sessions`.
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
from ld_agent.datasets.records import Record as JsonRecord
from ld_agent.datasets.records import json_document
from ld_agent.errors import InputError
from ld_agent.evaluation.retrieval_cases import ONE_MEMORY, Asked, Case, last_sessions, own_questions
from ld_agent.memory.views.events import EventView
from ld_agent.modules.summarizer import Summary
from ld_agent.steps import run
from ld_agent.types import Recalled

Records = Literal["summaries", "pipeline", "utterances", "extracts"]
RECORDS: tuple[str, ...] = get_args(Records)
DEPTHS = (1, 3, 5)
NOWHERE = 10**9
ASKED_AFTER = timedelta(days=1)
"""When the questions are asked, after the last utterance."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one question found: the sessions in the order of their best record, and the milliseconds it took."""

    asked: Asked
    ranking: tuple[int, ...]
    milliseconds: float


def load_cases(path: Path, limit: int | None = None) -> list[Case]:
    """Read a LoCoMo file, or any corpus of several sessions an episode.

    Args:
        limit: only the first conversations.

    Raises:
        DataFileError: a broken record; names the file.
        InputError: no such file, a LoCoMo file without a single question that has evidence, or a corpus in which no
            episode has two sessions.
    """
    if format_of(path) != "locomo":
        return [last_sessions(load_episodes(path, limit=limit))]
    cases = locomo_cases(path, limit)
    if not any(case.questions for case in cases):
        raise InputError(
            f"{path} holds no question with evidence; give a LoCoMo file whose conversations have `qa` with `evidence`"
        )
    return cases


def locomo_cases(path: Path, limit: int | None = None) -> list[Case]:
    """Read a LoCoMo file's conversations, with or without questions; errors as of `load_cases`."""
    episodes = load_episodes(path, "locomo", limit=limit)
    samples = [
        JsonRecord({"sample": s}, path, None, f"[{i}]").record("sample") for i, s in enumerate(json_document(path))
    ]
    return [own_questions(episode, sample) for episode, sample in zip(episodes, samples, strict=False)]


def measure(
    config: Config, cases: Sequence[Case], records: Records = "summaries", progress: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Recall every question from the memory of its conversation and count the hits.

    Args:
        records: what a session is known by: its ``summaries`` in the corpus, those that the ``pipeline`` makes, each of
            its ``utterances`` by itself, or ``extracts``, two of its utterances, as the pipeline takes them where the
            model gives no summary.
        progress: called with the conversation at work.

    Returns:
        fractions in [0, 1]: "recall_any@n" of the questions with an answering session among the first n, "recall_all@5"
        with all of them there, "mrr", "ms_per_query", the median beyond encoding; the same "by_category". "memory" says
        what was asked: "each conversation" or "all episodes".

    Raises:
        InputError: ``records`` is none of these, or there are no summaries to know a session by.
    """
    if records not in RECORDS:
        raise InputError(f"--records {records} is unknown; give one of {', '.join(RECORDS)}")
    outcomes: list[Outcome] = []
    with asking(config, cases, records) as agent:
        for case in cases:
            if progress is not None:
                progress(case.id)
            outcomes += ask(agent, case, *remembered(agent, case, records))
    categories = sorted({outcome.asked.category for outcome in outcomes})
    return {
        "scorer": config.memory.scorer,
        "records": records,
        "memory": ONE_MEMORY if any(case.id == ONE_MEMORY for case in cases) else "each conversation",
        "tau": config.memory.tau,
        "gamma": config.memory.gamma,
        "conversations": len(cases),
        **figures(outcomes),
        "by_category": {name: figures([o for o in outcomes if o.asked.category == name]) for name in categories},
    }


def asking(config: Config, cases: Sequence[Case], records: Records = "summaries") -> Agent:
    """An agent whose memory nobody else sees, and who recalls as many records as the cases say."""
    recalled = max(case.recalled or sum(len(session.utterances) for session in case.sessions) for case in cases)
    memory = config.memory.model_copy(update={"k": recalled})
    store = config.store.model_copy(update={"path": ":memory:"})
    silent = ScriptedBackbone({"summarizer": ""}) if records == "extracts" else None
    return Agent(config.model_copy(update={"memory": memory, "store": store}), backbone=silent)


def ask(agent: Agent, case: Case, view: EventView, numbers: Mapping[int, int]) -> Iterator[Outcome]:
    """Ask the questions about a conversation the day after its end; see `remembered`."""
    at = case.sessions[-1].utterances[-1].at + ASKED_AFTER
    queries = [agent.resources.query(question.text, at) for question in case.questions]
    if queries:
        run(view.recall(queries[0]), agent.models.complete)  # the index is read in here, not in a question's time
    for question, query in zip(case.questions, queries, strict=True):
        start = time.perf_counter()
        recalled = run(view.recall(query), agent.models.complete)
        milliseconds = 1000 * (time.perf_counter() - start)
        yield Outcome(question, _ranking(recalled, numbers), milliseconds)


def remembered(agent: Agent, case: Case, records: Records) -> tuple[EventView, dict[int, int]]:
    """Store a conversation; its event view, and the corpus's session numbers by the stored ones."""
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
                f"{case.id}: a session has no summary in the corpus; use --records pipeline, extracts or utterances"
            )
        view.take_in(sessions, [Summary(summary) for summary in summaries])
    return view, numbers


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Count the hits; see `measure`."""
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
    raise AssertionError("every utterance of a corpus has its time")
