"""Runs on disk: saved line by line, resumed, and tied to their configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ld_agent.config import Config, parse_config
from ld_agent.errors import BackboneError, DataFileError, InputError
from ld_agent.evaluation.run_files import Item, Prediction, read_run, runs_under
from ld_agent.evaluation.runner import Task, perform


class Shouting(Task):
    """Predicts a key in capitals; fails after ``most`` predictions."""

    name = "extraction"
    prompts = ("extractor_*.yaml",)

    def __init__(self, episodes: int = 3, most: int = 99) -> None:
        self.items = [
            Item(f"e{n}/{turn}", f"e{n}", turn, ("right",), {"turn": turn}) for n in range(episodes) for turn in (1, 2)
        ]
        self.asked: list[str] = []
        self.most = most

    def settings(self, config: Config) -> Mapping[str, Any]:
        return {"extractor": config.modules.extractor.model_dump(mode="json")}

    def predict(self, config: Config, items: Sequence[Item]) -> Iterator[Prediction]:
        for item in reversed(items):
            if len(self.asked) == self.most:
                raise BackboneError("the endpoint is gone")
            self.asked.append(item.key)
            yield item.predicted(item.key.upper(), {"sure": True})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text("the data\n", encoding="utf-8")
    return path


def missing(out: Path) -> tuple[int, int]:
    """How many predictions are missing, and of how many."""
    run = read_run(out)
    return run.missing, run.wanted


def grounded(value: bool) -> Config:
    return parse_config({"modules": {"extractor": {"grounded": value}}})


def test_a_run_is_returned_in_data_order(tmp_path: Path, data: Path):
    for out in (None, tmp_path / "run"):
        run = perform(Shouting(), Config(), "plain", data=data, out=out, limit=None)
        assert run is not None
        assert [p.text for p in run.predictions] == ["E0/1", "E0/2", "E1/1", "E1/2", "E2/1", "E2/2"]
        assert run.predictions[3].details == {"turn": 2, "sure": True}
        assert (run.name, run.task, run.header["data"]) == ("plain", "extraction", str(data))
    assert runs_under(tmp_path) == [tmp_path / "run"]
    assert missing(tmp_path / "run") == (0, 6)


def test_an_interrupted_run_resumes(tmp_path: Path, data: Path):
    out = tmp_path / "run"
    with pytest.raises(BackboneError):
        perform(Shouting(most=4), Config(), "plain", data=data, out=out, limit=None)
    assert missing(out) == (2, 6)
    with (out / "predictions.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"key": "e0/1", "epis')  # an incomplete last line
    task = Shouting()
    run = perform(task, Config(), "plain", data=data, out=out, limit=None)
    assert task.asked == ["e0/2", "e0/1"]
    assert run is not None
    assert [p.text for p in run.predictions] == [item.key.upper() for item in task.items]
    lines = [json.loads(line) for line in (out / "predictions.jsonl").read_text("utf-8").splitlines()]
    assert list(lines[0]) == ["run"]
    assert lines[-1] == {"finished": {"limit": None, "predictions": 6}}
    again = Shouting()
    assert perform(again, Config(), "plain", data=data, out=out, limit=None) is not None
    assert again.asked == []


def test_a_higher_limit_extends_a_run_and_a_lower_one_reads_a_part(tmp_path: Path, data: Path):
    perform(Shouting(1), Config(), "plain", data=data, out=tmp_path / "run", limit=1)
    more = Shouting(3)
    perform(more, Config(), "plain", data=data, out=tmp_path / "run", limit=3)
    assert len(more.asked) == 4
    fewer = Shouting(2)
    run = perform(fewer, Config(), "plain", data=data, out=tmp_path / "run", limit=2)
    assert run is not None
    assert (len(run.predictions), fewer.asked) == (4, [])


def test_a_lower_limit_finishes_what_a_higher_one_began(tmp_path: Path, data: Path):
    out = tmp_path / "run"
    with pytest.raises(BackboneError):
        perform(Shouting(3, most=5), Config(), "plain", data=data, out=out, limit=3)  # all of e2 and e1, and one of e0
    assert missing(out) == (1, 6)
    for asked in (["e0/1"], []):
        fewer = Shouting(1)
        perform(fewer, Config(), "plain", data=data, out=out, limit=1)
        assert (fewer.asked, missing(out)) == (asked, (0, 2))


def test_another_configuration_is_rejected_with_the_difference(tmp_path: Path, data: Path):
    out = tmp_path / "run"
    perform(Shouting(), grounded(True), "plain", data=data, out=out, limit=None)
    with pytest.raises(InputError, match=r"modules\.extractor\.grounded=True \(now False\).*--overwrite"):
        perform(Shouting(), grounded(False), "plain", data=data, out=out, limit=None)
    # Settings that do not affect the predictions may differ.
    store = Config().store.model_copy(update={"path": "other.db"})
    elsewhere = grounded(True).model_copy(update={"store": store})
    perform(Shouting(), elsewhere, "plain", data=data, out=out, limit=None)
    other = Shouting()
    other.name = "summary"
    with pytest.raises(InputError, match="eval extraction, not eval summary"):
        perform(other, grounded(True), "plain", data=data, out=out, limit=None)
    data.write_text("other data\n", encoding="utf-8")
    with pytest.raises(InputError, match="other data"):
        perform(Shouting(), grounded(True), "plain", data=data, out=out, limit=None)
    task = Shouting()
    perform(task, grounded(False), "plain", data=data, out=out, limit=None, overwrite=True)
    assert len(task.asked) == 6
    assert read_run(out).header["config"]["modules"]["extractor"]["grounded"] is False


@pytest.mark.parametrize("retrained", [".", "asked"])
def test_a_retrained_adapter_is_another_configuration(tmp_path: Path, data: Path, retrained: str):
    adapter = tmp_path / "adapter"
    for part in (".", "asked"):
        (adapter / part).mkdir(parents=True)
        (adapter / part / "adapter_model.safetensors").write_bytes(b"first")
    config = parse_config({"modules": {"extractor": {"adapter": str(adapter)}}})
    perform(Shouting(), config, "plain", data=data, out=tmp_path / "run", limit=None)
    perform(Shouting(), config, "plain", data=data, out=tmp_path / "run", limit=None)
    (adapter / retrained / "adapter_model.safetensors").write_bytes(b"second")
    with pytest.raises(InputError, match="other adapter files or prompts"):
        perform(Shouting(), config, "plain", data=data, out=tmp_path / "run", limit=None)


def test_a_finished_run_has_the_same_bytes_after_any_interruption(tmp_path: Path, data: Path):
    perform(Shouting(), Config(), "plain", data=data, out=tmp_path / "at once", limit=None)
    with pytest.raises(BackboneError):
        perform(Shouting(most=3), Config(), "plain", data=data, out=tmp_path / "resumed", limit=None)
    perform(Shouting(), Config(), "plain", data=data, out=tmp_path / "resumed", limit=None)
    first, second = ((tmp_path / name / "predictions.jsonl").read_bytes() for name in ("at once", "resumed"))
    assert first == second
    keys = [value["key"] for value in map(json.loads, first.splitlines()) if "key" in value]
    assert keys == [item.key for item in Shouting().items]


def test_several_processes_are_sent_to_ray(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match=r"WORLD_SIZE=2.*--on ray"):
        perform(Shouting(), Config(), "plain", data=data, out=tmp_path / "run", limit=None)
    assert not (tmp_path / "run").exists()


def test_invalid_runs_are_rejected(tmp_path: Path, data: Path):
    with pytest.raises(InputError, match="no run in"):
        read_run(tmp_path / "nowhere")
    out = tmp_path / "run"
    perform(Shouting(), Config(), "plain", data=data, out=out, limit=None)
    lines = (out / "predictions.jsonl").read_text("utf-8").splitlines()
    lines[2] = json.dumps(json.loads(lines[2]) | {"references": []})
    (out / "predictions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(DataFileError, match=r"predictions\.jsonl, line 3: not a prediction.*no reference"):
        read_run(out)
    (out / "predictions.jsonl").write_text("{}\nnot json\n", encoding="utf-8")
    with pytest.raises(DataFileError, match="line 2: invalid JSON"):
        read_run(out)
