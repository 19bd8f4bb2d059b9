"""Quotes: the utterances behind recalled memories that are most relevant to the current one, verbatim.

They keep the details that a summary loses. Pure functions over utterances and vectors: knows no store, no
prompt and no tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ld_agent.checks.kept import ending
from ld_agent.checks.learned import StatementCheck
from ld_agent.checks.named import part_about, part_asked, tells_of
from ld_agent.checks.statements import asks
from ld_agent.languages.reading import Reading
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.index.lexical import stems
from ld_agent.memory.index.passages import windows
from ld_agent.types import Recalled, Utterance

COVER, SPEAKER, DETAIL = 0.3, 0.15, 0.1
"""worth = cos + COVER · (share of the query's stems said) + SPEAKER [said by whom it is about] + DETAIL [no question]."""
CANDIDATES = 48
"""Maximum number of utterances encoded because their vectors are not stored, most promising first: each takes
milliseconds."""
LED_UP, WENT_ON = 2, 2
"""Number of utterances before one that a passage includes, and after it, of these only the same speaker's."""
COMPARED = 12
"""The most relevant lines of which the later may end what the earlier say."""
LEAST, SHARE = 0.35, 0.6
"""Minimum worth of a quoted utterance, absolute and as a share of the best one's."""


def quotes(
    heard: Utterance,
    agent: str,
    said: Sequence[Utterance],
    encode: Callable[[Sequence[str]], Vectors],
    reading: Reading,
    length: Callable[[str], int],
    room: int,
    stored: Mapping[str, Vectors] | None = None,
    about: str = "",
) -> tuple[Utterance, ...]:
    """Choose quotes that fit in ``room``, the most relevant to ``heard`` last, because small models use best what is
    closest to the question. A quoted answer includes its question if there is room for both.

    Args:
        heard: the utterance to answer.
        agent: name of the speaker whom ``heard`` calls "you".
        said: the utterances behind the recalled memories, in time order.
        encode: texts → (n, dimension) unit vectors.
        length: of a text, in the units of ``room``.
        stored: see `worths`.
        about: the only speaker of whom quotes may tell; "": anyone.
    """
    if not said or room <= 0:
        return ()
    worth = worths(heard, agent, said, encode, reading, stored)
    least = max(LEAST, SHARE * float(worth.max()))
    chosen: list[int] = []
    left = room
    for place in np.argsort(-worth, kind="stable").tolist():
        if worth[place] < least:
            break
        if not (tells_of(about, said[place]) and is_evidence(heard, agent, said[place], reading, about)):
            continue
        for group in ((*_answered(said, place), place), (place,)):
            wanted = [n for n in group if n not in chosen]
            cost = sum(length(said[n].text) for n in wanted)
            if cost <= left:
                chosen += wanted[::-1]
                left -= cost
                break
    return tuple(said[n] for n in reversed(chosen))


def passages(
    heard: Utterance,
    agent: str,
    said: Sequence[Utterance],
    encode: Callable[[Sequence[str]], Vectors],
    reading: Reading,
    most: int,
    stored: Mapping[str, Vectors] | None = None,
    about: str = "",
) -> tuple[tuple[Utterance, ...], ...]:
    """Return the ``most`` utterances most relevant to ``heard``, best first, each with the two before it in its session, and what
    its speaker went on to say, which may correct it; of the agent's lines only the questions, unless it is asked about itself.

    Args: as `quotes`.
    """
    if not said or most <= 0:
        return ()
    order = np.argsort(-worths(heard, agent, said, encode, reading, stored), kind="stable").tolist()
    answers = [p for p in order if tells_of(about, said[p]) and is_evidence(heard, agent, said[p], reading, about)]
    places = answers[:most]
    return tuple(
        tuple(
            told
            for n, u in enumerate(said[max(place - LED_UP, 0) : place + WENT_ON + 1], max(place - LED_UP, 0))
            if u.session == said[place].session
            and (n <= place or u.speaker == said[place].speaker)
            and (told := part_about(about, u) if is_evidence(heard, agent, u, reading, about) else part_asked(u))
            is not None
        )
        for place in places
    )


def earlier(
    heard: Utterance,
    agent: str,
    said: Sequence[Utterance],
    encode: Callable[[Sequence[str]], Vectors],
    reading: Reading,
    check: StatementCheck,
) -> list[Utterance]:
    """What was said, without the lines that end what earlier ones say, for a question about what was before.

    Args: as `quotes`; only the `COMPARED` most relevant lines are compared.
    """
    worth = worths(heard, agent, said, encode, reading)
    near = [said[n] for n in sorted(worth.argsort()[::-1][:COMPARED].tolist())]
    vectors = encode([u.text for u in near])
    later = {near[n].id for n in ending(check, [(u.speaker, u.text) for u in near], vectors @ vectors.T)}
    return [u for u in said if u.id not in later]


def is_evidence(heard: Utterance, agent: str, said: Utterance, reading: Reading, about: str = "") -> bool:
    """Whether an utterance can answer: what the agent said tells only of itself, or its inventions would confirm themselves."""
    return said.speaker != agent or agent in (about, _about(heard, agent, reading))


def worths(
    heard: Utterance,
    agent: str,
    said: Sequence[Utterance],
    encode: Callable[[Sequence[str]], Vectors],
    reading: Reading,
    stored: Mapping[str, Vectors] | None = None,
) -> NDArray[np.float64]:
    """Return the relevance of n utterances to the one heard, (n,); each is encoded with the utterance before it.

    Args:
        stored: vectors of utterances, each with the one before, by id; the most promising of the others are encoded.
    """
    asked = set(stems(heard.text, reading))
    about = _about(heard, agent, reading)
    worth = np.array(
        [
            COVER * len(asked & _stems(utterance.text, reading)) / max(len(asked), 1)
            + SPEAKER * (utterance.speaker == about)
            + DETAIL * (not asks(utterance.text))
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


@lru_cache(maxsize=1024)
def _stems(text: str, reading: Reading) -> frozenset[str]:
    """Cached, because a turn ranks the same utterances as quotes and as passages."""
    return frozenset(stems(text, reading))


def sources_of(recalled: Sequence[Recalled]) -> list[str]:
    """The ids of the source utterances of recalled memories, without repetitions."""
    return list(dict.fromkeys(source for one in recalled for source in one.record.sources))


def in_time_order(ids: Sequence[str], said: Mapping[str, Utterance]) -> list[Utterance]:
    """The existing utterances among ``ids``, oldest first."""
    return sorted((said[i] for i in ids if i in said), key=lambda u: (u.at, int(u.id.lstrip("u") or 0)))


def _about(heard: Utterance, agent: str, reading: Reading) -> str:
    """Who an utterance is about: its speaker ("my"), else the agent ("your"); "": someone else."""
    if reading.pattern("first_person").search(heard.text):
        return heard.speaker
    return agent if reading.pattern("second_person").search(heard.text) else ""


def _answered(said: Sequence[Utterance], place: int) -> tuple[int, ...]:
    """The index of the question that an utterance answers, if any."""
    before = said[place - 1] if place else None
    answers = (
        before is not None
        and before.session == said[place].session
        and before.speaker != said[place].speaker
        and asks(before.text)
    )
    return (place - 1,) if answers and len(said[place].text.split()) <= 8 else ()
