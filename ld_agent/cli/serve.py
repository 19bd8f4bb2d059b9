"""``ld-agent serve``, ``mcp`` and ``keys``: the servers and their API keys."""

from __future__ import annotations

import importlib.util
import re
import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer

from ld_agent.cli.evaluate import names_of
from ld_agent.cli.opened import agent_of
from ld_agent.cli.options import Configs, MaybeStore, OneConfig, Overrides, Store, configured
from ld_agent.cli.show import console, figures_table, plain, say
from ld_agent.errors import ConfigError, InputError
from ld_agent.storage.opening import existing_store, open_store

keys = typer.Typer(help="Create, list and revoke the API keys of a server.", no_args_is_help=True)

TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


def serve(
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
    """Serve the agent over HTTP: OpenAI's protocol, the memory API, and a page to talk and see the memory.

    Examples:

      ld-agent serve --store me.db

      ld-agent serve -c default -c qwen3-1.7b --store me.db --host 0.0.0.0
    """
    require_extra("server", ("fastapi", "uvicorn"))
    from ld_agent.server.run import serve as run_server

    chosen = config or ["default"]
    configs = dict(zip(names_of(chosen), (configured(one, store, overrides) for one in chosen), strict=True))
    run_server(configs, host, port, as_json)


def mcp(
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
    """Offer the memory to assistants over the Model Context Protocol: remember, recall, correct, forget.

    Examples:

      ld-agent mcp --store me.db --person ann

      ld-agent mcp --store me.db --port 8322
    """
    require_extra("mcp", ("mcp", "fastapi"))
    import asyncio
    import logging

    from ld_agent.server.mcp_tools import memory_server

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    with agent_of(configured(config, store, overrides), background=True) as agent:
        server = memory_server(agent, person)
        asyncio.run(server.run_stdio_async() if port is None else server.run_streamable_http_async(port=port))


def require_extra(extra: str, packages: tuple[str, ...]) -> None:
    """Say what to install if a package of an extra is missing."""
    if missing := [package for package in packages if importlib.util.find_spec(package) is None]:
        raise ConfigError(f"this command needs {', '.join(missing)}; run: pip install 'ld_agent[{extra}]'")


@keys.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tenant: lower-case letters, digits, '.', '_', '-'.")],
    store: Store,
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help="chat, memory or admin; may be repeated. Default: chat, memory.")
    ] = None,
    rate: Annotated[
        int | None, typer.Option("--rate", min=1, help="Requests per minute. Default: server.rate.")
    ] = None,
) -> None:
    """Create a key and print it; it is not shown again. Keys of one tenant see the same people; tenants are isolated
    from each other.

    Examples:

      ld-agent keys create home --store me.db

      ld-agent keys create dashboard --store me.db --scope memory --rate 60
    """
    from ld_agent.storage.served import PREFIX_LENGTH, Keys

    if not TENANT.fullmatch(name):
        raise InputError(f"{name!r} is not a tenant's name; use 1 to 63 of a-z, 0-9, '.', '_' and '-'")
    with closing(open_store(store)) as opened:
        key = Keys(opened).create(name, scope or ["chat", "memory"], rate, datetime.now(UTC))
    sys.stdout.write(key + "\n")
    say(
        f"created a key for {name}; it is not shown again. {key[:PREFIX_LENGTH]} is its prefix, for `ld-agent keys revoke`"
    )


@keys.command("list")
def list_command(store: Store) -> None:
    """List the keys of a store, by prefix.

    Example:

      ld-agent keys list --store me.db
    """
    from ld_agent.storage.served import Keys

    stored = Keys(existing_store(store)).all()
    heads = ["prefix", "tenant", "scopes", "a minute", "made", "revoked"]
    rows = []
    for key in stored:
        days = [f"{at:%Y-%m-%d}" if at else "" for at in (key.created, key.revoked)]
        rate = "default" if key.rate is None else str(key.rate)
        rows.append([plain(cell) for cell in (key.prefix, key.tenant, " ".join(key.scopes), rate, *days)])
    nothing = "no keys; the server answers only on its own machine"
    console.print(figures_table("", heads, rows, left=len(heads)) if rows else nothing)


@keys.command()
def revoke(
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="The key's prefix, as shown by `keys list`.")],
    store: Store,
) -> None:
    """Revoke a key; a running server rejects it from the next request on.

    Example:

      ld-agent keys revoke lda_1f2e3d4c --store me.db
    """
    from ld_agent.storage.served import Keys

    key = Keys(existing_store(store)).revoke(prefix, datetime.now(UTC))
    say(f"revoked {key.prefix} of {key.tenant}")
