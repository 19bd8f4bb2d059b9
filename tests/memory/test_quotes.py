"""Quotes: what is chosen of what was said, and that it fits."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from ld_agent.languages import ENGLISH
from ld_agent.memory.encoder import Vectors
from ld_agent.memory.quotes import (
    CANDIDATES,
    Told,
    _about,
    compare,
    in_time_order,
    passages,
    quotes,
    sources_of,
    worths,
)
from ld_agent.text import stems
from ld_agent.types import Recalled, Record, Utterance

READING = ENGLISH.reading

START = datetime(2024, 5, 1, 18, tzinfo=UTC)
WORDS = ["son", "name", "violin", "repair", "cat", "oslo", "live"]


def utterance(number: int, speaker: str, text: str) -> Utterance:
    return Utterance(f"u{number}", speaker, text, START + timedelta(minutes=number), 1)


def encode(texts: Sequence[str]) -> Vectors:
    """Unit vectors over `WORDS`."""
    counts = np.array([[stems(text, READING).count(word) for word in WORDS] for text in texts], np.float32)
    return np.asarray(counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9), np.float32)


def words(text: str) -> int:
    return len(text.split())


SAID = [
    utterance(1, "Lena", "I live in Oslo."),
    utterance(2, "Sam", "Do you have a son?"),
    utterance(3, "Lena", "Yes, a son, Jakob."),
    utterance(4, "Lena", "I repair violins."),
    utterance(5, "Sam", "My son is called Max."),
]


def asked(text: str) -> Utterance:
    return Utterance("u9", "Lena", text, START + timedelta(weeks=3), 2)


def bearing(text: str, said: Sequence[Utterance] = SAID) -> Told:
    """What was said, compared with a question of Lena's."""
    return compare(asked(text), "Sam", said, encode, READING)


def test_what_bears_on_the_question_is_quoted_with_the_question_that_it_answers():
    chosen = quotes(bearing("What's my son's name?"), words, room=9)
    assert [u.id for u in chosen] == ["u2", "u3"]


def test_what_the_agent_said_is_quoted_only_to_questions_about_the_agent():
    said = [
        SAID[0],
        utterance(6, "Sam", "Your son, named Max, repairs violins."),
        utterance(7, "Sam", "I repair violins."),
    ]
    assert quotes(bearing("What does my son repair?", said), words, room=20) == ()
    assert said[2] in quotes(bearing("What do you repair?", said), words, room=20)


def test_what_bears_most_comes_last():
    turned = [SAID[3], *SAID[:3]]
    assert quotes(bearing("What violins do I repair?", turned), words, room=8)[-1] is SAID[3]


def test_only_likely_utterances_of_many_are_compared():
    many = [utterance(n, "Sam", "Hm?") for n in range(10, 10 + 2 * CANDIDATES)]
    seen: list[str] = []

    def counted(texts: Sequence[str]) -> Vectors:
        seen.extend(texts)
        return encode(texts)

    chosen = quotes(compare(asked("What's my son's name?"), "Sam", [*SAID, *many], counted, READING), words, room=9)
    assert [u.id for u in chosen] == ["u2", "u3"]
    assert len(seen) == CANDIDATES + 1


def test_what_is_stored_is_not_encoded():
    seen: list[str] = []

    def counted(texts: Sequence[str]) -> Vectors:
        seen.extend(texts)
        return encode(texts)

    heard = asked("What do I repair?")
    stored = {u.id: encode([u.text])[0] for u in SAID}
    chosen = quotes(compare(heard, "Sam", SAID, counted, READING, stored), words, 5)
    assert [u.id for u in chosen] == ["u4"]
    assert seen == [heard.text]


def test_my_is_the_speaker_and_your_the_agent():
    stored = {u.id: encode([u.text])[0] for u in SAID}
    mine = worths(asked("What's my son's name?"), "Sam", SAID, encode, READING, stored)
    yours = worths(asked("What's your son's name?"), "Sam", SAID, encode, READING, stored)
    assert mine[2] > mine[4]
    assert yours[4] > yours[2]


@pytest.mark.parametrize("room", [0, 3, 4, 8, 50])
def test_quotes_fit_their_room(room: int):
    chosen = quotes(bearing("Do I repair violins in Oslo, where I live?"), words, room)
    assert sum(words(u.text) for u in chosen) <= room
    assert (len(chosen) > 0) == (room >= 3)


def test_what_bears_on_nothing_is_not_quoted():
    assert quotes(bearing("Good evening!", SAID[1:2]), words, 50) == ()
    assert quotes(bearing("Good evening!", []), words, 50) == ()


def test_sources_come_once_and_in_time_order():
    records = [Record(f"e{n}", "events", "x", START, 1, sources=own) for n, own in enumerate((("u10", "u2"), ("u2",)))]
    recalled = [Recalled(record, 0.5, 0.0, 1.0, 1.0) for record in records]
    assert (sources_of(recalled, ()), sources_of(recalled, {"u10"})) == (["u10", "u2"], ["u2"])
    said = {u.id: u for u in (utterance(10, "Lena", "b"), utterance(2, "Lena", "a"))}
    assert [u.id for u in in_time_order(["u10", "u2", "u99"], said)] == ["u2", "u10"]


@pytest.mark.parametrize(
    ("question", "about"),
    [
        ("我的狗叫什么名字？", "Lena"),
        ("你最喜欢什么颜色？", "Sam"),
        ("제 직업이 뭐예요?", "Lena"),
        ("우리 강아지 이름이 뭐예요?", "Lena"),
        ("어제 뭐라고 했죠?", ""),  # "제" within another word
    ],
)
def test_chinese_and_korean_questions_say_whom_they_are_about(question: str, about: str):
    assert _about(utterance(9, "Lena", question), "Sam", READING) == about


def test_a_passage_has_what_led_up_to_a_line_and_what_its_speaker_went_on_to_say():
    said = [*SAID[:3], utterance(4, "Sam", "How nice."), utterance(5, "Lena", "Sorry, I meant Jonas."), SAID[4]]
    [read] = passages(bearing("What is my son called?", said), 1)
    assert [u.text for u in read] == [u.text for u in (*SAID[:3], said[4])]
