"""What stands beside each event for the hybrid scorer: made of what is stored, kept, made anew, and gone with its record."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config.sections import MemorySection
from ld_agent.errors import EncoderMismatchError
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.memory.views import Query, ViewContext
from ld_agent.memory.views.events import EventView
from ld_agent.modules.base import Models
from ld_agent.modules.summarizer import Summarizer, Summary
from ld_agent.steps import run
from ld_agent.storage.shelf import Shelf
from ld_agent.storage.sqlite.store import SQLiteStore
from ld_agent.types import Recalled

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
TALKS = [
    ["I adopted a beagle.", "What is his name?", "He is called Biscuit."],
    ["I sold my violin to Ben.", "Did he pay well?", "Two hundred euros."],
]
SUMMARIES = ["Maya told Sam about a pet.", "Maya told Sam about a sale. Ben was there."]


class Memory:
    """One store and the event view over it."""

    def __init__(self, path: Path, encoder: SentenceEncoder, topics: TopicExtractor, config: Callable) -> None:
        self.store, self.encoder, self.topics = SQLiteStore(path), encoder, topics
        self.models = Models(config(), ScriptedBackbone({}))

    def view(self, scorer: str = "hybrid", conversation: str = "alice", **settings) -> EventView:
        key = self.store.open_conversation(conversation, "Sam").key
        chosen = MemorySection(scorer=scorer, gamma=-1.0, **settings)
        summarizer = Summarizer(self.models, self.encoder.encode)
        return EventView(
            ViewContext(self.store, key, self.encoder, self.topics, summarizer, chosen, self.models, "Sam")
        )

    def talk(self, view: EventView, talks=TALKS, summaries=SUMMARIES) -> None:
        key = view.context.key
        for day, texts in enumerate(talks):
            for number, text in enumerate(texts):
                at = START + timedelta(days=day, minutes=number)
                self.store.append(key, "Maya" if number % 2 == 0 else "Sam", text, at, 3600.0, lambda: START)
            self.store.close_session(key)
        view.take_in(self.store.shelf(key, "events").undigested(), [Summary(text) for text in summaries])

    def ask(self, view: EventView, text: str) -> list[Recalled]:
        vector, [topics] = self.encoder.encode([text])[0], self.topics.extract([text])
        return run(view.recall(Query(text, vector, topics, START + timedelta(days=100))), lambda requests: [])

    @property
    def shelf(self) -> Shelf:
        return self.store.shelf(1, "events")

    def keys(self) -> list[int]:
        return [row[0] for row in self.store.db.rows("SELECT pk FROM record ORDER BY pk")]


@pytest.fixture
def memory(tmp_path: Path, encoder: SentenceEncoder, topics: TopicExtractor, config) -> Iterator[Memory]:
    made = Memory(tmp_path / "store.db", encoder, topics, config)
    yield made
    made.store.close()


def test_a_remark_that_the_summary_leaves_out_is_found(memory: Memory):
    view = memory.view()
    memory.talk(view)
    best = memory.ask(view, "How much did the instrument bring in euros?")[0]
    assert best.record.session == 2
    assert best.terms["s_pass"] > best.s_sem
    assert memory.ask(view, "Who is Biscuit?")[0].record.session == 1


def test_passages_are_kept_and_take_the_size_stated(memory: Memory):
    view = memory.view()
    memory.talk(view)
    memory.ask(view, "Who is Biscuit?")
    keys = memory.keys()
    assert [len(blob) for blob in memory.shelf.passage_vectors(keys).values()] == [
        388 * 4,
        388 * 5,
    ]  # 388 bytes a passage
    assert memory.shelf.passage_words(keys)[keys[0]] == (
        '[["Maya","Sam","Maya"],[["maya","adopt","beagl"],["sam","name"],["maya","call","biscuit"]],'
        '[["maya","told","sam","pet"]]]'
    )


def test_an_old_store_is_filled_in_and_ranks_the_same(memory: Memory):
    view = memory.view()
    memory.talk(view)
    fresh = memory.ask(view, "Who is Biscuit?")
    memory.store.db.execute("DELETE FROM passage")
    again = memory.ask(memory.view(), "Who is Biscuit?")
    assert [(r.record.id, r.score, r.terms) for r in again] == [(r.record.id, r.score, r.terms) for r in fresh]
    assert len(memory.shelf.passage_vectors(memory.keys())) == 2
    reopened = memory.ask(memory.view(), "Who is Biscuit?")  # read from the store now
    assert [(r.record.id, r.score, r.terms) for r in reopened] == [(r.record.id, r.score, r.terms) for r in fresh]


def test_the_paper_scorer_makes_no_passages(memory: Memory):
    view = memory.view("paper")
    memory.talk(view)
    assert memory.ask(view, "Who is Biscuit?")[0].terms == {}
    assert memory.shelf.passage_words(memory.keys()) == {}


def test_deletion_takes_the_passages_along(memory: Memory):
    view = memory.view()
    memory.talk(view)
    memory.ask(view, "Who is Biscuit?")
    memory.store.delete_conversation(view.context.key)
    assert memory.store.db.rows("SELECT * FROM passage") == []
    assert b"biscuit" not in Path(memory.store.path).read_bytes().lower()


def test_another_encoder_drops_them_and_no_stale_ones_are_taken(memory: Memory):
    view = memory.view()
    memory.store.check_encoder("one", 384)
    memory.talk(view)
    memory.ask(view, "Who is Biscuit?")
    elsewhere = SQLiteStore(memory.store.path)
    elsewhere.change_encoder("other", 384)
    elsewhere.close()
    assert memory.shelf.passage_words(memory.keys()) == {}
    with pytest.raises(EncoderMismatchError):
        memory.shelf.set_passages({memory.keys()[0]: ("[[],[],[]]", b"")})


def test_a_record_deleted_meanwhile_gets_none(memory: Memory):
    memory.shelf.set_passages({7: ("[[],[],[]]", b"")})
    assert memory.shelf.passage_words([7]) == {}


def test_a_record_without_its_utterances_has_the_sentences_of_its_text(memory: Memory):
    view = memory.view()
    memory.talk(view)
    memory.store.db.execute("UPDATE record SET sources = '[]'")
    memory.store.db.execute("DELETE FROM passage")
    [first, second] = memory.ask(view, "Who is Biscuit?")
    assert first.terms["s_pass"] == second.terms["s_pass"] == 0.0
    assert first.terms["s_sent"] > 0
