"""What a server keeps beside the conversations, on every engine: keys, answers, and lists by page."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ld_agent.storage.served import ANSWERS_KEPT, Answer, Answers, Directory, Keys
from ld_agent.storage.store import Store

ENGINES = ("sqlite", "postgres")
AT = datetime(2024, 5, 1, tzinfo=UTC)
Fill = Callable[..., int]


def test_a_key_is_found_until_it_is_revoked(store: Store) -> None:
    keys = Keys(store)
    assert not keys.in_use()
    secret = keys.create("acme", ["chat"], 60, AT)
    other = keys.create("home", ["chat", "memory"], None, AT + timedelta(seconds=1))
    stored = keys.find(secret)
    assert stored is not None
    assert (stored.tenant, stored.scopes, stored.rate, stored.created) == ("acme", ("chat",), 60, AT)
    assert [key.tenant for key in keys.all()] == ["acme", "home"]
    assert keys.revoke(stored.prefix, AT).revoked == AT
    assert keys.find(secret) is None
    assert not keys.valid(stored.prefix)
    assert keys.find(other) is not None
    assert keys.in_use()


def test_an_answer_is_kept_once_a_request_and_for_a_month(store: Store, fill: Fill) -> None:
    key, answers = fill(store, "maya"), Answers(store)
    first = Answer("a1", "", "request", "f", "u2", "stop", 3, 4, AT)
    answers.keep(key, first)
    answers.keep(key, replace(first, id="a0", request=None))
    answers.keep(key, replace(first, id="a2", finish="length"))
    assert answers.of_request(key, "request") == replace(first, id="a2", finish="length")
    assert answers.find("a1") is None
    assert answers.find("a0") == ("maya", replace(first, id="a0", request=None))
    assert answers.text(key, first) == "walnut number 1"
    answers.keep(key, replace(first, id="a9", request="later", at=AT + ANSWERS_KEPT + timedelta(seconds=1)))
    assert answers.find("a2") is None


def test_people_are_listed_by_page_within_their_prefix(store: Store, fill: Fill) -> None:
    for name in ("zoe", "acme/Ann", "acme/ben_%", "acme2/ann", "maya"):
        fill(store, name)
    directory = Directory(store)

    def ids(*asked: object) -> list[str]:
        return [person.id for person in directory.people(*asked)]  # type: ignore[arg-type]

    assert [person.id for person in directory.everyone()] == ["acme/Ann", "acme/ben_%", "acme2/ann", "maya", "zoe"]
    assert ids("", "", 10) == ["maya", "zoe"]
    assert ids("", "maya", 10) == ["zoe"]
    assert ids("acme/", "acme/", 10) == ["acme/Ann", "acme/ben_%"]
    assert ids("acme/", "acme/", 1) == ["acme/Ann"]
    assert ids("acme/", "acme/", 10, "ANN") == ["acme/Ann"]
    assert ids("acme/", "acme/", 10, "_%") == ["acme/ben_%"]
    assert ids("acme/", "acme/", 10, "acme") == []
    [person] = directory.people("", "maya", 1)
    assert (person.sessions, person.utterances, person.records, person.traits) == (2, 4, 1, 1)


def test_sessions_threads_and_words_of_a_person(store: Store, fill: Fill) -> None:
    key, directory = fill(store, "maya"), Directory(store)
    assert [(s.number, s.closed, s.utterances) for s in directory.sessions(key, None, 10)] == [
        (2, False, 1),
        (1, True, 3),
    ]
    assert [s.number for s in directory.sessions(key, 2, 10)] == [1]
    assert [(t.name, t.utterances) for t in directory.threads(key)] == [("", 4)]
    assert [u.text for u in directory.search(key, ["WALNUT a"], 9)] == ["walnut after all"]
    assert [u.text for u in directory.search(key, ["after", "WALNUT"], 9)] == ["walnut after all"]
    assert directory.search(key, ["before", "WALNUT"], 9) == []
    assert directory.search(key, ["%"], 9) == []
    store.append(key, "Maya", "Das ÖL ist alle.", AT + timedelta(days=2), 3600, lambda: AT)
    assert [u.text for u in directory.search(key, ["ÖL IST"], 9)] == ["Das ÖL ist alle."]
    assert directory.search(key, ["öl"], 9) == [], "only the case of ASCII is ignored, whatever the database's locale"
    assert directory.has_memory(key, "m1")
    assert not directory.has_memory(key, "m9")
    assert directory.unfinished() == ["maya"]
    assert directory.overdue(AT) == []
    assert directory.overdue(AT + timedelta(days=99)) == [("maya", "")]


def test_replaced_utterances_take_with_them_what_came_from_them_alone(store: Store, fill: Fill) -> None:
    key = fill(store, "maya")
    store.replace(key, ["u1"])
    assert [record.id for record in store.records(key)] == ["m1"], "it came from u2 as well"
    assert store.personas(key).traits() == []
    store.replace(key, ["u1", "u2"])
    assert store.records(key) == []
    assert [u.id for u in store.utterances(key)] == ["u3", "u4"]
