"""What the row builders of all modules share: the request for rows, and the choice of held-out episodes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ld_agent.config import Config
from ld_agent.errors import InputError


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One call of ``training.build``. A row builder takes it and returns rows as dictionaries (`training.rows.row_values`).

    Attributes:
        sources: corpus files.
        limit: episodes, sessions or dialogues read of each.
        held_out: share of episodes in the validation file.
        out: the training file; intermediate results may be stored next to it.
        overwrite: discard intermediate results of another build.
        longest: summarizer: also sessions of up to this many dialogues; 1: none.
        width: generator: episodes side by side.
    """

    sources: Sequence[Path]
    config: Config
    out: Path
    limit: int | None = None
    held_out: float = 0.0
    overwrite: bool = False
    longest: int = 1
    width: int = 16


def held_out(episodes: Sequence[str], share: float) -> frozenset[str]:
    """Choose a share of episodes, at least one, by their names only: the same for every file and module."""
    names = sorted(dict.fromkeys(map(origin, episodes)), key=lambda name: hashlib.sha256(name.encode()).digest())
    if share and len(names) < 2:
        raise InputError(f"{len(names)} episode cannot be split in two; give more data, or omit --eval-out")
    return frozenset(names[: math.ceil(share * len(names))])


def origin(episode: str) -> str:
    """The conversation of an episode id; a repeated one ("valid_7#2") belongs to the first."""
    return episode.partition("#")[0]
