"""Judge runs: turn predictions into cases, and store the verdicts next to them.

The verdicts are stored in the folder of the (first) run as ``judge-KIND.jsonl``, or as ``judge-KIND-OTHERS.jsonl`` if the
judgement compares several runs. The first line is ``{"verdicts": {"format", "kind", "judge", "seed", "empty", "runs": [{"name",
"hash"}, …]}}``; one ``{"key", "aspect", "verdict", "answers"}`` follows for each case and aspect. A missing verdict is null.
Predictions come from the folders of `runner`; judgements that show the conversation also read the corpus.
"""

from __future__ import annotations

import random
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ld_agent.datasets import Episode, load_episodes
from ld_agent.datasets.records import json_lines, raise_bad
from ld_agent.errors import DataFileError, InputError
from ld_agent.evaluation.judging.judge import ASPECTS, ERRORS, JUDGEMENTS, RATABLE, Case, Verdicts, judge
from ld_agent.evaluation.run_files import Prediction, Run, check_same_items
from ld_agent.evaluation.runner import digest_of
from ld_agent.evaluation.tasks.memory_quality import statements_of
from ld_agent.files import write_lines
from ld_agent.steps import Complete

FORMAT = 1
SHOWS_CONVERSATION = ("rate", "prefer")
LONGEST_CONTEXT = 40  # utterances before a reply that are shown to the judge
LONGEST_REMEMBERED = 120  # utterances that are shown with a statement of their memory
PEOPLE = "people"
"""The kind of people's ratings on a form; one line per case, aspect and person."""

MEASURES = (
    dict.fromkeys((*ASPECTS, "average"), "rate")
    | {"gpt_score": "score"}
    | dict.fromkeys(ERRORS.values(), "errors")
    | {f"{PEOPLE}_{aspect}": PEOPLE for aspect in (*RATABLE, *ERRORS.values())}
)
"""Judged figures, and the judgement that yields each."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts of one judgement, as read from a file.

    Attributes:
        kind: a key of `JUDGEMENTS`.
        runs: hashes of the runs, in the given order.
        empty: number of cases skipped because a reply was empty.
        verdicts: (key, aspect, verdict); the aspect is "" except for ratings.
    """

    kind: str
    judge: str
    names: tuple[str, ...]
    runs: tuple[str, ...]
    empty: int
    verdicts: tuple[tuple[str, str, int | str | None], ...]

    def stated(self, aspect: str = "") -> list[int | str]:
        return [verdict for _, of, verdict in self.verdicts if of == aspect and verdict is not None]

    def about(self, keys: Container[str]) -> Judged:
        """The verdicts on some of the cases."""
        return replace(self, verdicts=tuple(verdict for verdict in self.verdicts if verdict[0] in keys))

    @property
    def cases(self) -> int:
        """Number of cases judged."""
        return len({key for key, _, _ in self.verdicts})

    @property
    def unparsed(self) -> int:
        """Number of missing verdicts."""
        return sum(1 for _, _, verdict in self.verdicts if verdict is None)


def cases(runs: Sequence[Run], kind: str, limit: int | None = None, seed: int = 0) -> list[Case]:
    """Turn the predictions of runs into cases of a judgement.

    Args:
        limit: maximum number of cases, drawn at random; None: all.
        seed: of the draw, which is the same for every run over the same data.

    Raises:
        InputError: the runs differ in data or predicted items, a run is given twice, or the corpus has changed.
    """
    fewest, _ = JUDGEMENTS[kind].candidates
    if len(runs) < fewest:
        raise InputError(f"judge {kind} needs at least {fewest} runs, not {len(runs)}")
    first = runs[0]
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [f"{name} ({run.header['hash'][:6]})" for name, run in zip(names, runs, strict=True)]
    if len(set(names)) < len(names):
        raise InputError(f"two of the runs {', '.join(names)} are the same; give different runs")
    by_key = [{p.key: p for p in run.predictions} for run in runs]
    check_same_items(runs)
    chosen = drawn(first.predictions, limit, seed)
    if kind == "errors":
        return _statements(first, chosen)
    context = _contexts(first, chosen) if kind in SHOWS_CONVERSATION else {}
    result = []
    for prediction in chosen:
        lines, personas = context.get(prediction.key, ((), {}))
        candidates = {name: by[prediction.key].text for name, by in zip(names, by_key, strict=True)}
        result.append(
            Case(
                prediction.key,
                candidates,
                lines=lines,
                personas=personas,
                question=str(prediction.details.get("text", "")),
                reference=prediction.references[0],
            )
        )
    return result


def drawn(predictions: Sequence[Prediction], limit: int | None, seed: int) -> list[Prediction]:
    """Draw at most ``limit`` predictions by their keys, and return them in the order of the run."""
    if limit is None or limit >= len(predictions):
        return list(predictions)
    keys = set(random.Random(seed).sample(sorted(p.key for p in predictions), limit))
    return [p for p in predictions if p.key in keys]


def pronounce(
    complete: Complete, kind: str, given: Sequence[Case], seed: int = 0, aspects: Sequence[str] = tuple(ASPECTS)
) -> dict[str, Verdicts]:
    """Return the verdicts of one judgement by aspect; "" if it has none."""
    rated = aspects if kind == "rate" else ("",)
    return {aspect: judge(kind, given, complete, aspect=aspect, seed=seed) for aspect in rated}


def summarized(kind: str, names: Sequence[str], by_aspect: Mapping[str, Verdicts]) -> dict[str, Any]:
    """Summarise a judgement: mean ratings and scores, otherwise shares in [0, 1]; and the unparsed count."""
    result: dict[str, Any] = {"unparsed": sum(verdicts.unparsed for verdicts in by_aspect.values())}
    if kind in ("rate", "score"):
        means = {aspect or "score": average(verdicts.parsed) for aspect, verdicts in by_aspect.items()}
        stated = [value for value in means.values() if value is not None]
        overall = sum(stated) / len(stated) if stated and len(stated) == len(means) else None
        return result | means | ({"average": overall} if kind == "rate" else {})
    [verdicts] = by_aspect.values()
    shares: Mapping[Any, float] = verdicts.shares
    if kind == "errors":
        named = {"right": 0} | {name: value for value, name in ERRORS.items()}
        return result | {name: shares.get(value, 0.0) if shares else None for name, value in named.items()}
    if kind == "choose":
        return result | {"shares": {name: shares.get(name, 0.0) if shares else None for name in names}}
    outcomes = {"good": 1, "same": 0, "bad": -1} if kind == "compare" else {"win": 1, "tie": 0, "lose": -1}
    return result | {name: shares.get(value, 0.0) if shares else None for name, value in outcomes.items()}


def average(values: Sequence[int | str]) -> float | None:
    """Return the mean of the numeric verdicts; None if there are none."""
    numbers = [value for value in values if isinstance(value, int)]
    return sum(numbers) / len(numbers) if numbers else None


def write_verdicts(
    folder: Path,
    kind: str,
    by: str,
    runs: Sequence[Run],
    given: Sequence[Case],
    by_aspect: Mapping[str, Verdicts],
    *,
    seed: int = 0,
    empty: int = 0,
) -> Path:
    """Write the verdicts atomically to the first run's folder and return the file.

    Raises:
        InputError: the file cannot be written.
    """
    named = [{"name": name, "hash": run.header["hash"]} for name, run in zip(given[0].candidates, runs, strict=True)]
    head = {"format": FORMAT, "kind": kind, "judge": by, "seed": seed, "empty": empty, "runs": named}
    lines: list[dict[str, Any]] = []
    for aspect, verdicts in by_aspect.items():
        for case, verdict, answers in zip(given, verdicts.values, verdicts.answers, strict=True):
            lines.append({"key": case.id, "aspect": aspect, "verdict": verdict, "answers": list(answers)})
    others = "".join(f"-{_slug(entry['name'])}-{entry['hash'][:6]}" for entry in named[1:])
    path = folder / f"judge-{kind}{others}.jsonl"
    write_lines(path, ({"verdicts": head}, *lines))
    return path


def read_verdicts(path: Path) -> Judged:
    """Read a file written by `write_verdicts`.

    Raises:
        DataFileError: a line is malformed.
    """
    rows = list(json_lines(path, raise_bad))
    head = rows.pop(0) if rows else None
    if head is None or "verdicts" not in head:
        raise DataFileError(path, 1, 'has no "verdicts" line; give a file written by ld-agent judge')
    about = head.record("verdicts")
    runs = about.records("runs")
    verdicts = []
    for row in rows:
        verdict = row.values.get("verdict")
        if verdict is not None and not isinstance(verdict, int | str):
            raise row.error(f"verdict={verdict!r} is neither a number nor a name")
        verdicts.append((row.text("key"), str(row.values.get("aspect") or ""), verdict))
    names, hashes = tuple(run.text("name") for run in runs), tuple(run.text("hash") for run in runs)
    return Judged(
        kind=about.text("kind"),
        judge=about.text("judge"),
        names=names,
        runs=hashes,
        empty=about.integer("empty"),
        verdicts=tuple(verdicts),
    )


def verdicts_under(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.rglob("judge-*.jsonl"))


Context = tuple[tuple[tuple[str, str], ...], Mapping[str, tuple[str, ...]]]


def _statements(run: Run, predictions: Sequence[Prediction]) -> list[Case]:
    """Return a case for each statement of the memories, with the conversation that it is about."""
    if run.task != "memory":
        raise InputError(f"{run.name!r} is a run of {run.task}, which has no memory to check; give runs of eval memory")
    episodes = episodes_of(run, predictions)
    result = []
    for prediction in predictions:
        lines = tuple((turn.speaker, turn.text) for turn in episodes[prediction.episode].turns)
        for number, statement in enumerate(statements_of(prediction), 1):
            key = f"{prediction.key}#{number}"
            shown = lines[-LONGEST_REMEMBERED:]
            result.append(Case(key, {run.name: statement}, lines=shown, reference=prediction.references[0]))
    return result


def episodes_of(run: Run, predictions: Sequence[Prediction]) -> dict[str, Episode]:
    """Return the conversations that predictions are about, read again from the run's corpus.

    Raises:
        InputError: the corpus is missing or has changed.
    """
    data = Path(run.header["data"])
    if not data.exists() or digest_of(data) != run.header["data_sha256"]:
        raise InputError(f"{data} is missing or has changed since {run.name!r}; restore it, because the judge reads it")
    wanted = {p.episode for p in predictions}
    return {episode.id: episode for episode in load_episodes(data) if episode.id in wanted}


def _contexts(run: Run, predictions: Sequence[Prediction]) -> dict[str, Context]:
    """Return the conversation before each reply and the speakers' personas, by key."""
    if run.task != "response":
        raise InputError(
            f"{run.name!r} is a run of {run.task}, which has no conversation to show the judge; give runs of eval response"
        )
    episodes = episodes_of(run, predictions)
    contexts: dict[str, Context] = {}
    for prediction in predictions:
        episode = episodes.get(prediction.episode)
        place = place_of(episode, prediction) if episode is not None else None
        if episode is None or place is None:
            raise InputError(
                f"{run.header['data']} has no reply {prediction.key!r}; the run may be from another version, so repeat it"
            )
        before = episode.turns[max(0, place - LONGEST_CONTEXT) : place]
        contexts[prediction.key] = tuple((turn.speaker, turn.text) for turn in before), episode.personas
    return contexts


def place_of(episode: Episode, prediction: Prediction) -> int | None:
    """Return the index, from 0, of the turn that a prediction's key ends with ("test_0/26"); None if it is another turn."""
    tail = prediction.key.rpartition("/")[2]
    place = int(tail) - 1 if tail.isdecimal() else -1
    matches = 0 < place < len(episode.turns) and episode.turns[place].text == prediction.references[0]
    return place if matches else None


def _slug(name: str) -> str:
    return re.sub(r"[^\w.]+", "_", name)
