"""The measurement of the server, over a real socket."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ld_agent.config import Config

pytest.importorskip("uvicorn")


def test_clients_are_answered_and_measured(config: Callable[..., Config]):
    from ld_agent.evaluation.bench_serve import bench_serve

    measured = bench_serve(config(), clients=(1, 3), requests=2, events=20)
    assert measured["model"] == "scripted"
    assert [row["clients"] for row in measured["serve"]] == [1, 3]
    for row in measured["serve"]:
        assert 0 < row["overhead_p50_ms"] < row["p50_ms"] <= row["p95_ms"]
        assert row["requests_a_second"] > 0
