"""What the benches measure, on memories of a few dozen utterances."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ld_agent.config import Config
from ld_agent.evaluation.bench import recall
from ld_agent.evaluation.bench.random_memory import RandomMemory
from ld_agent.evaluation.bench.timing import in_process, spread
from ld_agent.evaluation.bench.turn import bench_growth


def test_a_conversation_grows_and_is_measured_at_each_size(config: Callable[..., Config]):
    few, more = bench_growth(config(), [20, 60])["growth"]
    assert (few["utterances"], more["utterances"]) == (20, 60)
    assert more["sessions"] > few["sessions"] > 2
    assert more["traits"] > few["traits"] > 0
    assert more["steps_ms"]["recall"] > 0
    assert 0 < more["turn_ms_median"] <= more["turn_ms_p95"]


def test_recall_is_timed_by_size(config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recall, "SIZES", (10, 20))
    rows = recall.bench_recall(config())["recall"]
    assert [row["events"] for row in rows] == [10, 20]
    assert all(row["vs_paper"] > 0 and row["bytes_an_event"] > 384 for row in rows)


def test_random_memories_are_always_the_same():
    one, other = RandomMemory(8), RandomMemory(8)
    assert one.session(3).texts == other.session(3).texts != one.session(4).texts
    assert np.array_equal(one.vectors(2), other.vectors(2))
    assert np.linalg.norm(one.vectors(5), axis=1) == pytest.approx(np.ones(5), abs=1e-6)


def test_times_are_measured_in_a_process_of_its_own():
    assert in_process("ld_agent.evaluation.bench.timing:spread", [1.0, 2.0, 9.0]) == spread([1.0, 2.0, 9.0])
    assert spread([1.0, 2.0, 9.0])["median"] == 2
