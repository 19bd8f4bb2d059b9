"""``ld-agent memory``: look into a memory file, search it, move it, forget, fill what views lack, change the encoder."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ld_agent.storage.base import Failure, StoredConversation
    from ld_agent.storage.sql_store import SQLStore

app = typer.Typer(help="Look into a memory file, search it, move it, forget.", no_args_is_help=True)

StoreOption = Annotated[str, typer.Option("--store", help="The memory: a file, or a postgresql:// address.")]
ConversationOption = Annotated[str | None, typer.Option("--conversation", help="One conversation's id.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON value on standard output and nothing else.")]
ConfigOption = Annotated[str | None, typer.Option("--config", "-c", help="A config file, or a shipped one's name.")]
Overrides = Annotated[list[str] | None, typer.Argument(help="Config overrides.", metavar="[KEY=VALUE]...")]


@app.command("list")
def list_command(store: StoreOption, conversation: ConversationOption = None, as_json: JsonOption = False) -> None:
    """List the conversations of a store, or what is remembered of one.

    Examples:

      ld-agent memory list --store me.db

      ld-agent memory list --store me.db --conversation maya --json
    """
    from rich.table import Table

    from ld_agent.cli.show import console, plain, records_table, traits_table

    opened = _existing(store)
    if conversation is not None:
        found = _conversation(opened, conversation)
        records, traits = opened.records(found.key), [t for t, _ in opened.personas(found.key).traits()]
        if as_json:
            _print_json([_record_json(r) for r in records] + [_trait_json(t) for t in traits])
            return
        console.print(records_table(records))
        for failure in opened.failures(found.key):
            state = "set aside" if failure.set_aside else "pending"
            console.print(plain(f"{state}: {failure.work} of {failure.item}: {failure.error}", "red"), soft_wrap=True)
        for speaker in dict.fromkeys(t.speaker for t in traits):
            console.print(plain(speaker, "bold"))
            console.print(traits_table([t for t in traits if t.speaker == speaker]))
        return
    rows: list[dict[str, Any]] = [
        {"conversation": c.id, "agent": c.agent, "speakers": opened.speakers(c.key)}
        | opened.counts(c.key)
        | {"set_aside": [_failure_json(f) for f in opened.failures(c.key) if f.set_aside]}
        for c in opened.conversations()
    ]
    if as_json:
        _print_json(rows)
        return
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("conversation", "speakers", "sessions", "utterances", "records", "traits"):
        table.add_column(heading)
    for row in rows:
        cells = (
            ", ".join(v) if isinstance(v, list) else str(v) for k, v in row.items() if k not in ("agent", "set_aside")
        )
        table.add_row(*(plain(cell) for cell in cells))
    console.print(table if rows else "no conversations yet")
    for row in rows:
        for aside in row["set_aside"]:
            text = f"{row['conversation']}: {aside['work']} of {aside['item']} was set aside: {aside['error']}"
            console.print(plain(text, "red"), soft_wrap=True)
    if any(row["set_aside"] for row in rows):
        console.print("`ld-agent memory rebuild` tries it again", style="dim")


@app.command()
def versions(
    store: StoreOption,
    conversation: Annotated[str, typer.Option("--conversation", help="One conversation's id.")],
    as_json: JsonOption = False,
) -> None:
    """Show every version of a memory that is rewritten (view recursive): what each session changed.

    Example:

      ld-agent memory versions --store me.db --conversation maya
    """
    from ld_agent.cli.show import console
    from ld_agent.cli.versions import versions_json, versions_text

    opened = _existing(store)
    records = opened.records(_conversation(opened, conversation).key)
    if as_json:
        _print_json(versions_json(records))
        return
    console.print(versions_text(records) or "no version yet; view recursive makes one after each session")


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    store: StoreOption,
    overrides: Overrides = None,
    conversation: ConversationOption = None,
    at: Annotated[str | None, typer.Option("--at", help="As of this time (ISO 8601 with zone). Default: now.")] = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="At most this many. Default: memory.k.")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recall what is remembered about a query, with the numbers; without --conversation, in all of them.

    Example:

      ld-agent memory search "her new job" --store me.db --conversation maya --at 2024-06-01T12:00:00+00:00
    """
    from ld_agent.agent import Agent
    from ld_agent.cli.show import console, plain, recalled_table
    from ld_agent.config import load_config
    from ld_agent.replay import recalled_json
    from ld_agent.terminal import LongWork

    _existing(store).close()
    settings = load_config(config, [*(overrides or []), *([f"memory.k={k}"] if k else [])])
    settings = settings.model_copy(update={"store": settings.store.model_copy(update={"path": store})})
    agent = Agent(settings)
    agent.resources.progress = LongWork()
    try:
        chosen = [_conversation(agent.resources.store, conversation)] if conversation else agent.store.conversations()
        found = [(c.id, r) for c in chosen for r in agent.recall(c, query, at)]
    finally:
        agent.close(end_sessions=False)
    best = sorted(found, key=lambda pair: -pair[1].score)[: settings.memory.k]
    if as_json:
        _print_json([{"conversation": name} | recalled_json(r) for name, r in best])
        return
    for name in dict.fromkeys(name for name, _ in best if conversation is None):
        console.print(plain(name, "bold"))
        console.print(recalled_table([r for owner, r in best if owner == name]))
    if conversation is not None or not best:
        console.print(recalled_table([r for _, r in best]))


@app.command()
def export(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The JSON-lines file to write; - for standard output.")],
    store: StoreOption,
    conversation: ConversationOption = None,
) -> None:
    """Write everything that was said and remembered as JSON lines.

    Example:

      ld-agent memory export maya.jsonl --store me.db --conversation maya
    """
    from ld_agent.files import check_output, written_atomically
    from ld_agent.storage.exchange import export_lines

    opened = _existing(store)
    if str(out) == "-":
        for line in export_lines(opened, conversation):
            sys.stdout.write(line + "\n")
        return
    check_output(out, store=store)
    with written_atomically(out) as lines:
        for line in export_lines(opened, conversation):
            lines.write(line + "\n")


@app.command("import")
def import_command(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A file that `memory export` wrote.")], store: StoreOption
) -> None:
    """Take the conversations of an export into a store, all of them or none.

    Example:

      ld-agent memory import maya.jsonl --store other.db
    """
    from ld_agent.cli.show import say
    from ld_agent.errors import InputError
    from ld_agent.storage.address import is_address, open_store, shown
    from ld_agent.storage.exchange import import_file
    from ld_agent.storage.sqlite_import import import_into_file

    if not source.is_file():
        raise InputError(f"no file {source}; give an export of `ld-agent memory export`")
    if is_address(store):
        with closing(open_store(store)) as opened:
            count = import_file(opened, source)
    else:
        count = import_into_file(Path(store), source)
    say(f"imported {count} conversation{'' if count == 1 else 's'} into {shown(store)}")


@app.command()
def copy(
    source: Annotated[str, typer.Option("--from", help="The memory to copy: a file, or a postgresql:// address.")],
    target: Annotated[str, typer.Option("--to", help="Where to copy it; made where it is missing.")],
) -> None:
    """Copy every conversation into another store, of whatever engine; an interrupted copy resumes.

    Each conversation is compared after it was copied. Vectors are made again when the copy is next used; API keys stay.

    Example:

      ld-agent memory copy --from me.db --to postgresql://localhost/memory
    """
    from rich.progress import Progress

    from ld_agent.cli.show import errors, say
    from ld_agent.storage.address import existing_store, open_store
    from ld_agent.storage.copying import copy_store

    with closing(existing_store(source)) as read, closing(open_store(target)) as written:
        with Progress(console=errors, disable=not errors.is_terminal) as progress:
            task = progress.add_task("copying", total=None)
            count = copy_store(read, written, lambda done, total: progress.update(task, completed=done, total=total))
        say(f"copied {count} conversation{'' if count == 1 else 's'} from {read.path} to {written.path}")


@app.command()
def rename(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The agent's new name.")],
    store: StoreOption,
    conversation: Annotated[str, typer.Option("--conversation", help="The conversation it is renamed in.")],
) -> None:
    """Rename the agent in a conversation; what was said and remembered stays as it is worded.

    Example:

      ld-agent memory rename Robin --store me.db --conversation maya
    """
    from ld_agent.cli.show import say
    from ld_agent.storage.renaming import rename_agent

    opened = _existing(store)
    stored = _conversation(opened, conversation)
    rename_agent(opened, stored, name)
    say(f"{stored.agent} is now {name} in {conversation}; set agent.name={name} as well")


@app.command()
def delete(
    store: StoreOption,
    conversation: Annotated[str, typer.Option("--conversation", help="The conversation to forget.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Forget a conversation: every trace of it leaves the store.

    Example:

      ld-agent memory delete --store me.db --conversation maya --yes
    """
    from ld_agent.cli.show import say

    opened = _existing(store)
    found = _conversation(opened, conversation)
    if not yes:
        _confirm(f"Forget everything about conversation {conversation!r}?")
    opened.delete_conversation(found.key)
    say(f"deleted {conversation} from {opened.path}")


@app.command()
def rebuild(
    store: StoreOption,
    overrides: Overrides = None,
    conversation: ConversationOption = None,
    config: ConfigOption = None,
) -> None:
    """Backfill the configured views with the stored sessions they lack; an interrupted rebuild resumes where it stopped.

    Example:

      ld-agent memory rebuild --store me.db -c recursive
    """
    from rich.progress import Progress

    from ld_agent.agent import Agent
    from ld_agent.cli.show import errors, say
    from ld_agent.config import load_config
    from ld_agent.errors import BackboneError
    from ld_agent.memory.rebuild import missing
    from ld_agent.memory.rebuild import rebuild as rebuild_views
    from ld_agent.terminal import LongWork

    _existing(store).close()
    settings = load_config(config, overrides or [])
    settings = settings.model_copy(update={"store": settings.store.model_copy(update={"path": store})})
    agent = Agent(settings)
    try:
        chosen = [_conversation(agent.resources.store, conversation)] if conversation else agent.store.conversations()
        lacking = {c.id: missing(agent, c) for c in chosen}
        total = sum(sum(views.values()) for views in lacking.values())
        count, problems = 0, list[str]()
        with Progress(console=errors, disable=not errors.is_terminal) as progress:
            agent.resources.progress = LongWork(progress)
            task = progress.add_task("taking sessions in", total=total)

            def taken(view: str, sessions: int) -> None:
                nonlocal count
                count += sessions
                progress.update(task, completed=count, description=f"taking sessions in: {view}")

            try:
                for one in chosen:
                    if sum(lacking[one.id].values()):
                        problems += rebuild_views(agent, one, taken)
            except KeyboardInterrupt:
                say(f"interrupted after {count} of {total} sessions; run the same command again to resume")
                raise
    finally:
        agent.close(end_sessions=False)
    for problem in problems:
        say(problem)
    say(f"took in {count} of {total} missing sessions for {', '.join(settings.memory.views)}")
    if problems:
        raise BackboneError(f"{total - count} sessions still wait; run the same command again")


@app.command()
def reindex(store: StoreOption, overrides: Overrides = None, config: ConfigOption = None) -> None:
    """Re-encode everything with the configured encoder.

    Example:

      ld-agent memory reindex --store me.db encoder.model=sentence-transformers/all-mpnet-base-v2
    """
    from rich.progress import Progress

    from ld_agent.cli.show import errors, say
    from ld_agent.config import load_config
    from ld_agent.memory.encoder import configured
    from ld_agent.memory.reindex import reindex as reindex_store

    opened = _existing(store)
    settings = load_config(config, overrides or []).encoder
    encoder = configured(settings)
    with Progress(console=errors, disable=not errors.is_terminal) as progress:
        task = progress.add_task("encoding", total=None)
        count = reindex_store(opened, encoder, lambda done, total: progress.update(task, completed=done, total=total))
    say(f"encoded {count} records and traits with {encoder.name}")


def _existing(path: str) -> SQLStore:
    """Open a store that is there; looking into one never makes it."""
    from ld_agent.storage.address import existing_store

    return existing_store(path)


def _conversation(store: SQLStore, conversation_id: str) -> StoredConversation:
    from ld_agent.storage.exchange import found_conversation

    return found_conversation(store, conversation_id)


def _failure_json(failure: Failure) -> dict[str, Any]:
    return {
        "work": failure.work, "item": failure.item, "attempts": failure.attempts, "error": failure.error,
    }  # fmt: skip


def _record_json(record: Any) -> dict[str, Any]:
    from ld_agent.types import iso

    return {
        "id": record.id,
        "view": record.view,
        "text": record.text,
        "at": iso(record.at),
        "session": record.session,
        "topics": list(record.topics),
        "sources": list(record.sources),
        "fallback": record.fallback,
        **({"pinned": True} if record.pinned else {}),
        **({"details": dict(record.details)} if record.details else {}),
    }


def _trait_json(trait: Any) -> dict[str, Any]:
    from ld_agent.types import iso

    return {
        "id": trait.id,
        "view": "personas",
        "speaker": trait.speaker,
        "text": trait.text,
        "at": iso(trait.at),
        "last_at": iso(trait.last_at),
        "mentions": trait.mentions,
        "sources": [trait.source] if trait.source else [],
        "superseded_by": trait.superseded_by,
    }


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def _confirm(question: str) -> None:
    """Ask on a terminal; where nobody can answer, say how to go without asking."""
    from ld_agent.errors import InputError

    if sys.stdin is None or not sys.stdin.isatty():
        raise InputError("nothing was deleted, as nobody can be asked here; give --yes to delete without asking")
    if not typer.confirm(question, err=True):
        raise InputError("nothing was deleted")
