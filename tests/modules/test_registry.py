"""The table of tuned modules: everything it names is there, and one entry is all that another module needs."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

import pytest
import typer

from ld_agent.backbones.base import Message
from ld_agent.config.sections import ModulesSection
from ld_agent.files import shipped_path
from ld_agent.modules.registry import TUNED, TunedModule
from training.build import build
from training.rows import BuildRequest, read_rows, row_values


@pytest.mark.parametrize("entry", TUNED.values(), ids=lambda entry: entry.name)
def test_what_an_entry_names_is_there(entry: TunedModule):
    assert entry.name in ModulesSection.model_fields
    assert callable(resolve_name(entry.rows))
    prompts = [Path(file.name) for file in files("ld_agent.languages").joinpath("en", "prompts").iterdir()]
    assert all(any(file.match(pattern) for file in prompts) for pattern in entry.prompts)
    assert shipped_path(f"configs/training/{entry.name}.yaml").is_file()


def decisions(request: BuildRequest) -> Iterator[dict[str, Any]]:
    prompt = (Message("user", f"Is {request.sources[0].name} worth remembering?"),)
    yield row_values(prompt, "no", corpus="own", episode="one", session=1, turn=1)


def test_one_entry_is_all_that_another_module_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The next one is tuned on the decisions of conditional memory."""
    memory = TunedModule(
        "memory",
        purpose="decides what is worth remembering",
        prompts=("conditional_*.yaml",),
        rows=f"{__name__}:decisions",
    )
    monkeypatch.setitem(cast(dict[str, TunedModule], TUNED), "memory", memory)
    build("memory", [tmp_path / "tea"], tmp_path / "rows.jsonl")
    [row] = read_rows(tmp_path / "rows.jsonl")
    assert (row.prompt[0].content, row.target) == ("Is tea worth remembering?", "no")
    with pytest.raises(typer.BadParameter, match="--longest is for the summarizer, not for the memory"):
        build("memory", [tmp_path / "tea"], tmp_path / "more.jsonl", longest=2)
