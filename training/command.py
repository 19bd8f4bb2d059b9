"""How the scripts of this folder run: one command each, with the exit codes and one-line errors of ``ld-agent``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def run_command(function: Callable[..., Any], name: str) -> NoReturn:
    """Run a function as a Typer command with the arguments of this process, and exit."""
    import typer

    from ld_agent.cli import run_app

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(function)
    run_app(app, f"python -m {name}", "interrupted; the same command goes on from the last checkpoint")
