"""``ld-agent statistics``: statistics of corpora and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.cli.runs import Json, Lenient
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
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N episodes or samples.")] = None,
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
    length, unit, close = _unit(config)
    try:
        with lenient(skip_bad):
            statistics = [corpora.statistics(file, limit, length, unit) for file in files]
    finally:
        close()
    if out is not None:
        corpora.write_statistics(out, statistics)
    if as_json:
        whole = statistics[0] if len(statistics) == 1 else {"statistics": statistics}
        print_json(whole)
        return
    for one in statistics:
        _show(one)


def _unit(config: str | None) -> tuple[Length, str, Any]:
    """A function for the length of a text, its unit, and a function that releases the model."""
    from ld_agent.evaluation.statistics import words_in

    if config is None:
        return words_in, "words", lambda: None
    from ld_agent.backbones import build_backbone
    from ld_agent.backbones.base import Message
    from ld_agent.config import load_config

    section = load_config(config, []).backbone
    backbone = build_backbone(section)
    template = backbone.count_tokens([Message("user", "")])
    return (
        lambda text: max(backbone.count_tokens([Message("user", text)]) - template, 1),
        f"tokens of {section.model}",
        backbone.close,
    )


def _show(statistics: Mapping[str, Any]) -> None:
    from ld_agent.cli.show import console, plain

    if statistics["kind"] == "benchmark":
        console.print(plain(f"{statistics['data']}: ECM's benchmark {statistics['benchmark']}"), soft_wrap=True)
        rows = [(f"{statistics[key]:g}" for key in ("samples", "sessions", "utterances", "questions"))]
        _table("", ("samples", "sessions in a source", "utterances in a source", "questions in a sample"), rows)
        return
    counts = ", ".join(f"{statistics[unit]:,} {unit}" for unit in ("episodes", "sessions", "utterances"))
    console.print(plain(f"{statistics['data']}: {statistics['corpus']}, {counts}"), soft_wrap=True)
    kinds = statistics["words"].items()
    numbers = ("texts", "words", "mean", "longest")
    _table("", ("", "texts", "words", "mean", "longest"), [(k, *(f"{v[n]:,}" for n in numbers)) for k, v in kinds])
    sessions = statistics["by_session"].items()
    numbers = ("dialogues", "utterances", "mean_length", "longest")
    heads = ("session", "dialogues", "utterances", "mean length up to its end", "longest")
    _table(f"in {statistics['unit']}", heads, [(k, *(f"{v[n]:,}" for n in numbers)) for k, v in sessions])


def _table(title: str, heads: Sequence[str], rows: Sequence[Any]) -> None:
    from rich.table import Table

    from ld_agent.cli.show import console

    table = Table(title=title or None, title_justify="left", box=None, padding=(0, 1), header_style="dim")
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()
