"""``ld-agent eval questions``: what counts as answered and as not known, and that asking leaves no trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_commands import CommandLine, scripted_config

from ld_agent.datasets.records import reporting
from ld_agent.errors import DataFileError, InputError
from ld_agent.evaluation.tasks.question_data import contains, load_questions
from ld_agent.evaluation.tasks.questions import invents_nothing
from ld_agent.languages import ENGLISH

READING = ENGLISH.reading

CHECKED = ("checks.adapter=shipped:adapters/check",)
SAMPLES = Path(__file__).parents[2] / "data" / "samples"


def conversation(**changes: Any) -> dict[str, Any]:
    said = [("Lena", "I moved to Oslo."), ("Sam", "I see."), ("Lena", "I repair violins."), ("Sam", "How nice.")]
    turns = [
        {"speaker": speaker, "text": text, "at": f"2026-02-02T18:0{n}:00+00:00"}
        for n, (speaker, text) in enumerate(said)
    ]
    at = "2026-02-23T18:00:00+00:00"
    asked = [
        {"speaker": "Lena", "text": "Where do I live?", "at": at, "answers": ["Oslo"], "category": "where"},
        {"speaker": "Lena", "text": "What do I repair?", "at": at, "answers": ["violin"]},
        {"speaker": "Lena", "text": "What is my cat called?", "at": at, "answers": []},
    ]
    return {"id": "lena", "agent": "Sam", "sessions": [turns], "questions": asked} | changes


def written(tmp_path: Path, *conversations: dict[str, Any]) -> Path:
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in conversations), "utf-8")
    return file


def test_what_is_broken_is_named_skipped_and_counted_and_questions_stay_with_their_conversations(
    tmp_path: Path, command_line: CommandLine
):
    early = [{"speaker": "Lena", "text": "Before.", "at": "2025-01-01T10:00:00+00:00"}]
    sessions = conversation()["sessions"]
    file = written(
        tmp_path,
        conversation(id="broken", agent="Nobody"),
        conversation(id="disordered", sessions=[*sessions, early]),
        conversation(id="whole", questions=conversation()["questions"][1:]),
    )
    arguments = ("eval", "questions", file, "--json", "-c", scripted_config(tmp_path))
    refused = command_line(*arguments)
    assert (refused.code, refused.out) == (1, "")
    assert "questions.jsonl, line 1: 'Nobody' does not speak here" in refused.err
    assert "--lenient" in refused.err
    done = command_line(*arguments, "--lenient")
    assert json.loads(done.out)["questions"] == 5
    first, second, counted = done.err.splitlines()
    assert first.startswith(f"skipped: {file}, line 1: ")
    assert second.startswith(f"skipped: {file}, line 2: session 2: at=2025-01-01")
    assert counted == "2 broken parts of the data skipped"
    counts = command_line("statistics", file, "--json", "--lenient")
    assert (json.loads(counts.out)["episodes"], json.loads(counts.out)["utterances"]) == (2, 8)
    assert len(counts.err.splitlines()) == 3
    recalled = command_line("eval", "retrieval", file, "--json", "--lenient")
    assert json.loads(recalled.out)["questions"] == 3
    with reporting(lambda error: None):
        asked = {one.episode.id: [q.text for q in one.questions] for one in load_questions(file)}
    assert {name: len(questions) for name, questions in asked.items()} == {"disordered": 3, "whole": 2}


@pytest.mark.parametrize(
    ("text", "answers", "found"),
    [
        ("You live in OSLO.", ["oslo"], True),
        ("You repair violins.", ["violin"], True),  # words may go on
        ("It's a concert.", ["cert"], False),  # but not begin earlier
        ("He’s at Joe’s.", ["Joe's"], True),
        ("Anything.", [""], False),
        ("她今年九十一岁了。", ["九十一"], True),
        ("您住在Oslo吗？", ["Oslo"], True),  # Latin letters within Chinese begin a word
        ("강아지 이름은 비스킷이에요.", ["비스킷"], True),
    ],
)
def test_an_accepted_answer_is_in_the_reply(text: str, answers: list[str], found: bool):
    assert contains(text, answers) is found


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("You haven't told me your cat's name.", True),
        ("I don't know, you never mentioned it. What is it called?", True),
        ("Sorry, I'm not sure. Tell me!", True),
        ("I don't know, but your cat is called Tom.", False),
        ("I do not have any information about your watch.", True),
        ("I do not have information about your late husband's name.", True),
        ("I have information about your cat.", False),
        ("I have no record of it.", True),
        ("You told me that you live in Oslo.", False),
        ("你没有告诉过我。她叫什么名字？", True),
        ("你没有告诉过我。她叫小红。", False),
        ("그건 들은 적이 없어요.", True),
        ("I have no idea. She is probably a tabby called Mimi.", False),
        ("Your cat is called Tom.", False),
        ("What a lovely day!", False),
    ],
)
def test_a_reply_to_what_was_never_said_says_so_and_invents_nothing(reply: str, right: bool):
    assert invents_nothing(reply, ENGLISH.reading) is right


def test_figures_by_hand(command_line: CommandLine, tmp_path: Path):
    config = scripted_config(tmp_path, generator="You live in Oslo.", summarizer="Lena moved.", extractor="NO_TRAIT")
    ran = command_line(
        "eval", "questions", written(tmp_path, conversation()), "-c", config, "--json", "memory.quotes=80"
    )
    found = json.loads(ran.out)
    assert (ran.code, found["questions"], found["answered"], found["unknown_right"]) == (0, 3, 0.5, 0)
    assert found["lost_ignored"] == 0.5  # the words themselves are quoted
    assert found["by_category"]["where"] == {"questions": 1, "answered": 1.0, "f1": pytest.approx(0.4)}


def test_a_quote_is_an_answer_and_no_invention(command_line: CommandLine, tmp_path: Path):
    config = scripted_config(tmp_path, generator="I don't know.", summarizer="Lena moved.", extractor="NO_TRAIT")
    at = "2026-02-23T18:00:00+00:00"
    asked = [
        {"speaker": "Lena", "text": "Which city did I move to?", "at": at, "answers": ["Oslo"]},
        {"speaker": "Lena", "text": "Which year did I move to Oslo?", "at": at, "answers": []},
        {"speaker": "Lena", "text": "What is my cat called?", "at": at, "answers": []},
    ]
    data = written(tmp_path, conversation(questions=asked))
    found = json.loads(
        command_line("eval", "questions", data, "-c", config, "--json", *CHECKED, "memory.quotes=80").out
    )
    assert {name: found[name] for name in ("answered", "answered_quoting", "unknown_right", "unknown_quoting")} == {
        "answered": 1,
        "answered_quoting": 1,
        "unknown_right": 1,
        "unknown_quoting": 0.5,
    }


def test_where_an_answer_was_lost(command_line: CommandLine, tmp_path: Path):
    config = scripted_config(tmp_path, generator="How nice.", summarizer="Lena talks to Sam.", extractor="NO_TRAIT")
    data = written(tmp_path, conversation())
    places = {
        "not_stored": ["memory.quotes=0"],
        "not_in_prompt": ["memory.quotes=1"],
        "not_recalled": ["memory.gamma=1", "memory.quotes=80"],
    }
    for place, settings in places.items():
        found = json.loads(command_line("eval", "questions", data, "-c", config, "--json", *settings).out)
        assert {name: found[name] for name in found if name.startswith("lost_") and found[name]} == {
            f"lost_{place}": 1.0
        }


@pytest.mark.parametrize("name", ["questions.jsonl", "questions.zh.jsonl"])
def test_the_samples_have_thirty_people_with_eight_questions_each(name: str):
    asked = load_questions(SAMPLES / name)
    assert len(asked) >= 30
    for one in asked:
        said = [turn.text for turn in one.episode.turns if turn.speaker != one.episode.agent]
        assert len(one.questions) == 8
        assert sum(not q.answers for q in one.questions) == 2
        assert all(contains("\n".join(said), q.answers) for q in one.questions if q.answers)


def test_the_sample_of_changes_asks_about_what_holds_and_what_held():
    asked = load_questions(SAMPLES / "changes.jsonl")
    assert len(asked) == 16
    for one in asked:
        told = [turn for turn in one.episode.turns if turn.speaker != one.episode.agent]
        assert any(question.category == "changed" for question in one.questions)
        yes_or_no = ("Who do I live with?", "Do I have a television?")
        for question in one.questions:
            saying = {turn.session for turn in told if contains(turn.text, question.answers)}
            assert saying or question.text in yes_or_no
            if question.category == "changed":
                assert 1 not in saying, question.text  # said only after the change


def test_locomo_has_evidence_and_its_adversarial_questions_no_answers():
    asked = load_questions(SAMPLES / "locomo.json")
    questions = [q for one in asked for q in one.questions]
    assert questions
    assert all((q.category == "adversarial") == (not q.answers) for q in questions)
    turns = asked[0].episode.turns
    assert all(place < len(turns) for q in asked[0].questions for place in q.evidence)


def test_bad_questions_are_named(tmp_path: Path):
    question = {"speaker": "Lena", "text": "Where?", "at": "2026-02-23T18:00:00+00:00"}
    for wrong, message in (
        ({"answer": "Oslo"}, "unknown key 'answer'"),
        ({"at": "2026-01-01T18:00:00+00:00"}, "before the conversation's last utterance"),
        ({"speaker": "Sam"}, "is the agent"),
    ):
        with pytest.raises(DataFileError, match=message):
            load_questions(written(tmp_path, conversation(questions=[question | wrong])))
    with pytest.raises(InputError, match="has no questions"):
        load_questions(written(tmp_path, conversation(questions=[])))
