"""Evaluate the extractor against annotated traits (LD-Agent, table 3).

Predictions and references are traits joined by a space, or NO_TRAIT. The extractor runs as in the agent. Knows no files of
predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ld_agent.config import Config
from ld_agent.datasets import load_annotated_utterances
from ld_agent.evaluation.metrics import Measure, accuracy, bleu, rouge, sacrebleu
from ld_agent.evaluation.runner import Item, Keep, Prediction
from ld_agent.modules.registry import NO_TRAIT, TUNED

CHUNK = 64
"""Utterances asked for in one call: some batches of the backbone, and little to lose when a run is interrupted."""


class ExtractionTask:
    """Predict the traits of every annotated utterance of a file.

    Args:
        limit: maximum number of episodes; None: all.

    Raises:
        InputError: the file is missing or has no annotated traits.
        DataFileError: a record is malformed.
    """

    name = "extraction"

    def __init__(self, data: Path, config: Config, limit: int | None = None) -> None:
        self.items: Sequence[Item] = list(_items(data, limit))
        self.prompts = TUNED["extractor"].prompts

    def settings(self, config: Config) -> Mapping[str, Any]:
        return {
            "backbone": config.backbone.model_dump(mode="json"),
            "extractor": config.modules.extractor.model_dump(mode="json"),
        }

    def predict(self, config: Config, items: Sequence[Item], keep: Keep) -> None:
        from ld_agent.modules.base import Models
        from ld_agent.modules.extractor import Extractor

        settings = config.modules.extractor
        models = Models(config)
        try:
            extractor = Extractor(models, settings.prompting, settings.grounded)
            # Sort by length, because a batch is padded to its longest text.
            ordered = sorted(items, key=lambda item: len(item.about["text"]) + len(item.about["before"]))
            for start in range(0, len(ordered), CHUNK):
                chunk = ordered[start : start + CHUNK]
                extracted = extractor.extract(
                    [item.about["text"] for item in chunk], [item.about["before"] for item in chunk]
                )
                for item, traits in zip(chunk, extracted, strict=True):
                    keep(item, joined(traits), {"traits": list(traits)})
        finally:
            models.close()


def joined(traits: Sequence[str]) -> str:
    """Join traits into one text."""
    return " ".join(traits) or NO_TRAIT


def extraction_measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
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
        "sacrebleu": sacrebleu(texts, references),
        "rouge_l": rouge_l,
        "rouge_l_traits": rouge_l.where(annotated),
        "trait_recall": accuracy(predicted, annotated).where(annotated),
        "trait_precision": accuracy(predicted, annotated).where(predicted),
    }


def _items(data: Path, limit: int | None) -> Iterator[Item]:
    for u in load_annotated_utterances(data, limit=limit):
        about = {"turn": u.turn, "speaker": u.speaker, "text": u.text, "before": u.before}
        yield Item(f"{u.episode}/{u.session}/{u.turn}", u.episode, u.session, (joined(u.traits),), about)
