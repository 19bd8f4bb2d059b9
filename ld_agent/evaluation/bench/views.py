"""``ld-agent bench views``: the cost of each memory mechanism on the same recorded conversations, teacher-forced.

Counts model calls, tokens, seconds and stored bytes; does not measure the quality of replies.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent
from ld_agent.backbones.base import Backbone, Completion, Request
from ld_agent.config import Config
from ld_agent.datasets import load_episodes
from ld_agent.datasets.base import Episode
from ld_agent.errors import InputError
from ld_agent.evaluation.bench.timing import machine
from ld_agent.files import shipped_path
from ld_agent.memory.encoder import configured
from ld_agent.memory.topics import TopicExtractor
from ld_agent.memory.views import VIEWS, check_views
from ld_agent.running.replay import PlayedTurn, play
from ld_agent.running.terminal import bars, errors
from ld_agent.steps import run_many

SAMPLE = "data/samples/msc_session_3.txt"
REPLIES = "generator"
TRAITS = "extractor"


def bench_views(
    config: Config,
    source: Path | None = None,
    *,
    limit: int | None = None,
    chosen: Sequence[str] = (),
    width: int = 1,
    backbone: Backbone | None = None,
) -> dict[str, Any]:
    """Play the same episodes once with each mechanism and count what a turn costs.

    Args:
        source: a file of conversations; None: the shipped MSC sample.
        limit: maximum number of episodes; None: all.
        chosen: mechanisms, or combinations joined by "+"; empty: every mechanism alone.
        width: number of episodes played concurrently, whose calls are batched.
        backbone: serves all modules; None: load the configured one for each mechanism.

    Returns: a row of `_played` for each mechanism. Raises: InputError: the file contains no conversation.
    """
    names = list(chosen or VIEWS)
    for name in names:
        check_views(name.split("+"))
    path = source or shipped_path(SAMPLE)
    episodes = load_episodes(path, limit=limit)
    if not episodes:
        raise InputError(f"{path} contains no conversation to play; see data/README.md for the formats")
    loaded: dict[str, Any] = {
        "backbone": backbone,
        "encoder": configured(config.encoder),
        "topics": TopicExtractor(config.topics.model, config.topics.pos),
    }
    rows = []
    with bars() as bar, tempfile.TemporaryDirectory() as folder:
        for name in names:
            finished = partial(bar.advance, bar.add_task(name, total=len(episodes)))
            settings = config.changed(memory={"views": tuple(name.split("+"))}, store={"path": f"{folder}/{name}.db"})
            with Agent(settings, **loaded) as agent:
                agent.warm_up()
                rows.append({"views": name} | _played(agent, episodes, width, finished))
            line = ", ".join(f"{key} {value}" for key, value in rows[-1].items())
            errors.print(line, markup=False, soft_wrap=True)  # keep intermediate results if a long run is interrupted
    about = {"data": str(source or SAMPLE), "episodes": len(episodes), "side_by_side": width}
    return about | {"views": rows, "machine": machine()}


def _played(agent: Agent, episodes: Sequence[Episode], width: int, finished: Callable[[], None]) -> dict[str, Any]:
    """Means per agent turn: model calls for memory (recall, session ends, records), for replies and for traits; prompt and answer
    tokens of memory and reply calls; seconds; bytes of stored records, including vectors. ``recalled_share`` is the share of
    turns after session 1 with memories in the prompt."""
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
