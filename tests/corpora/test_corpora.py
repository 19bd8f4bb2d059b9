"""Loaders of the other corpora, on the samples and, where available, on the real files."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ld_agent.datasets import load_dialogues, load_episodes
from ld_agent.datasets.conversation_chronicles import interval
from ld_agent.datasets.records import reporting
from ld_agent.errors import DataFileError, InputError


def test_locomo_keeps_dates_captions_and_speakers(samples: Path) -> None:
    (episode,) = load_episodes(samples / "locomo.json")
    assert episode.turns[0].at == datetime(2024, 2, 3, 9, 5, tzinfo=UTC)
    assert episode.turns[4].at == datetime(2024, 4, 21, 12, 40, tzinfo=UTC)
    assert [t.session for t in episode.turns] == [1] * 4 + [2] * 3
    assert (
        episode.turns[2].text == "Not yet. Look at this hole. [shares a photo of a wooden boat with a hole in its side]"
    )
    # Paul opens the second session; he is the agent because he is speaker_b
    assert (episode.turns[4].speaker, episode.agent) == ("Paul", "Paul")


@pytest.mark.parametrize(
    ("old", "new", "message", "kept"),
    [
        ("9:05 am on 3 February, 2024", "yesterday", "is not a date such as", [2]),
        ("9:05 am on 3 February, 2024", "9:05 am on 31 February, 2024", "day is out of range", [2]),
        ("12:40 pm on 21 April, 2024", "12:40 am on 3 February, 2024", "session_2 begins at .* not after", [1]),
        ('"speaker": "Ines"', '"speaker": "Otto"', "speaker 'Otto' is neither Ines nor Paul", []),
        ('"sample_id"', '"sample"', "has no 'sample_id'", []),
    ],
)
def test_locomo_errors_name_the_problem_and_lose_no_other_session(
    samples: Path, tmp_path: Path, old: str, new: str, message: str, kept: list[int]
) -> None:
    text = (samples / "locomo.json").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "l.json").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(DataFileError, match=message):
        load_episodes(tmp_path / "l.json")
    bad: list[DataFileError] = []
    with reporting(bad.append):
        episodes = load_episodes(tmp_path / "l.json")
    assert sorted({turn.session for episode in episodes for turn in episode.turns}) == kept
    assert re.search(message, str(bad[0]))


@pytest.mark.parametrize("written", ["12:05 am on 3 February, 2024", "12:05AM on 3 february 2024"])
def test_locomo_midnight_however_it_is_spaced(samples: Path, tmp_path: Path, written: str) -> None:
    text = (samples / "locomo.json").read_text(encoding="utf-8").replace("9:05 am on 3 February, 2024", written)
    (tmp_path / "l.json").write_text(text, encoding="utf-8")
    assert load_episodes(tmp_path / "l.json")[0].turns[0].at.hour == 0


def test_carecall_starts_with_the_agent_and_is_daily(samples: Path) -> None:
    (episode,) = load_episodes(samples / "carecall.json")
    assert (episode.id, episode.speakers) == ("sample-1", ("Assistant", "User"))
    gaps = [b.at - a.at for a, b in pairwise(episode.turns) if a.session != b.session]
    assert gaps == [timedelta(days=1, minutes=1)]


def test_memorybank_sorts_days_and_strips_names(samples: Path) -> None:
    nadia, erik = load_episodes(samples / "memorybank.json")
    assert (nadia.id, erik.id) == ("Nadia", "Erik")
    assert [(t.speaker, t.session) for t in nadia.turns] == [
        ("Nadia", 1), ("Assistant", 1), ("Nadia", 1), ("Assistant", 1), ("Nadia", 2), ("Assistant", 2)
    ]  # fmt: skip
    assert nadia.turns[4].at == datetime(2023, 5, 5, 12, tzinfo=UTC)
    assert nadia.personas["Nadia"][1] == "Hobbies: pottery, long walks"


def test_dialogsum_keeps_tags_summaries_and_topics(samples: Path) -> None:
    one, three, test = load_dialogues(samples / "dialogsum.jsonl")
    assert one.turns[0].speaker == "#Person1#"
    assert one.turns[0].text == "Excuse me, is this the train to Lyon?"
    assert [t.speaker for t in three.turns][2] == "#Person3#"
    assert (len(one.summaries), len(test.summaries), test.topics) == (1, 3, ("plans", "leaving early", "a journey"))
    assert len(load_dialogues(samples / "dialogsum.jsonl", limit=2)) == 2
    with pytest.raises(InputError, match="no file"):
        load_dialogues(samples / "nothing.jsonl")


def test_dialogsum_errors_name_the_line(samples: Path, tmp_path: Path) -> None:
    record = json.loads((samples / "dialogsum.jsonl").read_text(encoding="utf-8").splitlines()[0])
    path = tmp_path / "d.jsonl"
    rows = [
        {**record, "dialogue": "#Person1#: Hello?\nIs anybody there?"},
        {**record, "dialogue": "#Person1#: Hello?"},
        {key: value for key, value in record.items() if key != "summary"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    bad: list[DataFileError] = []
    with reporting(bad.append):
        assert len(load_dialogues(path)) == 1
    assert [error.line for error in bad] == [1, 3]
    bad.clear()
    with reporting(bad.append):
        assert len(load_episodes(path)) == 1
    assert [error.line for error in bad] == [1, 2]


def test_conversation_chronicles_parses_intervals_in_words(samples: Path, tmp_path: Path) -> None:
    path = samples / "conversation_chronicles.jsonl"
    (episode,) = load_episodes(path)
    gaps = [b.at - a.at - timedelta(minutes=1) for a, b in pairwise(episode.turns) if a.session != b.session]
    assert gaps == [timedelta(hours=3), timedelta(days=3), timedelta(days=90), timedelta(days=730)]
    assert interval("A week after") == timedelta(days=7)
    assert interval("Later") is None
    record = json.loads(path.read_text(encoding="utf-8"))
    record["second_session_dialogue"] = record["second_session_speakers"] = []
    (tmp_path / "c.jsonl").write_text(json.dumps(record), encoding="utf-8")
    (shorter,) = load_episodes(tmp_path / "c.jsonl")
    assert {t.session for t in shorter.turns} == {1, 3, 4, 5}
    gaps = [b.at - a.at - timedelta(minutes=1) for a, b in pairwise(shorter.turns) if a.session != b.session]
    assert gaps[0] == timedelta(days=3, hours=3)
    record["third_session_speakers"] = ["Neighbor A"]
    (tmp_path / "c.jsonl").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(DataFileError, match="the third session has 2 utterances and 1 speakers"):
        load_episodes(tmp_path / "c.jsonl")


def test_ubuntu_irc_ends_with_the_answer(samples: Path, tmp_path: Path) -> None:
    (episode,) = load_episodes(samples / "ubuntu_irc.jsonl")
    assert episode.id == "ubuntu_irc-1"
    assert [t.speaker for t in episode.turns] == [f"Speaker {n}" for n in (0, 1, 2, 0, 1)]
    assert episode.turns[-1].text.startswith("then boot the older kernel")
    assert episode.turns[1].text == "@Speaker 0 which card is it?"
    assert ([t.answers for t in episode.turns], episode.answer_only) == ([None, 0, 0, 1, 3], True)
    record = json.loads((samples / "ubuntu_irc.jsonl").read_text(encoding="utf-8"))
    (tmp_path / "u.jsonl").write_text(json.dumps({**record, "ctx_spk": [0, 1]}), encoding="utf-8")
    with pytest.raises(DataFileError, match="context has 4 utterances and ctx_spk 2 speakers"):
        load_episodes(tmp_path / "u.jsonl")
    for wrong in ({"ans_idx": 4}, {"relation_at": [[0, 1]]}, {"relation_at": [1]}, {"ctx_adr": [0]}):
        (tmp_path / "u.jsonl").write_text(json.dumps({**record, **wrong}), encoding="utf-8")
        with pytest.raises(DataFileError, match=r"cannot answer|pair of places|ctx_adr is"):
            load_episodes(tmp_path / "u.jsonl")


def test_realmem_orders_days_keeps_sessions_apart_and_says_what_is_wrong(samples: Path, tmp_path: Path) -> None:
    document = json.loads((samples / "realmem.json").read_text("utf-8"))
    document["dialogues"].reverse()
    document["dialogues"][0]["dialogue_turns"].append({"speaker": "User", "content": " "})
    (tmp_path / "r.json").write_text(json.dumps(document), encoding="utf-8")
    [episode] = load_episodes(tmp_path / "r.json")
    assert (episode.id, episode.speakers) == ("Hanna Vogt", ("Hanna Vogt", "Assistant"))
    assert [(turn.session, turn.at.day) for turn in episode.turns] == [(1, 3), (1, 3), (2, 3), (2, 3), (3, 14), (3, 14)]
    for wrong in ({"current_time": "soon"}, {"dialogue_turns": [{"speaker": "Ann", "content": "Hi"}]}):
        bad = {**document, "dialogues": [document["dialogues"][0] | wrong]}
        (tmp_path / "r.json").write_text(json.dumps(bad), encoding="utf-8")
        with pytest.raises(DataFileError, match=r"'soon' does not begin with a date|'Ann' is neither User nor"):
            load_episodes(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("path", "episodes", "utterances"),
    [
        ("locomo/locomo10_dev.json", 5, 2760),
        ("realmem/Liam_O_Connor.json", 1, 1500),
        ("carecall/carecall-memory-sample.json", 10, 1033),
        ("memorybank/memory_bank_en.json", 15, 1132),
        ("dialogsum/dialogsum.dev.jsonl", 500, 4690),
    ],
)
def test_real_files(corpus: Callable[[str], Path], path: str, episodes: int, utterances: int) -> None:
    loaded = load_episodes(corpus(path))
    assert len(loaded) == len({e.id for e in loaded}) == episodes
    assert sum(len(e.turns) for e in loaded) == utterances
    for episode in loaded:
        for earlier, later in pairwise(episode.turns):
            assert earlier.at < later.at
            assert (earlier.session != later.session) == ((later.at - earlier.at).total_seconds() > 3600)


def test_real_summaries(corpus: Callable[[str], Path]) -> None:
    assert {len(d.summaries) for d in load_dialogues(corpus("dialogsum/dialogsum.dev.jsonl"))} == {1}
    assert {len(d.summaries) for d in load_dialogues(corpus("dialogsum/dialogsum.test250.jsonl"))} == {3}


def test_chats_with_an_assistant_in_three_shapes(samples: Path, tmp_path: Path) -> None:
    code, tea, heat = load_episodes(samples / "chats.jsonl")
    assert [turn.speaker for turn in code.turns] == ["User", "Assistant"] * 2  # the system's message is left out
    assert tea.turns[0].text == "Which tea keeps me awake for a night shift at the lighthouse?"
    assert [turn.text for turn in heat.turns[2:]] == ["And the colours?", "Pass a colour map, such as viridis."]
    (tmp_path / "bad.jsonl").write_text('{"messages": [{"role": "user", "content": "Hello?"}]}\n')
    with pytest.raises(DataFileError, match="both the user and the assistant"):
        load_episodes(tmp_path / "bad.jsonl")


def test_chats_are_read_without_reasoning_and_from_parts(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "Here they are."}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    messages = [
        {"role": "user", "content": "I typed <think>."},
        {"role": "assistant", "content": "<think>A tag."},
        {"role": "user", "content": parts},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "Newts."}, {"type": "text", "text": "Nice!"}],
        },
        {"role": "assistant", "content": "They are newts.</think>How many?"},
    ]
    (tmp_path / "chat.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    (chat,) = load_episodes(tmp_path / "chat.jsonl")
    assert [turn.text for turn in chat.turns] == ["I typed <think>.", "Here they are.\n[image]", "Nice!", "How many?"]
    messages[2]["content"] = {"text": "no list"}
    (tmp_path / "chat.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    with pytest.raises(DataFileError, match="neither text nor a list of parts"):
        load_episodes(tmp_path / "chat.jsonl")


@pytest.mark.parametrize("indent", [None, 2, "lines"])
def test_chats_are_read_as_the_server_reads_messages(tmp_path: Path, indent: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "depth", "arguments": "{}"}}
    chat = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "Lena", "content": [{"type": "file", "file": {"filename": "pond.pdf"}}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "12 m"},
        {"role": "assistant", "content": "It is 12 m deep."},
        {"role": "user", "name": "Omar", "content": "Thanks."},
    ]
    other = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]
    chats = [{"messages": chat, "tools": []}, {"conversations": other}]
    text = "\n".join(map(json.dumps, chats)) if indent == "lines" else json.dumps(chats, indent=indent)
    (tmp_path / "chats.json").write_text(text)
    pond, greeting = load_episodes(tmp_path / "chats.json")
    assert [(turn.speaker, turn.text) for turn in pond.turns] == [
        ("Lena", "[file: pond.pdf]"),
        ("Assistant", "It is 12 m deep."),
        ("Omar", "Thanks."),
    ]
    assert [turn.text for turn in greeting.turns] == ["Hi", "Ho"]
    assert greeting.id == "chats-2"
