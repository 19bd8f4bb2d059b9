"""Compare the agent's replies with recorded ones by teacher-forced replay (LD-Agent, tables 1, 2, 4; Rsum, tables 3–5).

Every episode is replayed from its first session. The agent generates its replies, but its memory takes in the recorded
ones, unless it runs free. The same prompts give the perplexity of the recorded replies. Knows no files of predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent
from ld_agent.backbones.base import Request
from ld_agent.config import Config
from ld_agent.conversation import Conversation
from ld_agent.datasets import load_episodes
from ld_agent.datasets.base import Episode
from ld_agent.errors import InputError
from ld_agent.evaluation.fallbacks import REPLY, of_reply
from ld_agent.evaluation.metrics import Measure, bleu, distinct, mean, meteor, perplexity, rouge, shares, token_f1
from ld_agent.evaluation.played import PlayedTask
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.modules.replies import long_sentences, statements
from ld_agent.prompts import as_line
from ld_agent.running.replay import PlayedTurn, play, prompt_of
from ld_agent.steps import Steps, answering_some
from ld_agent.types import Reply

Replayed = tuple[Item, Reply, Request]
"""A reply to predict, what the agent said, and the generator's request for it."""


class ResponseTask(PlayedTask):
    """Predict every reply of the agent in the episodes of a file."""

    name = "response"

    def __init__(
        self,
        data: Path,
        config: Config,
        limit: int | None = None,
        from_session: int = 1,
        no_perplexity: bool = False,
        free: bool = False,
    ) -> None:
        if free and from_session > 1:
            raise InputError("a free run replies from the first session on; omit --from-session or --free")
        self._episodes = {episode.id: episode for episode in load_episodes(data, limit=limit)}
        self._replayed: dict[str, list[Replayed]] = {}
        beta = config.memory.beta  # decides which recorded replies answer something
        self.items = [
            item
            for episode in self._episodes.values()
            for item in _replies(episode, beta)
            if item.session >= from_session
            and (not episode.answer_only or item.key == f"{episode.id}/{len(episode.turns)}")
        ]
        self.options = {"perplexity": not no_perplexity} | ({"free": True} if free else {})
        if not self.items:
            raise InputError(
                f"{data} has no agent replies from session {from_session} on; give conversations in which the agent replies"
            )

    def lived(self, agent: Agent, episode: Episode, items: Sequence[Item]) -> Steps[None]:
        turns = self._replayed[episode.id] = []
        return _replayed(agent, episode, {item.key: item for item in items}, turns, self.options.get("free", False))

    def predicted(
        self, agent: Agent, conversation: Conversation, items: Sequence[Item], details: Mapping[str, Any]
    ) -> Iterator[Prediction]:
        turns, scored = self._replayed.pop(conversation.id), list[Any]()
        likelihoods = getattr(agent.models.backbone("generator"), "likelihoods", None)
        if likelihoods is not None and self.options["perplexity"]:
            references = [as_line(item.references[0]) for item, _, _ in turns]
            scored = likelihoods([request for _, _, request in turns], references)
        for (item, reply, _), likely, prefix in zip_longest(turns, scored, _prefixes(turns)):
            further = {"recalled": [r.record.text for r in reply.recalled], "notes": list(reply.notes), **prefix}
            further |= {"nats": likely.nats, "tokens": likely.tokens} if likely else {}
            yield item.predicted(reply.text, {**further, REPLY: of_reply(reply), **details})


def measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Compute BLEU-1 to -4, ROUGE-1, -2 and -L, METEOR, token F1, the shares of replies that repeat what was
    said, the share of prompts that a cache of prefixes holds already, and, if available, perplexity."""
    texts, references = [p.text for p in predictions], [p.references for p in predictions]
    measures = {
        **bleu(texts, references),
        **rouge(texts, references),
        "meteor": meteor(texts, references),
        "f1": token_f1(texts, references),
        "repeated": mean(_repeated(predictions)),
        "echoed": mean(map(_echoed, predictions)),
    }
    if all("prefix" in p.details for p in predictions):
        measures["prefix"] = shares([(p.details["prefix"], p.details["prompt"]) for p in predictions])
    if all("nats" in p.details for p in predictions):
        nats, tokens = [p.details["nats"] for p in predictions], [p.details["tokens"] for p in predictions]
        measures["perplexity"] = perplexity(nats, tokens)
    return measures


def figures(predictions: Sequence[Prediction]) -> dict[str, float]:
    """Compute Distinct-1 and -2 over all replies, and their mean length in words (Rsum, Figure 7)."""
    texts = [p.text for p in predictions]
    length = sum(len(text.split()) for text in texts) / len(texts) if texts else 0.0
    return {f"distinct_{order}": distinct(texts, order) for order in (1, 2)} | {"words": length}


def _repeated(predictions: Sequence[Prediction]) -> Iterator[bool]:
    """Whether each reply contains a sentence (`long_sentences`) of an earlier one in its episode, or one twice."""
    said: dict[str, set[str]] = {}
    for prediction in predictions:
        sentences, earlier = long_sentences(prediction.text), said.setdefault(prediction.episode, set())
        yield len(set(sentences) - earlier) < len(sentences)
        earlier.update(sentences)


def _echoed(prediction: Prediction) -> bool:
    """Whether a reply contains a statement of the utterance it answers; a question may be returned."""
    heard = statements(str(prediction.details.get("text", "")))
    return not set(long_sentences(prediction.text)).isdisjoint(long_sentences(heard))


def _prefixes(turns: Sequence[Replayed]) -> Iterator[dict[str, int]]:
    """How many characters each prompt has, and with how many of them an earlier one of the same session began."""
    earlier: dict[tuple[str, int], list[str]] = {}
    for item, _, request in turns:
        prompt = "".join([f"\0{message.role}\0{message.content}" for message in request.messages])
        before = earlier.setdefault((item.episode, item.session), [])
        yield {"prompt": len(prompt), "prefix": max([_same_beginning(one, prompt) for one in before], default=0)}
        before.append(prompt)


def _same_beginning(one: str, other: str) -> int:
    """The number of characters that two texts begin with alike."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _replies(episode: Episode, beta: float) -> Iterator[Item]:
    """Yield the recorded replies that `running.replay.play` predicts: right after another speaker, in the same session."""
    session, turn = 1, 0
    for place, (before, said) in enumerate(pairwise(episode.turns), 2):
        together = before.session == said.session and (said.at - before.at).total_seconds() <= beta
        if not together:
            session, turn = session + 1, 0
        if together and said.speaker == episode.agent and before.speaker != episode.agent:
            turn += 1
            number = session if said.session is None else said.session
            about = {"turn": turn, "speaker": before.speaker, "text": before.text}
            yield Item(f"{episode.id}/{place}", episode.id, number, (said.text,), about)


def _replayed(
    agent: Agent, episode: Episode, todo: Mapping[str, Item], replayed: list[Replayed], free: bool
) -> Steps[None]:
    """Play an episode as steps, calling the generator only for the replies to predict, or for all in a free run, where they
    enter the memory; append those to predict to ``replayed``."""
    expected = iter(_replies(episode, agent.config.memory.beta))
    following = next(expected, None)

    def emit(turn: PlayedTurn) -> None:
        nonlocal following
        assert following is not None
        assert turn.reference == following.references[0]
        if item := todo.get(following.key):
            replayed.append((item, turn.reply, agent.models.request("generator", prompt_of(turn.reply))))
        following = next(expected, None)

    def given(request: Request) -> str | None:
        wanted = free or (following is not None and following.key in todo)
        return "-" if request.module == "generator" and not wanted else None

    return answering_some(play(agent, episode, emit, teacher_forced=not free), given)
