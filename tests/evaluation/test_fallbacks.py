"""What counts as a fallback, and that figures of fallbacks are marked wherever they are shown."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cli_commands import CommandLine, conversation_line, scripted_config

from ld_agent.evaluation import fallbacks
from ld_agent.evaluation.run_files import Prediction
from ld_agent.turn import NO_REPLY, NOT_STATED
from ld_agent.types import Record, Reply, Utterance

AT = datetime(2026, 2, 2, tzinfo=UTC)
HEARD = Utterance("u1", "Ann", "Hello.", AT, 1)


def record(view: str, fallback: bool = False, **details: Any) -> Record:
    return Record("m1", view, "text", AT, 1, fallback=fallback, details=details)


def prediction(episode: str, **details: Any) -> Prediction:
    return Prediction(episode + str(len(details)), episode, 1, ("r",), "t", details)


def test_a_reply_counts_each_answer_that_its_mechanisms_asked_for():
    rounds = [{"outcome": "missing"}, {"outcome": "unusable"}]
    explanations = {
        "conditional": {"rounds": rounds, "decision": NOT_STATED},
        "memochat": {"options": 3, "picked by": "cosine"},
    }
    assert fallbacks.of_reply(Reply("Hi.", None, HEARD, notes=(NO_REPLY,), explanations=explanations)) == {
        "replies": (1, 1),
        "conditional decisions": (1, 1),
        "conditional reflections": (1, 2),
        "memochat choices": (1, 1),
    }
    assert fallbacks.of_reply(Reply("Hi.", None, HEARD, explanations={"conditional": {"decision": "no"}})) == {
        "replies": (0, 1),
        "conditional decisions": (0, 1),
    }


def test_records_that_no_model_wrote_are_not_counted():
    kept = [record("events"), record("events", True), record("bm25"), record("a view of old")]
    assert fallbacks.of_records(kept) == {"events records": (1, 2)}


def test_refused_rewrites_count_even_if_a_later_one_is_accepted():
    kept = [record("recursive", rewrites=[2, 3]), record("recursive", True, rewrites=[3, 3])]
    assert fallbacks.of_records(kept) == {"recursive records": (1, 2), "recursive rewrites": (5, 6)}


def test_a_memory_counts_once_regardless_of_its_replies():
    memory = {"events records": [1, 4]}
    predictions = [
        prediction("a", reply_fallbacks={"replies": [0, 1]}, memory_fallbacks=memory),
        prediction("a", reply_fallbacks={"replies": [1, 1]}, memory_fallbacks=memory, recalled=[]),
        prediction("b", memory_fallbacks=memory),
    ]
    assert fallbacks.of_predictions(predictions) == {"events records": (2, 8), "replies": (1, 2)}


def test_summaries_count_too():
    assert fallbacks.of_predictions([prediction("a", fallback=True), prediction("b", fallback=False)]) == {
        "summaries": (1, 2)
    }


def test_more_than_a_fifth_is_not_the_mechanism():
    counts = {"conditional records": (21, 100), "replies": (20, 100)}
    assert fallbacks.mostly(counts) == ["conditional records"]
    assert "conditional records 21 of 100 (21 %)" in fallbacks.footnote(counts)
    assert "replies" not in fallbacks.footnote(counts)
    assert fallbacks.footnote({"replies": (20, 100)}) == ""


def test_an_evaluation_of_fallbacks_says_so(command_line: CommandLine, tmp_path: Path):
    data = tmp_path / "data.jsonl"
    data.write_text(conversation_line("c"))
    config = scripted_config(tmp_path, memory="Certainly!")
    ran = command_line("eval", "response", data, "-c", config, "memory.views=[conditional]", "--json")
    assert ran.code == 0, ran.err
    figures = json.loads(ran.out)
    assert figures["fallback_counts"]["conditional records"] == {"fallbacks": 4, "of": 4, "share": 1.0}
    assert figures["fallback_counts"]["conditional decisions"]["share"] == 1.0
    assert "conditional records" in figures["mostly_fallbacks"]
    shown = command_line("eval", "response", data, "-c", config, "memory.views=[conditional]").out
    assert "not the mechanism it is named after" in shown


def test_refused_rewrites_count_while_they_wait(command_line: CommandLine, tmp_path: Path):
    data = tmp_path / "data.jsonl"
    data.write_text(conversation_line("c", sessions=3))
    config = scripted_config(tmp_path, memory="Certainly!")
    ran = command_line("eval", "response", data, "-c", config, "memory.views=[recursive]", "--json")
    assert ran.code == 0, ran.err
    counts = json.loads(ran.out)["fallback_counts"]["recursive rewrites"]
    assert counts["fallbacks"] == counts["of"] > 2  # the first is a fallback at once, the others are tried again
