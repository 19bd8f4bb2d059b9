"""Formats memories, traits and scores for a terminal; shared by the chat, the demo and ``ld-agent memory``.

Text from people is data: it is shown without markup, and its control characters never reach the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ld_agent.program import print_json
from ld_agent.running.terminal import console as console
from ld_agent.running.terminal import errors as errors
from ld_agent.running.terminal import plain as plain
from ld_agent.running.terminal import say as say
from ld_agent.types import Recalled, Record, Reply, Trait, iso

WIDE = 100
"""Minimum terminal width to show a recalled record on one line with its numbers."""


def day(value: Record | Trait) -> str:
    return value.at.strftime("%Y-%m-%d %H:%M")


def date(at: datetime) -> str:
    return f"{at.day} {at:%B %Y}"


def read_in(reply: Reply) -> str:
    """The line that a reply was read in; "": it was not read in one."""
    leads = ("read in: ", "decided by: ")
    lines = (note.removeprefix(lead) for note in reply.notes for lead in leads if note.startswith(lead))
    return next(lines, "")


class RecalledTable:
    """The numbers behind a recall, of equations (1)–(3) and of the scorer, fitted to the terminal's width.

    Args:
        clipped: show of each memory what fits one line.
    """

    def __init__(self, recalled: Sequence[Recalled], *, clipped: bool = False) -> None:
        self._recalled, self._clipped = recalled, clipped

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self._recalled:
            yield Text("no relevant memory", style="dim")
        elif options.max_width >= WIDE:
            yield self._table()
        else:
            for r in self._recalled:
                further = "".join(f"{name} {value:.3f}  " for name, value in r.terms.items())
                numbers = f"s_sem {r.s_sem:.3f}  s_top {r.s_top:.3f}  {further}λ {r.decay:.3f}  overall {r.score:.3f}"
                shared = f"  shared: {', '.join(r.overlap)}" if r.overlap else ""
                yield plain(f"{r.record.id}  {day(r.record)}  {numbers}{shared}", "dim")
                yield Padding(self._text(r), (0, 0, 0, 4))

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
        further = list(dict.fromkeys(name for r in self._recalled for name in r.terms))
        for heading in ("id", "from", "s_sem", "s_top", *further, "λ", "overall"):
            table.add_column(heading, justify="left" if heading in ("id", "from") else "right", no_wrap=True)
        table.add_column("shared topics")
        table.add_column("memory", ratio=1)
        for r in self._recalled:
            terms = (f"{r.terms[name]:.3f}" if name in r.terms else "–" for name in further)
            numbers = (f"{r.s_sem:.3f}", f"{r.s_top:.3f}", *terms, f"{r.decay:.3f}", f"{r.score:.3f}")
            topics = plain(", ".join(r.overlap) or "–", "" if r.overlap else "dim")
            table.add_row(plain(r.record.id), day(r.record), *numbers, topics, self._text(r))
        return table

    def _text(self, recalled: Recalled) -> Text:
        text = plain(recalled.record.text)
        if self._clipped:
            text.no_wrap, text.overflow = True, "ellipsis"
        return text


def legend(recalled: Iterable[Recalled]) -> str:
    """The numbers of `RecalledTable` in words."""
    from ld_agent.memory.scoring import TERMS

    names = dict.fromkeys(name for r in recalled for name in ("s_sem", "s_top", *r.terms))
    words = [f"{name}: {TERMS[name]}" for name in names if name in TERMS]
    return "; ".join([*words, f"λ: {TERMS['decay']}; overall: what memories are ranked by"])


def figure(value: object) -> str:
    """A figure as text: floats with three decimals, "–" for none."""
    return "–" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def figures_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[RenderableType]], left: int = 1) -> Table:
    """A table of figures; the first ``left`` columns are words."""
    table = Table(title=title or None, title_justify="left", box=None, padding=(0, 1), header_style="dim")
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if number < left else "right")
    for row in rows:
        table.add_row(*row)
    return table


def print_figures(result: dict[str, Any], as_json: bool) -> None:
    """Print the result of a command as JSON; or lists of objects as tables, and all else as lines."""
    if as_json:
        print_json(result)
        return
    for name, value in result.items():
        if isinstance(value, dict) and value and all(isinstance(of, dict) for of in value.values()):
            print_figures({f"{name} {key}": of for key, of in value.items()}, as_json)
            continue
        if isinstance(value, list):
            rows = [[str(cell) for cell in row.values()] for row in value]
            console.print(figures_table(name, list(value[0]), rows, left=0))
            continue
        shown = ", ".join(f"{k} {figure(v)}" for k, v in value.items()) if isinstance(value, dict) else figure(value)
        console.print(f"{name}: {shown}", markup=False)


def records_table(records: Sequence[Record]) -> RenderableType:
    if not records:
        return Text(
            "nothing is remembered yet: a session is when it has ended, an imported one by `memory rebuild`",
            style="dim",
        )
    table = _text_table(("id", "view", "session", "until"), "memory")
    for record in records:
        text = _pinned(plain(record.text), record.pinned)
        if record.fallback:
            text.append("  (extracted, not written by the model)", style="dim")
        table.add_row(plain(record.id), plain(record.view), str(record.session), day(record), text)
    return table


def _pinned(text: Text, pinned: bool) -> Text:
    return text.append("  pinned", style="not strike cyan") if pinned else text


def traits_table(traits: Sequence[Trait]) -> RenderableType:
    if not traits:
        return Text("nothing is known yet", style="dim")
    table = _text_table(("id", "since", "said"), "trait")
    for trait in traits:
        text = _pinned(plain(trait.text, "" if trait.active else "strike dim"), trait.pinned)
        if until := trait.holds_until:
            text.append(f"  until {date(until)}", style="not strike dim")
        if trait.superseded_by:
            text.append(f"  superseded by {trait.superseded_by}", style="not strike dim")
        since = f"{trait.holds_from or trait.at:%Y-%m-%d %H:%M}" if trait.source else "config"
        table.add_row(plain(trait.id), since, f"{trait.mentions}×", text)
    return table


def _text_table(heads: Sequence[str], text: str) -> Table:
    """A table whose last column is a text; of the others, those with times are wrapped where the terminal is narrow."""
    table = Table(box=None, padding=(0, 1), header_style="dim", pad_edge=False)
    for head in heads:
        table.add_column(head, no_wrap=head not in ("until", "since"))
    table.add_column(text, ratio=1)
    return table


def record_json(record: Record) -> dict[str, Any]:
    """A record as commands print it as JSON."""
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
        **({"expires": iso(record.expires)} if record.expires else {}),
        **({"details": dict(record.details)} if record.details else {}),
    }


def trait_json(trait: Trait) -> dict[str, Any]:
    """A trait as commands print it as JSON."""
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
        **{name: iso(at) for name in ("holds_from", "holds_until") if (at := getattr(trait, name))},
        **({"ended_by": trait.ended_by} if trait.ended_by else {}),
    }
