"""What a model makes of a trait and what its speaker says next: the trait as it is now, or nothing."""

import pytest

from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.modules.base import Models
from ld_agent.modules.changed_traits import changed_traits
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
    assert run(changed_traits(models, [(HENS, "The fox got a hen.")]), models.complete) == [now]


def test_each_trait_is_asked_for_with_its_line_alone() -> None:
    model = ScriptedBackbone({"extractor": lambda request: "SAME"})
    models = Models(Config(), model)
    run(changed_traits(models, [(HENS, "The fox got a hen."), ("I row.", "I sold the boat.")]), models.complete)
    asked = [request.messages[-1].content for request in model.requests]
    assert ["hens" in text and "fox" in text for text in asked] == [True, False]
    assert ["row" in text and "boat" in text for text in asked] == [False, True]
