"""``ld-agent bench population``: the cost of recall, a turn and the end of a session among many people in PostgreSQL.

The people are those of `ld_agent.evaluation.made_up_people`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.conversation import Conversation
from ld_agent.errors import ConfigError
from ld_agent.evaluation.bench import machine
from ld_agent.memory.views.base import Query
from ld_agent.memory.views.enabled import EnabledViews
from ld_agent.steps import run
from ld_agent.storage.address import is_address, open_store, shown
from ld_agent.terminal import progress

if TYPE_CHECKING:
    from ld_agent.storage.postgres_loading import Loader

AT_ONCE = 200
"""People loaded in one transaction."""
TRIES = 5
RECALLS = ("first", "cold", "second", "warm")
SCRIPT = {"generator": "How nice.", "extractor": "NO_TRAIT", "summarizer": "They talk about the garden."}


def bench_population(
    config: Config, sizes: Sequence[int], asked: int = 200, *, longest: int | None = None, tries: int = TRIES
) -> dict[str, Any]:
    """Load people up to each size in turn, and measure there.

    Args:
        config: its store is a PostgreSQL address; people that an earlier run has loaded are kept.
        sizes: people, growing.
        asked: number of people per measurement, drawn at random.
        longest: at most this many events of a person; None: `LONGEST`.
        tries: number of repetitions of every timing.

    Raises:
        ConfigError: the store is a file.
        StoreError: see `Loader`.
    """
    if not is_address(config.store.path):
        raise ConfigError(
            f"bench population measures PostgreSQL, but store.path={config.store.path}; give --store postgresql://…"
        )
    from ld_agent.evaluation.made_up_people import LONGEST, People, event_counts
    from ld_agent.storage.postgres_loading import Loader

    config = config.changed(memory={"gamma": -1.0, "views": ("events",)})
    open_store(config.store.path).close()  # makes the tables
    loader = Loader(config.store.path)
    try:
        with Agent(config, backbone=ScriptedBackbone()) as agent:
            dimension = agent.encoder.dimension  # notes the encoder in the store
        counts = np.minimum(event_counts(max(sizes), np.random.default_rng(0)), longest or LONGEST)
        people = People(config.agent.name, dimension, counts)
        rows, by_person = [], list[dict[str, float]]()
        for size in sizes:
            seconds = _load(people, loader, size)
            spread, by_person = _measured(config, counts[:size].tolist(), asked, tries)
            rows.append({"people": size, "events": int(counts[:size].sum())} | spread)
            rows[-1] |= {"load_s": round(seconds, 1), **_bytes(loader, size)}
    finally:
        loader.close()
    return {
        "store": shown(config.store.path), "scorer": config.memory.scorer, "population": rows, "by_person": by_person,
        "machine": machine(),
    }  # fmt: skip


def _load(people: Any, loader: Loader, size: int) -> float:
    """Load the people that are missing; returns the seconds it took."""
    begun = time.perf_counter()
    stored, next_keys = loader.people(), loader.next_keys()
    with progress(f"loading {size:,} people", max(size - stored, 0)) as step:
        for first in range(stored, size, AT_ONCE):
            last = min(first + AT_ONCE, size)
            loader.load(people.rows(range(first, last), next_keys))
            step(last - first)
    if size > stored:
        loader.finish()
    return time.perf_counter() - begun


def _measured(
    config: Config, counts: Sequence[int], asked: int, tries: int
) -> tuple[dict[str, Any], list[dict[str, float]]]:
    """Milliseconds of recall, turns and session ends of people drawn at random, and of recall by person, in the order of
    their events and with the one who has most at the end; the models answer at once.

    Each figure of a person is the best of several tries, to reduce the influence of other work on the machine;
    ``first`` is the very first recall.
    """
    from ld_agent.evaluation.made_up_people import APART, LONGEST, START, name_of, question

    rng = np.random.default_rng(len(counts))
    chosen = [int(number) for number in rng.choice(len(counts), min(asked, len(counts)), replace=False)]
    longest = int(np.argmax(counts))
    times: dict[str, list[float]] = {kind: [] for kind in ("encode", *RECALLS, "turn", "end")}
    later = START + (LONGEST + 10) * APART
    with Agent(config, backbone=ScriptedBackbone(SCRIPT), clock=lambda: later) as agent:
        agent.warm_up()
        before, indexes = _resident_mb(), agent.resources.indexes
        for number in [*chosen, longest]:
            stored = agent.store.find_conversation(name_of(number))
            assert stored is not None
            views = EnabledViews(config.memory.views, agent.view_context(stored.key, stored.agent))
            texts = [question(rng) for _ in range(tries)]
            times["encode"].append(min(_ms(lambda: agent.resources.query(text, later)) for text in texts))  # noqa: B023
            query = agent.resources.query(texts[0], later)
            taken = [_recalls(agent, views, query, stored.key) for _ in range(tries)]
            times["first"].append(taken[0][0])
            for kind, ms in zip(("cold", "second", "warm"), zip(*taken, strict=True), strict=True):
                times[kind].append(min(ms))
        by_person = [
            {
                "events": counts[number],
                **{f"{kind}_ms": round(ms, 1) for kind, ms in zip(RECALLS, recalls, strict=True)},
            }
            for number, *recalls in zip([*chosen, longest], *(times[kind] for kind in RECALLS), strict=True)
        ]
        for kind in ("encode", *RECALLS):
            times[kind].pop()
        for number in chosen[: max(1, len(chosen) // 4)]:
            conversation = agent.conversation(name_of(number))
            turns = [_turn(conversation, question(rng), later + n * APART) for n in range(1, tries + 1)]
            for kind, ms in zip(("turn", "end"), zip(*turns, strict=True), strict=True):
                times[kind].append(min(ms))
        held = {"index_mb": round(indexes.nbytes / 2**20, 1), "grown_mb": round(_resident_mb() - before, 1)}
    spread = {f"{kind}_ms_p{q}": round(float(np.percentile(ms, q)), 1) for kind, ms in times.items() for q in (50, 95)}
    return spread | held, [*sorted(by_person[:-1], key=lambda row: row["events"]), by_person[-1]]


def _recalls(agent: Agent, views: EnabledViews, query: Query, key: int) -> tuple[float, ...]:
    """Milliseconds of three recalls, the first without an index in memory."""
    agent.resources.indexes.drop(key)
    return tuple(_ms(lambda: run(views.recall(query, within_budget=False), agent.models.complete)) for _ in RECALLS[1:])


def _turn(conversation: Conversation, text: str, at: datetime) -> tuple[float, float]:
    """Milliseconds of a turn and of the end of its session."""
    return _ms(lambda: conversation.respond(text, at=at)), _ms(conversation.end_session)


def _ms(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - begun)


def _resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def _bytes(loader: Loader, people: int) -> dict[str, Any]:
    sizes = loader.size()
    return {"kb_a_person": round(sizes["database"] / people / 1000, 1), "mb": {k: v // 10**6 for k, v in sizes.items()}}
