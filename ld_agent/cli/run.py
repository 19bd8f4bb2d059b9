"""``ld-agent run``: plays the conversations of a file and writes one JSON line per agent turn."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from ld_agent.cli.options import Lenient, Limit, On, OneConfig, Overrides, Width, configured
from ld_agent.cli.show import say
from ld_agent.datasets import Episode, iter_episodes, loader
from ld_agent.errors import InputError
from ld_agent.files import check_output, drop_unfinished_line
from ld_agent.program import lenient
from ld_agent.running.terminal import LongWork, bars
from ld_agent.storage.address import shown

if TYPE_CHECKING:
    from ld_agent.agent import Agent
    from ld_agent.config import Config
    from ld_agent.evaluation.fallbacks import Counts
    from ld_agent.running.replay import PlayedTurn

FIRST_BYTES = b'{"conversation": '
"""The beginning of every run's output."""
KeptStore = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="Store the memory here (a file or a postgresql:// address); interrupted runs resume. Default: not stored.",
    ),
]


def run(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="A file of recorded conversations.")],
    overrides: Overrides = None,
    config: OneConfig = None,
    store: KeptStore = None,
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

      ld-agent run data/samples/msc_session_3.txt --limit 5 --teacher-forced --out replies.jsonl memory.tau=null
    """
    from ld_agent.running.on_ray import check_not_launched

    if format_name is not None:
        loader(format_name, "--format")
    named = any(override.partition("=")[0].strip() == "store.path" for override in overrides or [])
    settings = configured(config, store if store or named else ":memory:", overrides, greedy=True)
    check_not_launched("ld-agent run")
    if out is not None:
        check_output(out, (source, config), settings.store.path)
        _check_foreign(out)
    with lenient(skip_bad):
        episodes = partial(iter_episodes, source, format_name, limit=limit)
        if next(episodes(), None) is None:
            raise InputError(f"{source} contains no conversation to play; see data/README.md for the formats")
        if on:
            _run_on_ray(settings, episodes, out, teacher_forced, batch)
        else:
            _run_here(settings, list(episodes()), out, teacher_forced, batch)


def _run_here(config: Config, episodes: Sequence[Episode], out: Path | None, teacher_forced: bool, batch: int) -> None:
    from ld_agent.agent import Agent

    with Agent(config) as agent, ExitStack() as stack:
        resumed = any(agent.store.find_conversation(e.id) for e in episodes)
        lines = _opened(out, resumed, stack)
        replies = _played(agent, episodes, lines, teacher_forced, batch)
        _say_fallbacks(agent, episodes, replies)
    if resumed and not replies:
        say(f"nothing was left to play: {shown(config.store.path)} already contains these conversations")


def _played(agent: Agent, episodes: Sequence[Episode], lines: TextIO, teacher_forced: bool, batch: int) -> list[Counts]:
    """Play the conversations, write their lines and return what each reply counted as fallbacks."""
    from ld_agent.evaluation.fallbacks import of_reply
    from ld_agent.running.replay import replay

    replies: list[Counts] = []
    total = sum(sum(1 for turn in e.turns if turn.speaker == e.agent) for e in episodes)
    # hidden if the lines go to the same terminal, because they show progress too
    with bars(shown=lines is not sys.stdout or not sys.stdout.isatty()) as progress:
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
            not_kept = "with --store FILE the same command would resume where it stopped"
            say(f"interrupted; {'run the same command again to resume' if kept else not_kept}")
            raise
    return replies


def turn_line(turn: PlayedTurn) -> str:
    """The line of a turn, without line break."""
    from ld_agent.evaluation.fallbacks import REPLY, of_reply

    return json.dumps(turn.as_json() | {REPLY: of_reply(turn.reply)}, ensure_ascii=False)


def _run_on_ray(
    config: Config, episodes: Callable[[], Iterator[Episode]], out: Path | None, teacher_forced: bool, batch: int
) -> None:
    from ld_agent.running.on_ray import play_on_ray

    if out is None:
        raise InputError("--on ray writes a file; give --out FILE")
    if config.store.path != ":memory:":
        raise InputError(
            "--on ray stores no memory, because conversations of killed workers are replayed; omit --store"
        )
    with bars() as progress:
        task = progress.add_task("playing on Ray", total=None)
        play_on_ray(
            config,
            episodes,
            out,
            turn_line,
            teacher_forced=teacher_forced,
            batch=batch,
            counted=lambda total: progress.update(task, total=total),
            advanced=lambda count: progress.update(task, advance=count),
        )


def _say_fallbacks(agent: Agent, episodes: Sequence[Episode], replies: Sequence[Counts]) -> None:
    """Report how often the mechanisms fell back, in the replies of this run and in the whole memory."""
    from ld_agent.evaluation.fallbacks import MARK, footnote, in_words, merged, of_memory, of_models

    stored = [agent.store.find_conversation(episode.id) for episode in episodes]
    memories = [of_memory(agent.store, one.key) for one in stored if one is not None]
    counts = merged([*memories, *replies, of_models(agent.models)])
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
    """Refuse to overwrite or continue a file not written by a run."""
    if not out.is_file():
        return
    with out.open("rb") as file:
        start = file.read(len(FIRST_BYTES))
    if not FIRST_BYTES.startswith(start):
        raise InputError(f"--out {out} exists and was not written by a run; give another file, or delete it first")
