"""``ld-agent eval annotate`` and ``marks``: people mark which memories are relevant to a query, and every scorer is compared with
them (LD-Agent, Figure 3a). Only reads and prints.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ld_agent.cli.memory import agent_on
from ld_agent.cli.options import At, Conversation, Json, OneConfig, Overrides, Store
from ld_agent.program import print_json

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
    from ld_agent.evaluation.judging.annotation import add_mark, candidates, new_mark
    from ld_agent.storage.address import shown as path_shown
    from ld_agent.types import utc

    count = 0
    with agent_on(store, config, overrides) as agent:
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
    from ld_agent.cli.show import console, figure, figures_table
    from ld_agent.evaluation.judging.annotation import agreement, load_marks

    loaded = load_marks(marks)
    with agent_on(store, config, overrides) as agent:
        result = agreement(agent, loaded)
    if as_json:
        print_json(result)
        return
    console.print(f"{result['queries']} queries, {result['records']} records looked at, k = {result['k']}")
    rows = [[name, *map(figure, figures.values())] for name, figures in result["scorers"].items()]
    console.print(figures_table("", ["scorer", "accuracy", "recall", "precision"], rows))


def _line(prompt: str) -> str:
    if sys.stdin.isatty():
        sys.stderr.write(prompt)
        sys.stderr.flush()
    return sys.stdin.readline()
