"""The extractor against annotated traits (LD-Agent, table 3): what it predicts for a corpus, and how that is scored.

A text of traits is the traits joined by a space, or NO_TRAIT, on both sides. Runs the extractor as the agent does. Knows
no file of predictions.
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
    """Every annotated utterance of a file.

    Args:
        limit: episodes read; None: all.

    Raises:
        InputError: no such file, or a corpus without annotated traits.
        DataFileError: a broken record.
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
            # Those of like length side by side: a batch is padded to its longest.
            ordered = sorted(items, key=lambda item: len(item.about["text"]) + len(item.about["before"]))
            for start in range(0, len(ordered), CHUNK):
                chunk = ordered[start : start + CHUNK]
                found = extractor.extract(
                    [item.about["text"] for item in chunk], [item.about["before"] for item in chunk]
                )
                for item, traits in zip(chunk, found, strict=True):
                    keep(item, joined(traits), {"traits": list(traits)})
        finally:
            models.close()


def joined(traits: Sequence[str]) -> str:
    """Traits as one text."""
    return " ".join(traits) or NO_TRAIT


def extraction_measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Accuracy of trait or no trait, BLEU-1 to -4 and ROUGE-L over all utterances, ROUGE-L over those with traits."""
    texts, references = [p.text for p in predictions], [p.references for p in predictions]
    found = [text.strip() not in ("", NO_TRAIT) for text in texts]
    true = [own[0] != NO_TRAIT for own in references]
    rouge_l = rouge(texts, references, ["rouge_l"])["rouge_l"]
    return {
        "accuracy": accuracy(found, true),
        **bleu(texts, references),
        "sacrebleu": sacrebleu(texts, references),
        "rouge_l": rouge_l,
        "rouge_l_traits": rouge_l.where(true),
        "trait_recall": accuracy(found, true).where(true),
        "trait_precision": accuracy(found, true).where(found),
    }


def _items(data: Path, limit: int | None) -> Iterator[Item]:
    for u in load_annotated_utterances(data, limit=limit):
        about = {"turn": u.turn, "speaker": u.speaker, "text": u.text, "before": u.before}
        yield Item(f"{u.episode}/{u.session}/{u.turn}", u.episode, u.session, (joined(u.traits),), about)
