"""ECM's summary view: one summary a session, the nearest of them recalled."""

from collections.abc import Callable

import pytest
from one_view import DAY, MINUTE, START, OneView

ROME, VIOLIN = "Maya took her two dogs to Rome.", "Maya sold her violin to Ben."


@pytest.fixture
def view(open_view: Callable[..., OneView]) -> Callable[..., OneView]:
    return lambda answers, **settings: open_view("summary", {"summarizer": answers}, **settings)


def talk(one: OneView) -> None:
    one.session(0, "Maya: I took my dogs to Rome.", "Sam: How nice.")
    one.session(1, "Maya: I sold my violin to Ben.", "Sam: Why?")


def test_a_session_becomes_one_record_in_one_call(view):
    one = view([ROME, VIOLIN])
    talk(one)
    assert [(r.text, r.session, r.sources, r.fallback) for r in one.records] == [
        (ROME, 1, ("u1", "u2"), False),
        (VIOLIN, 2, ("u3", "u4"), False),
    ]
    assert one.records[1].at == START + DAY + MINUTE
    assert one.backbone.batches == [1, 1]


def test_the_nearest_summary_is_recalled_by_cosine_alone(view):
    talk(view([ROME, VIOLIN]))
    one = view([], k=3)  # k is of other views; this one's is summary.k
    [found] = one.ask("Who bought your violin?", 300)
    assert found.record.text == VIOLIN
    assert found.s_sem == found.score == pytest.approx(one.cosine("Who bought your violin?", VIOLIN), abs=1e-6)
    assert (found.s_top, found.decay) == (0.0, 1.0)
    assert one.texts("Who bought your violin?", 0.5) == [ROME]  # the other one is younger
    assert len(view([], summary={"k": 2}).ask("Who bought your violin?")) == 2


def test_the_recall_is_reflected_on_if_rounds_are_set(open_view):
    script = {"summarizer": [ROME, VIOLIN], "memory": "Enough: none"}
    one = open_view("summary", script, summary={"rounds": 1})
    talk(one)
    assert one.ask("Who bought your violin?") == []
    assert [entry["outcome"] for entry in one.view.explanation["rounds"]] == ["enough"]
