"""Questions about what was said weeks before: do the replies use the memory?

A conversation is stored in the memory, then each question is asked in a separate session of a copy, so that questions
do not affect each other. Three arms bound the result: the same question with nothing remembered, with the whole history
in the prompt, and with only the sentence that contains the answer. Knows no file of predictions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ld_agent.agent import Agent
from ld_agent.answering import QUOTED, Answer, Answering
from ld_agent.backbones.base import Request
from ld_agent.checks.named import asked_about
from ld_agent.checks.not_knowing import says_unknown
from ld_agent.config import Config
from ld_agent.conversation import Conversation
from ld_agent.datasets.base import Episode
from ld_agent.evaluation.metrics import Measure, mean, token_f1
from ld_agent.evaluation.played import Answered, AskedTask, live
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.tasks.question_data import Question, contains, load_questions
from ld_agent.languages import language
from ld_agent.languages.reading import Reading
from ld_agent.memory.quotes import LED_UP, worths
from ld_agent.modules.generator import Generator, Situation
from ld_agent.modules.reader import Reader
from ld_agent.modules.replies import reply_text
from ld_agent.running.replay import play
from ld_agent.steps import Steps, answering_some, side_by_side
from ld_agent.text import words_of
from ld_agent.types import Record, Reply, Utterance

ARMS = ("nothing", "history", "handed")
LOST = ("not_stored", "not_recalled", "not_in_prompt", "ignored")
AGENT = "agent"

_CLAUSE = re.compile(
    r"(?<=[.!?;])\s+|(?<=[。！？；])|[，,](?=但|不过)|,?\s+\b(?:but|however|though)\b,?\s+", re.IGNORECASE
)
_INVITING = re.compile(
    r"\b(?:tell me|let me know|remind me|sorry|apologi[sz]e|love to (?:hear|know)|share)\b", re.IGNORECASE
)


class QuestionsTask(AskedTask):
    """Ask every question of a file, in every arm."""

    name = "questions"

    def __init__(
        self, data: Path, config: Config, limit: int | None = None, free: bool = False, no_arms: bool = False
    ) -> None:
        asked = load_questions(data, limit)
        items = [
            Item(
                q.key,
                one.episode.id,
                1,
                q.answers or ("",),
                {"speaker": q.speaker, "text": q.text, "category": q.category, "told": bool(q.answers)},
            )
            for one in asked
            for q in one.questions
        ]
        super().__init__(asked, items, {"free": free, "arms": not no_arms})

    def lived(self, agent: Agent, episode: Episode, items: Sequence[Item]) -> Steps[None]:
        return play(agent, episode, lambda turn: None) if self.options["free"] else live(agent, episode)

    def answered(self, agent: Agent, conversation: Conversation, question: Question) -> Steps[Answered]:
        """Ask in a copy, and again in every arm."""
        said, records, quoting = conversation.utterances, conversation.records, bool(agent.config.memory.quotes)
        traits = [trait.text for trait, _ in agent.store.personas(conversation.key).traits()]

        def words(records: Sequence[Record], traits: Sequence[str]) -> str:
            """What records and traits say, and the utterances that may be quoted with them."""
            sources = {source for record in records for source in record.sources if quoting}
            return "\n".join([*(r.text for r in records), *traits, *(u.text for u in said if u.id in sources)])

        asked: list[Request] = []

        def given(request: Request) -> str | None:
            if request.module in ("generator", "reader"):
                asked.append(request)
            return "NO_TRAIT" if request.module == "extractor" else None  # the copy is not used afterwards

        turn = conversation.turn(question.text, question.speaker, question.at, reply_at=question.at)
        reply = yield from answering_some(turn, given)
        mine = conversation.agent_name
        situations = self._situations(agent, reply, mine, question, said) if self.options["arms"] else {}
        replies = yield from side_by_side([_arm(agent, situation) for situation in situations.values()])
        arms = dict(zip(situations, replies, strict=True))
        recalled, known = [r.record for r in reply.recalled], [t for of_one in reply.traits.values() for t in of_one]
        quoted = [arm for arm, answer in arms.items() if QUOTED in answer.notes]
        details: dict[str, Any] = {
            "arms": {arm: answer.text for arm, answer in arms.items()},
            "recalled": [record.text for record in recalled],
            "traits": known,
            "notes": list(reply.notes),
            "quoted": quoted + ([AGENT] if QUOTED in reply.notes else []),
            "language": agent.config.language,
        }
        if question.answers and not contains(reply.text, question.answers):
            shown = "\n".join(_shown(request) for request in asked)
            places = (words(records, traits), words(recalled, known), shown)
            lost = (place for place, text in zip(LOST, places, strict=False) if not contains(text, question.answers))
            details["lost"] = next(lost, LOST[-1])
        return reply, details

    def _situations(
        self, agent: Agent, reply: Reply, mine: str, question: Question, said: Sequence[Utterance]
    ) -> dict[str, Situation]:
        seed = tuple(agent.config.agent.persona)
        about = asked_about(
            question.text, (mine, question.speaker, *(u.speaker for u in said)), agent.models.language.reading
        )
        bare = Situation(
            mine, reply.heard, traits={mine: seed} if seed else {}, people=(question.speaker,), about=about
        )
        situations = {"nothing": bare, "history": replace(bare, quotes=tuple(said))}
        if question.answers and (sentence := handed_over(agent, question, said, mine)):
            situations["handed"] = replace(bare, quotes=sentence, passages=(sentence,))
        return situations


def _arm(agent: Agent, situation: Situation) -> Steps[Answer]:
    """Return the reply to a situation, with the same checks as the agent's replies."""
    modules, resources = agent.config.modules, agent.resources
    generator = Generator(agent.models, modules.generator.prompting)
    reader = Reader(agent.models) if modules.reader.passages else None
    answering = Answering(
        generator, resources.encoder.encode, resources.topics.extract, modules.generator.grounded, reader
    )
    answer = yield from answering.steps(situation, generator.prompt_for(situation))
    return replace(answer, text=reply_text(answer.text, situation.agent, situation.people))


def handed_over(agent: Agent, question: Question, said: Sequence[Utterance], mine: str) -> tuple[Utterance, ...]:
    """Return the evidence named by the corpus, or else the utterance containing the answer that is most similar to the
    question, preceded by the two before it, as in the agent's passages."""
    named = tuple(u for n, u in enumerate(said) if n in question.evidence)
    if named:
        return named
    holding = [u for u in said if contains(u.text, question.answers)]
    if not holding:
        return ()
    heard = Utterance("", question.speaker, question.text, question.at, 0)
    worth = worths(heard, mine, holding, agent.encoder.encode, agent.models.language.reading)
    best = said.index(holding[int(np.argmax(worth))])
    return tuple(u for u in said[max(best - LED_UP, 0) : best + 1] if u.session == said[best].session)


def _shown(request: Request) -> str:
    """The text shown to a module besides the question."""
    return request.messages[-1 if request.module == "reader" else 0].content


def invents_nothing(reply: str, reading: Reading) -> bool:
    """Whether a reply says that something is not known and claims nothing else: it asks, or is polite."""
    clauses = [c for c in _CLAUSE.split(reply) if re.search(r"\w", c)]
    return says_unknown(reply, reading) and all(
        says_unknown(c, reading) or c.rstrip().endswith(("?", "？")) or _INVITING.search(c) or len(words_of(c)) <= 3
        for c in clauses
    )


def measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Figures of the agent as configured and, under ``…_ARM``, of the arms; and where answers were lost.

    ``answered``, ``f1``: over the questions with an answer. ``unknown_right``: over those without. ``denied``: the share
    of questions with an answer to which the reply says that it does not know. ``answered_quoting``, ``unknown_quoting``:
    the parts of ``answered`` and ``unknown_right`` in which the reply is not sure and quotes what was said.
    ``lost_…``: shares of the questions with an answer; with ``answered`` they add up to 1.
    """
    answerable = [bool(p.details["told"]) for p in predictions]
    overall = _figures(predictions, [p.text for p in predictions], answerable)
    for place in LOST:
        overall[f"lost_{place}"] = mean(float(p.details.get("lost") == place) for p in predictions).where(answerable)
    for arm in ARMS:
        texts = [p.details["arms"].get(arm) for p in predictions]
        there = [text is not None for text in texts]
        if any(there):
            counted = [known and asked for known, asked in zip(answerable, there, strict=True)]
            unknown = [not known and asked for known, asked in zip(answerable, there, strict=True)]
            figures = _figures(predictions, [text or "" for text in texts], counted, unknown, arm)
            overall |= {
                f"{name}_{arm}": m
                for name, m in figures.items()
                if not (arm == "handed" and name.startswith("unknown"))
            }
    return overall


def _figures(
    predictions: Sequence[Prediction],
    texts: Sequence[str],
    answerable: Sequence[bool],
    unknown: Sequence[bool] | None = None,
    arm: str = AGENT,
) -> dict[str, Measure]:
    """Return the figures of one arm over the questions ``answerable`` and ``unknown`` (default: all others)."""
    unknown = [not known for known in answerable] if unknown is None else unknown
    references = [p.references for p in predictions]
    quoted = [arm in p.details.get("quoted", ()) for p in predictions]
    hits = [contains(text, accepted) for text, accepted in zip(texts, references, strict=True)]
    readings = [language(p.details.get("language", "en")).reading for p in predictions]
    denied = [says_unknown(text, reading) and not hit for text, reading, hit in zip(texts, readings, hits, strict=True)]
    honest = [q or invents_nothing(t, reading) for t, reading, q in zip(texts, readings, quoted, strict=True)]
    return {
        "answered": mean(map(float, hits)).where(answerable),
        "answered_quoting": mean(float(h and q) for h, q in zip(hits, quoted, strict=True)).where(answerable),
        "f1": token_f1(texts, references).where(answerable),
        "denied": mean(map(float, denied)).where(answerable),
        "unknown_right": mean(map(float, honest)).where(unknown),
        "unknown_quoting": mean(map(float, quoted)).where(unknown),
    }


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
