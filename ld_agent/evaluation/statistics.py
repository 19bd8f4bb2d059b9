"""Statistics of a corpus or of a benchmark (Rsum, Tables A.10 and A.11; ECM, Table 2), and the file that keeps them.

Words are those of `words_of`; dialogues may be measured in tokens instead. Knows no run and no terminal.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any

from ld_agent.datasets import Episode, format_of, load_episodes
from ld_agent.errors import DataFileError
from ld_agent.evaluation.tasks.ecm import is_benchmark, read_samples
from ld_agent.files import write_json
from ld_agent.text import words_of

FORMAT = 1
FILE = "statistics.json"
Length = Callable[[str], int]


def words_in(text: str) -> int:
    return len(words_of(text))


def statistics(data: Path, limit: int | None = None, length: Length = words_in, unit: str = "words") -> dict[str, Any]:
    """Return what a file contains: of a corpus by session, of a benchmark by sample.

    Args:
        limit: maximum number of episodes or samples; None: all.
        length: of an utterance, in ``unit``; measures the dialogues.
    """
    about: dict[str, Any] = {"format": FORMAT, "data": str(data), "limit": limit}
    digest = {"data_sha256": sha256(data.read_bytes()).hexdigest()} if data.is_file() else {}
    if is_benchmark(data):
        return about | _of_benchmark(data, limit) | digest
    episodes = load_episodes(data, limit=limit)
    return about | {
        "kind": "corpus",
        "corpus": format_of(data),
        "episodes": len(episodes),
        "utterances": sum(len(episode.turns) for episode in episodes),
        "unit": unit,
        "by_session": _by_session(episodes, length),
        **digest,
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
        "kind": "benchmark",
        "benchmark": benchmark,
        "samples": len(samples),
        "sessions": round(fmean(len(s.episode.by_session()) for s in samples), 2),
        "utterances": round(fmean(len(s.episode.turns) for s in samples), 2),
        "questions": round(fmean(len(s.questions) for s in samples), 2),
    }


def write_statistics(folder: Path, statistics: list[dict[str, Any]]) -> Path:
    """Write the statistics of several files atomically to a folder, for `ld-agent tables`; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    write_json(path, {"statistics": statistics})
    return path


def read_statistics(path: Path) -> list[Mapping[str, Any]]:
    """Read a file of `write_statistics`."""
    try:
        statistics = json.loads(path.read_text(encoding="utf-8"))["statistics"]
        if not all(entry["format"] == FORMAT and entry["kind"] in ("corpus", "benchmark") for entry in statistics):
            raise ValueError("another version")
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise DataFileError(path, None, f"not statistics ({exc!r}); make them again with ld-agent statistics") from exc
    return list(statistics)
