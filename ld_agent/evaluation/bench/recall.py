"""``ld-agent bench recall``: the search over growing memories, and what encoding a query takes."""

from __future__ import annotations

import statistics
from datetime import timedelta
from functools import partial
from typing import Any

from ld_agent.config import Config
from ld_agent.datasets import load_episodes
from ld_agent.datasets.base import Episode
from ld_agent.evaluation.bench.random_memory import START, RandomMemory
from ld_agent.evaluation.bench.timing import machine, milliseconds, spread
from ld_agent.files import shipped_path
from ld_agent.languages import language
from ld_agent.memory.encoder import configured
from ld_agent.memory.index.long_term import LongTermIndex, Search
from ld_agent.memory.index.passages import NO_VECTORS
from ld_agent.memory.scoring import scorer
from ld_agent.memory.topics import TopicExtractor
from ld_agent.running.terminal import errors

SIZES = (1_000, 10_000, 100_000)
QUERIES, WARM_UP = 200, 5
TURNS_A_SESSION, SENTENCES_A_SUMMARY = 22, 7
"""As in LoCoMo."""


def bench_recall(config: Config) -> dict[str, Any]:
    """Time the search; encoding and topics of the query are timed separately.

    Returns:
        milliseconds (median and 95th percentile), how many times those of the scorer ``paper`` over the same memory in
        the same run (``vs_paper``, of the medians), and bytes an event, with machine and versions.
    """
    encoder = configured(config.encoder)
    topics = TopicExtractor(config.topics.model, config.topics.pos)
    texts = [turn.text for turn in sample().turns]
    encoder.encode(texts[:2])
    topics.extract(texts[:2])
    rows = []
    for size in SIZES:
        with errors.status(f"measuring recall over {size:,} events …"):
            rows.append({"events": size} | _search_times(config, encoder.dimension, size))
    fresh = [f"{text} ({n})" for n, text in enumerate(texts * 3)]
    return {
        "query_encoding_ms": spread([milliseconds(partial(encoder.encode, [t])) for t in fresh]),
        "query_topics_ms": spread([milliseconds(partial(topics.extract, [t])) for t in fresh]),
        "recall": rows,
        "machine": machine(),
    }


def _search_times(config: Config, dimension: int, size: int) -> dict[str, Any]:
    memory, random = config.memory, RandomMemory(dimension, turns=TURNS_A_SESSION, sentences=SENTENCES_A_SUMMARY)
    with_passages = scorer(memory.scorer).needs_passages
    packed = random.session(0).passages.vectors if with_passages else NO_VECTORS
    index = LongTermIndex(dimension, language(config.language).reading, lambda keys: dict.fromkeys(keys, packed))
    for number in range(size):
        session, at = random.session(number), START.timestamp() + 3600.0 * number
        passages = session.passages if with_passages else None
        index.add(number + 1, random.vectors(1)[0], at, session.topics, passages)
    later = START + timedelta(hours=size)

    def search(number: int, ranked_by: str) -> None:
        session = random.session(number)
        topics, [vector] = session.topics[:4], random.vectors(1)
        index.search(Search(session.texts[0], vector, later, memory.k, -1.0, topics, memory.tau, ranked_by))

    for number in range(WARM_UP):
        search(number, memory.scorer)
    times: dict[str, list[float]] = {"ours": [], "paper": []}
    for number in range(QUERIES):
        pair = [("ours", memory.scorer), ("paper", "paper")]
        for name, ranked_by in pair if number % 2 else pair[::-1]:  # the second one finds warm caches
            times[name].append(milliseconds(partial(search, number, ranked_by)))
    ours = spread(times["ours"])
    return {
        "search_ms_median": ours["median"],
        "search_ms_p95": ours["p95"],
        "vs_paper": round(ours["median"] / statistics.median(times["paper"]), 2),
        "bytes_an_event": round(index.nbytes / size),
    }


def sample() -> Episode:
    """Return the shipped conversation."""
    return load_episodes(shipped_path("data/samples/three_sessions.jsonl"))[0]
