"""Evaluate the summarizer against the reference summaries of DialogSum dialogues or LoCoMo sessions.

DialogSum's speaker tags are replaced with names, as in tuning, because the agent's sessions have names. Knows no files of
predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ld_agent.config import Config
from ld_agent.datasets import format_of, load_dialogues, load_episodes
from ld_agent.datasets.dialogsum import free_names, named_dialogue
from ld_agent.evaluation.metrics import Measure, bleu, mean, meteor, rouge
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.tasks.module_task import Answer, ModuleTask
from ld_agent.evaluation.tasks.retrieval import locomo_cases
from ld_agent.memory.encoder import configured
from ld_agent.modules.base import Models
from ld_agent.modules.summarizer import Summarizer
from ld_agent.types import Session, Utterance

Summarised = tuple[str, str, Session, tuple[str, ...]]
"""Key, episode, session and its reference summaries."""


class SummaryTask(ModuleTask):
    """Summarise every dialogue of a DialogSum file, or every session with a summary of a LoCoMo file."""

    name, module = "summary", "summarizer"
    sections = ("backbone", "encoder")

    def __init__(self, data: Path, config: Config, limit: int | None = None) -> None:
        self._sessions: dict[str, Session] = {}
        items = []
        for key, episode, session, summaries in _summarised(data, limit):
            self._sessions[key] = session
            items.append(Item(key, episode, session.number, summaries))
        super().__init__(items, {key: sum(len(u.text) for u in s.utterances) for key, s in self._sessions.items()})

    def answering(self, config: Config, models: Models) -> Callable[[list[Item]], list[Answer]]:
        summarizer = Summarizer(models, configured(config.encoder).encode)

        def answered(items: list[Item]) -> list[Answer]:
            summaries = summarizer.summarize([self._sessions[item.key] for item in items])
            return [(summary.text, {"fallback": summary.fallback}) for summary in summaries]

        return answered


def _summarised(data: Path, limit: int | None) -> Iterator[Summarised]:
    if data.is_file() and format_of(data) == "locomo":
        for case in locomo_cases(data, limit):
            for session in case.sessions:
                if summary := case.summaries[session.number]:
                    yield f"{case.id}/{session.number}", case.id, session, (summary,)
        return
    if data.is_file() and format_of(data) == "msc_personasummary":
        yield from _annotated_sessions(data, limit)
        return
    for dialogue in load_dialogues(data, limit=limit):
        yield dialogue.id, dialogue.id, *named_dialogue(dialogue)


def _annotated_sessions(data: Path, limit: int | None) -> Iterator[Summarised]:
    """Yield the sessions of a corpus with annotated traits, with real names; the traits serve as a summary."""
    for episode in load_episodes(data, limit=limit):
        names = dict(zip(episode.speakers, free_names(episode.id, [t.text for t in episode.turns]), strict=False))
        for number, turns in episode.by_session().items():
            said = tuple(Utterance(f"u{n}", names[t.speaker], t.text, t.at, number) for n, t in enumerate(turns, 1))
            if facts := [(names[t.speaker], trait) for t in turns for trait in t.traits or ()]:
                reference = " ".join(f"{speaker}: {trait}" for speaker, trait in facts)
                yield f"{episode.id}/{number}", episode.id, Session(number, said), (reference,)


def measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Compute stemmed ROUGE-1, -2 and -L, BLEU, METEOR, and the share of fallbacks."""
    texts, references = [p.text for p in predictions], [p.references for p in predictions]
    return {
        **rouge(texts, references, stem=True),
        **bleu(texts, references),
        "meteor": meteor(texts, references),
        "fallbacks": mean(float(bool(p.details.get("fallback"))) for p in predictions),
    }
