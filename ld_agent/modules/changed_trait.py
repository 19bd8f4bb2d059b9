"""What becomes of a trait when its speaker says something about it: "I have two grandchildren." and then "Our third was born!".

The ``extractor`` module of a model that follows instructions is asked for one trait and one line; `ld_agent.checks.kept.changed`
says what of its answers is believed.
"""

from __future__ import annotations

from ld_agent.modules.base import Models
from ld_agent.modules.extractor import FIRST_PERSON, parse_traits
from ld_agent.steps import Steps

LONGEST_LINE = 400
"""Characters of a line that may change a trait: what changes one is said in a few words."""


def changed_trait(models: Models, trait: str, text: str) -> Steps[str]:
    """A trait as it is after a line of its speaker, as steps; "" if it stays as it is.

    Raises:
        BackboneError: the model failed to answer.
    """
    prompt = models.language.prompt("extractor_change")
    messages = prompt.render(trait=trait, text=text)
    [completion] = yield [models.request("extractor", messages, constant_messages=prompt.constant_messages)]
    written = parse_traits(completion.text, f"{trait} {text}", models.language.reading)
    new = next((one for one in written if FIRST_PERSON.match(one)), "")
    return new if new != trait else ""
