"""``ld-agent bench``: measure the README's claims on this machine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ld_agent.program import print_json

app = typer.Typer(help="Measure speed and memory on this machine.", no_args_is_help=True)
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")]
ConfigOption = Annotated[
    str | None, typer.Option("--config", "-c", help="A config file, or the name of a shipped one.")
]
Overrides = Annotated[list[str] | None, typer.Argument(help="Config overrides.", metavar="[KEY=VALUE]...")]


@app.command()
def recall(overrides: Overrides = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Time recall over 1,000, 10,000 and 100,000 events of one conversation, and measure the index size.

    Example:

      ld-agent bench recall
    """
    from ld_agent.config import greedy_config
    from ld_agent.evaluation.bench import bench_recall

    _show(bench_recall(greedy_config(config, overrides or [])), as_json)


@app.command()
def turn(
    overrides: Overrides = None,
    config: ConfigOption = None,
    growth: Annotated[
        bool,
        typer.Option("--growth", help="Instead, measure turns and reopening from 1,000 to 1,000,000 utterances."),
    ] = False,
    memory: Annotated[
        bool,
        typer.Option(
            "--memory", help="Instead, measure peak memory of the model and of an agent, and the model's speed."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Time a whole turn at 10,000 events, generation compared with plain float32 generate(), startup, and adapters.

    Examples:

      ld-agent bench turn --json

      ld-agent bench turn --growth

      ld-agent bench turn --memory -c qwen3-0.6b backbone.model=model.gguf
    """
    from ld_agent.config import greedy_config

    settings = greedy_config(config, overrides or [])
    if growth:
        from ld_agent.evaluation.bench_growth import bench_growth

        _show(bench_growth(settings), as_json)
        return
    if memory:
        from ld_agent.evaluation.bench_memory import bench_memory

        _show(bench_memory(settings), as_json)
        return
    from ld_agent.evaluation.bench import bench_turn

    _show(bench_turn(settings), as_json)


@app.command()
def serve(
    overrides: Overrides = None,
    config: ConfigOption = None,
    real: Annotated[
        bool, typer.Option("--real", help="Answer with the configured model instead of a scripted one.")
    ] = False,
    requests: Annotated[int, typer.Option("--requests", min=1, help="Number of messages per client.")] = 20,
    soak: Annotated[
        float | None,
        typer.Option(
            "--soak", min=1, metavar="SECONDS", help="Instead, measure growth of memory and open files under load."
        ),
    ] = None,
    people: Annotated[
        list[int] | None,
        typer.Option(
            "--people", min=1, metavar="N", help="Instead, time requests with N people in the store; may be repeated."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Time chat completions over HTTP with 1, 8 and 32 clients, one of them with 10,000 events in memory.

    Examples:

      ld-agent bench serve

      ld-agent bench serve --real --requests 5 --json

      ld-agent bench serve --soak 900 --json

      ld-agent bench serve --people 100 --people 10000
    """
    from ld_agent.config import greedy_config

    settings = greedy_config(config, overrides or [])
    if soak is not None:
        from ld_agent.server.bench_soak import bench_soak

        _show(bench_soak(settings, soak), as_json)
        return
    if people:
        from ld_agent.server.bench_people import bench_people

        _show(bench_people(settings, people), as_json)
        return
    from ld_agent.server.bench import bench_serve

    _show(bench_serve(settings, real=real, requests=requests), as_json)


@app.command()
def training(
    overrides: Overrides = None,
    config: ConfigOption = None,
    steps: Annotated[int, typer.Option(min=2, help="Optimizer steps per recipe; use 50 to compare losses.")] = 8,
    as_json: JsonOption = False,
) -> None:
    """Tune the base with our recipe, with plain PEFT and Trainer, and with TRL; compare tokens per second, memory and
    loss.

    Example:

      ld-agent bench training --json
    """
    from ld_agent.config import greedy_config
    from ld_agent.evaluation.bench_training import bench_training

    _show(bench_training(greedy_config(config, overrides or []), steps), as_json)


@app.command()
def views(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DATA] [KEY=VALUE]...", help="A file of conversations, and config overrides."),
    ] = None,
    config: ConfigOption = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Play only the first N conversations.")] = None,
    chosen: Annotated[
        list[str] | None, typer.Option("--view", help="Only this mechanism, or several joined by +; may be repeated.")
    ] = None,
    width: Annotated[int, typer.Option("--batch", min=1, help="Number of conversations played concurrently.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Play the same conversations with each memory mechanism: calls, tokens, seconds and stored bytes per turn.

    Example:

      ld-agent bench views msc/session_3/valid.txt --limit 20 --view recursive --view conditional+summary
    """
    from pathlib import Path

    from ld_agent.config import greedy_config
    from ld_agent.evaluation.bench_views import bench_views

    given = list(arguments or [])
    source = Path(given.pop(0)) if given and ("=" not in given[0] or Path(given[0]).exists()) else None
    _show(bench_views(greedy_config(config, given), source, limit, chosen or (), width), as_json)


@app.command()
def population(
    overrides: Overrides = None,
    config: ConfigOption = None,
    store: Annotated[str | None, typer.Option("--store", help="The postgresql:// address of a superuser.")] = None,
    people: Annotated[
        list[int] | None,
        typer.Option("--people", min=1, help="Number of people to load before measuring; may be repeated."),
    ] = None,
    asked: Annotated[int, typer.Option("--asked", min=1, help="Number of people sampled per measurement.")] = 200,
    as_json: JsonOption = False,
) -> None:
    """Load a synthetic population into PostgreSQL and time recall, a turn and the end of a session.

    Example:

      ld-agent bench population --store postgresql://localhost/bench --people 1000 --people 20000
    """
    from ld_agent.config import greedy_config
    from ld_agent.evaluation.bench_population import bench_population

    given = [*(overrides or []), *([f"store.path={store}"] if store else [])]
    _show(bench_population(greedy_config(config, given), sorted(people or [1000]), asked), as_json)


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    from rich.table import Table

    from ld_agent.cli.show import console

    for name, value in result.items():
        if isinstance(value, list):
            table = Table(title=name, title_justify="left", box=None, padding=(0, 1), header_style="dim")
            for heading in value[0]:
                table.add_column(heading, justify="right")
            for row in value:
                table.add_row(*(str(cell) for cell in row.values()))
            console.print(table)
        elif isinstance(value, dict):
            console.print(f"{name}: " + ", ".join(f"{k} {v}" for k, v in value.items()), markup=False)
        else:
            console.print(f"{name}: {value}", markup=False)
