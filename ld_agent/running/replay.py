"""Replay recorded conversations through an agent, which replies in place of the recorded agent.

When free-running, the generated replies enter the memory; when teacher-forced, the recorded ones do. A conversation
that is partly in the store resumes where it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, cast

from ld_agent.agent import Agent, Conversation
from ld_agent.backbones.base import Message
from ld_agent.datasets.base import Episode, Turn, golden_memories
from ld_agent.errors import InputError
from ld_agent.languages import ENGLISH
from ld_agent.steps import Steps, run_many
from ld_agent.types import Recalled, Record, Reply, ReplyOptions, Utterance, checked_text, iso

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class PlayedTurn:
    """One turn of the agent in a replayed conversation.

    Attributes:
        session: number of the session, from 1.
        turn: number of the agent's turn within the session, from 1.
        reference: the recorded reply.
        closed: records of sessions that ended since the previous turn.
    """

    conversation: str
    session: int
    turn: int
    reply: Reply
    reference: str
    closed: tuple[Record, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object that ``ld-agent run`` writes."""
        reply = self.reply
        return {
            "conversation": self.conversation,
            "session": self.session,
            "turn": self.turn,
            "at": iso(reply.heard.at),
            "speaker": reply.heard.speaker,
            "text": reply.heard.text,
            "reply": reply.text,
            "reference": self.reference,
            "recalled": [recalled_json(r) for r in reply.recalled],
            "traits": {name: list(traits) for name, traits in reply.traits.items()},
            "notes": list(reply.notes),
            **({"explanations": dict(reply.explanations)} if reply.explanations else {}),
            "timings_ms": dict(reply.timings_ms),
            "tokens": {"prompt": reply.tokens.prompt, "completion": reply.tokens.completion},
        }


def prompt_of(reply: Reply) -> tuple[Message, ...]:
    """The generator's prompt for a reply, whether or not the generator was asked."""
    return tuple(Message(cast(Role, message["role"]), message["content"]) for message in reply.prompt)


def recalled_json(recalled: Recalled) -> dict[str, Any]:
    """Return a recalled record as the command line prints it."""
    return {
        "id": recalled.record.id,
        "view": recalled.record.view,
        "text": recalled.record.text,
        "at": iso(recalled.record.at),
        "s_sem": recalled.s_sem,
        "s_top": recalled.s_top,
        "decay": recalled.decay,
        "score": recalled.score,
        "overlap": list(recalled.overlap),
        **({"terms": dict(recalled.terms)} if recalled.terms else {}),
    }


def replay(
    agent: Agent,
    episodes: Sequence[Episode],
    emit: Callable[[PlayedTurn], None],
    *,
    teacher_forced: bool = False,
    width: int = 1,
) -> Iterator[str]:
    """Play episodes in groups of ``width``, those of a group concurrently, and yield the id of each when it is done.

    Rows of a batch round together, so that what a conversation is played with may decide between two nearly equal tokens.
    Fixed groups make the outcome the same wherever a group is played (`ld_agent.running.on_ray`).

    Args:
        emit: called with each turn after it is stored.

    Raises:
        InputError: the store has another conversation with an episode's id, or two episodes share an id.
        BackboneError, StoreError: as in `Conversation.respond`.
    """
    repeated = [i for i, times in Counter(episode.id for episode in episodes).items() if times > 1]
    if repeated:
        raise InputError(f"two episodes have the id {repeated[0]!r}; ids must be unique")
    for start in range(0, len(episodes), width):
        group = episodes[start : start + width]
        work = ((episode.id, play(agent, episode, emit, teacher_forced=teacher_forced)) for episode in group)
        for conversation_id, _ in run_many(work, agent.models.complete, width):
            yield conversation_id


def play(
    agent: Agent, episode: Episode, emit: Callable[[PlayedTurn], None], *, teacher_forced: bool = False
) -> Steps[None]:
    """Play one episode as steps."""
    if not episode.turns:
        return
    conversation = agent.conversation(episode.id, agent_name=episode.agent)
    annotate(agent, conversation, episode)
    position = resumed_at(conversation, episode)
    turns = episode.turns
    beta = agent.config.memory.beta
    newest = next((record.id for record in reversed(conversation.records)), "")
    while position < len(turns):
        turn = turns[position]
        before = turns[position - 1] if position else None
        if before is not None and before.session != turn.session:
            yield from conversation.ending()
        heard, target = _exchange(episode, position, beta)
        if target is None:
            conversation.observe(turn.text, turn.speaker, turn.at)
            position += 1
            continue
        reply = yield from conversation.turn(
            heard.text if heard else None,
            heard.speaker if heard else None,
            heard.at if heard else None,
            recorded=target.text if teacher_forced else None,
            reply_at=target.at,
            options=reply_options(episode, position + bool(heard)),
        )
        position += 2 if heard else 1
        fresh = agent.store.records(conversation.key, after=newest)
        newest = fresh[-1].id if fresh else newest
        number = _turn_number(conversation.running or (reply.heard,), episode.agent)
        emit(PlayedTurn(episode.id, reply.heard.session, number, reply, target.text, tuple(fresh)))
    yield from conversation.ending()


def _exchange(episode: Episode, position: int, beta: float) -> tuple[Turn | None, Turn | None]:
    """What is heard at a position and the agent's recorded reply; heard is None if it was stored before an interruption,
    both are None if no reply follows in the session."""
    turns = episode.turns
    turn = turns[position]
    before = turns[position - 1] if position else None
    after = turns[position + 1] if position + 1 < len(turns) else None
    if turn.speaker == episode.agent:
        interrupted = before is not None and before.speaker != episode.agent and _same_session(before, turn, beta)
        return None, turn if interrupted else None
    replied = after is not None and after.speaker == episode.agent and _same_session(turn, after, beta)
    return (turn, after) if replied else (None, None)


def reply_options(episode: Episode, place: int) -> ReplyOptions | None:
    """Return the index of the utterance that the reply at ``place`` answers; None: the previous one, or the corpus does
    not say."""
    answered = episode.turns[place].answers
    if answered is None or answered == place - 1:
        return None
    turn = episode.turns[answered]
    [message] = ENGLISH.prompt("replay_answers").render(speaker=turn.speaker, text=turn.text)
    return ReplyOptions(instructions=message.content)


def annotate(agent: Agent, conversation: Conversation, episode: Episode) -> None:
    """Give the view ``golden``, if enabled, the annotated memories of this episode.

    Raises:
        InputError: the corpus has no such annotation.
    """
    if "golden" not in agent.config.memory.views:
        return
    annotated = golden_memories(episode)
    if not annotated:
        raise InputError(
            f"{episode.source}: conversation {episode.id!r} has no annotated memory for the view golden; give a corpus "
            "that annotates one, such as msc or carecall"
        )
    agent.resources.annotated[conversation.key][:] = annotated


def resumed_at(conversation: Conversation, episode: Episode) -> int:
    """Return how many turns of an episode are already in the store.

    Raises:
        InputError: the stored conversation is not this episode.
    """
    stored = conversation.utterances
    if len(stored) > len(episode.turns):
        raise InputError(
            f"the store holds another conversation {episode.id!r} ({len(stored)} utterances, {episode.source} has "
            f"{len(episode.turns)}); use another --store, or delete that one"
        )
    for said, turn in zip(stored, episode.turns, strict=False):
        by_agent = turn.speaker == episode.agent
        if said.speaker != turn.speaker or (not by_agent and said.text != checked_text(turn.text)):
            raise InputError(
                f"the store holds another conversation {episode.id!r} ({said.speaker} says {said.text[:40]!r}, "
                f"{episode.source} has {turn.speaker}: {turn.text[:40]!r}); use another --store, or delete that one"
            )
    return len(stored)


def _same_session(earlier: Turn, later: Turn, beta: float) -> bool:
    return earlier.session == later.session and (later.at - earlier.at).total_seconds() <= beta


def _turn_number(running: Sequence[Utterance], agent: str) -> int:
    """Return the number of the latest agent reply within its session, not counting openings."""
    return sum(1 for a, b in pairwise(running) if b.speaker == agent and a.speaker != agent) or 1
