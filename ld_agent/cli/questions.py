"""``ld-agent eval questions``: does the agent use what it remembers? Prints; decides nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from ld_agent.cli.runs import Configs, Data, Json, Limit, Out, Overrides, Overwrite, carry_out


def register(app: typer.Typer) -> None:
    """Add the command to ``ld-agent eval``."""
    app.command()(questions)


def questions(
    data: Data,
    overrides: Overrides = None,
    config: Configs = None,
    limit: Limit = None,
    as_json: Json = False,
    out: Out = None,
    overwrite: Overwrite = False,
    free: Annotated[
        bool, typer.Option("--free", help="The agent's own replies enter its memory, not the recorded ones.")
    ] = False,
    arms: Annotated[
        bool,
        typer.Option(
            "--arms/--no-arms",
            help="Ask each question also with nothing remembered, the whole history, and the answer handed over.",
        ),
    ] = True,
) -> None:
    """Ask about what was said weeks before: answered, F1, unknown_right, and where answers were lost.

    Examples:

      ld-agent eval questions data/samples/questions.jsonl --out runs/questions

      ld-agent eval questions locomo10.json --limit 1 --no-arms -c default -c none --json
    """
    from ld_agent.evaluation.questions import QuestionsTask

    carry_out(
        lambda settings: QuestionsTask(data, limit, free, arms), data, overrides, config, limit, as_json, out, overwrite
    )
