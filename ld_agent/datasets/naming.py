"""Replace DialogSum's speaker tags ("#Person1#") with first names, in dialogues and summaries.

The agent's sessions have names, so a summarizer must not be tuned on tags. The names are gender-neutral because the
summaries use "he" and "she".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from ld_agent.datasets.dialogsum import Dialogue
from ld_agent.types import Session, Utterance

TAG = re.compile(r"#Person(\d+)#")
NAMES = (
    "Alex Andy Ashley Avery Bailey Cameron Casey Charlie Chris Dana Drew Eden Elliot Emery Finley Frankie Harper Hayden "
    "Jamie Jesse Jordan Jules Kai Kelly Kendall Kim Lane Lee Leslie Logan Morgan Nico Noel Parker Pat Quinn Reese Riley "
    "River Robin Rowan Sage Sam Sasha Shannon Sidney Skyler Taylor Terry Tracy"
).split()


def free_names(dialogue_id: str, texts: Iterable[str]) -> list[str]:
    """Return the names that occur in no text, in an order that depends only on the dialogue's id."""
    taken = {word.casefold() for text in texts for word in re.findall(r"\w+", text)}
    free = [n for n in NAMES if n.casefold() not in taken] or NAMES
    return sorted(free, key=lambda n: hashlib.sha256(f"{dialogue_id} {n}".encode()).digest())


def named_dialogue(dialogue: Dialogue) -> tuple[Session, tuple[str, ...]]:
    """Return a dialogue as a session of named speakers, and its summaries with the same names.

    The names depend only on the dialogue's id and exclude those already in its text.
    """
    texts = [*(turn.text for turn in dialogue.turns), *dialogue.summaries]
    free = free_names(dialogue.id, texts)
    names: dict[str, str] = {}

    def name(number: str) -> str:
        return names.setdefault(number, free[len(names) % len(free)])

    def renamed(text: str) -> str:
        return TAG.sub(lambda match: name(match[1]), text)

    utterances = tuple(
        Utterance(f"u{n}", renamed(turn.speaker), renamed(turn.text), turn.at, 1)
        for n, turn in enumerate(dialogue.turns, 1)
    )
    return Session(1, utterances), tuple(renamed(summary) for summary in dialogue.summaries)
