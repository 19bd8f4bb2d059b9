"""Tunes the summarizer, on dialogues and the summaries that people wrote of them, and on what annotators found in each
utterance of a session, which says whose each fact is:

python -m training.summarizer -c configs/training/summarizer.yaml [key=value ...] [--dry-run] [--overwrite]
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ld_agent.datasets import format_of, load_dialogues
from ld_agent.datasets.dialogsum import Dialogue, named_dialogue
from ld_agent.languages import ENGLISH
from ld_agent.modules.base import Models
from ld_agent.types import Session
from training.rows import BuildRequest, held_out, origin, row_values
from training.talks import Talk, talks_of
from training.train import main

SEED = 7
FEWEST_FACTS, MOST_FACTS = 3, 5
"""Maximum number of facts per session, and per person in a summary."""


def rows(request: BuildRequest) -> Iterator[dict[str, Any]]:
    """Session → its summary. ``limit``: dialogues, or sessions, of each source.

    Raises:
        InputError: no such file, or a corpus with neither summaries nor traits.
    """
    from ld_agent.memory.encoder import configured
    from ld_agent.modules.summarizer import Summarizer

    summarizer = Summarizer(Models(request.config), configured(request.config.encoder).encode)
    by_corpus = [(format_of(source), source) for source in request.sources]
    dialogues = [source for corpus, source in by_corpus if corpus == "dialogsum"]
    for corpus, source in by_corpus:
        if corpus != "dialogsum":
            for talk, summary in attributed(source, request.limit):
                prompt = summarizer.prompt_for(talk.as_session)
                yield row_values(
                    prompt, summary, corpus=corpus, episode=talk.episode, session=talk.session, turn=len(talk.lines)
                )
    for dialogue, session, summary in _of_dialogues(dialogues, request) if dialogues else ():
        prompt = summarizer.prompt_for(session)
        turns = len(session.utterances)
        yield row_values(prompt, summary, corpus="dialogsum", episode=dialogue, session=1, turn=turns)


def _of_dialogues(sources: Sequence[Path], request: BuildRequest) -> Iterator[tuple[str, Session, str]]:
    """One row per reference; the corpus's tags are names on both sides. None of the dialogues that are held out is joined with
    one that is not; see `joined`.
    """
    dialogues = [d for source in sources for d in load_dialogues(source, limit=request.limit)]
    apart = held_out([dialogue.id for dialogue in dialogues], request.held_out)
    sides = [[d for d in dialogues if (origin(d.id) in apart) is there] for there in (False, True)]
    for dialogue in [*dialogues, *(session for side in sides for session in joined(side, request.longest))]:
        session, summaries = named_dialogue(dialogue)
        for summary in dict.fromkeys(summaries):
            yield dialogue.id, session, summary


def attributed(source: Path, limit: int | None) -> Iterator[tuple[Talk, str]]:
    """Sessions with what their two people told of themselves, and the same sessions with the names exchanged.

    Half of each: a session in the order of its corpus, then one whose names changed places, so that nothing but the
    conversation says whose a fact is.
    """
    rng = random.Random(SEED)
    for number, talk in enumerate(talks_of(source, limit, rng)):
        one = talk.exchanged() if number % 2 else talk
        if len(one.people) == 2 and sum(map(len, one.known().values())) >= FEWEST_FACTS:
            yield one, " ".join(_sentence(person, facts[:MOST_FACTS]) for person, facts in one.known().items() if facts)


def _sentence(person: str, facts: Sequence[str]) -> str:
    """What one person told, as few sentences: "Maya works as a nurse, has two sons and likes hiking. Maya's mother is ill." """
    begin = f"{person} "
    same = [fact[len(begin) :].rstrip(".,") for fact in facts if fact.startswith(begin)]
    others = [fact for fact in facts if not fact.startswith(begin)]
    if not same:
        return " ".join(others)
    return " ".join([f"{begin}{ENGLISH.named(same)}.", *others])


def joined(dialogues: Sequence[Dialogue], longest: int) -> list[Dialogue]:
    """Sessions of several dialogues, one after the other, each with the summaries in the same order.

    Real sessions are longer than the dialogues of summarization corpora, and a summarizer that has seen only these
    writes one sentence whatever it is given. For every k from 2 to ``longest`` there are 1/2^(k-1) times as many sessions of
    k dialogues as there are dialogues; the choice depends on the dialogues alone. A session's id is that of its first
    dialogue, "#" and the others'.
    """
    pairs = [dialogue for dialogue in dialogues if len({turn.speaker for turn in dialogue.turns}) == 2]
    chosen = random.Random(len(pairs))
    return [
        _one_session([first, *chosen.sample([d for d in pairs if d is not first], k - 1)])
        for k in range(2, min(longest, len(pairs)) + 1)
        for first in chosen.sample(pairs, len(pairs) // 2 ** (k - 1))
    ]


def _one_session(parts: Sequence[Dialogue]) -> Dialogue:
    first, *others = parts
    return replace(
        first,
        id=f"{first.id}#{'+'.join(d.id for d in others)}",
        turns=tuple(turn for d in parts for turn in d.turns),
        summaries=(" ".join(d.summaries[0] for d in parts),),
    )


if __name__ == "__main__":
    main("summarizer")
