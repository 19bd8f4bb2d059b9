"""Shared by everything that runs in a terminal: its two streams, notes, and progress. Knows nothing about the work
shown.

Text from people is data: it is shown without markup, and its control characters never reach the terminal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, TaskID
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


class LongWork:
    """Shows a progress bar on standard error, if that is a terminal, for work reported as (what, done, total).

    Args:
        bars: an existing display to add the bar to.
    """

    def __init__(self, bars: Progress | None = None) -> None:
        self._shared, self._alone = bars, Progress(console=errors, disable=not errors.is_terminal, transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` are done; remove the bar at the end."""
        bars = self._shared or self._alone
        if what not in self._tasks:
            if not self._tasks and self._shared is None:
                self._alone.start()
            self._tasks[what] = bars.add_task(what, total=total)
        bars.update(self._tasks[what], completed=done, total=total)
        if done >= total:
            bars.remove_task(self._tasks.pop(what))
            if not self._tasks and self._shared is None:
                self._alone.stop()


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error while the block runs, if that is a terminal.

    Yields: a function to call with the number done since its last call.
    """
    with Progress(console=errors, disable=not errors.is_terminal, transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done: bar.advance(task, done)
