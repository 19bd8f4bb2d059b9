"""Evaluate the extractor against annotated traits (LD-Agent, table 3).

Predictions and references are traits joined by a space, or NO_TRAIT. The extractor runs as in the agent. Knows no files of
predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ld_agent.config import Config
from ld_agent.datasets import load_annotated_utterances
from ld_agent.evaluation.metrics import Measure, accuracy, bleu, rouge
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.tasks.module_task import Answer, ModuleTask
from ld_agent.modules.base import Models
from ld_agent.modules.extractor import Extractor
from ld_agent.modules.registry import NO_TRAIT


class ExtractionTask(ModuleTask):
    """Predict the traits of every annotated utterance of a file."""

    name, module = "extraction", "extractor"

    def __init__(self, data: Path, config: Config, limit: int | None = None) -> None:
        items = list(_items(data, limit))
        super().__init__(items, {item.key: len(item.about["text"]) + len(item.about["before"]) for item in items})

    def answering(self, config: Config, models: Models) -> Callable[[list[Item]], list[Answer]]:
        settings = config.modules.extractor
        extractor = Extractor(models, settings.prompting, settings.grounded)

        def answered(items: list[Item]) -> list[Answer]:
            texts, before = ([item.about[part] for item in items] for part in ("text", "before"))
            return [(joined(traits), {"traits": list(traits)}) for traits in extractor.extract(texts, before)]

        return answered


def joined(traits: Sequence[str]) -> str:
    """Join traits into one text."""
    return " ".join(traits) or NO_TRAIT


def measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Compute accuracy, recall and precision of trait or no trait, BLEU and ROUGE-L.

    ``rouge_l_traits`` is ROUGE-L over the utterances with annotated traits only.
    """
    texts, references = [p.text for p in predictions], [p.references for p in predictions]
    predicted = [text.strip() not in ("", NO_TRAIT) for text in texts]
    annotated = [expected[0] != NO_TRAIT for expected in references]
    rouge_l = rouge(texts, references, ["rouge_l"])["rouge_l"]
    return {
        "accuracy": accuracy(predicted, annotated),
        **bleu(texts, references),
        "rouge_l": rouge_l,
        "rouge_l_traits": rouge_l.where(annotated),
        "trait_recall": accuracy(predicted, annotated).where(annotated),
        "trait_precision": accuracy(predicted, annotated).where(predicted),
    }


def _items(data: Path, limit: int | None) -> Iterator[Item]:
    for u in load_annotated_utterances(data, limit=limit):
        about = {"turn": u.turn, "speaker": u.speaker, "text": u.text, "before": u.before}
        yield Item(f"{u.episode}/{u.session}/{u.turn}", u.episode, u.session, (joined(u.traits),), about)
