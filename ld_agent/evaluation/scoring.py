"""Scores of runs: every figure with its interval, by session, and systems against one another.

Works from predictions alone, so that a run is scored as often as one likes. Knows no model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ld_agent.errors import InputError
from ld_agent.evaluation.bootstrap import LEVEL, SAMPLES, compare, interval
from ld_agent.evaluation.metrics import Measure, meteor_stages
from ld_agent.evaluation.runner import Prediction, Run

if TYPE_CHECKING:
    from ld_agent.evaluation.bert_score import BertScore

PLACES = 6
Measures = dict[str, Measure]
_FIGURES = {
    "extraction": ("extraction", "extraction_measures"),
    "summary": ("summary", "summary_measures"),
    "response": ("response", "response_measures"),
    "questions": ("questions", "question_measures"),
    "memory": ("memory_quality", "memory_measures"),
    **{f"ecm-{benchmark}": ("ecm", "ecm_measures") for benchmark in ("continuing", "knowledge", "feedback")},
}


def measures(run: Run, bert_score: BertScore | None = None) -> Measures:
    """What is measured of a run: the figures of its task and, with an encoder, BERTScore.

    Raises:
        InputError: a run of an unknown task, or without predictions.
    """
    if run.task not in _FIGURES:
        raise InputError(f"a run of {run.task!r} cannot be scored here; known are {', '.join(_FIGURES)}")
    if not run.predictions:
        raise InputError(f"run {run.name!r} has no predictions to score; make them with ld-agent eval {run.task} --out")
    module, function = _FIGURES[run.task]
    found: Measures = getattr(import_module(f"ld_agent.evaluation.{module}"), function)(run.predictions)
    if bert_score is not None:
        found["bert_score"] = bert_score.f1([p.text for p in run.predictions], [p.references for p in run.predictions])
    return found


def scores(run: Run, measured: Measures) -> dict[str, Any]:
    """Every figure of a run, as one JSON object: of all predictions, with intervals, and by session."""
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
    result |= _figures(measured) | _corpus_figures(run.task, predictions)
    if "meteor" in measured:
        result["meteor_stages"] = meteor_stages()
    result["intervals"] = {name: _rounded(interval(measure, episodes)) for name, measure in measured.items()}
    result["interval_level"], result["bootstrap_samples"] = LEVEL, SAMPLES
    sessions = sorted({p.session for p in predictions})
    if len(sessions) > 1:
        result["by_session"] = {
            str(number): {"predictions": sum(1 for p in predictions if p.session == number)}
            | _figures({k: m.where([p.session == number for p in predictions]) for k, m in measured.items()})
            | _corpus_figures(run.task, [p for p in predictions if p.session == number])
            for number in sessions
        }
    return result


def comparisons(runs: Sequence[Run], measured: Sequence[Measures]) -> list[dict[str, Any]]:
    """Each run against the first, figure by figure, by paired bootstrap over the same episodes.

    Raises:
        InputError: runs of different tasks or data, or over different predictions.
    """
    first, *rest = runs
    keys = [p.key for p in first.predictions]
    episodes = [p.episode for p in first.predictions]
    found = []
    for run, own in zip(rest, measured[1:], strict=True):
        if run.task != first.task or run.header["data_sha256"] != first.header["data_sha256"]:
            raise InputError(
                f"{run.name!r} is eval {run.task} of {run.header['data']}, {first.name!r} is eval {first.task} of "
                f"{first.header['data']}; compare runs over the same data"
            )
        places = {p.key: place for place, p in enumerate(run.predictions)}
        if set(places) != set(keys):
            raise InputError(
                f"{run.name!r} has {len(places)} predictions, {first.name!r} has {len(keys)}, and not the same ones; "
                f"finish both with one --limit"
            )
        order = [places[key] for key in keys]
        for name, before in measured[0].items():
            if name not in own:
                continue
            test = compare(before, Measure(own[name].parts[order], own[name].value), episodes)
            if test is not None:
                found.append(
                    {
                        "metric": name,
                        "system": run.name,
                        "against": first.name,
                        "difference": _round(test.difference),
                        "interval": _rounded(test.interval),
                        "p": _round(test.p),
                    }
                )
    return found


def _corpus_figures(task: str, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Figures that are no sums, and so have no interval."""
    if task == "questions":
        from ld_agent.evaluation.questions import by_category

        return {"questions": len(predictions), "by_category": by_category(predictions)}
    if task != "response":
        return {}
    from ld_agent.evaluation.response import distinct_figures

    return {name: _round(value) for name, value in distinct_figures(predictions).items()}


def _figures(measured: Mapping[str, Measure]) -> dict[str, float | None]:
    return {name: _round(measure.overall) for name, measure in measured.items()}


def _round(value: float) -> float | None:
    return None if math.isnan(value) else round(value, PLACES)


def _rounded(pair: tuple[float, float] | None) -> list[float | None] | None:
    return None if pair is None else [_round(value) for value in pair]
