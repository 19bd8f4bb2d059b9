"""What becomes of a trait when its speaker says something about it: "I have two grandchildren." and then "Our third was born!".

The ``extractor`` module of a model that follows instructions is asked for one trait and one line; `ld_agent.checks.kept.changed`
says what of its answers is believed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ld_agent.modules.base import Models
from ld_agent.modules.extractor import FIRST_PERSON, parse_traits
from ld_agent.steps import Steps

LONGEST_LINE = 400
"""Characters of a line that may change a trait: what changes one is said in a few words."""


def changed_traits(models: Models, told: Sequence[tuple[str, str]]) -> Steps[list[str]]:
    """The traits as they are after what was said next, as steps.

    Args:
        told: (n,) a trait and a line of its speaker.

    Returns:
        (n,) the new traits; "" for one that stays as it is.

    Raises:
        BackboneError: the model failed to answer.
    """
    prompt = models.language.prompt("extractor_change")
    constant = prompt.constant_messages
    completions = yield [
        models.request("extractor", prompt.render(trait=trait, text=text), constant_messages=constant)
        for trait, text in told
    ]
    written = [
        parse_traits(completion.text, f"{trait} {text}", models.language.reading)
        for completion, (trait, text) in zip(completions, told, strict=True)
    ]
    firsts = [next((new for new in found if FIRST_PERSON.match(new)), "") for found in written]
    return [new if new != trait else "" for new, (trait, _) in zip(firsts, told, strict=True)]
