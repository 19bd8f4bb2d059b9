"""A handful of made-up people: stored as the agent itself would store them, recalled, and measured."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import pytest

from ld_agent.config import Config
from ld_agent.errors import ConfigError

pytest.importorskip("psycopg")
from ld_agent.evaluation.bench_population import bench_population
from ld_agent.evaluation.made_up_people import People, event_counts
from ld_agent.evaluation.population_plot import picture
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
    measured = bench_population(settings, [2, 4], asked=2, longest=30, tries=1)
    [few, more] = measured["population"]
    assert [row["events"] for row in measured["by_person"]][-1] == 30
    [axes] = picture(measured["by_person"]).axes
    assert len(axes.collections) == 3
    assert (few["people"], more["people"]) == (2, 4)
    assert all(row[f"{kind}_ms_p95"] > 0 for row in (few, more) for kind in ("cold", "second", "warm", "turn"))
    store = open_store(settings.store.path)
    assert len(store.conversations()) == 4
    lines = list(export_lines(store, "p0000000"))
    assert sum('"kind": "record"' in line for line in lines) >= 30
    shelf = store.shelf(store.find_conversation("p0000000").key, "events")
    assert shelf.undigested() == []
    assert store.unextracted(store.find_conversation("p0000000").key) == []
    assert shelf.inventory(True).with_passages == shelf.count()
    counted = """SELECT count(*) FROM passage WHERE conversation = ? AND
        words_counted(words) = lengths || jsonb_build_object('spoken', spoken)"""
    key = store.find_conversation("p0000000").key
    assert store.db.of(key).row(counted, (key,))[0] >= 30
    vectors = np.array([row.vector for row in shelf.rows_after(0)][:30])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(30), abs=1e-5)
    store.append(store.find_conversation("p0000001").key, "User", "Hello.", LATER, 3600, lambda: LATER)
    store.close()


def test_vectors_lie_as_those_of_real_summaries():
    """As LoCoMo's: cosines of 0.73 ± 0.09 within a person and 0.36 ± 0.09 between people."""
    people = People("Sam", 384, np.full(8, 50))
    places = np.repeat(np.arange(8), 50)
    vectors = people._vectors(np.random.default_rng(1), places)
    same = places[:, None] == places
    np.fill_diagonal(same, False)
    cosines = vectors @ vectors.T
    assert cosines[same].mean() == pytest.approx(0.73, abs=0.02)
    assert cosines[same].std() == pytest.approx(0.085, abs=0.02)
    assert cosines[places[:, None] != places].mean() == pytest.approx(0.36, abs=0.04)


def test_a_file_is_refused(config: Callable[..., Config]):
    with pytest.raises(ConfigError, match="give --store postgresql://"):
        bench_population(config(), [1])
