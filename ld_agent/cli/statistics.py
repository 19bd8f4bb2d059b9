"""``ld-agent statistics``: statistics of corpora and benchmarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.cli.options import Json, Lenient, Limit
from ld_agent.cli.show import console, figures_table, plain
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
    """Count episodes, sessions, utterances and words by kind of text (Rsum, Tables A.10 and A.11; ECM, Table 2).

    Examples:

      ld-agent statistics msc_dialogue/session_3/test.txt carecall.json

      ld-agent statistics msc_dialogue/session_5/test.txt --out runs/statistics
    """
    from ld_agent.evaluation import statistics as corpora

    files = corpora.only_once(data)
    with lenient(skip_bad), _unit(config) as unit:
        statistics = [corpora.statistics(file, limit, *unit) for file in files]
    if out is not None:
        corpora.write_statistics(out, statistics)
    if as_json:
        print_json(statistics[0] if len(statistics) == 1 else {"statistics": statistics})
        return
    for one in statistics:
        _show(one)


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


def _show(statistics: Mapping[str, Any]) -> None:

    if statistics["kind"] == "benchmark":
        console.print(plain(f"{statistics['data']}: ECM's benchmark {statistics['benchmark']}"), soft_wrap=True)
        row = [f"{statistics[key]:g}" for key in ("samples", "sessions", "utterances", "questions")]
        heads = ["samples", "sessions in a source", "utterances in a source", "questions in a sample"]
        console.print(figures_table("", heads, [row], left=0))
        return
    counts = ", ".join(f"{statistics[unit]:,} {unit}" for unit in ("episodes", "sessions", "utterances"))
    console.print(plain(f"{statistics['data']}: {statistics['corpus']}, {counts}"), soft_wrap=True)
    for title, by_name in (("", statistics["words"]), (f"in {statistics['unit']}", statistics["by_session"])):
        names = [
            "mean length up to its end" if key == "mean_length" else key for key in next(iter(by_name.values()), ())
        ]
        rows = [[name, *(f"{value:,}" for value in figures.values())] for name, figures in by_name.items()]
        console.print(figures_table(title, ["session" if title else "", *names], rows))
