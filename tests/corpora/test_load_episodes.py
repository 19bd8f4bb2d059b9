"""Recognising formats, reading lazily, and what is said of a file that cannot be used."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from ld_agent.datasets import LOADERS, load_episodes
from ld_agent.errors import DataFileError, InputError

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
    ("carecall.json", "carecall", 1, 7, "Assistant"),
    ("memorybank.json", "memorybank", 2, 8, "Assistant"),
]


@pytest.mark.parametrize(("name", "format", "episodes", "utterances", "agent"), SAMPLES)
def test_every_sample_is_recognised_and_read(
    samples: Path, name: str, format: str, episodes: int, utterances: int, agent: str
) -> None:
    found = load_episodes(samples / name)
    assert found == load_episodes(samples / name, format)
    assert (len(found), sum(len(e.turns) for e in found), found[0].agent) == (episodes, utterances, agent)
    assert len({e.id for e in found}) == len(found)
    for episode in found:
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


def test_no_sample_has_the_shape_of_two_formats(samples: Path) -> None:
    for name, format, *_ in SAMPLES:
        path = samples / name
        text = (path / "session_4/valid.txt" if path.is_dir() else path).read_text(encoding="utf-8")
        value = json.loads(text if name.endswith(".json") else text.splitlines()[0])
        assert [known for known, loader in LOADERS.items() if loader.recognises(value)] == [format]


def test_limit_reads_no_further(samples: Path, tmp_path: Path) -> None:
    good = (samples / "msc_session_3.txt").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "part.txt"
    path.write_text("\n".join([*good, "{broken"]), encoding="utf-8")
    bad: list[DataFileError] = []
    assert len(load_episodes(path, limit=2, on_bad=bad.append)) == 2
    assert bad == []
    assert load_episodes(path, limit=0) == []
    with pytest.raises(DataFileError, match=r"part\.txt, line 3: broken JSON"):
        load_episodes(path, limit=3)
    with pytest.raises(InputError, match="limit=-1"):
        load_episodes(path, limit=-1)


def test_a_bad_record_is_named_and_the_others_are_read(samples: Path, tmp_path: Path) -> None:
    first, second = (samples / "msc_session_3.txt").read_text(encoding="utf-8").splitlines()
    shapeless = json.loads(first)
    shapeless["previous_dialogs"][1]["dialog"][2]["text"] = 7
    path = tmp_path / "mixed.txt"
    lines = [b"{broken", b"\xff\xfe", b"", json.dumps(shapeless).encode(), b'["a"]', second.encode()]
    path.write_bytes(b"\n".join(lines))
    bad: list[DataFileError] = []
    (episode,) = load_episodes(path, on_bad=bad.append)
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
        (b'{"a": 1}\n', "none of the known shapes"),
        (b"Dear diary,\ntoday was fine.\n", "line 1: broken JSON"),
        (b'[\n {"conversation": {"speaker_a": "A",}}\n]', "line 2: broken JSON"),
        (b"[" * 100_000, "cannot be read"),
    ],
)
def test_an_unusable_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.any"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load_episodes(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_folder_and_format_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no data file .*nowhere\.jsonl"):
        load_episodes(tmp_path / "nowhere.jsonl")
    with pytest.raises(InputError, match=r"folder without valid\.txt"):
        load_episodes(tmp_path)
    with pytest.raises(InputError, match="unknown format 'mcs'; the formats are jsonl, msc,"):
        load_episodes(tmp_path, "mcs")


def test_a_folder_stands_for_its_last_session(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "msc_personasummary", tmp_path / "corpus")
    (tmp_path / "corpus" / "session_10").mkdir()
    whole = load_episodes(tmp_path / "corpus")
    assert [turn.session for turn in whole[0].turns][-1] == 4
    assert whole == load_episodes(tmp_path / "corpus" / "session_4")
