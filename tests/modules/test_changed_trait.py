"""What a model makes of a trait and what its speaker says next: the trait as it is now, or nothing."""

import re

import pytest

from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.modules.base import Models
from ld_agent.modules.changed_trait import changed_trait
from ld_agent.steps import run

HENS = "I have three hens."


@pytest.mark.parametrize(
    ("answer", "now"),
    [
        ("I have two hens.", "I have two hens."),
        ('"I have two hens."\n\nNote: I have a dog.', "I have two hens."),
        ("SAME", ""),
        ("SAME.", ""),
        (HENS, ""),
        ("She is a hen.", ""),  # nobody's
        ("I keep llamas.", ""),  # nobody said so
        ("", ""),
    ],
)
def test_an_answer_is_a_trait_that_was_said_or_none(answer: str, now: str) -> None:
    models = Models(Config(), ScriptedBackbone({"extractor": answer or " "}))
    assert run(changed_trait(models, HENS, "The fox got a hen."), models.complete) == now


def test_it_is_asked_for_with_its_line_alone() -> None:
    model = ScriptedBackbone({"extractor": lambda request: "SAME"})
    run(changed_trait(Models(Config(), model), HENS, "The fox got a hen."), model.generate)
    [request] = model.requests
    assert {"hens", "fox"} <= set(re.findall(r"\w+", request.messages[-1].content))
