"""Whether a reply says that something is not known: "I don't think you've told me that." Pure; in every shipped language."""

from __future__ import annotations

import re
from functools import cache

from ld_agent.languages import language, shipped

_ENGLISH = re.compile(
    r"\b(?:(?:do(?:n['’]t| not)|did(?:n['’]t| not)|can(?:['’]t|not)|could(?:n['’]t| not)) (?:\w+ ){0,2}"
    r"(?:know|recall|remember|think you)"
    r"|(?:have|has|had)(?:n['’]t| not) (?:\w+ ){0,2}(?:told|said|mentioned|shared|talked|spoken)"
    r"|never (?:\w+ )?(?:told|said|mentioned|shared|spoke|talked)|did(?:n['’]t| not) (?:\w+ )?(?:tell|say|mention|share)"
    r"|no idea|not (?:sure|certain|aware)"
    r"|(?:no|not have|n['’]t have|not have any|n['’]t have any) (?:information|record|memory)"
    r"|(?:isn['’]t|not) (?:\w+ )?mentioned|unknown|unsure)\b",
    re.IGNORECASE,
)


def says_unknown(reply: str) -> bool:
    """Whether a reply says that something is not known."""
    return _ENGLISH.search(reply) is not None or any(phrase in reply for phrase in _elsewhere())


@cache
def _elsewhere() -> tuple[str, ...]:
    """How other languages than English say that something is not known."""
    return tuple(phrase for code in shipped() for phrase in language(code).words.not_knowing)
