"""The persona banks over a real store and the real encoder."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from ld_agent.config.sections import PersonasSection
from ld_agent.languages import ENGLISH
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.persona_bank import PersonaBank
from ld_agent.storage.rows import EPOCH, Rewriting
from ld_agent.storage.sqlite.store import SQLiteStore
from ld_agent.types import Utterance

READING = ENGLISH.reading

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def key(store: SQLiteStore) -> int:
    return store.open_conversation("alice", "Sam").key


@pytest.fixture
def said(store: SQLiteStore, key: int) -> Callable[..., Utterance]:
    """Store an utterance, ``days`` after the start."""

    def say(speaker: str = "Maya", days: float = 0) -> Utterance:
        at = START + days * DAY
        return store.append(key, speaker, "…", at, 3600.0, lambda: at)

    return say


@pytest.fixture
def bank(store: SQLiteStore, key: int, encoder: SentenceEncoder) -> PersonaBank:
    return PersonaBank(store, key, encoder, PersonasSection(), READING)


def known(bank: PersonaBank, speaker: str = "Maya") -> list[str]:
    return [trait.text for trait in bank.traits(speaker)]


def test_a_near_duplicate_is_counted_and_not_stored(bank: PersonaBank, said: Callable[..., Utterance]):
    bank.merge([(said(), ["I love hiking in the mountains."])])
    bank.merge([(said(days=2), ["I like hiking in the mountains."])])
    [trait] = bank.traits("Maya", history=True)
    assert (trait.text, trait.mentions) == ("I love hiking in the mountains.", 2)
    assert (trait.at, trait.last_at) == (START, START + 2 * DAY)


def test_what_is_only_similar_stays_apart(bank: PersonaBank, said: Callable[..., Utterance]):
    traits = ["I have a brother.", "I have a sister.", "I like tea.", "I like coffee.", "I was born in 1990."]
    bank.merge([(said(), traits), (said(), ["I was born in 1991."])])
    assert known(bank) == [*traits, "I was born in 1991."]


def test_neither_is_its_denial(bank: PersonaBank, said: Callable[..., Utterance]):
    traits = ["I like coffee.", "I don't like coffee.", "I have two dogs.", "I have 3 dogs."]
    bank.merge([(said(), traits), (said(), ["I have 2 dogs."])])
    assert [(trait.text, trait.mentions) for trait in bank.traits("Maya")] == [
        ("I like coffee.", 1),
        ("I don't like coffee.", 1),
        ("I have two dogs.", 2),
        ("I have 3 dogs.", 1),
    ]


def test_speakers_are_strictly_apart(bank: PersonaBank, said: Callable[..., Utterance]):
    bank.merge(
        [(said("Maya"), ["I live in Rome."]), (said("Ben"), ["I live in Oslo."]), (said("Sam"), ["I live in Rome."])]
    )
    assert [known(bank, name) for name in ("Maya", "Ben", "Sam", "Eve")] == [
        ["I live in Rome."],
        ["I live in Oslo."],
        ["I live in Rome."],
        [],
    ]
    assert list(dict.fromkeys(t.speaker for t in bank.traits())) == ["Maya", "Ben", "Sam"]


def test_a_failed_merge_leaves_nothing_behind(bank: PersonaBank, store: SQLiteStore, key: int, said, monkeypatch):
    heard = said()
    bank.merge([(heard, ["I have a dog."])])
    first, second = said(), said()
    add = bank._shelf.add

    def failing(speaker: str, text: str, *values):
        if text == "I play the violin.":
            raise RuntimeError("the disk is gone")
        return add(speaker, text, *values)

    monkeypatch.setattr(bank._shelf, "add", failing)
    with pytest.raises(RuntimeError, match="the disk is gone"):
        bank.merge([(first, ["I have two dogs.", "I like tea."]), (second, ["I play the violin."])])
    monkeypatch.undo()
    for seen in (bank, PersonaBank(store, key, bank._encoder, PersonasSection(), READING)):
        assert [(t.text, t.superseded_by) for t in seen.traits("Maya", history=True)] == [("I have a dog.", None)]
    assert [u.id for u in store.unextracted(key)] == [first.id, second.id]
    bank.merge([(first, ["I have two dogs.", "I like tea."]), (second, ["I play the violin."])])
    assert known(bank) == ["I have a dog.", "I have two dogs.", "I like tea.", "I play the violin."]


def test_selection_is_by_relevance(bank: PersonaBank, store: SQLiteStore, key: int, encoder: SentenceEncoder, said):
    traits = ["I have a dog.", "I work as a nurse.", "I play the violin.", "I live in Oslo."]
    bank.merge([(said(), traits)])
    query = encoder.encode(["How is your orchestra rehearsal going?"])[0]
    one = PersonaBank(store, key, encoder, PersonasSection(cap=1), READING)
    assert one.select(["Maya"], query, START) == {"Maya": ("I play the violin.",)}
    assert bank.select(["Maya"], query, START) == {"Maya": tuple(traits)}  # in the order of their making


def test_selection_weighs_recency(store: SQLiteStore, key: int, encoder: SentenceEncoder, said):
    # worth = (1 - w) cos + w e^(-age / 30 d), 60 days after the first: e^-2 = 0.135 against e^0 = 1
    PersonaBank(store, key, encoder, PersonasSection(), READING).merge(
        [(said(), ["I play the violin."]), (said(days=60), ["I have a dog."])]
    )
    query = encoder.encode(["Do you play in an orchestra?"])[0]
    violin, dog = (float(v @ query) for v in encoder.encode(["I play the violin.", "I have a dog."]))
    assert violin - dog > 0.15  # so relevance wins at w = 0.1, and recency at w = 0.9
    assert 0.9 * violin + 0.1 * math.exp(-2) > 0.9 * dog + 0.1
    for recency, expected in ((0.1, "I play the violin."), (0.9, "I have a dog.")):
        bank = PersonaBank(store, key, encoder, PersonasSection(cap=1, recency=recency), READING)
        assert bank.select(["Maya"], query, START + 60 * DAY) == {"Maya": (expected,)}


def test_a_cap_of_zero_is_none(store: SQLiteStore, key: int, encoder: SentenceEncoder, said):
    bank = PersonaBank(store, key, encoder, PersonasSection(cap=0), READING)
    bank.merge([(said(), ["I have a dog."])])
    assert bank.select(["Maya"], encoder.encode(["dog"])[0], START) == {}


def test_what_has_ended_is_history_and_held_before(
    bank: PersonaBank, store: SQLiteStore, key: int, encoder: SentenceEncoder, said
):
    bank.merge([(said(), ["I play tennis."])])
    [trait], quit_it = bank.traits("Maya"), said(days=9)
    assert bank.end(trait.id, START + 8 * DAY, quit_it.id)
    assert not bank.end(trait.id, START + 9 * DAY, quit_it.id)
    query = encoder.encode(["sport"])[0]
    for seen in (bank, PersonaBank(store, key, encoder, PersonasSection(), READING)):
        assert known(seen) == []
        [ended] = seen.traits("Maya", history=True)
        assert (ended.active, ended.holds_until, ended.ended_by) == (False, START + 8 * DAY, quit_it.id)
        held = [seen.select(["Maya"], query, START + n * DAY) for n in (-1, 0, 7, 8)]
        assert held == [{}, {"Maya": ("I play tennis.",)}, {"Maya": ("I play tennis.",)}, {}]
    bank.merge([(said(days=20), ["I play tennis."])])  # taken up again: another trait
    assert [(t.at, t.mentions, t.holds_until) for t in bank.traits("Maya")] == [(START + 20 * DAY, 1, None)]


def test_only_traits_that_are_near_enough_may_be_ended(bank: PersonaBank, said):
    bank.merge([(said(), ["I play tennis.", "My sister is a judge."])])
    near = [bank.near("Maya", "No more tennis for me.", 2, least) for least in (-1.0, 0.3)]
    assert [[trait.text for trait in traits] for traits in near] == [
        ["I play tennis.", "My sister is a judge."],
        ["I play tennis."],
    ]


def test_no_trait_is_ended_by_nothing_or_by_less_trusted_text_or_against_a_pin(bank, store, key, said):
    bank.merge([(said(), ["I play tennis."])])
    [trait] = bank.traits("Maya")
    letter = store.append(key, "Maya", "…", START + DAY, 3600.0, lambda: START, channel="document")
    assert [bank.end(trait.id, START + DAY, by) for by in (letter.id, "u99")] == [False, False]
    store.pin(key, trait.id, True, START)
    bank.drop_mirror()
    assert [bank.end(t, START + DAY, said(days=2).id) for t in (trait.id, "t99")] == [False, False]
    assert bank.traits("Maya", history=True) == bank.traits("Maya") != []


def test_a_failed_end_leaves_nothing_behind(bank: PersonaBank, said, monkeypatch):
    bank.merge([(said(), ["I play tennis."])])
    [trait] = bank.traits("Maya")
    monkeypatch.setattr(bank._store, "writing", lambda key: (_ for _ in ()).throw(RuntimeError("the disk is gone")))
    with pytest.raises(RuntimeError, match="the disk is gone"):
        bank.end(trait.id, START, said().id)
    assert bank.traits("Maya") == [trait]


def test_a_plan_leaves_the_prompts_after_its_date(bank: PersonaBank, store: SQLiteStore, key: int, encoder, said):
    flight, heard = "I fly to Rome.", said()
    bank.merge([(heard, [flight, "I have a dog."])], {(heard.id, flight): (START + 3 * DAY, START + 4 * DAY)})
    query = encoder.encode(["travel"])[0]
    for seen in (bank, PersonaBank(store, key, encoder, PersonasSection(), READING)):
        assert seen.select(["Maya"], query, START + 3 * DAY) == {"Maya": (flight, "I have a dog.")}
        assert seen.select(["Maya"], query, START + 4 * DAY) == {"Maya": ("I have a dog.",)}
        plan = seen.traits("Maya")[0]
        assert (plan.active, plan.holds_from, plan.holds_until) == (True, START + 3 * DAY, START + 4 * DAY)
        assert [plan.held(START + n * DAY) for n in (0, 3, 4)] == [False, True, False]
    again = said(days=30)
    bank.merge([(again, [flight])], {(again.id, flight): (None, START + 40 * DAY)})  # another flight
    assert [(t.text, t.mentions) for t in bank.traits("Maya")] == [(flight, 1), ("I have a dog.", 1), (flight, 1)]


def test_a_repeated_trait_takes_the_dates_that_are_given(bank: PersonaBank, said):
    first, second, third = said(), said(days=1), said(days=2)
    bank.merge([(first, ["I have a lodger."])], {(first.id, "I have a lodger."): (START - DAY, None)})
    bank.merge([(second, ["I have a lodger."])], {(second.id, "I have a lodger."): (None, START + 9 * DAY)})
    bank.merge([(third, ["I have a lodger."])])
    [trait] = bank.traits("Maya")
    assert (trait.mentions, trait.holds_from, trait.holds_until) == (3, START - DAY, START + 9 * DAY)


@pytest.mark.parametrize("replaced", [True, False])
def test_without_the_line_that_ended_them_traits_hold_as_they_were_told(bank, store, key, said, replaced: bool):
    holiday, home, heard, later = "I am on holiday.", "I live in Leeds.", said(), said(days=2)
    bank.merge([(heard, [holiday, home])], {(heard.id, holiday): (None, START + 9 * DAY)})
    ends = {trait.id: at for trait, at in zip(bank.traits("Maya"), (later.at, START + 5 * DAY), strict=True)}
    assert all(bank.end(trait, at, later.id) for trait, at in ends.items())
    assert {trait.id: trait.holds_until for trait in bank.traits("Maya", history=True)} == ends
    if replaced:
        store.replace(key, [later.id])
    else:
        store.rewrite(key, Rewriting({later.id: ""}, [], forgotten=True), START + 3 * DAY)
    bank.drop_mirror()
    assert [(t.text, t.holds_until) for t in bank.traits("Maya")] == [(holiday, START + 9 * DAY), (home, None)]


def test_the_day_named_for_an_end_stays_without_the_line_that_ended_it_earlier(bank, store, key, said):
    bank.merge([(said(), ["I live in Leeds."])])
    [trait], plan, earlier = bank.traits("Maya"), said(days=1), said(days=2)
    assert bank.end(trait.id, START + 5 * DAY, plan.id)
    assert bank.end(trait.id, earlier.at, earlier.id)
    for line, until in ((earlier, START + 5 * DAY), (plan, None)):
        store.replace(key, [line.id])
        bank.drop_mirror()
        assert [t.holds_until for t in bank.traits("Maya")] == [until]
    plan, again = said(days=3), said(days=4)
    assert bank.end(trait.id, START + 5 * DAY, plan.id)
    bank.merge([(again, [trait.text])], {(again.id, trait.text): (None, START + 8 * DAY)})
    store.replace(key, [plan.id])
    bank.drop_mirror()
    assert [t.holds_until for t in bank.traits("Maya")] == [START + 8 * DAY]


def test_a_seed_persona_enters_once(bank: PersonaBank, store: SQLiteStore, key: int, encoder: SentenceEncoder, said):
    persona = ["I am a retired sailor.", "I love hiking in the mountains.", "I like hiking in the mountains."]
    for _ in range(3):
        bank = PersonaBank(store, key, encoder, PersonasSection(), READING)
        bank.seed("Sam", persona, EPOCH)
    assert [(t.text, t.mentions, t.source) for t in bank.traits("Sam")] == [(persona[0], 1, ""), (persona[1], 1, "")]
    bank.merge([(said("Sam"), ["I am not a retired sailor."])])
    bank.seed("Sam", persona, EPOCH)
    assert known(bank, "Sam") == [*persona[:2], "I am not a retired sailor."]


def test_user_and_agent_are_capped_separately(store: SQLiteStore, key: int, encoder: SentenceEncoder):
    bank = PersonaBank(store, key, encoder, PersonasSection(user_cap=0), READING)
    bank.seed("Maya", ["I row."], START)
    bank.seed("Sam", ["I bake."], START)
    query = encoder.encode(["hobby"])[0]
    assert bank.select(["Maya", "Sam"], query, START, "Sam") == {"Sam": ("I bake.",)}
