"""``ld-agent demo``: plays the shipped conversation on a store and shows what each reply was read in, and what was learned."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from rich.console import RenderableType
from rich.padding import Padding

from ld_agent.agent import Agent
from ld_agent.cli.show import RecalledTable, console, date, legend, plain, read_in, records_table, traits_table
from ld_agent.config import Config
from ld_agent.conversation import Conversation
from ld_agent.datasets import Episode, Turn, load_episodes
from ld_agent.files import shipped_path
from ld_agent.running.replay import PlayedTurn, replay
from ld_agent.types import Utterance

PAUSE = timedelta(days=14)


def run_demo(config: Config, why: bool = False) -> None:
    """Play the sample and a quiz about it three weeks later.

    If the store already contains them, continue with a follow-up two weeks after the last utterance.

    Args:
        why: show the numbers of each recall, and what each session became.
    """
    with Agent(config) as agent:
        [episode] = load_episodes(shipped_path("data/samples/three_sessions.jsonl"))
        [quiz] = load_episodes(shipped_path("data/samples/quiz.jsonl"))
        episode = replace(episode, turns=episode.turns + quiz.turns)
        stored = agent.store.find_conversation(episode.id)
        said = agent.store.utterances(stored.key) if stored else []
        if len(said) >= len(episode.turns):
            episode = _continued(episode, said)
            console.print(
                plain(f"{agent.store.path} holds {len(said)} utterances of this conversation; resuming it.", "dim")
            )
        turns = list[PlayedTurn]()

        def shown(turn: PlayedTurn) -> None:
            _shown(turn, turns, episode.agent, why)
            turns.append(turn)

        with console.status("loading the models …"):
            agent.warm_up()
        for _ in replay(agent, [episode], shown):
            pass
        conversation = agent.conversation(episode.id, agent_name=episode.agent)
        if why:
            console.rule("what the numbers say", style="dim")
            recalled = [hit for turn in turns for hit in turn.reply.recalled]
            console.print(plain(legend(recalled), "dim"))
        _remembered(conversation, why)
        store, person = agent.store.path, next(name for name in conversation.speakers if name != episode.agent)
        for line in (
            f"\nGo on:  ld-agent chat --store {store} --conversation {episode.id} agent.user={person}",
            f"        ld-agent memory list --store {store} --conversation {episode.id}",
            f"        ld-agent demo --store {store} --why   # what comes next, with the numbers",
        ):
            console.print(plain(line, "dim"), soft_wrap=True)


def _remembered(conversation: Conversation, why: bool) -> None:
    """Print what is known of the people, with history; with ``why`` also of the agent, and the records."""
    if why:
        console.rule("what is remembered", style="dim")
        console.print(records_table(conversation.records))
    for speaker in conversation.speakers:
        if why or speaker != conversation.agent_name:
            console.rule(plain(f"what is known about {speaker}"), style="dim")
            console.print(traits_table(conversation.persona(speaker, history=True)))


def _shown(played: PlayedTurn, earlier: list[PlayedTurn], agent: str, why: bool) -> None:
    """Print a turn after earlier ones."""
    reply, last = played.reply, earlier[-1] if earlier else None
    if last is None or last.session != played.session:
        later = f" ({(reply.heard.at - last.reply.heard.at).days} days later)" if last else ""
        console.rule(f"session {played.session}, {date(reply.heard.at)}{later}", style="bold")
    console.print(plain(f"{reply.heard.speaker}: {reply.heard.text}", "cyan"))
    console.print(plain(f"{agent}: {reply.text}", "bold"))
    line = read_in(reply)
    read = [plain(f"remembered: {line}", "dim")] if line else []
    for detail in _numbers(played, earlier) if why else read:
        console.print(Padding(detail, (0, 0, 0, 4)))


def _numbers(played: PlayedTurn, earlier: list[PlayedTurn]) -> list[RenderableType]:
    """How a reply came about: what became of the last session, what was recalled, what was learned since the last turn."""
    reply = played.reply
    known = {trait for turn in earlier for traits in turn.reply.traits.values() for trait in traits}
    learned = {name: [trait for trait in traits if trait not in known] for name, traits in reply.traits.items()}
    return [
        *(plain(f"session {record.session} became {record.id}: {record.text}", "green") for record in played.closed),
        RecalledTable(reply.recalled, clipped=True) if reply.recalled else plain("recalled: no relevant memory", "dim"),
        *(plain(f"learned about {name}: {' '.join(traits)}", "dim") for name, traits in learned.items() if traits),
        *(plain(note, "yellow") for note in reply.notes),
    ]


def _continued(episode: Episode, said: list[Utterance]) -> Episode:
    """The stored conversation followed by the follow-up session, two weeks later."""
    [follow_up] = load_episodes(shipped_path("data/samples/follow_up.jsonl"))
    shift = said[-1].at + PAUSE - follow_up.turns[0].at
    past = tuple(Turn(u.speaker, u.text, u.at) for u in said)
    return replace(episode, turns=past + tuple(replace(t, at=t.at + shift) for t in follow_up.turns))
