"""Score runs: metrics with confidence intervals, scores by session, and comparisons of systems.

Needs only stored predictions, so a run can be scored any number of times. Knows no model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ld_agent.config.named import named
from ld_agent.errors import InputError
from ld_agent.evaluation import fallbacks
from ld_agent.evaluation.bootstrap import LEVEL, SAMPLES, compare, interval
from ld_agent.evaluation.metrics import Measure
from ld_agent.evaluation.run_files import Prediction, Run, check_same_items
from ld_agent.evaluation.tasks.registry import task_entry

if TYPE_CHECKING:
    from ld_agent.evaluation.bert_score import BertScore

PLACES = 6
Measures = dict[str, Measure]
Metric = Callable[[Sequence[Prediction]], Measure]


def metric(name: str) -> Metric:
    """A metric of one's own, ``package.module:function``: a run's predictions to a `Measure`.

    Raises:
        ConfigError: there is none.
    """
    none: dict[str, Metric] = {}
    return named(none, name, key="--metric", kinds="metrics", wanted="a function of predictions", fits=callable)


def measures(run: Run, bert_score: BertScore | None = None, metrics: Sequence[str] = ()) -> Measures:
    """Compute the measures of a run's task, with an encoder BERTScore, and other metrics by their names, see `metric`."""
    task = task_entry(run.task)
    if not run.predictions:
        raise InputError(f"run {run.name!r} has no predictions to score; make them with ld-agent eval {run.task} --out")
    measured = task.measures(run.predictions)
    if bert_score is not None:
        texts, references = [p.text for p in run.predictions], [p.references for p in run.predictions]
        measured["bert_score"] = bert_score.f1(texts, references)
    for name in metrics:
        measured[name.rpartition(":")[2]] = metric(name)(run.predictions)
    return measured


def scores(run: Run, measured: Measures) -> dict[str, Any]:
    """Return all scores of a run as one JSON object: overall, with intervals, and by session."""
    predictions, figures = run.predictions, task_entry(run.task).figures
    episodes = [p.episode for p in predictions]
    counts = fallbacks.of_predictions(predictions)
    result: dict[str, Any] = {
        "task": run.task,
        "system": run.name,
        "data": run.header["data"],
        "hash": run.header["hash"],
        "episodes": len(set(episodes)),
        "predictions": len(predictions),
        "empty": sum(1 for p in predictions if not p.text.strip()),
        "fallback_counts": fallbacks.as_json(counts),
        "mostly_fallbacks": fallbacks.mostly(counts),
    }
    result |= _rounded({name: measure.overall for name, measure in measured.items()} | figures(predictions))
    result["intervals"] = _rounded({name: interval(measure, episodes) for name, measure in measured.items()})
    result["interval_level"], result["bootstrap_samples"] = LEVEL, SAMPLES
    sessions = sorted({p.session for p in predictions})
    if len(sessions) > 1:
        result["by_session"] = by_session = {}
        for number in sessions:
            chosen = [p.session == number for p in predictions]
            of_session = {name: measure.where(chosen).overall for name, measure in measured.items()}
            of_session |= figures([p for p in predictions if p.session == number])
            by_session[str(number)] = {"predictions": sum(chosen)} | _rounded(of_session)
    return result


def comparisons(runs: Sequence[Run], measured: Sequence[Measures]) -> list[dict[str, Any]]:
    """Compare each run with the first, metric by metric, by paired bootstrap over episodes."""
    check_same_items(runs)
    first, *rest = runs
    episodes = [p.episode for p in first.predictions]
    results = []
    for run, other in zip(rest, measured[1:], strict=True):
        places = {p.key: place for place, p in enumerate(run.predictions)}
        order = [places[p.key] for p in first.predictions]
        for name in (name for name in measured[0] if name in other):
            test = compare(measured[0][name], Measure(other[name].parts[order], other[name].value), episodes)
            if test is not None:
                about = {"metric": name, "system": run.name, "against": first.name}
                results.append(about | _rounded(test._asdict()))
    return results


def _rounded(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures for JSON: rounded, None for what is not a number."""

    def rounded(value: Any) -> Any:
        if isinstance(value, tuple):
            return [rounded(part) for part in value]
        return value if not isinstance(value, float) else None if math.isnan(value) else round(value, PLACES)

    return {name: rounded(value) for name, value in figures.items()}
