"""A person's memory as a folder: stable from one export to the next, and edited by hand it is read back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_parts import DAY, START, Scene
from cli_commands import CommandLine

from ld_agent.agent import Agent
from ld_agent.errors import DataFileError, InputError
from ld_agent.files import write_text
from ld_agent.revising.from_folder import carry_out
from ld_agent.storage import folder as folders
from ld_agent.storage.exchange import export_lines
from ld_agent.storage.folder import Changes, changes, is_folder, write_folder
from ld_agent.storage.rows import StoredConversation

BEES, RIVER = "I keep bees in Ghent.", "I swim in the river."
ODD = "I like:\n- this <!-- t1 abcdef -->\n\n# and that"


@pytest.fixture
def agent(scene: Scene) -> Agent:
    """One who knows Ann by two sessions in two months."""
    agent = scene.agent(**{"agent.user": "Ann", "store.redact": "secrets"})
    ann = agent.conversation("ann")
    for text, at in ((BEES, START), (ODD, START), (RIVER, START + 40 * DAY)):
        ann.respond(text, at=at)
    ann.end_session()
    return agent


def stored(agent: Agent) -> StoredConversation:
    found = agent.store.find_conversation("ann")
    assert found
    return found


def read(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text(encoding="utf-8") for p in sorted(folder.rglob("*.md"))}


def changed(agent: Agent, folder: Path, *pairs: tuple[str, str]) -> Changes:
    """What the folder's changes mean, after replacing parts of its lines."""
    for old, new in pairs:
        [path] = [path for path, text in read(folder).items() if old in text][:1]
        (folder / path).write_text(read(folder)[path].replace(old, new, 1), encoding="utf-8")
    return changes(agent.store, stored(agent), folder)


def test_a_folder_is_stable_and_says_where_things_come_from(agent: Agent, tmp_path: Path):
    folder = tmp_path / "ann"
    assert write_folder(agent.store, stored(agent), folder) == 3
    first = read(folder)
    assert list(first) == ["events/2024-05.md", "events/2024-06.md", "profile.md"]
    assert f"- {BEES} <!-- t1 " in first["profile.md"]
    assert f"- Ann: {RIVER} <!-- u5 " in first["events/2024-06.md"]
    assert "told 2024-05-01 in u1" in first["profile.md"]
    agent.conversation("ann").respond("I sing.", at=START + 41 * DAY)
    agent.conversation("ann").end_session()
    write_folder(agent.store, stored(agent), folder)
    second = read(folder)
    assert second["events/2024-05.md"] == first["events/2024-05.md"]
    assert second["events/2024-06.md"].startswith(first["events/2024-06.md"])
    assert not changes(agent.store, stored(agent), folder)


def test_what_was_written_is_found_whatever_it_says(agent: Agent, tmp_path: Path):
    folder = tmp_path / "ann"
    write_folder(agent.store, stored(agent), folder)
    (folder / "profile.md").write_bytes((folder / "profile.md").read_bytes().replace(b"\n", b"\r\n"))
    text = read(folder)["events/2024-05.md"]
    (folder / "events/2024-05.md").write_text(text.replace(" <!-- u3 ", "\n  <!-- u3 "), encoding="utf-8")
    assert not changes(agent.store, stored(agent), folder), "line ends and breaks are no edits"
    agent.conversation("ann").respond("I dance.", at=START + 41 * DAY)
    assert not changes(agent.store, stored(agent), folder), "what is newer was not deleted"


def test_lines_changed_deleted_and_added_become_edits(agent: Agent, tmp_path: Path):
    folder = tmp_path / "ann"
    write_folder(agent.store, stored(agent), folder)
    river = next(line for line in read(folder)["events/2024-06.md"].splitlines() if "<!-- u5" in line)
    found = changed(
        agent,
        folder,
        (f"- {BEES}", "- I keep goats in Ghent."),
        (river + "\n", "- Ann: My aunt is called Ida.\n"),
        ("## Ann\n\n", "## Ann\n\n- I am allergic to nuts.\n"),
    )
    assert found.edited == {"t1": "I keep goats in Ghent."}
    assert found.forgotten == {"u5": f"Ann: {RIVER}"}
    assert [item.text for item in found.added] == ["I am allergic to nuts.", "Ann: My aunt is called Ida."]
    with pytest.raises(InputError, match="has edits"):
        write_folder(agent.store, stored(agent), folder)
    ann = agent.conversation("ann")
    carry_out(ann, found)
    traits = {trait.text: trait for trait in ann.traits()}
    assert {"I keep goats in Ghent.", "I am allergic to nuts."} <= {*traits}
    assert RIVER not in traits
    said = {u.text: u for u in ann.utterances}
    assert {"I keep goats in Ghent.", "My aunt is called Ida."} <= {*said}, "corrected where it was said, too"
    assert {BEES, RIVER} & {*said} == set()
    assert said["My aunt is called Ida."].at == START + 40 * DAY
    assert traits["I am allergic to nuts."].source == said["I am allergic to nuts."].id
    assert not changes(agent.store, stored(agent), folder), "done once"
    write_folder(agent.store, stored(agent), folder)
    assert "goats" in read(folder)["profile.md"]


def test_changes_are_shown_and_confirmed(agent: Agent, tmp_path: Path, command_line: CommandLine):
    folder, path = tmp_path / "ann", agent.config.store.path
    ran = command_line("memory", "export", folder, "--format", "markdown", "--store", path)
    assert (ran.code, "3 files" in ran.err) == (0, True), ran.err
    profile = folder / "profile.md"
    profile.write_text(profile.read_text(encoding="utf-8").replace(f"- {BEES}", "- I keep goats."), encoding="utf-8")
    ran = command_line("memory", "import", folder, "--store", path, "--dry-run")
    assert (ran.code, "edit t1: I keep bees in Ghent. -> I keep goats." in ran.err) == (0, True), ran.err
    ran = command_line("memory", "import", folder, "--store", path)
    assert (ran.code, "--yes" in ran.err) == (1, True), ran.err
    assert BEES in [trait.text for trait in agent.conversation("ann").traits()]
    ran = command_line("memory", "import", folder, "--store", path, "--yes")
    assert (ran.code, "changed 1 line" in ran.err) == (0, True), ran.err
    assert "I keep goats." in [trait.text for trait in agent.conversation("ann").traits()]
    write_folder(agent.store, stored(agent), tmp_path / "new")
    assert read(folder) == read(tmp_path / "new"), "the folder says what is stored"


def test_an_interrupted_export_shows_no_changes(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_folder(agent.store, stored(agent), tmp_path / "old")
    agent.conversation("ann").respond("I sing.", at=START + 41 * DAY)
    agent.conversation("ann").end_session()
    for folder, writes in ((tmp_path / name, range(files)) for name in ("old", "new") for files in range(3)):
        left = iter(writes)

        def interrupted(path: Path, text: str, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            write_text(path, text)

        monkeypatch.setattr(folders, "write_text", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_folder(agent.store, stored(agent), folder)
        assert not (is_folder(folder) and changes(agent.store, stored(agent), folder))
    monkeypatch.setattr(folders, "write_text", write_text)
    assert write_folder(agent.store, stored(agent), tmp_path / "new") == 3


def test_a_secret_written_by_hand_is_not_stored(agent: Agent, tmp_path: Path):
    folder = tmp_path / "ann"
    write_folder(agent.store, stored(agent), folder)
    secret = "My password is hunter2!"
    found = changed(agent, folder, (f"- {BEES}", f"- {secret}"), ("## Ann\n\n", f"## Ann\n\n- My other {secret[3:]}\n"))
    assert len(found) == 2
    carry_out(agent.conversation("ann"), found)
    assert "My other password is [redacted]!" in [trait.text for trait in agent.conversation("ann").traits()]
    assert "hunter2" not in "".join(export_lines(agent.store))
    assert not changes(agent.store, stored(agent), folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (f"- Ann: {RIVER} <!-- u", f"- Anna: {RIVER} <!-- u", r"2024-06.md, line \d+: must begin with 'Ann:'"),
        (f"- Ann: {RIVER} <!-- u", "- Ann: <!-- u", r"2024-06.md, line \d+: has no text"),
        (f"- {BEES} ", "- ", r"profile.md, line \d+: has no text"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_at_once(agent: Agent, tmp_path: Path, old: str, new: str, message: str):
    write_folder(agent.store, stored(agent), tmp_path / "ann")
    with pytest.raises(DataFileError, match=message):
        changed(agent, tmp_path / "ann", (old, new))


def test_files_of_its_owner_stay(agent: Agent, tmp_path: Path):
    folder, events = tmp_path / "ann", tmp_path / "ann" / "events"
    write_folder(agent.store, stored(agent), folder)
    (events / "2023-01.md").write_bytes((events / "2024-05.md").read_bytes())
    (events / "notes.md").write_text("- Buy milk.\n", encoding="utf-8")
    (events / "2020-01.md").write_text("We met.\n", encoding="utf-8")
    write_folder(agent.store, stored(agent), folder)
    assert {file.name for file in events.iterdir()} == {"2020-01.md", "2024-05.md", "2024-06.md", "notes.md"}


def test_a_damaged_or_foreign_folder_is_refused(agent: Agent, tmp_path: Path):
    folder = tmp_path / "ann"
    folder.mkdir()
    (folder / "profile.md").write_text("# Me\n", encoding="utf-8")
    with pytest.raises(InputError, match="something else"):
        write_folder(agent.store, stored(agent), folder)
    (folder / "profile.md").write_text('<!-- {"format": "ld_agent.markdown" -->\n', encoding="utf-8")
    with pytest.raises(DataFileError, match="is damaged"):
        changes(agent.store, stored(agent), folder)


def test_only_utf_8_is_read(agent: Agent, tmp_path: Path):
    folder = tmp_path / "ann"
    write_folder(agent.store, stored(agent), folder)
    for name, encoding in (("profile.md", "utf-8-sig"), ("events/2024-06.md", "cp1252"), ("profile.md", "utf-16")):
        text = read(folder)[name]
        (folder / name).write_bytes(text.replace("river", "Rhône").encode(encoding))
        if encoding == "utf-8-sig":
            assert len(changes(agent.store, stored(agent), folder)) == 1
        else:
            with pytest.raises(DataFileError, match=f"{name}: is not UTF-8"):
                write_folder(agent.store, stored(agent), folder)
        (folder / name).write_text(text, encoding="utf-8")
