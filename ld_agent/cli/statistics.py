"""``ld-agent statistics``: statistics of corpora and benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ld_agent.cli.options import Json, Lenient, Limit
from ld_agent.cli.show import print_figures
from ld_agent.config import load_config
from ld_agent.program import lenient, print_json

if TYPE_CHECKING:
    from ld_agent.evaluation.statistics import Length


def statistics(
    data: Annotated[
        list[Path], typer.Argument(metavar="DATA...", help="Corpora, or benchmarks of ld-agent ecm build.")
    ],
    config: Annotated[
        str | None,
        typer.Option("--config", "-c", help="Measure dialogues in tokens of this config's backbone instead of words."),
    ] = None,
    limit: Limit = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Store the statistics in this folder, for ld-agent tables.")
    ] = None,
    skip_bad: Lenient = False,
    as_json: Json = False,
) -> None:
    """Count dialogues, utterances and their lengths by session (Rsum, Tables A.10 and A.11; ECM, Table 2).

    Examples:

      ld-agent statistics data/samples/msc_session_3.txt data/samples/carecall.json

      ld-agent statistics data/samples/msc_session_3.txt --out runs/statistics
    """
    from ld_agent.evaluation import statistics as corpora
    from ld_agent.evaluation.tables.runs import FIGURES, write_figures

    with lenient(skip_bad), _unit(config) as unit:
        counted = [corpora.statistics(file, limit, *unit) for file in dict.fromkeys(data)]
    if out is not None:
        write_figures(out / FIGURES, [row for one in counted for row in corpora.rows_of(one)])
    if as_json:
        print_json(counted[0] if len(counted) == 1 else {"statistics": counted})
        return
    for one in counted:
        print_figures(one, as_json)


@contextmanager
def _unit(config: str | None) -> Iterator[tuple[Length, str]]:
    """A function for the length of a text, and its unit."""
    from ld_agent.backbones import build_backbone
    from ld_agent.backbones.base import Message
    from ld_agent.evaluation.statistics import words_in

    if config is None:
        yield words_in, "words"
        return
    section = load_config(config, []).backbone
    with closing(build_backbone(section)) as backbone:
        template = backbone.count_tokens([Message("user", "")])
        yield (
            lambda text: max(backbone.count_tokens([Message("user", text)]) - template, 1),
            f"tokens of {section.model}",
        )
