"""``ld-agent run``: plays the conversations of a file and writes a JSON line for each turn of the agent."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ld_agent.agent import Agent
from ld_agent.cli.show import errors
from ld_agent.config import Config
from ld_agent.datasets import load_episodes
from ld_agent.errors import DataFileError, InputError
from ld_agent.replay import PlayedTurn, replay


def run_file(
    config: Config,
    source: Path,
    out: Path | None,
    limit: int | None,
    teacher_forced: bool,
    format_name: str | None,
    skip_bad: bool,
    batch: int,
) -> None:
    """Play a file; see ``ld-agent run --help``."""
    skipped: list[DataFileError] = []
    episodes = load_episodes(source, format_name, limit=limit, on_bad=skipped.append if skip_bad else None)
    for problem in skipped:
        errors.print(f"skipped: {problem}", markup=False)
    if not episodes:
        raise InputError(f"{source} holds no conversation that can be played; see data/README.md for the formats")
    total = sum(sum(1 for turn in e.turns if turn.speaker == e.agent) for e in episodes)
    with ExitStack() as stack:
        agent = stack.enter_context(Agent(config))
        resumed = any(agent.store.find_conversation(e.id) for e in episodes)
        lines = _opened(out, resumed, stack)
        progress = stack.enter_context(
            Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=errors,
                disable=not errors.is_terminal,
            )
        )
        task = progress.add_task("loading the models", total=total)

        def emit(turn: PlayedTurn) -> None:
            lines.write(json.dumps(turn.as_json(), ensure_ascii=False) + "\n")
            lines.flush()
            progress.update(task, advance=1, description=f"{turn.conversation}, session {turn.session}")

        for _ in replay(agent, episodes, emit, teacher_forced=teacher_forced, width=batch):
            pass


def _opened(out: Path | None, resumed: bool, stack: ExitStack) -> TextIO:
    if out is None:
        return sys.stdout
    try:
        return stack.enter_context(out.open("a" if resumed else "w", encoding="utf-8"))
    except OSError as exc:
        raise InputError(f"--out {out} cannot be written ({exc.strerror}); give a file in a writable folder") from exc
