"""The adapters that ship: whole, small, made for the embedded base, and better than nothing at what they are for."""

import json
from collections.abc import Iterator, Sequence

import pytest
from safetensors import safe_open

from ld_agent import Agent
from ld_agent.backbones.base import Completion, Request
from ld_agent.backbones.weights import file_sha256, resolve_model
from ld_agent.config import Config, load_config
from ld_agent.config.sections import MINILM, SMOLLM2
from ld_agent.files import shipped_path
from ld_agent.modules.base import Models
from ld_agent.modules.extractor import Extractor

NAMES = ("summarizer", "extractor", "generator", "generator/asked", "memory")
FOLDER = shipped_path("data/adapters")


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    opened = Models(load_config())
    yield opened
    opened.close()


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_is_of_the_embedded_base_in_half_precision_and_has_a_card(name: str):
    config = json.loads((FOLDER / name / "adapter_config.json").read_text("utf-8"))
    assert config["base_model_name_or_path"] == SMOLLM2 == Config().backbone.model
    with safe_open(FOLDER / name / "adapter_model.safetensors", "pt") as weights:
        assert {str(weights.get_slice(key).get_dtype()) for key in weights.keys()} <= {"F16", "BF16"}  # noqa: SIM118
    card = (FOLDER / name / "README.md").read_text("utf-8")
    for part in ("sha256", "corpus", f"python -m training.{name.partition('/')[0]}", "learning_rate"):
        assert part in card, part
    assert "validation loss" in card or "## Measured" in card
    assert "/root" not in card
    assert "/tmp" not in card


def test_together_they_are_small():
    sizes = {folder.name: sum(path.stat().st_size for path in folder.rglob("*")) for folder in FOLDER.iterdir()}
    assert sizes.pop("check") < 6e6  # of the encoder of texts
    assert sum(sizes.values()) < 40e6


def test_the_check_names_its_base_as_everybody_has_it():
    config = json.loads((FOLDER / "check" / "adapter_config.json").read_text("utf-8"))
    assert config["base_model_name_or_path"] == MINILM


def test_the_cards_name_the_weights_that_the_package_holds():
    from ld_agent.backbones.weights import _path_in_package

    digest = file_sha256(_path_in_package(SMOLLM2))
    assert all(digest in (FOLDER / name / "README.md").read_text("utf-8") for name in NAMES)
    assert resolve_model(SMOLLM2)


def test_the_tuned_extractor_finds_traits_and_leaves_small_talk_alone(models: Models):
    settings = load_config().modules.extractor
    extractor = Extractor(models, settings.prompting, settings.grounded)
    [about, chat, question] = extractor.extract(
        ["I work as a nurse and I have two dogs.", "Hello! How are you today?", "What do you do for a living?"]
    )
    assert any("nurse" in trait for trait in about)
    assert any("dogs" in trait for trait in about)
    assert chat == question == ()


def test_what_only_the_memory_can_answer_goes_to_the_part_of_the_generator_tuned_for_that(
    monkeypatch: pytest.MonkeyPatch,
):
    with Agent(load_config(overrides=["store.path=':memory:'"])) as agent:
        asked = list[str | None]()
        backbone = agent.models.backbone("generator")
        answer = backbone.generate

        def noted(requests: Sequence[Request]) -> list[Completion]:
            asked.extend(request.adapter for request in requests if request.module == "generator")
            return answer(requests)

        monkeypatch.setattr(backbone, "generate", noted)
        maya = agent.conversation("maya")
        maya.respond("We had soup for lunch.", speaker="Maya")
        maya.respond("What is my mother's name?", speaker="Maya")
    assert asked == ["generator", "generator/asked"]
