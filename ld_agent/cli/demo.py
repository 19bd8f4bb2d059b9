"""``ld-agent demo``: plays the shipped conversation on a store and shows what each reply was read in, and what was learned."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from ld_agent.agent import Agent
from ld_agent.cli.show import RecalledTable, console, plain, read_in, records_table, traits_table
from ld_agent.config import Config
from ld_agent.datasets import Episode, Turn, load_episodes
from ld_agent.files import shipped_path
from ld_agent.languages import ENGLISH
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
        turns: list[PlayedTurn | None] = [None]

        def shown(turn: PlayedTurn) -> None:
            _shown(turn, turns[-1], episode.agent, why)
            turns.append(turn)

        with console.status("loading the models …"):
            agent.warm_up()
        for _ in replay(agent, [episode], shown):
            pass
        conversation = agent.conversation(episode.id, agent_name=episode.agent)
        if why:
            console.rule("what is remembered", style="dim")
            console.print(records_table(conversation.records))
        for speaker in conversation.speakers:
            if why or speaker != episode.agent:
                console.rule(plain(f"what is known about {speaker}"), style="dim")
                console.print(traits_table(conversation.persona(speaker, history=True)))
        store = agent.store.path
        console.print(
            plain(f"\nGo on:  ld-agent chat --store {store}   |   ld-agent memory list --store {store}", "dim")
        )
        console.print(
            plain(f"        ld-agent demo --store {store} --why   plays what comes next, with the numbers", "dim")
        )


def _shown(played: PlayedTurn, last: PlayedTurn | None, agent: str, why: bool) -> None:
    """Print a turn after the last one."""
    reply = played.reply
    if last is None or last.session != played.session:
        ago = f" ({ENGLISH.ago(last.reply.heard.at, reply.heard.at)})" if last else ""
        console.rule(f"session {played.session}, {reply.heard.at:%d %B %Y}{ago}", style="bold")
    console.print(plain(f"{reply.heard.speaker}: {reply.heard.text}", "cyan"))
    console.print(plain(f"{agent}: {reply.text}", "bold"))
    details = _numbers(played) if why else [plain(f"remembered: {line}", "dim") for line in [read_in(reply)] if line]
    for detail in details:
        console.print(Padding(detail, (0, 0, 0, 4)))


def _numbers(played: PlayedTurn) -> list[RenderableType]:
    """How a reply came about."""
    reply = played.reply
    known = "; ".join(f"{name} ({len(traits)}): {' '.join(traits)}" for name, traits in reply.traits.items())
    return [
        *(plain(f"session {record.session} became {record.id}: {record.text}", "green") for record in played.closed),
        RecalledTable(reply.recalled) if reply.recalled else Text("recalled: no relevant memory", style="dim"),
        plain(f"traits known: {known or 'none yet'}", "dim"),
        *(plain(note, "yellow") for note in reply.notes),
    ]


def _continued(episode: Episode, said: list[Utterance]) -> Episode:
    """The stored conversation followed by the follow-up session, two weeks later."""
    [follow_up] = load_episodes(shipped_path("data/samples/follow_up.jsonl"))
    shift = said[-1].at + PAUSE - follow_up.turns[0].at
    past = tuple(Turn(u.speaker, u.text, u.at) for u in said)
    return replace(episode, turns=past + tuple(replace(t, at=t.at + shift) for t in follow_up.turns))
