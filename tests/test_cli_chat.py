"""``ld-agent chat``: from a pipe, and on a terminal of its own where keys and prompts are the point."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from agent_parts import DAY, START, Scene
from cli_commands import EXECUTABLE, CommandLine, Untouched, environment, light_config

from ld_agent.cli.chat_commands import COMMANDS
from ld_agent.storage.sqlite.store import SQLiteStore
from ld_agent.types import Utterance

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
PATIENCE = 120.0
"""Seconds after which a silent terminal has failed; nothing waits that long unless it is broken."""


class Terminal:
    """The real command on a pseudo-terminal."""

    def __init__(self, *arguments: object, **assigned: str) -> None:
        self.shown = ""
        self._read = 0
        command = [str(EXECUTABLE), *map(str, arguments)]
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, environment(TERM="xterm-256color", **assigned))

    def until(self, awaited: str) -> str:
        """Read until a text is shown, and return what was shown since the last one."""
        while awaited not in self.shown[self._read :]:
            if not self._more():
                raise AssertionError(f"{awaited!r} was never shown, but: {self.shown!r}")
        start = self._read
        self._read = self.shown.index(awaited, start) + len(awaited)
        return self.shown[start : self._read]

    def type(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def exit_code(self) -> int:
        """Read to the end; return the command's exit code."""
        while self._more():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        os.close(self._end)

    def _more(self) -> bool:
        ready, _, _ = select.select([self._end], [], [], PATIENCE)
        if not ready:
            os.kill(self.pid, signal.SIGKILL)
            raise AssertionError(f"silent for {PATIENCE} s after: {self.shown!r}")
        try:
            piece = os.read(self._end, 65536)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.shown += piece.decode(errors="replace")
        return bool(piece)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def exported(command_line: CommandLine, store: Path) -> list[dict[str, object]]:
    return command_line("memory", "export", "-", "--store", store).lines


def said(command_line: CommandLine, store: Path) -> list[str]:
    return [str(row["text"]) for row in exported(command_line, store) if row.get("kind") == "utterance"]


def test_lines_from_a_pipe_and_every_command(command_line: CommandLine, tmp_path: Path):
    reasoned = "She keeps bees.\n</think>\n\nBees are fine company."  # no tag opens it: known only when it is whole
    config = light_config(tmp_path, generator=[reasoned, "And the garden?"], extractor="I keep bees.")
    talk = (
        "/help\n/why\nHi, I keep bees.\n\n/why\n/memory\n/end\n/memory\nThe bees are well.\n/why\n"
        "/persona\n/persona User\n/quit\nnever read\n"
    )
    ran = command_line("chat", "-c", config, "--store", tmp_path / "me.db", stdin=talk)
    assert (ran.code, ran.err) == (0, "")
    assert not CONTROL.search(ran.out)
    shown = ran.out.split("User: ")
    by_line = {part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in reversed(shown) if "\n" in part}
    assert "/persona [NAME]" in by_line["/help"]
    assert "nothing was recalled yet" in by_line["/why"]
    assert by_line["Hi, I keep bees."].startswith("Sam: Bees are fine company.\n")
    assert "nothing is remembered yet" in by_line["/memory"]
    assert "Ann talked about her garden and her bees." in by_line["/end"]
    assert by_line["The bees are well."].startswith("Sam: And the garden?\n")
    assert "I keep bees." in by_line["/persona User"]
    whys = [part for part in shown if part.startswith("/why")]
    assert "no relevant memory" in whys[1]
    assert "s_sem" in whys[2]
    assert "Ann talked about her garden and her bees." in whys[2]
    assert "never read" not in ran.out
    assert len(said(command_line, tmp_path / "me.db")) == 4


def test_what_is_believed_is_corrected_in_the_chat(command_line: CommandLine, tmp_path: Path):
    config = light_config(tmp_path, extractor=["I live in Leeds.", "NO_TRAIT", "NO_TRAIT"])
    talk = (
        "I live in Leeds.\n/persona\n/edit t1 I live in Bath.\n/persona User\n/undo\n/pin t1\n/persona\n"
        "/edit t1\n/forget\n/pin t9\n/forget t1\n/undo\n/persona \n"
    )
    ran = command_line("chat", "-c", config, "--store", tmp_path / "me.db", stdin=talk)
    assert (ran.code, ran.err) == (0, "")
    shown = {part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in ran.out.split("User: ")[1:]}
    assert "I live in Bath." in shown["/persona User"]
    assert "I live in Leeds.  pinned" in shown["/persona"]
    assert "the new text" in shown["/edit t1"]
    assert "needs an id" in shown["/forget"]
    assert "'t9' is not a record or trait" in shown["/pin t9"]
    assert "what was forgotten is gone" in shown["/undo"]  # the second one
    assert "Leeds" not in shown["/persona "]
    assert "Leeds" not in str(exported(command_line, tmp_path / "me.db"))


def test_why_begins_with_a_sentence(scene: Scene, capsys: pytest.CaptureFixture[str]):
    ann = scene.agent({}).conversation("ann")
    ann.respond("My dog is called Biscuit.", at=START)
    reply = ann.respond("What is my dog called?", at=START + DAY)
    for notes, why in (
        (
            ("read in: My dog is called Biscuit.",),
            "I read it in what you said on 1 May 2024: “My dog is called Biscuit.”",
        ),
        ((), f"I remembered, of 1 May 2024: “{reply.recalled[0].record.text}”"),
    ):
        ann.last_reply = replace(reply, notes=notes)
        COMMANDS["why"](ann, "")
        assert " ".join(capsys.readouterr().out.split()).startswith(why)


def test_the_end_of_the_input_ends_the_session(command_line: CommandLine, tmp_path: Path):
    ran = command_line("chat", "-c", light_config(tmp_path), "--store", tmp_path / "me.db", stdin="I keep bees.")
    assert ran.code == 0
    rows = exported(command_line, tmp_path / "me.db")
    assert [row["closed"] for row in rows if row.get("kind") == "session"] == [True]
    assert [row["view"] for row in rows if row.get("kind") == "record"] == ["events"]


def test_odd_bytes(command_line: CommandLine, tmp_path: Path):
    odd = (
        b"\xff\xfe caf\xe9 \x00\x07\x1b[2J\x1b]0;title\x07 \xf0\x9f\x90\x9d \xd9\x85 \xe4\xbd\xa0 [bold] [/b]\r\n"
        + b"word " * 4000
        + b"\n"
    )
    config = light_config(tmp_path, generator="See \x1b[31mred\x1b[0m and [/markup].")
    ran = command_line("chat", "-c", config, "--store", tmp_path / "me.db", stdin=odd)
    assert (ran.code, ran.err) == (0, "")
    assert not CONTROL.search(ran.out)
    assert "🐝 م 你 [bold] [/b]\n" in ran.out
    assert "red" in ran.out
    assert "and [/markup]." in ran.out
    assert max(map(len, ran.out.splitlines())) < 300
    texts = said(command_line, tmp_path / "me.db")
    assert "🐝 م 你 [bold] [/b]" in texts[0]
    assert len(texts[2]) > 19_000


def test_what_cannot_be_done_inside(command_line: CommandLine, tmp_path: Path):
    talk = "/nonsense\n/persona Nobody\n/\n/end\nHello.\n"
    ran = command_line("chat", "-c", light_config(tmp_path), "--store", tmp_path / "me.db", stdin=talk)
    assert (ran.code, ran.err) == (0, "")
    assert "unknown command /nonsense; /help lists them" in ran.out
    assert "unknown speaker 'Nobody'" in ran.out
    assert "no session is running" in ran.out
    assert "Sam: How nice." in ran.out


def test_a_failing_backbone_costs_the_reply_and_nothing_else(command_line: CommandLine, tmp_path: Path):
    config = light_config(tmp_path, generator=["Hello."])
    talk = "Hi.\nI keep bees.\n/end\n/memory\n"
    ran = command_line("chat", "-c", config, "--store", tmp_path / "me.db", stdin=talk)
    assert ran.code == 1  # a reply is missing, and nobody sat there to see it
    assert ran.err == ""
    assert "(the script has no answer left for 'generator'" in ran.out
    assert "Ann talked about her garden" in ran.out
    assert said(command_line, tmp_path / "me.db") == ["Hi.", "Hello.", "I keep bees."]


def test_a_second_chat_continues_the_first(command_line: CommandLine, tmp_path: Path):
    command = ("chat", "-c", light_config(tmp_path), "--store", tmp_path / "me.db", "--conversation", "maya")
    first = command_line(*command, stdin="I keep bees in the garden.\n/quit\n")
    assert "Your last conversation" not in first.out
    second = command_line(*command, stdin="What do I keep in the garden?\n/why\n")
    assert "Your last conversation was just now (1 memory of it" in second.out
    assert "Ann talked about her garden and her bees." in second.out
    other = command_line(*command[:-1], "someone else", stdin="Hi.\n/why\n")
    assert "Your last conversation" not in other.out
    assert "no relevant memory" in other.out


def test_of_a_reply_only_what_is_kept_is_shown(command_line: CommandLine, tmp_path: Path):
    config = light_config(tmp_path, generator="Sam: Sure,\nwhy not?\nUser: And then?\nSam: I go on alone.")
    ran = command_line("chat", "-c", config, "--store", tmp_path / "me.db", stdin="Hi.\n")
    assert said(command_line, tmp_path / "me.db")[1] == "Sure,\nwhy not?"
    assert "Sam: Sure,\nwhy not?\n" in ran.out
    assert "And then?" not in ran.out
    assert "Sam: Sam" not in ran.out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--conversation", " "], ["id is empty"]),
        (["--conversation", "maya", "agent.name=Robin", "agent.user=Sam"], ["agent.user='Sam'", "maya"]),
    ],
)
def test_a_conversation_that_cannot_be_had(
    command_line: CommandLine, tmp_path: Path, arguments: list[str], parts: list[str]
):
    command = ("chat", "-c", light_config(tmp_path), "--store", tmp_path / "me.db")
    assert command_line(*command, "--conversation", "maya", stdin="Hi.\n").code == 0
    ran = command_line(*command, *arguments, stdin=Untouched())
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 1)
    assert all(part in ran.err for part in parts), ran.err


def test_a_terminal_shows_colour_unless_disabled(tmp_path: Path, terminals: list[Terminal]):
    colour = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
    for assigned, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        terminal = Terminal("chat", "-c", light_config(tmp_path), "--store", tmp_path / "me.db", **assigned)
        terminals.append(terminal)
        terminal.until("User: ")
        terminal.type("/nonsense\n")
        terminal.until("unknown command")
        terminal.until("User: ")
        terminal.type("/quit\n")
        assert terminal.exit_code() == 0
        assert bool(colour.search(terminal.shown)) is coloured


def test_a_narrow_terminal_shows_every_word(command_line: CommandLine, tmp_path: Path, terminals: list[Terminal]):
    command = ("chat", "-c", light_config(tmp_path), "--store", tmp_path / "me.db")
    assert command_line(*command, stdin="I keep bees in the garden.\n").code == 0
    terminal = Terminal(*command, COLUMNS="40", NO_COLOR="1")
    terminals.append(terminal)
    terminal.until("User: ")
    terminal.type("The bees in the garden?\n")
    terminal.until("How nice.")
    terminal.until("User: ")
    terminal.type("/why\n")
    why = " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.until("User: ")).split())
    assert "Ann talked about her garden and her bees." in why
    for number in ("s_sem", "s_top", "λ", "overall"):
        assert re.search(rf"{number} -?\d+\.\d{{3}}", why)
    terminal.type("\x04")  # end of input
    assert terminal.exit_code() == 0


def test_an_interrupt_stops_the_reply_and_not_the_program(
    command_line: CommandLine, tmp_path: Path, terminals: list[Terminal]
):
    """With the embedded model, which streams slowly enough to be interrupted in the middle of a word."""
    store = tmp_path / "me.db"
    terminal = Terminal("chat", "--store", store, "modules.generator.max_new_tokens=1000")
    terminals.append(terminal)
    welcome = terminal.until("User: ")
    assert all(part in welcome for part in ("Sam is here", "SmolLM2", str(store), "Try:", "/why", "/persona"))
    # The line end is for an interrupt that falls between the prompt's last byte and the wait for a key: it is heeded
    # with the next one.
    terminal.type("\x03\n")
    terminal.until("(/quit leaves)")
    question = "Tell me a very long story about a dragon and its seven friends."
    terminal.type(f"{question}\n")
    terminal.until("\x1b[1mSam: ")
    terminal.until(" ")
    terminal.until(" ")
    terminal.type("\x03")
    assert "the reply was interrupted" in terminal.until("User: ")
    terminal.type("/quit\n")
    assert terminal.exit_code() == 0
    assert "%|" not in terminal.shown  # no progress bar of a library
    heard, reply = said(command_line, store)
    assert heard == question
    assert reply
    assert reply.split()[0] in terminal.shown
    rows = exported(command_line, store)
    assert [json.dumps(row["closed"]) for row in rows if row.get("kind") == "session"] == ["true"]


def test_a_conversation_keeps_its_agent_until_it_is_renamed(command_line: CommandLine, tmp_path: Path):
    chat = ("chat", "-c", light_config(tmp_path), "--store", tmp_path / "me.db")
    assert command_line(*chat, stdin="I keep bees.\n").code == 0
    ran = command_line(*chat, "agent.name=Robin", stdin="Hello again.\n")
    assert ran.code == 0
    assert "Sam: How nice." in ran.out
    assert "the agent of this conversation is Sam; agent.name=Robin applies to new ones" in ran.err
    rename = ("memory", "rename", "--store", tmp_path / "me.db", "--conversation", "chat")
    assert "'User' has spoken" in command_line(*rename, "User").err
    assert command_line(*rename, "Robin").code == 0
    ran = command_line(*chat, "agent.name=Robin", stdin="And again.\n")
    assert (ran.code, ran.err) == (0, "")
    assert "Robin: How nice." in ran.out
    assert {u.speaker for u in utterances_in(tmp_path / "me.db")} == {"User", "Robin"}


def utterances_in(path: Path) -> list[Utterance]:
    with closing(SQLiteStore(path)) as store:
        return store.utterances(store.conversations()[0].key)
