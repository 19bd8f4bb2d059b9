"""Runs the scripts of this folder: one command each, with the exit codes and one-line errors of ``ld-agent``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

Lenient = Annotated[
    bool, typer.Option("--lenient", help="Skip broken records and sessions out of order, name and count them.")
]


def run_command(function: Callable[..., Any], name: str) -> NoReturn:
    """Run a function as a Typer command with the arguments of this process, and exit."""
    from ld_agent.program import run_app

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(function)
    run_app(app, f"python -m {name}", "interrupted; run the same command again")
