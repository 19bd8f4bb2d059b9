"""``ld-agent bench views``: what each memory mechanism costs over the same recorded conversations, teacher-forced, in one run.

Counts what was asked of a model and what stands in the store; says nothing of how good the replies are.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import Progress

from ld_agent.agent import Agent
from ld_agent.backbones.base import Backbone, Completion, Request
from ld_agent.cli.show import errors
from ld_agent.config import Config
from ld_agent.datasets import load_episodes
from ld_agent.datasets.base import Episode
from ld_agent.errors import InputError
from ld_agent.evaluation.bench import machine
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.memory.views import VIEWS, check_views
from ld_agent.replay import PlayedTurn, play
from ld_agent.shipped import shipped_path
from ld_agent.steps import run_many

SAMPLE = "data/samples/msc_session_3.txt"
REPLIES = "generator"
TRAITS = "extractor"


def bench_views(
    config: Config,
    source: Path | None = None,
    limit: int | None = None,
    chosen: Sequence[str] = (),
    width: int = 1,
    backbone: Backbone | None = None,
) -> dict[str, Any]:
    """Play the same episodes once with each mechanism and count what a turn costs.

    Args:
        source: a file of conversations; None: the shipped MSC sample.
        limit: the first so many episodes; None: all.
        chosen: mechanisms, or combinations of them joined by "+"; none: every mechanism alone.
        width: episodes played side by side; their calls are batched, and a turn's seconds are its share of the whole.
        backbone: a ready one for all modules; None: the configured one, loaded anew for each mechanism.

    Returns:
        a row a mechanism. All figures are means over the agent's turns: calls of a model for memories (what recalls, ends of
        sessions and records ask), for replies and for traits; prompt and answer tokens of memories and replies together;
        seconds; bytes of the records in the store, vectors included. Beside them the share of turns of later sessions
        that had memories in the prompt.

    Raises:
        InputError: the file holds no conversation.
    """
    names = [tuple(choice.split("+")) for choice in chosen] or [(name,) for name in VIEWS]
    for views in names:
        check_views(views)
    path = source or shipped_path(SAMPLE)
    episodes = load_episodes(path, limit=limit)
    if not episodes:
        raise InputError(f"{path} holds no conversation that can be played; see data/README.md for the formats")
    encoder = SentenceEncoder(config.encoder.model, config.encoder.device, config.encoder.sha256)
    topics = TopicExtractor(config.topics.model, config.topics.pos)
    rows = []
    with Progress(console=errors, disable=not errors.is_terminal) as bar:
        for views in names:
            finished = partial(bar.advance, bar.add_task("+".join(views), total=len(episodes)))
            with tempfile.TemporaryDirectory() as folder:
                memory = config.memory.model_copy(update={"views": views})
                store = config.store.model_copy(update={"path": str(Path(folder) / "bench.db")})
                own = config.model_copy(update={"memory": memory, "store": store})
                with Agent(own, backbone=backbone, encoder=encoder, topics=topics) as agent:
                    agent.warm_up()
                    rows.append({"views": "+".join(views)} | _played(agent, episodes, width, finished))
            told = ", ".join(f"{key} {value}" for key, value in rows[-1].items())
            errors.print(told, markup=False, soft_wrap=True)  # a long run that is broken off has said what it found
    return {
        "data": str(source or SAMPLE),
        "episodes": len(episodes),
        "side_by_side": width,
        "views": rows,
        "machine": machine(),
    }


def _played(agent: Agent, episodes: Sequence[Episode], width: int, finished: Callable[[], None]) -> dict[str, Any]:
    calls: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    turns: list[PlayedTurn] = []

    def complete(requests: Sequence[Request]) -> list[Completion]:
        answers = agent.models.complete(requests)
        for request, answer in zip(requests, answers, strict=True):
            calls[request.module] += 1
            if request.module != TRAITS:
                tokens["prompt"] += answer.prompt_tokens
                tokens["reply"] += answer.completion_tokens
        return answers

    start = time.perf_counter()
    work = ((episode.id, play(agent, episode, turns.append, teacher_forced=True)) for episode in episodes)
    for _ in run_many(work, complete, width):
        finished()
    seconds = time.perf_counter() - start
    count = max(len(turns), 1)
    later = [turn for turn in turns if turn.session > 1]
    memory_calls = sum(number for module, number in calls.items() if module not in (REPLIES, TRAITS))
    return {
        "turns": len(turns),
        "memory_calls": round(memory_calls / count, 2),
        "reply_calls": round(calls[REPLIES] / count, 2),
        "trait_calls": round(calls[TRAITS] / count, 2),
        "prompt_tokens": round(tokens["prompt"] / count, 1),
        "reply_tokens": round(tokens["reply"] / count, 1),
        "seconds": round(seconds / count, 3),
        "stored_bytes": round(agent.store.record_bytes() / count),
        "recalled_share": round(sum(bool(t.reply.recalled) for t in later) / max(len(later), 1), 2),
    }
