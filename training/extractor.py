"""Tunes the extractor on utterances and their annotated traits:

python -m training.extractor -c configs/training/extractor.yaml [key=value ...] [--dry-run] [--overwrite]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ld_agent.datasets import format_of, load_annotated_utterances
from ld_agent.modules.base import Models
from ld_agent.modules.extractor import Extractor
from training.rows import BuildRequest, row_values
from training.train import main


def rows(request: BuildRequest) -> Iterator[dict[str, Any]]:
    """Utterance → its traits joined by a space, or NO_TRAIT. ``limit``: sessions (episodes, of other corpora) of each source.

    Raises:
        InputError: no such file, or a corpus without annotated traits.
    """
    from ld_agent.evaluation.tasks.extraction import joined

    extractor = Extractor(Models(request.config), request.config.modules.extractor.prompting)
    for source in request.sources:
        corpus = format_of(source)
        for u in load_annotated_utterances(source, limit=request.limit):
            prompt = extractor.prompt_for(u.text, u.before)
            about = {"corpus": corpus, "episode": u.episode, "session": u.session, "turn": u.turn}
            yield row_values(prompt, joined(u.traits), **about)


if __name__ == "__main__":
    main("extractor")
