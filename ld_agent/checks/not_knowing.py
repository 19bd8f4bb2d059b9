"""Whether a reply says that something is not known: "I don't think you've told me that." Pure."""

from __future__ import annotations

from ld_agent.languages.reading import Reading


def says_unknown(reply: str, reading: Reading) -> bool:
    """Whether a reply says that something is not known."""
    return reading.pattern("not_knowing").search(reply) is not None
