"""ECM's benchmarks: parsing of model output, the file format, and questions to an agent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from cli_commands import CommandLine, scripted_config

from ld_agent.agent import Agent
from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config, parse_config
from ld_agent.datasets.base import Episode, Turn
from ld_agent.errors import DataFileError, InputError
from ld_agent.evaluation import played
from ld_agent.evaluation.run_files import Prediction
from ld_agent.evaluation.tasks.ecm import (
    ASSISTANT,
    USER,
    EcmTask,
    merged,
    read_samples,
    sample,
    write_samples,
)
from ld_agent.evaluation.tasks.ecm import (
    measures as ecm_measures,
)
from ld_agent.evaluation.tasks.ecm_build import build, dialogues_of, load_requests
from ld_agent.evaluation.tasks.memory_quality import MemoryTask, golden
from ld_agent.evaluation.tasks.memory_quality import measures as memory_measures
from ld_agent.evaluation.tasks.question_data import Questioned
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor

START = datetime(2024, 5, 1, 18, 0, tzinfo=UTC)


def episode(name: str = "e1", lines: int = 4, sessions: int = 1, subject: str = "bees") -> Episode:
    turns = [
        Turn(
            "Ann" if n % 2 == 0 else "Bob",
            f"{subject} line {n} of session {s}",
            START + timedelta(days=s, minutes=n),
            s,
        )
        for s in range(1, sessions + 1)
        for n in range(lines)
    ]
    return Episode(name, "Bob", tuple(turns), {"Ann": (f"I keep {subject}.", "I am tall."), "Bob": ("I bake.",)})


def built(benchmark: str, sources: Any, answer: str | list[str] | Callable[[Request], str]) -> Any:
    backbone = ScriptedBackbone({"builder": answer})
    return build(benchmark, sources, backbone.generate), backbone


def probes(one: Questioned) -> list[tuple[str, str]]:
    return [(question.text, question.answers[0]) for question in one.questions]


def test_continuing_adds_a_turn_to_each_dialogue():
    made, backbone = built(
        "continuing", [episode(sessions=2)], "Question: How are my bees?\nAnswer: On line 2.\nUser: Oh!"
    )
    assert [one.episode.id for one in made.samples] == ["e1/session1", "e1/session2"]
    assert probes(made.samples[0]) == [("How are my bees?", "On line 2.")]
    assert {turn.speaker for turn in made.samples[0].episode.turns} == {USER, ASSISTANT}
    assert "User: bees line 0 of session 1" in backbone.requests[0].messages[-1].content
    assert not +made.dropped


def test_knowledge_asks_only_about_the_user():
    made, backbone = built(
        "knowledge", [episode()], ["Question: What do I keep?\nAnswer: You keep bees.", "You are tall, I see."]
    )
    [one] = made.samples
    assert probes(one) == [("What do I keep?", "You keep bees.")]
    assert made.dropped["no question and answer"] == 1
    assert backbone.batches == [2]
    asked = [request.messages[-1].content for request in backbone.requests]
    assert asked == ['The person says: "I keep bees."', 'The person says: "I am tall."']


@pytest.mark.parametrize(
    "text", ["", "Question: What?", "Answer: Bees.\nQuestion: What?", "Question:\nAnswer:", 'Question: ""\nAnswer: ""']
)
def test_malformed_output_yields_no_sample(text: str):
    made, _ = built("continuing", [episode()], text)
    assert made.samples == []
    assert made.dropped == {"no question and answer": 1}


def test_an_answer_that_uses_nothing_of_the_dialogue_yields_no_sample():
    made, _ = built(
        "continuing", [episode()], "Question: Which line do my bees follow?\nAnswer: Your bees follow a line."
    )
    assert made.samples == []
    assert made.dropped == {"no use of the dialogue": 1}


@pytest.mark.parametrize(
    ("written", "reference"),
    [
        ('"Line 2."', "Line 2."),
        ('**"Line 2."**', "Line 2."),
        ('"Line 1", "Line 2" and 3.', '"Line 1", "Line 2" and 3.'),
        ('Read "Line 1" or "Line 2"', 'Read "Line 1" or "Line 2"'),
    ],
)
def test_quotes_within_an_answer_stay_whole(written: str, reference: str):
    made, _ = built("continuing", [episode()], f"Question: How are my bees?\nAnswer: {written}")
    assert [probes(one)[0][1] for one in made.samples] == [reference]


def feedback_script(request: Request) -> str:
    text = request.messages[-1].content
    system = request.messages[0].content
    if "small talk" in system:
        return "User: Hi!\nAssistant: Hello!\nUser: Nice day.\nAssistant: Yes.\nUser: So"
    if "another one of the same kind" in system:
        return "How do I bake rolls?"
    if "how to answer better" in system:
        return "Advice: Name the oven's heat."
    return ("At 220 degrees: " if "Mind this" in text else "Draft: ") + text.split("\n")[0]


def test_feedback_has_chat_draft_advice_and_better_answer():
    made, backbone = built("feedback", ["How do I bake bread?"], feedback_script)
    [one] = made.samples
    assert [(turn.speaker, turn.text) for turn in one.episode.turns] == [
        (USER, "Hi!"),
        (ASSISTANT, "Hello!"),
        (USER, "Nice day."),
        (ASSISTANT, "Yes."),
        (USER, "How do I bake bread?"),
        (ASSISTANT, "Draft: How do I bake bread?"),
        (USER, "Name the oven's heat."),
        (ASSISTANT, "At 220 degrees: How do I bake bread?"),
    ]
    assert probes(one) == [("How do I bake rolls?", "At 220 degrees: How do I bake rolls?")]
    assert backbone.batches == [2, 2, 1, 2]  # what does not wait for another goes out together


def test_a_chat_before_a_request_ends_where_it_repeats_itself():
    def script(request: Request) -> str:
        if "small talk" in request.messages[0].content:
            return "User: It's still wet.\nAssistant: Try salt.\nUser: I did.\nAssistant: Try salt.\nUser: I did.\nAssistant: No."
        return feedback_script(request)

    made, _ = built("feedback", ["How do I bake bread?"], script)
    chat = [turn.text for turn in made.samples[0].episode.turns[:-4]]
    assert chat == ["It's still wet.", "Try salt."]


def test_an_echoed_request_is_not_similar():
    made, _ = built("feedback", ["How do I bake bread?"], "how do I bake bread?")
    assert made.samples == []
    assert made.dropped == {"no similar request": 1}


def test_unsuitable_sources_are_rejected():
    for benchmark, sources in (
        ("knowledge", [Episode("x", "Bob", episode().turns)]),
        ("continuing", [episode(lines=3)]),
    ):
        with pytest.raises(InputError, match=f"no sources to build {benchmark} from"):
            built(benchmark, sources, "")
    with pytest.raises(InputError, match="'memory' is unknown"):
        built("memory", [episode()], "")
    assert list(dialogues_of(episode(lines=3))) == []


def test_requests_are_read_from_text_or_json_lines(tmp_path: Path):
    file = tmp_path / "requests.txt"
    file.write_text("How?\n\n Why  so? \nHow?\n")
    assert load_requests(file) == ["How?", "Why so?"]
    file.write_text('{"id": 1, "instruction": "Do\\nthis."}\n')
    assert load_requests(file) == ["Do this."]
    file.write_text('{"id": 1}\n')
    with pytest.raises(DataFileError, match=r"requests.txt, line 1: has no 'instruction'"):
        load_requests(file)
    file.write_text("\n")
    with pytest.raises(InputError, match="contains no requests"):
        load_requests(file)


# ---- the file and the agent


def samples(count: int = 3) -> list[Questioned]:
    made = []
    for n, subject in enumerate(("bees", "boats", "bread")[:count]):
        [dialogue] = dialogues_of(episode(f"s{n}", subject=subject))
        asked = (f"What about the {subject}?", f"The {subject} are well.")
        made.append(sample(replace(dialogue, id=f"s{n}"), [asked]))
    return made


def test_round_trip(tmp_path: Path):
    file = tmp_path / "continuing.jsonl"
    write_samples(file, "continuing", samples(), {"by": "a model"})
    benchmark, read = read_samples(file)
    assert benchmark == "continuing"
    assert [(s.questions, s.episode.turns) for s in read] == [(s.questions, s.episode.turns) for s in samples()]
    assert json.loads(file.read_text().splitlines()[0])["made"] == {"by": "a model"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "is not a benchmark"),
        (['{"format": "ld_agent.memory", "version": 1}'], "is not a benchmark"),
        (['{"format": "ld_agent.ecm", "version": 1, "benchmark": "x"}'], "line 1: benchmark 'x' is unknown"),
        (['{"format": "ld_agent.ecm", "version": 1, "benchmark": "knowledge"}'], "contains no samples"),
        (
            ['{"format": "ld_agent.ecm", "version": 1, "benchmark": "knowledge"}', '{"id": "s", "source": {}}'],
            "line 2: source: has no 'sessions'",
        ),
        (
            [
                '{"format": "ld_agent.ecm", "version": 1, "benchmark": "knowledge"}',
                '{"id": "s", "source": {"sessions": [[{"speaker": "Ann", "text": "Hi", "at": "2024-05-01T18:00:00Z"}]]}}',
            ],
            "line 2: speaker 'Ann' is neither User nor Assistant",
        ),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, lines: list[str], message: str):
    file = tmp_path / "b.jsonl"
    file.write_text("".join(line + "\n" for line in lines))
    with pytest.raises(InputError, match=message) as caught:
        read_samples(file)
    assert "b.jsonl" in str(caught.value)


def test_merged_sources_are_consecutive_in_time_and_number():
    one, two = merged(samples(), 2)
    turns = one.episode.turns
    assert [turn.session for turn in turns] == [1] * 4 + [2] * 4
    assert turns[4].at - turns[3].at == timedelta(days=1)
    assert [q.key for q in one.questions] == ["s0/1", "s1/1"]
    assert [q.key for q in two.questions] == ["s2/1"]
    assert {q.at - turns[-1].at for q in one.questions} == {timedelta(days=1)}
    with pytest.raises(InputError, match="merge=0"):
        merged(samples(), 0)


def test_questions_see_the_sources_but_not_each_other(
    encoder: SentenceEncoder, topics: TopicExtractor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    backbone = ScriptedBackbone(
        {"generator": "They are well.", "summarizer": summary_of, "extractor": "NO_TRAIT"}, context_window=4096
    )
    config = parse_config({"store": {"path": ":memory:"}, "memory": {"gamma": -1.0, "k": 5}})
    agent = Agent(config, backbone=backbone, encoder=encoder, topics=topics)
    monkeypatch.setattr(played, "in_memory", lambda config: agent)
    write_samples(tmp_path / "b.jsonl", "continuing", samples(), {})
    task = EcmTask(tmp_path / "b.jsonl", config)
    predictions = list(task.predict(config, task.items))
    assert {p.key for p in predictions} == {"s0/1", "s1/1", "s2/1"}
    for prediction in predictions:
        texts = [recalled["text"] for recalled in prediction.details["recalled"]]
        assert len(texts) == 3  # the three sources, and never another question
        assert not any("What about" in text for text in texts)
    asked = [str(request.messages) for request in backbone.requests if request.module == "generator"]
    assert len(asked) == 3  # the sources are heard and not replied to
    assert [prompt.count("What about") for prompt in asked] == [1, 1, 1]


def summary_of(request: Request) -> str:
    text = request.messages[-1].content
    subject = next(word for word in ("bees", "boats", "bread") if word in text)
    return f"User and Assistant talked about {subject} line by line."


def test_rouge_of_answers_by_hand():
    # "the bees are well" against "the bees are fine today": 3 of 4 and of 5 words, 2 of 3 and of 4 pairs
    found = ecm_measures([Prediction("a", "e", 1, ("the bees are fine today",), "the bees are well")])
    assert found["rouge_1"].overall == pytest.approx(2 * 3 / 9)
    assert found["rouge_2"].overall == pytest.approx(2 * 2 / 7)


def test_building_stops_at_the_wanted_number_of_samples():
    calls = iter(["nothing", *["Question: What?\nAnswer: Bees."] * 9])
    sources = [episode(f"e{n}") for n in range(6)]
    backbone = ScriptedBackbone({"builder": lambda request: next(calls)})
    made = build("continuing", sources, backbone.generate, wanted=3)
    assert [one.episode.id for one in made.samples] == ["e1/session1", "e2/session1", "e3/session1"]
    assert len(backbone.requests) == 4


# ---- the quality of a memory


def test_memory_quality_by_hand():
    # "I keep bees and boats" (5 words) against "I keep bees. I am tall." (6): I, keep, bees are shared
    counted = [{"records": 2, "utterances": 8, "words": 5}, {"records": 0, "utterances": 4, "words": 0}]
    predictions = [
        Prediction("a", "a", 1, ("I keep bees. I am tall.",), "I keep bees and boats", counted[0]),
        Prediction("b", "b", 1, ("I bake.",), "", counted[1]),
    ]
    found = {name: measure.overall for name, measure in memory_measures(predictions).items()}
    by_hand = {"precision": 3 / 5 / 2, "recall": 3 / 6 / 2, "f1": 6 / 11 / 2, "frequency": 2 / 12, "length": 5 / 2}
    assert found == pytest.approx(by_hand)


def test_references_are_annotated_traits_or_else_personas():
    plain = episode()
    assert golden(plain) == ("I keep bees.", "I am tall.", "I bake.")
    annotated = Episode("x", "Bob", (Turn("Ann", "I row.", START, 1, ("I row.",)), Turn("Bob", "Oh.", START, 1, ())))
    assert golden(annotated) == ("I row.",)


def test_a_corpus_without_annotations_is_rejected(tmp_path: Path):
    file = tmp_path / "data.jsonl"
    said = [
        {"speaker": "Ann", "text": "Hi", "at": START.isoformat()},
        {"speaker": "Bob", "text": "Hi", "at": START.isoformat()},
    ]
    file.write_text(json.dumps({"id": "e1", "agent": "Bob", "utterances": said}) + "\n")
    with pytest.raises(InputError, match="does not annotate what to remember"):
        MemoryTask(file, Config())


# ---- the commands, from source dialogues to the paper's table


def test_a_judge_agrees_with_labels_and_the_table_is_filled(tmp_path: Path, command_line: CommandLine):
    benchmark, runs, labels = (tmp_path / name for name in ("ecm.jsonl", "runs", "labels.jsonl"))
    write_samples(benchmark, "knowledge", samples(1), {})
    config = scripted_config(tmp_path, generator="The bees are well.", judge=["2"])
    arm = ("memory.views=[none]", "modules.generator.grounded=false", "personas.cap=0", "-c", config)
    assert command_line("ecm", "run", benchmark, *arm, "--out", runs / "none").code == 0
    assert json.loads(command_line("judge", "score", runs / "none", "-c", config, "--json").out)["score"] == 2
    table = command_line("tables", "ecm-4", "--from", runs).out
    assert re.search(r"\*\*ours: No memory .*\| \*\*2\.00\*\* \| \*\*100\.00\*\* \| \*\*100\.00\*\* \|", table)

    def agreed(*names: str) -> dict[str, Any]:
        judged = [runs / name / "judge-score.jsonl" for name in names]
        return dict(json.loads(command_line("judge", "agree", *judged, labels, "--json").out)["aspects"][""])

    labels.write_text('{"key": "s0/1", "label": 2}\n')
    found = agreed("none")
    assert (found["accuracy"], found["cohen"], found["rated_by_all"]) == (1, None, 1)
    copytree(runs / "none", runs / "again")
    rows = [{"run": name, "key": "s0/1", "label": n} for n, name in enumerate(("none", "again"), 1)]
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = agreed("none", "again")
    assert (found["rated_by_all"], found["accuracy"]) == (2, 0.5)
    labels.write_text('{"key": "s9/1", "label": 2}\n')
    ran = command_line("judge", "agree", runs / "none" / "judge-score.jsonl", labels)
    assert "no case has both a verdict and a label" in ran.err
    ran = command_line("judge", "compare", runs / "none", runs / "none", "-c", config)
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert "are the same; give different runs" in ran.err


def test_a_model_without_usable_output_is_reported(tmp_path: Path, command_line: CommandLine):
    requests, out = tmp_path / "requests.txt", tmp_path / "out.jsonl"
    requests.write_text("How do I bake bread?\n")
    config = scripted_config(tmp_path, builder="How do I bake bread?")
    ran = command_line("ecm", "build", "feedback", "--from", requests, "--out", out, "-c", config)
    assert (ran.code, out.exists()) == (1, False)
    assert "made no samples from 1 sources (no similar request 1×)" in ran.err
