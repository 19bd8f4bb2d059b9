"""The memory over HTTP, through the client that ships with the package."""

import asyncio
import inspect
import re
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import httpx
import pytest
from server_parts import Client, Served

from ld_agent.backbones.base import Request
from ld_agent.client import MemoryClient, Said, ServerError
from ld_agent.server.service import THREADS
from ld_agent.types import SessionSummary, ThreadSummary, utc

pytestmark = pytest.mark.anyio
MARCH = "2024-03-01T10:00:00+00:00"
APRIL = "2024-04-01T10:00:00+00:00"


class Memory:
    """The methods of a `MemoryClient` of a served agent, as coroutines: each runs in a thread and asks this event loop."""

    def __init__(self, client: Client) -> None:
        def relay(request: httpx.Request) -> httpx.Response:
            answer = anyio.from_thread.run(client.send, request)
            return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)

        self._memory = MemoryClient(
            "", http=httpx.Client(base_url=client.base_url, transport=httpx.MockTransport(relay))
        )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*arguments: Any, **named: Any) -> Any:
            return await anyio.to_thread.run_sync(partial(getattr(self._memory, name), *arguments, **named))

        return call


async def past(client: Client) -> Memory:
    """The memory of Ann, after two finished sessions."""
    memory = Memory(client)
    said = [Said("I keep forty bee hives in Ghent.", "Ann", MARCH), Said("Bees are busy.", "Sam", MARCH)]
    await memory.observe("ann", said, end_session=True)
    await memory.observe("ann", [Said("I bought two goats.", "Ann", APRIL)], end_session=True)
    return memory


@pytest.fixture
async def memory(client: Client) -> Memory:
    return await past(client)


async def test_what_was_observed_in_the_past_is_recalled(served: Served):
    async with served(**{"memory.gamma": -1.0}) as client:
        memory = await past(client)
        [best] = await memory.recall("ann", "bee hives", k=1)
        assert best.record.text.startswith("Ann: I keep forty bee hives")
        assert best.terms
        assert len(await memory.recall("ann", "hives and goats", k=5)) == 2
        assert await memory.recall("ann", "bee hives", at="2024-02-01T10:00:00+00:00") == []


async def test_people_by_page(client: Client):
    memory = Memory(client)
    for person in ("ann", "bob", "cem"):
        await memory.observe(person, ["Hello."])
    assert [p.id for p in await memory.people(limit=2)] == ["ann", "bob"]
    assert [p.id for p in await memory.people(after="bob")] == ["cem"]
    assert [(p.id, p.utterances) for p in await memory.people(containing="E")] == [("cem", 1)]
    listed = (await client.get("/v1/memory/people?limit=2")).json()
    assert listed["next"] == "bob"
    assert (await memory.person("bob")).utterances == 1


async def test_sessions_threads_and_records(client: Client, memory: Memory):
    await memory.observe("ann", [Said("On the phone.", "Ann", APRIL, "phone")])
    page = (await client.get("/v1/memory/people/ann/sessions?limit=2")).json()
    latest = await memory.sessions("ann", limit=2)
    assert [(s.number, s.thread, s.closed) for s in latest] == [(3, "phone", False), (2, "", True)]
    assert page["next"] == latest[-1].number
    march = datetime.fromisoformat(MARCH)
    assert await memory.sessions("ann", before=latest[-1].number) == [SessionSummary(1, "", True, 2, march, march)]
    first = await memory.session("ann", 1)
    assert (first.number, [u.speaker for u in first.utterances]) == (1, ["Ann", "Sam"])
    records = await memory.records("ann")
    assert [r.session for r in records] == [1, 2]
    assert first.records == (records[0],)
    april = datetime.fromisoformat(APRIL)
    assert await memory.threads("ann") == [ThreadSummary("phone", 1, april), ThreadSummary("", 3, april)]
    with pytest.raises(ServerError, match="has no session 9") as refused:
        await memory.session("ann", 9)
    assert (refused.value.status, refused.value.code) == (404, "session_not_found")


async def test_traits_say_when_they_held_and_are_asked_for_as_of_a_time(client: Client, memory: Memory):
    conversation = client.service.agent.conversation("ann")
    hives = next(t for t in conversation.traits() if "hives" in t.text)
    conversation.relation.bank.end(hives.id, utc(APRIL), "u3")
    active = [t.text for t in await memory.traits("ann")]
    assert hives.text not in active
    assert active
    held = await memory.traits("ann", as_of="2024-03-20T10:00:00+00:00")
    [ended] = [t for t in held if t.speaker == "Ann"]
    assert (ended.text, ended.holds_from, ended.holds_until, ended.ended_by) == (hives.text, None, utc(APRIL), "u3")
    assert hives.text not in [t.text for t in await memory.traits("ann", as_of=utc(APRIL))]
    assert (await client.get("/v1/memory/people/ann/traits?as_of=2024-03-20")).status_code == 400


async def test_edit_pin_and_forget(memory: Memory):
    [record, _] = await memory.records("ann")
    await memory.edit("ann", record.id, "Ann keeps fifty hives.")
    await memory.pin("ann", record.id)
    changed = (await memory.records("ann"))[0]
    assert (changed.text, changed.pinned) == ("Ann keeps fifty hives.", True)
    for pinned in (False, True):
        await memory.undo("ann")
        assert (await memory.records("ann"))[0].pinned == pinned
    [trait, *_] = await memory.traits("ann")
    await memory.forget("ann", trait.id)
    assert trait.id not in [t.id for t in await memory.traits("ann", history=True)]
    changes = await memory.changes("ann")
    logged = [(c.action, c.target, c.before) for c in changes]
    assert logged[:2] == [("edit", record.id, record.text), ("edit", "u1", "I keep forty bee hives in Ghent.")]
    assert ("pin", record.id, changed.text) in logged
    assert ("forget", trait.id, "") in logged
    assert all(c.at.utcoffset() == timedelta(0) for c in changes)


async def test_a_model_of_ones_own(memory: Memory):
    prompt = await memory.messages("ann", "How many hives do I keep?")
    assert prompt.messages[-1]["content"].endswith("How many hives do I keep?")
    assert "forty bee hives" in "".join([message["content"] for message in prompt.messages])
    [said] = await memory.observe("ann", [Said("Forty.", "Sam")])
    assert (said.speaker, said.session) == ("Sam", prompt.heard.session)


async def test_an_export_is_imported_as_someone_else(memory: Memory):
    exported = await memory.export("ann")
    counts = await memory.import_person("bob", exported)
    assert counts["utterances"] == 3
    assert await memory.export("bob") == exported.replace('"id": "ann"', '"id": "bob"')
    with pytest.raises(ServerError, match="already exists") as refused:
        await memory.import_person("bob", exported)
    assert refused.value.status == 409
    with pytest.raises(ServerError, match="line 1: cannot be imported") as refused:
        await memory.import_person("cem", '{"format": "other"}\n')
    assert refused.value.status == 400
    assert [p.id for p in await memory.people()] == ["ann", "bob"]


async def test_a_deleted_person_is_gone(client: Client, memory: Memory):
    await client.chat("Hello again.", person="ann")
    await memory.delete("ann")
    assert await memory.people() == []
    assert (await client.get("/v1/memory/people/ann")).status_code == 404
    path = client.service.agent.store.path
    with open(path, "rb") as file:
        assert b"bee hives" not in file.read()
    assert (await client.chat("Hello.", person="ann")).status_code == 200


async def test_reading_creates_nobody(client: Client):
    for path in ("", "/sessions", "/records", "/traits", "/threads", "/changes", "/export", "/recall?text=x"):
        assert (await client.get(f"/v1/memory/people/nobody{path}")).status_code == 404
    assert await Memory(client).people() == []


async def test_what_is_refused_says_how_much_was_stored(client: Client):
    with pytest.raises(ServerError, match=r"utterance 2: .*1 were stored"):
        await Memory(client).observe("ann", [Said("Now.", at=APRIL), Said("Before.", at=MARCH)])
    for at in ("2024-05-01T10:00:00", 1714557600, "1714557600"):
        response = await client.post("/v1/memory/people/ann/observe", json={"utterances": [{"text": "x", "at": at}]})
        assert response.status_code == 400
    assert (await client.get("/v1/memory/people/ann/recall?text=x&at=1714557600")).status_code == 400


async def test_what_has_not_happened_yet_is_refused(client: Client):
    """Otherwise the thread would have no later time than this one, and its session never a gap."""
    with pytest.raises(ServerError, match=r"utterance 2: at=2999.* is in the future"):
        await Memory(client).observe("ann", ["Now.", Said("Later.", at="2999-01-01T00:00:00+00:00")])
    with pytest.raises(ServerError, match="in the future"):
        await Memory(client).messages("ann", "Later.", at="2999-01-01T00:00:00+00:00")
    assert await Memory(client).people() == []


async def test_a_server_that_is_not_there():
    with pytest.raises(ServerError, match="cannot be reached"):
        MemoryClient("http://127.0.0.1:9").people()


@pytest.mark.parametrize("answer", ['{"people": [{"id": "ann"}]}', "{}", "[]", "no JSON"])
async def test_another_server_is_an_error_of_one_line(answer: str):
    def other(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=answer, headers={"content-type": "application/json"})

    client = MemoryClient(
        "http://other", http=httpx.Client(transport=httpx.MockTransport(other), base_url="http://other")
    )
    with pytest.raises(ServerError, match="GET /v1/memory/people was answered with something else") as raised:
        client.people()
    assert "\n" not in str(raised.value)


async def test_the_client_knows_every_route_of_the_memory(client: Client):
    """Each method is called with placeholders; the paths it asks for are those of the OpenAPI document."""
    described = (await client.get("/openapi.json")).json()["paths"]
    routes = {
        (method.upper(), re.sub(r"{\w+}", "1", path))
        for path, methods in described.items()
        if path.startswith("/v1/memory/")
        for method in methods
    }

    def refuse(request: httpx.Request) -> httpx.Response:
        asked.add((request.method, request.url.path))
        return httpx.Response(400, json={"error": {"message": "no"}})

    asked: set[tuple[str, str]] = set()
    with MemoryClient("", http=httpx.Client(base_url="http://memory", transport=httpx.MockTransport(refuse))) as memory:
        for name, method in inspect.getmembers(memory, inspect.ismethod):
            if name.startswith("_") or name == "close":
                continue
            needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
            with pytest.raises(ServerError, match="no"):
                method(*("1" for _ in needed))
    assert asked == routes


async def test_a_slow_reply_to_one_person_holds_up_nobody_else(served: Served):
    """However much is asked about the memory of the person who waits."""
    go_on = threading.Event()

    def generator(request: Request) -> str:
        if "slow" in request.messages[-1].content:
            assert go_on.wait(20)
        return "How nice."

    async with served({"generator": generator}) as client:
        await client.chat("I keep bees.")
        slow = asyncio.create_task(client.chat("I am slow."))
        while not any("slow" in r.messages[-1].content for r in client.backbone.requests):
            await asyncio.sleep(0)
        recalls = [
            asyncio.create_task(client.get("/v1/memory/people/ann/recall", params={"text": "bees"}))
            for _ in range(2 * THREADS)
        ]
        for _ in range(100):
            await asyncio.sleep(0.001)
        try:
            said = client.post("/v1/memory/people/bob/observe", json={"utterances": [{"text": "I keep goats."}]})
            assert (await asyncio.wait_for(said, 10)).status_code == 200
            recall = client.get("/v1/memory/people/bob/recall", params={"text": "goats"})
            assert (await asyncio.wait_for(recall, 10)).status_code == 200
        finally:
            go_on.set()
        assert {answer.status_code for answer in [await slow, *await asyncio.gather(*recalls)]} == {200}
