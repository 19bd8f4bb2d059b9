"""N-shot examples: drawn by seed from a run's replies, with the memory that was generated for them."""

import json
from pathlib import Path

import pytest

from ld_agent.errors import InputError
from ld_agent.evaluation.run_files import Prediction
from ld_agent.memory.views.recursive import reply_examples
from training.reply_examples import drawn_examples


def predicted(episode: int, turn: int, *memory: str) -> Prediction:
    details = {"recalled": list(memory), "speaker": "Maya", "text": f"Question {episode}.{turn}?"}
    return Prediction(f"e{episode}/{turn}", f"e{episode}", 3, (f"Answer {episode}.{turn}.",), "generated", details)


RUN = [predicted(e, t, *([f"Maya: fact {e}."] if e < 6 else [])) for e in range(8) for t in range(4)]


def test_examples_are_of_different_conversations_with_their_memory_and_recorded_reply(tmp_path: Path):
    rows = drawn_examples(RUN, 3, seed=0)
    for row in rows:
        [[speaker, text]] = row["dialogue"]
        number = text.removeprefix("Question ").removesuffix("?")
        assert (speaker, row["reply"]) == ("Maya", f"Answer {number}.")
        assert row["memory"] == f"Maya: fact {number[0]}."
    assert len({row["memory"] for row in rows}) == 3
    assert rows == drawn_examples(RUN, 3, seed=0) != drawn_examples(RUN, 3, seed=1)
    (tmp_path / "examples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert len(reply_examples(str(tmp_path / "examples.jsonl"))) == 3


def test_too_few_conversations_with_a_memory_are_refused():
    with pytest.raises(InputError, match="only 6 conversations"):
        drawn_examples(RUN, 7, seed=0)
