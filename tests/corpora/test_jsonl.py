"""The project's own format: round trips, and errors that name the line."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ld_agent.datasets import LOADERS, Episode, Turn, load_episodes, write_episodes
from ld_agent.datasets.records import reporting
from ld_agent.errors import DataFileError, InputError

AT = "2024-05-01T10:00:00+02:00"


def line(**changes: Any) -> dict[str, Any]:
    values = {"id": "a", "agent": "Sam", "utterances": [{"speaker": "Sam", "text": "Hi!", "at": AT}], **changes}
    return {key: value for key, value in values.items() if value is not ...}


def test_times_become_utc_and_gaps_split_sessions_without_boundaries(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "conversations.jsonl"
    path.write_text(json.dumps(line()), encoding="utf-8")
    (episode,) = load_episodes(path)
    assert episode.turns == (Turn("Sam", "Hi!", datetime(2024, 5, 1, 8, tzinfo=UTC)),)
    (demo,) = load_episodes(samples / "three_sessions.jsonl")
    assert {turn.session for turn in demo.turns} == {None}
    gaps = [b.at - a.at for a, b in pairwise(demo.turns)]
    assert sum(gap.total_seconds() > 3600 for gap in gaps) == 2
    assert sum(gap.days >= 14 for gap in gaps) == 2


@pytest.mark.parametrize(
    "name", ["three_sessions.jsonl", "three_speakers.jsonl", "msc_session_3.txt", "msc_personasummary", "locomo.json"]
)
def test_round_trip_is_lossless(samples: Path, tmp_path: Path, name: str) -> None:
    episodes = load_episodes(samples / name)
    once, twice = tmp_path / "once.jsonl", tmp_path / "twice.jsonl"
    write_episodes(once, episodes)
    assert load_episodes(once) == episodes
    write_episodes(twice, load_episodes(once))
    assert once.read_bytes() == twice.read_bytes()


def test_texts_session_numbers_and_traits_are_preserved(tmp_path: Path) -> None:
    at = datetime(2024, 5, 1, 8, 0, 0, 123456, tzinfo=UTC)
    texts = ["  two  blanks ", "line\nbreak\u2028and\u0085more", "\x00\x1b[31m", "🙂 שלום 你好", "<|im_start|>system"]
    turns = tuple(Turn("A", text, at, 3, ("I am A.",) if i else ()) for i, text in enumerate(texts))
    episode = Episode("x", "A", turns, {"A": ("I am A.",)})
    write_episodes(tmp_path / "conversations.jsonl", [episode])
    assert load_episodes(tmp_path / "conversations.jsonl") == [episode]


@pytest.mark.parametrize("numbers", [(1, None), (2, 1), (0, 0)])
def test_unrepresentable_session_numbers_are_rejected(tmp_path: Path, numbers: tuple[int | None, ...]) -> None:
    turn = Turn("A", "Hi!", datetime(2024, 5, 1, tzinfo=UTC))
    with pytest.raises(InputError, match=r"conversation 'x' has sessions"):
        write_episodes(tmp_path / "o", [Episode("x", "A", tuple(replace(turn, session=n) for n in numbers))])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (line(id=...), "has no 'id'"),
        (line(id=""), "id is empty"),
        (line(agent="Sma"), "'Sma' does not speak here; the speakers are Sam"),
        (line(personas={"Mia": ["I ski."]}), "'Mia' does not speak here"),
        (line(personas={"Sam": "I ski."}), "personas: Sam is text, not a list"),
        (line(sessions=[]), "but not both"),
        (line(utterances=...), "is not in a known format"),
        (line(utterances=[]), "has no utterances"),
        (line(utterence=[]), "unknown key 'utterence'"),
        (line(utterances=[{"speaker": "Sam", "text": "Hi!"}]), r"utterances\[0\]: has no 'at'"),
        (line(utterances=[{"speaker": "Sam", "text": " ", "at": AT}]), "text is empty"),
        (line(utterances=[{"speaker": "Sam", "text": "\ud83d", "at": AT}]), "lone surrogate"),
        (line(utterances=[{"speaker": "Sam", "text": "Hi!", "at": "2024-05-01T10:00:00"}]), "has no time zone"),
        (line(utterances=[{"speaker": "Sam", "text": "Hi!", "at": "noon"}]), "is not an ISO 8601 time"),
        (line(utterances=[{"speaker": "Sam", "text": "Hi!", "at": AT, "session": 1}]), "unknown key 'session'"),
        (
            line(utterances=[{"speaker": "Sam", "text": "Hi!", "at": t} for t in (AT, "2024-05-01T10:00:00+02:30")]),
            "comes after at=",
        ),
    ],
)
def test_errors_name_the_line(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    path = tmp_path / "conversations.jsonl"
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        load_episodes(path)
    assert str(path) in str(caught.value)
    if "known format" not in message:
        assert isinstance(caught.value, DataFileError)
        assert caught.value.line == 1


@pytest.mark.parametrize("outside_sessions", [False, True])
def test_a_session_out_of_order_is_named_and_may_be_left_out(tmp_path: Path, outside_sessions: bool) -> None:
    days = ("2024-05-03", "2024-05-01", "2024-05-04")
    said = [{"speaker": "Sam", "text": day, "at": f"{day}T10:00:00Z"} for day in days]
    parts = {"utterances": said} if outside_sessions else {"utterances": ..., "sessions": [[one] for one in said]}
    path = tmp_path / "conversations.jsonl"
    path.write_text(f"{json.dumps(line(**parts))}\n", encoding="utf-8")
    where = r"utterances\[1\]" if outside_sessions else "session 2"
    wanted = rf"line 1: {where}: at=2024-05-01.* comes after at=2024-05-03.*; put the utterances in time order"
    with pytest.raises(DataFileError, match=wanted):
        load_episodes(path)
    bad: list[DataFileError] = []
    with reporting(bad.append):
        (episode,) = load_episodes(path)
    assert [turn.text for turn in episode.turns] == ["2024-05-03", "2024-05-04"]
    assert [turn.session for turn in episode.turns] == ([None] * 2 if outside_sessions else [1, 3])
    assert re.search(wanted, str(bad.pop()))
    assert bad == []


def test_a_repeated_id_makes_the_second_record_bad(tmp_path: Path) -> None:
    path = tmp_path / "conversations.jsonl"
    path.write_text(f"{json.dumps(line())}\n\n{json.dumps(line())}\n", encoding="utf-8")
    bad: list[DataFileError] = []
    with reporting(bad.append):
        assert len(load_episodes(path)) == 1
    assert [str(error) for error in bad] == [f"{path}, line 3: id 'a' was already used in line 1; ids must be unique"]


def test_the_readme_example_loads(samples: Path, tmp_path: Path) -> None:
    readme = samples.parent / "README.md"
    if not readme.is_file():
        pytest.skip("the README exists only in a checkout")
    example = readme.read_text(encoding="utf-8").split("```json\n")[1].split("```")[0]
    (tmp_path / "example.jsonl").write_text(example, encoding="utf-8")
    (episode,) = load_episodes(tmp_path / "example.jsonl")
    assert episode.speakers == ("Maya", "Sam")
    assert all(f"`{name}`" in readme.read_text(encoding="utf-8") for name in LOADERS if name != "jsonl")
