"""The items on a form: replies, whole dialogues, statements of a memory, or samples of a benchmark.

Knows no page and no rating.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from ld_agent.datasets.base import Episode
from ld_agent.datasets.records import json_lines, raise_bad
from ld_agent.errors import InputError
from ld_agent.evaluation.judging.judge import Case
from ld_agent.evaluation.judging.verdicts import cases, episodes_of, place_of
from ld_agent.evaluation.run_files import PREDICTIONS, Prediction, Run, complete_run
from ld_agent.evaluation.tasks.ecm import is_benchmark, read_samples
from ld_agent.storage.exchange import HEADER

LATER = "User, later"
BREAK = ("", "– a later session –")

Lines = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One item to rate.

    Attributes:
        key: identifies what was answered; several systems may have an item with the same key.
        reply: the text to rate; "": the whole dialogue.
    """

    key: str
    system: str
    lines: Lines
    reply: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """The items of a form and their origin.

    Attributes:
        about: entries of the key: ``runs`` (folder and hash by system), or ``benchmark`` and ``data``.
    """

    items: Sequence[Item]
    about: Mapping[str, Any]


def shown(sources: Sequence[Path], questions: str, limit: int | None, seed: int) -> Shown:
    """Collect the items of a form.

    Args:
        sources: folders of runs; for whole dialogues, files of `ld-agent run` or exports of a memory, one per system; or one
            benchmark.
        questions: of the form; "chat" shows whole dialogues.
        limit: maximum number of replies, dialogues, statements or samples of each system; None: all.

    Raises:
        InputError: the sources do not fit the questions, or one another.
    """
    if questions == "benchmark":
        if len(sources) != 1 or not is_benchmark(sources[0]):
            raise InputError("a form of questions=benchmark takes one file of ld-agent ecm build")
        return _of_benchmark(sources[0], limit, seed)
    if questions == "pairs":
        return _pairs(sources, limit, seed)
    if any(is_benchmark(source) for source in sources):
        raise InputError("a benchmark is rated with --questions benchmark")
    if questions == "chat" and any(source.is_file() for source in sources):
        return Shown(_drawn([item for source in sources for item in _played(source)], limit, seed), {})
    runs = [complete_run(source) for source in sources]
    kind = {"memory": "errors"}.get(questions, "rate" if runs[0].task == "response" else "score")
    if questions == "memory" and len(runs) > 1:
        raise InputError("a form of questions=memory takes one run of eval memory")
    given = cases(runs, kind, None if kind == "errors" or questions == "chat" else limit, seed)
    if not given:
        raise InputError(f"{sources[0]} has no memories, so there is nothing to rate")
    about = {
        "runs": {
            name: {"folder": str(source), "hash": run.header["hash"]}
            for name, source, run in zip(given[0].candidates, sources, runs, strict=True)
        }
    }
    if questions == "chat" and runs[0].task == "response":
        dialogues = [
            item for name, run in zip(given[0].candidates, runs, strict=True) for item in _dialogues(name, run)
        ]
        return Shown(_drawn(dialogues, limit, seed), about)
    return Shown(_drawn(of_cases(given), limit, seed), about)


def of_cases(given: Sequence[Case]) -> list[Item]:
    """Return an item for each candidate of each case."""
    return [
        Item(case.id, system, case.lines or ((("Question", case.question),) if case.question else ()), reply)
        for case in given
        for system, reply in case.candidates.items()
    ]


def _dialogues(name: str, run: Run) -> list[Item]:
    """Whole conversations with a run's replies instead of the recorded ones."""
    by_episode: dict[str, list[Prediction]] = defaultdict(list)
    for prediction in run.predictions:
        by_episode[prediction.episode].append(prediction)
    episodes = episodes_of(run, run.predictions)
    return [Item(id, name, _replied(episodes[id], predictions)) for id, predictions in by_episode.items()]


def _replied(episode: Episode, predictions: Sequence[Prediction]) -> Lines:
    replies = {place: p.text for p in predictions if (place := place_of(episode, p)) is not None}
    lines: list[tuple[str, str]] = []
    for place, turn in enumerate(episode.turns):
        if place and turn.session != episode.turns[place - 1].session:
            lines.append(BREAK)
        lines.append((turn.speaker, replies.get(place, turn.text)))
    return tuple(lines)


def _played(path: Path) -> list[Item]:
    """Whole conversations of a file of `ld-agent run`, or of an export of a memory."""
    dialogues: dict[str, list[tuple[str, str]]] = defaultdict(list)
    session: dict[str, int] = {}
    for name, number, said in _said(path):
        if name in session and number != session[name]:
            dialogues[name].append(BREAK)
        session[name] = number
        dialogues[name] += said
    if not dialogues:
        raise InputError(
            f"{path} has no turns; give a file of ld-agent run --out or ld-agent memory export, or a folder with {PREDICTIONS}"
        )
    return [Item(name, path.stem, tuple(said)) for name, said in dialogues.items()]


def _pairs(sources: Sequence[Path], limit: int | None, seed: int) -> Shown:
    """The replies of two files of `ld-agent run` to the same lines, side by side and in random order, each after what was said
    in its session: both systems saw their own replies.
    """
    if len(sources) != 2:
        raise InputError(f"a form of questions=pairs takes two files of ld-agent run, not {len(sources)}")
    first, second = (_turns(source) for source in sources)
    if {place: line for place, (line, _) in first.items()} != {place: line for place, (line, _) in second.items()}:
        raise InputError(f"{sources[0]} and {sources[1]} do not answer the same lines; run both on one file")
    names, swap = (sources[0].stem, sources[1].stem), Random(seed)
    said: dict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
    items = []
    for place, (line, reply) in first.items():
        replies = [reply, second[place][1]]
        swapped = swap.random() < 0.5
        shown_replies = replies[::-1] if swapped else replies
        key, before = "/".join(map(str, place)), said[place[:2]]
        systems = "|".join(names[::-1] if swapped else names)
        pair = "A: {}\n\nB: {}".format(*shown_replies)
        items.append(Item(key, systems, (*_side_by_side(before, swapped), line), pair))
        before += [line, *(("", one) for one in replies)]
    return Shown(_drawn(items, limit, seed), {})


def _side_by_side(said: Sequence[tuple[str, str]], swapped: bool) -> Lines:
    """What was said before, in threes of a line and the two replies to it, named for the order of a pair."""
    lines: list[tuple[str, str]] = []
    for line, one, other in zip(said[::3], said[1::3], said[2::3], strict=True):
        a, b = (other, one) if swapped else (one, other)
        lines += [line, ("A", a[1]), ("B", b[1])]
    return tuple(lines)


def _turns(path: Path) -> dict[tuple[str, int, int], tuple[tuple[str, str], str]]:
    """The line and its reply by conversation, session and turn of a file of `ld-agent run`."""
    turns = {}
    for record in json_lines(path, raise_bad):
        place = (record.text("conversation"), record.integer("session"), record.integer("turn"))
        turns[place] = ((record.text("speaker"), record.text("text")), record.text("reply"))
    return turns


def _said(path: Path) -> Iterator[tuple[str, int, list[tuple[str, str]]]]:
    """Yield what was said, in order, with its conversation and session."""
    conversation = ""
    exported = False
    for record in json_lines(path, raise_bad):
        exported = exported or record.values.get("format") == HEADER["format"]
        if not exported:
            replied = ("Agent", str(record.values.get("reply", "")))
            yield (
                record.text("conversation"),
                record.integer("session"),
                [(record.text("speaker"), record.text("text")), replied],
            )
        elif record.values.get("kind") == "conversation":
            conversation = record.text("id")
        elif record.values.get("kind") == "utterance" and not record.values.get("replaced"):
            yield conversation, record.integer("session"), [(record.text("speaker"), record.text("text"))]


def _of_benchmark(path: Path, limit: int | None, seed: int) -> Shown:
    samples = read_samples(path)
    items = [
        Item(
            f"{sample.id}/{number}",
            path.stem,
            (*((turn.speaker, turn.text) for turn in sample.source.turns), (LATER, probe.question)),
            probe.reference,
        )
        for sample in samples
        for number, probe in enumerate(sample.probes, 1)
    ]
    return Shown(_drawn(items, limit, seed), {"benchmark": samples[0].benchmark, "data": str(path)})


def _drawn(items: Sequence[Item], limit: int | None, seed: int) -> Sequence[Item]:
    """Draw by key, so that all systems are rated on the same items."""
    keys = sorted({item.key for item in items})
    if limit is None or limit >= len(keys):
        return items
    chosen = set(Random(seed).sample(keys, limit))
    return [item for item in items if item.key in chosen]
