"""The commands and their help. Heavy imports are inside the commands, so that ``--help`` is instant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ld_agent.cli import (
    adapters,
    bench,
    ecm,
    evaluate,
    judge,
    memory,
    serve,
    statistics,
    tables,
    upkeep,
)
from ld_agent.cli.options import Configs, Lenient, Limit, MaybeStore, On, OneConfig, Overrides, Width

if TYPE_CHECKING:
    from ld_agent.config import Config

app = typer.Typer(
    name="ld-agent",
    help="Long-term dialogue agents that remember people for months.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
upkeep.register(memory.app)
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

    raise typer.Exit(run_chat(_config(config, store, overrides), conversation))


@app.command()
def run(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="A file of recorded conversations.")],
    overrides: Overrides = None,
    config: OneConfig = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            help="Store the memory here (a file or a postgresql:// address); interrupted runs resume. Default: not stored.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the lines here instead of standard output.")] = None,
    limit: Limit = None,
    teacher_forced: Annotated[
        bool, typer.Option("--teacher-forced", help="Store the recorded reply in memory, not the generated one.")
    ] = False,
    format_name: Annotated[
        str | None, typer.Option("--format", help="The file's format, instead of detecting it.")
    ] = None,
    skip_bad: Lenient = False,
    batch: Width = 4,
    on: On = "",
) -> None:
    """Run every conversation of a file through the agent; write one JSON line per agent turn.

    Examples:

      ld-agent run data/samples/three_sessions.jsonl --store demo.db

      ld-agent run msc/session_3/valid.txt --limit 5 --teacher-forced --out replies.jsonl memory.tau=null
    """
    from ld_agent.cli.run import run_file
    from ld_agent.datasets import LOADERS
    from ld_agent.program import lenient

    if format_name is not None and format_name not in LOADERS:
        raise typer.BadParameter(f"{format_name!r} is unknown; known: {', '.join(LOADERS)}", param_hint="--format")
    named = any(override.partition("=")[0].strip() == "store.path" for override in overrides or [])
    settings = _config(config, store if store or named else ":memory:", overrides, greedy=True)
    with lenient(skip_bad):
        run_file(
            settings,
            source,
            out=out,
            limit=limit,
            teacher_forced=teacher_forced,
            format_name=format_name,
            batch=batch,
            config_file=config,
            on=on,
        )


@app.command()
def demo(
    overrides: Overrides = None,
    config: OneConfig = None,
    store: MaybeStore = None,
) -> None:
    """Play the shipped three-session conversation and show what is recalled; a second run continues it.

    Example:

      ld-agent demo --store demo.db
    """
    from ld_agent.cli.demo import run_demo

    run_demo(_config(config, store, overrides, greedy=True))


@app.command("serve")
def serve_command(
    overrides: Overrides = None,
    config: Configs = None,
    store: MaybeStore = None,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; any but loopback requires API keys.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port to listen on; 0: any free port.")
    ] = 8321,
    as_json: Annotated[bool, typer.Option("--json", help="Log JSON lines to standard error.")] = False,
) -> None:
    """Serve the agent over HTTP: OpenAI's protocol, the memory API and a page to inspect memory.

    Examples:

      ld-agent serve --store me.db

      ld-agent serve -c default -c qwen3-0.6b --store me.db --host 0.0.0.0
    """
    from ld_agent.cli.evaluate import names_of

    chosen = config or ["default"]
    configs = dict(zip(names_of(chosen), (_config(one, store, overrides) for one in chosen), strict=True))
    serve.run_serve(configs, host, port, as_json)


@app.command("mcp")
def mcp_command(
    overrides: Overrides = None,
    config: OneConfig = None,
    store: MaybeStore = None,
    person: Annotated[str, typer.Option("--person", help="The person for calls that name none.")] = "me",
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65535, help="Serve HTTP on this loopback port instead of standard input and output."
        ),
    ] = None,
) -> None:
    """Offer the memory to assistants over the Model Context Protocol: remember, recall, about, forget.

    Examples:

      ld-agent mcp --store me.db --person ann

      ld-agent mcp --store me.db --port 8322
    """
    serve.run_mcp(_config(config, store, overrides), person, port)


def _config(config: str | None, store: str | None, overrides: list[str] | None, *, greedy: bool = False) -> Config:
    from ld_agent.config import greedy_config, load_config

    settings = (greedy_config if greedy else load_config)(config, overrides or [])
    return settings if store is None else settings.changed(store={"path": store})
