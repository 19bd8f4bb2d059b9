"""Passages: a few lines of a chat, questions that they answer, and questions near them that they do not.

`data/training/passages.txt` holds them; its header describes the format. Knows no prompt and no model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ld_agent.files import shipped_path

PASSAGES = shipped_path("data/training/passages.txt")


@dataclass(frozen=True, slots=True)
class Told:
    """One block.

    Attributes:
        lines: (speaker, text).
        asked: (asker, question, answer); "": the lines do not say.
    """

    lines: tuple[tuple[str, str], ...]
    asked: tuple[tuple[str, str, str], ...]


def every_passage() -> Iterator[Told]:
    """Every block of the file."""
    lines = [line for line in PASSAGES.read_text("utf-8").splitlines() if not line.startswith("#")]
    for block in "\n".join(lines).split("\n\n"):
        if block.strip():
            yield _told([line for line in block.splitlines() if line.strip()])


def _told(block: list[str]) -> Told:
    parted = [(line[0], *line[2:].partition(": ")[::2]) for line in block]
    asked = [(asker, *text.partition(" = ")[::2]) for kind, asker, text in parted if kind != "P"]
    return Told(
        tuple((speaker, text) for kind, speaker, text in parted if kind == "P"),
        tuple((asker, question, answer) for asker, question, answer in asked),
    )
