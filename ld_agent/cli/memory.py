"""``ld-agent memory``: inspect a store, search, copy, rename, delete, backfill views, change the encoder, correct."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.cli import exchange
from ld_agent.cli.opened import agent_on, chosen, confirmed, the_only
from ld_agent.cli.options import At, Conversation, Json, MaybeConversation, OneConfig, Overrides, Store, Yes
from ld_agent.cli.show import (
    RecalledTable,
    console,
    figures_table,
    plain,
    record_json,
    records_table,
    say,
    trait_json,
    traits_table,
)
from ld_agent.config import load_config
from ld_agent.errors import BackboneError
from ld_agent.program import print_json
from ld_agent.running.terminal import LongWork, bars
from ld_agent.storage.exchange import found_conversation
from ld_agent.storage.opening import existing_store, open_store

if TYPE_CHECKING:
    from ld_agent.agent import Agent
    from ld_agent.conversation import Conversation as OpenedConversation
    from ld_agent.storage.rows import StoredConversation
    from ld_agent.storage.store import Store as MemoryStore

app = typer.Typer(help="Inspect, search, correct, move and delete stored memories.", no_args_is_help=True)
Target = Annotated[
    str, typer.Argument(metavar="ID", help="Of a record (m3), a trait (t5) or an utterance (u7), as in `memory list`.")
]


@app.command("list")
def list_command(
    store: Store,
    overrides: Overrides = None,
    conversation: MaybeConversation = None,
    config: OneConfig = None,
    as_json: Json = False,
) -> None:
    """List the conversations of a store, or the records of one conversation.

    Examples:

      ld-agent memory list --store me.db

      ld-agent memory list --store me.db --conversation maya --json
    """
    with agent_on(store, config, overrides) as agent:
        if conversation is None:
            _list_conversations(agent.store, as_json)
        else:
            _list_records(agent.store, found_conversation(agent.store, conversation), as_json)


def _list_records(opened: MemoryStore, stored: StoredConversation, as_json: bool) -> None:
    records, traits = opened.records(stored.key), opened.traits(stored.key)
    if as_json:
        print_json([record_json(r) for r in records] + [trait_json(t) for t in traits])
        return
    console.print(records_table(records))
    for failure in opened.failures(stored.key):
        state = "set aside" if failure.set_aside else "pending"
        console.print(plain(f"{state}: {failure.work} of {failure.item}: {failure.error}", "red"), soft_wrap=True)
    for speaker in dict.fromkeys(t.speaker for t in traits):
        console.print(plain(speaker, "bold"))
        console.print(traits_table([t for t in traits if t.speaker == speaker]))


def _list_conversations(opened: MemoryStore, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"conversation": c.id, "agent": c.agent, "speakers": opened.speakers(c.key)}
        | opened.counts(c.key)
        | {"set_aside": [asdict(f) for f in opened.failures(c.key) if f.set_aside]}
        for c in opened.conversations()
    ]
    if as_json:
        print_json(rows)
        return
    heads = ["conversation", "speakers", "sessions", "utterances", "records", "traits"]
    cells = [[plain(", ".join(row[head]) if head == "speakers" else str(row[head])) for head in heads] for row in rows]
    console.print(figures_table("", heads, cells, left=len(heads)) if rows else "no conversations yet")
    for row in rows:
        for aside in row["set_aside"]:
            text = f"{row['conversation']}: {aside['work']} of {aside['item']} was set aside: {aside['error']}"
            console.print(plain(text, "red"), soft_wrap=True)
    if any(row["set_aside"] for row in rows):
        console.print("`ld-agent memory rebuild` retries it", style="dim")


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The text to search for.")],
    store: Store,
    overrides: Overrides = None,
    conversation: MaybeConversation = None,
    at: At = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Maximum number of results. Default: memory.k.")] = None,
    config: OneConfig = None,
    as_json: Json = False,
) -> None:
    """Recall records relevant to a query, with their scores; without --conversation, search all conversations.

    Example:

      ld-agent memory search "her new job" --store me.db --conversation maya --at 2024-06-01T12:00:00+00:00
    """
    from ld_agent.running.replay import recalled_json

    with agent_on(store, config, [*(overrides or []), *([f"memory.k={k}"] if k else [])]) as agent:
        agent.resources.progress = LongWork()
        hits = [(c.id, r) for c in chosen(agent.store, conversation) for r in agent.recall(c, query, at)]
    best = sorted(hits, key=lambda pair: -pair[1].score)[: agent.config.memory.k]
    if as_json:
        print_json([{"conversation": name} | recalled_json(r) for name, r in best])
        return
    for name in dict.fromkeys(name for name, _ in best if conversation is None):
        console.print(plain(name, "bold"))
        console.print(RecalledTable([r for owner, r in best if owner == name]))
    if conversation is not None or not best:
        console.print(RecalledTable([r for _, r in best]))


app.command()(exchange.export)
app.command("import")(exchange.import_command)


@app.command()
def copy(
    source: Annotated[str, typer.Option("--from", help="The store to copy: a file or a postgresql:// address.")],
    target: Annotated[str, typer.Option("--to", help="The target store; created if missing.")],
) -> None:
    """Copy every conversation into another store of any engine; interrupted copies resume.

    Each conversation is verified after copying. Vectors are recomputed when the copy is next used; API keys are not
    copied.

    Example:

      ld-agent memory copy --from me.db --to postgresql://localhost/memory
    """
    from ld_agent.storage.exchange import copy_store

    with closing(existing_store(source)) as read, closing(open_store(target)) as written:
        with _counted("copying") as progress:
            count = copy_store(read, written, progress)
        say(f"copied {count} conversation{'' if count == 1 else 's'} from {read.path} to {written.path}")


@app.command()
def rename(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The agent's new name.")],
    store: Store,
    conversation: Conversation,
) -> None:
    """Rename the agent in a conversation; the text of utterances and memories does not change.

    Example:

      ld-agent memory rename Robin --store me.db --conversation maya
    """
    opened = existing_store(store)
    stored = found_conversation(opened, conversation)
    opened.rename_agent(stored.key, name)
    say(f"{stored.agent} is now {name} in {conversation}; set agent.name={name} as well")


@app.command()
def delete(store: Store, conversation: Conversation, yes: Yes = False) -> None:
    """Delete a conversation and every trace of it from the store.

    Example:

      ld-agent memory delete --store me.db --conversation maya --yes
    """
    opened = existing_store(store)
    stored = found_conversation(opened, conversation)
    confirmed(yes, f"Delete everything about conversation {conversation!r}?", "nothing was deleted")
    opened.delete_conversation(stored.key)
    say(f"deleted {conversation} from {opened.path}")


@app.command()
def rebuild(
    store: Store, overrides: Overrides = None, conversation: MaybeConversation = None, config: OneConfig = None
) -> None:
    """Backfill the configured views with the stored sessions they lack; interrupted rebuilds resume.

    Example:

      ld-agent memory rebuild --store me.db -c recursive
    """
    with agent_on(store, config, overrides) as agent:
        count, total, problems = _backfilled(agent, chosen(agent.store, conversation))
    for problem in problems:
        say(problem)
    say(f"backfilled {count} of {total} missing sessions for {', '.join(agent.config.memory.views)}")
    if problems:
        raise BackboneError(f"{total - count} sessions are still pending; run the same command again")


def _backfilled(agent: Agent, conversations: Sequence[StoredConversation]) -> tuple[int, int, list[str]]:
    """Backfill the views of conversations; how many sessions were taken in, of how many, and what failed."""
    from ld_agent.running.rebuild import missing
    from ld_agent.running.rebuild import rebuild as rebuild_views

    lacking = {c.id: missing(agent, c) for c in conversations}
    total = sum(sum(views.values()) for views in lacking.values())
    count, waiting, problems = 0, 0, list[str]()
    with bars() as progress:
        agent.resources.progress = LongWork(progress)
        task = progress.add_task("digesting sessions", total=total)
        messages = progress.add_task("learning from messages", total=None, visible=False)

        def taken(view: str, sessions: int) -> None:
            nonlocal count
            count += sessions
            progress.update(task, completed=count, description=f"digesting sessions: {view}")

        def learned(left: int) -> None:
            taken("all", total - count - sum(sum(missing(agent, one).values()) for one in conversations))
            progress.update(messages, completed=waiting - left, total=waiting, visible=waiting > 0)

        try:
            for one in conversations:
                waiting = agent.store.to_learn(one.key)
                if sum(lacking[one.id].values()) or waiting:
                    problems += rebuild_views(agent, one, taken, learned)
        except KeyboardInterrupt:
            say(f"interrupted after {count} of {total} sessions; run the same command again to resume")
            raise
    return count, total, problems


@app.command()
def reindex(store: Store, overrides: Overrides = None, config: OneConfig = None) -> None:
    """Re-encode everything with the configured encoder.

    Example:

      ld-agent memory reindex --store me.db encoder.model=sentence-transformers/all-mpnet-base-v2
    """
    from ld_agent.memory.encoder import configured
    from ld_agent.memory.reindex import reindex as reindex_store

    opened = existing_store(store)
    encoder = configured(load_config(config, overrides or []).encoder)
    with _counted("encoding") as progress:
        count = reindex_store(opened, encoder, progress)
    say(f"encoded {count} records and traits with {encoder.name}")


@app.command()
def edit(
    target: Target,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is right.")],
    store: Store,
    overrides: Overrides = None,
    conversation: MaybeConversation = None,
    config: OneConfig = None,
) -> None:
    """Correct a record, trait or utterance, and everything else that says it.

    Example:

      ld-agent memory edit t3 "I live in Bath." --store me.db --conversation maya
    """
    with _opened(store, conversation, config, overrides) as opened:
        opened.edit(target, text)
    say(f"corrected {target}, and everything else that said it")


@app.command()
def forget(
    target: Target,
    store: Store,
    overrides: Overrides = None,
    conversation: MaybeConversation = None,
    config: OneConfig = None,
) -> None:
    """Forget a record, trait or utterance, and everything else that says it, for good.

    Example:

      ld-agent memory forget t3 --store me.db --conversation maya
    """
    with _opened(store, conversation, config, overrides) as opened:
        opened.forget(target)
    say(f"forgot {target}, and everything else that said it")


@app.command()
def pin(
    target: Target,
    store: Store,
    overrides: Overrides = None,
    conversation: MaybeConversation = None,
    off: Annotated[bool, typer.Option("--off", help="Unpin it.")] = False,
    config: OneConfig = None,
) -> None:
    """Put a record or trait into every prompt; nothing supersedes a pinned trait.

    Example:

      ld-agent memory pin t3 --store me.db --conversation maya
    """
    with _opened(store, conversation, config, overrides) as opened:
        opened.pin(target, not off)
    say(f"{'unpinned' if off else 'pinned'} {target}")


@contextmanager
def _opened(
    store: str, conversation: str | None, config: str | None, overrides: list[str] | None
) -> Iterator[OpenedConversation]:
    """A conversation, or the only one of the store."""
    with agent_on(store, config, overrides) as agent:
        known = the_only(agent.resources.store, conversation)
        yield agent.conversation(known.id, agent_name=known.agent, resume=False)


@contextmanager
def _counted(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress reported as (done, total)."""
    with bars() as display:
        task = display.add_task(what, total=None)
        yield lambda done, total: display.update(task, completed=done, total=total)
