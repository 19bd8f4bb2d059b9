"""ECM's three benchmarks (ECM, section 4): their file format, and how an agent answers their questions.

A sample is a dialogue to remember (the source) with questions and reference answers. `ecm_build` creates samples, `metrics`
and `judge` rate the answers, and `runner` stores runs.

File format: the line ``{"format": "ld_agent.ecm", "version": 1, "benchmark": …, "made": …}``, then one line per sample:
``{"id", "source": {"sessions": [[{"speaker", "text", "at"}, …], …]}, "probes": [{"question", "reference"}, …]}``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent
from ld_agent.config import Config
from ld_agent.datasets.base import Episode, Turn
from ld_agent.datasets.jsonl import turns_of
from ld_agent.datasets.records import Record, built, current_report, json_lines, raise_bad
from ld_agent.errors import InputError
from ld_agent.evaluation.fallbacks import MEMORY, REPLY, Counts, of_memory, of_reply
from ld_agent.evaluation.metrics import Measure, rouge, token_f1
from ld_agent.evaluation.played import WIDTH, in_memory, live
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.runner import Task
from ld_agent.files import write_lines
from ld_agent.steps import run_many
from ld_agent.storage.exchange import copy_conversation
from ld_agent.types import Reply, iso

BENCHMARKS = ("continuing", "knowledge", "feedback")
MERGED = {"continuing": 10, "knowledge": 1, "feedback": 10}
"""Number of samples that share one memory (ECM, section 5.1), so that recall has distractors."""

NAME = "ld_agent.ecm"
HEADER = {"format": NAME, "version": 1}
LONGEST_HEADER = 200  # bytes of the first line within which the format's name stands
USER, ASSISTANT = "User", "Assistant"
LATER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Probe:
    """A question to an agent that remembers the source, and the expected answer."""

    question: str
    reference: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a benchmark.

    Attributes:
        source: the conversation to remember, between `USER` and `ASSISTANT` (the agent), with numbered sessions.
        probes: questions, each asked independently a day after the source.
    """

    id: str
    benchmark: str
    source: Episode
    probes: tuple[Probe, ...]


# ---- the file


def write_samples(path: Path, samples: Sequence[Sample], header: Mapping[str, Any]) -> None:
    """Write samples of one benchmark, replacing the file.

    Args:
        made: provenance: backbone, source, what was dropped.

    Raises:
        InputError: there are no samples, they belong to several benchmarks, or the file cannot be written.
    """
    names = {sample.benchmark for sample in samples}
    if len(names) != 1:
        raise InputError(
            f"samples of {', '.join(sorted(names)) or 'no benchmark'}; a file has samples of exactly one benchmark"
        )
    lines = [HEADER | {"benchmark": names.pop(), "made": dict(header)}, *(_values(sample) for sample in samples)]
    write_lines(path, lines)


def is_benchmark(path: Path) -> bool:
    """Whether a file begins like one of `write_samples`."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return NAME.encode() in file.read(LONGEST_HEADER)


def read_samples(path: Path) -> list[Sample]:
    """Read a benchmark.

    Raises:
        DataFileError: a line is malformed; names file and line.
        InputError: the file cannot be read or contains no samples.
    """
    report = current_report()
    records = json_lines(path, report)
    head = next(records, None)
    if head is None or {key: head.values.get(key) for key in HEADER} != HEADER:
        raise InputError(f"{path} is not a benchmark; build one with `ld-agent ecm build`")
    benchmark = head.text("benchmark")
    if benchmark not in BENCHMARKS:
        raise head.error(f"benchmark {benchmark!r} is unknown; the benchmarks are {', '.join(BENCHMARKS)}")
    samples = list(built(records, lambda record: _sample(record, benchmark), report))
    if not samples:
        raise InputError(f"{path} contains no samples; rebuild it")
    return samples


def _values(sample: Sample) -> dict[str, Any]:
    sessions = [
        [{"speaker": turn.speaker, "text": turn.text, "at": iso(turn.at)} for turn in turns]
        for turns in sample.source.by_session().values()
    ]
    probes = [{"question": probe.question, "reference": probe.reference} for probe in sample.probes]
    return {"id": sample.id, "source": {"sessions": sessions}, "probes": probes}


def _sample(record: Record, benchmark: str) -> Sample:
    turns = turns_of(record.record("source"), raise_bad)
    if strange := {turn.speaker for turn in turns} - {USER, ASSISTANT}:
        raise record.error(f"speaker {min(strange)!r} is neither {USER} nor {ASSISTANT}")
    probes = tuple(Probe(probe.text("question"), probe.text("reference")) for probe in record.records("probes"))
    if not turns or not probes:
        raise record.error("needs both a source and probes")
    name = record.text("id")
    return Sample(name, benchmark, Episode(name, ASSISTANT, tuple(turns), source=record.source), probes)


# ---- asking an agent


@dataclass(frozen=True, slots=True)
class Merged:
    """Samples whose sources share one memory, one after the other."""

    episode: Episode
    samples: tuple[Sample, ...]

    @property
    def questions(self) -> list[tuple[str, Probe]]:
        """Return each probe with its key: sample id and number, from 1 ("valid_3/2")."""
        return [(f"{s.id}/{n}", probe) for s in self.samples for n, probe in enumerate(s.probes, 1)]

    @property
    def sessions(self) -> int:
        return self.episode.turns[-1].session or 1


def merged(samples: Sequence[Sample], size: int) -> list[Merged]:
    """Group samples by ``size`` into memories, with a day between consecutive sources.

    Raises:
        InputError: ``size`` is less than 1.
    """
    if size < 1:
        raise InputError(f"merge={size}; must be at least 1 sample per memory")
    return [_concatenated(samples[start : start + size]) for start in range(0, len(samples), size)]


def _concatenated(samples: Sequence[Sample]) -> Merged:
    turns: list[Turn] = []
    for sample in samples:
        source = sample.source.turns
        shift = turns[-1].at + LATER - source[0].at if turns else timedelta()
        before = turns[-1].session or 0 if turns else 0
        turns += [replace(turn, at=turn.at + shift, session=before + (turn.session or 1)) for turn in source]
    return Merged(Episode(samples[0].id, ASSISTANT, tuple(turns)), tuple(samples))


class EcmTask(Task):
    """Ask every question of a benchmark of an agent that remembers its source.

    Args:
        data: a file written by `write_samples`.
        limit: maximum number of samples; None: all.
        merge: number of samples per memory; None: as in the paper (`MERGED`).

    Raises: as in `read_samples` and `merged`.
    """

    def __init__(self, data: Path, config: Config, limit: int | None = None, merge: int | None = None) -> None:
        samples = read_samples(data)[:limit]
        self.benchmark = samples[0].benchmark
        self.name = f"ecm-{self.benchmark}"
        self._merge = MERGED[self.benchmark] if merge is None else merge
        self._groups = merged(samples, self._merge)
        self.options = {"merge": self._merge}
        self.items = [
            Item(key, group.episode.id, group.sessions, (probe.reference,), {"text": probe.question})
            for group in self._groups
            for key, probe in group.questions
        ]

    def predict(self, config: Config, items: Sequence[Item]) -> Iterator[Prediction]:
        wanted = {item.key: item for item in items}
        groups = [group for group in self._groups if any(key in wanted for key, _ in group.questions)]
        memories: dict[str, Counts] = {}
        with in_memory(config) as agent:
            for key, reply in answers(agent, groups, frozenset(wanted)):
                recalled = [{"view": r.record.view, "text": r.record.text} for r in reply.recalled]
                episode = wanted[key].episode
                if episode not in memories:
                    memories[episode] = of_memory(agent.store, agent.conversation(episode, agent_name=ASSISTANT).key)
                details = {"recalled": recalled, REPLY: of_reply(reply), MEMORY: memories[episode]}
                yield wanted[key].predicted(reply.text, details)


def answers(
    agent: Agent, groups: Sequence[Merged], wanted: Collection[str], width: int = WIDTH
) -> Iterator[tuple[str, Reply]]:
    """Store each group's sources in an agent's memory, then ask the group's questions.

    Each question is asked a day later, in its own copy of the conversation, so that no question is remembered when the
    next is asked.

    Args:
        wanted: keys of the questions to ask.
        width: maximum number of concurrent conversations.

    Raises:
        InputError, BackboneError, StoreError: as in `Conversation.respond`.
    """
    memories = ((group, live(agent, group.episode)) for group in groups)
    for group, _ in run_many(memories, agent.models.complete, width):
        questions = [(key, probe) for key, probe in group.questions if key in wanted]
        copy_conversation(agent.resources.store, group.episode.id, [key for key, _ in questions])
        at = group.episode.turns[-1].at + LATER
        asked = (
            (key, agent.conversation(key, agent_name=ASSISTANT).turn(probe.question, USER, at, reply_at=at))
            for key, probe in questions
        )
        yield from run_many(asked, agent.models.complete, width)


def measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Compute ROUGE-1 and ROUGE-2 against the reference (ECM, Table 4), and token F1."""
    texts, references = [p.text for p in predictions], [p.references for p in predictions]
    return rouge(texts, references, ["rouge_1", "rouge_2"]) | {"f1": token_f1(texts, references)}
