"""A handful of made-up people: stored as the agent itself would store them, recalled, and measured."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import pytest

from ld_agent.config import Config
from ld_agent.errors import ConfigError

pytest.importorskip("psycopg")
from ld_agent.evaluation.bench_population import bench_population, event_counts
from ld_agent.storage.address import open_store
from ld_agent.storage.exchange import export_lines

LATER = datetime(2050, 1, 1, tzinfo=UTC)


def test_a_person_has_forty_events_in_the_middle_and_the_first_has_the_most():
    counts = event_counts(20_000, np.random.default_rng(0))
    assert counts[0] == counts.max() == 20_000
    assert 38 <= np.median(counts) <= 42
    assert 900 <= np.percentile(counts, 99) <= 1100


def test_people_are_loaded_once_and_measured(new_database: Callable[[], str], config: Callable[..., Config]):
    settings = config(**{"store.path": new_database()})
    [few, more] = bench_population(settings, [2, 4], asked=2, longest=30)["population"]
    assert (few["people"], more["people"]) == (2, 4)
    assert all(row[f"{kind}_ms_p95"] > 0 for row in (few, more) for kind in ("cold", "warm", "turn", "end"))
    store = open_store(settings.store.path)
    assert len(store.conversations()) == 4
    lines = list(export_lines(store, "p0000000"))
    assert sum('"kind": "record"' in line for line in lines) >= 30
    shelf = store.shelf(store.find_conversation("p0000000").key, "events")
    assert shelf.undigested() == []
    assert store.unextracted(store.find_conversation("p0000000").key) == []
    vectors = np.array([row.vector for row in shelf.rows_after(0)][:30])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(30), abs=1e-5)
    store.append(store.find_conversation("p0000001").key, "User", "Hello.", LATER, 3600, lambda: LATER)
    store.close()


def test_a_file_is_refused(config: Callable[..., Config]):
    with pytest.raises(ConfigError, match="give --store postgresql://"):
        bench_population(config(), [1])
