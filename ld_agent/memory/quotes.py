"""What was said in recalled sessions, by its relevance to the utterance to answer: quotes for the prompt, which keep the details
that a summary loses, and passages for the reader.

Pure functions over utterances, vectors and the learned check: knows no store, no prompt and no tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ld_agent.checks.changes import ending
from ld_agent.checks.learned import StatementCheck
from ld_agent.checks.statements import ASKS, asked_about, part_about, part_asked, tells_of
from ld_agent.languages.reading import Reading
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.index.passages import windows
from ld_agent.text import LONGEST_READ, stems
from ld_agent.types import Recalled, Utterance

Encode = Callable[[Sequence[str]], Vectors]
NONE_STORED: Mapping[str, Vectors] = {}
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


@dataclass(frozen=True, slots=True)
class Told:
    """n utterances in time order, with how much each bears on the one to answer; see `compare`.

    Attributes:
        heard: the utterance to answer.
        agent: name of the speaker whom ``heard`` calls "you".
        worth: (n,) see `worths`.
        about: the only speaker whom ``heard`` asks about by name; "": none.
        of_agent: ``heard`` is about the agent, so that what it said can answer.
    """

    heard: Utterance
    agent: str
    said: Sequence[Utterance]
    worth: NDArray[np.float64]
    about: str
    of_agent: bool

    def without(self, ids: Collection[str]) -> Told:
        """The other utterances than these."""
        places = [n for n, one in enumerate(self.said) if one.id not in ids]
        return replace(self, said=[self.said[n] for n in places], worth=self.worth[places])

    def answering(self) -> list[int]:
        """The places of the utterances that can answer, best first: those that tell of whom ``heard`` asks about.

        The agent's tell only of itself, or its inventions would confirm themselves.
        """
        order = np.argsort(-self.worth, kind="stable").tolist()
        able = [place for place in order if self.of_agent or self.said[place].speaker != self.agent]
        return [place for place in able if tells_of(self.about, self.said[place])] if self.about else able

    def shown(self, place: int) -> Utterance | None:
        """An utterance as part of a passage: all of it, its questions, or None."""
        said = self.said[place]
        if said.speaker == self.agent and not self.of_agent:
            return part_asked(said)
        return part_about(self.about, said) if self.about else said


def compare(
    heard: Utterance,
    agent: str,
    said: Sequence[Utterance],
    encode: Encode,
    reading: Reading,
    stored: Mapping[str, Vectors] = NONE_STORED,
    people: Sequence[str] = (),
) -> Told:
    """Compare what was said with the utterance to answer.

    Args:
        said: in time order.
        encode: texts → (n, dimension) unit vectors.
        stored: see `worths`.
        people: who takes part, besides the speakers of ``said``.
    """
    worth = worths(heard, agent, said, encode, reading, stored) if said else np.zeros(0)
    about = asked_about(heard.text, {*people, *(u.speaker for u in said)}, reading)
    return Told(heard, agent, said, worth, about, agent in (about, _about(heard, agent, reading)))


def quotes(given: Told, length: Callable[[str], int], room: int) -> tuple[Utterance, ...]:
    """Choose quotes that fit in ``room``, the most relevant last, because small models use best what is closest to the
    question. A quoted answer includes its question if there is room for both.

    Args:
        length: of a text, in the units of ``room``.
    """
    said, worth = given.said, given.worth
    least = max(LEAST, SHARE * float(worth.max(initial=0.0)))
    chosen: list[int] = []
    left = room
    for place in [place for place in given.answering() if worth[place] >= least and room > 0]:
        for group in ((*_answered(said, place), place), (place,)):
            wanted = [n for n in group if n not in chosen]
            cost = sum([length(said[n].text) for n in wanted])
            if cost <= left:
                chosen += wanted[::-1]
                left -= cost
                break
    return tuple(said[n] for n in reversed(chosen))


def passages(given: Told, most: int) -> tuple[tuple[Utterance, ...], ...]:
    """Return the ``most`` utterances most relevant to the one to answer, best first, each with the two before it in its session,
    and what its speaker went on to say, which may correct it; of the agent's lines only the questions, unless it is asked about
    itself.
    """
    said, read = given.said, list[tuple[Utterance, ...]]()
    for place in given.answering()[: max(most, 0)]:
        around = [
            n
            for n in range(max(place - LED_UP, 0), min(place + WENT_ON + 1, len(said)))
            if said[n].session == said[place].session and (n <= place or said[n].speaker == said[place].speaker)
        ]
        read.append(tuple(shown for n in around if (shown := given.shown(n)) is not None))
    return tuple(read)


def going_on(passage: Sequence[Utterance], corrections: Mapping[str, Sequence[Utterance]]) -> tuple[Utterance, ...]:
    """A passage with what its last speaker said later that ended what it tells: who reads both knows what was and what is.

    Args:
        corrections: by the ids of the lines that they end.
    """
    lines = [*passage]
    for line in lines:  # grows meanwhile: what ended it may have ended, too
        ids = {one.id for one in lines}
        later = [one for one in corrections.get(line.id, ()) if one.id not in ids]
        lines += [one for one in later if one.speaker == passage[-1].speaker]
    return (*passage, *sorted(lines[len(passage) :], key=lambda one: one.at))


def earlier(given: Told, check: StatementCheck, encode: Encode) -> Told:
    """What was said, without the lines that end what earlier ones say, for a question about what was before.

    Only the `COMPARED` most relevant lines are compared.
    """
    near = [given.said[n] for n in sorted(given.worth.argsort()[::-1][:COMPARED].tolist())]
    vectors = encode([one.text for one in near])
    later = ending(check, [(one.speaker, one.text) for one in near], vectors @ vectors.T)
    return given.without([near[n].id for n in later])


def worths(
    heard: Utterance,
    agent: str,
    said: Sequence[Utterance],
    encode: Encode,
    reading: Reading,
    stored: Mapping[str, Vectors] = NONE_STORED,
) -> NDArray[np.float64]:
    """Return the relevance of n utterances to the one heard, (n,); each is encoded with the utterance before it.

    Args:
        stored: vectors of utterances, each with the one before, by id; the most promising of the others are encoded.
    """
    asked, about = set(stems(heard.text[-LONGEST_READ:], reading)), _about(heard, agent, reading)
    texts = [one.text for one in said]
    shared = [len(asked.intersection(words)) for words in [stems(text[:LONGEST_READ], reading) for text in texts]]
    worth = np.array(
        [
            COVER * common / max(len(asked), 1)
            + SPEAKER * (one.speaker == about)
            + DETAIL * (not text.rstrip().endswith(ASKS))
            for one, text, common in zip(said, texts, shared, strict=True)
        ]
    )
    bare = [n for n, one in enumerate(said) if one.id not in stored]
    likely = sorted(bare, key=lambda n: -worth[n])[:CANDIDATES]
    shown = windows(said) if likely else []
    query, *fresh = encode([heard.text, *[shown[n] for n in likely]])
    vectors = dict(zip(likely, fresh, strict=True)) | {n: stored[u.id] for n, u in enumerate(said) if u.id in stored}
    places = list(vectors)
    worth[places] += np.stack([vectors[n] for n in places]) @ query
    return worth


def sources_of(recalled: Sequence[Recalled], but: Collection[str]) -> list[str]:
    """The ids of the source utterances of recalled memories, without repetitions and some."""
    return list(dict.fromkeys(i for one in recalled for i in one.record.sources if i not in but))


def in_time_order(ids: Sequence[str], said: Mapping[str, Utterance]) -> list[Utterance]:
    """The existing utterances among ``ids``, oldest first."""
    return sorted((said[i] for i in ids if i in said), key=lambda u: (u.at, int(u.id.lstrip("u") or 0)))


def _about(heard: Utterance, agent: str, reading: Reading) -> str:
    """Who an utterance is about: its speaker ("my"), else the agent ("your"); "": someone else."""
    if reading.patterns["first_person"].search(heard.text):
        return heard.speaker
    return agent if reading.patterns["second_person"].search(heard.text) else ""


def _answered(said: Sequence[Utterance], place: int) -> tuple[int, ...]:
    """The index of the question that an utterance answers, if any."""
    before = said[place - 1] if place else None
    answers = (
        before is not None
        and before.session == said[place].session
        and before.speaker != said[place].speaker
        and before.text.rstrip().endswith(ASKS)
    )
    return (place - 1,) if answers and len(said[place].text.split()) <= 8 else ()
