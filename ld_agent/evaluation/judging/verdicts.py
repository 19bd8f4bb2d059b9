"""Judge runs: turn predictions into cases, and store the verdicts next to them.

The verdicts are stored in the folder of the (first) run as ``judge-KIND.jsonl``, or as ``judge-KIND-OTHERS.jsonl`` if the
judgement compares several runs. The first line is ``{"verdicts": {"format", "kind", "judge", "seed", "empty", "runs": [{"name",
"hash"}, …]}}``; one ``{"key", "aspect", "verdict", "answers"}`` follows for each case and aspect. A missing verdict is null.
Predictions come from the folders of `runner`; judgements that show the conversation also read the corpus.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ld_agent.datasets import Episode, load_episodes
from ld_agent.datasets.records import json_lines, raise_bad
from ld_agent.errors import DataFileError, InputError
from ld_agent.evaluation.judging.judge import ASPECTS, ERRORS, JUDGEMENTS, Case, Verdict
from ld_agent.evaluation.run_files import Prediction, Run, check_same_items
from ld_agent.evaluation.runner import digest_of
from ld_agent.evaluation.tasks.memory_quality import statements_of
from ld_agent.files import write_lines

FORMAT = 1
LONGEST_CONTEXT = 40  # utterances before a reply that are shown to the judge
LONGEST_REMEMBERED = 120  # utterances that are shown with a statement of their memory
NOT_IN_NAMES = re.compile(r"[^\w.]+")
PEOPLE = "people"
"""The kind of people's ratings on a form; one line per case, aspect and person."""

MEASURES = (
    dict.fromkeys((*ASPECTS, "average"), "rate")
    | {"gpt_score": "score"}
    | dict.fromkeys(ERRORS.values(), "errors")
    | {f"{PEOPLE}_{aspect}": PEOPLE for aspect in (*ASPECTS, *ERRORS.values())}
)
"""Judged figures, and the judgement that yields each."""
OUTCOMES: Mapping[str, Mapping[str, int]] = {
    "errors": {"right": 0} | {name: value for value, name in ERRORS.items()},
    "compare": {"good": 1, "same": 0, "bad": -1},
    "prefer": {"win": 1, "tie": 0, "lose": -1},
}
"""What the verdicts of a judgement are called."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts of one judgement.

    Attributes:
        kind: a key of `JUDGEMENTS`, or `PEOPLE`.
        runs: hashes of the runs, in the given order.
        empty: number of cases skipped because a reply was empty.
    """

    kind: str
    judge: str
    names: tuple[str, ...]
    runs: tuple[str, ...]
    empty: int
    verdicts: tuple[Verdict, ...]

    def stated(self, aspect: str = "") -> list[int | str]:
        return [one.value for one in self.verdicts if one.aspect == aspect and one.value is not None]

    def about(self, keys: Container[str]) -> Judged:
        """The verdicts on some of the cases."""
        return replace(self, verdicts=tuple(one for one in self.verdicts if one.key in keys))

    def share(self, value: int | str, aspect: str = "") -> float | None:
        """The share of a value among the verdicts stated, in [0, 1]; None if there are none."""
        stated = self.stated(aspect)
        return stated.count(value) / len(stated) if stated else None

    def mean(self, *aspects: str) -> float | None:
        """The mean over aspects of the numeric verdicts; None if there are none on one of them."""
        means = []
        for aspect in aspects:
            numbers = [value for value in self.stated(aspect) if isinstance(value, int)]
            if not numbers:
                return None
            means.append(sum(numbers) / len(numbers))
        return sum(means) / len(means)

    @property
    def cases(self) -> int:
        """Number of cases judged."""
        return len({one.key for one in self.verdicts})

    @property
    def unparsed(self) -> int:
        """Number of missing verdicts."""
        return sum(1 for one in self.verdicts if one.value is None)

    def summary(self) -> dict[str, Any]:
        """Mean ratings and scores, otherwise shares in [0, 1]; and the unparsed count."""
        result: dict[str, Any] = {"unparsed": self.unparsed}
        if self.kind == "score":
            return result | {"score": self.mean("")}
        if self.kind == "rate":
            rated = list(dict.fromkeys(one.aspect for one in self.verdicts))
            return result | {aspect: self.mean(aspect) for aspect in rated} | {"average": self.mean(*rated)}
        if self.kind == "choose":
            return result | {"shares": {name: self.share(name) for name in self.names}}
        return result | {name: self.share(value) for name, value in OUTCOMES[self.kind].items()}


def cases(runs: Sequence[Run], kind: str, limit: int | None = None, seed: int = 0) -> list[Case]:
    """Turn the predictions of runs into cases of a judgement, at most ``limit`` drawn at random: for a seed, the same of all
    runs over the same data."""
    fewest, _ = JUDGEMENTS[kind].candidates
    if len(runs) < fewest:
        raise InputError(f"judge {kind} needs at least {fewest} runs, not {len(runs)}")
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [f"{name} ({run.header['hash'][:6]})" for name, run in zip(names, runs, strict=True)]
    if len(set(names)) < len(names):
        raise InputError(f"two of the runs {', '.join(names)} are the same; give different runs")
    check_same_items(runs)
    by_key = {name: {p.key: p for p in run.predictions} for name, run in zip(names, runs, strict=True)}
    keys = set(drawn([p.key for p in runs[0].predictions], limit, seed))
    chosen = [p for p in runs[0].predictions if p.key in keys]
    if kind == "errors":
        return _statements(runs[0], chosen)
    context = _contexts(runs[0], chosen) if kind in ("rate", "prefer") else {}
    result = []
    for prediction in chosen:
        lines, personas = context.get(prediction.key, ((), {}))
        candidates = {name: by[prediction.key].text for name, by in by_key.items()}
        question, reference = str(prediction.details.get("text", "")), prediction.references[0]
        result.append(Case(prediction.key, candidates, lines, personas, question, reference))
    return result


def drawn(keys: Collection[str], limit: int | None, seed: int) -> Collection[str]:
    """Draw at most ``limit`` keys, the same whatever their order."""
    return keys if limit is None or limit >= len(keys) else random.Random(seed).sample(sorted(keys), limit)


def write_verdicts(folder: Path, judged: Judged, seed: int = 0) -> Path:
    """Write verdicts atomically to the first run's folder and return the file."""
    runs = [{"name": name, "hash": of} for name, of in zip(judged.names, judged.runs, strict=True)]
    head = {"format": FORMAT, "kind": judged.kind, "judge": judged.judge, "seed": seed, "empty": judged.empty}
    lines = [
        {"key": one.key, "aspect": one.aspect, "verdict": one.value, "answers": list(one.answers)}
        for one in judged.verdicts
    ]
    others = "".join(f"-{NOT_IN_NAMES.sub('_', run['name'])}-{run['hash'][:6]}" for run in runs[1:])
    path = folder / f"judge-{judged.kind}{others}.jsonl"
    write_lines(path, ({"verdicts": head | {"runs": runs}}, *lines))
    return path


def read_verdicts(path: Path) -> Judged:
    """Read a file written by `write_verdicts`."""
    rows = list(json_lines(path, raise_bad))
    if not rows or "verdicts" not in rows[0]:
        raise DataFileError(path, 1, 'has no "verdicts" line; give a file written by ld-agent judge')
    about = rows.pop(0).record("verdicts")
    verdicts = []
    for row in rows:
        value = row.values.get("verdict")
        if value is not None and not isinstance(value, int | str):
            raise row.error(f"verdict={value!r} is neither a number nor a name")
        verdicts.append(Verdict(row.text("key"), str(row.values.get("aspect") or ""), value))
    names, hashes = zip(*((run.text("name"), run.text("hash")) for run in about.records("runs")), strict=True)
    return Judged(about.text("kind"), about.text("judge"), names, hashes, about.integer("empty"), tuple(verdicts))


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
            key, shown = f"{prediction.key}#{number}", lines[-LONGEST_REMEMBERED:]
            result.append(Case(key, {run.name: statement}, lines=shown, reference=prediction.references[0]))
    return result


def episodes_of(run: Run, predictions: Sequence[Prediction]) -> dict[str, Episode]:
    """Return the conversations that predictions are about, read again from the run's corpus."""
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
