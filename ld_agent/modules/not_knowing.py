"""Whether a reply says that something is not known: "I don't think you've told me that." Pure; in every known language."""

from __future__ import annotations

from ld_agent.languages.rules import Reading

NOT_KNOWING = Reading("not_knowing")


def says_unknown(reply: str) -> bool:
    """Whether a reply says that something is not known."""
    return NOT_KNOWING.search(reply) is not None
