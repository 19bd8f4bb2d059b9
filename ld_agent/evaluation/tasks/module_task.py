"""Tasks about one tuned module by itself, as the agent asks it. Knows no agent and no files of predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from ld_agent.config import Config
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.runner import Task
from ld_agent.modules.base import Models
from ld_agent.modules.registry import TUNED

CHUNK = 64
"""Items asked for in one call: some batches of the backbone, and little to lose when a run is interrupted."""
Answer = tuple[str, Mapping[str, Any]]
"""A prediction and its details."""


class ModuleTask(Task):
    """Ask one module about every item.

    Args:
        items: what to predict.
        lengths: of the items' texts, by key; items of like length are asked together, because a batch is padded to its longest.
    """

    module: str
    sections: tuple[str, ...] = ("backbone",)
    """The sections of a config that affect the predictions, besides the module's own."""

    def __init__(self, items: Sequence[Item], lengths: Mapping[str, int]) -> None:
        self.items, self._lengths = items, lengths
        self.prompts = TUNED[self.module].prompts

    def settings(self, config: Config) -> Mapping[str, Any]:
        own = {self.module: getattr(config.modules, self.module)}
        parts = {name: getattr(config, name) for name in self.sections} | own
        return {name: part.model_dump(mode="json") for name, part in parts.items()}

    def predict(self, config: Config, items: Sequence[Item]) -> Iterator[Prediction]:
        with closing(Models(config)) as models:
            answered = self.answering(config, models)
            ordered = sorted(items, key=lambda item: self._lengths[item.key])
            for start in range(0, len(ordered), CHUNK):
                chunk = ordered[start : start + CHUNK]
                for item, (text, details) in zip(chunk, answered(chunk), strict=True):
                    yield item.predicted(text, details)

    def answering(self, config: Config, models: Models) -> Callable[[list[Item]], list[Answer]]:
        """Return a function that asks the module about items."""
        raise NotImplementedError
