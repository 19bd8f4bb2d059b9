"""Recalls what people said in running sessions, word for word: no view has digested it yet. Asks no model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.views.base import Query
from ld_agent.memory.views.stored import dialogue, recalled
from ld_agent.types import Recalled, Record, Utterance

RUNNING = "running"
"""Takes the place of a view's name in the records made here, which are not stored; their ids are those of the utterances."""


def recalled_lines(
    query: Query, said: Sequence[Utterance], agent: str, encoder: SentenceEncoder, k: int, gamma: float
) -> list[Recalled]:
    """The k lines most similar to a query, best first, among those with s_sem > γ; without the agent's, questions, and the
    query itself."""
    lines = [u for u in said if u.speaker != agent and u.at <= query.at and u.text.strip() != query.text.strip()]
    lines = [u for u in lines if not u.text.rstrip().endswith(("?", "？"))]
    if not lines:
        return []
    cosines = encoder.encode([dialogue([u]) for u in lines]) @ query.vector
    order = [n for n in np.argsort(-cosines, kind="stable").tolist() if cosines[n] > gamma][:k]
    return [recalled(_record(lines[n]), float(cosines[n])) for n in order]


def _record(line: Utterance) -> Record:
    return Record(
        line.id,
        RUNNING,
        dialogue([line]),
        line.at,
        line.session,
        sources=(line.id,),
        channel=line.channel,
        said_by=(line.speaker,),
    )
