"""Score runs: metrics with confidence intervals, scores by session, and comparisons of systems.

Needs only stored predictions, so a run can be scored any number of times. Knows no model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ld_agent.errors import InputError
from ld_agent.evaluation import fallbacks
from ld_agent.evaluation.bootstrap import LEVEL, SAMPLES, compare, interval
from ld_agent.evaluation.metrics import Measure, meteor_stages
from ld_agent.evaluation.run_files import Prediction, Run, check_same_items
from ld_agent.evaluation.tasks.registry import task_entry

if TYPE_CHECKING:
    from ld_agent.evaluation.bert_score import BertScore

PLACES = 6
Measures = dict[str, Measure]


def measures(run: Run, bert_score: BertScore | None = None) -> Measures:
    """Compute the measures of a run's task and, with an encoder, BERTScore.

    Raises:
        InputError: the task is unknown, or the run has no predictions.
    """
    task = task_entry(run.task)
    if not run.predictions:
        raise InputError(f"run {run.name!r} has no predictions to score; make them with ld-agent eval {run.task} --out")
    measured = task.measures(run.predictions)
    if bert_score is not None:
        measured["bert_score"] = bert_score.f1(
            [p.text for p in run.predictions], [p.references for p in run.predictions]
        )
    return measured


def scores(run: Run, measured: Measures) -> dict[str, Any]:
    """Return all scores of a run as one JSON object: overall, with intervals, and by session."""
    predictions = run.predictions
    episodes = [p.episode for p in predictions]
    result: dict[str, Any] = {
        "task": run.task,
        "system": run.name,
        "data": run.header["data"],
        "hash": run.header["hash"],
        "episodes": len(set(episodes)),
        "predictions": len(predictions),
        "empty": sum(1 for p in predictions if not p.text.strip()),
    }
    counts = fallbacks.of_predictions(predictions)
    result["fallback_counts"], result["mostly_fallbacks"] = fallbacks.as_json(counts), fallbacks.mostly(counts)
    result |= _figures(measured) | _whole_figures(run.task, predictions)
    if "meteor" in measured:
        result["meteor_stages"] = meteor_stages()
    result["intervals"] = {name: _rounded(interval(measure, episodes)) for name, measure in measured.items()}
    result["interval_level"], result["bootstrap_samples"] = LEVEL, SAMPLES
    sessions = sorted({p.session for p in predictions})
    if len(sessions) > 1:
        result["by_session"] = {
            str(number): {"predictions": sum(1 for p in predictions if p.session == number)}
            | _figures({k: m.where([p.session == number for p in predictions]) for k, m in measured.items()})
            | _whole_figures(run.task, [p for p in predictions if p.session == number])
            for number in sessions
        }
    return result


def comparisons(runs: Sequence[Run], measured: Sequence[Measures]) -> list[dict[str, Any]]:
    """Compare each run with the first, metric by metric, by paired bootstrap over episodes.

    Raises:
        InputError: the runs differ in task, data or predicted items.
    """
    check_same_items(runs)
    first, *rest = runs
    keys = [p.key for p in first.predictions]
    episodes = [p.episode for p in first.predictions]
    results = []
    for run, other in zip(rest, measured[1:], strict=True):
        places = {p.key: place for place, p in enumerate(run.predictions)}
        order = [places[key] for key in keys]
        for name, before in measured[0].items():
            if name not in other:
                continue
            test = compare(before, Measure(other[name].parts[order], other[name].value), episodes)
            if test is not None:
                results.append(
                    {
                        "metric": name,
                        "system": run.name,
                        "against": first.name,
                        "difference": _round(test.difference),
                        "interval": _rounded(test.interval),
                        "p": _round(test.p),
                    }
                )
    return results


def _whole_figures(task: str, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Figures of the predictions as a whole, which have no interval."""
    figures = task_entry(task).figures(predictions)
    return {name: _round(value) if isinstance(value, float) else value for name, value in figures.items()}


def _figures(measured: Mapping[str, Measure]) -> dict[str, float | None]:
    return {name: _round(measure.overall) for name, measure in measured.items()}


def _round(value: float) -> float | None:
    return None if math.isnan(value) else round(value, PLACES)


def _rounded(pair: tuple[float, float] | None) -> list[float | None] | None:
    return None if pair is None else [_round(value) for value in pair]
