"""The papers' figures from kept runs, as pictures: LD-Agent's 3b (people's ratings of whole chats), Rsum's 4 (preferences of a
judge) and 7 (the length of replies), ECM's 5 (the choice among kinds of memory) and 6 (GPT-score by the number of records).

The papers do not print the numbers behind these figures, so the pictures show ours only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ld_agent.errors import InputError
from ld_agent.evaluation.judging.form import QUESTIONS
from ld_agent.evaluation.judging.verdicts import PEOPLE, average
from ld_agent.evaluation.tables.runs import Collected, TableRun
from ld_agent.evaluation.tables.table_figures import CHATS, TableFigures
from ld_agent.files import check_output
from ld_agent.text import words_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = {
    "ld-agent-3b": "people's ratings of whole chats, 0 to 2",
    "rsum-4": "preferences against the recursive summary's rivals",
    "rsum-7": "length of replies in words, by session",
    "ecm-5": "the choice among kinds of memory",
    "ecm-6": "GPT-score by the number of records recalled",
}
KINDS = ("none", "history", "summary", "conditional")
COUNTS = {"history": "memory.k", "summary": "memory.summary.k", "conditional": "memory.conditional.k"}
"""The key that says how many records a view recalls."""
OUTCOMES = {1: "win", 0: "tie", -1: "lose"}
RSUM = ("recursive",)
LINES = {
    "rsum-7": ("session", "words of a reply"),
    "ecm-6": ("records recalled (K)", "GPT-score, 0 to 2"),
}
"""Figures of lines, and what their axes are."""
BARS = {
    "ld-agent-3b": ("mean rating", 2.0, 1.0),
    "rsum-4": ("verdicts, per cent", 100.0, 100.0),
    "ecm-5": ("chosen, per cent", 100.0, 100.0),
}
"""Figures of bars: what their axis is, how far it goes, and how values are scaled to it."""

Bars = dict[str, dict[str, float]]
Lines = dict[str, dict[int, float]]


def numbers(name: str, collected: Collected) -> dict[str, Any]:
    """Return what a figure shows.

    Returns:
        ld-agent-3b: mean ratings by system and aspect; rsum-4 and ecm-5: shares in [0, 1], by rival and outcome, and by benchmark
        and kind of memory; rsum-7: mean lengths by system and session; ecm-6: GPT-scores by kind and number of records.

    Raises:
        InputError: no such figure, or no run for it.
    """
    if name not in FIGURES:
        raise InputError(f"no figure {name!r}; the figures are {', '.join(FIGURES)}")
    shown: Mapping[str, Callable[[Collected], Mapping[str, Any]]] = {
        "ld-agent-3b": chats,
        "rsum-4": preferences,
        "rsum-7": lengths,
        "ecm-5": choices,
        "ecm-6": sweep,
    }
    values = shown[name](collected)
    if not values:
        raise InputError(f"no run there belongs in {name}; docs/cli.md says which runs it shows")
    return dict(values)


def choices(collected: Collected) -> Bars:
    """Return how often each kind of memory was chosen, by benchmark, in the judgement with the most cases."""
    runs = {run.hash: run for run in collected.runs if isinstance(run, TableRun)}
    choice: Bars = {}
    for judged in sorted(collected.comparisons, key=lambda judged: judged.cases):
        if judged.kind != "choose" or not judged.stated():
            continue
        kinds = {name: _kind(runs[hash]) for name, hash in zip(judged.names, judged.runs, strict=True)}
        if None in kinds.values():
            continue
        benchmark = str(runs[judged.runs[0]].facts["task"]).removeprefix("ecm-")
        chosen = Counter(str(kinds[str(name)]) for name in judged.stated())
        choice[benchmark] = {kind: chosen[kind] / chosen.total() for kind in KINDS if kind in kinds.values()}
    return choice


def sweep(collected: Collected) -> Lines:
    """Return GPT-scores in learning new knowledge, by kind of memory and number of records."""
    scores: Lines = {}
    for run in collected.runs:
        if not isinstance(run, TableRun) or run.facts["task"] != "ecm-knowledge" or not run.figure("gpt_score"):
            continue
        kind = _kind(run)
        if kind in COUNTS:
            scores.setdefault(kind, {})[_count(run, kind)] = float(run.figure("gpt_score"))
    return {kind: dict(sorted(scores[kind].items())) for kind in COUNTS if kind in scores}


def chats(collected: Collected) -> Bars:
    """Return people's mean ratings of whole chats, 0 to 2, by system and aspect."""
    aspects = tuple(QUESTIONS["chat"])
    rated: Bars = {}
    for run in collected.runs:
        if isinstance(run, TableFigures):
            if run.facts["task"] == CHATS:
                rated[run.backbone] = {
                    aspect: float(run.figures[aspect]) for aspect in aspects if aspect in run.figures
                }
            continue
        for judged in (judged for judged in run.verdicts if judged.kind == f"{PEOPLE}-chat"):
            means = {aspect: average(judged.stated(aspect)) for aspect in aspects}
            rated[_named(run)] = {aspect: value for aspect, value in means.items() if value is not None}
    return rated


def preferences(collected: Collected) -> Bars:
    """Return how often replies with the recursive summary win, tie and lose against each other mechanism, in [0, 1]."""
    runs = {run.hash: run for run in collected.runs if isinstance(run, TableRun)}
    shares: Bars = {}
    for judged in sorted(collected.comparisons, key=lambda judged: judged.cases):
        if judged.kind != "prefer" or not judged.stated():
            continue
        one, other = (runs[hash] for hash in judged.runs)
        if not _arms(one, other):
            continue
        turned = tuple(other.facts["views"]) == RSUM
        counts = Counter(-int(value) if turned else int(value) for value in judged.stated())
        rival = one if turned else other
        shares[_named(rival)] = {name: counts[value] / counts.total() for value, name in OUTCOMES.items()}
    return shares


def lengths(collected: Collected) -> Lines:
    """Return the mean length of replies to Multi-Session Chat in words, by system and session."""
    lines: Lines = {}
    for run in sorted(_responses(collected), key=lambda run: run.count(None)):
        by_session = {
            number: fmean(len(words_of(p.text)) for p in run.run.predictions if p.session == number)
            for number in run.sessions
        }
        lines[_named(run)] = lines.get(_named(run), {}) | by_session
    return {name: dict(sorted(by_session.items())) for name, by_session in lines.items()}


def _responses(collected: Collected) -> Iterator[TableRun]:
    """Runs over Multi-Session Chat without persona banks, as LLM-Rsum's."""
    for run in collected.runs:
        facts = run.facts
        if (
            isinstance(run, TableRun)
            and facts["task"] == "response"
            and facts["corpus"] == "msc"
            and not facts["personas"]
        ):
            yield run


def _arms(one: TableRun, other: TableRun) -> bool:
    """Whether exactly one of the runs is LLM-Rsum's, and neither has persona banks."""
    recursive = [tuple(run.facts["views"]) == RSUM for run in (one, other)]
    return recursive.count(True) == 1 and not any(run.facts["personas"] for run in (one, other))


def _named(run: TableRun) -> str:
    return f"{run.backbone}, {'+'.join(run.facts['views'])}"


def _kind(run: TableRun) -> str | None:
    """The run's only view, if it is one of ECM's and the run uses no persona bank."""
    views = run.facts["views"]
    return views[0] if len(views) == 1 and views[0] in KINDS and not run.facts["personas"] else None


def _count(run: TableRun, kind: str) -> int:
    value: Any = run.run.header["config"]
    for key in COUNTS[kind].split("."):
        value = value[key]
    return int(value)


def picture(name: str, values: Mapping[str, Any]) -> Figure:
    """Draw a figure. Needs matplotlib.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as exc:
        raise InputError("pictures need matplotlib; run: pip install 'ld_agent[train]'") from exc
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    if name in LINES:
        for label, points in values.items():
            axes.plot(list(points), list(points.values()), marker=".", label=label)
        axes.set(xlabel=LINES[name][0], ylabel=LINES[name][1])
        axes.set_xticks(sorted({place for points in values.values() for place in points}))
    else:
        _bars(axes, values, *BARS[name])
    axes.grid(alpha=0.3, axis="y")
    axes.legend()
    return figure


def _bars(axes: Any, values: Mapping[str, Mapping[str, float]], label: str, most: float, scale: float) -> None:
    """Groups of bars, one group for each entry of ``values``."""
    series = list(dict.fromkeys(name for group in values.values() for name in group))
    width = 0.8 / len(series)
    for place, name in enumerate(series):
        heights = [scale * group.get(name, 0.0) for group in values.values()]
        offset = width * (place - (len(series) - 1) / 2)
        axes.bar([n + offset for n in range(len(values))], heights, 0.9 * width, label=name)
    axes.set_xticks(range(len(values)), list(values))
    axes.set(ylabel=label, ylim=(0, most))


def draw(name: str, values: Mapping[str, Any], out: Path) -> None:
    """Write a figure as a picture; its format is that of the file's name.

    Raises:
        InputError: the file cannot be written, matplotlib is not installed, or does not know the format.
    """
    check_output(out)
    try:
        picture(name, values).savefig(out, dpi=130)
    except ValueError as exc:
        raise InputError(f"{out} cannot be drawn ({exc}); give a name that ends with .png, .svg or .pdf") from exc
