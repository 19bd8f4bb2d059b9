"""Rows and ids: what is stored is read back as it was, conversations stay apart, and nothing is given or taken in twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from ld_agent.errors import EncoderMismatchError, InputError, StoreError
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.reindex import BATCH, reindex
from ld_agent.storage.sqlite import Store
from ld_agent.types import Record, Trait

Fill = Callable[..., int]
AT = datetime(2024, 5, 1, 18, 30, 0, 123457, tzinfo=UTC)
VECTOR = np.arange(4, dtype=np.float32)


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
def test_times_are_kept_to_the_microsecond(store: Store, path: Path, at: datetime) -> None:
    key = store.open_conversation("maya", "Sam").key
    say(store, key, "hello", at)
    store.put_trait(key, Trait(store.new_trait_id(key), "Maya", "I sing.", at, "u1", at), None)
    store.insert_record(key, Record("m1", "events", "They talk.", at, 1), None)
    again = Store(path)
    [said], [(trait, _)], [record] = again.utterances(key), again.traits(key), again.records(key)
    assert said.at == trait.at == trait.last_at == record.at == at
    assert said.at.utcoffset() == timedelta(0)
    again.close()


@pytest.mark.parametrize(
    "text",
    [
        "a\0b",
        "مرحبا \u202e أهلا",
        "你好，世界",
        "👩‍👩‍👧‍👦🏳️‍🌈",
        "\r\n\t\x1b[31m",
        "'; DROP TABLE utterance; --",
        "x" * 100_000,
    ],
)
def test_texts_are_kept_to_the_character(store: Store, path: Path, text: str) -> None:
    key = store.open_conversation(text, text).key
    say(store, key, text, speaker=text)
    store.insert_record(key, Record("m1", text, text, AT, 1, (text,), (text,), details={text: [text]}), None)
    again = Store(path)
    found = again.find_conversation(text)
    assert found is not None
    assert (found.id, found.agent) == (text, text)
    assert [(u.text, u.speaker) for u in again.utterances(found.key)] == [(text, text)]
    [record] = again.records(found.key)
    assert (record.text, record.view, record.topics, record.details) == (text, text, (text,), {text: [text]})
    again.close()


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
            store.utterances(key), store.open_utterances(key), store.unextracted(key), store.records(key),
            store.traits(key), store.speakers(key), store.undigested(key, "other"), list(store.index_rows(key, "events", 0)),
        ]  # fmt: skip
        for part in everything:
            assert part
            assert all(word in str(item) or "Sam" in str(item) or "IndexRow" in str(item) for item in part)
            assert not any(other in str(part) for other in words if other != word)
        assert store.counts(key) == {"sessions": 2, "utterances": 4, "records": 1, "traits": 1}


def test_a_record_of_another_conversation_cannot_be_read_by_its_key(store: Store, fill: Fill) -> None:
    mine, other = fill(store, "mine"), fill(store, "other")
    foreign = [row.key for row in store.index_rows(other, "events", 0)]
    assert store.records(other, foreign)
    assert store.records(mine, foreign) == []


def test_a_conversation_is_not_reopened_with_an_agent_of_another_name(store: Store) -> None:
    store.open_conversation("maya", "Sam")
    with pytest.raises(InputError, match=r"held with agent 'Sam', not 'Ada'; set agent.name=Sam"):
        store.open_conversation("maya", "Ada")


def test_keys_and_ids_are_never_given_twice(store: Store) -> None:
    key = store.open_conversation("maya", "Sam").key
    assert [say(store, key, "a"), say(store, key, "b")] == ["u1", "u2"]
    store.db.execute("DELETE FROM utterance WHERE id = 'u2'")
    assert say(store, key, "c") == "u3"
    assert [store.new_trait_id(key), store.new_trait_id(key)] == ["t1", "t2"]
    store.delete_conversation(key)
    assert store.open_conversation("maya", "Sam").key > key
    assert not store.is_stored(key)


def test_records_are_given_in_the_order_asked_for_however_many(store: Store) -> None:
    key = store.open_conversation("maya", "Sam").key
    with store.db.transaction():
        for n in range(40_000):
            store.insert_record(key, Record(f"m{n}", "events", "They talk.", AT, 1), None)
    keys = [row.key for row in store.index_rows(key, "events", 0)]
    assert len(keys) == 40_000
    assert keys == sorted(set(keys))
    assert [r.id for r in store.records(key, keys[::-1])][:2] == ["m39999", "m39998"]
    assert [row.key for row in store.index_rows(key, "events", keys[-3])] == keys[-2:]


# ---- sessions


def test_a_gap_of_beta_goes_on_and_a_microsecond_more_begins_a_session(store: Store) -> None:
    key = store.open_conversation("maya", "Sam").key
    for seconds in (0, 3600, 7200):
        say(store, key, "on", AT + timedelta(seconds=seconds))
    assert [u.session for u in store.utterances(key)] == [1, 1, 1]
    say(store, key, "new", AT + timedelta(seconds=10800, microseconds=1))
    assert [u.text for u in store.open_utterances(key)] == ["new"]
    [closed] = store.undigested(key, "events")
    assert (closed.number, len(closed.utterances)) == (1, 3)


def test_time_goes_forward_and_a_clock_that_goes_back_is_held(store: Store) -> None:
    key = store.open_conversation("maya", "Sam").key
    say(store, key, "first")
    with pytest.raises(InputError, match="lies before the last utterance"):
        say(store, key, "earlier", AT - timedelta(microseconds=1))
    said = store.append(key, "Maya", "later", None, 3600, lambda: AT - timedelta(days=1))
    assert said.at == AT
    with pytest.raises(InputError, match=r"the clock=.* has no time zone"):
        store.append(key, "Maya", "when?", None, 3600, lambda: datetime(2024, 6, 1))  # noqa: DTZ001
    assert [u.text for u in store.utterances(key)] == ["first", "later"]


def test_a_session_is_closed_once_and_digested_once_by_each_view(store: Store) -> None:
    key = store.open_conversation("maya", "Sam").key
    say(store, key, "hello")
    assert [store.close_session(key), store.close_session(key)] == [1, None]

    def record(record_id: str) -> Record:
        return Record(record_id, "events", "They greet.", AT, 1)

    assert [r.id for r in store.digest(key, "events", 1, [(record, VECTOR)])] == ["m1"]
    assert store.digest(key, "events", 1, [(record, VECTOR)]) == []
    assert store.undigested(key, "events") == []
    assert [s.number for s in store.undigested(key, "other")] == [1]
    assert len(store.records(key)) == 1


def test_a_digest_that_fails_is_taken_back_whole(store: Store) -> None:
    key = store.open_conversation("maya", "Sam").key
    say(store, key, "hello")
    store.close_session(key)

    def fails(record_id: str) -> Record:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        store.digest(key, "events", 1, [(lambda i: Record(i, "events", "a", AT, 1), VECTOR), (fails, VECTOR)])
    assert store.records(key) == []
    assert [s.number for s in store.undigested(key, "events")] == [1]


def test_what_is_written_to_a_deleted_conversation_is_one_clear_error(store: Store, path: Path, fill: Fill) -> None:
    key = fill(store, "maya")
    other = Store(path)
    other.delete_conversation(key)
    other.close()
    writes: list[Callable[[], object]] = [
        lambda: say(store, key, "still there?"),
        lambda: store.new_trait_id(key),
        lambda: store.digest(key, "events", 3, []),
    ]
    for write in writes:
        with pytest.raises(StoreError, match="the conversation was deleted meanwhile; open it anew"):
            write()
    assert not store.mark_extracted(key, "u1")
    assert store.db.row("SELECT count(*) FROM session") == (0,)


# ---- traits and vectors


def test_a_trait_is_replaced_by_its_id_and_marked_extracted_once(store: Store) -> None:
    key = store.open_conversation("maya", "Sam").key
    say(store, key, "I sing.")
    trait = Trait(store.new_trait_id(key), "Maya", "I sing.", AT, "u1", AT)
    store.put_trait(key, trait, None)
    newer = replace(trait, mentions=2, last_at=AT + timedelta(days=1), superseded_by="t2")
    store.put_trait(key, newer, VECTOR)
    [(stored, vector)] = store.traits(key)
    assert stored == newer
    assert vector is not None
    assert vector.tolist() == VECTOR.tolist()
    assert [store.mark_extracted(key, "u1"), store.mark_extracted(key, "u1")] == [True, False]


def test_another_encoder_is_refused_with_the_remedy(store: Store, path: Path) -> None:
    store.check_encoder("small", 4)
    store.check_encoder("small", 4)
    for name, dimension in (("large", 4), ("small", 5)):
        other = Store(path)
        with pytest.raises(EncoderMismatchError) as raised:
            other.check_encoder(name, dimension)
        assert str(raised.value) == (
            f"{path} was encoded by small (4 dimensions), the config names {name} ({dimension}); run `ld-agent memory "
            f"reindex --store {path}` with this config, or set encoder.model=small"
        )
        other.close()


def test_vectors_of_an_encoder_that_was_replaced_meanwhile_are_refused(store: Store, path: Path, fill: Fill) -> None:
    store.check_encoder("small", 4)
    key = fill(store, "maya")
    other = Store(path)
    other.change_encoder("large", 8)
    [row] = store.index_rows(key, "events", 0)
    assert row.vector is None
    trait = store.traits(key)[0][0]
    writes: list[Callable[[], object]] = [
        lambda: store.set_vector("record", row.key, VECTOR),
        lambda: store.put_trait(key, trait, VECTOR),
        lambda: store.insert_record(key, Record("m9", "events", "They talk.", AT, 1), VECTOR),
    ]
    for write in writes:
        with pytest.raises(EncoderMismatchError, match="was encoded by large"):
            write()
    assert store.without_vector("record") == [(row.key, "They talk about a walnut.")]
    assert len(store.without_vector("trait")) == 2
    other.close()


def test_reindexing_makes_every_vector_anew_and_can_be_broken_off(
    store: Store, encoder: SentenceEncoder, fill: Fill
) -> None:
    store.check_encoder("small", 4)
    key = fill(store, "maya")
    with store.db.transaction():
        for n in range(2, BATCH + 10):
            store.insert_record(key, Record(f"m{n}", "events", f"They count to {n % 7}.", AT, 1), VECTOR)
    everything = BATCH + 9 + 2

    def break_off(done: int, total: int) -> None:
        assert (done, total) == (BATCH, everything)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reindex(store, encoder, break_off)
    waiting = len(store.without_vector("record")) + len(store.without_vector("trait"))
    assert 0 < waiting < everything
    assert reindex(store, encoder) == everything
    rows = list(store.index_rows(key, "events", 0))
    texts = {r.id: r.text for r in store.records(key)}
    expected = encoder.encode([texts[f"m{n}"] for n in range(1, len(rows) + 1)])
    np.testing.assert_allclose(np.stack([row.vector for row in rows if row.vector is not None]), expected, atol=1e-6)
    assert all(vector is not None and len(vector) == encoder.dimension for _, vector in store.traits(key))
    store.check_encoder(encoder.name, encoder.dimension)


def test_what_an_utterance_answers_is_what_another_said_right_before_it_in_the_session(store: Store) -> None:
    key = store.open_conversation("maya", "Sam").key
    say(store, store.open_conversation("other", "Sam").key, "Between them.")
    for minutes, speaker, text in (
        (0, "Maya", "Hello."), (1, "Sam", "Any pets?"), (2, "Maya", "One."), (3, "Maya", "A dog."), (90, "Sam", "Nice.")
    ):  # fmt: skip
        say(store, key, text, AT + timedelta(minutes=minutes), speaker)
    assert [store.answered(key, u) for u in store.utterances(key)] == ["", "Hello.", "Any pets?", "", ""]
