"""Measure how often recall finds the session that answers a question (``ld-agent eval retrieval``).

LoCoMo is asked about each conversation separately: it passes through the agent's own store, event view, index and scorer; a hit
is a session that contains the evidence, and questions without evidence or answer are skipped. RealMem's queries are asked when
they were, of the sessions before. The project's own questions are the queries to a single memory of all conversations.
A language model is called only to summarise sessions (records ``pipeline``).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.datasets import Episode, Turn, format_of, load_episodes, realmem
from ld_agent.datasets.records import Record as JsonRecord
from ld_agent.datasets.records import json_document
from ld_agent.errors import InputError
from ld_agent.evaluation.fallbacks import MEMORY, of_memory
from ld_agent.evaluation.metrics import Measure, mean
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.runner import Task
from ld_agent.evaluation.tasks.question_data import (
    ADVERSARIAL,
    Questioned,
    contains,
    load_questions,
    of_locomo,
    with_records,
)
from ld_agent.memory.views.events import EventView
from ld_agent.modules.summarizer import Summary
from ld_agent.steps import run
from ld_agent.types import Session, Utterance, checked_text

ONE_MEMORY = "all episodes"
LOOKED_THROUGH = 16
"""Records recalled from a memory of all episodes: few enough that candidate selection is measured too."""
_STEP = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the numbers of the sessions that answer it.

    Attributes:
        at: when it is asked, of the sessions before; None: `ASKED_AFTER` the last one.
    """

    text: str
    sessions: frozenset[int]
    category: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A memory and the questions asked of it.

    Attributes:
        sessions: the sessions, numbered as in the corpus.
        summaries: the corpus's summaries by session; "" where it has none.
        recalled: number of records to recall; None: all.
    """

    id: str
    agent: str
    sessions: tuple[Session, ...]
    summaries: Mapping[int, str]
    questions: tuple[Asked, ...]
    recalled: int | None = None


def own_questions(episode: Episode, sample: JsonRecord) -> Case:
    """Return the questions with evidence of a LoCoMo sample, the record from which the episode was read."""
    sessions = _sessions(episode)
    given = sample.record("session_summary").values if "session_summary" in sample else {}
    summaries = {session.number: str(given.get(f"session_{session.number}_summary") or "") for session in sessions}
    questions = tuple(
        Asked(q.text, frozenset(episode.turns[place].session or 1 for place in q.evidence), q.category)
        for q in of_locomo(episode, sample)
        if q.evidence and q.category != ADVERSARIAL
    )
    return Case(episode.id, episode.agent, sessions, summaries, questions)


def stated_questions(conversations: Sequence[Questioned]) -> Case:
    """Build one memory of the sessions of all conversations; their questions with an answer are the queries.

    A question must find a session of its conversation in which one of its answers is said, or any of its sessions if
    none says one word for word.
    """
    by_conversation = _in_one_memory(conversations)
    questions = []
    for one, past in zip(conversations, by_conversation, strict=True):
        for question in one.questions:
            saying = [s for s in past if any(contains(said.text, question.answers) for said in s.utterances)]
            if question.answers:
                questions.append(Asked(question.text, frozenset(s.number for s in saying or past), question.category))
    if not questions:
        raise InputError("no question has an answer; list some under `answers` (data/README.md shows how)")
    sessions = sorted((session for past in by_conversation for session in past), key=lambda session: session.number)
    agent = conversations[0].episode.agent
    return Case(ONE_MEMORY, agent, tuple(sessions), {}, tuple(questions), LOOKED_THROUGH)


def queries_of_realmem(episode: Episode, record: JsonRecord) -> Case:
    """Return a person's queries of which the reply names earlier sessions that it rests on."""
    said = realmem.sessions_of(record)
    numbers = {session.text("session_uuid"): number for number, session in enumerate(said, 1)}
    turns = episode.by_session()
    questions = []
    for number, session in enumerate(said, 1):
        for place, (query, reply) in enumerate(pairwise(realmem.said_in(session))):
            named = reply.texts("memory_session_uuids") if reply.values.get("memory_session_uuids") else []
            before = frozenset(n for uuid in named if (n := numbers.get(uuid, number)) < number)
            if query.values.get("is_query") and before:
                asked = turns[number][place]
                questions.append(Asked(asked.text, before, str(query.values.get("category_name")), turns[number][0].at))
    return Case(episode.id, episode.agent, _sessions(episode), {}, tuple(questions))


def _sessions(episode: Episode) -> tuple[Session, ...]:
    return tuple(
        Session(number, tuple(_said(turn, place, number) for place, turn in enumerate(turns, 1)))
        for number, turns in episode.by_session().items()
    )


def _in_one_memory(conversations: Sequence[Questioned]) -> list[list[Session]]:
    """The sessions of each conversation, renumbered in the order of their ends, and times that follow each other."""
    said = [(turns, place) for place, one in enumerate(conversations) for turns in one.episode.by_session().values()]
    ordered = sorted(said, key=lambda session: session[0][-1].at)
    sessions: list[list[Session]] = [[] for _ in conversations]
    now = ordered[0][0][0].at - _STEP
    for number, (turns, place) in enumerate(ordered, 1):
        utterances: list[Utterance] = []
        for turn in turns:
            now = max(now + _STEP, turn.at)
            utterances.append(replace(_said(turn, len(utterances) + 1, number), at=now))
        sessions[place].append(Session(number, tuple(utterances)))
    return sessions


def _said(turn: Turn, number: int, session: int) -> Utterance:
    return Utterance(f"u{number}", turn.speaker, checked_text(turn.text), turn.at, session)


RECORDS = ("summaries", "pipeline", "extracts")
DEPTHS = (1, 3, 5)
LISTED = 5
"""Number of sessions in the text of a prediction."""
ASKED_AFTER = timedelta(days=1)
"""Time between the last utterance and the questions."""


class RetrievalTask(Task):
    """Recall the sessions that answer each question of a corpus.

    Sessions are stored as their ``summaries`` in the corpus (the default if it has any), as summaries made by the ``pipeline``,
    or as ``extracts``: the two utterances that the pipeline falls back to if the model gives none.
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
        self.items = [self._item(case, *asked) for case in cases for asked in enumerate(case.questions, 1)]

    def _item(self, case: Case, number: int, asked: Asked) -> Item:
        about = {"text": asked.text, "category": asked.category, "records": self._records}
        about |= {"at": asked.at.isoformat()} if asked.at else {}
        return Item(f"{case.id}/{number}", case.id, 1, tuple(map(str, sorted(asked.sessions))), about)

    def predict(self, config: Config, items: Sequence[Item]) -> Iterator[Prediction]:
        with self._agent(config) as agent:
            for name in dict.fromkeys(item.episode for item in items):
                case = self._cases[name]
                view, numbers = remembered(agent, case, self._records)
                counted = {MEMORY: of_memory(agent.store, view.context.key)} if self._records == "pipeline" else {}
                after = (case.sessions[-1].utterances[-1].at + ASKED_AFTER).isoformat()
                asked = [(i, datetime.fromisoformat(i.about.get("at", after))) for i in items if i.episode == name]
                queries = [(i, agent.resources.query(i.about["text"], at)) for i, at in asked]
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
    """Read a LoCoMo file, a person of RealMem, or conversations with questions."""
    kind = format_of(path)
    if kind not in ("locomo", "realmem"):
        return [stated_questions(load_questions(path, limit))]
    if kind == "locomo":
        cases = locomo_cases(path, limit)
    else:
        record = JsonRecord(json_document(path), path, None)
        cases = [queries_of_realmem(episode, record) for episode in load_episodes(path, "realmem")]
    if not any(case.questions for case in cases):
        raise InputError(
            f"{path} contains no question with evidence; give a LoCoMo file whose `qa` have it, or RealMem"
        )
    return cases


def locomo_cases(path: Path, limit: int | None = None) -> list[Case]:
    """Read the conversations of a LoCoMo file, with or without questions; raises as `load_cases`."""
    return [own_questions(episode, sample) for episode, sample in with_records(path, "locomo", limit)]


def remembered(agent: Agent, case: Case, records: str) -> tuple[EventView, dict[int, int]]:
    """Store a conversation; return its event view and a map from stored to corpus session numbers."""
    store = agent.store
    key = store.open_conversation(case.id, case.agent).key
    view = EventView(agent.view_context(key, case.agent))
    numbers: dict[int, int] = {}
    for session in case.sessions:
        for said in session.utterances:
            stored = store.append(key, said.speaker, said.text, said.at, float("inf"), agent.clock)
        numbers[stored.session] = session.number
        store.close_session(key)
    sessions = store.shelf(key, view.name).undigested()
    if records in ("pipeline", "extracts"):
        run(view.digest(sessions), agent.models.complete)
    else:
        summaries = [case.summaries.get(numbers[session.number], "") for session in sessions]
        if not all(summary.strip() for summary in summaries):
            raise InputError(f"{case.id}: the corpus has no summary of a session; use --records pipeline or extracts")
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
