"""One's own history: stored once, at once and in order of time; learned from later; what is older overrules nothing newer.
And names: one person is one, however the name is written."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest
from agent_parts import CHECKED, DAY, START, Scene, confessed, requests_of
from cli_commands import CommandLine, light_config, scripted_config
from test_turnstile import until

from ld_agent.agent import MOST_GIVEN_WAY, Agent
from ld_agent.backbones.base import Completion, Request
from ld_agent.cli import exchange as history_command
from ld_agent.datasets.exports.message import AGENT, ME, Message
from ld_agent.errors import DataFileError, InputError
from ld_agent.running import history, rebuild
from ld_agent.running import terminal as terminals
from ld_agent.running.history import Imported, People, plan, store_history
from ld_agent.running.rebuild import learn_history
from ld_agent.steps import GaveWay
from ld_agent.storage.exchange import export_lines, import_file
from ld_agent.storage.sqlite.store import SQLiteStore
from ld_agent.types import cleaned_name, name_key

HOUR = timedelta(hours=1)
CHAT = """[03.06.24, 09:00:00] Ann: I keep bees.
[03.06.24, 09:01:00] Bo: How many hives?
[04.06.24, 09:00:00] Bo: Well?
[04.06.24, 09:01:00] Ann: I own 4 hives."""


def told(number: int, text: str, at: datetime, name: str = "Ann", **more: str) -> Message:
    return Message(str(number), "chat", name, text, at, **more)


def stored(agent: Agent, messages: list[Message], name: str = "ann", format: str = "whatsapp") -> Imported:
    there = agent.store.find_conversation(name)
    known = agent.store.speakers(there.key) if there else []
    imported = Imported()
    people = People("Ann", "Sam", format, known)
    store_history(agent.store, (name, "Sam"), messages, people, agent.config.memory.beta, imported)
    return imported


def learn(agent: Agent, name: str = "ann") -> None:
    found = agent.store.find_conversation(name)
    assert found
    learn_history(agent, found, lambda left: None)


# ---- storing


def test_an_import_is_shown_then_stored_once(command_line: CommandLine, tmp_path: Path) -> None:
    path, store = tmp_path / "WhatsApp Chat - Bo.txt", tmp_path / "me.db"
    path.write_text(CHAT, encoding="utf-8")
    command = ("memory", "import", path, "--store", store, "--conversation", "ann", "--me", "ann")
    ran = command_line(*command, "--timezone", "Europe/Paris", "--dry-run")
    assert (ran.code, ran.out, store.exists()) == (0, "", False)
    assert "4 messages would be stored" in ran.err
    assert "nobody there is called" not in ran.err
    assert "nobody there is called 'Anne'" in command_line(*command[:-1], "Anne", "--dry-run").err
    for expected in ("4 messages stored", "0 messages stored; 4 were stored already"):
        ran = command_line(*command, "--timezone", "Europe/Paris")
        assert (ran.code, expected in ran.err) == (0, True), ran.err
    with path.open("a", encoding="utf-8") as file:
        file.write("\n[05.06.24, 10:00:00] Ann: And a bear.\n")
    assert "1 message stored; 4 were" in command_line(*command, "--timezone", "Europe/Paris").err
    rows = [json.loads(line) for line in command_line("memory", "export", "-", "--store", store).out.splitlines()]
    said = [row for row in rows if row.get("kind") == "utterance"]
    assert [(u["speaker"], u["text"], u["at"][:16], u["utc_offset"]) for u in said][::4] == [
        ("ann", "I keep bees.", "2024-06-03T07:00", 7200), ("ann", "And a bear.", "2024-06-05T08:00", 7200),
    ]  # fmt: skip
    assert {row["thread"] for row in rows if row.get("kind") == "session"} == {"whatsapp: Bo"}
    assert all(row["closed"] for row in rows if row.get("kind") == "session")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--from", "icq"], ["icq", "telegram", "whatsapp"]),
        (["--from", "telegram"], ["format telegram", "whatsapp"]),
        (["--timezone", "Mars/Base"], ["Mars/Base", "Europe/Paris"]),
        (["--me", "a\nb"], ["--me"]),
        (["--me", "sam", "agent.name=Sam"], ["'sam'", "the agent's name", "--me"]),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(
    command_line: CommandLine, tmp_path: Path, arguments: list[str], parts: list[str]
) -> None:
    path = tmp_path / "c.txt"
    path.write_text(CHAT, encoding="utf-8")
    ran = command_line("memory", "import", path, "--store", tmp_path / "me.db", *arguments)
    assert (ran.code, len(ran.err.splitlines()), (tmp_path / "me.db").exists()) == (1, 1, False)
    assert all(part in ran.err for part in parts), ran.err


@pytest.mark.parametrize(
    "options", [["--dry-run"], ["--me", "Ann"], ["--conversation", "b", "--timezone", "Europe/Paris"]]
)
def test_options_of_histories_are_refused_for_a_backup(
    command_line: CommandLine, scene: Scene, tmp_path: Path, options: list[str]
) -> None:
    agent, backup, other = scene.agent(), tmp_path / "b.jsonl", tmp_path / "other.db"
    stored(agent, [told(1, "I keep bees.", START)])
    backup.write_text("".join(f"{line}\n" for line in export_lines(agent.store)), encoding="utf-8")
    ran = command_line("memory", "import", backup, "--store", other, *options)
    assert (ran.code, len(ran.err.splitlines()), other.exists()) == (1, 1, False)
    assert all(option in ran.err for option in options if option.startswith("--")), ran.err


def test_the_latest_edit_elsewhere_is_taken_and_what_was_changed_here_stays(
    command_line: CommandLine, tmp_path: Path
) -> None:
    path, store = tmp_path / "result.json", tmp_path / "me.db"
    command = ("memory", "import", path, "--store", store, "--conversation", "ann", "--me", "Ann")

    def taken(bees: str, edited: int | None) -> tuple[str, str]:
        """What the line says after the import of an export, and whether it was corrected."""
        row = {"id": 7, "type": "message", "date": "2024-06-03T07:33:20", "from": "Ann", "text": bees}
        row["date_unixtime"] = "1717400000"
        row |= {} if edited is None else {"edited_unixtime": str(1717400000 + edited)}
        chat = {"name": "Bo", "type": "personal_chat", "id": 1, "messages": [row, row | {"id": 8, "text": "Hello!"}]}
        path.write_text(json.dumps(chat), encoding="utf-8")
        planned = command_line(*command, "--dry-run").err
        ran = command_line(*command)
        assert ran.code == 0, ran.err
        assert planned.replace("would be ", "").splitlines()[0] == ran.err.splitlines()[0]
        with closing(SQLiteStore(store)) as opened:
            [first, _] = opened.utterances(1)
        return first.text, "edited" if "1 of them edited since" in ran.err else ""

    assert taken("I keep bees.", None)[0] == "I keep bees."
    assert taken("I keep hens.", None) == ("I keep bees.", ""), "no edit is marked"
    assert taken("I keep wasps.", 60) == ("I keep wasps.", "edited")
    assert taken("I keep wasps.", 60) == ("I keep wasps.", "")
    assert taken("I keep bees.", None) == ("I keep wasps.", ""), "an older export"
    assert taken("I keep hornets.", 90) == ("I keep hornets.", "edited"), "edited again"
    assert taken("I keep wasps.", 60) == ("I keep hornets.", ""), "an older edit"
    assert taken("I keep hornets.", 120) == ("I keep hornets.", "")
    assert taken("I keep ants.", 100) == ("I keep hornets.", ""), "older than the edit that left it as it was"
    ran = command_line("memory", "edit", "u1", "I keep moths.", "--store", store, "--conversation", "ann")
    assert ran.code == 0, ran.err
    assert taken("I keep flies.", 150) == ("I keep moths.", ""), "changed here"


def test_an_edit_elsewhere_leaves_nothing_to_undo(scene: Scene) -> None:
    agent = scene.agent()
    stored(agent, [told(1, "I have a parrot named Kiwi.", START)])
    learn(agent)
    ann = agent.conversation("ann")
    ann.observe("Kiwi is a lovely name!", "Sam", START + DAY)
    ann.pin(ann.traits()[0].id)
    ann.edit("u1", "I have a parrot named Koko.", edited=START + 2 * DAY)
    learn(agent)
    assert [change.action for change in agent.store.changes(ann.key)] == ["pin"]
    shown = [u.text for u in agent.store.thread_utterances(ann.key, "")]
    assert ("Kiwi" in str(ann.utterances), shown) == (False, [""]), "clients know another text"
    ann.undo()
    assert [(t.text, t.pinned) for t in ann.traits()] == [("I have a parrot named Koko.", False)]


def test_lines_without_ids_of_their_own_are_never_taken_for_edits(command_line: CommandLine, tmp_path: Path) -> None:
    path, store = tmp_path / "WhatsApp Chat - Bo.txt", tmp_path / "me.db"
    command = ("memory", "import", path, "--store", store, "--conversation", "ann", "--me", "Ann")
    for lines in ("Ann: One.", "Ann: One.\n[03.06.24, 09:00:00] Ann: Two. \u200e<This message was edited>"):
        path.write_text(f"[03.06.24, 09:00:00] {lines}", encoding="utf-8")
        assert "1 message stored" in command_line(*command).err
    with closing(SQLiteStore(store)) as opened:
        assert [u.text for u in opened.utterances(1)] == ["One.", "Two."]


def test_unpacked_chats_stay_apart(command_line: CommandLine, tmp_path: Path) -> None:
    store = tmp_path / "me.db"

    def imported(folder: str, *lines: str, conversation: str = "ann") -> str:
        path = tmp_path / folder / "_chat.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(f"[{n:02}.06.24, 08:00:00] {line}" for n, line in enumerate(lines, 1)), "utf-8")
        command = ("memory", "import", path, "--store", store, "--me", "Ann", "--conversation", conversation)
        return command_line(*command).err.splitlines()[0]

    assert "2 messages stored" in imported("x", "Ed: Hi.", "Ann: Hello!")
    assert "1 message stored; 1 were" in imported("x", "Ed: Hi.", "Ed: Well?"), "another beginning changes no name"
    for folder in ("WhatsApp Chat - Bo", "WhatsApp Chat - Cy"):
        assert "1 message stored" in imported(folder, "Ed: Hi.")
    refused = imported("y", "Di: Hi.", "Ann: Hello, Di!")
    assert all(part in refused for part in ("'ann'", "_chat.txt", "WhatsApp Chat - Ann.txt", "--conversation")), refused
    assert "2 messages stored" in imported("y", "Di: Hi.", "Ann: Hello, Di!", conversation="di")


def test_a_newer_export_in_a_file_of_another_name_adds_what_is_new(command_line: CommandLine, tmp_path: Path) -> None:
    store = tmp_path / "me.db"

    def imported(name: str, text: str, *more: str) -> str:
        (tmp_path / name).write_text(text, "utf-8")
        command = ("memory", "import", tmp_path / name, "--store", store, "--me", "Ann", "--conversation", "ann", *more)
        return command_line(*command).err

    assert "4 messages stored" in imported("bo in may.txt", CHAT)
    newer = CHAT + "\n[05.06.24, 10:00:00] Ann: And a bear."
    assert "1 message would be stored; 4 were" in imported("bo in june.txt", newer, "--dry-run")
    assert "1 message stored; 4 were" in (said := imported("bo in june.txt", newer))
    assert "in bo in may (5)" in said
    assert "4 messages stored" in imported("cy.txt", CHAT.replace("Bo", "Cy").replace("03.", "02."))
    with closing(SQLiteStore(store)) as opened:
        assert {*opened.thread_names(1)} == {"whatsapp: bo in may", "whatsapp: cy"}


def test_an_imported_line_is_read_for_an_answer(scene: Scene) -> None:
    reads = {"generator": {"grounded": True}, "reader": {"passages": 3}}
    agent = scene.agent({"reader": "Rex."}, checks=CHECKED, modules=reads, agent={"user": "Ann"})
    stored(agent, [told(1, "My dog is called Rex.", START - DAY)])
    learn(agent)
    agent.conversation("ann").respond("What is my dog called?", at=START)
    assert any("Rex" in request.messages[-1].content for request in requests_of(agent, "reader"))


def test_an_interrupted_import_resumes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "BATCH", 3)
    agent = scene.agent()
    messages = [told(n, f"Line {n}.", START + n * HOUR * 2) for n in range(10)]

    def broken() -> Iterator[Message]:
        yield from messages[:7]
        raise DataFileError("c.txt", None, "cut off")

    with pytest.raises(DataFileError):
        store_history(agent.store, ("ann", "Sam"), broken(), People("Ann", "Sam", "whatsapp"), 3600, Imported())
    assert agent.conversation("ann").speakers == ["Ann"]
    assert len(agent.conversation("ann").utterances) == 7
    assert agent.store.open_threads(agent.conversation("ann").key) == []
    imported = Imported()
    plan(agent.store, "ann", iter(messages), People("Ann", "Sam", "whatsapp"), imported)
    assert (imported.stored, imported.known) == (3, 7)
    assert (stored(agent, messages).stored, stored(agent, messages).stored) == (3, 0)
    assert [u.text for u in agent.conversation("ann").utterances] == [m.text for m in messages]


def test_older_parts_of_a_chat_come_in_later(scene: Scene, tmp_path: Path) -> None:
    agent = scene.agent()
    stored(agent, [told(2, "Second.", START), told(3, "Third.", START + HOUR / 2)])
    stored(agent, [told(1, "First.", START - DAY), told(4, "Fourth.", START + DAY)])
    talk = agent.conversation("ann")
    by_session: dict[int, list[str]] = {}
    for u in talk.utterances:
        by_session.setdefault(u.session, []).append(u.text)
    assert sorted(by_session.values()) == [["First."], ["Fourth."], ["Second.", "Third."]]
    backup = tmp_path / "b.jsonl"
    backup.write_text("".join(f"{line}\n" for line in export_lines(agent.store)), encoding="utf-8")
    other = SQLiteStore(tmp_path / "other.db")
    assert import_file(other, backup) == 1
    assert list(export_lines(other)) == backup.read_text(encoding="utf-8").splitlines()
    other.close()


def test_what_was_forgotten_does_not_come_back(scene: Scene) -> None:
    agent = scene.agent()
    messages = [told(1, "I keep bees.", START), told(2, "I sold a boat.", START + HOUR / 4)]
    stored(agent, messages)
    talk = agent.conversation("ann")
    talk.forget(talk.utterances[0].id)
    assert stored(agent, messages).stored == 0
    assert [u.text for u in agent.conversation("ann").utterances] == ["I sold a boat."]


def test_the_offset_stays_with_a_line(scene: Scene) -> None:
    agent = scene.agent()
    tokyo = timezone(timedelta(hours=9))
    stored(agent, [told(1, "It snowed.", datetime(2024, 1, 2, 6, tzinfo=tokyo))])
    talk = agent.conversation("ann")
    talk.observe("Yesterday too.", "Ann", "2024-01-03T06:00:00+09:00")
    here = ["2024-01-02T06:00:00+09:00", "2024-01-03T06:00:00+09:00"]
    assert [u.local_at.isoformat() for u in talk.utterances] == here
    assert [u.local_at.isoformat() for u in talk.running] == here[1:]
    assert talk.utterances[0].at.isoformat() == "2024-01-01T21:00:00+00:00"


def test_the_speakers_day_is_the_day_that_is_remembered(scene: Scene) -> None:
    agent = scene.agent({"extractor": "I swam in the fjord yesterday."})
    at = datetime(2024, 1, 2, 6, tzinfo=timezone(timedelta(hours=9)))  # still 1 January in UTC
    stored(agent, [told(1, "I swam in the fjord yesterday.", at)])
    learn(agent)
    [trait] = agent.conversation("ann").traits(history=True)
    assert "1 January 2024" in trait.text


# ---- learning


def test_no_reply_waits_for_what_is_to_be_learned_from_history(scene: Scene) -> None:
    agent = scene.agent()
    lines = [told(n, f"I own boat {n}.", START - (40 - n) * DAY) for n in range(12)]
    stored(agent, [*lines, told(99, "Shall I list them?", START - DAY, "", by=AGENT)])
    talk = agent.conversation("ann")
    talk.respond("Good morning!", "Ann", START)
    assert len(requests_of(agent, "extractor")) <= 1
    assert requests_of(agent, "summarizer") == []
    assert agent.store.to_learn(talk.key) == 12
    learn(agent)
    asked = [request.messages[-1].content for request in requests_of(agent, "extractor")]
    order = [n for content in asked for n in range(12) if f"boat {n}." in content]
    assert sorted(order) == order
    assert set(order) == {*range(12)}
    assert not any("list them" in content for content in asked)
    assert agent.store.to_learn(talk.key) == 0
    events = [record for record in talk.records if record.view == "events"]
    assert [r.at for r in events] == sorted(r.at for r in events)
    assert len(events) == 13
    assert {record.channel for record in events} == {"import"}


def test_learning_from_history_gives_way_to_a_reply_and_goes_on(scene: Scene) -> None:
    in_between: list[threading.Thread] = []
    learned_by_then: list[int] = []

    def extracted(request: Request) -> str:
        if "boat 3." in request.messages[-1].content and not in_between:
            in_between.append(threading.Thread(target=talk.respond, args=("Good morning!", "Ann", START)))
            in_between[0].start()
            until(lambda: talk.relation.turnstile.wanted)
        return confessed(request)

    def replied(request: Request) -> str:
        learned_by_then.append(12 - agent.store.to_learn(talk.key))
        return "Morning!"

    agent = scene.agent({"extractor": extracted, "generator": replied}, background=True)
    stored(agent, [told(n, f"I own boat {n}.", START - (40 - n) * DAY) for n in range(12)])
    talk = agent.conversation("ann")
    assert agent._background is not None
    talk.learn_later()
    agent._background.wait()
    in_between[0].join()
    agent._background.wait()
    assert learned_by_then == [0]
    assert agent.store.to_learn(talk.key) == 0
    events = [record for record in talk.records if record.view == "events"]
    assert [r.at for r in events] == sorted(r.at for r in events)
    assert len(events) == 12


def test_history_is_learned_from_where_somebody_always_waits(scene: Scene) -> None:
    agent = scene.agent(background=True)
    stored(agent, [told(1, "I own boat 1.", START - DAY)])
    talk = agent.conversation("ann")
    asking = agent.resources.asking
    asking.giving_way = lambda wanted: lambda requests: giving_way(requests)  # type: ignore[method-assign]
    given_way: list[bool] = []

    def giving_way(requests: Sequence[Request]) -> list[Completion]:
        given_way.append(True)
        raise GaveWay

    assert agent._background is not None
    talk.learn_later()
    agent._background.wait()
    assert len(given_way) == MOST_GIVEN_WAY
    assert agent.store.to_learn(talk.key) == 0


def test_how_long_learning_takes_is_measured_with_the_first_messages(
    scene: Scene, command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = scene.agent()
    stored(agent, [told(n, f"I own boat {n}.", START + n * HOUR / 60) for n in range(20)])
    found = agent.store.find_conversation("ann")
    assert found
    monkeypatch.setattr(rebuild, "time", SimpleNamespace(monotonic=iter([5.0, 9.0]).__next__))
    assert rebuild.time_to_learn(agent, found) == timedelta(seconds=4 * (20 - 8) / 8)
    assert agent.store.to_learn(found.key) == 12
    monkeypatch.undo()
    path, many = tmp_path / "c.txt", history_command.MANY
    path.write_text(CHAT, encoding="utf-8")
    command = ("memory", "import", path, "--me", "Ann", "-c", light_config(tmp_path))
    for terminal, most, expected in ((True, 3, True), (False, 3, False), (True, many, False)):
        monkeypatch.setattr(history_command, "MANY", most)
        monkeypatch.setattr(terminals.errors, "_force_terminal", terminal)
        ran = command_line(*command, "--store", tmp_path / f"{terminal}{most}.db")
        assert (ran.code, "(h:min:s)" in ran.err) == (0, expected), ran.err
    monkeypatch.setattr(history_command, "MANY", 3)
    monkeypatch.setattr(terminals.errors, "_force_terminal", True)
    ran = command_line(*command[:-1], scripted_config(tmp_path, extractor=[]), "--store", tmp_path / "none.db")
    assert (ran.code, "no estimate: " in ran.err) == (0, True), ran.err


def test_what_is_older_never_overrules_what_is_newer(scene: Scene) -> None:
    agent = scene.agent(checks=CHECKED)
    talk = agent.conversation("ann")
    talk.observe("I moved to Oslo.", "Ann", START)
    talk.end_session()
    stored(agent, [told(1, "I live in Rome.", START - 900 * DAY)])
    learn(agent)
    traits = {t.text: t for t in agent.conversation("ann").traits(history=True)}
    assert [t.text for t in agent.conversation("ann").persona("Ann")] == ["I moved to Oslo."]
    assert {t.text for t in talk.persona("Ann", as_of=START - 300 * DAY)} == {"I live in Rome."}
    assert traits["I live in Rome."].superseded_by == traits["I moved to Oslo."].id


def test_a_memory_that_is_rewritten_takes_in_nothing_older(scene: Scene) -> None:
    agent = scene.agent(**{"memory.views": ["recursive"]})
    talk = agent.conversation("ann")
    talk.observe("I sing now.", "Ann", START)
    talk.end_session()
    stored(agent, [told(1, "I danced once.", START - 90 * DAY), told(2, "I paint now.", START + DAY)])
    learn(agent)
    newest = agent.conversation("ann").records[-1].text
    assert "paint" in newest
    assert "danced" not in newest


# ---- names


@pytest.mark.parametrize(
    "name", ["Zoë", "ZOË", "Zoe\u0308", " Zoë ", "~ Zoë", "~\u202fZoë", "\u200eZoë\u200b", "Zo\u200dë", "\ufeffzoë"]
)
def test_a_name_is_one_however_it_is_written(scene: Scene, name: str) -> None:
    talk = scene.agent().conversation("ann")
    talk.observe("I live in Oslo.", "Zoë", START)
    assert talk.observe("I keep bees.", name, START).speaker == "Zoë"
    talk.observe("Lovely.", talk.agent_name, START)
    assert talk.speakers == ["Zoë", "Sam"]
    assert {t.text for t in talk.persona(name)} == {"I live in Oslo.", "I keep bees."}


def test_names_are_stored_clean() -> None:
    assert cleaned_name("  Ann\u00a0\u00a0 Lee\u200e ") == "Ann Lee"
    assert cleaned_name("👩\u200d🌾 Ida") == "👩\u200d🌾 Ida"
    assert name_key("STRASSE") == name_key("straße")
    assert name_key("Zoé") != name_key("Zoë")


def test_the_agent_is_one_too(scene: Scene) -> None:
    agent = scene.agent()
    talk = agent.conversation("ann")
    talk.observe("Ahoy.", "SAM ", START)
    assert talk.speakers == ["Sam"]
    with pytest.raises(InputError, match="agent itself"):
        talk.respond("Ahoy.", "sam", START)
    assert agent.conversation("ann", agent_name="SAM") is talk


def test_people_of_one_name_stay_two_and_nobody_becomes_the_agent() -> None:
    people = People("Ann", "Sam", "discord", ["Zoë"])

    def name(name: str, author: str = "", **more: str) -> str:
        return people.name(told(1, "Hm.", START, name, author=author, **more))

    assert [name("ZOË", "1"), name("Zoë", "2"), name("zoë", "1")] == ["Zoë", "Zoë (2)", "Zoë"]
    assert [name("ann"), name("", by=ME), name("", by=AGENT), name("sam")] == ["Ann", "Ann", "Sam", "sam (discord)"]
    assert People("Ann", "Sam", "sillytavern").name(told(1, "Hm.", START, "SAM")) == "Sam"
    assert name("\n") == "Unknown"
    people = People("Ann", "Sam", "discord", ["Zoë", "Zoë (2)"])  # an export that begins later
    assert [name("Zoë", "2"), name("Zoë", "1")] == ["Zoë (2)", "Zoë"]
