"""Format detection, lazy reading, and errors for unusable files."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from ld_agent.datasets import LOADERS, load_episodes
from ld_agent.datasets.records import reporting
from ld_agent.errors import ConfigError, DataFileError, InputError

# sample file, format, episodes, utterances, agent of the first
SAMPLES = [
    ("three_sessions.jsonl", "jsonl", 1, 36, "Sam"),
    ("three_speakers.jsonl", "jsonl", 1, 18, "Sam"),
    ("msc_session_3.txt", "msc", 2, 29, "Speaker 2"),
    ("msc_personasummary", "msc_personasummary", 2, 37, "Speaker 2"),
    ("conversation_chronicles.jsonl", "conversation_chronicles", 1, 12, "Neighbor B"),
    ("dialogsum.jsonl", "dialogsum", 3, 11, "#Person2#"),
    ("ubuntu_irc.jsonl", "ubuntu_irc", 1, 5, "Speaker 1"),
    ("locomo.json", "locomo", 1, 7, "Paul"),
    ("realmem.json", "realmem", 1, 6, "Assistant"),
    ("carecall.json", "carecall", 1, 7, "Assistant"),
    ("memorybank.json", "memorybank", 2, 8, "Assistant"),
    ("chats.jsonl", "chats", 3, 10, "Assistant"),
]


@pytest.mark.parametrize(("name", "format", "episodes", "utterances", "agent"), SAMPLES)
def test_every_sample_is_detected_and_loaded(
    samples: Path, name: str, format: str, episodes: int, utterances: int, agent: str
) -> None:
    loaded = load_episodes(samples / name)
    assert loaded == load_episodes(samples / name, format)
    assert (len(loaded), sum(len(e.turns) for e in loaded), loaded[0].agent) == (episodes, utterances, agent)
    assert len({e.id for e in loaded}) == len(loaded)
    for episode in loaded:
        assert episode.agent in episode.speakers
        times = [turn.at for turn in episode.turns]
        assert all(at.utcoffset() is not None and at.utcoffset().total_seconds() == 0 for at in times)
        assert times == sorted(set(times))
        numbers = [turn.session for turn in episode.turns]
        if None not in numbers:
            gaps = [(b - a).total_seconds() for a, b in pairwise(times)]
            assert [gap > 3600 for gap in gaps] == [a != b for a, b in pairwise(numbers)]


def test_every_format_has_a_sample() -> None:
    assert {format for _, format, *_ in SAMPLES} == set(LOADERS)


def test_no_sample_matches_two_formats(samples: Path) -> None:
    for name, format, *_ in SAMPLES:
        path = samples / name
        text = (path / "session_4/valid.txt" if path.is_dir() else path).read_text(encoding="utf-8")
        value = json.loads(text if name.endswith(".json") else text.splitlines()[0])
        assert [known for known, loader in LOADERS.items() if loader.recognises(value)] == [format]


def test_reading_stops_at_the_limit(samples: Path, tmp_path: Path) -> None:
    good = (samples / "msc_session_3.txt").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "part.txt"
    path.write_text("\n".join([*good, "{broken"]), encoding="utf-8")
    bad: list[DataFileError] = []
    with reporting(bad.append):
        assert len(load_episodes(path, limit=2)) == 2
    assert bad == []
    assert load_episodes(path, limit=0) == []
    with pytest.raises(DataFileError, match=r"part\.txt, line 3: invalid JSON"):
        load_episodes(path, limit=3)
    with pytest.raises(InputError, match="limit=-1"):
        load_episodes(path, limit=-1)


def test_bad_records_are_reported_and_skipped(samples: Path, tmp_path: Path) -> None:
    first, second = (samples / "msc_session_3.txt").read_text(encoding="utf-8").splitlines()
    malformed = json.loads(first)
    malformed["previous_dialogs"][1]["dialog"][2]["text"] = 7
    path = tmp_path / "mixed.txt"
    lines = [b"{broken", b"\xff\xfe", b"", json.dumps(malformed).encode(), b'["a"]', second.encode()]
    path.write_bytes(b"\n".join(lines))
    bad: list[DataFileError] = []
    with reporting(bad.append):
        (episode,) = load_episodes(path)
    assert (episode.id, episode.source) == ("sample_1", "mixed.txt:6")
    assert [error.line for error in bad] == [1, 2, 4, 5]
    assert str(bad[2]) == f"{path}, line 4: previous_dialogs[1].dialog[2]: text is the number 7, not text"
    with pytest.raises(DataFileError) as caught:
        load_episodes(path)
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is a binary file"),
        (b'{"a": 1}\n', "not in a known format"),
        (b"Dear diary,\ntoday was fine.\n", "line 1: invalid JSON"),
        (b'[\n {"conversation": {"speaker_a": "A",}}\n]', "line 2: invalid JSON"),
        (b"[" * 100_000, "unreadable JSON"),
        (b"[13.06.2023, 18:09:10] Ann: My brother moved.\n", "a history from whatsapp; .* `ld-agent memory import`"),
        (b'[{"type": "message", "text": "Hi!", "ts": "1714557660.0"}]', "a history from slack"),
    ],
)
def test_errors_name_the_unusable_file(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.any"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load_episodes(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_errors_name_the_missing_file_folder_or_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no data file .*nowhere\.jsonl"):
        load_episodes(tmp_path / "nowhere.jsonl")
    with pytest.raises(InputError, match=r"folder without valid\.txt"):
        load_episodes(tmp_path)
    with pytest.raises(ConfigError, match=r"^format='mcs' is unknown; known formats: jsonl, msc,"):
        load_episodes(tmp_path, "mcs")


def test_a_folder_loads_its_last_session(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "msc_personasummary", tmp_path / "corpus")
    (tmp_path / "corpus" / "session_10").mkdir()
    whole = load_episodes(tmp_path / "corpus")
    assert [turn.session for turn in whole[0].turns][-1] == 4
    assert whole == load_episodes(tmp_path / "corpus" / "session_4")
