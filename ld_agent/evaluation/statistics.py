"""Statistics of a corpus or of a benchmark (Rsum, Tables A.10 and A.11; ECM, Table 2).

Words are those of `words_of`; dialogues may be measured in tokens instead. Knows no run and no terminal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from ld_agent.datasets import Episode, format_of, load_episodes
from ld_agent.evaluation.tables.paper_figures import CORPORA
from ld_agent.evaluation.tasks.ecm import is_benchmark, read_samples
from ld_agent.text import words_of

Length = Callable[[str], int]
COUNTED = ("samples", "sessions", "utterances", "questions")


def words_in(text: str) -> int:
    return len(words_of(text))


def statistics(data: Path, limit: int | None = None, length: Length = words_in, unit: str = "words") -> dict[str, Any]:
    """Return what a file contains: of a corpus by session, of a benchmark by sample.

    Args:
        limit: maximum number of episodes or samples; None: all.
        length: of an utterance, in ``unit``; measures the dialogues.
    """
    about: dict[str, Any] = {"data": str(data), "limit": limit}
    if is_benchmark(data):
        return about | _of_benchmark(data, limit)
    episodes = load_episodes(data, limit=limit)
    return about | {
        "corpus": format_of(data),
        "episodes": len(episodes),
        "utterances": sum(len(episode.turns) for episode in episodes),
        "unit": unit,
        "by_session": _by_session(episodes, length),
    }


def _by_session(episodes: Iterable[Episode], length: Length) -> dict[str, dict[str, float]]:
    """For each session number: dialogues, utterances, and the dialogues' lengths up to its end."""
    utterances: dict[int, int] = defaultdict(int)
    lengths: dict[int, list[int]] = defaultdict(list)
    for episode in episodes:
        so_far = 0
        for number, turns in episode.by_session().items():
            utterances[number] += len(turns)
            so_far += sum(length(turn.text) for turn in turns)
            lengths[number].append(so_far)
    return {
        str(number): {
            "dialogues": len(lengths[number]),
            "utterances": utterances[number],
            "mean_length": round(fmean(lengths[number]), 2),
            "longest": max(lengths[number]),
        }
        for number in sorted(lengths)
    }


def _of_benchmark(data: Path, limit: int | None) -> dict[str, Any]:
    benchmark, samples = read_samples(data)
    samples = samples[:limit]
    return {
        "benchmark": benchmark,
        "samples": len(samples),
        "sessions": round(fmean(len(s.episode.by_session()) for s in samples), 2),
        "utterances": round(fmean(len(s.episode.turns) for s in samples), 2),
        "questions": round(fmean(len(s.questions) for s in samples), 2),
    }


def rows_of(one: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows that statistics fill in `ld-agent tables`."""
    data = "/".join(Path(one["data"]).parts[-2:])
    of = f"Statistics of {data}" + ("" if one["limit"] is None else f", the first {one['limit']}")
    if "benchmark" in one:
        facts = {"task": "statistics", "benchmark": one["benchmark"]}
        note = f"{of}: benchmark {one['benchmark']}, {one['samples']} samples."
        yield {"data": data, "facts": facts, "values": {name: one[name] for name in COUNTED}, "note": note}
        return
    corpus = CORPORA.get(one["corpus"], one["corpus"])
    note = f"{of}: {corpus}, {one['episodes']} episodes; lengths in {one['unit']}."
    for number, values in one["by_session"].items():
        facts = {"task": "statistics", "corpus": corpus, "session": int(number)}
        yield {"data": data, "facts": facts, "values": values, "note": note}
