"""ECM's three benchmarks (ECM, section 4): what they are, their file, and how an agent is asked their questions.

A sample is a dialogue to remember (the source) and questions with reference answers. `ecm_build` makes them; how good the
answers are is the business of `metrics` and `judge`; runs of them are kept by `runner`.

The file: the line ``{"format": "ld_agent.ecm", "version": 1, "benchmark": …, "made": …}``, then one line a sample:
``{"id", "source": {"sessions": [[{"speaker", "text", "at"}, …], …]}, "probes": [{"question", "reference"}, …]}``.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent
from ld_agent.config import Config
from ld_agent.datasets.base import Episode, Turn
from ld_agent.datasets.records import Record, json_lines, raise_bad
from ld_agent.errors import InputError
from ld_agent.evaluation.metrics import Measure, rouge, token_f1
from ld_agent.evaluation.runner import Item, Keep, Prediction
from ld_agent.replay import play
from ld_agent.steps import Steps, run_many
from ld_agent.storage.exchange import export_lines, import_file
from ld_agent.types import Reply, iso, utc

BENCHMARKS = ("continuing", "knowledge", "feedback")
MERGED = {"continuing": 10, "knowledge": 1, "feedback": 10}
"""How many samples share one memory (ECM, section 5.1), so that the right one has to be found among others."""

HEADER = {"format": "ld_agent.ecm", "version": 1}
USER, ASSISTANT = "User", "Assistant"
LATER = timedelta(days=1)
WIDTH = 4
DECIDING = frozenset({"conditional"})
"""Views that decide what to remember in the call that replies."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A question to an agent that remembers the source, and the answer that is expected."""

    question: str
    reference: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a benchmark.

    Attributes:
        source: what is to be remembered; its speakers are `USER` and `ASSISTANT`, the agent being the latter, and its
            sessions are numbered.
        probes: asked each by itself, a day after the source.
    """

    id: str
    benchmark: str
    source: Episode
    probes: tuple[Probe, ...]


# ---- the file


def write_samples(path: Path, samples: Sequence[Sample], made: Mapping[str, Any]) -> None:
    """Write samples of one benchmark, replacing the file.

    Args:
        made: how: backbone, source, what was dropped.

    Raises:
        InputError: no samples, samples of two benchmarks, or the file cannot be written.
    """
    names = {sample.benchmark for sample in samples}
    if len(names) != 1:
        raise InputError(f"samples of {', '.join(sorted(names)) or 'no benchmark'}; a file holds those of one")
    lines = [HEADER | {"benchmark": names.pop(), "made": dict(made)}, *(_values(sample) for sample in samples)]
    try:
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8", newline="\n")
    except OSError as exc:
        raise InputError(f"{path} cannot be written: {exc.strerror}; choose a file in a folder you may write") from exc


def read_samples(path: Path) -> list[Sample]:
    """Read a benchmark.

    Raises:
        DataFileError: a line that is not of the format; names file and line.
        InputError: the file cannot be read, or holds no sample.
    """
    records = json_lines(path, raise_bad)
    head = next(records, None)
    if head is None or {key: head.values.get(key) for key in HEADER} != HEADER:
        raise InputError(f"{path} is no benchmark; make one with `ld-agent ecm build`")
    benchmark = head.text("benchmark")
    if benchmark not in BENCHMARKS:
        raise head.error(f"benchmark {benchmark!r} is unknown; the benchmarks are {', '.join(BENCHMARKS)}")
    samples = [_sample(record, benchmark) for record in records]
    if not samples:
        raise InputError(f"{path} holds no sample; build it again")
    return samples


def _values(sample: Sample) -> dict[str, Any]:
    sessions: dict[int | None, list[dict[str, str]]] = {}
    for turn in sample.source.turns:
        said = {"speaker": turn.speaker, "text": turn.text, "at": iso(turn.at)}
        sessions.setdefault(turn.session, []).append(said)
    probes = [{"question": probe.question, "reference": probe.reference} for probe in sample.probes]
    return {"id": sample.id, "source": {"sessions": list(sessions.values())}, "probes": probes}


def _sample(record: Record, benchmark: str) -> Sample:
    turns: list[Turn] = []
    for number, utterances in enumerate(record.record("source").items("sessions"), 1):
        for said in Record({"sessions": utterances}, record.path, record.line, f"session {number}").records("sessions"):
            try:
                at = utc(said.text("at"))
            except InputError as exc:
                raise said.error(str(exc)) from exc
            if said.text("speaker") not in (USER, ASSISTANT):
                raise said.error(f"speaker {said.text('speaker')!r} is neither {USER} nor {ASSISTANT}")
            turns.append(Turn(said.text("speaker"), said.text("text"), at, number))
    probes = tuple(Probe(probe.text("question"), probe.text("reference")) for probe in record.records("probes"))
    if not turns or not probes:
        raise record.error("has no source or no probes; give both")
    name = record.text("id")
    return Sample(name, benchmark, Episode(name, ASSISTANT, tuple(turns), source=record.source), probes)


# ---- asking an agent


@dataclass(frozen=True, slots=True)
class Merged:
    """Samples whose sources are remembered in one memory, one after the other."""

    episode: Episode
    samples: tuple[Sample, ...]

    @property
    def questions(self) -> list[tuple[str, Probe]]:
        """Each probe under the id of its sample and its number there, from 1 ("valid_3/2")."""
        return [(f"{s.id}/{n}", probe) for s in self.samples for n, probe in enumerate(s.probes, 1)]

    @property
    def sessions(self) -> int:
        return self.episode.turns[-1].session or 1


def merged(samples: Sequence[Sample], size: int) -> list[Merged]:
    """Put ``size`` samples each into one memory, a day between the end of one source and the start of the next.

    Raises:
        InputError: ``size`` is under 1.
    """
    if size < 1:
        raise InputError(f"merge={size}; put at least 1 sample into a memory")
    return [_together(samples[start : start + size]) for start in range(0, len(samples), size)]


def _together(samples: Sequence[Sample]) -> Merged:
    turns: list[Turn] = []
    for sample in samples:
        own = sample.source.turns
        shift = turns[-1].at + LATER - own[0].at if turns else timedelta()
        before = turns[-1].session or 0 if turns else 0
        turns += [replace(turn, at=turn.at + shift, session=before + (turn.session or 1)) for turn in own]
    return Merged(Episode(samples[0].id, ASSISTANT, tuple(turns)), tuple(samples))


class EcmTask:
    """Every question of a benchmark, asked of an agent that has lived through the source before it.

    Args:
        data: a file of `write_samples`.
        limit: samples read; None: all.
        merge: samples in one memory; None: as in the paper (`MERGED`).

    Raises: as `read_samples` and `merged`.
    """

    def __init__(self, data: Path, limit: int | None = None, merge: int | None = None) -> None:
        samples = read_samples(data)[:limit]
        self.benchmark = samples[0].benchmark
        self.name = f"ecm-{self.benchmark}"
        self.prompts = ("[!je]*.yaml", "extractor*.yaml")  # all but those of the judge and of `ecm_build`
        self._merge = MERGED[self.benchmark] if merge is None else merge
        self._groups = merged(samples, self._merge)
        self.items: Sequence[Item] = [
            Item(key, group.episode.id, group.sessions, (probe.reference,), {"text": probe.question})
            for group in self._groups
            for key, probe in group.questions
        ]

    def settings(self, config: Config) -> Mapping[str, Any]:
        return config.model_dump(mode="json", exclude={"store"}) | {"merge": self._merge}

    def predict(self, config: Config, items: Sequence[Item], keep: Keep) -> None:
        wanted = {item.key: item for item in items}
        unkept = config.model_copy(update={"store": config.store.model_copy(update={"path": ":memory:"})})
        agent = Agent(unkept)
        try:
            groups = [group for group in self._groups if any(key in wanted for key, _ in group.questions)]
            for key, reply in answers(agent, groups, frozenset(wanted)):
                recalled = [{"view": r.record.view, "text": r.record.text} for r in reply.recalled]
                keep(wanted[key], reply.text, {"recalled": recalled})
        finally:
            agent.close(end_sessions=False)


def answers(
    agent: Agent, groups: Sequence[Merged], wanted: Collection[str], width: int = WIDTH
) -> Iterator[tuple[str, Reply]]:
    """Let an agent live through each group's sources and then ask it the questions of the group.

    Each question is asked of a copy of the conversation as it then stands, a day later, so that none is remembered when
    the next is asked.

    Args:
        wanted: keys of the questions to ask.
        width: conversations at one time.

    Raises:
        InputError, BackboneError, StoreError: as `Conversation.respond`.
    """
    lived = ((group, live(agent, group.episode)) for group in groups)
    for group, _ in run_many(lived, agent.models.complete, width):
        questions = [(key, probe) for key, probe in group.questions if key in wanted]
        copy_conversation(agent, group.episode.id, [key for key, _ in questions])
        at = group.episode.turns[-1].at + LATER
        asked = (
            (key, agent.conversation(key, agent_name=ASSISTANT).turn(probe.question, USER, at, reply_at=at))
            for key, probe in questions
        )
        yield from run_many(asked, agent.models.complete, width)


def live(agent: Agent, episode: Episode) -> Steps[None]:
    """Take a recorded conversation into an agent's memory, all of its sessions ended.

    It is only heard, which costs no reply, unless a mechanism decides what to remember while it replies.
    """
    if DECIDING & set(agent.config.memory.views):
        yield from play(agent, episode, lambda turn: None, teacher_forced=True)
        return
    conversation = agent.conversation(episode.id, agent_name=episode.agent)
    session = episode.turns[0].session
    for turn in episode.turns:
        if turn.session != session:
            yield from conversation.ending()
            session = turn.session
        conversation.observe(turn.text, turn.speaker, turn.at)
    yield from conversation.ending()


def ecm_measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """ROUGE-1 and ROUGE-2 against the reference (ECM, Table 4), and token F1."""
    texts, references = [p.text for p in predictions], [p.references for p in predictions]
    return rouge(texts, references, ["rouge_1", "rouge_2"]) | {"f1": token_f1(texts, references)}


def copy_conversation(agent: Agent, conversation_id: str, names: Sequence[str]) -> None:
    """Store copies of a conversation under other ids, by way of an export."""
    header, head, *rest = export_lines(agent.store, conversation_id)
    lines = [header]
    for name in names:
        lines += [json.dumps(json.loads(head) | {"id": name}, ensure_ascii=False), *rest]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "copies.jsonl"
        file.write_text("".join(line + "\n" for line in lines), "utf-8", newline="\n")
        import_file(agent.store, file)
