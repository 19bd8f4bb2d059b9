"""Multi-Session Chat: dates, speakers without ids, joined sessions and annotated traits."""

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from ld_agent.datasets import Episode, load_annotated_utterances, load_episodes
from ld_agent.datasets.dating import ANCHOR
from ld_agent.datasets.msc import duration
from ld_agent.datasets.records import reporting
from ld_agent.errors import DataFileError, InputError


def borders(episode: Episode) -> list[timedelta]:
    """Return the gaps between sessions after checking that the default β yields exactly those sessions."""
    gaps = []
    for earlier, later in pairwise(episode.turns):
        assert earlier.at < later.at
        assert (earlier.session != later.session) == ((later.at - earlier.at).total_seconds() > 3600)
        if earlier.session != later.session:
            assert later.session == (earlier.session or 0) + 1
            gaps.append(later.at - earlier.at)
        else:
            assert earlier.speaker != later.speaker
    return gaps


def test_sessions_are_dated_back_from_the_current_one(samples: Path) -> None:
    first, second = load_episodes(samples / "msc_session_3.txt")
    minute = timedelta(minutes=1)
    assert borders(first) == [timedelta(days=5) + minute, timedelta(hours=1) + minute]
    assert borders(second) == [timedelta(hours=7) + minute, timedelta(days=2) + minute]
    assert next(turn.at for turn in first.turns if turn.session == 3) == ANCHOR
    assert first.turns[1].at - first.turns[0].at == timedelta(seconds=30)


def test_gaps_are_derived_from_session_ages_if_not_stated(samples: Path, tmp_path: Path) -> None:
    records = [json.loads(line) for line in (samples / "msc_session_3.txt").read_text(encoding="utf-8").splitlines()]
    for session in (s for record in records for s in record["previous_dialogs"]):
        del session["time_num"], session["time_unit"]
    path = tmp_path / "only_ages.txt"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    assert load_episodes(path) == load_episodes(samples / "msc_session_3.txt")
    records[0]["previous_dialogs"][0]["time_back"] = "some time ago"
    path.write_text(json.dumps(records[0]), encoding="utf-8")
    with pytest.raises(DataFileError, match=r"line 1: previous_dialogs\[0\]: .*'some time ago'\] do not state a gap"):
        load_episodes(path)


def test_durations() -> None:
    assert duration("6 days 3 hours ago") == timedelta(days=6, hours=3)
    assert duration(" 1 hour ago") == timedelta(hours=1)
    assert duration("2 weeks") == timedelta(days=14)
    assert duration("recently") is None


def test_a_numeric_id_means_the_next_speaker(samples: Path, tmp_path: Path) -> None:
    text = (samples / "msc_session_3.txt").read_text(encoding="utf-8")
    assert '"id": "40001"' in text
    episode = load_episodes(samples / "msc_session_3.txt")[1]
    assert episode.speakers == ("Speaker 1", "Speaker 2")
    assert [t.speaker for t in episode.turns if t.session == 3] == ["Speaker 1", "Speaker 2"] * 2
    path = tmp_path / "strange.txt"
    path.write_text(text.replace('"40001"', '"Speaker 3"'), encoding="utf-8")
    with pytest.raises(DataFileError, match=r"line 2: dialog\[0\]: id 'Speaker 3' is not one of Speaker 1, Speaker 2"):
        load_episodes(path)


def test_personas_belong_to_their_speakers(samples: Path) -> None:
    _, episode = load_episodes(samples / "msc_session_3.txt")
    assert episode.personas["Speaker 1"] == ("I am a baker.", "I have two cats.")
    assert "the bread" in episode.turns[0].text


def test_repeated_ids_are_numbered(samples: Path, tmp_path: Path) -> None:
    text = (samples / "msc_session_3.txt").read_text(encoding="utf-8")
    (tmp_path / "twice.txt").write_text(text + text, encoding="utf-8")
    ids = [episode.id for episode in load_episodes(tmp_path / "twice.txt")]
    assert ids == ["sample_0", "sample_1", "sample_0#2", "sample_1#2"]


def test_annotated_sessions_are_joined_by_id(samples: Path) -> None:
    first, second = load_episodes(samples / "msc_personasummary")
    minute = timedelta(minutes=1)
    assert borders(first) == [timedelta(days=5) + minute, timedelta(hours=1) + minute, timedelta(days=6) + minute]
    # no record states the third gap of the second episode
    assert borders(second) == [timedelta(hours=7) + minute, timedelta(days=2) + minute, timedelta(days=1) + minute]
    assert next(t.text for t in second.turns if t.session == 2) == "Did the goats enjoy the concert?"
    assert first.turns[0].traits == ()
    assert first.turns[5].traits == ("I was an only child.", "I have never seen snow.")
    dialogue = load_episodes(samples / "msc_session_3.txt")[0]
    assert [t.text for t in dialogue.turns] == [t.text for t in first.turns if t.session != 4]
    (only,) = {t.session for t in load_episodes(samples / "msc_personasummary/session_1/valid.txt")[0].turns}
    assert only == 1


def test_a_broken_sibling_record_drops_only_its_episode(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "msc_personasummary", tmp_path / "corpus")
    sibling = tmp_path / "corpus/session_2/valid.txt"
    lines = sibling.read_text(encoding="utf-8").splitlines()
    sibling.write_text("\n".join([lines[0], lines[1][:50]]), encoding="utf-8")
    bad: list[DataFileError] = []
    with reporting(bad.append):
        (episode,) = load_episodes(tmp_path / "corpus")
    assert episode.id == "sample_1"
    assert (bad[0].path, bad[0].line) == (str(sibling), 2)
    assert "'sample_0' has no readable record in" in str(bad[1])
    sibling.unlink()
    with pytest.raises(InputError, match=r"is session 4, but the earlier session .*session_2"):
        load_episodes(tmp_path / "corpus")


def test_annotated_utterances_of_one_file(samples: Path) -> None:
    utterances = load_annotated_utterances(samples / "msc_personasummary/session_4/valid.txt")
    assert [(u.episode, u.turn) for u in utterances[3:5]] == [("sample_0", 4), ("sample_1", 1)]
    assert {u.session for u in utterances} == {4}
    assert [u.before for u in utterances[:5]] == ["", *(u.text for u in utterances[:3]), ""]
    # persona_text is cut at the abbreviation; the annotator's wording is whole
    assert [u.traits for u in utterances if u.traits] == [("I have seen snow.",), ("I played at St. Mary's bakery.",)]
    assert len(load_annotated_utterances(samples / "msc_personasummary/session_4/valid.txt", limit=1)) == 4
    with pytest.raises(InputError, match="no data file"):
        load_annotated_utterances(samples / "nothing.txt")


@pytest.mark.parametrize(("session", "split", "count"), [(2, "valid", 500), (3, "valid", 500), (3, "test", 135)])
def test_real_dialogues(corpus: Callable[[str], Path], session: int, split: str, count: int) -> None:
    path = corpus(f"msc/msc_dialogue/session_{session}/{split}.txt")
    episodes = load_episodes(path)
    assert len(episodes) == len({e.id for e in episodes}) == count
    for episode in episodes:
        gaps = borders(episode)
        assert len(gaps) == session - 1
        assert all(timedelta(hours=1) < gap <= timedelta(days=7, minutes=1) for gap in gaps)
        assert episode.turns[0].speaker == "Speaker 1"
        assert set(episode.speakers) == set(episode.personas) == {"Speaker 1", "Speaker 2"}
    assert load_episodes(path, limit=3) == episodes[:3]


def test_real_annotated_episodes_match_the_dialogues(corpus: Callable[[str], Path]) -> None:
    joined = load_episodes(corpus("msc/msc_personasummary"))
    dialogues = {e.id: e for e in load_episodes(corpus("msc/msc_dialogue/session_3/valid.txt"))}
    assert len(joined) == len({e.id for e in joined}) == 500
    for episode in joined:
        gaps = borders(episode)
        dialogue = dialogues[episode.id]
        assert len(gaps) == 3
        assert gaps[:2] == borders(dialogue)
        assert [(t.speaker, t.text) for t in episode.turns if t.session != 4] == [
            (t.speaker, t.text) for t in dialogue.turns
        ]


def test_real_annotations(corpus: Callable[[str], Path]) -> None:
    path = corpus("msc/msc_personasummary/session_1/valid.txt")
    utterances = load_annotated_utterances(path)
    assert len(utterances) == 7768
    assert sum(bool(u.traits) for u in utterances) == 5111
    assert not any(trait.endswith((" Dr.", " U.")) for u in utterances for trait in u.traits)
