"""Questions about what was said weeks before: do the replies use the memory?

A conversation is stored in the memory, then each question is asked in a separate session of a copy, so that questions
do not affect each other. Three arms bound the result: the same question with nothing remembered, with the whole history
in the prompt, and with only the sentence that contains the answer. Knows no file of predictions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
from ld_agent.evaluation.fallbacks import MEMORY, REPLY, of_memory, of_reply
from ld_agent.evaluation.metrics import Measure, mean, token_f1
from ld_agent.evaluation.played import in_memory, live
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.runner import Task
from ld_agent.evaluation.tasks.question_data import Question, Questioned, load_questions
from ld_agent.evaluation.tasks.spoken_answers import contains
from ld_agent.languages import language
from ld_agent.languages.reading import Reading
from ld_agent.memory.quotes import LED_UP, worths
from ld_agent.modules.generator import Generator, Situation
from ld_agent.modules.reader import Reader
from ld_agent.modules.replies import reply_text
from ld_agent.running.replay import play
from ld_agent.steps import Steps, answering_some, run_many, side_by_side
from ld_agent.storage.exchange import copy_conversation
from ld_agent.text import words_of
from ld_agent.types import Reply, Utterance

WIDTH = 16
ARMS = ("nothing", "history", "handed")
LOST = ("not_stored", "not_recalled", "not_in_prompt", "ignored")
AGENT = "agent"
Asked = tuple[Reply, list[Request], dict[str, Answer]]

_CLAUSE = re.compile(
    r"(?<=[.!?;])\s+|(?<=[。！？；])|[，,](?=但|不过)|,?\s+\b(?:but|however|though)\b,?\s+", re.IGNORECASE
)
_INVITING = re.compile(
    r"\b(?:tell me|let me know|remind me|sorry|apologi[sz]e|love to (?:hear|know)|share)\b", re.IGNORECASE
)


class QuestionsTask(Task):
    """Ask every question of a file, in every arm.

    Args:
        limit: maximum number of conversations; None: all.
        free: the agent replies itself instead of repeating the recorded replies.
        no_arms: leave out the three arms.

    Raises:
        InputError: no such file, or no questions in it.
        DataFileError: a broken record.
    """

    name = "questions"

    def __init__(
        self, data: Path, config: Config, limit: int | None = None, free: bool = False, no_arms: bool = False
    ) -> None:
        self._asked = {one.episode.id: one for one in load_questions(data, limit)}
        self._free, self._arms = free, not no_arms
        self._questions = {q.key: q for one in self._asked.values() for q in one.questions}
        self.options = {"free": free, "arms": self._arms}
        self.items = [
            Item(
                q.key,
                one.episode.id,
                1,
                q.answers or ("",),
                {"speaker": q.speaker, "text": q.text, "category": q.category, "told": bool(q.answers)},
            )
            for one in self._asked.values()
            for q in one.questions
        ]

    def predict(self, config: Config, items: Sequence[Item]) -> Iterator[Prediction]:
        todo = {item.key: item for item in items}
        with in_memory(config) as agent:
            wanted = [self._asked[name] for name in dict.fromkeys(item.episode for item in items)]
            lived = (
                (one, play(agent, one.episode, lambda turn: None) if self._free else live(agent, one.episode))
                for one in wanted
            )
            for one, _ in run_many(lived, agent.models.complete, WIDTH):
                yield from self._ask(agent, one, [todo[q.key] for q in one.questions if q.key in todo])

    def _ask(self, agent: Agent, one: Questioned, items: Sequence[Item]) -> Iterator[Prediction]:
        """Ask the questions of one conversation concurrently."""
        name, mine = one.episode.id, one.episode.agent
        stored = agent.store.find_conversation(name)
        assert stored is not None
        said, records = agent.store.utterances(stored.key), agent.store.records(stored.key)
        persona = (trait.text for trait, _ in agent.store.personas(stored.key).traits())
        sources = {source for record in records for source in record.sources if agent.config.memory.quotes}
        remembered = "\n".join([*(r.text for r in records), *persona, *(u.text for u in said if u.id in sources)])
        memory = of_memory(agent.store, stored.key)
        copies = {f"{name}?{number}": item for number, item in enumerate(items)}
        copy_conversation(agent.resources.store, name, list(copies))
        work = (
            (key, self._answered(agent, key, mine, self._questions[item.key], said)) for key, item in copies.items()
        )
        for key, (reply, requests, answers) in run_many(work, agent.models.complete, WIDTH):
            item, question = copies[key], self._questions[copies[key].key]
            arms = {arm: answer.text for arm, answer in answers.items()}
            quoted = [arm for arm, answer in answers.items() if QUOTED in answer.notes]
            quoted += [AGENT] if QUOTED in reply.notes else []
            recalled = [r.record.text for r in reply.recalled]
            behind = {source for r in reply.recalled for source in r.record.sources}
            quotable = [u.text for u in said if u.id in behind] if agent.config.memory.quotes else []
            traits = [t for known in reply.traits.values() for t in known]
            shown = "\n".join(_shown(request) for request in requests)
            details = {"arms": arms, "recalled": recalled, "traits": traits, "notes": list(reply.notes)}
            details |= {REPLY: of_reply(reply), MEMORY: memory, "quoted": quoted, "language": agent.config.language}
            if question.answers and not contains(reply.text, question.answers):
                places = (remembered, "\n".join([*recalled, *quotable, *traits]), shown)
                details["lost"] = next(
                    (LOST[n] for n, text in enumerate(places) if not contains(text, question.answers)), LOST[-1]
                )
            yield item.predicted(reply.text, details)
            agent.conversation(key, agent_name=mine).delete()
        agent.conversation(name, agent_name=mine).delete()

    def _answered(
        self, agent: Agent, key: str, mine: str, question: Question, said: Sequence[Utterance]
    ) -> Steps[Asked]:
        """Ask one question of a copy, and again in every arm."""
        asked: list[Request] = []
        conversation = agent.conversation(key, agent_name=mine)
        turn = conversation.turn(question.text, question.speaker, question.at, reply_at=question.at)

        def given(request: Request) -> str | None:
            if request.module in ("generator", "reader"):
                asked.append(request)
            return "NO_TRAIT" if request.module == "extractor" else None  # the copy is not used afterwards

        reply = yield from answering_some(turn, given)
        situations = self._situations(agent, reply, mine, question, said) if self._arms else {}
        replies = yield from side_by_side([_arm(agent, situation) for situation in situations.values()])
        return reply, asked, dict(zip(situations, replies, strict=True))

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
