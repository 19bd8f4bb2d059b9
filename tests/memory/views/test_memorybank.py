"""MemoryBank: what is summarised when, whose portrait changes, and what is forgotten."""

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from one_view import DAY, MINUTE, START, OneView

from ld_agent.memory.views.memorybank import _line_about
from ld_agent.storage.rows import RECALLS_KEPT as KEPT
from ld_agent.storage.rows import recalls_before

DOGS = ("Maya: I took my two dogs to Rome.", "Sam: Did the dogs like Rome?")
VIOLIN = ("Maya: I sold my violin to Ben.", "Sam: Do you miss the violin?")
BREAD = ("Maya: I bake bread every Sunday.", "Sam: The bread must smell good.")
SUMMARIES = {
    "dogs": "Maya took her two dogs to Rome.",
    "violin": "Maya sold her violin to Ben.",
    "bread": "Maya bakes bread on Sundays.",
}


def told(request: Any) -> str:
    return str(request.messages[-1].content)


def summarizer(request: Any) -> str:
    """The summary of the session that the prompt shows."""
    return next(summary for word, summary in SUMMARIES.items() if word in told(request))


class Bank:
    """A model that answers MemoryBank's own requests, and notes them."""

    def __init__(self, answer: Callable[[str], str] | None = None) -> None:
        self.asked: list[str] = []
        self._answer = answer

    def __call__(self, request: Any) -> str:
        self.asked.append(told(request))
        if self._answer is not None:
            return self._answer(told(request))
        if "<conversation>" in told(request):
            person = told(request).split("Describe ")[1].split(" in at most")[0]
            return f"{person} is cheerful, portrait {len(self.asked)}."
        return f"Maya did all of it, summary {len(self.asked)}."


@pytest.fixture
def view(open_view: Callable[..., OneView]) -> Callable[..., OneView]:
    def made(bank: Any = None, summaries: Any = summarizer, checked: bool = False, **settings: Any) -> OneView:
        settings["memorybank"] = {"checked": checked} | settings.get("memorybank", {})
        return open_view("memorybank", {"summarizer": summaries, "memory": bank or Bank()}, **settings)

    return made


def kinds(one: OneView) -> list[tuple[int, str, str, str]]:
    return [(r.session, r.details["kind"], r.details["of"], r.text) for r in one.records]


def test_what_sessions_become(view):
    bank = Bank()
    one = view(bank)
    one.session(0, *DOGS)
    assert kinds(one) == [
        (1, "session", "2024-05-01", SUMMARIES["dogs"]),
        (1, "portrait", "Maya", "Maya is cheerful, portrait 1."),
        (1, "whole", "", SUMMARIES["dogs"]),  # of one day it is the day's
    ]
    assert one.backbone.batches == [2]  # summary and portrait together, and no more
    one.session(0.1, *VIOLIN)  # later that day: a summary of the day, none of several days
    assert kinds(one)[3:] == [
        (2, "session", "2024-05-01", SUMMARIES["violin"]),
        (2, "portrait", "Maya", "Maya is cheerful, portrait 2."),
        (2, "day", "2024-05-01", "Maya did all of it, summary 3."),
        (2, "whole", "", "Maya did all of it, summary 3."),
    ]
    assert "Maya is cheerful, portrait 1." in bank.asked[1]  # the portrait goes on from the one before
    assert f"2024-05-01: {SUMMARIES['dogs']}\n- 2024-05-01: {SUMMARIES['violin']}" in bank.asked[2]
    one.session(1, *BREAD)
    assert kinds(one)[-1] == (3, "whole", "", "Maya did all of it, summary 5.")
    assert f"2024-05-01: Maya did all of it, summary 3.\n- 2024-05-02: {SUMMARIES['bread']}" in bank.asked[4]
    assert one.backbone.batches == [2, 2, 1, 2, 1]
    assert [r.sources for r in one.records if r.session == 2] == [
        ("u3", "u4"), ("u3",), ("u1", "u2", "u3", "u4"), ("u3", "u4"),
    ]  # fmt: skip
    assert {r.at for r in one.records if r.session == 3} == {START + DAY + MINUTE}


def test_sessions_that_waited_are_taken_in_together(view):
    one = view()
    for day, lines in enumerate((DOGS, VIOLIN, BREAD)):
        one.say(day, *lines)
        one.store.close_session(one.key)
    one.digest()
    assert one.backbone.batches == [4, 1, 1, 1]  # three summaries with the first portrait, two portraits, everything
    assert [kind for _, kind, *_ in kinds(one)] == ["session", "portrait"] * 3 + ["whole"]
    assert one.store.shelf(one.key, "memorybank").undigested() == []


def test_everyone_but_the_agent_has_a_portrait_and_those_present_are_recalled(view):
    one = view()
    one.session(0, DOGS[0], "Ben: I love dogs.", DOGS[1])
    assert [of for _, kind, of, _ in kinds(one) if kind == "portrait"] == ["Maya", "Ben"]
    recalled = {r.record.details["of"] for r in one.ask("Hello", 1) if r.record.details["kind"] == "portrait"}
    assert recalled == {"Maya", "Ben"}
    one.say(2, "Ben: Hello again.")
    recalled = {r.record.details["of"] for r in one.ask("Hello again.", 2) if r.record.details["kind"] == "portrait"}
    assert recalled == {"Ben"}


@pytest.mark.parametrize(
    "garbage",
    ["", "???", "zxqv bnmw kjhg", "<conversation> Maya: I took my two dogs to Rome.", "2024-05-01: Maya sold it."],
)
def test_garbage_costs_a_marked_fallback(view, garbage: str):
    one = view(Bank(lambda _: garbage), summaries="???")
    one.session(0, *DOGS)
    one.session(1, *VIOLIN)
    assert [(r.details["kind"], r.fallback) for r in one.records] == [
        ("session", True), ("whole", False), ("session", True), ("whole", True),
    ]  # fmt: skip
    assert one.records[-1].text == f"{one.records[0].text} {one.records[2].text}"
    assert one.ask("Where is your violin?", 2)


def test_a_portrait_survives_a_useless_answer(view):
    view().session(0, *DOGS)
    one = view(Bank(lambda _: "???"))
    one.session(1, *VIOLIN)
    assert [r.record.text for r in one.ask("Hello", 2) if r.record.details["kind"] == "portrait"] == [
        "Maya is cheerful, portrait 1."
    ]


def test_what_the_dialogue_does_not_support_is_dropped_and_counted(view):
    def answer(prompt: str) -> str:
        if "<conversation>" in prompt:
            return "Maya has two dogs. She is a nurse."
        return "Maya took her dogs to Rome. Maya bought a boat."

    one = view(Bank(answer), summaries=lambda _: "Maya took her two dogs to Rome. Maya is married.", checked=True)
    one.session(0, *DOGS)
    one.session(1, *BREAD)
    texts = {(r.session, r.details["kind"]): (r.text, r.details.get("dropped", 0), r.fallback) for r in one.records}
    assert texts[1, "session"] == ("Maya took her two dogs to Rome.", 1, False)
    assert texts[1, "portrait"] == ("Maya has two dogs.", 1, False)
    assert texts[2, "session"][1:] == (2, True), "the dialogue about bread supports nothing of it"
    assert "Maya: I bake bread every Sunday." in texts[2, "session"][0]
    assert texts[2, "portrait"] == ("Maya has two dogs.", 1, False), "it was known"
    assert texts[2, "whole"] == ("Maya took her dogs to Rome.", 1, False)
    plain = view(Bank(answer), summaries=lambda _: "Maya is married.")
    plain.session(2, *VIOLIN)
    assert [r.text for r in plain.records][-3:] == [
        "Maya is married.",
        "Maya has two dogs. She is a nurse.",
        "Maya took her dogs to Rome. Maya bought a boat.",
    ]


def test_a_summary_of_several_days_may_name_their_months(view):
    answer = "In May 2024, Maya took her dogs to Rome. In June 2024, Maya baked bread."
    one = view(Bank(lambda _: answer), summaries=summarizer, checked=True)
    one.session(0, *DOGS)
    one.session(1, *BREAD)
    whole = one.records[-1]
    assert (whole.text, whole.details["dropped"]) == ("In May 2024, Maya took her dogs to Rome.", 1)


def test_an_unsupported_portrait_is_requested_once_more(view):
    answers = iter(["Maya is a nurse.", "Maya has two dogs."])
    one = view(Bank(lambda _: next(answers)), checked=True)
    one.session(0, *DOGS)
    assert [r.text for r in one.records if r.details["kind"] == "portrait"] == ["Maya has two dogs."]
    first, again = [r for r in one.backbone.requests if r.module == "memory"]
    assert (first.temperature, again.temperature) == (0.0, 0.7)


def test_a_past_too_long_for_the_window_is_replaced_by_its_summary(view):
    one = view(context_window=360)
    for day in range(12):
        one.session(day, *(DOGS, VIOLIN, BREAD)[day % 3])
    asked = [r for r in one.backbone.requests if r.module == "memory" and "<summaries>" in told(r)][-1]
    assert told(asked).count("- earlier: Maya did all of it") == 1
    assert "2024-05-12" in told(asked)
    assert "2024-05-01" not in told(asked)
    assert one.models.count_tokens("memory", asked.messages) <= one.models.prompt_budget("memory")


# ---- forgetting


def sessions_of(found: list[Any]) -> dict[int, Any]:
    return {r.record.session: r for r in found if r.record.details["kind"] == "session"}


def test_forgetting_follows_the_curve_and_recalls_slow_it_down(view):
    one = view(k=1, memorybank={"strength": 86400.0, "forgotten_below": 0.05})
    one.session(0, *DOGS)
    asked = "Did the dogs like Rome?"
    born = one.records[0].at
    # Two days after: R = e^-2 = 0.135; the recall makes S two days and begins the count anew
    first = sessions_of(one.ask(asked, 2 + MINUTE / DAY))[1]
    assert first.decay == pytest.approx(math.exp(-2))
    assert first.score == first.s_sem == pytest.approx(one.cosine(asked, SUMMARIES["dogs"]), abs=1e-6)
    # Four days after that: R = e^(-4/2); never recalled it would be e^-6 = 0.002, and forgotten
    second = sessions_of(one.ask(asked, 6 + MINUTE / DAY))[1]
    assert second.decay == pytest.approx(math.exp(-2))
    # S is three days now; ten days after: R = e^(-10/3) = 0.036 < 0.05
    assert sessions_of(one.ask(asked, 16 + MINUTE / DAY)) == {}
    assert one.view.explanation == {"forgotten": {"m1": round(math.exp(-10 / 3), 6)}}
    assert recalls_before(one.records[0].details, START + 50 * DAY) == (2, born + 6 * DAY)
    assert [r.record.details["kind"] for r in one.ask(asked, 16)] == ["whole", "portrait"]  # these are never forgotten


def test_asking_again_for_the_same_time_or_an_earlier_one_changes_no_number(view):
    one = view(k=1)
    one.session(0, *DOGS)
    first = one.ask("Did the dogs like Rome?", 1)
    later = one.ask("Did the dogs like Rome?", 3)
    for _ in range(3):
        assert [(r.decay, r.score) for r in one.ask("Did the dogs like Rome?", 1)] == [
            (r.decay, r.score) for r in first
        ]
        again = view(k=1)
        assert [(r.decay, r.score) for r in again.ask("Did the dogs like Rome?", 3)] == [
            (r.decay, r.score) for r in later
        ]


def test_what_is_not_chosen_is_not_strengthened(view):
    one = view(k=1)
    one.session(0, *DOGS)
    one.session(1, *VIOLIN)
    assert set(sessions_of(one.ask("Who bought your violin?", 2))) == {2}
    assert ["recalls" in r.details for r in one.records if r.details["kind"] == "session"] == [False, True]


def test_nothing_is_forgotten_at_a_bound_of_zero(view):
    one = view(memorybank={"forgotten_below": 0.0})
    one.session(0, *DOGS)
    assert sessions_of(one.ask("Did the dogs like Rome?", 300))


def test_a_day_and_its_sessions_do_not_repeat_each_other(view):
    one = view(Bank(lambda prompt: "Maya sold her violin to Ben and took her dogs to Rome." * ("<summ" in prompt)))
    one.session(0, *DOGS)
    one.session(0.1, *VIOLIN)
    found = [r.record for r in one.ask("Maya sold her violin to Ben and took her dogs to Rome.", 1)]
    assert [r.details["kind"] for r in found] == ["whole", "day"]
    found = [r.record for r in one.ask(SUMMARIES["violin"], 1)]
    assert [r.details["kind"] for r in found] == ["whole", "session", "session"]


def test_recalls_beyond_those_kept_are_counted(view):
    one = view()
    one.session(0, *DOGS)
    [key] = [row.key for row in one.store.shelf(one.key, "memorybank").rows_after(0)][:1]
    for hour in range(KEPT + 5):
        one.store.shelf(one.key, "memorybank").note_recall([key], START + timedelta(hours=hour))
    details = one.records[0].details
    assert (len(details["recalls"]), details["recalled_before"]) == (KEPT, 5)
    assert recalls_before(details, START + DAY * 9) == (KEPT + 5, START + timedelta(hours=KEPT + 4))


@pytest.mark.parametrize(
    ("answer", "about"),
    [
        ("Maya: Maya loves bees.\nSam: Sam is kind.", "Maya loves bees."),
        ("Sam: Sam is kind.\n**Maya**: Maya is shy.", "Maya is shy."),
        ("Maya：Maya is shy.", "Maya is shy."),
        ("Maya: I love bees.\nSam: I see.", "Maya: I love bees.\nSam: I see."),  # the conversation over again
    ],
)
def test_a_portrait_may_be_a_persons_line_of_an_answer(answer: str, about: str):
    assert _line_about("Maya", answer) == about
