"""``ld-agent memory export --format markdown``, and ``memory import`` of such a folder."""

from __future__ import annotations

from pathlib import Path

from ld_agent.cli.opened import agent_on, confirmed, the_only
from ld_agent.cli.show import say
from ld_agent.revising.from_folder import carry_out
from ld_agent.storage.exchange import found_conversation
from ld_agent.storage.folder import changes, contents, conversation_of, rewrite_folder, write_folder
from ld_agent.storage.store import Store


def export_folder(store: Store, conversation: str | None, out: Path) -> None:
    """Write a conversation's memory into a folder.

    Raises:
        InputError: see `the_only` and `write_folder`.
    """
    count = write_folder(store, the_only(store, conversation), out)
    say(f"wrote {count} files into {out}")


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
    """Show what a human changed in a folder, carry it out once that is confirmed, and write the folder again.

    Raises:
        InputError: it was not confirmed.
    """
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
