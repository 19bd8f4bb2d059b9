"""The commands that fill the papers' tables: each makes the run that its cell takes, as published, in a folder of its own."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cli_commands import CommandLine

from ld_agent.config import greedy_config, load_config
from ld_agent.evaluation.run_files import PREDICTIONS
from ld_agent.evaluation.runner import flat
from ld_agent.evaluation.tables import runs as table_runs
from ld_agent.evaluation.tables.arms import CHECKED, FOR_SMALL_MODELS, arm_of, settings_of
from ld_agent.evaluation.tables.paper_figures import (
    Column,
    OurRow,
    PaperTable,
    paper_table,
    paper_tables,
    satisfied,
)
from ld_agent.evaluation.tables.plan import plan, shown
from ld_agent.evaluation.tables.runs import TableRun, collect
from training.settings import load_settings

CORPORA = {"MSC": "msc", "CC": "conversation_chronicles", "CARECALL": "carecall", "UBUNTU_IRC": "ubuntu_irc"}
RUN = re.compile(r"ld-agent (?:eval (?:response|extraction|memory)|ecm run) ")
CONFIGS = ("default", "glm-4-9b", "bart-base", "openai")
OF_RUNS = [name for name in sorted(paper_tables()) if name not in ("rsum-a10", "rsum-a11", "ecm-2", "ecm-7")]


def cells(table: PaperTable, config: str) -> Iterator[tuple[OurRow, Column, list[str]]]:
    """Every cell with its commands."""
    for _, row in table.our_rows:
        for column in table.columns:
            [(_, lines)] = plan(replace(table, rows=(row,), columns=(column,)), [config])
            yield row, column, lines


def option(words: Sequence[str], name: str) -> str:
    return words[words.index(name) + 1]


def run_of(line: str, folder: Path) -> TableRun:
    """The run that a planned command would make, as `tables` sees it."""
    words = shlex.split(line)
    config = greedy_config(option(words, "-c"), [word for word in words if re.match(r"[a-z_.]+=", word)])
    task = words[2] if words[1] == "eval" else f"ecm-{words[3].removesuffix('.jsonl')}"
    header = {
        "format": 1, "task": task, "name": "x", "data": words[3], "data_sha256": "d", "hash": "h",
        "config": config.model_dump(mode="json"),
    }  # fmt: skip
    prediction = {"key": "e/1", "episode": "e", "session": 5, "references": ["a"], "prediction": "a"}
    folder.mkdir(parents=True)
    lines = [{"run": header}, {"started": {"limit": None, "predictions": 1}}, prediction]
    (folder / PREDICTIONS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:  # no corpus is there
        patch.setattr(table_runs, "_corpus", lambda data: CORPORA.get(data.parts[0], "ecm"))
        [run] = collect(folder).runs
    assert isinstance(run, TableRun)
    return run


def unpublished(paper: str, run: TableRun) -> list[str]:
    """The published settings of an arm that a run lacks, but those without effect on it."""
    views, have = run.facts["views"], flat(run.run.header["config"])
    arm = arm_of(views, paper)
    banks = any(have[f"personas.{cap}"] for cap in ("cap", "user_cap", "agent_cap"))
    unused = ["personas.cap" if banks else "personas.", *(f"memory.{view}." for view in CHECKED if view not in views)]
    unused += ["memory.", "topics.", "modules.summarizer."] if views == ["none"] else []
    settings = settings_of(arm) if arm else {}
    relevant = (key for key in settings if key not in FOR_SMALL_MODELS and not key.startswith(tuple(unused)))
    return [key for key in relevant if have.get(key) != settings[key]]


@pytest.mark.parametrize("name", sorted(paper_tables()))
@pytest.mark.parametrize("config", CONFIGS)
def test_every_cell_has_a_command_or_a_reason(name: str, config: str):
    for row, column, lines in cells(paper_table(name), config):
        assert lines, (row.label, column.name)
        for line in lines:
            assert line.startswith(("ld-agent ", "python -m training.", "# ")), line


@pytest.mark.parametrize("name", OF_RUNS)
@pytest.mark.parametrize("config", ["default", "glm-4-9b"])
def test_a_planned_run_fits_its_cell_and_is_the_published_arm(
    name: str, config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for shots in (2, 3):
        example = '{"memory": "Ann rows.", "dialogue": [["Ann", "Hi."]], "reply": "Hello."}\n'
        (tmp_path / f"examples_{config}_{shots}.jsonl").write_text(shots * example)
    table = paper_table(name)
    checked: dict[str, TableRun] = {}
    for row, column, lines in cells(table, config):
        runs = [line for line in lines if RUN.match(line) and "/valid.txt" not in line]
        assert len(runs) == len(column.sides), lines
        for line, side in zip(runs, column.sides, strict=True):
            if line not in checked:
                checked[line] = run_of(line, tmp_path / str(len(checked)))
            run = checked[line]
            conditions = {**row.where, **side}
            assert satisfied(run.facts, conditions), (line, conditions)
            assert unpublished(table.paper, run) == [], line


@pytest.mark.parametrize("config", CONFIGS)
def test_a_folder_has_one_run_whichever_table_needs_it(config: str):
    runs: dict[str, str] = {}
    for table in paper_tables().values():
        for _, lines in plan(table, [config]):
            for line in filter(RUN.match, lines):
                same = re.sub(r"--from-session \d ", "", line)
                assert runs.setdefault(option(shlex.split(line), "--out"), same) == same


def test_tables_of_one_paper_share_their_runs():
    folders = []
    for name in ("rsum-3", "rsum-5", "rsum-7", "rsum-v1-2"):
        lines = [line for _, lines in plan(paper_table(name), ["default"]) for line in lines]
        folders.append({option(line.split(), "--out") for line in filter(RUN.match, lines)})
    [shared] = set.intersection(*folders)
    assert shared.startswith("runs/rsum/default_recursive_msc_")


def test_another_model_gets_the_settings_and_the_prompts_of_the_arm():
    [dense, *_] = dict(plan(paper_table("rsum-3"), ["qwen3-0.6b"]))[
        "Retrieval-based Approach: …-dense (k=3), one encoder"
    ]
    words = shlex.split(dense)
    assert words[words.index("-c") + 1] == "qwen3-0.6b"
    assert {"memory.gamma=-1.0", "memory.quotes=0", "personas.cap=0", "modules.generator.prompting=rsum"} <= set(words)
    assert not any(word.startswith("memory.recursive") for word in words)


def test_one_command_fills_the_columns_of_all_sessions():
    """From the second on (LD-Agent, section 3.2); of Ubuntu IRC, whose dialogues are one session, all is scored."""
    [(_, lines), *_] = plan(paper_table("ld-agent-1"), ["default"])
    assert len(lines) == 1
    assert {"MSC/msc_dialogue/session_5/test.txt", "--from-session"} <= set(lines[0].split())
    assert "--from-session 2" in dict(plan(paper_table("ld-agent-3"), ["default"]))["Tuning (…)"][-1]
    assert "--from-session" not in dict(plan(paper_table("ld-agent-5"), ["default"]))["…"][-1]


def test_a_run_that_examples_are_drawn_from_takes_no_place_of_a_test_run():
    lines = dict(plan(paper_table("rsum-7"), ["default"]))["Two-shot (…)"]
    valid, drawn, run = lines
    assert option(valid.split(), "--out") == option(drawn.split(), "--from") == "valid/default"
    assert option(drawn.split(), "--out") == "examples_default_2.jsonl"
    assert "memory.recursive.examples=examples_default_2.jsonl" in run


def test_systems_are_asked_one_benchmark():
    """Built by each system, it would not be the same for all."""
    lines = [line for _, lines in plan(paper_table("ecm-4"), ["default", "qwen3-0.6b"]) for line in lines]
    assert {option(line.split(), "-c") for line in lines if "ecm build" in line} == {"BUILDER"}
    assert {option(line.split(), "-c") for line in lines if "ecm run" in line} >= {"none", "history", "qwen3-0.6b"}


# ---- adapters


def test_an_adapter_is_tuned_on_the_parts_of_its_row():
    planned = dict(plan(paper_table("ld-agent-2"), ["default"]))
    base = "adapters/default/generator-msc-context"
    for label, part in (("Baseline", "context"), ("+ Mem", "memory"), ("+ Persona [user]", "user"), ("Full", "full")):
        build, *tuned, run = planned[f"{label} (…)"]
        assert f" rows/default/msc-{'full' if part == 'full' else 'context'}.jsonl " in build
        assert f"train_file=rows/default/msc-{part}.jsonl " in tuned[-1]
        assert f"output_dir=adapters/default/generator-msc-{part}" in tuned[-1]
        assert (f" adapter={base} " in tuned[-1]) == (part in ("memory", "user"))  # on top of the baseline
        assert f"modules.generator.adapter=adapters/default/generator-msc-{part}" in run
    assert "endpoint" in dict(plan(paper_table("ld-agent-2"), ["openai"]))["+ Mem (…)"][0]


@pytest.mark.parametrize("config", ["default", "glm-4-9b", "blenderbot-400m", "bart-base", "qwen3-0.6b"])
def test_a_model_is_tuned_with_settings_that_are_its_own(config: str):
    """The settings of the default's modules carry the digest of its file, which another model does not have."""
    model = load_config(config).backbone.model
    tuned = []
    for name in ("ld-agent-1", "ld-agent-3", "ld-agent-5"):
        for _, lines in plan(paper_table(name), [config]):
            for line in (line for line in lines if re.match(r"python -m training\.(?!build|split)", line)):
                words = shlex.split(line)
                settings = load_settings(option(words, "-c"), words[5:])
                assert settings.model == model, line
                assert (settings.sha256 is not None) == (config == "default"), line
                tuned.append(words[2].removeprefix("training."))
    assert set(tuned) == ({"generator"} if config == "default" else {"summarizer", "extractor", "generator"})


def test_replies_with_memories_and_personas_have_a_tuned_summarizer_and_extractor():
    """Zero-shot ones too, as in the paper; an extractor is asked as it was tuned, and one that is not tuned has no adapter."""
    planned = dict(plan(paper_table("ld-agent-1"), ["glm-4-9b"]))
    assert len(planned["MSC, zero-shot: …"]) == 1
    *tuned, run = planned["MSC, zero-shot: …[LDA]"]
    assert [line.split()[2:4] for line in tuned[::2]] == [
        ["training.build", "summarizer"],
        ["training.build", "extractor"],
    ]
    assert "modules.extractor.adapter=adapters/glm-4-9b/extractor modules.extractor.prompting=brief" in run
    assert "modules.extractor.prompting=brief" in tuned[2]
    planned = dict(plan(paper_table("ld-agent-3"), ["glm-4-9b"]))
    assert "extractor.adapter" not in " ".join(planned["CoT (…)"])
    assert "endpoint" in dict(plan(paper_table("ld-agent-3"), ["openai"]))["Tuning (…)"][0]


# ---- how it is printed


def test_one_command_shows_the_table_with_all_rows_that_need_a_name(tmp_path: Path):
    table = paper_table("ld-agent-4")
    words = shlex.split(shown(table, ["default"]))
    rows = [word.rpartition("=") for place, word in enumerate(words) if words[place - 1] == "--row"]
    assert [label for label, _, _ in rows] == [row.label for _, row in table.our_rows if row.adapter_of]
    planned = dict(plan(table, ["default"]))
    for label, _, folder in rows:
        assert planned[label][-1].endswith(f"--out {folder}")
    assert shown(paper_table("rsum-3"), ["default"]) == "ld-agent tables rsum-3 --from runs"
    assert "--row" not in shown(table, ["openai"])


def test_the_printed_plan_is_a_script(command_line: CommandLine):
    """No command occurs twice, because `training.build` refuses a file that exists; names in capitals are explained."""
    for name in ("ld-agent-2", "rsum-4"):
        lines = command_line("tables", name, "--plan").out.splitlines()
        commands = [line for line in lines if line and not line.startswith("#")]
        assert len(set(commands)) == len(commands)
        assert all(shlex.split(line)[0] in ("ld-agent", "python") for line in commands)
        assert lines[0].startswith("# MSC: ")
        assert any(line.startswith(("# JUDGE: ", "# above: python -m training.build generator")) for line in lines)
        assert lines[-1] == f"ld-agent tables {name} --from runs"
