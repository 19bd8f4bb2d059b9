"""The example package of the docs: what a config and a command name as ``module:Name`` works without a change here."""

import json
import os
from pathlib import Path

import pytest
from cli_commands import light_config, run_real

from ld_agent.config import load_config
from ld_agent.errors import ConfigError
from ld_agent.memory.scoring import scorer
from ld_agent.memory.views import VIEWS, check_views, view_class

EXAMPLE = Path(__file__).parent.parent / "docs" / "example"
DAYS = {
    "2024-05-01": ["I promise to water your bees on Sunday.", "Thank you!", "I row.", "Nice."],
    "2024-05-09": ["What did I promise about the bees?", "To water them."],
}
OWN = [
    "memory.views=[events, ld_agent_example:PromisesView]",
    "memory.scorer=ld_agent_example:NEWEST",
    "encoder.model=ld_agent_example:LettersEncoder",
]


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    path = tmp_path / "diary.jsonl"
    path.write_text(json.dumps({"diary": "Ann", "days": DAYS}) + "\n", encoding="utf-8")
    return path


def test_a_view_a_scorer_an_encoder_and_a_dataset_of_ones_own(tmp_path: Path, diary: Path):
    env = {"PYTHONPATH": f"{EXAMPLE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    config = light_config(tmp_path)
    arguments = [diary, "--format", "ld_agent_example:DIARY", "-c", config, *OWN]
    ran = run_real("run", *arguments, "--store", tmp_path / "d.db", env=env, cwd=tmp_path)
    assert (ran.code, ran.err.count("Error")) == (0, 0), ran.err
    promised, event = sorted(ran.lines[-1]["recalled"], key=lambda record: record["view"], reverse=True)
    assert (promised["view"], promised["text"]) == ("promises", DAYS["2024-05-01"][0])
    assert event["score"] == pytest.approx(event["decay"] * (1 + event["s_sem"]))
    asked = ["memory", "search", "bees", "--store", tmp_path / "d.db", "-c", config, *OWN, "--json"]
    found = run_real(*asked, env=env, cwd=tmp_path)
    assert {record["view"] for record in json.loads(found.out)} == {"events", "promises"}, found.err


def test_an_installed_format_is_recognised_and_a_metric_is_reported(tmp_path: Path, diary: Path):
    installed = tmp_path / "site" / "ld_agent_example-0.1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Name: ld-agent-example\nVersion: 0.1\n")
    (installed / "entry_points.txt").write_text("[ld_agent.datasets]\ndiary = ld_agent_example:DIARY\n")
    folders = [str(installed.parent), str(EXAMPLE), os.environ.get("PYTHONPATH", "")]
    env, config = {"PYTHONPATH": os.pathsep.join(folders)}, light_config(tmp_path, generator="I do not know that.")
    metric = ["--metric", "ld_agent_example:words"]
    ran = run_real("eval", "response", diary, "-c", config, *metric, "--json", env=env, cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["words"] == 5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "nowhere.module:View",
            "memory.views='nowhere.module:View': No module named 'nowhere'; install its package, or",
        ),
        ("ld_agent.types:Viw", "memory.views='ld_agent.types:Viw': module 'ld_agent.types' has no attribute 'Viw'"),
        ("ld_agent.types:Utterance", "and has to be a subclass of ld_agent.memory.views.View"),
        ("ld_agent/memory:View", "is unknown; known views: events, "),
    ],
)
def test_what_cannot_be_named_is_refused_at_once(name: str, message: str):
    with pytest.raises(ConfigError) as raised:
        check_views([name])
    assert message in str(raised.value)


def test_a_view_with_the_name_of_another_is_refused(monkeypatch: pytest.MonkeyPatch):
    from ld_agent.memory.views import events

    impostor = type("Impostor", (events.EventView,), {})
    monkeypatch.setattr(events, "Impostor", impostor, raising=False)
    with pytest.raises(ConfigError, match="has the name of another view, 'events'"):
        view_class("ld_agent.memory.views.events:Impostor")
    assert VIEWS["events"] is events.EventView


def test_a_scorer_has_to_be_one():
    load_config("default", ["memory.scorer=ld_agent.types:Utterance"])  # a config names; who builds an agent imports
    with pytest.raises(ConfigError, match="has to be a ld_agent"):
        scorer("ld_agent.types:Utterance")
