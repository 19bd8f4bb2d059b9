"""Tunes the generator on recorded replies and the agent's prompts for them:

python -m training.generator -c configs/training/generator.yaml [key=value ...] [--dry-run] [--overwrite]
"""

from __future__ import annotations

from typing import Any

from training.row_building import BuildRequest
from training.train import main


def rows(request: BuildRequest) -> list[dict[str, Any]]:
    """Situation in a replayed conversation → the recorded reply; see `training.replayed`. ``limit``: episodes of each source.

    Raises: as `training.replayed.build_generator`.
    """
    from ld_agent.datasets import format_of, load_episodes
    from training.replayed import build_generator

    episodes = [
        (format_of(source), episode)
        for source in request.sources
        for episode in load_episodes(source, limit=request.limit)
    ]
    return build_generator(
        episodes,
        request.config,
        request.out,
        width=request.width,
        overwrite=request.overwrite,
    )


if __name__ == "__main__":
    main("generator")
