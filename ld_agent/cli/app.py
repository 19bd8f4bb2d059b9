"""The commands and their help. Heavy imports are inside the commands, so that ``--help`` is instant."""

from __future__ import annotations

from typing import Annotated

import typer

from ld_agent.cli import (
    adapters,
    bench,
    ecm,
    evaluate,
    judge,
    memory,
    run,
    serve,
    statistics,
    tables,
)
from ld_agent.cli.options import MaybeStore, OneConfig, Overrides, configured

app = typer.Typer(
    name="ld-agent",
    help="Long-term dialogue agents that remember people for months.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(memory.app, name="memory")
app.add_typer(bench.app, name="bench")
app.add_typer(evaluate.app, name="eval")
app.add_typer(ecm.app, name="ecm")
app.add_typer(judge.app, name="judge")
app.command("tables")(tables.tables)
app.command("statistics")(statistics.statistics)
app.add_typer(serve.keys, name="keys")
app.add_typer(adapters.app, name="adapters")


def _version(wanted: bool) -> None:
    if wanted:
        from ld_agent import __version__

        typer.echo(f"ld_agent {__version__}")
        raise typer.Exit


@app.callback(epilog="Example: ld-agent chat --store me.db")
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Long-term dialogue agents that remember people for months."""


@app.command()
def chat(
    overrides: Overrides = None,
    config: OneConfig = None,
    store: MaybeStore = None,
    conversation: Annotated[
        str, typer.Option("--conversation", help="The id of the conversation to start or continue.")
    ] = "chat",
) -> None:
    """Chat with the agent, which remembers. Type /help for commands. Lines may come from a pipe.

    Examples:

      ld-agent chat --store me.db --conversation maya

      ld-agent chat -c qwen3-0.6b agent.name=Robin

      echo "Hi, I keep bees." | ld-agent chat --store me.db
    """
    from ld_agent.cli.chat import run_chat

    raise typer.Exit(run_chat(configured(config, store, overrides), conversation))


app.command("run")(run.run)


@app.command()
def demo(
    overrides: Overrides = None,
    config: OneConfig = None,
    store: MaybeStore = None,
    why: Annotated[bool, typer.Option("--why", help="Show the numbers behind each reply.")] = False,
) -> None:
    """Play the shipped three-session conversation and show what is remembered; a second run continues it.

    Example:

      ld-agent demo --store demo.db --why
    """
    from ld_agent.cli.demo import run_demo

    run_demo(configured(config, store, overrides, greedy=True), why)


app.command("serve")(serve.serve)
app.command("mcp")(serve.mcp)
