"""Tunes the summarizer, on dialogues and the summaries that people wrote of them:

python -m training.summarizer -c configs/training/summarizer.yaml [key=value ...] [--dry-run] [--overwrite]
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from training.row_building import BuildRequest, held_out, origin
from training.train import main

if TYPE_CHECKING:
    from ld_agent.datasets.dialogsum import Dialogue


def rows(request: BuildRequest) -> Iterator[dict[str, Any]]:
    """Dialogue → its summary, one row per reference; the corpus's tags are names on both sides. ``limit``: dialogues of each
    source. None of the dialogues that are held out is joined with one that is not; see `joined`.

    Raises:
        InputError: no such file.
    """
    from ld_agent.datasets import load_dialogues
    from ld_agent.datasets.naming import named_dialogue
    from ld_agent.memory.encoder import SentenceEncoder
    from ld_agent.modules.base import Models
    from ld_agent.modules.summarizer import Summarizer
    from training.rows import row_values

    settings = request.config.encoder
    encoder = SentenceEncoder(settings.model, settings.device, settings.sha256)
    summarizer = Summarizer(Models(request.config), encoder)
    dialogues = [d for source in request.sources for d in load_dialogues(source, limit=request.limit)]
    apart = held_out([dialogue.id for dialogue in dialogues], request.held_out)
    sides = [[d for d in dialogues if (origin(d.id) in apart) is there] for there in (False, True)]
    for dialogue in [*dialogues, *(session for side in sides for session in joined(side, request.longest))]:
        session, summaries = named_dialogue(dialogue)
        for summary in dict.fromkeys(summaries):
            yield row_values(
                summarizer.prompt_for(session),
                summary,
                corpus="dialogsum",
                episode=dialogue.id,
                session=1,
                turn=len(dialogue.turns),
            )


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
