"""The papers' figures from kept runs, as pictures: ECM's Figures 5 (the choice among kinds of memory) and 6 (GPT-score by the
number of records), and those of `reply_figures`.

The papers do not print the numbers behind these figures, so the pictures show ours only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ld_agent.errors import InputError
from ld_agent.evaluation.published import based_on, typed
from ld_agent.evaluation.reply_figures import (
    chat_commands,
    chats,
    length_commands,
    lengths,
    preference_commands,
    preferences,
)
from ld_agent.evaluation.table_plan import build_command
from ld_agent.evaluation.table_runs import Collected, TableRun
from ld_agent.files import check_output

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
SWEPT = (1, 2, 3, 4, 5)
CHOSEN_ON = ("feedback", "continuing")
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

Choice = dict[str, dict[str, float]]
Sweep = dict[str, dict[int, float]]


def numbers(name: str, collected: Collected) -> dict[str, Any]:
    """Return what a figure shows.

    Returns:
        ld-agent-3b: mean ratings by system and aspect; rsum-4 and ecm-5: shares in [0, 1], by rival and outcome, and by benchmark
        and kind of memory; rsum-7: mean lengths by system and session; ecm-6: GPT-scores by kind and number of records.

    Raises:
        InputError: no such figure, or no run for it.
    """
    check(name)
    shown: Mapping[str, Callable[[Collected], Mapping[str, Any]]] = {
        "ld-agent-3b": chats,
        "rsum-4": preferences,
        "rsum-7": lengths,
        "ecm-5": choices,
        "ecm-6": sweep,
    }
    values = shown[name](collected)
    if not values:
        raise InputError(f"no run there belongs in {name}; ld-agent figures {name} --plan prints how to make them")
    return dict(values)


def check(name: str) -> None:
    """Raises InputError: no such figure; lists all."""
    if name not in FIGURES:
        raise InputError(f"no figure {name!r}; the figures are {', '.join(FIGURES)}")


def choices(collected: Collected) -> Choice:
    """Return how often each kind of memory was chosen, by benchmark, in the judgement with the most cases."""
    runs = {run.hash: run for run in collected.runs if isinstance(run, TableRun)}
    choice: Choice = {}
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


def sweep(collected: Collected) -> Sweep:
    """Return GPT-scores in learning new knowledge, by kind of memory and number of records."""
    scores: Sweep = {}
    for run in collected.runs:
        if not isinstance(run, TableRun) or run.facts["task"] != "ecm-knowledge" or not run.figure("gpt_score"):
            continue
        kind = _kind(run)
        if kind in COUNTS:
            scores.setdefault(kind, {})[_count(run, kind)] = float(run.figure("gpt_score"))
    return {kind: dict(sorted(scores[kind].items())) for kind in COUNTS if kind in scores}


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


def commands(name: str, config: str) -> list[str]:
    """Return the commands that produce the runs of a figure.

    Raises:
        InputError: no such figure.
    """
    check(name)
    of_replies = {"ld-agent-3b": chat_commands, "rsum-4": preference_commands, "rsum-7": length_commands}
    if name in of_replies:
        return of_replies[name](config)
    lines = []
    if name == "ecm-5":
        for benchmark in CHOSEN_ON:
            folders = [f"runs/{benchmark}_{kind}" for kind in KINDS]
            lines.append(build_command(benchmark))
            lines += [_run(benchmark, config, kind, {}, folder) for kind, folder in zip(KINDS, folders, strict=True)]
            lines.append(f"ld-agent judge choose {' '.join(folders)} -c JUDGE")
        return lines
    lines.append(build_command("knowledge"))
    for kind, key in COUNTS.items():
        for k in SWEPT:
            lines.append(_run("knowledge", config, kind, {key: k}, f"runs/knowledge_{kind}_{k}"))
            lines.append(f"ld-agent judge score runs/knowledge_{kind}_{k} -c JUDGE")
    return lines


def _run(benchmark: str, config: str, kind: str, settings: Mapping[str, Any], folder: str) -> str:
    """The command for one kind of memory as published, without self-reflection."""
    base, published = based_on(config, [kind])
    rounds = {f"memory.{kind}.rounds": 0} if kind in COUNTS else {}
    given = typed(base, published | rounds | dict(settings))
    return " ".join(f"ld-agent ecm run {benchmark}.jsonl -c {base} {given} --out {folder}".split())
