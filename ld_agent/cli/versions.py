"""Formats the versions of a rewritten memory: what each session changed. Shared by the chat and ``ld-agent memory``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from ld_agent.cli.show import day, plain
from ld_agent.memory.views.memory_text import Facts, difference
from ld_agent.memory.views.recursive import RecursiveView, facts_of
from ld_agent.types import Record, iso

Change = tuple[str, str, str]
STYLES = {"+": "green", "-": "red", " ": "dim"}


def versions(records: Sequence[Record]) -> Iterator[tuple[Record, list[Change]]]:
    """Every version of the recursive memory with its changes: (mark, speaker, sentence)."""
    before: Facts = {}
    for record in records:
        if record.view == RecursiveView.name:
            facts = facts_of(record)
            yield record, difference(before, facts)
            before = facts


def versions_json(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The versions as JSON values."""
    return [
        {
            "id": record.id,
            "session": record.session,
            "at": iso(record.at),
            "fallback": record.fallback,
            "text": record.text,
            "changes": [{"change": m, "speaker": who, "text": text} for m, who, text in changes if m != " "],
        }
        for record, changes in versions(records)
    ]


def versions_text(records: Sequence[Record]) -> Text:
    """The versions, oldest first, with added and removed lines; at the end the current memory."""
    text = Text()
    newest: Record | None = None
    for record, changes in versions(records):
        carried = "  (the model returned no memory; carried over)" if record.fallback else ""
        text.append_text(plain(f"session {record.session}, until {day(record)}  {record.id}{carried}\n", "bold"))
        changed = [change for change in changes if change[0] != " "]
        for mark, speaker, sentence in changed:
            said = f"{speaker}: {sentence}" if speaker else sentence
            text.append_text(plain(f"  {mark} {said}\n", STYLES[mark]))
        if not changed:
            text.append_text(plain("  nothing changed\n", "dim"))
        newest = record
    if newest is not None:
        text.append_text(plain("the memory now\n", "bold"))
        text.append_text(plain("".join(f"  {line}\n" for line in newest.text.splitlines())))
    text.rstrip()
    return text
