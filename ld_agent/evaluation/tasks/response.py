"""Compare the agent's replies with recorded ones by teacher-forced replay (LD-Agent, tables 1, 2, 4; Rsum, tables 3–5).

Every episode is replayed from its first session. The agent generates its replies, but its memory takes in the recorded
ones, unless it runs free. The same prompts give the perplexity of the recorded replies. Knows no files of predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from ld_agent.agent import Agent
from ld_agent.backbones.base import Request
from ld_agent.config import Config
from ld_agent.datasets import load_episodes
from ld_agent.datasets.base import Episode
from ld_agent.errors import InputError
from ld_agent.evaluation.fallbacks import MEMORY, REPLY, of_memory, of_reply
from ld_agent.evaluation.metrics import Measure, bleu, distinct, mean, meteor, perplexity, rouge, sacrebleu, token_f1
from ld_agent.evaluation.played import in_memory
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.runner import Task
from ld_agent.modules.replies import long_sentences, statements
from ld_agent.prompts import as_line
from ld_agent.running.replay import PlayedTurn, play, prompt_of
from ld_agent.steps import Steps, answering_some, run_many

WIDTH = 16
"""Episodes played concurrently; their pending requests form one batch of the backbone."""


class ResponseTask(Task):
    """Predict every reply of the agent in the episodes of a file.

    Args:
        config: its β decides which recorded replies answer something.
        limit: maximum number of episodes; None: all.
        from_session: earlier sessions are heard and remembered, but get no replies.
        no_perplexity: do not compute the perplexity of the recorded replies, which needs a local backbone.
        free: the agent's own replies enter its memory, not the recorded ones.

    Raises:
        InputError: the file is missing or has no reply to predict, or a free run leaves out sessions.
        DataFileError: a record is malformed.
    """

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
        self._with_perplexity, self._free = not no_perplexity, free
        beta = config.memory.beta
        replies = [item for episode in self._episodes.values() for item in _scored(episode, beta)]
        self.options = {"perplexity": self._with_perplexity} | ({"free": True} if free else {})
        self.items = [item for item in replies if item.session >= from_session]
        if not self.items:
            raise InputError(
                f"{data} has no agent replies from session {from_session} on; give conversations in which the agent replies"
            )

    def predict(self, config: Config, items: Sequence[Item]) -> Iterator[Prediction]:
        todo = {item.key: item for item in items}
        names = dict.fromkeys(item.episode for item in items)
        with in_memory(config) as agent:
            likelihoods = getattr(agent.models.backbone("generator"), "likelihoods", None)
            scored = likelihoods if self._with_perplexity else None
            replayed: dict[str, list[tuple[Item, PlayedTurn, Request]]] = {}
            work = (
                (name, _replayed(agent, self._episodes[name], todo, replayed.setdefault(name, []), self._free))
                for name in names
            )
            for name, _ in run_many(work, agent.models.complete, WIDTH):
                turns = replayed.pop(name)
                conversation = agent.conversation(name, agent_name=self._episodes[name].agent)
                memory = of_memory(agent.store, conversation.key)
                references = [as_line(item.references[0]) for item, _, _ in turns]
                likelihood = scored([request for _, _, request in turns], references) if scored is not None else []
                for number, (item, turn, _) in enumerate(turns):
                    likely = (
                        {"nats": likelihood[number].nats, "tokens": likelihood[number].tokens} if likelihood else {}
                    )
                    recalled = [record.record.text for record in turn.reply.recalled]
                    details = {"recalled": recalled, "notes": list(turn.reply.notes)} | likely
                    yield item.predicted(turn.reply.text, details | {REPLY: of_reply(turn.reply), MEMORY: memory})
                conversation.delete()


def measures(predictions: Sequence[Prediction]) -> dict[str, Measure]:
    """Compute BLEU-1 to -4, sacrebleu, ROUGE-1, -2 and -L, METEOR, token F1, the shares of replies that repeat what was
    said, and, if available, perplexity."""
    texts, references = [p.text for p in predictions], [p.references for p in predictions]
    measures = {
        **bleu(texts, references),
        "sacrebleu": sacrebleu(texts, references),
        **rouge(texts, references),
        "meteor": meteor(texts, references),
        "f1": token_f1(texts, references),
        "repeated": mean(_repeated(predictions)),
        "echoed": mean(_echoed(p) for p in predictions),
    }
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


def _scored(episode: Episode, beta: float) -> list[Item]:
    """The replies to predict; only the answer if the corpus marks one."""
    replies = list(_replies(episode, beta))
    return [r for r in replies if not episode.answer_only or r.key == f"{episode.id}/{len(episode.turns)}"]


def _replayed(
    agent: Agent,
    episode: Episode,
    todo: Mapping[str, Item],
    turns: list[tuple[Item, PlayedTurn, Request]],
    free: bool = False,
) -> Steps[None]:
    """Play an episode as steps, calling the generator only for the turns to predict; append those to ``turns``.

    Args:
        free: the agent's replies enter its memory, so that the generator is called for every turn.
    """
    expected = list(_replies(episode, agent.config.memory.beta))
    played = 0

    def wanted() -> bool:
        return free or (played < len(expected) and expected[played].key in todo)

    def emit(turn: PlayedTurn) -> None:
        nonlocal played
        item = expected[played]
        if turn.reference != item.references[0]:
            raise InputError(
                f"{episode.source}: reply {played + 1} was played out of order; please report this with the file"
            )
        if item.key in todo:
            turns.append((item, turn, agent.models.request("generator", prompt_of(turn.reply))))
        played += 1

    def given(request: Request) -> str | None:
        return "-" if request.module == "generator" and not wanted() else None

    return answering_some(play(agent, episode, emit, teacher_forced=not free), given)
