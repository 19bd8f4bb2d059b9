"""The page for people's ratings: blind, without a network, kept and exported; and kappas worked by hand."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_commands import CommandLine, conversation_line, light_config, scripted_config

from ld_agent.datasets.base import Episode, Turn
from ld_agent.errors import DataFileError, InputError
from ld_agent.evaluation.judging.agreement import cohen, fleiss, read_ratings
from ld_agent.evaluation.judging.form import read_key, summary, systems_of, write_form
from ld_agent.evaluation.judging.form_items import BREAK, shown
from ld_agent.evaluation.judging.judge import Case
from ld_agent.evaluation.tasks.ecm import ASSISTANT, USER, sample, write_samples

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CASES = [
    Case(f"e/{n}", {"alpha-system": f"Yes {n}. </script>", "beta-system": f"No {n}."}, lines=(("Ann", "Hello?"),))
    for n in range(3)
]


def line(annotator: str, item: str, value: int, aspect: str = "fluency", form: str = "f") -> str:
    return json.dumps({"form": form, "annotator": annotator, "item": item, "aspect": aspect, "value": value}) + "\n"


def test_the_page_names_no_system_and_nothing_elsewhere(tmp_path: Path):
    key = write_form(CASES, "chat", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert not re.search(r"https?:|alpha-system|beta-system", page)
    assert {about["system"] for about in json.loads(key.read_text())["items"].values()} == {
        "alpha-system",
        "beta-system",
    }
    write_form(CASES, "chat", tmp_path / "same.html")
    assert (tmp_path / "same.html").read_text() == page
    write_form(CASES, "chat", tmp_path / "other.html", seed=1)
    assert (tmp_path / "other.html").read_text() != page


def test_kappas_by_hand():
    assert cohen([(0, 0), (1, 1), (0, 1), (1, 1)]) == pytest.approx(0.5)
    assert fleiss([[0, 0, 0], [1, 1, 1], [0, 1, 1]]) == pytest.approx(0.55)
    assert cohen([(1, 1)]) is None
    assert fleiss([[1, 1]]) is None


def test_a_sample_is_qualified_if_both_answers_are_yes(tmp_path: Path):
    rows = [("1", 1, 1), ("2", 1, 0)]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(line("a", i, r, "related") + line("a", i, p, "appropriate") for i, r, p in rows))
    _, ratings = read_ratings([path])
    result = summary(ratings, {"1": "x", "2": "y"})
    assert result["all"]["qualified"] == 50
    assert [result["systems"][name]["qualified"] for name in "xy"] == [100, 0]


@pytest.mark.parametrize(
    "second", [line("a", "1", 1), line("b", "1", 1, form="g"), line("b", "1", 1).replace("1}", "null}")]
)
def test_a_rating_that_cannot_be_used_is_refused(tmp_path: Path, second: str):
    (tmp_path / "r.jsonl").write_text(line("a", "1", 1) + second)
    with pytest.raises(DataFileError):
        read_ratings([tmp_path / "r.jsonl"])


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_ratings_by_keyboard_survive_a_reload_and_are_exported(tmp_path: Path):
    sync_api = pytest.importorskip("playwright.sync_api")
    key = write_form(CASES, "chat", tmp_path / "page.html")
    problems: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 375, "height": 740}, color_scheme="dark")
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else problems.append(r.url))
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: problems.append(str(e)))
        page.goto((tmp_path / "page.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_label("Your name").fill("Ann")
        for aspect in ("coherence", "fluency", "engagingness"):
            page.locator(f"input[name={aspect}]").first.focus()
            page.keyboard.press("ArrowRight")
        page.get_by_role("button", name="Next").press("Enter")
        page.get_by_text("Item 2 of 6").wait_for()
        for _ in range(20):  # Chromium writes to its storage a moment later
            page.reload()
            if (place := page.locator("#place").inner_text()) == "Item 2 of 6":
                break
        assert place == "Item 2 of 6"
        with page.expect_download() as download:
            page.get_by_role("button", name="Export ratings").press("Enter")
        download.value.save_as(tmp_path / "ann.jsonl")
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        browser.close()
    assert problems == []
    form, ratings = read_ratings([tmp_path / "ann.jsonl"])
    assert {aspect: dict(items) for aspect, items in ratings.items()} == {
        aspect: {"1": {"Ann": 1}} for aspect in ("coherence", "fluency", "engagingness")
    }
    assert len(systems_of(read_key(key, form, ratings))) == 6


# ---- from data to the tables, by command


def rated(path: Path, key: Path, annotator: str, aspects: dict[str, list[int]]) -> Path:
    """Ratings as the page exports them, the items in order."""
    about = json.loads(key.read_text())
    by_key = {item["key"]: number for number, item in about["items"].items()}
    rows = [
        line(annotator, by_key[name], value, aspect, about["form"])
        for aspect, values in aspects.items()
        for name, value in zip(sorted(by_key), values, strict=True)
    ]
    path.write_text("".join(rows))
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Five sessions of Multi-Session Chat's form."""
    said = [{"text": f"Line {n}.", "id": f"Speaker {n % 2 + 1}"} for n in range(4)]
    earlier = {
        "personas": [["I row."], ["I bake."]],
        "dialog": said,
        "time_num": 5,
        "time_unit": "days",
        "time_back": "5 days ago",
    }
    value = {"personas": [["I row."], ["I bake."]], "dialog": said, "previous_dialogs": [earlier] * 4}
    value |= {"metadata": {"initial_data_id": "test_0", "session_id": 4}}
    (tmp_path / "test.txt").write_text(json.dumps(value) + "\n")
    return tmp_path / "test.txt"


def test_three_people_rate_a_benchmark_and_table_7_is_filled(tmp_path: Path, command_line: CommandLine):
    at = datetime(2024, 5, 1, tzinfo=UTC)
    source = Episode("a", ASSISTANT, (Turn(USER, "I row.", at, 1), Turn(ASSISTANT, "Where?", at, 1)))
    probes = [(f"Question {n}?", f"Reference {n}.") for n in range(3)]
    write_samples(tmp_path / "knowledge.jsonl", "knowledge", [sample(source, probes)], {})
    page, key = tmp_path / "page.html", tmp_path / "page.key.json"
    assert (
        command_line("judge", "form", tmp_path / "knowledge.jsonl", "--questions", "benchmark", "--out", page).code == 0
    )
    for expected in ("I row.", "Question 2?", "Reference 2."):
        assert expected in page.read_text()
    # qualified (both yes) by sample: 0 0 0 / 1 1 1 / 0 1 1, whose Fleiss kappa is 0.55
    people = {"ann": ([0, 1, 1], [1, 1, 0]), "bob": ([0, 1, 1], [0, 1, 1]), "cyd": ([1, 1, 1], [0, 1, 1])}
    files = [
        rated(tmp_path / f"{name}.jsonl", key, name, {"related": one, "appropriate": two})
        for name, (one, two) in people.items()
    ]
    assert "--keep needs --key" in command_line("judge", "agree", *files, "--keep").err
    assert command_line("judge", "agree", *files, "--key", key, "--keep").code == 0
    table = command_line("tables", "ecm-7", "--from", tmp_path).out
    assert re.search(r"ours: Learning New Knowledge .*\*\* \| \*\*55\.56%\*\* \| \*\*0\.55\*\*", table), table
    assert "3 samples by 3 people" in table


def test_people_rate_replies_and_their_columns_of_table_3_are_filled(
    tmp_path: Path, corpus: Path, command_line: CommandLine
):
    config = scripted_config(tmp_path)
    run = tmp_path / "runs" / "none"
    arm = ("memory.views=[none]", "personas.cap=0", "modules.generator.grounded=false", "-c", config)
    assert (
        command_line("eval", "response", corpus, *arm, "--out", run, "--no-perplexity", "--from-session", "5").code == 0
    )
    page, key = tmp_path / "page.html", tmp_path / "page.key.json"
    assert command_line("judge", "form", run, "--questions", "recursive", "--out", page).code == 0
    one = rated(tmp_path / "a.jsonl", key, "ann", {"engagingness": [2, 2], "coherence": [0, 0], "consistency": [1, 1]})
    two = rated(tmp_path / "b.jsonl", key, "bob", {"engagingness": [1, 1], "coherence": [0, 0], "consistency": [1, 1]})
    assert command_line("judge", "agree", one, two, "--key", key, "--keep").code == 0
    filled = command_line(
        "tables", "rsum-3", "--from", tmp_path / "runs", "--row", f"{{backbone}}, full history={run}"
    ).out
    assert "| **1.50** | **0.00** | **1.00** |" in filled
    assert "2 people, 2 cases" in filled


def test_errors_in_a_memory_by_judge_and_by_people_fill_table_6(
    tmp_path: Path, corpus: Path, command_line: CommandLine
):
    answers = ["0", "1", "2", "3", "0", "?"]
    memory = ["I row. I bake. I sing. I swim. I fly. I ski."] * 9
    config = scripted_config(tmp_path, memory=memory, judge=answers)
    run = tmp_path / "runs" / "recursive"
    asked = ("memory.views=[recursive]", "memory.recursive.checked=false", "-c", config, "--out", run)
    assert command_line("eval", "memory", corpus, *asked).code == 0
    judged = json.loads(command_line("judge", "errors", run, "-c", config, "--json").out)
    shares = {name: judged[name] for name in ("right", "fabricated", "relationship", "missing", "unparsed")}
    assert shares == {"right": 0.4, "fabricated": 0.2, "relationship": 0.2, "missing": 0.2, "unparsed": 1}
    page, key = tmp_path / "page.html", tmp_path / "page.key.json"
    assert command_line("judge", "form", run, "--questions", "memory", "--out", page).code == 0
    ratings = rated(tmp_path / "a.jsonl", key, "ann", {"error": [0, 0, 1, 0, 0, 3]})
    assert command_line("judge", "agree", ratings, "--key", key, "--keep").code == 0
    table = command_line("tables", "rsum-6", "--from", tmp_path / "runs").out
    figures = " | ".join(f"**{figure}**" for figure in ("16.67%", "0.00%", "16.67%", "20.00%", "20.00%", "20.00%"))
    assert figures in table, table
    assert "| **" in command_line("tables", "rsum-memory", "--from", tmp_path / "runs").out


def test_a_chat_is_rated_whole(tmp_path: Path, corpus: Path, command_line: CommandLine):
    config = scripted_config(tmp_path)
    run = tmp_path / "run"
    assert command_line("eval", "response", corpus, "-c", config, "--out", run, "--no-perplexity").code == 0
    [item], _ = shown([run], "chat")
    assert [*item.candidates.values()] == [""]
    page, key = tmp_path / "page.html", tmp_path / "page.key.json"
    assert command_line("judge", "form", run, "--out", page).code == 0
    aspects = {"coherence": [2], "fluency": [2], "engagingness": [2]}
    ratings = rated(tmp_path / "a.jsonl", key, "ann", aspects)
    [means] = json.loads(command_line("judge", "agree", ratings, "--key", key, "--json").out)["systems"].values()
    assert means == {"coherence": 2.0, "fluency": 2.0, "engagingness": 2.0}
    assert "no table has ratings of 'chat'" in command_line("judge", "agree", ratings, "--key", key, "--keep").err
    assert item.lines.count(BREAK) == 4
    assert [text for speaker, text in item.lines if speaker == "Speaker 2"] == ["How nice."] * 10
    played = tmp_path / "sam.jsonl"
    (tmp_path / "c.jsonl").write_text(conversation_line("c1"))
    assert command_line("run", tmp_path / "c.jsonl", "-c", config, "--out", played).code == 0
    [item] = shown([played], "chat")[0]
    assert ([*item.candidates], item.lines[1], item.lines.count(BREAK)) == (["sam"], ("Agent", "How nice."), 1)
    with pytest.raises(InputError, match="takes one file of ld-agent ecm build"):
        shown([run], "benchmark")


@pytest.mark.parametrize("stored", ["folders", "files"])
def test_which_of_two_runs_is_preferred_blind(tmp_path: Path, corpus: Path, command_line: CommandLine, stored: str):
    (tmp_path / "c.jsonl").write_text(conversation_line("c1", turns=4) + conversation_line("c2", turns=4))
    how = ("run", tmp_path / "c.jsonl") if stored == "files" else ("eval", "response", corpus, "--no-perplexity")
    replies = {"scripted-0": "How nice.", "scripted-1": "Tell me more."}
    runs = [tmp_path / f"{name}.jsonl" for name in replies]
    configs = [light_config(tmp_path, generator=reply) for reply in replies.values()]
    for run, config in zip(runs, configs, strict=True):
        assert command_line(*how, "-c", config, "memory.views=[none]", "personas.cap=0", "--out", run).code == 0
    page, key = tmp_path / "page.html", tmp_path / "page.key.json"
    assert "takes two runs" in command_line("judge", "form", runs[0], "--questions", "pairs", "--out", page).err
    assert command_line("judge", "form", *runs, "--questions", "pairs", "--out", page).code == 0
    assert not re.search(r"https?:|scripted-", page.read_text())
    shown = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])
    sides = {item: about["system"] for item, about in json.loads(key.read_text())["items"].items()}
    assert [item["reply"] for item in shown["items"]] == [[replies[name] for name in names] for names in sides.values()]
    assert {left for left, _ in sides.values()} == {*replies}
    # the first pair makes no difference, in the second the one run is better, in all others the other
    wanted = ["no difference", "scripted-1", *["scripted-0"] * (len(sides) - 2)]
    chosen = [(names[0], "no difference", names[1]).index(of) for names, of in zip(sides.values(), wanted, strict=True)]
    rows = [line("ann", item, value, "preferred", shown["form"]) for item, value in zip(sides, chosen, strict=True)]
    rows += [line("ann", item, int(n < 2), "memory", shown["form"]) for n, item in enumerate(sides)]
    (tmp_path / "r.jsonl").write_text("".join(rows))
    result = json.loads(command_line("judge", "agree", tmp_path / "r.jsonl", "--key", key, "--json").out)
    counts = {name: about["count"] for name, about in result["preferred"].items()}
    assert counts == {"scripted-0": len(sides) - 2, "scripted-1": 1, "no difference": 1}
    assert [about["count"] for about in result["preferred where memory helps"].values()] == [0, 1, 1]
    better = result["preferred"]["scripted-0"]
    assert better["share"] == pytest.approx(1 - 2 / len(sides))
    low, high = better["interval"]
    assert low < better["share"] < high
    assert result["intervals_over"] == ("conversations" if stored == "files" else "pairs")
    (tmp_path / "r.jsonl").write_text(line("ann", "999", 1, "preferred", shown["form"]))
    assert "has no item '999'" in command_line("judge", "agree", tmp_path / "r.jsonl", "--key", key).err
