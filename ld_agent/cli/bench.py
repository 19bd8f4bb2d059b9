"""``ld-agent bench``: measure the README's claims on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ld_agent.cli.options import Json, Limit, OneConfig, Overrides, Width
from ld_agent.cli.show import print_figures
from ld_agent.config import greedy_config

app = typer.Typer(help="Measure speed and memory on this machine.", no_args_is_help=True)


@app.command()
def recall(overrides: Overrides = None, config: OneConfig = None, as_json: Json = False) -> None:
    """Time recall over 1,000, 10,000 and 100,000 events of one conversation, and measure the index size.

    Example:

      ld-agent bench recall
    """
    from ld_agent.evaluation.bench.recall import bench_recall

    print_figures(bench_recall(greedy_config(config, overrides or [])), as_json)


@app.command()
def turn(
    overrides: Overrides = None,
    config: OneConfig = None,
    growth: Annotated[
        bool, typer.Option("--growth", help="Instead, measure turns and reopening from 1,000 to 1,000,000 utterances.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Time a whole turn at 10,000 events, generation compared with plain float32 generate(), and adapters.

    Examples:

      ld-agent bench turn --json

      ld-agent bench turn --growth
    """
    from ld_agent.evaluation.bench.turn import bench_growth, bench_turn

    measure = bench_growth if growth else bench_turn
    print_figures(measure(greedy_config(config, overrides or [])), as_json)


@app.command()
def training(
    overrides: Overrides = None,
    config: OneConfig = None,
    steps: Annotated[int, typer.Option(min=2, help="Optimizer steps per recipe; use 50 to compare losses.")] = 8,
    as_json: Json = False,
) -> None:
    """Tune the base with our recipe, and with plain PEFT and Trainer; compare tokens per second, memory and loss.

    Example:

      ld-agent bench training --json
    """
    from ld_agent.evaluation.bench.training import bench_training

    print_figures(bench_training(greedy_config(config, overrides or []), steps), as_json)


@app.command()
def views(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DATA] [KEY=VALUE]...", help="A file of conversations, and config overrides."),
    ] = None,
    config: OneConfig = None,
    limit: Limit = None,
    chosen: Annotated[
        list[str] | None, typer.Option("--view", help="Only this mechanism, or several joined by +; may be repeated.")
    ] = None,
    width: Width = 1,
    as_json: Json = False,
) -> None:
    """Play the same conversations with each memory mechanism: calls, tokens, seconds and stored bytes per turn.

    Example:

      ld-agent bench views data/samples/msc_session_3.txt --limit 20 --view recursive --view conditional+summary
    """
    from ld_agent.evaluation.bench.views import bench_views

    given = list(arguments or [])
    source = Path(given.pop(0)) if given and ("=" not in given[0] or Path(given[0]).exists()) else None
    settings = greedy_config(config, given)
    print_figures(bench_views(settings, source, limit=limit, chosen=chosen or (), width=width), as_json)
