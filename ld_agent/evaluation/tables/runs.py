"""What can stand in a row of a paper's table: runs, and what does not come from runs, statistics of corpora and benchmarks and
people's ratings. Each has facts, and figures by measure and session.

A run's facts follow from its configuration and data (`Facts`). Its figures come from its predictions, from the verdicts
next to them and, if computing them needs a model, from its ``scores.json``. Anything unfinished, empty or made for
another run is left out, with a reason.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ld_agent.config import parse_config
from ld_agent.datasets import format_of
from ld_agent.errors import ConfigError, InputError, LDAgentError
from ld_agent.evaluation.fallbacks import Counts, in_words, of_predictions
from ld_agent.evaluation.judging.judge import ASPECTS
from ld_agent.evaluation.judging.verdicts import MEASURES, OUTCOMES, PEOPLE, Judged, read_verdicts, verdicts_under
from ld_agent.evaluation.metrics import Measure
from ld_agent.evaluation.run_files import SCORES, complete_run, runs_under
from ld_agent.evaluation.tables.arms import facts_of
from ld_agent.evaluation.tables.paper_figures import CORPORA, Facts, Where, satisfied
from ld_agent.evaluation.tasks.registry import TASKS
from ld_agent.files import write_json

FIGURES = "figures.json"


@dataclass(slots=True)
class Entry:
    """One row's figures.

    Attributes:
        backbone: shown in the row's label; without a run, the data.
        facts: what it is, for `matches`: task, corpus, session or benchmark; and of a run, `FACTS`.
        hash: identifies it.
        system: the same for entries of one configuration over different data.
        figures: by measure; a float is shown with two decimals.
        note: shown under the table.
        fallbacks: how often its mechanisms fell back; {}: nothing was counted.
    """

    folder: Path
    name: str
    backbone: str
    facts: Facts
    hash: str
    system: str
    figures: Mapping[str, float | int] = field(default_factory=dict)
    note: str = ""
    data_sha256: str = ""
    fallbacks: Counts = field(default_factory=dict)
    verdicts: list[Judged] = field(default_factory=list)

    def count(self, session: int | None) -> int:
        """Number of predictions of a session; None: of all. Without a run, rows rather than columns have sessions."""
        return 0 if session is not None else 1

    def matches(self, where: Where) -> bool:
        return satisfied(self.facts, where)

    def figure(self, measure: str, session: int | None = None) -> str:
        """A figure as shown in a table; "" if there is none."""
        value = self.figures.get(measure)
        return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def write_figures(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write figures that come from no run where `collect` finds them: by row ``data``, ``facts``, ``values`` and ``note``.

    Args:
        path: a file whose name ends like `FIGURES`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"figures": list(rows)})


def figures_under(folder: Path, left_out: list[str]) -> Iterator[Entry]:
    """Yield the figures of all files in a folder tree; one that cannot be read is added to ``left_out``."""
    for path in sorted(folder.rglob(f"*{FIGURES}")):
        try:
            for row in json.loads(path.read_text(encoding="utf-8"))["figures"]:
                data, facts, values, note = (row[key] for key in ("data", "facts", "values", "note"))
                which = json.dumps([str(path), data, facts])
                yield Entry(path.parent, f"{facts['task']} of {data}", data, facts, which, which, values, note)
        except (OSError, ValueError, KeyError, TypeError) as exc:
            left_out.append(f"{path}: not figures ({exc!r}); make them again with ld-agent statistics, or judge agree")


_QUANTIZED = re.compile(r"(?i)(?:[.-](?:i?q\d\w*|b?f16|f32))?\.gguf$")
"""How the name of a GGUF file ends: ".Q4_1.gguf", "-q4_k_m.gguf"."""
PLAIN = ("frequency", "length")
"""Measures that are not shares, and so not shown in per cent."""


class TableRun(Entry):
    """One finished run."""

    def __init__(self, folder: Path) -> None:
        self.run = complete_run(folder)
        empty = sum(1 for p in self.run.predictions if not p.text.strip())
        if empty == len(self.run.predictions):
            raise InputError(f"{folder}: all {empty} predictions are empty; fix the configuration and run again")
        header = self.run.header
        try:
            config = parse_config(header["config"], str(folder))
        except ConfigError as exc:
            raise ConfigError(f"{exc}: the run was made by another version; repeat it") from exc
        section = config.modules.generator.backbone or config.backbone
        super().__init__(
            folder,
            self.run.name,
            short_name(section.model),
            {"task": self.run.task, "corpus": _corpus(Path(header["data"]))} | facts_of(config),
            hash=str(header["hash"]),
            system=json.dumps([self.run.name, {**header["config"], "store": None}], sort_keys=True),
            data_sha256=str(header["data_sha256"]),
            fallbacks=of_predictions(self.run.predictions),
        )
        self.sessions = sorted({p.session for p in self.run.predictions})
        self.note = self._note()
        self._measures: dict[str, Measure] | None = None

    def count(self, session: int | None) -> int:
        return sum(1 for p in self.run.predictions if session in (None, p.session))

    def _note(self) -> str:
        counted = ", ".join(f"session {number}: {self.count(number)}" for number in self.sessions)
        config = self.run.header["config"]
        given = {module: section.get("adapter") for module, section in config["modules"].items()}
        adapters = [
            f"{module} ({adapter})" if module == "generator" else module for module, adapter in given.items() if adapter
        ]
        return (
            f"Ours, run {self.name} ({self.folder}): backbone {self.backbone}, "
            f"{'adapters ' + ', '.join(adapters) if adapters else 'no adapters'}; views {', '.join(self.facts['views'])}; "
            f"encoder {config['encoder']['model']}; "
            f"data {self.run.header['data']}, {self.count(None)} predictions ({counted}); "
            f"fallbacks: {in_words(self.fallbacks) or 'not counted'}."
        )

    def figure(self, measure: str, session: int | None = None) -> str:
        if measure in MEASURES:
            value = self._judged(measure, session)
            return "" if value is None else f"{value:.2f}"
        if not self.count(session):
            return ""
        if self._measures is None:
            task = TASKS.get(self.run.task)
            self._measures = {} if task is None else task.measures(self.run.predictions)
        if measure in self._measures:
            figure = self._measures[measure]
            if session is not None:
                figure = figure.where([p.session == session for p in self.run.predictions])
            value = figure.overall
        else:
            value = self._scored(measure, session)
        return "" if value is None or math.isnan(value) else f"{value if measure in PLAIN else 100 * value:.2f}"

    def _judged(self, measure: str, session: int | None) -> float | None:
        kind = MEASURES[measure]
        judged = next((judged for judged in self.verdicts if judged.kind == kind), None)
        if judged is None:
            return None
        if session is not None:
            judged = judged.about({p.key for p in self.run.predictions if p.session == session})
        aspect = measure.removeprefix(f"{PEOPLE}_")
        if (wrong := OUTCOMES["errors"].get(aspect)) is not None:
            share = judged.share(wrong, "error" if kind == PEOPLE else "")
            return None if share is None else 100 * share
        return judged.mean(*(ASPECTS if measure == "average" else [""] if kind == "score" else [aspect]))

    def _scored(self, measure: str, session: int | None) -> float | None:
        path = self.folder / SCORES
        if not path.is_file():
            return None
        scores = json.loads(path.read_text("utf-8"))
        if scores.get("hash") != self.hash:
            raise InputError(f"{path} was made for another configuration (hash differs); score the run again")
        whole = session is None or self.sessions == [session]
        value = scores.get(measure) if whole else scores.get("by_session", {}).get(str(session), {}).get(measure)
        return float(value) if isinstance(value, int | float) else None


@dataclass(slots=True)
class Collected:
    """The runs and other figures of a folder, and what was left out, with reasons."""

    runs: list[Entry]
    comparisons: list[Judged]
    left_out: list[str]


def collect(folder: Path) -> Collected:
    """Read every run in a folder and below."""
    if not folder.is_dir():
        raise InputError(f"no folder {folder}; give one that ld-agent eval … --out has filled")
    collected = Collected([], [], [])
    for path in runs_under(folder):
        try:
            collected.runs.append(TableRun(path))
        except LDAgentError as exc:
            collected.left_out.append(str(exc))
    collected.runs += figures_under(folder, collected.left_out)
    if not collected.runs and not collected.left_out:
        raise InputError(f"no run in {folder} or below; make one with ld-agent eval … --out")
    known = {run.hash for run in collected.runs}
    for path in verdicts_under(folder):
        try:
            judged = read_verdicts(path)
        except LDAgentError as exc:
            collected.left_out.append(str(exc))
            continue
        judged_runs = [run for run in collected.runs if isinstance(run, TableRun) and run.folder == path.parent]
        if not set(judged.runs) <= known or not judged_runs or judged_runs[0].hash != judged.runs[0]:
            collected.left_out.append(f"{path}: the verdicts are about another run (hash differs); judge again")
        elif judged.kind not in ("prefer", "compare", "choose"):
            judged_runs[0].verdicts.append(judged)
        else:
            collected.comparisons.append(judged)
    return collected


def short_name(model: str) -> str:
    """A model's name without its location: "package:x/SmolLM2-135M-Instruct.Q4_1.gguf" → "SmolLM2-135M-Instruct"."""
    name = model.rstrip("/").rpartition("/")[2]
    return _QUANTIZED.sub("", name)


def _corpus(data: Path) -> str | None:
    """The corpus of a file, by its format; None: unknown."""
    file = next(iter(sorted(data.rglob("*.txt"))), data) if data.is_dir() else data
    try:
        corpus = format_of(file)
    except LDAgentError:
        return None
    return CORPORA.get(corpus, corpus)
