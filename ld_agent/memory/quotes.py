"""Quotes: the utterances behind recalled memories that bear most on what was just said, word for word.

A summary loses details; the words themselves keep them. Pure functions over utterances and vectors: knows no store, no
prompt and no tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ld_agent.memory.encoder import Vectors
from ld_agent.memory.index.lexical import stems
from ld_agent.memory.index.passages import windows
from ld_agent.modules.attribution import FIRST_PERSON, SECOND_PERSON
from ld_agent.types import Recalled, Utterance

COVER, SPEAKER, DETAIL = 0.3, 0.15, 0.1
"""worth = cos + COVER · (share of the query's stems said) + SPEAKER [said by whom it is about] + DETAIL [no question]."""
CANDIDATES = 48
"""Utterances that are encoded where their vectors are not stored, those of most worth without: each takes milliseconds."""
LEAST, SHARE = 0.35, 0.6
"""Least worth of an utterance that is quoted, and its least share of the best one's."""


def quotes(
    heard: Utterance,
    agent: str,
    said: Sequence[Utterance],
    encode: Callable[[Sequence[str]], Vectors],
    length: Callable[[str], int],
    room: int,
    stored: Mapping[str, Vectors] | None = None,
) -> tuple[Utterance, ...]:
    """Choose what to quote so that all of it fits in ``room``; what bears most on ``heard`` comes last.

    A small model finds best what stands nearest to the question. A quoted answer brings along the question it answers,
    where there is room for both.

    Args:
        heard: what the quotes are chosen for.
        agent: name of the one whom ``heard`` calls "you".
        said: the utterances behind the recalled memories, in time order.
        encode: texts → (n, dimension) unit vectors.
        length: of a text, in the units of ``room``.
        stored: see `worths`.
    """
    if not said or room <= 0:
        return ()
    worth = worths(heard, agent, said, encode, stored)
    least = max(LEAST, SHARE * float(worth.max()))
    chosen: list[int] = []
    left = room
    for place in np.argsort(-worth, kind="stable").tolist():
        if worth[place] < least:
            break
        for group in ((*_answered(said, place), place), (place,)):
            wanted = [n for n in group if n not in chosen]
            cost = sum(length(said[n].text) for n in wanted)
            if cost <= left:
                chosen += wanted[::-1]
                left -= cost
                break
    return tuple(said[n] for n in reversed(chosen))


def worths(
    heard: Utterance,
    agent: str,
    said: Sequence[Utterance],
    encode: Callable[[Sequence[str]], Vectors],
    stored: Mapping[str, Vectors] | None = None,
) -> NDArray[np.float64]:
    """How much each of n utterances bears on what was heard, (n,); what it means includes the utterance before it.

    Args:
        stored: the vectors of utterances with the one before, by id. Of the others the likeliest are encoded.
    """
    asked = set(stems(heard.text))
    about = _about(heard, agent)
    worth = np.array(
        [
            COVER * len(asked & set(stems(utterance.text))) / max(len(asked), 1)
            + SPEAKER * (utterance.speaker == about)
            + DETAIL * (not _asks(utterance))
            for utterance in said
        ]
    )
    known = stored or {}
    bare = [n for n, utterance in enumerate(said) if utterance.id not in known]
    likely = sorted(bare, key=lambda n: -worth[n])[:CANDIDATES]
    texts = windows(said) if likely else []
    query, *fresh = encode([heard.text, *(texts[n] for n in likely)])
    vectors = dict(zip(likely, fresh, strict=True)) | {n: known[u.id] for n, u in enumerate(said) if u.id in known}
    places = list(vectors)
    worth[places] += np.stack([vectors[n] for n in places]) @ query
    return worth


def sources_of(recalled: Sequence[Recalled]) -> list[str]:
    """The ids of the utterances that recalled memories came from, each once."""
    return list(dict.fromkeys(source for one in recalled for source in one.record.sources))


def in_time_order(ids: Sequence[str], said: Mapping[str, Utterance]) -> list[Utterance]:
    """Those utterances that are there, oldest first."""
    return sorted((said[i] for i in ids if i in said), key=lambda u: (u.at, int(u.id.lstrip("u") or 0)))


def _about(heard: Utterance, agent: str) -> str:
    """Whom an utterance is about: its speaker ("my"), else the agent ("your"); "": someone else."""
    if FIRST_PERSON.search(heard.text):
        return heard.speaker
    return agent if SECOND_PERSON.search(heard.text) else ""


def _asks(utterance: Utterance) -> bool:
    return utterance.text.rstrip().endswith(("?", "？"))


def _answered(said: Sequence[Utterance], place: int) -> tuple[int, ...]:
    """The place of the question that an utterance answers, if there is one."""
    before = said[place - 1] if place else None
    answers = (
        before is not None
        and before.session == said[place].session
        and before.speaker != said[place].speaker
        and _asks(before)
    )
    return (place - 1,) if answers and len(said[place].text.split()) <= 8 else ()
