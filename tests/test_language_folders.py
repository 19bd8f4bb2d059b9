"""Languages as folders: what one must hold, what is said where something is missing, and how `auto` tells them apart."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from pathlib import Path

import pytest
import yaml

from ld_agent import Agent, load_config
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.errors import ConfigError
from ld_agent.languages import detected, english_prompts, language, shipped

AT = datetime(2026, 1, 5, tzinfo=UTC)
DECIDES = "memory.conditional.decision=with_reply"


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


# ---- French, the worked example of docs/languages.md: a folder outside the package

FRENCH = str(Path(__file__).parents[1] / "data" / "samples" / "languages" / "fr")


def test_french_names_times_and_lists_are_french():
    french = language(FRENCH)
    assert french.named(["Zoé", "Luc", "Anne"]) == "Zoé, Luc et Anne"
    assert french.ago(AT, AT + timedelta(days=3)) == "il y a 3 jours"
    assert french.prompt("summarizer").render(people="Zoé", lines=[("Zoé", "Salut")], part=0, parts=1)


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("Suffisant : 1, 3", "Enough: 1, 3"),
        ("Suffisant : aucun", "Enough: None"),
        ("Manque : Rome", "Missing: Rome"),
        ("Réponse : Salut !\nÀ retenir : oui", "Reply: Salut !\nRemember: Yes"),
        ("Aucun trait.", "NO_TRAIT"),
        ("Enough: 2", "Enough: 2"),
        ("Je note : rien de neuf.", "Je note : rien de neuf."),
    ],
)
def test_french_answers_are_read_as_english_ones(answer: str, read: str):
    assert language(FRENCH).canonical(answer) == read


def test_a_french_conversation_is_prompted_in_french_and_its_answers_are_understood():
    answers = ScriptedBackbone(
        {
            "generator": "Réponse : Quelle bonne nouvelle !\nÀ retenir : oui",
            "extractor": "Aucun trait.",
            "memory": "Lié : aucune\nSituation : Zoé a un chien.\nNote : Le chien de Zoé s'appelle Biscuit.",
            "summarizer": "Zoé a un chien.",
        }
    )
    config = load_config("conditional", ["store.path=:memory:", f"language={FRENCH}", "agent.user=Zoé", DECIDES])
    with Agent.from_config(config, backbone=answers) as agent:
        talk = agent.conversation("zoé")
        said = talk.respond("J'ai un chien qui s'appelle Biscuit.", at=AT).text
        talk.end_session()
        assert said == "Quelle bonne nouvelle !"
        assert talk.persona("Zoé") == []
        assert [r.text for r in talk.records] == ["Zoé a un chien. Le chien de Zoé s'appelle Biscuit."]
    asked = {request.module: request.messages[0].content for request in answers.requests}
    assert "un ami chaleureux" in asked["generator"]
    assert "Tu es la mémoire de Sam" in asked["memory"]


def test_what_is_said_first_decides_with_auto_and_a_path_is_never_chosen():
    assert detected(["Bonjour, ça va ?"]) == "en"
