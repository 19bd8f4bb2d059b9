"""Ordinary replies among rows that need memory: a session's replies as targets of one prompt, and replies with a decision.

Knows rows as `training.build` writes them; no model and no prompt but the one that asks for a decision.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ld_agent.datasets import load_annotated_utterances
from ld_agent.languages import ENGLISH

Row = dict[str, Any]


def folded(rows: Iterable[Row]) -> list[Row]:
    """One row a session: its last prompt, with the earlier replies in it as further targets.

    Read once, it teaches as much as the rows of all its replies, since these share all but what is recalled.
    """
    last: dict[tuple[str, int], Row] = {}
    for row in rows:
        key = (row["episode"], row["session"])
        if key not in last or row["turn"] > last[key]["turn"]:
            last[key] = row
    return [row | {"further": sum(m["role"] == "assistant" for m in row["messages"][:-1])} for row in last.values()]


def deciding(rows: Sequence[Row], telling: Mapping[str, bool], count: int, rng: random.Random) -> list[Row]:
    """Replies that also say whether what they answer is worth remembering, half of them "yes" where there are enough.

    Args:
        telling: by utterance, whether it reveals something lasting about its speaker.
    """
    steps = ENGLISH.prompt("conditional_reply").render()[0].content
    sides: dict[bool, list[Row]] = {True: [], False: []}
    for row in rows:
        heard = telling.get(row["messages"][-2]["content"])
        if heard is not None:
            sides[heard].append(row)
    chosen = []
    for worth, side in sides.items():
        for row in rng.sample(side, min(len(side), count // 2)):
            system, *others, reply = row["messages"]
            target = f"Reply: {reply['content']}\nRemember: {'yes' if worth else 'no'}"
            messages = [system | {"content": f"{system['content']}\n\n{steps}"}, *others, reply | {"content": target}]
            chosen.append(row | {"messages": messages, "further": 0})
    return chosen


def telling_utterances(sources: Iterable[Path]) -> dict[str, bool]:
    """The utterances of annotated files, and whether a trait was noted down for each."""
    return {u.text: bool(u.traits) for source in sources for u in load_annotated_utterances(source)}
