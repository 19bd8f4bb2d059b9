"""Self-reflection on search results (ECM, section 3.2): the model chooses among them, or names what is missing and the
search is repeated with that. Works for any view whose search takes a query. Knows no store.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ld_agent.errors import BackboneError
from ld_agent.modules.base import Models
from ld_agent.steps import Steps
from ld_agent.types import Recalled

_ANSWER = re.compile(r"\b(enough|missing)\b\W*?:\s*([^\n]*)", re.IGNORECASE)
_NONE = re.compile(r"\A\W*+(?:none|nothing|0)\b", re.IGNORECASE)
MOST_KEYWORDS = 10
MOST_TOKENS = 48  # tokens of an answer: one line of numbers or keywords
LONGEST_KEYWORD = 60  # characters; anything longer is a sentence


@dataclass(frozen=True, slots=True)
class Judgement:
    """A model's answer. ``chosen``: positions from 0; None: it did not say that the candidates are enough."""

    chosen: tuple[int, ...] | None = None
    keywords: tuple[str, ...] = ()


def reflect(
    models: Models, text: str, search: Callable[[str], list[Recalled]], rounds: int
) -> Steps[tuple[list[Recalled], list[dict[str, Any]]]]:
    """Search, and reflect on the results at most ``rounds`` times.

    Empty results, an unreadable answer or a failing model end the reflection with the current candidates. After the
    last round, the results of the extended search are final.

    Args:
        text: the query.
        search: from a query's text to the candidates, best first.

    Returns:
        the results after reflection, best first, and one entry per round, as plain values.
    """
    candidates = search(text)
    entries: list[dict[str, Any]] = []
    words: list[str] = []
    for _ in range(rounds):
        if not candidates:
            break
        messages = models.language.prompt("conditional_reflect").render(
            candidates=[c.record.text for c in candidates], text=text
        )
        try:
            [answer] = yield [models.request("memory", messages, most=MOST_TOKENS, marked=True)]
        except BackboneError as exc:
            entries.append(_entry(candidates, "failed", problem=str(exc)))
            break
        judged = judgement(answer.text, len(candidates))
        if judged.chosen is not None:
            chosen = [candidates[n] for n in judged.chosen]
            entries.append(_entry(candidates, "enough", selected=[c.record.id for c in chosen]))
            return chosen, entries
        fresh = [word for word in judged.keywords if word.casefold() not in {w.casefold() for w in words}]
        if not fresh:
            entries.append(_entry(candidates, "unusable"))
            break
        entries.append(_entry(candidates, "missing", keywords=fresh))
        words += fresh
        candidates = search(" ".join([text, *words]))
    return candidates, entries


def judgement(answer: str, candidates: int) -> Judgement:
    """Parse an answer: "Enough: 1, 3" or "Missing: keyword, keyword"; the first of them counts."""
    match = _ANSWER.search(answer)
    if match is None:
        return Judgement()
    kind, rest = match.group(1).casefold(), match.group(2)
    if kind == "missing":
        words = [word.strip(" .;\"'*[]<>") for word in re.split(r"[,;、，]", rest)]
        kept = [w for w in dict.fromkeys(words) if w and len(w) <= LONGEST_KEYWORD and not _NONE.fullmatch(w)]
        return Judgement(keywords=tuple(kept[:MOST_KEYWORDS]))
    numbers = [int(n) - 1 for n in re.findall(r"\d{1,4}", rest)]
    valid = tuple(sorted({n for n in numbers if 0 <= n < candidates}))
    if valid:
        return Judgement(chosen=valid)
    return Judgement(chosen=()) if _NONE.match(rest) else Judgement()


def _entry(candidates: list[Recalled], outcome: str, **more: object) -> dict[str, Any]:
    return {"candidates": [c.record.id for c in candidates], "outcome": outcome, **more}
