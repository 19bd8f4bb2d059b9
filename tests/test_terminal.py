"""Long work shows how far it is on a terminal, and nothing elsewhere."""

import io

import pytest
from rich.console import Console

from ld_agent.running import terminal
from ld_agent.running.terminal import LongWork, bars, progress


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    shown = io.StringIO()
    monkeypatch.setattr(terminal, "errors", Console(file=shown, force_terminal=True, width=80))
    return shown


def test_a_bar_counts_from_what_is_done_already(screen: io.StringIO):
    with progress("[b]episodes", 8, done=2) as advance:
        advance(3)
    assert "[b]episodes" in screen.getvalue()  # names are data, not markup
    assert "5/8" in screen.getvalue()


def test_long_work_takes_its_bar_away_at_the_end(screen: io.StringIO):
    work = LongWork()
    work("reading memories", 1, 2)
    assert work._alone.tasks[0].completed == 1
    work("reading memories", 2, 2)
    assert "reading memories" in screen.getvalue()
    assert work._alone.tasks == []


def test_what_is_not_a_terminal_shows_nothing(monkeypatch: pytest.MonkeyPatch):
    shown = io.StringIO()
    monkeypatch.setattr(terminal, "errors", Console(file=shown))
    with progress("episodes", 2) as advance:
        advance(2)
    assert shown.getvalue() == ""


def test_bars_can_be_hidden_on_a_terminal(screen: io.StringIO):
    with bars(shown=False) as display:
        display.add_task("episodes", total=2)
    assert screen.getvalue() == ""
