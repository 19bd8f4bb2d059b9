"""``ld-agent memory export`` and ``import``: of JSON lines, Markdown folders, and histories that other programs export."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import tzinfo
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ld_agent.cli import options
from ld_agent.cli.opened import agent_of, agent_on, confirmed, the_only
from ld_agent.cli.options import MaybeConversation, OneConfig, Overrides, Store
from ld_agent.cli.show import say
from ld_agent.config import Config, load_config
from ld_agent.datasets.exports import FORMATS, Export, Message, format_of, read
from ld_agent.errors import DataFileError, InputError, LDAgentError
from ld_agent.files import check_output, written_atomically
from ld_agent.running.history import Imported, People, check_same_chat, correct_edited, plan, store_history
from ld_agent.running.terminal import bars, errors
from ld_agent.storage.address import is_address, shown
from ld_agent.storage.exchange import export_lines, found_conversation, import_into
from ld_agent.storage.folder import changes, contents, conversation_of, is_folder, rewrite_folder, write_folder
from ld_agent.storage.opening import existing_store, open_store
from ld_agent.storage.store import Store as MemoryStore
from ld_agent.types import checked_name, name_key

OWN = b"ld_agent.memory"
"""What the first line of the project's own exports says."""
SHOWN_EVERY = 500
MANY = 1000
"""Messages from which learning takes so long that it is worth an estimate."""
NAMED = 12
"""People and chats that a summary names."""


def export(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file or folder to write; - for standard output.")],
    store: Store,
    conversation: MaybeConversation = None,
    form: Annotated[
        Literal["jsonl", "markdown"],
        typer.Option(
            "--format", help="markdown: one conversation as a folder to read and edit, which `import` reads back."
        ),
    ] = "jsonl",
) -> None:
    """Export all utterances and memories as JSON lines or Markdown.

    Examples:

      ld-agent memory export maya.jsonl --store me.db --conversation maya

      ld-agent memory export maya --format markdown --store me.db --conversation maya
    """
    opened = existing_store(store)
    if form == "markdown":
        count = write_folder(opened, the_only(opened, conversation), out)
        say(f"wrote {count} files into {out}")
        return
    if str(out) == "-":
        for line in export_lines(opened, conversation):
            sys.stdout.write(line + "\n")
        return
    check_output(out, store=store)
    with written_atomically(out) as lines:
        for line in export_lines(opened, conversation):
            lines.write(line + "\n")


def import_command(
    source: options.Source,
    store: Store,
    overrides: Overrides = None,
    origin: options.Origin = None,
    me: options.Me = None,
    conversation: options.TakesIn = None,
    timezone: options.Zone = None,
    dry_run: options.Dry = False,
    yes: options.Yes = False,
    config: OneConfig = None,
) -> None:
    """Import an export of this program, the edits to a Markdown folder, or what is new in the history of another program.

    Examples:

      ld-agent memory import maya.jsonl --store other.db

      ld-agent memory import "WhatsApp Chat - Ann.zip" --store me.db --conversation maya --me Maya --dry-run
    """
    if not source.exists():
        raise InputError(f"no file {source}; give an export of `ld-agent memory export`, or of {', '.join(FORMATS)}")
    if not origin and is_folder(source):
        import_folder(source, store, conversation, config, overrides, dry=dry_run, yes=yes)
        return
    conversation = conversation or "chat"
    settings = load_config(config, overrides or [])
    if source.is_dir() or origin or not is_own(source):
        import_history(source, store, conversation, origin, settings, me=me, timezone=timezone, dry=dry_run)
        return
    options_given = {"--dry-run": dry_run, "--me": me, "--conversation": conversation != "chat", "--timezone": timezone}
    if unfit := [name for name, given in options_given.items() if given]:
        raise InputError(
            f"{source} is not another program's history, so it is imported whole, under the names it has; "
            f"leave out {', '.join(unfit)}"
        )
    count = import_into(store, source, settings.store.redact)
    say(f"imported {count} conversation{'' if count == 1 else 's'} into {shown(store)}")


def import_folder(
    source: Path,
    store: str,
    conversation: str | None,
    config: str | None,
    overrides: list[str] | None,
    *,
    dry: bool,
    yes: bool,
) -> None:
    """Show what a human changed in a folder, carry it out once that is confirmed, and write the folder again."""
    from ld_agent.revising.from_folder import carry_out

    with agent_on(store, config, overrides) as agent:
        stored = found_conversation(agent.store, conversation or conversation_of(source))
        changed = changes(agent.store, stored, source)
        for line in changed.listed(contents(agent.store, stored.key)):
            say(line)
        if not changed:
            say(f"nothing was changed in {source}")
        if dry or not changed:
            return
        confirmed(yes, f"Change the memory of {stored.id!r} so?", "nothing was changed")
        carry_out(agent.conversation(stored.id, agent_name=stored.agent, resume=False), changed)
        rewrite_folder(agent.store, stored, source)
    say(f"changed {len(changed)} lines; {source} is up to date")


def is_own(source: Path) -> bool:
    """Whether a file is an export of `ld-agent memory export`, or nothing that could be a history."""
    try:
        with source.open("rb") as file:
            start = file.read(200)
    except OSError as exc:
        raise InputError(f"{source} cannot be read: {exc.strerror}; check the path and its permissions") from exc
    return OWN in start or not start.strip()


def import_history(
    source: Path,
    store: str,
    conversation: str,
    format: str | None,
    settings: Config,
    *,
    me: str | None,
    timezone: str | None,
    dry: bool,
) -> None:
    """Store the messages of an export in a conversation, and say what was stored.

    Raises:
        InputError: an unknown format, name or time zone. DataFileError: a broken export; what comes before is stored.
    """
    export = Export(source, _zone(timezone))
    name, me = format_of(export, format), checked_name(me or settings.agent.user, "--me")
    there = is_address(store) or Path(store).exists()
    if not there:
        _check_owner(me, settings.agent.name, conversation)
    opened = open_store(store, settings.store.redact) if there or not dry else None
    imported = Imported()
    with closing(opened) if opened else nullcontext():
        stored = opened.find_conversation(conversation) if opened else None
        agent = stored.agent if stored else settings.agent.name
        _check_owner(me, agent, conversation)
        people = People(me, agent, name, opened.speakers(stored.key) if opened and stored else ())
        if opened:
            check_same_chat(opened, conversation, read(Export(source, _zone(timezone)), name), people)
        with _progress(export, imported) as messages:
            beta = None if dry else settings.memory.beta
            broken = _take_in(opened, (conversation, agent), messages(name), people, imported, beta=beta)
    _summarize(imported, export, name, me, dry)
    if broken is not None:
        raise broken
    if not dry:
        _learn(imported, settings.changed(store={"path": store}), conversation, agent, me)


def _learn(imported: Imported, learning: Config, conversation: str, agent: str, me: str) -> None:
    """Correct what was edited, and say how the rest is learned."""
    if imported.edited:
        with agent_of(learning) as learner:
            correct_edited(learner.conversation(conversation, agent_name=agent, resume=False), imported)
    if imported.stored:
        taking = _estimate(learning, conversation) if imported.stored > MANY and errors.is_terminal else ""
        where = f"--store {shown(learning.store.path)} --conversation {conversation}"
        chat = f"ld-agent chat {where} agent.user={quote(me)}"
        say(f"what they tell is learned{taking} in the background of `{chat}`, or now, with an")
        say(f"estimate of the time: `ld-agent memory rebuild {where}`; Ctrl-C interrupts it, the same command resumes")


def _take_in(
    opened: MemoryStore | None,
    where: tuple[str, str],
    messages: Iterator[Message],
    people: People,
    imported: Imported,
    *,
    beta: float | None,
) -> DataFileError | None:
    """Store messages, or without ``beta`` only plan to; return the error at which a broken export ends."""
    try:
        if opened is None or beta is None:
            plan(opened, where[0], messages, people, imported)
        else:
            store_history(opened, where, messages, people, beta, imported)
    except DataFileError as exc:
        return exc
    except KeyboardInterrupt:
        say(f"interrupted after {imported.stored} messages, all stored; run the same command again to resume")
        raise
    return None


def _estimate(settings: Config, conversation: str) -> str:
    """How long it takes to learn from what was stored, measured with its first messages."""
    from ld_agent.running.rebuild import time_to_learn

    with bars(TextColumn("{task.description}"), TimeElapsedColumn(), transient=True) as display:
        display.add_task("learning from the first messages, for an estimate", total=None)
        try:
            with agent_of(settings) as agent:
                return f" in about {time_to_learn(agent, found_conversation(agent.store, conversation))} (h:min:s)"
        except LDAgentError as exc:
            return f" (no estimate: {exc})"


def _check_owner(me: str, agent: str, conversation: str) -> None:
    if name_key(me) == name_key(agent):
        raise InputError(
            f"--me={me!r} is the agent's name in conversation {conversation!r}; "
            "give your own name with --me or agent.user, or choose another --conversation"
        )


def _zone(name: str | None) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise InputError(f"--timezone {name} is not a time zone; give a name like Europe/Paris") from exc


@contextmanager
def _progress(export: Export, imported: Imported) -> Iterator[Callable[[str], Iterator[Message]]]:
    """Read messages under a progress bar."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with bars(*columns) as display:
        task = display.add_task("reading", total=None)

        def messages(format: str) -> Iterator[Message]:
            for number, message in enumerate(read(export, format), 1):
                if number % SHOWN_EVERY == 0:
                    done = imported.stored + imported.known
                    display.update(task, completed=export.done, total=export.total, description=f"{done} messages")
                yield message

        yield messages


def _summarize(imported: Imported, export: Export, format: str, me: str, dry: bool) -> None:
    """Say what an import stored, or would store."""
    many = "message" if imported.stored == 1 else "messages"
    known = f"; {imported.known} were stored already" if imported.known else ""
    known += f", {len(imported.edited)} of them edited since" if imported.edited else ""
    say(f"{format}: {imported.stored} {many} {'would be ' if dry else ''}stored{known}")
    if imported.first and imported.last:
        say(f"from {imported.first:%Y-%m-%d %H:%M%z} to {imported.last:%Y-%m-%d %H:%M%z}")
    for what, counted in (("by", imported.people), ("in", imported.chats), ("left out:", +export.left)):
        if counted:
            more = f" and {len(counted) - NAMED} more" if len(counted) > NAMED else ""
            say(f"{what} {', '.join(f'{name} ({count})' for name, count in counted.most_common(NAMED))}{more}")
    if imported.people and name_key(me) not in map(name_key, imported.people):
        say(f"nobody there is called {me!r}; --me takes the name that you have in the history")
