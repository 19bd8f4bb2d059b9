"""``ld-agent eval`` on the command line, with a scripted model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from cli_commands import CommandLine, conversation_line, scripted_config

from ld_agent.backbones.base import Message, Request
from ld_agent.backbones.local.likelihood import Likelihood
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import load_config
from ld_agent.errors import InputError
from ld_agent.evaluation.run_files import Item, Prediction
from ld_agent.evaluation.tasks.response import ResponseTask, _prefixes
from ld_agent.evaluation.tasks.response import measures as response_measures

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
PERSONAS = SAMPLES / "msc_personasummary" / "session_2" / "valid.txt"  # 9 utterances, 3 of them with traits


@pytest.fixture
def silent(tmp_path: Path) -> Path:
    """An extractor that never finds a trait."""
    return scripted_config(tmp_path, extractor="NO_TRAIT")


@pytest.fixture
def eager(tmp_path: Path) -> Path:
    """An extractor that always finds the same trait."""
    return scripted_config(tmp_path, extractor="I work in a library.")


def test_extraction_figures_by_hand(command_line: CommandLine, silent: Path):
    ran = command_line("eval", "extraction", PERSONAS, "-c", silent, "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["predictions"], found["episodes"], found["empty"]) == (0, 9, 2, 0)
    assert found["accuracy"] == found["rouge_l"] == pytest.approx(6 / 9, abs=1e-6)
    assert (found["rouge_l_traits"], found["bleu_2"], found["bleu_3"]) == (0, 0, 0)
    assert (found["trait_recall"], found["trait_precision"]) == (0, None)
    assert found["intervals"]["accuracy"] == pytest.approx([3 / 5, 3 / 4], abs=1e-6)  # 2 of 5 and 1 of 4 have traits


def test_extraction_of_traits_by_hand(command_line: CommandLine, eager: Path):
    found = json.loads(
        command_line("eval", "extraction", PERSONAS, "-c", eager, "--json", "modules.extractor.grounded=false").out
    )
    assert found["accuracy"] == pytest.approx(3 / 9, abs=1e-6)
    # "I work in a library." against itself, "I take cello lessons." and "I can fix my motorbike. I want to see snow."
    assert found["rouge_l_traits"] == pytest.approx((1 + 2 / (5 + 4) + 2 / (5 + 10)) / 3, abs=1e-6)
    assert found["bleu_1"] > found["bleu_2"] > 0


def test_configs_are_compared_and_stored_separately(
    command_line: CommandLine, silent: Path, eager: Path, tmp_path: Path
):
    out = tmp_path / "runs"
    found = json.loads(
        command_line("eval", "extraction", PERSONAS, "-c", silent, "-c", eager, "--json", "--out", out).out
    )
    [test] = [t for t in found["comparisons"] if t["metric"] == "accuracy"]
    before, after = (s["accuracy"] for s in found["systems"])
    assert (test["system"], test["against"]) == (eager.stem, silent.stem)
    assert test["difference"] == pytest.approx(after - before, abs=1e-6)
    assert json.loads((out / silent.stem / "scores.json").read_text("utf-8")) == found["systems"][0]
    shown = command_line("eval", "score", out).out
    assert "paired bootstrap" in shown
    assert "rouge_l_traits" in shown


def test_unfinished_runs_are_not_scored_silently(command_line: CommandLine, silent: Path, tmp_path: Path):
    out = tmp_path / "run"
    command_line("eval", "extraction", PERSONAS, "-c", silent, "--out", out)
    kept = (out / "predictions.jsonl").read_text("utf-8").splitlines(keepends=True)
    (out / "predictions.jsonl").write_text("".join(kept[:6]), encoding="utf-8")
    ran = command_line("eval", "score", out, "--json")
    assert (ran.code, ran.out) == (1, "")
    assert "is unfinished: 5 of 9" in ran.err
    ran = command_line("eval", "score", out, "--json", "--partial")
    assert json.loads(ran.out)["predictions"] == 4
    assert "is unfinished" in ran.err


def test_data_without_references_is_rejected(command_line: CommandLine, silent: Path, tmp_path: Path):
    bare = tmp_path / "bare.jsonl"
    bare.write_text(conversation_line("c1"), encoding="utf-8")
    ran = command_line("eval", "extraction", bare, "-c", silent, "--json")
    assert (ran.code, ran.out) == (1, "")
    assert "has no trait annotations" in ran.err
    for kind in ("extraction", "summary", "response", "retrieval", "questions", "memory"):
        ran = command_line("eval", kind, tmp_path / "nowhere.txt", "-c", silent)
        assert (ran.code, ran.out) == (1, "")
        assert "nowhere.txt" in ran.err


def test_summaries_use_names_and_the_best_reference(command_line: CommandLine, tmp_path: Path):
    lines = [json.loads(line) for line in (SAMPLES / "dialogsum.jsonl").read_text("utf-8").splitlines()]
    said = "Someone misses the train to Lyon."
    data = tmp_path / "dialogues.jsonl"
    row = {key: lines[0][key] for key in ("fname", "dialogue")}
    row |= {"summary1": "#Person1# asks.", "summary2": said, "summary3": "#Person2# answers."}
    data.write_text(json.dumps(row) + "\n", encoding="utf-8")
    config = scripted_config(tmp_path, summarizer=said)
    found = json.loads(command_line("eval", "summary", data, "-c", config, "--json", "--out", tmp_path / "run").out)
    assert (found["rouge_1"], found["rouge_2"], found["rouge_l"], found["fallbacks"]) == (1, 1, 1, 0)
    kept = json.loads((tmp_path / "run" / "predictions.jsonl").read_text("utf-8").splitlines()[2])
    assert kept["prediction"] == said
    assert not any("#Person" in reference for reference in kept["references"])


def test_locomo_sessions_are_scored_against_its_summaries(command_line: CommandLine, tmp_path: Path):
    said = "Ines fetched a rowing boat with a hole, and Paul offered a plank."
    config = scripted_config(tmp_path, summarizer=said)
    [sample] = json.loads((SAMPLES / "locomo.json").read_text("utf-8"))
    data = tmp_path / "unasked.json"
    data.write_text(json.dumps([{key: value for key, value in sample.items() if key != "qa"}]), encoding="utf-8")
    found = json.loads(command_line("eval", "summary", data, "-c", config, "--json").out)
    assert (found["predictions"], found["episodes"], found["rouge_l"]) == (1, 1, 1)


def test_replies_are_scored_by_session(command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def likelihoods(self: ScriptedBackbone, requests: list[Request], answers: list[str]) -> list[Likelihood]:
        """Two nats a token; one nat where prompt and answer do not belong together."""
        fitting = [r.messages[-1].content.split()[-1] == a.split()[-1] for r, a in zip(requests, answers, strict=True)]
        return [Likelihood(2.0 * 5 if fits else 1.0 * 5, 5) for fits in fitting]

    monkeypatch.setattr(ScriptedBackbone, "likelihoods", likelihoods, raising=False)
    data = tmp_path / "talks.jsonl"
    data.write_text(conversation_line("c1", sessions=3) + conversation_line("c2", sessions=3), encoding="utf-8")
    config = scripted_config(tmp_path, generator="The recorded reply, 2.0")
    ran = command_line("eval", "response", data, "-c", config, "--from-session", 2, "--out", tmp_path / "run", "--json")
    found: dict[str, Any] = json.loads(ran.out)
    assert (found["predictions"], sorted(found["by_session"])) == (8, ["2", "3"])
    # References are "The recorded reply, 1.0" and 1.1 in session 2, 2.0 and 2.1 in session 3.
    assert found["by_session"]["3"]["bleu_1"] == pytest.approx(7 / 8, abs=1e-6)
    assert found["by_session"]["2"]["bleu_1"] == pytest.approx(3 / 4, abs=1e-6)
    assert found["bleu_1"] == pytest.approx(13 / 16, abs=1e-6)
    assert found["distinct_1"] == pytest.approx(5 / 40, abs=1e-6)
    assert found["perplexity"] == pytest.approx(math.exp(2), abs=1e-5)
    assert {"bleu_4", "rouge_l", "meteor", "f1", "distinct_2"} <= set(found)
    lines = [json.loads(line) for line in (tmp_path / "run" / "predictions.jsonl").read_text("utf-8").splitlines()]
    first = next(line for line in lines if line.get("key") == "c1/6")
    assert (first["references"], first["session"], first["turn"]) == (["The recorded reply, 1.0"], 2, 1)
    assert first["recalled"]


def test_replies_that_repeat_what_was_said_are_counted():
    def measured(*replies: tuple[str, str, str]) -> dict[str, float]:
        made = [Prediction("", who, 1, ("Yes.",), text, {"text": heard}) for who, heard, text in replies]
        return {name: measure.overall for name, measure in response_measures(made).items()}

    found = measured(
        ("a", "I ride to work.", "Oh no! How far is the lake?"),
        ("b", "I ride to work.", "Oh no! How far is the lake?"),  # the first reply of another conversation
        ("a", "I ride to work.", "You swim! HOW far is the lake"),
        ("a", "I ride to work.", "Good. I ride, to work!"),
        ("a", "Oh no!", "Oh no! How far?"),  # short sentences may come again
    )
    assert (found["repeated"], found["echoed"]) == (1 / 5, 1 / 5)


def test_what_a_cache_of_prompts_beginnings_holds_is_counted_within_a_session(tmp_path: Path):
    data = tmp_path / "talks.jsonl"
    data.write_text(conversation_line("c1", sessions=2), encoding="utf-8")
    config = load_config(str(scripted_config(tmp_path)), ["modules.generator.prompting=direct"])
    task = ResponseTask(data, config, no_perplexity=True)
    made = list(task.predict(config, task.items))
    first, second, *later = [(p.details["prefix"], p.details["prompt"]) for p in made]
    assert first[0] == 0
    assert second[0] == first[1], "the second prompt goes on where the first one ended"
    assert later[0][0] == 0, "a new session"
    talk, quiz = (Request((Message("system", text),), "generator", 1) for text in ("Talk. Hello", "Answer."))
    turns: list[Any] = [(task.items[0], None, request) for request in (talk, quiz, talk)]
    assert [one["prefix"] for one in _prefixes(turns)] == [0, len("\0system\0"), len("\0system\0Talk. Hello")]
    shares = sum(p.details["prefix"] for p in made) / sum(p.details["prompt"] for p in made)
    assert response_measures(made)["prefix"].overall == pytest.approx(shares)


@pytest.mark.parametrize("free", [False, True])
def test_a_free_run_remembers_its_own_replies(free: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data, asked = tmp_path / "talks.jsonl", list[Request]()
    data.write_text(conversation_line("c1", sessions=2), encoding="utf-8")
    config = load_config(str(scripted_config(tmp_path, generator="My words.")))
    answer = ScriptedBackbone._answer
    monkeypatch.setattr(ScriptedBackbone, "_answer", lambda self, r: (asked.append(r), answer(self, r))[1])
    task = ResponseTask(data, config, no_perplexity=True, free=free)
    made = [prediction.text for prediction in task.predict(config, task.items)]
    in_prompts = {m.content for r in asked if r.module == "generator" for m in r.messages if m.role == "assistant"}
    assert made == ["My words."] * 4
    assert ("My words." in in_prompts) is free
    assert any("recorded reply" in text for text in in_prompts) is not free
    with pytest.raises(InputError, match="omit --from-session or --free"):
        ResponseTask(data, config, from_session=2, free=True)


def test_replies_follow_another_speaker(tmp_path: Path):
    said = [("Sam", "I begin.", 0), ("Ann", "Hello.", 1), ("Sam", "Hi.", 2), ("Sam", "And?", 3), ("Ann", "Late.", 4)]
    turns = [{"speaker": who, "text": text, "at": f"2024-03-01T18:{m:02}:00+00:00"} for who, text, m in said]
    after = [("Sam", "Another session.", "18:10"), ("Ann", "Still here?", "18:11"), ("Sam", "Hours later.", "21:00")]
    others = [{"speaker": who, "text": text, "at": f"2024-03-01T{at}:00+00:00"} for who, text, at in after]
    data = tmp_path / "talk.jsonl"
    data.write_text(json.dumps({"id": "c", "agent": "Sam", "sessions": [turns, others]}) + "\n", encoding="utf-8")
    assert [item.key for item in ResponseTask(data, load_config()).items] == ["c/3"]
    item: Item = ResponseTask(data, load_config()).items[0]
    assert (item.references, item.session, item.about["turn"]) == (("Hi.",), 1, 1)


def test_empty_predictions_are_reported(command_line: CommandLine, silent: Path, tmp_path: Path):
    out = tmp_path / "run"
    command_line("eval", "extraction", PERSONAS, "-c", silent, "--out", out)
    path = out / "predictions.jsonl"
    path.write_text(
        path.read_text("utf-8").replace('"prediction": "NO_TRAIT"', '"prediction": ""', 2), encoding="utf-8"
    )
    ran = command_line("eval", "score", out, "--json")
    assert json.loads(ran.out)["empty"] == 2
    assert "2 of 9 predictions are empty" in ran.err
