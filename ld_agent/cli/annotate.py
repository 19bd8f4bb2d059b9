"""``ld-agent eval annotate`` and ``marks``: people mark which memories are relevant to a query, and every scorer is compared with
them (LD-Agent, Figure 3a). Only reads and prints.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ld_agent.cli.options import At, Conversation, Json, OneConfig, Overrides, Store
from ld_agent.program import print_json

if TYPE_CHECKING:
    from ld_agent.agent import Agent

Marks = Annotated[Path, typer.Argument(metavar="MARKS", help="The JSON-lines file of marks.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``ld-agent eval``."""
    app.command()(annotate)
    app.command()(marks)


def annotate(
    marks: Marks,
    store: Store,
    conversation: Conversation,
    overrides: Overrides = None,
    at: At = None,
    config: OneConfig = None,
) -> None:
    """Mark which memories are relevant to queries, typed or read from a pipe.

    After a query, enter the numbers of the relevant memories; an empty line marks none. An empty query ends.

    Example:

      ld-agent eval annotate marks.jsonl --store me.db --conversation maya
    """
    from ld_agent.cli.show import console, day, plain, say
    from ld_agent.errors import InputError
    from ld_agent.evaluation.annotation import add_mark, candidates, new_mark
    from ld_agent.storage.address import shown as path_shown
    from ld_agent.types import utc

    agent = _agent(store, config, overrides)
    count = 0
    try:
        when = agent.clock() if at is None else utc(at)
        while query := _line("query> ").strip():
            shown = candidates(agent, conversation, query, when)
            if not shown:
                say("there are no memories to mark")
                continue
            for number, record in enumerate(shown, 1):
                console.print(plain(f"{number:3}  {day(record)}  {record.text}"))
            while True:
                try:
                    mark = new_mark(conversation, query, when, shown, _line("relevant> "))
                    break
                except InputError as exc:
                    say(str(exc))
                    if not sys.stdin.isatty():
                        raise
            add_mark(marks, mark)
            count += 1
    finally:
        agent.close(end_sessions=False)
    say(
        f"{count} quer{'y' if count == 1 else 'ies'} marked in {marks}; score them with "
        f"`ld-agent eval marks {marks} --store {path_shown(store)}`"
    )


def marks(
    marks: Marks,
    store: Store,
    overrides: Overrides = None,
    config: OneConfig = None,
    as_json: Json = False,
) -> None:
    """Compare every scorer with human marks: accuracy and recall.

    Example:

      ld-agent eval marks marks.jsonl --store me.db --json
    """
    from rich.table import Table

    from ld_agent.cli.show import console
    from ld_agent.evaluation.annotation import agreement, load_marks

    loaded = load_marks(marks)
    agent = _agent(store, config, overrides)
    try:
        result = agreement(agent, loaded)
    finally:
        agent.close(end_sessions=False)
    if as_json:
        print_json(result)
        return
    console.print(f"{result['queries']} queries, {result['records']} records looked at, k = {result['k']}")
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("scorer", "accuracy", "recall", "precision"):
        table.add_column(heading, justify="left" if heading == "scorer" else "right")
    for name, figures in result["scorers"].items():
        table.add_row(name, *("–" if value is None else f"{value:.3f}" for value in figures.values()))
    console.print(table)


def _agent(store: str, config: str | None, overrides: list[str] | None) -> Agent:
    from ld_agent.agent import Agent
    from ld_agent.config import load_config
    from ld_agent.storage.opening import existing_store

    existing_store(store).close()
    return Agent(load_config(config, overrides or []).changed(store={"path": store}))


def _line(prompt: str) -> str:
    if sys.stdin.isatty():
        sys.stderr.write(prompt)
        sys.stderr.flush()
    return sys.stdin.readline()
