"""How good a memory is: what an agent remembers of a conversation against what people noted down (Rsum, Figure 5).

Precision, recall and F1 of the words: a memory that says more than was noted loses precision, one that leaves something out
loses recall. Replies are not generated. Knows no particular memory mechanism but how the newest of several versions is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent
from ld_agent.config import Config
from ld_agent.datasets import Episode, load_episodes
from ld_agent.errors import InputError
from ld_agent.evaluation.ecm import WIDTH, live
from ld_agent.evaluation.metrics import Measure, mean
from ld_agent.evaluation.runner import Item, Keep, Prediction
from ld_agent.modules.wording import words_of
from ld_agent.steps import run_many
from ld_agent.types import Record

REWRITTEN = frozenset({"recursive"})
"""Views whose newest record replaces those before it."""


class MemoryTask:
    """What is remembered at the end of every conversation of a file, all its sessions closed.

    Args:
        limit: conversations read; None: all.

    Raises:
        InputError: no such file, or a corpus without persona facts and annotated traits.
        DataFileError: a broken record.
    """

    name = "memory"

    def __init__(self, data: Path, config: Config, limit: int | None = None) -> None:
        self._episodes = {e.id: e for e in load_episodes(data, limit=limit) if golden(e)}
        if not self._episodes:
            raise InputError(
                f"{data} does not say what there is to remember; give conversations with personas or annotated traits"
            )
        self.prompts = ("[!je]*.yaml", "extractor*.yaml")
        self.items: Sequence[Item] = [
            Item(e.id, e.id, e.turns[-1].session or 1, (" ".join(golden(e)),)) for e in self._episodes.values()
        ]

    def settings(self, config: Config) -> Mapping[str, Any]:
        return config.model_dump(mode="json", exclude={"store"})

    def predict(self, config: Config, items: Sequence[Item], keep: Keep) -> None:
        unkept = config.model_copy(update={"store": config.store.model_copy(update={"path": ":memory:"})})
        agent = Agent(unkept)
        try:
            work = ((item, live(agent, self._episodes[item.episode])) for item in items)
            for item, _ in run_many(work, agent.models.complete, WIDTH):
                episode = self._episodes[item.episode]
                kept = standing(agent.conversation(episode.id, agent_name=episode.agent).records)
                fallbacks = sum(1 for record in kept if record.fallback)
                keep(item, " ".join(record.text for record in kept), {"records": len(kept), "fallbacks": fallbacks})
        finally:
            agent.close(end_sessions=False)


def golden(episode: Episode) -> tuple[str, ...]:
    """What people noted down of a conversation's speakers: the traits of its utterances, or else its personas."""
    traits = [trait for turn in episode.turns for trait in turn.traits or ()]
    return tuple(dict.fromkeys(traits or [fact for facts in episode.personas.values() for fact in facts]))


def standing(records: Sequence[Record]) -> list[Record]:
    """The records that stand: of a view that rewrites its memory, the newest alone."""
    newest = {record.view: record for record in records}
    return [r for r in records if r.view not in REWRITTEN or r is newest[r.view]]


def memory_measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Precision, recall and F1 of the words of memory and notes as bags, the mean over conversations."""
    shared = [_shared(p.text, p.references[0]) for p in predictions]
    precisions = [both / said if said else 0.0 for both, said, _ in shared]
    recalls = [both / noted if noted else 0.0 for both, _, noted in shared]
    return {
        "precision": mean(precisions),
        "recall": mean(recalls),
        "f1": mean(2 * both / (said + noted) if both else 0.0 for both, said, noted in shared),
    }


def _shared(said: str, noted: str) -> tuple[int, int, int]:
    """How many words two texts share as bags, and how many each has."""
    ours, theirs = words_of(said), words_of(noted)
    return (Counter(ours) & Counter(theirs)).total(), len(ours), len(theirs)
