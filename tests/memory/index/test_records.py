"""The index of a shelf: one door for every scorer, caught up with the store, and rebuilt after it was dropped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ld_agent.errors import StoreError
from ld_agent.languages import ENGLISH
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.index.base import Index, Search
from ld_agent.memory.index.cache import IndexCache
from ld_agent.memory.index.records import RecordIndex
from ld_agent.memory.scoring import SCORERS
from ld_agent.storage.base import Draft, Shelf
from ld_agent.storage.sqlite.store import Store

READING = ENGLISH.reading

START = datetime(2024, 5, 1, tzinfo=UTC)
TEXTS = ("Maya has two dogs.", "Maya sold her violin to Ben.", "Ben moved to Rome.")


@pytest.fixture
def shelf(store: Store) -> Shelf:
    key = store.open_conversation("alice", "Sam").key
    shelf = store.shelf(key, "events")
    for number, text in enumerate(TEXTS, 1):
        store.append(key, "Maya", text, START + number * timedelta(days=1), 3600.0, lambda: START)
        store.close_session(key)
        shelf.digest(
            number,
            [Draft(text, START + number * timedelta(days=1), number, topics=("ben", "maya"), sources=(f"u{number}",))],
        )
    return shelf


def asked(encoder: SentenceEncoder, text: str, **limits) -> Search:
    settings = {"at": START + timedelta(days=9), "k": 3, "gamma": 0.2, "topics": ("ben",)} | limits
    return Search(text, encoder.encode([text])[0], **settings)


@pytest.mark.parametrize("scorer", SCORERS)
def test_every_scorer_answers_through_the_same_door(shelf: Shelf, encoder: SentenceEncoder, scorer: str):
    index: Index = RecordIndex(shelf, encoder, READING, passages=True)
    best, *_ = index.search(asked(encoder, "Who bought the violin?", scorer=scorer))
    assert best.record.text == TEXTS[1]
    assert best.s_top == pytest.approx(0.75)  # ½ (1/1 + 1/2)
    assert best.overlap == ("ben",)
    deciding = {"s_sem": best.s_sem, **best.terms}[SCORERS[scorer].decided_by]
    assert deciding > (0.2 if SCORERS[scorer].bound is None else 0)
    assert index.search(asked(encoder, "Who bought the violin?", scorer=scorer, at=START)) == []


def test_a_dropped_index_is_made_again_and_finds_the_same(shelf: Shelf, encoder: SentenceEncoder):
    cache = IndexCache(1)
    search = asked(encoder, "Who bought the violin?", scorer="hybrid")

    def found(view: str):
        return cache.get(1, view, lambda: RecordIndex(shelf, encoder, READING, passages=True)).search(search)

    first = found("events")
    assert found("other") == first
    assert len(cache) == 1
    assert found("events") == first


def test_a_record_forgotten_by_hand_is_not_found_again(store: Store, shelf: Shelf, encoder: SentenceEncoder):
    index = RecordIndex(shelf, encoder, READING)
    [violin] = index.search(asked(encoder, "Who bought the violin?", k=1))
    store.forget(1, violin.record.id, START)
    assert violin.record.text not in [r.record.text for r in index.search(asked(encoder, "violin", gamma=-1.0))]
    store.delete_conversation(1)
    with pytest.raises(StoreError, match="deleted"):
        index.search(asked(encoder, "violin", gamma=-1.0))
