"""Memory quality: an agent's memories of a conversation compared with human annotations (Rsum, Figure 5).

Measures precision, recall and F1 of words: additions cost precision, omissions cost recall. Replies are not generated.
Knows only which memory mechanisms rewrite their records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent
from ld_agent.config import Config
from ld_agent.conversation import Conversation
from ld_agent.datasets import Episode, load_episodes
from ld_agent.errors import InputError
from ld_agent.evaluation.metrics import Measure, mean, shares, token_f1
from ld_agent.evaluation.played import PlayedTask
from ld_agent.evaluation.run_files import Prediction
from ld_agent.text import SENTENCE_END, words_of
from ld_agent.types import Record

COUNTS = ("records", "utterances", "words")
"""What is counted of a memory; runs of older versions lack some."""
REWRITTEN = frozenset({"recursive", "golden"})
"""Views whose newest record replaces all earlier ones."""


class MemoryTask(PlayedTask):
    """Collect the memories of every conversation of a file after its last session."""

    name = "memory"

    def __init__(self, data: Path, config: Config, limit: int | None = None) -> None:
        episodes = {e.id: e for e in load_episodes(data, limit=limit) if golden(e)}
        if not episodes:
            raise InputError(
                f"{data} does not annotate what to remember; give conversations with personas or annotated traits"
            )
        super().__init__(episodes, {e.id: (" ".join(golden(e)),) for e in episodes.values()})

    def measured(self, agent: Agent, conversation: Conversation, episode: Episode) -> tuple[str, dict[str, Any]]:
        records = conversation.records
        kept = standing(records)
        return " ".join(r.text for r in kept), {
            "records": len(records),
            "words": sum(len(words_of(r.text)) for r in records),
            "utterances": len(episode.turns),
            "memories": [r.text for r in kept],
        }


def golden(episode: Episode) -> tuple[str, ...]:
    """Return the annotated facts about the speakers: the traits of utterances, or else the personas or the last memory."""
    traits = [trait for turn in episode.turns for trait in turn.traits or ()]
    if not traits and not episode.personas and episode.memories:
        return tuple(fact for facts in episode.memories[-1].facts.values() for fact in facts)
    return tuple(dict.fromkeys(traits or [fact for facts in episode.personas.values() for fact in facts]))


def standing(records: Sequence[Record]) -> list[Record]:
    """Return the current records: only the newest of a view that rewrites its memory."""
    newest = {record.view: record for record in records}
    return [r for r in records if r.view not in REWRITTEN or r is newest[r.view]]


def measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Compute precision, recall and F1 over bags of words, averaged over conversations; and how much was remembered.

    ``frequency`` is records per utterance, ``length`` words per record (ECM, Table 1).
    """
    texts, references = [p.text for p in predictions], [p.references for p in predictions]
    bags = [(Counter(words_of(text)), Counter(words_of(r))) for text, (r, *_) in zip(texts, references, strict=True)]
    counts = [[int(p.details.get(name, 0)) for name in COUNTS] for p in predictions]
    return {
        "precision": mean((said & noted).total() / max(said.total(), 1) for said, noted in bags),
        "recall": mean((said & noted).total() / max(noted.total(), 1) for said, noted in bags),
        "f1": token_f1(texts, references),
        "frequency": shares([(records, utterances) for records, utterances, _ in counts]),
        "length": shares([(length, records) for records, _, length in counts]),
    }


def statements_of(prediction: Prediction) -> list[str]:
    """Return the sentences of a memory, record by record."""
    return sentences_of(map(str, prediction.details.get("memories") or [prediction.text]))


def sentences_of(texts: Iterable[str]) -> list[str]:
    """Return the sentences and list items of texts, without repetitions."""
    lines = (line for text in texts for line in text.splitlines())
    sentences = [part.strip(" -*") for line in lines for part in SENTENCE_END.split(line)]
    return list(dict.fromkeys(sentence for sentence in sentences if words_of(sentence)))
