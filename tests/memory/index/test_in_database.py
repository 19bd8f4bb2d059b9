"""PostgreSQL ranks a conversation's records as the index in memory does: the same records, the same numbers."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from ld_agent.languages import ENGLISH
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.index.base import Search
from ld_agent.memory.index.in_database import DatabaseFirst, ranked_by_database
from ld_agent.memory.index.lexical import stems
from ld_agent.memory.index.passages import PackedVectors, Passages
from ld_agent.memory.index.records import RecordIndex
from ld_agent.memory.scoring import SCORERS
from ld_agent.storage.base import Draft, Shelf
from ld_agent.storage.sqlite.store import Store

pytest.importorskip("psycopg")
from ld_agent.storage.postgres.store import PostgresStore

READING = ENGLISH.reading

START = datetime(2024, 5, 1, tzinfo=UTC)
WORDS = "violin garden dog Rome Biscuit job boat bees train school summer bread Zoe Maya Ben 狗狗很好 naïve".split()
TOPICS = ("violin", "dog", "Rome", 'a "quoted" one', "half\0", "back\\slash", "狗")


@pytest.fixture
def store(new_database: Callable[[], str]) -> Iterator[PostgresStore]:
    opened = PostgresStore(new_database())
    yield opened
    opened.close()


def unit(rng: np.random.Generator, *shape: int) -> np.ndarray:
    vectors = rng.standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def fill(store: PostgresStore | Store, name: str, records: int, dimension: int, passages: bool = True) -> Shelf:
    """Records made up at random, some of them equal, of one time, without topics, turns or sentences."""
    rng = np.random.default_rng(records)
    key = store.open_conversation(name, "Sam").key
    shelf, other = (store.shelf(key, view) for view in ("events", "history"))
    centre = unit(rng, dimension)
    vectors = unit(rng, records, dimension) + 0.8 * centre
    vectors[1::7] = vectors[0]
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    kept = {}
    for n in range(records):
        at = START + timedelta(hours=7 * (n // 2))
        store.append(key, ("Maya", "Sam", "Zoe")[n % 3], "Hello.", at, 3600, lambda: START, thread=str(n))
        store.close_session(key, str(n))
        topics = tuple(sorted(set(rng.choice(TOPICS, rng.integers(0, 4)))))
        shelf.digest(n + 1, [Draft("They talk.", at, n + 1, vectors[n].astype(np.float32), topics, (f"u{n + 1}",))])
        other.digest(n + 1, [Draft("Something else.", at, n + 1, vectors[0].astype(np.float32))])
        speakers = tuple(rng.choice(("Maya", "Sam", "Zoe") if n % 5 == 0 else ("Maya", "Sam"), rng.integers(0, 5)))
        texts = [
            " ".join(rng.choice(WORDS, rng.integers(0, 12), p=_zipf(len(WORDS)))) for _ in range(len(speakers) + 2)
        ]
        turns = tuple(tuple(stems(f"{who} {text}", READING)) for who, text in zip(speakers, texts, strict=False))
        sentences = tuple(
            tuple(stems(text, READING)) for text in texts[len(speakers) : len(speakers) + rng.integers(0, 3)]
        )
        packed = PackedVectors.of(unit(rng, len(turns) + len(sentences), dimension) + 0.3 * centre)
        kept[n] = Passages(speakers, turns, sentences, packed)
    if passages:
        keys = [row.key for row in shelf.rows_after(0)]
        shelf.set_passages({k: (p.words_text, p.vectors.stored) for k, p in zip(keys, kept.values(), strict=True)})
    return shelf


def _zipf(n: int) -> np.ndarray:
    weights = 1 / np.arange(1, n + 1)
    return weights / weights.sum()


TEXTS = (
    "Where is the violin?",
    "What did Maya say about the dog and the violin in Rome?",
    "Did Maya and Zoe go by train?",
    "What did we do last week, and on 7 May 2024 with Zoe?",
    "狗狗很好",
    "Something nobody ever said",
    "",
)


@pytest.mark.parametrize("records", [1, 20, 70])
def test_the_database_finds_what_the_index_finds_with_the_same_numbers(
    store: PostgresStore, encoder: SentenceEncoder, records: int
) -> None:
    fill(store, "somebody else", 3, encoder.dimension)
    shelf = fill(store, "alice", records, encoder.dimension)
    index = RecordIndex(shelf, encoder, READING, passages=True)
    rng, compared = np.random.default_rng(0), 0
    for number, text in enumerate(TEXTS):
        vector, topics = unit(rng, encoder.dimension), TOPICS[: number % 5]
        for scorer in SCORERS:
            for later, tau, k in ((400, 1e7, 3), (4, 1e3, 5), (10**6, 1.0, 2), (400, None, 12)):
                at = START + timedelta(hours=later)
                search = Search(text, vector, at, k, 0.02, topics, tau, scorer)
                assert_equal(ranked_by_database(shelf, search, READING), index.search(search))
                compared += len(index.search(search))
    assert compared > 30


def assert_equal(found: list | None, expected: list) -> None:
    assert found is not None
    assert [one.record for one in found] == [one.record for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.overlap == other.overlap
        numbers, others = ((r.s_sem, r.s_top, r.decay, r.score, *r.terms.values()) for r in (one, other))
        assert numbers == pytest.approx(others, rel=1e-5, abs=1e-6)
        assert list(one.terms) == list(other.terms)


def test_the_first_search_makes_no_index_and_the_second_does(store: PostgresStore, encoder: SentenceEncoder) -> None:
    shelf, made = fill(store, "alice", 5, encoder.dimension), []

    def make() -> RecordIndex:
        made.append(RecordIndex(shelf, encoder, READING, passages=True))
        return made[-1]

    index = DatabaseFirst(shelf, READING, make)
    search = Search(
        "Where is the violin?", unit(np.random.default_rng(1), encoder.dimension), START, 3, -1.0, scorer="hybrid"
    )
    first, cold = index.search(search), index.nbytes
    assert first
    assert not made
    assert_equal(first, index.search(search))
    assert len(made) == 1
    assert index.nbytes > cold + made[0].nbytes - 1
    index.search(search)
    assert len(made) == 1


@pytest.mark.parametrize("scorer", ["hybrid", "paper"])
def test_what_is_not_encoded_yet_is_encoded_and_not_left_out(
    store: PostgresStore, encoder: SentenceEncoder, scorer: str
) -> None:
    shelf = fill(store, "alice", 3, encoder.dimension, passages=False)
    if scorer == "paper":
        shelf.digest(99, [Draft("Maya plays the violin.", START, 1)])
    index = DatabaseFirst(shelf, READING, lambda: RecordIndex(shelf, encoder, READING, passages=scorer == "hybrid"))
    search = Search("The violin", encoder.encode(["The violin"])[0], START, 9, -1.0, scorer=scorer)
    assert len(index.search(search)) == len([row for row in shelf.rows_after(0) if row.at <= START.timestamp()])
    assert shelf.inventory(True).encoded == shelf.count()


def test_a_file_does_not_rank(encoder: SentenceEncoder) -> None:
    store = Store(":memory:")
    shelf = fill(store, "alice", 2, encoder.dimension)
    assert shelf.inventory(True) is None
    assert (
        ranked_by_database(
            shelf, Search("", unit(np.random.default_rng(1), encoder.dimension), START, 3, -1.0), READING
        )
        is None
    )
    store.close()
