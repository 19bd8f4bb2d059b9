"""The contract of SQLiteStore, Shelf and PersonaShelf, run on every engine: what is stored is read back as it was, conversations
stay apart, nothing is given out or taken in twice, and changes by hand are dated.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from ld_agent.errors import EncoderMismatchError, InputError, RepeatedRowError, StoreError
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.reindex import BATCH, reindex
from ld_agent.storage.rows import CATCH_UP, PATIENCE, TRAITS, Draft, Rewriting
from ld_agent.storage.store import Store

ENGINES = ("sqlite", "postgres")
Fill = Callable[..., int]
OpenStore = Callable[[], Store]
AT = datetime(2024, 5, 1, 18, 30, 0, 123457, tzinfo=UTC)
VECTOR = np.arange(4, dtype=np.float32)


@pytest.fixture
def key(store: Store) -> int:
    return store.open_conversation("maya", "Sam").key


def no_clock() -> datetime:
    raise AssertionError("the time was given; the clock is not asked")


def say(store: Store, key: int, text: str, at: datetime = AT, speaker: str = "Maya") -> str:
    return store.append(key, speaker, text, at, beta=3600, now=no_clock).id


# ---- what is stored is read back


@pytest.mark.parametrize(
    "at",
    [
        AT,
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2024, 5, 1, 3, 0, 0, 1, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    ],
)
def test_times_are_kept_to_the_microsecond(store: Store, key: int, open_store: OpenStore, at: datetime) -> None:
    say(store, key, "hello", at)
    store.personas(key).add("Maya", "I sing.", at, "u1", VECTOR)
    store.shelf(key, "events").digest(1, [Draft("They talk.", at, 1)])
    again = open_store()
    [said], [(trait, _)], [record] = again.utterances(key), again.personas(key).traits(), again.records(key)
    assert said.at == trait.at == trait.last_at == record.at == at
    assert said.at.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "text", ["a\0b", "مرحبا \u202e أهلا", "\r\n\t\x1b[31m", "'; DROP TABLE utterance; --", "x" * 100_000]
)
def test_texts_are_kept_to_the_character(store: Store, open_store: OpenStore, text: str) -> None:
    key = store.open_conversation(text, text).key
    say(store, key, text, speaker=text)
    store.shelf(key, text).digest(1, [Draft(text, AT, 1, topics=(text,), sources=(text,), details={text: [text]})])
    again = open_store()
    stored = again.find_conversation(text)
    assert stored is not None
    assert (stored.id, stored.agent) == (text, text)
    assert [(u.text, u.speaker) for u in again.utterances(stored.key)] == [(text, text)]
    [record] = again.records(stored.key)
    assert (record.text, record.view, record.topics, record.details) == (text, text, (text,), {text: [text]})


def test_half_a_character_is_refused_in_one_line(store: Store) -> None:
    with pytest.raises(StoreError, match="holds half a character"):
        store.open_conversation("\ud800", "Sam")


# ---- conversations


def test_many_conversations_stay_apart(store: Store, fill: Fill) -> None:
    words = [f"word{n:02}q" for n in range(30)]
    keys = {word: fill(store, f"with {word}", word) for word in words}
    assert [c.id for c in store.conversations()] == [f"with {word}" for word in words]
    for word, key in keys.items():
        everything = [
            store.utterances(key),
            store.open_utterances(key),
            store.unextracted(key),
            store.records(key),
            store.personas(key).traits(),
            store.speakers(key),
            store.shelf(key, "other").undigested(),
            list(store.shelf(key, "events").rows_after(0)),
        ]
        for part in everything:
            assert part
            assert all(word in str(item) or "Sam" in str(item) or "IndexRow" in str(item) for item in part)
            assert not any(other in str(part) for other in words if other != word)
        assert store.counts(key) == {"sessions": 2, "utterances": 4, "records": 1, "traits": 1}


def test_a_record_of_another_conversation_cannot_be_read_by_its_key(store: Store, fill: Fill) -> None:
    mine, other = fill(store, "mine"), fill(store, "other")
    foreign = [row.key for row in store.shelf(other, "events").rows_after(0)]
    assert store.shelf(other, "events").records(foreign)
    with pytest.raises(StoreError):
        store.shelf(mine, "events").records(foreign)
    assert store.shelf(mine, "events").with_sources(foreign) == []


def test_keys_and_ids_are_never_given_twice(store: Store, key: int) -> None:
    assert [say(store, key, "a"), say(store, key, "b")] == ["u1", "u2"]
    for expected in ("t1", "t2"):
        assert store.personas(key).add("Maya", "I sing.", AT, "u1", VECTOR).id == expected
        store.forget(key, expected, AT)
    for session, expected in ((1, "m1"), (2, "m2")):
        [record] = store.shelf(key, "events").digest(session, [Draft("They talk.", AT, session)])
        assert record.id == expected
        store.forget(key, expected, AT)
    store.delete_conversation(key)
    assert store.open_conversation("maya", "Sam").key > key
    assert not store.is_stored(key)


def test_records_are_returned_in_the_requested_order(store: Store, key: int) -> None:
    shelf = store.shelf(key, "events")
    most = 2000
    shelf.digest(1, [Draft("They talk.", AT, 1)] * most)
    keys = [row.key for row in shelf.rows_after(0)]
    assert len(keys) == shelf.count() == most
    assert keys == sorted(set(keys))
    assert [r.id for r in shelf.records(keys[::-1])][:2] == [f"m{most}", f"m{most - 1}"]
    assert [row.key for row in shelf.rows_after(keys[-3])] == keys[-2:]
    assert store.utterances_by_id(key, [f"u{n}" for n in range(40_000)]) == {}, (
        "SQLite takes 32,766 values in a statement"
    )


# ---- sessions


def test_a_gap_of_beta_continues_and_a_microsecond_more_begins_a_session(store: Store, key: int) -> None:
    for seconds in (0, 3600, 7200):
        say(store, key, "on", AT + timedelta(seconds=seconds))
    assert [u.session for u in store.utterances(key)] == [1, 1, 1]
    say(store, key, "new", AT + timedelta(seconds=10800, microseconds=1))
    assert [u.text for u in store.open_utterances(key)] == ["new"]
    [closed] = store.shelf(key, "events").undigested()
    assert (closed.number, len(closed.utterances)) == (1, 3)


def test_a_clock_that_goes_back_is_held(store: Store, key: int) -> None:
    say(store, key, "first")
    with pytest.raises(InputError, match="is before the last utterance"):
        say(store, key, "earlier", AT - timedelta(microseconds=1))
    said = store.append(key, "Maya", "later", None, 3600, lambda: AT - timedelta(days=1))
    assert said.at == AT
    with pytest.raises(InputError, match=r"the clock=.* has no time zone"):
        store.append(key, "Maya", "when?", None, 3600, lambda: datetime(2024, 6, 1))  # noqa: DTZ001
    assert [u.text for u in store.utterances(key)] == ["first", "later"]


def test_a_session_is_closed_once_and_digested_once_by_each_view(store: Store, key: int) -> None:
    say(store, key, "hello")
    assert [store.close_session(key), store.close_session(key)] == [1, None]

    shelf = store.shelf(key, "events")
    assert [r.id for r in shelf.digest(1, [Draft("They greet.", AT, 1, VECTOR)])] == ["m1"]
    assert shelf.digest(1, [Draft("They greet.", AT, 1, VECTOR)]) == []
    assert shelf.undigested() == []
    assert [s.number for s in store.shelf(key, "other").undigested()] == [1]
    assert len(store.records(key)) == 1


def test_writes_that_belong_together_are_stored_together_or_not_at_all(store: Store, open_store: OpenStore) -> None:
    key, other = store.open_conversation("maya", "Sam").key, open_store()

    def interrupted() -> None:
        with store.writing(key):
            say(store, key, "hello")
            store.personas(key).add("Maya", "I sing.", AT, "u1", VECTOR)
            assert other.utterances(key) == []
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (store.utterances(key), store.personas(key).traits()) == ([], [])
    assert say(store, key, "hello") == "u1"


def test_another_connection_is_noticed_and_ones_own_writes_are_not(store: Store, open_store: OpenStore) -> None:
    key, other = store.open_conversation("maya", "Sam").key, open_store()
    before = store.version(key)
    say(store, key, "mine")
    assert store.version(key) == before
    say(other, key, "yours")
    assert store.version(key) != before
    before = store.version(key)
    with other.writing(None):
        say(other, key, "inside another transaction")
    assert store.version(key) != before
    other.delete_conversation(key)
    assert store.version(key) is None


# ---- threads


def test_threads_have_separate_sessions_and_gaps(store: Store, key: int) -> None:
    def said(thread: str, text: str, minutes: int) -> int:
        at = AT + timedelta(minutes=minutes)
        return store.append(key, "Maya", text, at, 3600, no_clock, thread).session

    sessions = [said("phone", "a", 0), said("desk", "b", 50), said("phone", "c", 30), said("desk", "d", 100)]
    assert sessions == [1, 2, 1, 2]
    assert said("phone", "e", 91) == 3, "61 minutes after what was said last on the phone"
    assert store.open_threads(key) == ["desk", "phone"]
    assert [u.text for u in store.open_utterances(key, "desk")] == ["b", "d"]
    assert [u.text for u in store.open_utterances(key, None)] == ["b", "d", "e"]
    assert store.open_utterances(key, "") == []
    last = [store.last_utterance(key, thread) for thread in ("phone", "desk", None, "elsewhere")]
    assert [u and u.text for u in last] == ["e", "d", "e", None]
    assert [u.text for u in store.last_of_each(key)] == ["d", "e"]
    assert (store.close_session(key, "desk"), store.close_session(key, "desk")) == (2, None)
    assert store.open_threads(key) == ["phone"]
    assert [u.text for u in store.utterances(key)] == ["a", "b", "c", "d", "e"]


# ---- views that are enabled


@pytest.mark.parametrize("past", [CATCH_UP, CATCH_UP + 1])
def test_a_newly_enabled_view_takes_in_a_short_past_and_leaves_a_long_one_to_a_rebuild(
    store: Store, key: int, past: int
) -> None:
    for day in range(past + 2):
        say(store, key, f"day {day}", AT + timedelta(days=day))
        if day == past:
            shelf = store.shelf(key, "events")
            shelf.enable()
    store.close_session(key)
    shelf.enable()
    numbers = list(range(1, past + 3))
    left = past if past > CATCH_UP else 0
    assert shelf.backlog() == left
    assert [s.number for s in shelf.undigested()] == numbers[left:]
    assert [s.number for s in shelf.undigested(1)] == numbers[left : left + 1]
    assert [s.number for s in shelf.undigested(backlog=True)] == numbers
    shelf.digest(numbers[-1], [])
    shelf.digest(1, [])
    assert shelf.backlog() == max(left - 1, 0)
    assert [s.number for s in shelf.undigested(backlog=True)] == numbers[1:-1]


def test_an_utterance_is_observed_once_and_its_verdict_waits_for_that(
    store: Store, key: int, open_store: OpenStore
) -> None:
    for speaker, text in (("Maya", "I sing."), ("Sam", "Lovely."), ("Ben", "I paint.")):
        say(store, key, text, speaker=speaker)
    shelf, other = store.shelf(key, "conditional"), open_store().shelf(key, "conditional")
    assert [u.id for u in shelf.unobserved(1, "Sam")] == ["u1", "u3"]
    shelf.note_verdict("u1", True)
    shelf.note_verdict("u3", False)
    assert other.verdicts() == {"u1": True, "u3": False}
    first, third = shelf.unobserved(1, "Sam")
    kept = shelf.observe(first, Draft("Maya sings.", AT, 1, VECTOR))
    assert kept is not None
    assert other.observe(first, Draft("Maya sings.", AT, 1, VECTOR)) is None
    assert shelf.observe(third) is None
    assert (other.unobserved(1, "Sam"), other.verdicts()) == ([], {})
    assert [r.id for r in store.records(key)] == ["m1"]


# ---- pending work that fails


def test_what_fails_is_counted_and_set_aside_until_it_is_retried_or_done(store: Store, open_store: OpenStore) -> None:
    key, elsewhere = (store.open_conversation(name, "Sam").key for name in ("maya", "other"))
    say(store, key, "I sing.")
    store.close_session(key)
    say(store, key, "I paint.")
    shelf = open_store().shelf(key, "events")
    for attempt in range(1, PATIENCE + 1):
        assert [u.id for u in store.unextracted(key)] == ["u1", "u2"]
        assert [s.number for s in shelf.undigested()] == [1]
        aside = store.failed(key, TRAITS, ["u1"], "away\nagain") + store.failed(key, "events", ["1"], "away")
        assert [f.work for f in aside] == ([TRAITS, "events"] if attempt == PATIENCE else [])
    assert [(f.work, f.item, f.attempts, f.set_aside) for f in store.failures(key)] == [
        ("events", "1", PATIENCE, True),
        (TRAITS, "u1", PATIENCE, True),
    ]
    assert store.failures(key)[1].error == "away again"
    assert [u.id for u in store.unextracted(key)] == ["u2"]
    assert (shelf.undigested(), [s.number for s in shelf.undigested(backlog=True)]) == ([], [1])
    assert [s.number for s in store.shelf(key, "other").undigested()] == [1]
    assert store.failures(elsewhere) == []
    store.retry(key)
    assert store.failures(key) == []
    assert ([u.id for u in store.unextracted(key)], len(shelf.undigested())) == (["u1", "u2"], 1)
    for work, item in ((TRAITS, "u1"), ("events", "1"), ("events", "u1")):
        store.failed(key, work, [item], "away")
    store.personas(key).mark_extracted("u1")
    shelf.digest(1, [])
    shelf.observe(store.utterances(key)[0])
    assert store.failures(key) == [], "what is done has not failed"


# ---- changes by hand


def test_an_edit_replaces_text_and_vector_and_is_dated(store: Store, open_store: OpenStore, fill: Fill) -> None:
    key = fill(store, "maya")
    edits, vector = store.edits(key), np.ones(4, np.float32)
    store.shelf(key, "events").keep_snapshot(1, b"index")
    store.edit(key, "m1", "They talk of pecans.", vector, AT)
    store.edit(key, "t2", "I like pecans.", vector, AT + timedelta(days=1))
    other = open_store()
    [record], [_, (trait, kept)] = other.records(key), other.personas(key).traits()
    [row] = other.shelf(key, "events").rows_after(0)
    assert (record.text, trait.text) == ("They talk of pecans.", "I like pecans.")
    assert kept is not None
    assert row.vector is not None
    assert kept.tolist() == row.vector.tolist() == [1, 1, 1, 1]
    assert [(c.target, c.action, c.at, c.before) for c in other.changes(key)] == [
        ("m1", "edit", AT, "They talk about a walnut."),
        ("t2", "edit", AT + timedelta(days=1), "I like walnut."),
    ]
    assert other.edits(key) == edits + 2
    assert other.shelf(key, "events").snapshot() is None


def test_forgetting_leaves_no_earlier_text_and_what_was_superseded_is_active_again(store: Store, fill: Fill) -> None:
    key = fill(store, "maya")
    store.edit(key, "t2", "I like pecans.", VECTOR, AT)
    store.forget(key, "t2", AT + timedelta(days=1))
    [(left, _)] = store.personas(key).traits()
    assert (left.id, left.superseded_by, left.holds_until, left.ended_by) == ("t1", None, None, "")
    assert [(c.target, c.action, c.at, c.before) for c in store.changes(key)] == [
        ("t2", "edit", AT, ""),
        ("t2", "forget", AT + timedelta(days=1), ""),
    ]
    store.forget(key, "m1", AT)
    assert (store.records(key), list(store.shelf(key, "events").rows_after(0))) == ([], [])
    assert [s.number for s in store.shelf(key, "events").undigested()] == [], "what was forgotten is not made again"


def test_what_has_expired_is_removed_and_what_it_superseded_stays_history(
    store: Store, open_store: OpenStore, fill: Fill
) -> None:
    key, other = fill(store, "maya"), open_store()
    store.clock = no_clock
    assert not store.expire(key), "nothing can expire"
    [(first, _), (second, _)] = store.personas(key).traits()
    store.edit(key, second.id, "I like pecans.", VECTOR, AT)
    store.lifetimes = {"record": timedelta(days=5), "trait": timedelta(days=9)}
    store.personas(key).update(first := replace(first, last_at=second.last_at + timedelta(days=1)))
    store.clock = lambda: first.at
    [record], edits = store.records(key), other.edits(key)
    store.pin(key, record.id, True, AT)
    soon = second.last_at + timedelta(days=9)
    store.clock = lambda: soon - timedelta(seconds=1)
    assert (store.expire(key), store.expired()) == (False, [])
    store.clock = lambda: soon
    assert [t.id for t, _ in store.personas(key).traits()] == [first.id]
    assert [c.id for c in store.expired()] == ["maya"]
    assert store.expire(key)
    [(left, _)] = store.personas(key).traits()
    assert (left.id, left.active, left.superseded_by, left.ended_by) == (first.id, False, None, "u3")
    assert store.records(key) == [replace(record, pinned=True)]
    assert [c.before for c in store.changes(key) if c.target == second.id] == [""]
    assert other.edits(key) > edits
    store.pin(key, record.id, False, AT)
    assert store.records(key) == []
    assert store.expire(key)
    assert ([*store.rows(key, "record")], store.expired()) == ([], [])


@pytest.mark.parametrize("undone", ["forgotten", "replaced", "edited"])
def test_what_an_utterance_ended_holds_again_without_it(store: Store, fill: Fill, undone: str) -> None:
    key = fill(store, "maya")
    personas = store.personas(key)
    [(first, _), (second, _)] = personas.traits()
    until = {"holds_until": AT, "otherwise_until": AT + timedelta(days=2)}
    personas.update(replace(first, superseded_by=None, ended_by="u3", **until))
    personas.update(replace(second, holds_until=AT, ended_by="u4", planned_by="u3"))
    assert store.counts(key)["traits"] == 0
    if undone == "replaced":
        store.replace(key, ["u3"])
    else:
        line = "" if undone == "forgotten" else "walnuts"
        store.rewrite(key, Rewriting({"u3": line}, [], forgotten=not line, relearned=["u3"] if line else []), AT)
    ends = [(t.active, t.holds_until, t.ended_by) for t, _ in personas.traits()]
    assert ends == [(True, AT + timedelta(days=2), ""), (False, AT, "u4")]
    assert {(t.planned_by, t.otherwise_until) for t, _ in personas.traits()} == {("", None)}
    assert store.counts(key)["traits"] == 1


@pytest.mark.parametrize("both", [False, True])
def test_a_trait_that_another_line_tells_too_outlives_the_line_that_is_replaced(
    store: Store, key: int, both: bool
) -> None:
    personas, later = store.personas(key), AT + timedelta(days=2)
    eats, first, again = (say(store, key, "Nuts.", at) for at in (AT, AT + timedelta(days=1), later))
    assert all(map(personas.mark_extracted, (eats, first, again)))
    before = personas.add("Maya", "I eat nuts.", AT, eats, VECTOR)
    trait = personas.add("Maya", "I can't eat nuts.", AT + timedelta(days=1), first, VECTOR)
    personas.update(replace(before, superseded_by=trait.id, holds_until=trait.at, ended_by=first))
    personas.update(told := replace(trait, last_at=later, mentions=2))
    if not both:
        store.replace(key, [first])
        [(ended, _), (left, _)] = personas.traits()
        assert (ended.superseded_by, left) == (told.id, replace(told, at=later, source=again, mentions=1))
    store.replace(key, [first, again])
    assert [t for t, _ in personas.traits()] == [before]


def test_a_change_is_carried_to_lines_and_records_and_dated(store: Store, open_store: OpenStore, fill: Fill) -> None:
    key, vector = fill(store, "maya"), np.ones(4, np.float32)
    [record], edits = store.records(key), store.edits(key)
    store.shelf(key, "events").keep_snapshot(1, b"index")
    new = replace(record, text="They talk of pecans.", topics=("pecan",), sources=("u1",), details={"note": "pecan"})
    store.rewrite(key, Rewriting({"u1": "pecans"}, [(new, vector)], relearned=["u1"]), AT)
    other = open_store()
    assert (other.utterances(key)[0].text, other.records(key)) == ("pecans", [new])
    assert "u1" in [u.id for u in other.unextracted(key)]
    assert [(c.target, c.action, c.before) for c in other.changes(key)] == [
        ("u1", "edit", "walnut number 0"),
        ("m1", "edit", "They talk about a walnut."),
    ]
    assert (other.edits(key), other.shelf(key, "events").snapshot()) == (edits + 2, None)
    store.rewrite(key, Rewriting({"u1": ""}, [(replace(new, text=""), vector)], forgotten=True, relearned=["u1"]), AT)
    assert [u.id for u in other.utterances(key)] == ["u2", "u3", "u4"]
    assert (other.records(key), "u1" in [u.id for u in other.unextracted(key)]) == ([], False)
    assert [(c.action, c.before) for c in other.changes(key)] == [("edit", ""), ("edit", ""), *[("forget", "")] * 2]
    assert next(row for row in other.rows(key, "utterance") if row["id"] == "u1")["text"] == ""
    assert other.counters(key)["utterances"] == 4


def test_a_pin_is_kept_and_taken_back(store: Store, fill: Fill) -> None:
    key = fill(store, "maya")
    for target in ("m1", "t1"):
        store.pin(key, target, True, AT)
    assert [r.id for r in store.pinned(key)] == ["m1"]
    assert [t.pinned for t, _ in store.personas(key).traits()] == [True, False]
    store.pin(key, "m1", False, AT)
    assert store.pinned(key) == []
    assert [c.action for c in store.changes(key)] == ["pin", "pin", "unpin"]


@pytest.mark.parametrize("target", ["m9", "t9", "u1", "", "x"])
def test_what_is_not_there_cannot_be_changed(store: Store, fill: Fill, target: str) -> None:
    key, other = fill(store, "maya"), store.open_conversation("other", "Sam").key
    changes: list[Callable[[int, str], object]] = [
        lambda key, target: store.edit(key, target, "a", VECTOR, AT),
        lambda key, target: store.forget(key, target, AT),
        lambda key, target: store.pin(key, target, True, AT),
    ]
    for change in changes:
        with pytest.raises(InputError, match="is not a record or trait of this conversation"):
            change(key, target)
        with pytest.raises(InputError, match="'m1' is not a record or trait"):
            change(other, "m1")
    assert (store.changes(key), store.edits(key)) == ([], 0)


# ---- after deletion


def test_what_is_written_to_a_deleted_conversation_is_one_clear_error(
    store: Store, open_store: OpenStore, fill: Fill
) -> None:
    key = fill(store, "maya")
    said = store.utterances(key)[0]
    open_store().delete_conversation(key)
    writes: list[Callable[[], object]] = [
        lambda: say(store, key, "still there?"),
        lambda: store.personas(key).add("Maya", "I sing.", AT, "u1", VECTOR),
        lambda: store.shelf(key, "events").digest(3, []),
        lambda: store.shelf(key, "events").observe(said),
        lambda: store.failed(key, TRAITS, ["u1"], "away"),
        lambda: store.rename_agent(key, "Kim"),
    ]
    for write in writes:
        with pytest.raises(StoreError, match="the conversation was deleted while in use; reopen it"):
            write()
    assert not store.personas(key).mark_extracted("u1")
    assert (set(store.counts(key).values()), store.counters(key)) == ({0}, {})


# ---- traits and vectors


def test_a_trait_is_updated_and_marked_extracted_once(store: Store, key: int) -> None:
    say(store, key, "I sing.")
    personas = store.personas(key)
    trait = personas.add("Maya", "I sing.", AT, "u1", VECTOR)
    later, holds = AT + timedelta(days=1), {"holds_from": AT - timedelta(days=9), "holds_until": AT, "ended_by": "u1"}
    newer = replace(trait, mentions=2, last_at=later, superseded_by="t2", **holds)
    personas.update(newer)
    [(stored, vector)] = personas.traits()
    assert stored == newer
    assert vector is not None
    assert vector.tolist() == VECTOR.tolist()
    assert [personas.mark_extracted("u1"), personas.mark_extracted("u1")] == [True, False]


def test_another_encoder_is_refused_with_the_remedy(store: Store, open_store: OpenStore) -> None:
    store.check_encoder("small", 4)
    store.check_encoder("small", 4)
    for name, dimension in (("large", 4), ("small", 5)):
        other = open_store()
        with pytest.raises(EncoderMismatchError) as raised:
            other.check_encoder(name, dimension)
        assert str(raised.value) == (
            f"{store.path} was encoded by small (4 dimensions), the config names {name} ({dimension}); run `ld-agent memory "
            f"reindex --store {store.path}` with this config, or set encoder.model=small"
        )


def test_vectors_of_an_encoder_that_was_replaced_while_in_use_are_refused(
    store: Store, open_store: OpenStore, fill: Fill
) -> None:
    store.check_encoder("small", 4)
    key = fill(store, "maya")
    other = open_store()
    other.change_encoder("large", 8)
    shelf, personas = store.shelf(key, "events"), store.personas(key)
    [row] = shelf.rows_after(0)
    assert row.vector is None
    writes: list[Callable[[], object]] = [
        lambda: shelf.set_vectors({row.key: VECTOR}),
        lambda: personas.set_vectors({"t1": VECTOR}),
        lambda: personas.add("Maya", "I sing.", AT, "u1", VECTOR),
        lambda: shelf.digest(9, [Draft("They talk.", AT, 9, VECTOR)]),
        lambda: shelf.set_passages({row.key: ("[]", b"")}),
        lambda: shelf.keep_snapshot(row.key, b""),
        lambda: store.edit(key, "m1", "They walk.", VECTOR, AT),
    ]
    for write in writes:
        with pytest.raises(EncoderMismatchError, match="was encoded by large"):
            write()
    assert [what for what, _, _ in store.without_vector()] == ["record", "trait", "trait"]
    assert store.without_vector()[0] == ("record", row.key, "They talk about a walnut.")


def test_reindexing_makes_every_vector_again_and_can_be_interrupted(
    store: Store, encoder: SentenceEncoder, fill: Fill
) -> None:
    store.check_encoder("small", 4)
    key = fill(store, "maya")
    shelf = store.shelf(key, "events")
    shelf.digest(2, [Draft(f"They count to {n % 7}.", AT, 1, VECTOR) for n in range(2, BATCH + 10)])
    everything = BATCH + 9 + 2

    def interrupt(done: int, total: int) -> None:
        assert (done, total) == (BATCH, everything)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reindex(store, encoder, interrupt)
    waiting = len(store.without_vector())
    assert 0 < waiting < everything
    assert reindex(store, encoder) == everything
    rows = list(shelf.rows_after(0))
    texts = {r.id: r.text for r in store.records(key)}
    expected = encoder.encode([texts[f"m{n}"] for n in range(1, len(rows) + 1)])
    np.testing.assert_allclose(np.stack([row.vector for row in rows if row.vector is not None]), expected, atol=1e-6)
    assert all(vector is not None and len(vector) == encoder.dimension for _, vector in store.personas(key).traits())
    store.check_encoder(encoder.name, encoder.dimension)


def test_what_an_utterance_answers_is_what_another_said_right_before_it_in_the_session(store: Store, key: int) -> None:
    say(store, store.open_conversation("other", "Sam").key, "Between them.")
    for minutes, speaker, text in (
        (0, "Maya", "Hello."),
        (1, "Sam", "Any pets?"),
        (2, "Maya", "One."),
        (3, "Maya", "A dog."),
        (90, "Sam", "Nice."),
    ):
        say(store, key, text, AT + timedelta(minutes=minutes), speaker)
    assert [store.answered(key, u) for u in store.utterances(key)] == ["", "Hello.", "Any pets?", "", ""]


def test_a_row_that_is_there_already_is_refused_and_all_of_its_block_is_undone(store: Store, key: int) -> None:
    say(store, key, "I keep bees.")
    [utterance] = store.rows(key, "utterance")

    def add_twice() -> None:
        with store.writing(None):
            store.open_conversation("ben", "Sam")
            store.add_row(key, "utterance", utterance | {"id": "u7"})
            store.add_row(key, "utterance", utterance)

    with pytest.raises(RepeatedRowError):
        add_twice()
    assert [c.id for c in store.conversations()] == ["maya"]
    assert [u.id for u in store.utterances(key)] == ["u1"]


def test_a_renamed_agent_is_renamed_everywhere_and_counts_as_a_change(store: Store, key: int) -> None:
    say(store, key, "I keep bees.")
    say(store, key, "How nice.", speaker="Sam")
    store.personas(key).add("Sam", "I am kind.", AT, "u2", VECTOR)
    before = store.edits(key)
    store.rename_agent(key, "Robin")
    assert store.open_conversation("maya", "Robin").key == key
    assert store.speakers(key) == ["Maya", "Robin"]
    assert [u.speaker for u in store.utterances(key)] == ["Maya", "Robin"]
    assert [trait.speaker for trait, _ in store.personas(key).traits()] == ["Robin"]
    assert store.edits(key) > before
    with pytest.raises(InputError, match="'maya' has spoken in conversation 'maya'"):
        store.rename_agent(key, "maya")


def test_the_latest_utterances_are_those_of_the_last_sessions(store: Store) -> None:
    key, other = (store.open_conversation(name, "Sam").key for name in ("one", "other"))
    for day in range(3):
        say(store, key, f"Day {day}.", AT + timedelta(days=day))
        say(store, key, f"And {day}.", AT + timedelta(days=day, minutes=1))
        say(store, other, f"Elsewhere {day}.", AT + timedelta(days=day))
    assert [u.text for u in store.latest_utterances(key, 3)] == ["And 1.", "Day 2.", "And 2."]
    store.replace(key, [store.latest_utterances(key, 1)[0].id])
    assert [u.text for u in store.latest_utterances(key, 9)] == ["Day 0.", "And 0.", "Day 1.", "And 1.", "Day 2."]
