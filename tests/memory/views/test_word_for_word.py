"""The views that keep what was said word for word: none, full, history, bm25 and dense."""

import math

import pytest
from one_view import MINUTE, START

from ld_agent.errors import StoreError

DOGS = ("Maya: My two dogs love the beach.", "Sam: What are the dogs called?", "Maya: Rex and Luna.")
VIOLIN = ("Maya: I sold my violin to Ben.", "Sam: Do you miss the violin?")
WORD_FOR_WORD = ("full", "history", "bm25", "dense")


def test_none_keeps_nothing_and_recalls_nothing(open_view):
    one = open_view("none")
    one.session(0, *DOGS)
    assert one.records == []
    assert one.ask("Do your dogs love the beach?") == []
    assert one.store.shelf(one.key, "none").undigested() == []  # taken in all the same, once and for all


@pytest.mark.parametrize("name", WORD_FOR_WORD)
def test_what_another_process_stored_is_seen(open_view, name: str):
    early, other = open_view(name), open_view(name)
    assert early.ask("Where is your violin?") == []
    other.session(0, *VIOLIN)
    assert early.ask("Where is your violin?") == other.ask("Where is your violin?") != []


@pytest.mark.parametrize("name", ["history", "bm25", "dense"])
def test_k_bounds_what_is_recalled(open_view, name: str):
    open_view(name).session(0, *DOGS, *VIOLIN)
    assert len(open_view(name, k=2).ask("Do the dogs like the violin?")) == 2


@pytest.mark.parametrize("name", WORD_FOR_WORD)
def test_a_conversation_deleted_meanwhile_is_said_to_be(open_view, name: str):
    one = open_view(name)
    one.session(0, *VIOLIN)
    assert one.ask("Where is your violin?")
    one.store.delete_conversation(one.key)
    with pytest.raises(StoreError, match="deleted while in use; reopen it"):
        one.ask("Where is your violin?")


# ---- dense and history


def test_dense_finds_the_nearest_utterances_by_cosine_alone(open_view):
    one = open_view("dense", k=2)
    one.session(0, *DOGS)
    one.session(50, *VIOLIN)
    found = one.ask("Which pets do you have?", 60)
    cosines = {text: one.cosine("Which pets do you have?", text) for text in (*DOGS, *VIOLIN)}
    best = sorted(cosines, key=lambda text: -cosines[text])[:2]
    assert [r.record.text for r in found] == best
    for r in found:
        assert (r.s_sem, r.score) == (pytest.approx(cosines[r.record.text], abs=1e-6),) * 2
        assert (r.s_top, r.decay, r.overlap) == (0.0, 1.0, ())
        assert len(r.record.sources) == 1


def test_gamma_may_leave_no_relevant_memory(open_view):
    open_view("dense").session(0, *VIOLIN)
    assert open_view("dense", gamma=0.5).texts("Who bought your violin?") != []
    assert open_view("dense", gamma=0.5).ask("What is the square root of nine?") == []


def test_history_keeps_exchanges_and_never_across_sessions(open_view):
    one = open_view("history")
    one.session(0, *DOGS)
    one.session(1, *VIOLIN)
    assert [(r.text, r.sources, r.session) for r in one.records] == [
        (f"{DOGS[0]}\n{DOGS[1]}", ("u1", "u2"), 1),
        (DOGS[2], ("u3",), 1),
        ("\n".join(VIOLIN), ("u4", "u5"), 2),
    ]
    assert one.records[0].at == START + MINUTE
    assert one.texts("Who has your violin now?")[0] == "\n".join(VIOLIN)


# ---- bm25


def test_bm25_scores_as_worked_by_hand(open_view):
    one = open_view("bm25")
    one.session(0, "Maya: Red apples.", "Sam: Green apples taste sour.", "Maya: Bread.")
    [sour] = one.ask("sour")
    # Content words with the speaker's: 3, 5, 2; their mean is 10/3. "sour" stands in 1 of 3:
    # idf = ln(1 + (3 - 1 + 0.5) / (1 + 0.5)) = ln(8/3); tf = 1 / (1 + 1.5 (0.25 + 0.75 · 5 / (10/3))) = 1 / 3.0625
    assert sour.score == pytest.approx(math.log(8 / 3) / 3.0625, abs=1e-5)
    assert (sour.s_sem, sour.s_top, sour.decay) == (0.0, 0.0, 1.0)
    # "apples" stands in 2 of 3: idf = ln(1 + 1.5 / 2.5) = ln 1.6; the shorter text wins:
    # 1 / (1 + 1.5 (0.25 + 0.75 · 3 / (10/3))) = 1 / 2.3875
    red, green = one.ask("the apples")
    assert (red.record.text, green.record.text) == ("Maya: Red apples.", "Sam: Green apples taste sour.")
    assert red.score == pytest.approx(math.log(1.6) / 2.3875, abs=1e-5)
    assert green.score == pytest.approx(math.log(1.6) / 3.0625, abs=1e-5)


@pytest.mark.parametrize("text", ["What did you do?", "???", "zebra", "🎉"])
def test_bm25_without_a_shared_content_word_recalls_nothing(open_view, text: str):
    one = open_view("bm25")
    one.session(0, *DOGS)
    assert one.ask(text) == []


def test_bm25_of_texts_without_words(open_view):
    one = open_view("bm25")
    one.session(0, "😀: 🎉", "😎: !?")
    assert one.ask("violin") == []
    one.session(1, *VIOLIN)
    assert one.texts("violin") != []


# ---- full


def test_full_gives_everything_newest_first(open_view):
    one = open_view("full")
    one.session(0, *(f"Maya: Line {n}." for n in range(10)))
    one.session(1, *VIOLIN)
    assert [r.text.count("\n") + 1 for r in one.records] == [8, 2, 2]
    found = one.ask("anything", 2)
    assert [r.record.text for r in found] == [r.text for r in reversed(one.records)]
    assert [r.score for r in found] == [1, 1 / 2, 1 / 3]
    assert one.view.notes == ()


def test_full_leaves_the_oldest_out_first_and_says_so(open_view):
    one = open_view("full", context_window=160)
    for day in range(6):
        one.session(day, f"Maya: On day {day} I counted the boats in the harbour.", "Sam: How many were there?")
    # The generator's 64 new tokens leave 96 of 160, three quarters of them are 72: the newest records as far as they go
    found = one.ask("boats", 10)
    assert [r.record.session for r in found] == [6, 5]
    assert one.view.notes == ("the oldest 4 of 6 pieces of earlier sessions did not fit the model's window",)
    one.say(10, "Maya: " + "word " * 30)  # the running session takes room
    assert [r.record.session for r in one.ask("boats", 11)] == [6]
    assert one.view.notes[0].startswith("the oldest 5 of 6 ")


def test_history_reflects_on_a_recall_if_rounds_are_set(open_view):
    first = open_view("history")
    first.session(0, *DOGS)
    first.session(1, *VIOLIN)
    plain, reflecting = (
        open_view("history", k=1),
        open_view("history", {"memory": "Missing: dogs, beach"}, k=1, history={"rounds": 1}),
    )
    assert plain.texts("Who bought the violin?") == ["\n".join(VIOLIN)]
    assert reflecting.texts("Who?") == ["\n".join(DOGS[:2])]
    assert [entry["outcome"] for entry in reflecting.view.explanation["rounds"]] == ["missing"]
    none = open_view("history", {"memory": "Enough: none"}, history={"rounds": 1})
    assert none.ask("Who bought the violin?") == []
