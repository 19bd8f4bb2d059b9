"""ECM's three benchmarks (ECM, section 4): their file format, and how an agent answers their questions.

A sample is a dialogue to remember (the source) with questions and reference answers. `ecm_build` creates samples, `metrics`
and `judge` rate the answers, and `runner` stores runs.

File format: the line ``{"format": "ld_agent.ecm", "version": 1, "benchmark": …, "made": …}``, then one line per sample:
``{"id", "source": {"sessions": [[{"speaker", "text", "at"}, …], …]}, "probes": [{"question", "reference"}, …]}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent, Conversation
from ld_agent.config import Config
from ld_agent.datasets.base import Episode, Turn
from ld_agent.datasets.jsonl import turns_of
from ld_agent.datasets.records import Record, built, json_lines, raise_bad
from ld_agent.errors import InputError
from ld_agent.evaluation.metrics import Measure, rouge, token_f1
from ld_agent.evaluation.played import Answered, AskedTask
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.tasks.question_data import Question, Questioned
from ld_agent.files import write_lines
from ld_agent.steps import Steps
from ld_agent.types import iso

BENCHMARKS = ("continuing", "knowledge", "feedback")
MERGED = {"continuing": 10, "knowledge": 1, "feedback": 10}
"""Number of samples that share one memory (ECM, section 5.1), so that recall has distractors."""

NAME = "ld_agent.ecm"
HEADER = {"format": NAME, "version": 1}
LONGEST_HEADER = 200  # bytes of the first line within which the format's name stands
USER, ASSISTANT = "User", "Assistant"
LATER = timedelta(days=1)


def sample(source: Episode, probes: Iterable[tuple[str, str]]) -> Questioned:
    """Return a sample: a conversation between `USER` and `ASSISTANT` (the agent), with numbered sessions, and its probes, each a
    question that is asked a day later and the expected answer."""
    at = source.turns[-1].at + LATER
    questions = (
        Question(f"{source.id}/{number}", USER, asked, at, (expected,), "")
        for number, (asked, expected) in enumerate(probes, 1)
    )
    return Questioned(source, tuple(questions))


# ---- the file


def write_samples(path: Path, benchmark: str, samples: Sequence[Questioned], made: Mapping[str, Any]) -> None:
    """Write the samples of a benchmark, replacing the file; ``made`` is their provenance: backbone, source, what was dropped."""
    write_lines(path, [HEADER | {"benchmark": benchmark, "made": dict(made)}, *map(_values, samples)])


def is_benchmark(path: Path) -> bool:
    """Whether a file begins like one of `write_samples`."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return NAME.encode() in file.read(LONGEST_HEADER)


def read_samples(path: Path) -> tuple[str, list[Questioned]]:
    """Read a benchmark; return its name and samples."""
    records = json_lines(path)
    head = next(records, None)
    if head is None or {key: head.values.get(key) for key in HEADER} != HEADER:
        raise InputError(f"{path} is not a benchmark; build one with `ld-agent ecm build`")
    benchmark = head.text("benchmark")
    if benchmark not in BENCHMARKS:
        raise head.error(f"benchmark {benchmark!r} is unknown; the benchmarks are {', '.join(BENCHMARKS)}")
    samples = list(built(records, _sample))
    if not samples:
        raise InputError(f"{path} contains no samples; rebuild it")
    return benchmark, samples


def _values(sample: Questioned) -> dict[str, Any]:
    sessions = [
        [{"speaker": turn.speaker, "text": turn.text, "at": iso(turn.at)} for turn in turns]
        for turns in sample.episode.by_session().values()
    ]
    probes = [{"question": question.text, "reference": question.answers[0]} for question in sample.questions]
    return {"id": sample.episode.id, "source": {"sessions": sessions}, "probes": probes}


def _sample(record: Record) -> Questioned:
    turns = turns_of(record.record("source"), raise_bad)
    if strange := {turn.speaker for turn in turns} - {USER, ASSISTANT}:
        raise record.error(f"speaker {min(strange)!r} is neither {USER} nor {ASSISTANT}")
    probes = [(probe.text("question"), probe.text("reference")) for probe in record.records("probes")]
    if not turns or not probes:
        raise record.error("needs both a source and probes")
    return sample(Episode(record.text("id"), ASSISTANT, tuple(turns), source=record.source), probes)


# ---- asking an agent


def merged(samples: Sequence[Questioned], size: int) -> list[Questioned]:
    """Group samples by ``size`` into memories, with a day between consecutive sources."""
    if size < 1:
        raise InputError(f"merge={size}; must be at least 1 sample per memory")
    return [_concatenated(samples[start : start + size]) for start in range(0, len(samples), size)]


def _concatenated(samples: Sequence[Questioned]) -> Questioned:
    turns: list[Turn] = []
    for one in samples:
        source = one.episode.turns
        shift = turns[-1].at + LATER - source[0].at if turns else timedelta()
        before = turns[-1].session or 0 if turns else 0
        turns += [replace(turn, at=turn.at + shift, session=before + (turn.session or 1)) for turn in source]
    at = turns[-1].at + LATER
    questions = tuple(replace(question, at=at) for one in samples for question in one.questions)
    return Questioned(Episode(samples[0].episode.id, ASSISTANT, tuple(turns)), questions)


class EcmTask(AskedTask):
    """Ask every question of a benchmark of an agent that remembers its source."""

    def __init__(self, data: Path, config: Config, limit: int | None = None, merge: int | None = None) -> None:
        benchmark, samples = read_samples(data)
        self.name = f"ecm-{benchmark}"
        size = MERGED[benchmark] if merge is None else merge
        super().__init__(merged(samples[:limit], size), {"merge": size})

    def item(self, episode: Episode, question: Question) -> Item:
        session = episode.turns[-1].session or 1
        return Item(question.key, episode.id, session, question.answers, {"text": question.text})

    def answered(self, agent: Agent, conversation: Conversation, question: Question) -> Steps[Answered]:
        reply = yield from conversation.turn(question.text, question.speaker, question.at, reply_at=question.at)
        return reply, {"recalled": [{"view": r.record.view, "text": r.record.text} for r in reply.recalled]}


def measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Compute ROUGE-1 and ROUGE-2 against the reference (ECM, Table 4), and token F1."""
    texts, references = [p.text for p in predictions], [p.references for p in predictions]
    return rouge(texts, references, ["rouge_1", "rouge_2"]) | {"f1": token_f1(texts, references)}
