"""The items on a form: replies, pairs of them, whole dialogues, statements of a memory, or samples of a benchmark.

Knows no page and no rating.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ld_agent.datasets.base import Episode
from ld_agent.datasets.records import json_lines, raise_bad
from ld_agent.errors import InputError
from ld_agent.evaluation.judging.judge import Case, shuffled
from ld_agent.evaluation.judging.verdicts import cases, drawn, episodes_of, place_of
from ld_agent.evaluation.run_files import PREDICTIONS, Prediction, Run, complete_run
from ld_agent.evaluation.tasks.ecm import is_benchmark, read_samples

LATER = "User, later"
BREAK = ("", "– a later session –")
SIDES = ("Left", "Right")

Lines = tuple[tuple[str, str], ...]
Said = list[tuple[str, str]]


def shown(
    sources: Sequence[Path], questions: str, limit: int | None = None, seed: int = 0
) -> tuple[list[Case], Mapping[str, Any]]:
    """Collect the cases of a form, whose candidates are rated one by one ("": the lines as a whole) or as a pair, in the order
    shown; and entries of its key: ``runs`` (folder and hash by system), or ``benchmark`` and ``data``.

    Args:
        sources: folders of runs; for whole dialogues and pairs, files of `ld-agent run`, one per system; or one
            benchmark.
        questions: of the form; "chat" shows whole dialogues.
        limit: maximum number of replies, dialogues, statements or samples, the same of each system; None: all.
    """
    about: Mapping[str, Any] = {}
    if questions == "benchmark":
        items, about = _of_benchmark(sources)
    elif any(is_benchmark(source) for source in sources):
        raise InputError("a benchmark is rated with --questions benchmark")
    elif questions == "pairs":
        items, about = _pairs(sources, seed)
    elif questions == "chat" and any(source.is_file() for source in sources):
        items = [item for source in sources for item in _played(source)]
    else:
        items, about = _of_runs(sources, questions)
    keys = set(drawn({item.id for item in items}, limit, seed))
    return [item for item in items if item.id in keys], about


def _of_runs(sources: Sequence[Path], questions: str) -> tuple[list[Case], Mapping[str, Any]]:
    runs = [complete_run(source) for source in sources]
    replies = runs[0].task == "response"
    if questions == "memory" and len(runs) > 1:
        raise InputError("a form of questions=memory takes one run of eval memory")
    given = cases(runs, "errors" if questions == "memory" else "rate" if replies else "score")
    if not given:
        raise InputError(f"{sources[0]} has no memories, so there is nothing to rate")
    by_name = dict(zip(given[0].candidates, zip(sources, runs, strict=True), strict=True))
    about = {name: {"folder": str(source), "hash": run.header["hash"]} for name, (source, run) in by_name.items()}
    if questions == "chat" and replies:
        return [item for name, (_, run) in by_name.items() for item in _dialogues(name, run)], {"runs": about}
    asked: dict[str, Lines] = {case.id: (("Question", case.question),) if case.question else () for case in given}
    return [replace(case, lines=case.lines or asked[case.id]) for case in given], {"runs": about}


def _dialogues(name: str, run: Run) -> list[Case]:
    """Whole conversations with a run's replies instead of the recorded ones."""
    by_episode: dict[str, list[Prediction]] = defaultdict(list)
    for prediction in run.predictions:
        by_episode[prediction.episode].append(prediction)
    episodes = episodes_of(run, run.predictions)
    return [Case(id, {name: ""}, _replied(episodes[id], predictions)) for id, predictions in by_episode.items()]


def _replied(episode: Episode, predictions: Sequence[Prediction]) -> Lines:
    replies = {place: p.text for p in predictions if (place := place_of(episode, p)) is not None}
    lines: Said = []
    for place, turn in enumerate(episode.turns):
        if place and turn.session != episode.turns[place - 1].session:
            lines.append(BREAK)
        lines.append((turn.speaker, replies.get(place, turn.text)))
    return tuple(lines)


def _played(path: Path) -> list[Case]:
    """Whole conversations of a file of `ld-agent run`."""
    dialogues: dict[str, Said] = defaultdict(list)
    last: dict[str, int] = {}
    for (name, session, _), (line, reply) in _turns(path).items():
        if last.setdefault(name, session) != session:
            dialogues[name].append(BREAK)
        last[name] = session
        dialogues[name] += [line, ("Agent", reply)]
    if not dialogues:
        raise InputError(f"{path} has no turns; give a file of ld-agent run --out, or a folder with {PREDICTIONS}")
    return [Case(name, {path.stem: ""}, tuple(said)) for name, said in dialogues.items()]


def _pairs(sources: Sequence[Path], seed: int) -> tuple[list[Case], Mapping[str, Any]]:
    """Two runs' replies to the same lines; which reply is shown left is drawn at random."""
    if len(sources) != 2 or sources[0] == sources[1]:
        raise InputError("a form of questions=pairs takes two runs: files of ld-agent run --out, or folders")
    if all(source.is_file() for source in sources):
        return _played_pairs(sources, seed), {}
    items, about = _of_runs(sources, "pairs")
    return [_sides(item, seed) for item in items], about


def _sides(case: Case, seed: int) -> Case:
    """The case with its two candidates in random order, the left one first."""
    return replace(case, candidates={name: case.candidates[name] for name in shuffled(case, seed)})


def _played_pairs(sources: Sequence[Path], seed: int) -> list[Case]:
    """Each pair comes after what was said in its session, with the earlier replies of both: each run saw only its own."""
    names = [source.stem for source in sources]
    if names[0] == names[1]:
        names = [str(source) for source in sources]
    first, second = (_turns(source) for source in sources)
    if not first or {at: line for at, (line, _) in first.items()} != {at: line for at, (line, _) in second.items()}:
        raise InputError(f"{sources[0]} and {sources[1]} do not answer the same lines; run both on one file")
    earlier: dict[tuple[str, int], list[tuple[tuple[str, str], dict[str, str]]]] = defaultdict(list)
    items = []
    for (conversation, session, turn), (line, reply) in first.items():
        replies = dict(zip(names, (reply, second[conversation, session, turn][1]), strict=True))
        item = _sides(Case(f"{conversation}/{session}.{turn}", replies), seed)
        lines: Said = []
        for said, of in earlier[conversation, session]:
            lines += [said, *zip(SIDES, (of[name] for name in item.candidates), strict=True)]
        items.append(replace(item, lines=(*lines, line)))
        earlier[conversation, session].append((line, replies))
    return items


def _turns(path: Path) -> dict[tuple[str, int, int], tuple[tuple[str, str], str]]:
    """The line and its reply by conversation, session and turn of a file of `ld-agent run`."""
    turns = {}
    for turn in json_lines(path, raise_bad):
        place = turn.text("conversation"), turn.integer("session"), turn.integer("turn")
        turns[place] = (turn.text("speaker"), turn.text("text")), turn.text("reply")
    return turns


def _of_benchmark(sources: Sequence[Path]) -> tuple[list[Case], Mapping[str, Any]]:
    if len(sources) != 1 or not is_benchmark(sources[0]):
        raise InputError("a form of questions=benchmark takes one file of ld-agent ecm build")
    [path] = sources
    benchmark, samples = read_samples(path)
    items = []
    for sample in samples:
        source = tuple((turn.speaker, turn.text) for turn in sample.episode.turns)
        for question in sample.questions:
            lines = (*source, (LATER, question.text))
            items.append(Case(question.key, {path.stem: question.answers[0]}, lines))
    return items, {"benchmark": benchmark, "data": str(path)}
