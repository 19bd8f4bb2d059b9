"""The measurement of the server, over a real socket."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ld_agent.config import Config

pytest.importorskip("uvicorn")


def test_clients_are_answered_and_measured(config: Callable[..., Config]):
    from ld_agent.server.bench import bench_serve

    measured = bench_serve(config(), clients=(1, 3), requests=2, events=20)
    assert measured["model"] == "scripted"
    assert [row["clients"] for row in measured["serve"]] == [1, 3]
    for row in measured["serve"]:
        assert 0 < row["overhead_p50_ms"] < row["p50_ms"] <= row["p95_ms"]
        assert row["requests_a_second"] > 0


def test_people_are_stored_and_asked_for(config: Callable[..., Config]):
    from ld_agent.server.bench_people import bench_people

    [row] = bench_people(config(), [30])["people"]
    assert row["people"] == 30
    assert all(row[name] > 0 for name in row)


def test_a_server_under_load_keeps_only_its_memory(config: Callable[..., Config]):
    from ld_agent.server.bench_soak import bench_soak

    measured = bench_soak(config(), seconds=2.5, clients=4)
    rows = measured["soak"]
    assert [row["requests"] for row in rows] == sorted(row["requests"] for row in rows)
    assert len(rows) == 10
    assert rows[-1]["requests"] >= 4
    assert max(row["descriptors"] for row in rows[1:]) <= rows[1]["descriptors"] + 4
    assert rows[-1]["threads"] <= rows[1]["threads"] + 4
    assert rows[-1]["rss_mb"] < rows[4]["rss_mb"] + 100  # what a leak of whole replies or prompts would exceed by far
