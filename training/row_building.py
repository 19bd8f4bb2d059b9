"""What makes rows is asked for, and which episodes are held out: all that the row builders of the modules share."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ld_agent.config import Config
from ld_agent.errors import InputError
from training.ablations import Parts

WHOLE = Parts()


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One call of ``training.build``. A row builder takes it and returns rows as dictionaries (`training.rows.row_values`).

    Attributes:
        sources: corpus files.
        limit: episodes, sessions or dialogues read of each.
        held_out: share of the episodes that go to the validation file.
        out: the training file; work in progress may be kept next to it.
        overwrite: discard such work of another build.
        longest: summarizer: also sessions of up to so many dialogues; 1: none.
        parts, ablations, width: generator: the parts of a prompt, whether each is also built alone, and episodes side by side.
        on: generator: "ray": replay on a Ray cluster.
    """

    sources: Sequence[Path]
    config: Config
    out: Path
    limit: int | None = None
    held_out: float = 0.0
    overwrite: bool = False
    longest: int = 1
    parts: Parts = WHOLE
    ablations: bool = False
    width: int = 16
    on: str = ""


def held_out(episodes: Sequence[str], share: float) -> frozenset[str]:
    """Choose at least one episode in ``share`` of them, by their names alone: the same ones from every file and module."""
    names = sorted(dict.fromkeys(map(origin, episodes)), key=lambda name: hashlib.sha256(name.encode()).digest())
    if share and len(names) < 2:
        raise InputError(f"{len(names)} episode cannot be split in two; give more data, or leave --eval-out away")
    return frozenset(names[: math.ceil(share * len(names))])


def origin(episode: str) -> str:
    """The conversation that an episode id comes from: a repeated one ("valid_7#2") belongs with the first."""
    return episode.partition("#")[0]
