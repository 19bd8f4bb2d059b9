"""The commands and their help. Heavy imports are inside the commands, so that ``--help`` is instant."""

from __future__ import annotations

import io
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ld_agent.cli import adapters, bench, doctor, ecm, evaluate, judge, memory, run, serve, statistics, tables
from ld_agent.cli.options import MaybeStore, OneConfig, Overrides, configured

TALK, MEMORY, TUNE, PAPERS = "Talk", "Memory", "Tune and evaluate", "Papers"
GROUPS = (TALK, MEMORY, TUNE, PAPERS)
"""The groups of the help, in order."""


class _InGroups(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        panels = {name: str(vars(command)["rich_help_panel"]) for name, command in self.commands.items()}
        return sorted(super().list_commands(ctx), key=lambda name: GROUPS.index(panels[name]))


app = typer.Typer(
    name="ld-agent",
    cls=_InGroups,
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from ld_agent import __version__

        typer.echo(f"ld_agent {__version__}")
        raise typer.Exit


@app.callback(epilog="Examples:\n\n  ld-agent chat --store me.db\n\n  ld-agent demo\n\n  ld-agent serve --store me.db")
def root(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Long-term dialogue agents that remember people for months. Without a command: chat."""
    if context.invoked_subcommand is not None:
        return
    if not _somebody_talks():
        typer.echo(context.get_help())
        raise typer.Exit(2)
    chat()


def _somebody_talks() -> bool:
    """Whether there is a terminal to chat on, or a line that comes from a pipe."""
    if sys.stdin is None or sys.stdin.isatty():
        return sys.stdin is not None and sys.stdout.isatty()
    lines = getattr(sys.stdin, "buffer", None)
    return isinstance(lines, io.BufferedReader) and bool(lines.peek(1))


@app.command(rich_help_panel=TALK)
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

      ld-agent chat -c qwen3-1.7b agent.name=Robin

      echo "Hi, I keep bees." | ld-agent chat --store me.db
    """
    from ld_agent.cli.chat import run_chat

    raise typer.Exit(run_chat(configured(config, store, overrides), conversation))


@app.command(rich_help_panel=TALK)
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

    run_demo(configured(config, store, overrides), why)


app.command("doctor", rich_help_panel=TALK)(doctor.doctor)
app.command("serve", rich_help_panel=TALK)(serve.serve)
app.command("mcp", rich_help_panel=TALK)(serve.mcp)
app.add_typer(serve.keys, name="keys", rich_help_panel=TALK)
app.add_typer(memory.app, name="memory", rich_help_panel=MEMORY)
app.command("run", rich_help_panel=TUNE)(run.run)
app.add_typer(evaluate.app, name="eval", rich_help_panel=TUNE)
app.add_typer(judge.app, name="judge", rich_help_panel=TUNE)
app.add_typer(bench.app, name="bench", rich_help_panel=TUNE)
app.add_typer(adapters.app, name="adapters", rich_help_panel=TUNE)
app.command("tables", rich_help_panel=PAPERS)(tables.tables)
app.command("statistics", rich_help_panel=PAPERS)(statistics.statistics)
app.add_typer(ecm.app, name="ecm", rich_help_panel=PAPERS)
