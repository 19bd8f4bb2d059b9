"""MemoChat: memos by topic out of a model's answer, and the topics that the model picks."""

from collections.abc import Callable
from typing import Any

import pytest
from one_view import DAY, MINUTE, START, OneView

from ld_agent.backbones.base import Completion
from ld_agent.errors import BackboneError
from ld_agent.languages import ENGLISH
from ld_agent.memory.views.memochat import memos_of, picked_numbers
from ld_agent.types import Utterance

READING = ENGLISH.reading

LINES = (
    "Maya: I took my two dogs to Rome.",
    "Sam: Did the dogs like Rome?",
    "Maya: They did. And I sold my violin to Ben.",
    "Sam: Do you miss the violin?",
)
MEMOS = "1-2 | dogs in Rome | Maya took her dogs to Rome.\n3-4 | the violin | Maya sold her violin to Ben."


class Model:
    """Answers the requests for memos and for topics, and notes both."""

    def __init__(self, memos: str = MEMOS, picks: str | BaseException = "0") -> None:
        self.memos, self.picks = memos, picks
        self.asked: list[str] = []

    def __call__(self, request: Any) -> str:
        self.asked.append(str(request.messages[-1].content))
        if "<conversation>" in self.asked[-1]:
            return self.memos
        if isinstance(self.picks, BaseException):
            raise self.picks
        return self.picks


@pytest.fixture
def view(open_view: Callable[..., OneView]) -> Callable[..., OneView]:
    return lambda model, **settings: open_view("memochat", {"memory": model}, **settings)


def test_a_session_becomes_memos_by_topic(view):
    model = Model()
    one = view(model)
    one.session(0, *LINES)
    dogs, violin = one.records
    assert dogs.text == f"dogs in Rome: Maya took her dogs to Rome.\n{LINES[0]}\n{LINES[1]}"
    assert (dogs.sources, violin.sources) == (("u1", "u2"), ("u3", "u4"))
    assert (dogs.at, violin.at) == (START + MINUTE, START + 3 * MINUTE)
    assert dogs.details == {"topic": "dogs in Rome", "summary": "Maya took her dogs to Rome."}
    assert not dogs.fallback
    assert f"3. {LINES[2]}" in model.asked[0]
    assert one.backbone.batches == [1]


def test_the_model_picks_the_topics(view):
    model = Model(picks="2")
    one = view(model)
    one.session(0, *LINES)
    [violin] = one.ask("Do you know who plays the fiddle?", 1)
    assert violin.record.text.startswith("the violin: ")
    assert (
        violin.s_sem
        == violin.score
        == pytest.approx(one.cosine("Do you know who plays the fiddle?", violin.record.text))
    )
    assert "1. dogs in Rome: Maya took her dogs to Rome.\n2. the violin: Maya sold her violin to Ben." in model.asked[1]
    assert LINES[3] not in model.asked[1]  # topics and summaries are to choose from, not the dialogue
    assert one.view.explanation == {"options": 2, "picked by": "the model"}
    model.picks = "2, 1"
    assert {r.record.sources[0] for r in one.ask("Dogs?", 1)} == {"u1", "u3"}
    model.picks = "0"
    assert one.ask("Dogs?", 1) == []  # no relevant memory
    assert len(one.backbone.batches) == 4  # one call a session, one a recall


def test_without_memos_or_room_for_any_no_model_is_asked(view):
    one = view(Model())
    assert one.ask("Dogs?", 1) == []
    one.session(1, *LINES)
    assert one.ask("Dogs?", 0.9) == []  # all of them younger than the query
    assert one.backbone.batches == [1]


@pytest.mark.parametrize("picks", ["", "I think the dogs.", "7", "???", BackboneError("gone")])
def test_an_answer_that_picks_nothing_falls_back_to_the_nearest(view, picks: str | BaseException):
    view(Model()).session(0, *LINES)
    one = view(Model(picks=picks), k=1)
    assert [r.record.details["topic"] for r in one.ask("Who bought your violin?", 1)] == ["the violin"]
    assert one.view.explanation["picked by"] == "cosine"


def test_k_keeps_the_nearest_of_the_picked(view):
    view(Model()).session(0, *LINES)
    one = view(Model(picks="1, 2"), k=1)
    assert [r.record.details["topic"] for r in one.ask("Who bought your violin?", 1)] == ["the violin"]


@pytest.mark.parametrize(
    "memos", ["", "???", "Sure! Here are the topics.", "1-2 | zxqv | bnmw kjhg zxqv", "9-12 | dogs | Dogs."]
)
def test_garbage_leaves_a_marked_fallback(view, memos: str):
    one = view(Model(memos=memos))
    one.session(0, *LINES)
    [record] = one.records
    assert record.fallback
    assert record.text == f"talk: {LINES[0]} {LINES[2]}"  # the two longest lines, in their order
    assert record.sources == ("u1", "u2", "u3", "u4")
    assert one.store.shelf(one.key, "memochat").undigested() == []


@pytest.mark.parametrize("checked", [True, False])
def test_a_memo_that_nobody_supports_is_rejected(view, checked: bool):
    memos = MEMOS + "\n3-4 | a wedding | Maya married Ben in Rome, and Sam was the best man."
    one = view(Model(memos=memos), memochat={"checked": checked})
    one.session(0, *LINES)
    assert [r.details["topic"] for r in one.records] == ["dogs in Rome", "the violin", *["a wedding"] * (not checked)]
    assert one.records[0].details.get("dropped", 0) == checked
    assert not any(r.fallback for r in one.records)


def test_a_session_of_unsupported_memos_is_requested_once_more(view):
    answers = iter(["1-4 | Rome | Maya married Ben and moved to Rome for her studies.", MEMOS])
    one = view(lambda request: next(answers))
    one.session(0, *LINES)
    assert [r.details["topic"] for r in one.records] == ["dogs in Rome", "the violin"]
    assert [r.temperature for r in one.backbone.requests] == [0.0, 0.7]


def test_a_session_beyond_the_window_is_noted_part_by_part(view):
    one = view(Model(memos="1-2 | boats | Maya counted boats in the harbour."), context_window=400)
    one.session(0, *(f"Maya: On day {n} I counted all the boats in the harbour." for n in range(12)))
    assert one.backbone.batches[0] > 1  # one batch all the same
    assert len(one.backbone.batches) == 1
    assert all(
        one.models.count_tokens("memory", r.messages) <= one.models.prompt_budget("memory")
        for r in one.backbone.requests
    )
    sources = [u for r in one.records for u in r.sources]
    assert sources[:2] == ["u1", "u2"]
    assert len(set(sources)) == len(sources) == 2 * len(one.records)


def test_more_topics_than_fit_are_narrowed_to_the_nearest(view):
    model = Model(memos="1-2 | boats | Maya counted boats in the harbour.")
    one = view(model, context_window=406)
    for day in range(20):
        one.session(day, "Maya: I counted the boats.", "Sam: In the harbour?")
    model.memos = "1-2 | bees | Maya keeps bees in Lyon."
    one.session(20, "Maya: I keep bees in Lyon.", "Sam: Nice.")
    model.picks = "1"
    one.ask("Do you keep bees?", 30)
    assert "bees: Maya keeps bees in Lyon." in model.asked[-1]
    assert one.view.explanation["options"] < 21
    assert one.models.count_tokens("memory", one.backbone.requests[-1].messages) <= one.models.prompt_budget("memory")


def run_of(*lines: str) -> list[Utterance]:
    parts = [line.partition(": ") for line in lines]
    return [Utterance(f"u{n}", who, said, START + DAY, 1) for n, (who, _, said) in enumerate(parts, 1)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (MEMOS, [("dogs in Rome", 2), ("the violin", 2)]),
        ("Here they are:\n\n- 1–2 | **dogs** | Maya took her dogs to Rome.\n", [("dogs", 2)]),
        ("1. 1-2 | dogs | Maya took her dogs to Rome.\n2. 3-4 | violin | Maya sold it.", [("dogs", 2), ("violin", 2)]),
        ("[1]-[2] | [dogs] | [Maya took her dogs to Rome.]", [("dogs", 2)]),
        ("1-2 | dogs | Ada takes her dogs to Rome.", [("talk", 4)]),  # nobody is called Ada
        ("3 | violin | Maya sold her violin.", [("violin", 1)]),
        ("3-99 | violin | Maya sold her violin.", [("violin", 2)]),
        ("0-2 | dogs | Maya took her dogs.", [("talk", 4)]),
        (f"1-2 | {'dogs ' * 40} | Maya took her dogs.", [("talk", 4)]),
    ],
)
def test_what_is_read_out_of_an_answer(answer: str, expected: list[tuple[str, int]]):
    assert [
        (m.topic, len(m.utterances)) for m in memos_of(Completion(answer, 1, 1), run_of(*LINES), READING)
    ] == expected


def test_a_truncated_line_is_not_a_memo():
    cut = Completion(MEMOS[:-8], 1, 1, finish="length")
    assert [m.topic for m in memos_of(cut, run_of(*LINES), READING)] == ["dogs in Rome"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("2", {2}),
        ("1, 3", {1, 3}),
        ("1#2", {1, 2}),
        ("Numbers: 2, 3\nBecause they help.", {2, 3}),
        ("Notes 1 and 3", {1, 3}),
        ("1, 2\n2 is about dogs", {1, 2}),
        ("2\n\n2. The dog", {2}),
        ("1, 3\n1. dogs\n3. cats", {1, 3}),
        ("1\n3", {1, 3}),
        ("0", set()),
        ("2, 9", {2}),
        ("9", None),
        ("", None),
        ("The dogs, 2", None),
        ("1. dogs in Rome: Maya took her dogs.\n2. the violin", None),  # the list over again
    ],
)
def test_which_numbers_are_picked(answer: str, expected: set[int] | None):
    assert picked_numbers(answer, 3) == expected
