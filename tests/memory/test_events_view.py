"""The event view: what a session becomes, and recall from it by the equations."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config.sections import MemorySection
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.memory.views import Query, ViewContext
from ld_agent.memory.views.events import MOST_READ, EventView, _spread
from ld_agent.modules.base import Models
from ld_agent.modules.summarizer import Summarizer
from ld_agent.steps import run
from ld_agent.storage.sqlite.store import SQLiteStore
from ld_agent.types import Recalled, Utterance

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ROME = "Maya flew to Rome with her two dogs."
VIOLIN = "Maya sold her violin to Ben."


@pytest.fixture
def remember(store: SQLiteStore, encoder: SentenceEncoder, topics: TopicExtractor, config) -> Callable[..., EventView]:
    """A view of the conversation "alice" after sessions of one utterance each: (days after the start, said, summary)."""

    def made(*sessions: tuple[float, str, str], **settings) -> EventView:
        backbone = ScriptedBackbone({"summarizer": [summary for _, _, summary in sessions]})
        models = Models(config(), backbone)
        key = store.open_conversation("alice", "Sam").key
        settings = MemorySection(**{"gamma": -1.0, "scorer": "paper", **settings})
        view = EventView(
            ViewContext(store, key, encoder, topics, Summarizer(models, encoder.encode), settings, models, "Sam")
        )
        for days, text, _ in sessions:
            at = START + days * DAY
            store.append(key, "Maya", text, at - timedelta(minutes=5), 3600.0, lambda: START)
            store.append(key, "Sam", "Oh, I see.", at, 3600.0, lambda: START)
            store.close_session(key)
        run(view.digest(store.shelf(key, view.name).undigested()), models.complete)
        return view

    return made


@pytest.fixture
def ask(encoder: SentenceEncoder, topics: TopicExtractor) -> Callable[..., list[Recalled]]:
    def asked(view: EventView, text: str, days: float = 100) -> list[Recalled]:
        query = Query(text, encoder.encode([text])[0], topics.extract([text])[0], START + days * DAY)
        return run(view.recall(query), lambda requests: pytest.fail("recalling asks no model"))

    return asked


def test_a_session_becomes_one_event(remember, store: SQLiteStore, encoder: SentenceEncoder):
    remember((0, "I took my pets on a plane to Italy.", ROME))
    [record] = store.records(1)
    assert (record.id, record.view, record.text, record.session) == ("m1", "events", ROME, 1)
    assert record.at == START  # the last utterance, not the first
    assert record.sources == ("u1", "u2")
    assert record.topics == ("dog", "italy", "maya", "pet", "plane", "rome")  # of session and summary, no others
    assert record.fallback is False
    [row] = store.shelf(1, "events").rows_after(0)
    assert np.allclose(row.vector, encoder.encode([ROME])[0], atol=1e-6)  # of the summary, not of the topics


def test_recall_follows_the_equations(remember, ask, encoder: SentenceEncoder):
    view = remember((0, "I took my dogs to Rome.", ROME), (50, "I sold my violin.", VIOLIN), tau=1e7)
    asked = "Did the dogs like Rome?"  # V_q = {dog, rome}
    found = {r.record.text: r for r in ask(view, asked, days=60)}
    vectors = encoder.encode([asked, ROME, VIOLIN])
    # Rome: V_k = {dog, maya, rome}, all of V_q in it: s_top = ½ (2/2 + 2/3) = 5/6; 60 days = 5 184 000 s: λ = e^-0.5184
    rome = found[ROME]
    assert rome.s_top == pytest.approx(5 / 6)
    assert rome.decay == pytest.approx(math.exp(-0.5184))
    assert rome.s_sem == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-6)
    assert rome.score == pytest.approx(math.exp(-0.5184) * (float(vectors[0] @ vectors[1]) + 5 / 6), abs=1e-6)
    assert rome.overlap == ("dog", "rome")
    # The violin: nothing shared; 10 days = 864 000 s: λ = e^-0.0864
    violin = found[VIOLIN]
    assert (violin.s_top, violin.overlap) == (0.0, ())
    assert violin.score == pytest.approx(math.exp(-0.0864) * float(vectors[0] @ vectors[2]), abs=1e-6)
    assert list(found) == [ROME, VIOLIN]


def test_gamma_and_k_and_the_time_of_the_query_choose(remember, ask):
    sessions = [(0, "I took my dogs to Rome.", ROME), (50, "I sold my violin.", VIOLIN)]
    view = remember(*sessions, gamma=0.3)
    assert [r.record.text for r in ask(view, "Did the dogs like Rome?")] == [ROME]
    assert ask(view, "What is the square root of nine?") == []  # no relevant memory
    assert [r.record.text for r in ask(view, "Who has your violin?", days=49)] == []
    view.context = replace(view.context, settings=MemorySection(k=0, gamma=-1.0))
    assert ask(view, "Did the dogs like Rome?") == []


def test_nouns_are_searched_in_a_bounded_part_of_a_long_session():
    said = [Utterance(f"u{n}", "Maya", "I keep bees.", START, 1) for n in range(10_000)]
    part = _spread(said)
    assert (len(part), part[0], part[-1]) == (MOST_READ, said[0], said[-5])
    assert _spread(said[:MOST_READ]) == said[:MOST_READ]
