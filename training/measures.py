"""Measures the answers of a module during tuning by the metrics of its entry in `ld_agent.modules.registry`.

Knows texts and metrics, but no models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ld_agent.errors import ConfigError
from ld_agent.evaluation.metrics import accuracy, bleu, rouge
from ld_agent.languages import ENGLISH
from ld_agent.modules.registry import TUNED
from training.settings import TrainingSettings


def measured(module: str, answers: Sequence[str], targets: Sequence[str]) -> dict[str, float]:
    """The module's metrics of raw answers against targets, as fractions."""
    entry = TUNED[module]
    texts = [entry.read_answer(answer, ENGLISH.reading) for answer in answers]
    references = [[target] for target in targets]
    figures: dict[str, float] = {}
    if "accuracy" in entry.metrics:
        figures["accuracy"] = accuracy(
            [t != entry.nothing for t in texts], [t != entry.nothing for t in targets]
        ).overall
    orders = [n for n in (1, 2, 3, 4) if f"bleu_{n}" in entry.metrics]
    measures = bleu(texts, references, orders) if orders else {}
    measures |= rouge(texts, references, [name for name in entry.metrics if name.startswith("rouge")])
    figures |= {name: measure.overall for name, measure in measures.items()}
    return {name: round(value, 4) if math.isfinite(value) else 0.0 for name, value in figures.items()}


def check_metric(settings: TrainingSettings, module: str) -> None:
    """Check that the best checkpoint is chosen by a metric that will be measured.

    Raises:
        ConfigError: it is not; lists the metrics that are.
    """
    known = ["eval_loss", *(f"eval_{name}" for name in TUNED[module].metrics if settings.eval_generations)]
    if settings.metric_for_best_model not in known:
        more = "" if settings.eval_generations else ", and with eval_generations above 0 also those of answers"
        raise ConfigError(
            f"metric_for_best_model={settings.metric_for_best_model} is not measured for the {module}; "
            f"it can be {', '.join(known)}{more}"
        )
