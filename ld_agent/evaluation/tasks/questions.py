"""Questions about what was said weeks before: do the replies use the memory?

A conversation is stored in the memory, then each question is asked in a separate session of a copy, so that questions
do not affect each other. Compare with ``-c none`` (nothing remembered) and ``-c full`` (the whole history in the prompt).
Knows no file of predictions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent
from ld_agent.answering import QUOTED
from ld_agent.backbones.base import Request
from ld_agent.checks.statements import says_unknown
from ld_agent.config import Config
from ld_agent.conversation import Conversation
from ld_agent.datasets.base import Episode
from ld_agent.evaluation.metrics import Measure, mean, token_f1
from ld_agent.evaluation.played import Answered, AskedTask, live
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.tasks.question_data import Question, contains, load_questions
from ld_agent.languages import language
from ld_agent.languages.reading import Reading
from ld_agent.running.replay import play
from ld_agent.steps import Steps, answering_some
from ld_agent.text import words_of
from ld_agent.types import Record

LOST = ("not_stored", "not_recalled", "not_in_prompt", "ignored")
"""Where an answer was lost: the first place that lacks it."""

_CLAUSE = re.compile(
    r"(?<=[.!?;])\s+|(?<=[。！？；])|[，,](?=但|不过)|(?<!\s),?\s++\b(?:but|however|though)\b,?\s+", re.IGNORECASE
)
_INVITING = re.compile(
    r"\b(?:tell me|let me know|remind me|sorry|apologi[sz]e|love to (?:hear|know)|share)\b", re.IGNORECASE
)


class QuestionsTask(AskedTask):
    """Ask every question of a file."""

    name = "questions"

    def __init__(self, data: Path, config: Config, limit: int | None = None, free: bool = False) -> None:
        super().__init__(load_questions(data, limit), {"free": free})

    def item(self, episode: Episode, question: Question) -> Item:
        about = {name: getattr(question, name) for name in ("speaker", "text", "category")}
        about["told"] = bool(question.answers)
        return Item(question.key, episode.id, 1, question.answers or ("",), about)

    def lived(self, agent: Agent, episode: Episode, items: Sequence[Item]) -> Steps[None]:
        return play(agent, episode, lambda turn: None) if self.options["free"] else live(agent, episode)

    def answered(self, agent: Agent, conversation: Conversation, question: Question) -> Steps[Answered]:
        said, records = conversation.utterances, conversation.records
        traits = [trait.text for trait in agent.store.traits(conversation.key)]
        asked: list[Request] = []

        def given(request: Request) -> str | None:
            if request.module in ("generator", "reader"):
                asked.append(request)
            return "NO_TRAIT" if request.module == "extractor" else None  # the copy is not used afterwards

        turn = conversation.turn(question.text, question.speaker, question.at, reply_at=question.at)
        reply = yield from answering_some(turn, given)
        recalled, known = [r.record for r in reply.recalled], [t for of_one in reply.traits.values() for t in of_one]
        details: dict[str, Any] = {
            "recalled": [record.text for record in recalled],
            "traits": known,
            "notes": list(reply.notes),
            "language": agent.config.language,
        }
        if question.answers and not contains(reply.text, question.answers):

            def words(records: Sequence[Record], traits: Sequence[str]) -> str:
                """What records and traits say, and the utterances that may be quoted with them."""
                sources = {source for record in records for source in record.sources if agent.config.memory.quotes}
                return "\n".join([*(r.text for r in records), *traits, *(u.text for u in said if u.id in sources)])

            places = (words(records, traits), words(recalled, known), "\n".join(map(_shown, asked)))
            lost = (place for place, text in zip(LOST, places, strict=False) if not contains(text, question.answers))
            details["lost"] = next(lost, LOST[-1])
        return reply, details


def _shown(request: Request) -> str:
    """The text shown to a module: what is recalled stands in the first message or in the last."""
    return f"{request.messages[0].content}\n{request.messages[-1].content}"


def invents_nothing(reply: str, reading: Reading) -> bool:
    """Whether a reply says that something is not known and claims nothing else: it asks, or is polite."""
    clauses = [c for c in _CLAUSE.split(reply) if re.search(r"\w", c)]
    return says_unknown(reply, reading) and all(
        says_unknown(c, reading) or c.rstrip().endswith(("?", "？")) or _INVITING.search(c) or len(words_of(c)) <= 3
        for c in clauses
    )


def measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Figures of the replies, and where answers were lost.

    ``answered``, ``f1``: over the questions with an answer. ``unknown_right``: over those without. ``denied``: the share
    of questions with an answer to which the reply says that it does not know. ``answered_quoting``, ``unknown_quoting``:
    the parts of ``answered`` and ``unknown_right`` in which the reply is not sure and quotes what was said.
    ``lost_…``: shares of the questions with an answer; with ``answered`` they add up to 1.
    """
    told = [bool(p.details["told"]) for p in predictions]
    never_told = [not known for known in told]
    texts, references = [p.text for p in predictions], [p.references for p in predictions]
    quoted = [QUOTED in p.details["notes"] for p in predictions]
    hits = [contains(text, accepted) for text, accepted in zip(texts, references, strict=True)]
    readings = [language(p.details.get("language", "en")).reading for p in predictions]
    denied = [says_unknown(text, reading) and not hit for text, reading, hit in zip(texts, readings, hits, strict=True)]
    honest = [q or invents_nothing(t, reading) for t, reading, q in zip(texts, readings, quoted, strict=True)]
    measured = {
        "answered": mean(map(float, hits)).where(told),
        "answered_quoting": mean(float(h and q) for h, q in zip(hits, quoted, strict=True)).where(told),
        "f1": token_f1(texts, references).where(told),
        "denied": mean(map(float, denied)).where(told),
        "unknown_right": mean(map(float, honest)).where(never_told),
        "unknown_quoting": mean(map(float, quoted)).where(never_told),
    }
    for place in LOST:
        measured[f"lost_{place}"] = mean(float(p.details.get("lost") == place) for p in predictions).where(told)
    return measured


def figures(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return figures of the questions as a whole."""
    return {"questions": len(predictions), "by_category": by_category(predictions)}


def by_category(predictions: Sequence[Prediction]) -> dict[str, dict[str, Any]]:
    """The main figures of each category of questions."""
    by_name = {}
    for category in dict.fromkeys(str(p.details["category"]) for p in predictions):
        chosen = [p for p in predictions if p.details["category"] == category]
        figures = measures(chosen)
        names = ("answered", "f1") if any(p.details["told"] for p in chosen) else ("unknown_right",)
        by_name[category] = {"questions": len(chosen)} | {name: round(figures[name].overall, 6) for name in names}
    return by_name
