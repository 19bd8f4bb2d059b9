"""Languages as folders: what one must hold, what is said where something is missing, and how `auto` tells them apart."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path

import pytest
import yaml

from ld_agent import load_config
from ld_agent.errors import ConfigError
from ld_agent.languages import detected, english_prompts, language, shipped


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the English folder, to be damaged."""
    with as_file(files("ld_agent.languages").joinpath("en")) as english:
        return Path(shutil.copytree(english, tmp_path / "mine"))


def test_a_folder_is_a_language(folder: Path):
    words = yaml.safe_load((folder / "words.yaml").read_text("utf-8")) | {"nobody": "no one"}
    (folder / "words.yaml").write_text(yaml.safe_dump(words, allow_unicode=True), "utf-8")
    assert language(str(folder)).named(()) == "no one"


def test_a_missing_key_is_named_with_its_file(folder: Path):
    words = yaml.safe_load((folder / "words.yaml").read_text("utf-8"))
    del words["opening"]
    (folder / "words.yaml").write_text(yaml.safe_dump(words), "utf-8")
    with pytest.raises(ConfigError, match=r"words\.yaml: opening: field required"):
        language(str(folder))


def test_a_missing_prompt_is_named(folder: Path):
    (folder / "prompts" / "summarizer.yaml").unlink()
    with pytest.raises(ConfigError, match=r"lacks summarizer\.yaml"):
        language(str(folder))


def test_an_unknown_language_is_refused_with_those_there_are():
    with pytest.raises(ConfigError, match=r"language='xx' is neither a folder nor one of: .*en.*auto"):
        language("xx")


@pytest.mark.parametrize("code", shipped())
def test_a_shipped_language_is_complete(code: str):
    for name in english_prompts():
        assert language(code).prompt(name.removesuffix(".yaml"))


def test_text_without_letters_tells_no_language():
    assert detected(["123", "🙂"]) is None
    assert detected(["Hello, 😀"]) == "en"


def test_english_is_the_default():
    assert load_config().language == "en"
