"""Tunes the generator on recorded replies and the agent's prompts for them:

python -m training.generator -c configs/training/generator.yaml [key=value ...] [--dry-run] [--overwrite]

Its rows come from replaying episodes through the agent: one row per reply from session 2 on. The prompts are intercepted
from `Conversation.turn`, and the recorded replies serve as answers, so the generator's model never runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ld_agent.agent import Agent
from ld_agent.config import Config
from ld_agent.datasets import Episode, format_of, load_episodes
from ld_agent.modules.registry import NOT_SAID
from ld_agent.prompts import as_line
from ld_agent.running.replay import PlayedTurn, play, prompt_of
from ld_agent.running.terminal import progress
from ld_agent.steps import Steps, answering_some, run_many
from training.rows import BuildRequest, row_values
from training.train import main

FIRST_SESSION = 2
UNASKED = {"generator": "-", "reader": NOT_SAID}
"""Answers in place of modules whose answers the recorded replies replace."""


def rows(request: BuildRequest) -> list[dict[str, Any]]:
    """Situation in a replayed conversation → the recorded reply. ``limit``: episodes of each source.

    Raises: as `build_generator`.
    """
    episodes = [
        (format_of(source), episode)
        for source in request.sources
        for episode in load_episodes(source, limit=request.limit)
    ]
    return build_generator(episodes, request.config, width=request.width)


def build_generator(
    episodes: Sequence[tuple[str, Episode]], config: Config, *, width: int = 16
) -> list[dict[str, Any]]:
    """Replay (corpus, episode) pairs in groups of ``width``, those of a group concurrently; return the rows in their order.

    Raises:
        ModelError, BackboneError: as in `Agent`.
    """
    config = config.changed(store={"path": ":memory:"})
    # Ids are unique only within a corpus.
    keyed = [(f"{corpus}/{number}/{e.id}", corpus, e) for number, (corpus, e) in enumerate(episodes)]
    made: list[dict[str, Any]] = []
    with progress("episodes", len(keyed)) as advance:
        for start in range(0, len(keyed), width):
            made += _replayed(keyed[start : start + width], config, advance)
    return made


def _replayed(
    group: Sequence[tuple[str, str, Episode]], config: Config, advance: Callable[[int], None]
) -> list[dict[str, Any]]:
    """The rows of some episodes, replayed side by side with an agent of their own."""
    found: Mapping[str, list[dict[str, Any]]] = {key: [] for key, _, _ in group}

    def steps(agent: Agent) -> Iterator[tuple[str, Steps[None]]]:
        for key, corpus, episode in group:
            emit = partial(_emit, found[key], corpus, episode)
            played = play(agent, replace(episode, id=key), emit, teacher_forced=True)
            yield key, answering_some(played, lambda request: UNASKED.get(request.module))

    with Agent(config) as agent:
        for _ in run_many(steps(agent), agent.models.complete, len(group)):
            advance(1)
    return [row for of_episode in found.values() for row in of_episode]


def _emit(found: list[dict[str, Any]], corpus: str, episode: Episode, turn: PlayedTurn) -> None:
    """Add the row of a turn, if it becomes one: the answer, in a corpus where only answers count; otherwise any reply that can
    use memory."""
    said = turn.reply.utterance
    last = said is not None and said.at == episode.turns[-1].at
    if last if episode.answer_only else turn.session >= FIRST_SESSION:
        about = {"corpus": corpus, "session": turn.session, "turn": turn.turn, "episode": episode.id}
        found.append(row_values(prompt_of(turn.reply), as_line(turn.reference), **about))


if __name__ == "__main__":
    main("generator")
