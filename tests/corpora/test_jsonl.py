"""The project's own format: what is written is read back, and what is wrong in a line is named."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ld_agent.datasets import LOADERS, Episode, Turn, load_episodes, write_episodes
from ld_agent.errors import DataFileError, InputError

AT = "2024-05-01T10:00:00+02:00"


def line(**changes: Any) -> dict[str, Any]:
    values = {"id": "a", "agent": "Sam", "utterances": [{"speaker": "Sam", "text": "Hi!", "at": AT}], **changes}
    return {key: value for key, value in values.items() if value is not ...}


def test_times_become_utc_and_the_gap_decides_where_no_borders_are_given(samples: Path, tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps(line()), encoding="utf-8")
    (episode,) = load_episodes(path)
    assert episode.turns == (Turn("Sam", "Hi!", datetime(2024, 5, 1, 8, tzinfo=UTC)),)
    (demo,) = load_episodes(samples / "three_sessions.jsonl")
    assert {turn.session for turn in demo.turns} == {None}
    gaps = [b.at - a.at for a, b in pairwise(demo.turns)]
    assert sum(gap.total_seconds() > 3600 for gap in gaps) == 2
    assert sum(gap.days >= 14 for gap in gaps) == 2


@pytest.mark.parametrize(
    "name",
    ["three_sessions.jsonl", "three_speakers.jsonl", "msc_session_3.txt", "msc_personasummary", "locomo.json"],
)
def test_reading_writing_and_reading_again_agree(samples: Path, tmp_path: Path, name: str) -> None:
    episodes = load_episodes(samples / name)
    once, twice = tmp_path / "once.jsonl", tmp_path / "twice.jsonl"
    write_episodes(once, episodes)
    assert load_episodes(once) == episodes
    write_episodes(twice, load_episodes(once))
    assert once.read_bytes() == twice.read_bytes()


def test_texts_numbers_and_traits_survive_as_they_are(tmp_path: Path) -> None:
    at = datetime(2024, 5, 1, 8, 0, 0, 123456, tzinfo=UTC)
    texts = ["  two  blanks ", "line\nbreak\u2028and\u0085more", "\x00\x1b[31m", "🙂 שלום 你好", "<|im_start|>system"]
    turns = tuple(Turn("A", text, at, 3, ("I am A.",) if i else ()) for i, text in enumerate(texts))
    episode = Episode("x", "A", turns, {"A": ("I am A.",)})
    write_episodes(tmp_path / "own.jsonl", [episode])
    assert load_episodes(tmp_path / "own.jsonl") == [episode]


@pytest.mark.parametrize("numbers", [(1, None), (2, 1), (0, 0)])
def test_numbers_that_the_format_cannot_hold_are_refused(tmp_path: Path, numbers: tuple[int | None, ...]) -> None:
    turn = Turn("A", "Hi!", datetime(2024, 5, 1, tzinfo=UTC))
    with pytest.raises(InputError, match=r"conversation 'x' has sessions"):
        write_episodes(tmp_path / "o", [Episode("x", "A", tuple(replace(turn, session=n) for n in numbers))])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (line(id=...), "has no 'id'"),
        (line(id=""), "id is empty"),
        (line(agent="Sma"), "'Sma' says nothing here; the speakers are Sam"),
        (line(personas={"Mia": ["I ski."]}), "'Mia' says nothing here"),
        (line(personas={"Sam": "I ski."}), "personas: Sam is text, not a list"),
        (line(sessions=[]), "and not both"),
        (line(utterances=...), "has none of the known shapes"),
        (line(utterances=[]), "has no utterances"),
        (line(utterence=[]), "unknown key 'utterence'"),
        (line(utterances=[{"speaker": "Sam", "text": "Hi!"}]), r"utterances\[0\]: has no 'at'"),
        (line(utterances=[{"speaker": "Sam", "text": " ", "at": AT}]), "text is empty"),
        (line(utterances=[{"speaker": "Sam", "text": "\ud83d", "at": AT}]), "half of a surrogate pair"),
        (line(utterances=[{"speaker": "Sam", "text": "Hi!", "at": "2024-05-01T10:00:00"}]), "has no time zone"),
        (line(utterances=[{"speaker": "Sam", "text": "Hi!", "at": "noon"}]), "is not an ISO 8601 time"),
        (line(utterances=[{"speaker": "Sam", "text": "Hi!", "at": AT, "session": 1}]), "unknown key 'session'"),
        (
            line(utterances=[{"speaker": "Sam", "text": "Hi!", "at": t} for t in (AT, "2024-05-01T10:00:00+02:30")]),
            "comes after at=",
        ),
    ],
)
def test_what_is_wrong_in_a_line_is_named(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        load_episodes(path)
    assert str(path) in str(caught.value)
    if "known shapes" not in message:
        assert isinstance(caught.value, DataFileError)
        assert caught.value.line == 1


def test_an_id_given_twice_is_an_error_of_the_second(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(f"{json.dumps(line())}\n\n{json.dumps(line())}\n", encoding="utf-8")
    bad: list[DataFileError] = []
    assert len(load_episodes(path, on_bad=bad.append)) == 1
    assert [str(error) for error in bad] == [f"{path}, line 3: id 'a' was already used in line 1; give each its own"]


def test_the_example_in_the_readme_is_read(samples: Path, tmp_path: Path) -> None:
    readme = samples.parent / "README.md"
    if not readme.is_file():
        pytest.skip("the README lies in a checkout, beside the samples")
    example = readme.read_text(encoding="utf-8").split("```json\n")[1].split("```")[0]
    (tmp_path / "example.jsonl").write_text(example, encoding="utf-8")
    (episode,) = load_episodes(tmp_path / "example.jsonl")
    assert episode.speakers == ("Maya", "Sam")
    assert all(f"`{name}`" in readme.read_text(encoding="utf-8") for name in LOADERS if name != "jsonl")
