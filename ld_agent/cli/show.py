"""How memories, traits and scores look on a terminal; shared by the chat and the demo."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ld_agent.types import Recalled, Record, Trait

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def day(value: Record | Trait) -> str:
    return value.at.strftime("%Y-%m-%d %H:%M")


def recalled_table(recalled: Sequence[Recalled]) -> RenderableType:
    """The numbers of equations (1)–(3) behind a recall: overall = λ (s_sem + s_top)."""
    if not recalled:
        return Text("no relevant memory", style="dim")
    table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    for heading in ("id", "from", "s_sem", "s_top", "λ", "overall"):
        table.add_column(heading, justify="left" if heading in ("id", "from") else "right", no_wrap=True)
    table.add_column("shared topics")
    table.add_column("memory", ratio=1)
    for r in recalled:
        numbers = (f"{r.s_sem:.3f}", f"{r.s_top:.3f}", f"{r.decay:.3f}", f"{r.score:.3f}")
        topics = Text(", ".join(r.overlap) or "–", style="" if r.overlap else "dim")
        table.add_row(r.record.id, day(r.record), *numbers, topics, Text(r.record.text))
    return table


def records_table(records: Sequence[Record]) -> RenderableType:
    if not records:
        return Text("nothing is remembered yet; a session is remembered when it ends (/end)", style="dim")
    table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    for heading in ("id", "view", "session", "until"):
        table.add_column(heading, no_wrap=True)
    table.add_column("memory", ratio=1)
    for record in records:
        text = Text(record.text)
        if record.fallback:
            text.append("  (extracted, not written by the model)", style="dim")
        table.add_row(record.id, record.view, str(record.session), day(record), text)
    return table


def traits_table(traits: Sequence[Trait]) -> RenderableType:
    if not traits:
        return Text("nothing is known yet", style="dim")
    table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    for heading in ("id", "since", "said"):
        table.add_column(heading, no_wrap=True)
    table.add_column("trait", ratio=1)
    for trait in traits:
        text = Text(trait.text, style="" if trait.active else "strike dim")
        if trait.superseded_by:
            text.append(f"  superseded by {trait.superseded_by}", style="not strike dim")
        since = day(trait) if trait.source else "config"
        table.add_row(trait.id, since, f"{trait.mentions}×", text)
    return table
