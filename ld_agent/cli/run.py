"""``ld-agent run``: plays the conversations of a file and writes one JSON line per agent turn."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TextIO

from ld_agent.agent import Agent
from ld_agent.cli.show import say
from ld_agent.config import Config
from ld_agent.datasets import iter_episodes, load_episodes
from ld_agent.datasets.base import Episode
from ld_agent.errors import InputError
from ld_agent.evaluation.fallbacks import MARK, REPLY, Counts, footnote, in_words, merged, of_memory, of_reply
from ld_agent.files import check_output, drop_unfinished_line
from ld_agent.running.on_ray import check_not_launched, play_on_ray
from ld_agent.running.replay import PlayedTurn, replay
from ld_agent.storage.address import shown
from ld_agent.terminal import LongWork, bars

FIRST_BYTES = b'{"conversation": '
"""The beginning of every run's output."""


def run_file(
    config: Config,
    source: Path,
    out: Path | None,
    limit: int | None,
    teacher_forced: bool,
    format_name: str | None,
    batch: int,
    config_file: str | None = None,
    on: str = "",
) -> None:
    """Play a file; see ``ld-agent run --help``.

    Args:
        config_file: the config file, which ``out`` must not overwrite; None or a shipped name: no file.
        on: "ray": play on a Ray cluster.
    """
    check_not_launched("ld-agent run")
    if out is not None:
        check_output(out, (source, config_file), config.store.path)
        _check_foreign(out)
    if on:
        read = partial(iter_episodes, source, format_name, limit=limit)
        _run_on_ray(config, read, source, out, teacher_forced, batch)
        return
    episodes = load_episodes(source, format_name, limit=limit)
    if not episodes:
        raise _nothing_in(source)
    with Agent(config) as agent:
        resumed = any(agent.store.find_conversation(e.id) for e in episodes)
        replies = _played(agent, episodes, out, resumed, teacher_forced, batch)
        _say_fallbacks(agent, episodes, replies)
    if resumed and not replies:
        say(f"nothing was left to play: {shown(config.store.path)} already contains these conversations")


def _nothing_in(source: Path) -> InputError:
    return InputError(f"{source} contains no conversation to play; see data/README.md for the formats")


def _played(
    agent: Agent, episodes: Sequence[Episode], out: Path | None, resumed: bool, teacher_forced: bool, batch: int
) -> list[Counts]:
    """Play the conversations, write their lines and return what each reply counted as fallbacks."""
    replies: list[Counts] = []
    total = sum(sum(1 for turn in e.turns if turn.speaker == e.agent) for e in episodes)
    with ExitStack() as stack:
        lines = _opened(out, resumed, stack)
        # hidden if the lines go to the same terminal, because they show progress too
        progress = stack.enter_context(bars(shown=out is not None or not sys.stdout.isatty()))
        agent.resources.progress = LongWork(progress)
        task = progress.add_task("loading the models", total=total)

        def emit(turn: PlayedTurn) -> None:
            replies.append(of_reply(turn.reply))
            lines.write(turn_line(turn) + "\n")
            lines.flush()
            progress.update(task, advance=1, description=f"{turn.conversation}, session {turn.session}")

        try:
            for _ in replay(agent, episodes, emit, teacher_forced=teacher_forced, width=batch):
                pass
        except KeyboardInterrupt:
            kept = agent.config.store.path != ":memory:"
            say(
                "interrupted; run the same command again to resume"
                if kept
                else "interrupted; with --store FILE the same command would resume where it stopped"
            )
            raise
    return replies


def turn_line(turn: PlayedTurn) -> str:
    """The line of a turn, without line break."""
    return json.dumps(turn.as_json() | {REPLY: of_reply(turn.reply)}, ensure_ascii=False)


def _run_on_ray(
    config: Config,
    episodes: Callable[[], Iterator[Episode]],
    source: Path,
    out: Path | None,
    teacher_forced: bool,
    batch: int,
) -> None:
    if out is None:
        raise InputError("--on ray writes a file; give --out FILE")
    if config.store.path != ":memory:":
        raise InputError(
            "--on ray stores no memory, because conversations of killed workers are replayed; omit --store"
        )
    with bars() as progress:
        task = progress.add_task("playing on Ray", total=None)

        def counted(total: int) -> None:
            if not total:
                raise _nothing_in(source)
            progress.update(task, total=total)

        play_on_ray(
            config,
            episodes,
            out,
            turn_line,
            teacher_forced=teacher_forced,
            batch=batch,
            counted=counted,
            advanced=lambda count: progress.update(task, advance=count),
        )


def _say_fallbacks(agent: Agent, episodes: Sequence[Episode], replies: Sequence[Counts]) -> None:
    """Report how often the mechanisms fell back, in the replies of this run and in the whole memory."""
    stored = [agent.store.find_conversation(episode.id) for episode in episodes]
    counts = merged([*(of_memory(agent.store, one.key) for one in stored if one is not None), *replies])
    if any(failed for failed, _ in counts.values()):
        say(f"fallbacks: {in_words(counts)}")
    if note := footnote(counts):
        say(f"{MARK} {note}")


def _opened(out: Path | None, resumed: bool, stack: ExitStack) -> TextIO:
    if out is None:
        return sys.stdout
    try:
        if resumed and out.is_file() and drop_unfinished_line(out):
            say(f"{out}: its last line was incomplete and has been removed; the turn itself is in the store")
        return stack.enter_context(out.open("a" if resumed else "w", encoding="utf-8", errors="replace", newline="\n"))
    except OSError as exc:
        raise InputError(f"--out {out} cannot be written ({exc.strerror}); give a file in a writable folder") from exc


def _check_foreign(out: Path) -> None:
    """Refuse to overwrite or continue a file not written by a run.

    Raises:
        InputError: the file was not written by a run.
    """
    if not out.is_file():
        return
    with out.open("rb") as file:
        start = file.read(len(FIRST_BYTES))
    if not FIRST_BYTES.startswith(start):
        raise InputError(f"--out {out} exists and was not written by a run; give another file, or delete it first")
