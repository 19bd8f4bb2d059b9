"""Runs before the judge: cases from predictions, and the verdicts kept beside them.

The verdicts of a judgement lie in the folder of the (first) run as ``judge-KIND.jsonl``, or ``judge-KIND-OTHERS.jsonl``
where it compares several runs. The first line is ``{"verdicts": {"format", "kind", "judge", "seed", "empty", "runs": [{"name",
"hash"}, …]}}``; one ``{"key", "aspect", "verdict", "answers"}`` follows for each case and aspect. A verdict that the judge
did not state is null. What is judged is read from `runner`'s folders; of replies to a conversation the corpus is read again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ld_agent.datasets import Episode, load_episodes
from ld_agent.datasets.records import json_lines, raise_bad
from ld_agent.errors import DataFileError, InputError
from ld_agent.evaluation.judge import ASPECTS, Case, Judge, Verdicts
from ld_agent.evaluation.runner import Prediction, Run, missing, read_run
from ld_agent.files import check_output, written_atomically

FORMAT = 1
KINDS = {"rate": 1, "score": 1, "prefer": 2, "compare": 2, "choose": 2}
"""The judgements, and the fewest runs that each takes."""

QUESTIONS = {"rate": len(ASPECTS), "score": 1, "prefer": 2, "compare": 2, "choose": 1}
"""How often the judge is asked about one case."""

SHOWS_CONVERSATION = ("rate", "prefer")
LONGEST_CONTEXT = 40  # utterances before a reply that the judge sees


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts of one judgement over runs, as read from their file.

    Attributes:
        kind: a key of `KINDS`.
        runs: hashes of the runs, in the order in which they were given.
        empty: cases that were not judged, a reply being empty.
        verdicts: (key, aspect, verdict); the aspect is "" but for ratings.
    """

    kind: str
    judge: str
    names: tuple[str, ...]
    runs: tuple[str, ...]
    empty: int
    verdicts: tuple[tuple[str, str, int | str | None], ...]

    def stated(self, aspect: str = "") -> list[int | str]:
        return [verdict for _, of, verdict in self.verdicts if of == aspect and verdict is not None]

    @property
    def cases(self) -> int:
        """How many cases were judged."""
        return len({key for key, _, _ in self.verdicts})

    @property
    def unparsed(self) -> int:
        """How many verdicts the judge did not state."""
        return sum(1 for _, _, verdict in self.verdicts if verdict is None)


def complete_run(folder: Path) -> Run:
    """Read a run that is finished, with predictions.

    Raises:
        InputError: no run, a half-finished one, or one without predictions.
    """
    run = read_run(folder)
    absent, wanted = missing(folder)
    if absent:
        raise InputError(
            f"{folder} is half finished: {absent} of {wanted} predictions are missing; run its command again to go on"
        )
    if not run.predictions:
        raise InputError(f"{folder} has no predictions; make them first")
    return run


def cases(runs: Sequence[Run], kind: str, limit: int | None = None) -> list[Case]:
    """What the runs' predictions are as cases of a judgement.

    Args:
        limit: cases; None: all.

    Raises:
        InputError: runs of different data or other predictions, runs with one name, or a corpus that has changed since.
    """
    if len(runs) < KINDS[kind]:
        raise InputError(f"judge {kind} compares {KINDS[kind]} runs; {len(runs)} given")
    first, *others = runs
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [f"{name} ({run.header['hash'][:6]})" for name, run in zip(names, runs, strict=True)]
    if len(set(names)) < len(names):
        raise InputError(f"two of the runs {', '.join(names)} are one and the same; give different ones")
    by_key = [{p.key: p for p in run.predictions} for run in runs]
    for run, own in zip(others, by_key[1:], strict=True):
        if run.task != first.task or run.header["data_sha256"] != first.header["data_sha256"]:
            raise InputError(
                f"{run.name!r} is {run.task} of {run.header['data']}, {first.name!r} {first.task} of "
                f"{first.header['data']}; judge runs over the same data"
            )
        if set(own) != set(by_key[0]):
            raise InputError(
                f"{run.name!r} and {first.name!r} have not the same predictions; finish both with one --limit"
            )
    chosen = first.predictions[:limit]
    context = _contexts(first, chosen) if kind in SHOWS_CONVERSATION else {}
    found = []
    for prediction in chosen:
        lines, personas = context.get(prediction.key, ((), {}))
        candidates = {name: own[prediction.key].text for name, own in zip(names, by_key, strict=True)}
        found.append(
            Case(
                prediction.key,
                candidates,
                lines=lines,
                personas=personas,
                question=str(prediction.details.get("text", "")),
                reference=prediction.references[0],
            )
        )
    return found


def pronounce(
    judge: Judge, kind: str, given: Sequence[Case], seed: int = 0
) -> dict[str, Verdicts[int] | Verdicts[str]]:
    """The verdicts of one judgement by aspect; "" where it has none."""
    if kind == "rate":
        return {aspect: judge.rate(given, aspect) for aspect in ASPECTS}
    if kind == "choose":
        return {"": judge.choose(given, seed)}
    ask = {"score": judge.score, "prefer": judge.prefer, "compare": judge.compare}[kind]
    return {"": ask(given)}


def summarized(kind: str, names: Sequence[str], found: Mapping[str, Verdicts[int] | Verdicts[str]]) -> dict[str, Any]:
    """A judgement in figures: means of ratings and scores, shares of the rest in [0, 1]; and how many did not parse."""
    result: dict[str, Any] = {"unparsed": sum(verdicts.unparsed for verdicts in found.values())}
    if kind in ("rate", "score"):
        means = {aspect or "score": average(verdicts.parsed) for aspect, verdicts in found.items()}
        stated = [value for value in means.values() if value is not None]
        overall = sum(stated) / len(stated) if stated and len(stated) == len(means) else None
        return result | means | ({"average": overall} if kind == "rate" else {})
    [verdicts] = found.values()
    shares: Mapping[Any, float] = verdicts.shares
    if kind == "choose":
        return result | {"shares": {name: shares.get(name, 0.0) if shares else None for name in names}}
    told = {"good": 1, "same": 0, "bad": -1} if kind == "compare" else {"win": 1, "tie": 0, "lose": -1}
    return result | {name: shares.get(value, 0.0) if shares else None for name, value in told.items()}


def average(values: Sequence[int | str]) -> float | None:
    """Mean of the numbers among verdicts; None: there are none."""
    numbers = [value for value in values if isinstance(value, int)]
    return sum(numbers) / len(numbers) if numbers else None


def write_verdicts(
    folder: Path,
    kind: str,
    judge: str,
    runs: Sequence[Run],
    given: Sequence[Case],
    found: Mapping[str, Verdicts[int] | Verdicts[str]],
    *,
    seed: int = 0,
    empty: int = 0,
) -> Path:
    """Write the verdicts beside the first run's predictions, as a whole, and return the file.

    Raises:
        InputError: the file cannot be written.
    """
    named = [{"name": name, "hash": run.header["hash"]} for name, run in zip(given[0].candidates, runs, strict=True)]
    head = {"format": FORMAT, "kind": kind, "judge": judge, "seed": seed, "empty": empty, "runs": named}
    lines: list[dict[str, Any]] = [{"verdicts": head}]
    for aspect, verdicts in found.items():
        for case, verdict, answers in zip(given, verdicts.values, verdicts.answers, strict=True):
            lines.append({"key": case.id, "aspect": aspect, "verdict": verdict, "answers": list(answers)})
    others = "".join(f"-{_slug(entry['name'])}-{entry['hash'][:6]}" for entry in named[1:])
    target = folder / f"judge-{kind}{others}.jsonl"
    check_output(target)
    with written_atomically(target) as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return target


def read_verdicts(path: Path) -> Judged:
    """Read what `write_verdicts` wrote.

    Raises:
        DataFileError: a line that is not of the format.
    """
    rows = list(json_lines(path, raise_bad))
    head = rows.pop(0) if rows else None
    if head is None or "verdicts" not in head:
        raise DataFileError(path, 1, 'has no "verdicts" line; give a file that ld-agent judge has written')
    about = head.record("verdicts")
    runs = about.records("runs")
    verdicts = []
    for row in rows:
        verdict = row.values.get("verdict")
        if verdict is not None and not isinstance(verdict, int | str):
            raise row.error(f"verdict={verdict!r} is neither a number nor a name")
        verdicts.append((row.text("key"), str(row.values.get("aspect") or ""), verdict))
    names, hashes = tuple(run.text("name") for run in runs), tuple(run.text("hash") for run in runs)
    return Judged(about.text("kind"), about.text("judge"), names, hashes, about.integer("empty"), tuple(verdicts))


def verdicts_under(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.rglob("judge-*.jsonl"))


Context = tuple[tuple[tuple[str, str], ...], Mapping[str, tuple[str, ...]]]


def _contexts(run: Run, predictions: Sequence[Prediction]) -> dict[str, Context]:
    """The conversation before each reply and what the corpus says of the speakers, by key."""
    if run.task != "response":
        raise InputError(
            f"{run.name!r} is {run.task}, without a conversation to show the judge; give eval response runs"
        )
    data = Path(run.header["data"])
    if not data.exists() or _digest(data) != run.header["data_sha256"]:
        raise InputError(f"{data} is not there, or no longer what {run.name!r} was made from; the judge has to read it")
    wanted = {p.episode for p in predictions}
    episodes = {episode.id: episode for episode in load_episodes(data) if episode.id in wanted}
    found: dict[str, Context] = {}
    for prediction in predictions:
        episode = episodes.get(prediction.episode)
        place = _place(episode, prediction) if episode is not None else None
        if episode is None or place is None:
            raise InputError(
                f"{data} has no reply {prediction.key!r}; was it made by another version? make the run again"
            )
        before = episode.turns[max(0, place - LONGEST_CONTEXT) : place]
        found[prediction.key] = tuple((turn.speaker, turn.text) for turn in before), episode.personas
    return found


def _digest(data: Path) -> str:
    """The digest of a corpus as `runner.describe` has it."""
    total = hashlib.sha256()
    for path in [data] if data.is_file() else sorted(data.rglob("*.txt")):
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _place(episode: Episode, prediction: Prediction) -> int | None:
    """The number of the turn, from 0, whose place in the episode ends a prediction's key ("test_0/26")."""
    tail = prediction.key.rpartition("/")[2]
    place = int(tail) - 1 if tail.isdecimal() else -1
    there = 0 < place < len(episode.turns) and episode.turns[place].text == prediction.references[0]
    return place if there else None


def _slug(name: str) -> str:
    return re.sub(r"[^\w.]+", "_", name)
