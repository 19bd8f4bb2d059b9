"""Shared by everything that runs in a terminal: its two streams, notes, and progress. Knows nothing about the work
shown.

Text from people is data: it is shown without markup, and its control characters never reach the terminal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def plain(text: str, style: str = "") -> Text:
    """Text as data: no markup, and control characters but line ends and tabs become U+FFFD."""
    return Text(
        "".join(
            "\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text
        ),
        style=style,
    )


def say(message: str) -> None:
    """Print a note on standard error, on one line however long it is."""
    errors.print(plain(message), soft_wrap=True)


def bars(*columns: ProgressColumn, shown: bool = True, transient: bool = False) -> Progress:
    """Progress bars on standard error, if that is a terminal.

    Args:
        columns: of each bar; the default has its description, how many are done and two times.
        shown: False hides them even there.
        transient: remove them at the end.
    """
    standard = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    hidden = not (shown and errors.is_terminal)
    return Progress(*(columns or standard), console=errors, disable=hidden, transient=transient)


class LongWork:
    """Shows a progress bar on standard error, if that is a terminal, for work reported as (what, done, total).

    Args:
        display: existing bars to add this one to.
    """

    def __init__(self, display: Progress | None = None) -> None:
        self._shared, self._alone = display, bars(transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` are done; remove the bar at the end."""
        display = self._shared or self._alone
        if what not in self._tasks:
            if not self._tasks and self._shared is None:
                self._alone.start()
            self._tasks[what] = display.add_task(what, total=total)
        display.update(self._tasks[what], completed=done, total=total)
        if done >= total:
            display.remove_task(self._tasks.pop(what))
            if not self._tasks and self._shared is None:
                self._alone.stop()


@contextmanager
def progress(description: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error while the block runs, if that is a terminal.

    Args:
        done: how many are done already.

    Yields: a function to call with the number done since its last call.
    """
    with bars() as display:
        task = display.add_task(description, total=total, completed=done)
        yield lambda count: display.advance(task, count)
