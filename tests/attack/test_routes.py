"""The server under attack: other tenants' ids in every spelling, invented requests, strangers, scripts and leaks."""

import asyncio
import json
import logging
import re
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

import httpx
import pytest
from agent_parts import confessed, echo, remembered, retold
from server_parts import NDJSON, Client, Served, Serving
from texts import TEXTS

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.errors import StoreError
from ld_agent.server import connections, page, talk
from ld_agent.server.app import OPEN
from ld_agent.server.limits import ATTEMPTS
from ld_agent.storage.served import Keys

pytestmark = pytest.mark.anyio
NOW = datetime(2024, 5, 1, tzinfo=UTC)
SECRET = "My secret word is xylophone."
SPELLINGS = [
    *(
        "a/ann ../a/ann ..%2fa%2fann %2e%2e/a/ann a%2Fann a%252Fann a%5Cann a／ann "
        "a\u2044ann a\u2215ann %61%2F%61nn /a/ann //a/ann "
        "a/ann%00 ann%00 a//ann b/../a/ann a/ANN A/ann \u200bann ａｎｎ a%2Fann?x= a%2Fann%23 . .. %2e * % _ a/ a/%25 {{ann}} "
        "ann\u0301 a%0d%0aann"
    ).split(),
    "ann ",
    " ann",
]
"""Spellings of what another tenant's conversation is called in the store, or of patterns over it."""
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{7*7}}"


def key_of(client: Client, tenant: str, *scopes: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {client.service.keys.create(tenant, scopes or ('chat', 'memory'), None, NOW)}"}


async def test_no_spelling_of_an_id_leads_to_another_tenant(client: Client) -> None:
    mine, other = key_of(client, "a"), key_of(client, "b")
    await client.chat(SECRET, headers=mine)
    before = (await client.get("/v1/memory/people/ann/export", headers=mine)).text
    paths = [
        path
        for path in (await client.get("/openapi.json")).json()["paths"]
        if path.endswith("}") or "{person}/" in path
    ]
    assert len(paths) >= 10
    for spelling in SPELLINGS:
        for path in paths:
            for name in re.findall(r"{(\w+)}", path):
                path = path.replace("{" + name + "}", spelling if name == "person" else "1")
            for method in ("GET", "DELETE", "PATCH", "POST"):
                response = await client.request(
                    method, path, headers=other, params={"text": "secret", "k": 3}, json={"text": "No."}
                )
                assert response.status_code < 500, (method, path, response.text)
                assert "xylophone" not in response.text, (method, path)
        named = other | {"X-LD-Person": spelling.encode("utf-8"), "X-OpenWebUI-Chat-Id": "t1"}
        for response in (
            await client.get("/v1/memory/people", headers=other, params={"after": spelling, "containing": spelling}),
            await client.chat("What is my secret word?", person=None, headers=named),
            await client.chat("What is my secret word?", person=None, thread=None, headers=other, user=spelling),
        ):
            assert response.status_code < 500, spelling
            assert "xylophone" not in response.text, spelling
    assert (await client.get("/v1/memory/people/ann/export", headers=mine)).text == before


async def test_a_person_header_needs_a_key_where_there_are_keys(client: Client) -> None:
    await client.chat(SECRET)
    mine = key_of(client, "a")
    for header in ("X-LD-Person", "X-OpenWebUI-User-Id"):
        assert (await client.chat("Which word?", person=None, headers={header: "ann"})).status_code == 401
        answer = await client.chat("Which word?", person=None, headers=mine | {header: "ann"})
        assert "xylophone" not in answer.text  # who spoke before there were keys is no tenant's
    assert (await client.get("/v1/memory/people/ann", headers={"X-LD-Person": "ann"})).status_code == 401


async def test_no_route_is_open_to_a_key_without_its_scope(client: Client) -> None:
    keys = {scope: key_of(client, "a", scope) for scope in ("chat", "memory")}
    await client.chat(SECRET, headers=keys["chat"])
    before, tried = await client.said("a/ann"), 0
    for path, operations in (await client.get("/openapi.json")).json()["paths"].items():
        if path in OPEN:
            continue
        scope = "admin" if path == "/metrics" else "memory" if path.startswith("/v1/memory") else "chat"
        route = re.sub(r"{\w+}", "1", path.replace("{person}", "ann"))
        content = NDJSON if path.endswith("/import") else {"Content-Type": "application/json"}
        for method in operations:
            for other in keys.keys() - {scope}:
                response = await client.request(method, route, headers=keys[other] | content, content=b"{}")
                assert (response.status_code, response.json()["error"]["code"]) == (403, "missing_scope"), path
                tried += 1
    assert tried >= 24
    assert await client.said("a/ann") == before


async def test_no_form_of_the_page_works_without_its_token(client: Client) -> None:
    await client.chat(SECRET)
    routes = [route.path for route in (*page.router.routes, *talk.router.routes) if "POST" in route.methods]
    assert len(routes) >= 6
    fields = {"person": "ann", "name": "ann", "text": "Changed.", "me": "Ann"}
    for route in routes:
        path = route.replace("{person}", "ann").replace("{target}", "u1").replace("{action}", "forget")
        for guess in ({}, {"csrf": ""}, {"csrf": "x" * 43}, {"csrf": "é"}):
            refused = await client.post(path, data=fields | guess, files={"file": b"{}"} if path == "/import" else None)
            assert refused.status_code == (401 if path == "/login" else 403), path
    assert (await client.said())[0] == SECRET


async def test_an_idempotency_key_is_for_one_thread_person_and_tenant(client: Client) -> None:
    once = {"Idempotency-Key": "k1"}
    assert (await client.chat("Buy salt.", headers=once)).status_code == 200
    other = await client.chat("Buy salt.", thread="t2", headers=once)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_key_reused")
    assert (await client.chat("Buy salt.", thread="t2", headers={"Idempotency-Key": "k2"})).status_code == 200
    assert (await client.chat("Buy salt.", thread=None, headers=once)).status_code == 409
    assert len(await client.said()) == 4
    assert (await client.chat("Buy salt.", person="bob", headers=once)).headers.get("x-ld-repeated") is None
    assert (await client.chat("Buy salt.", headers=once)).headers["x-ld-repeated"] == "true"
    asked = {"model": "default", "input": "Buy rice.", "user": "ann"}
    ids = [
        (await client.post("/v1/responses", json=asked, headers={"Idempotency-Key": "k3"})).json()["id"]
        for _ in range(2)
    ]
    assert ids[0] == ids[1]  # a repetition names no thread and begins none
    for tenant in ("a", "b"):
        answer = await client.chat("Buy salt.", headers=key_of(client, tenant) | once)
        assert (answer.status_code, answer.headers.get("x-ld-repeated")) == (200, None)


async def test_invented_methods_have_one_row_in_the_metrics(client: Client) -> None:
    for number in range(50):
        assert (await client.request(f"X{number}", "/v1/models")).status_code in (404, 405)
    shown = (await client.get("/metrics")).text
    assert 'method="other"' in shown
    assert 'method="X' not in shown


async def test_guesses_of_keys_are_limited(client: Client) -> None:
    key = key_of(client, "a", "memory")["Authorization"][7:]
    answers = [(await client.post("/login", data={"key": f"lda_{n}"})) for n in range(ATTEMPTS + 1)]
    assert [answer.status_code for answer in answers] == [401] * ATTEMPTS + [429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert (await client.post("/login", data={"key": key})).status_code == 429


async def test_a_login_is_a_cookie_that_no_page_reads_and_no_other_site_sends(client: Client) -> None:
    key = key_of(client, "a", "memory")["Authorization"][7:]
    answer = await client.post("/login", data={"key": key})
    cookie = answer.headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=strict", "Path=/"):
        assert part in cookie
    assert key not in cookie
    answer = await client.post("https://localhost/login", data={"key": key})
    assert "Secure" in answer.headers["set-cookie"]
    client.cookies.clear()
    for guess in ("", "x", key, "None"):
        assert (await client.get("/", headers={"Cookie": f"ld_agent_session={guess}"})).status_code in (303, 401)


async def test_a_deletion_is_taken_back_only_by_who_made_it(client: Client) -> None:
    tenants = {name: key_of(client, name)["Authorization"][7:] for name in ("a", "b")}
    await client.chat(SECRET, headers={"Authorization": f"Bearer {tenants['a']}"})

    async def logged_in(tenant: str) -> dict[str, str]:
        client.cookies.clear()
        await client.post("/login", data={"key": tenants[tenant]})
        return {"csrf": re.findall(r'name="csrf" value="([^"]+)"', (await client.get("/")).text)[0]}

    mine = await logged_in("a")
    assert (await client.post("/people/ann/delete", data=mine | {"name": "ann"})).status_code == 303
    for spelling in ("ann", "a/ann", "../a/ann", "a%2Fann"):
        other = await logged_in("b")
        assert (await client.post("/undo", data=other | {"person": spelling})).status_code in (400, 404)
        assert (await client.post("/undo", data=mine | {"person": spelling})).status_code == 403
    mine = await logged_in("a")
    assert (await client.post("/undo", data=mine | {"person": "ann"})).status_code == 303
    assert SECRET in await client.said("a/ann")


async def test_no_field_that_is_shown_becomes_a_script(client: Client) -> None:
    person = quote("<script>alert(0)<", safe="")
    name = quote(SCRIPT, safe="")
    for text in (f"I am {SCRIPT}.", f"I keep {SCRIPT}?"):
        await client.chat(text, person="<script>alert(0)<", thread=None, headers={"X-LD-Name": name})
    said = {
        "utterances": [{"text": SCRIPT, "speaker": SCRIPT[:90], "thread": SCRIPT[:20].replace("/", "")}],
        "end_session": True,
    }
    assert (await client.post(f"/v1/memory/people/{person}/observe", json=said)).status_code == 200
    client.service.agent.conversation("<script>alert(0)<").traits()  # learned by now
    shown = 0
    searched = quote(SCRIPT)
    paths = [
        "",
        "/live",
        "/sessions/1",
        "/sessions/2",
        "/traits",
        f"/ask?q={searched}",
        f"/search?q={searched}",
        "/replies/u2",
    ]
    for path in [f"/people/{person}{path}" for path in paths] + ["/", f"/?q={searched}", f"/people/{name}", f"/{name}"]:
        for headers in ({"Accept": "text/html"}, {"Accept": "text/html", "HX-Request": "true"}):
            page = await client.get(path, headers=headers)
            assert not re.search(r"<script>|<img|onerror=alert\(2\)>", page.text), path
            assert "49" not in re.findall(r"{{.*?}}", page.text)
            if page.status_code == 200:
                assert "script-src 'self'" in page.headers["content-security-policy"], path
                assert "frame-ancestors 'none'" in page.headers["content-security-policy"], path
            shown += page.text.count("&lt;script&gt;")
    assert shown > 10


async def test_errors_and_logs_tell_no_file_no_words_and_no_key(client: Client, monkeypatch, caplog, store) -> None:
    caplog.set_level(logging.INFO)
    key = key_of(client, "a")
    await client.chat(SECRET, headers=key, person="annabel")
    await client.chat("No.", headers={"Authorization": "Bearer lda_guessed"}, person="annabel")

    def failing(*given: object, **more: object) -> None:
        raise StoreError(f"{store}: the disk is full; tenant a, {SECRET}")

    monkeypatch.setattr(client.service.agent.store, "find_conversation", failing)
    exported = b'{"format": "ld_agent.memory", "version": 2}\n'
    for response in (
        await client.get("/v1/memory/people/annabel", headers=key),
        await client.get("/v1/memory/people/annabel/traits", headers=key),
        await client.post("/v1/memory/people/bo/import", headers=key | NDJSON, content=exported),
    ):
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "store_failed"
        assert str(store) not in response.text
        assert "xylophone" not in response.text
    requests = [record for record in caplog.records if record.message == "request"]
    assert len(requests) >= 5
    for record in requests:
        line = str(vars(record))
        assert not any(told in line for told in ("xylophone", "annabel", "guessed", key["Authorization"][20:]))


async def test_a_running_server_that_fails_shows_no_traceback(client: Client, monkeypatch) -> None:
    monkeypatch.setattr(client.service.directory, "people", lambda *given: 1 / 0)
    response = await client.get("/v1/memory/people")
    assert response.status_code == 500
    assert "division" not in response.text
    assert "Traceback" not in response.text


async def test_an_import_of_what_is_still_to_come_is_refused(client: Client) -> None:
    await client.chat("I keep bees.")
    lines = [json.loads(line) for line in (await client.get("/v1/memory/people/ann/export")).text.splitlines()]
    later = [line | {"at": "2999-01-01T00:00:00+00:00"} if line.get("kind") == "utterance" else line for line in lines]
    content = "".join(json.dumps(line) + "\n" for line in later)
    response = await client.post("/v1/memory/people/bob/import", content=content, headers=NDJSON)
    assert (response.status_code, "still to come" in response.text) == (400, True)
    assert (await client.get("/v1/memory/people/bob")).status_code == 404


@pytest.fixture
def address(config: Callable[..., object], encoder, topics, monkeypatch) -> Iterator[tuple[str, Agent]]:
    """Where an agent is served, on a socket that takes three connections."""
    monkeypatch.setattr(connections, "CONNECTIONS", 3)
    script = {"generator": echo, "summarizer": retold, "extractor": confessed, "memory": remembered}
    agent = Agent(config(), backbone=ScriptedBackbone(script), encoder=encoder, topics=topics, background=True)
    with Serving(agent) as served:
        yield served, agent


def connected(address: str) -> socket.socket:
    where = urlsplit(address)
    return socket.create_connection((where.hostname, where.port), timeout=30)


def test_the_body_of_a_stranger_is_not_read(address) -> None:
    served, agent = address
    keys = Keys(agent.store)
    key = keys.create("a", ("chat",), None, NOW)
    for token, status in (
        ("", "401"),
        ("Authorization: Bearer lda_x\r\n", "401"),
        (f"Authorization: Bearer {key}\r\n", ""),
    ):
        with connected(served) as stranger:
            stranger.sendall(
                f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n{token}Content-Type: application/json\r\n"
                "Content-Length: 16000000\r\n\r\n".encode()
            )
            if status:
                assert stranger.recv(12).decode() == f"HTTP/1.1 {status}"
            else:
                stranger.settimeout(0.3)
                with pytest.raises(TimeoutError):
                    stranger.recv(12)


def test_connections_beyond_the_limit_are_closed_and_others_served(address) -> None:
    served, _ = address
    idle = [connected(served) for _ in range(8)]
    closed = 0
    for one in idle:
        one.settimeout(1)
        try:
            closed += one.recv(1) == b""
        except ConnectionResetError:
            closed += 1
        except TimeoutError:
            pass
    assert closed == 5
    for one in idle:
        one.close()
    with httpx.Client(base_url=served, transport=httpx.HTTPTransport(retries=5)) as http:
        assert http.get("/healthz").status_code == 200


async def test_nothing_takes_long_on_the_event_loop(served: Served, monkeypatch) -> None:
    """While a turn is made of a long text, and pages show it."""
    taken, run = list[float](), asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        begun = time.thread_time()
        run(handle)
        taken.append(time.thread_time() - begun)

    async with served({"generator": "How nice."}) as client:
        await client.chat("I keep bees.")
        await client.get("/people/ann")  # once, threads and templates are made
        texts = [TEXTS[kind](200_000) for kind in ("quotes", "I am a.")]
        monkeypatch.setattr(asyncio.Handle, "_run", timed)
        for text in texts:
            assert (await client.chat(text)).status_code == 200
        asked = "bees baker quotes dates and whatever else may be marked on a page of results"
        for path in ("", "/live", "/sessions/1", f"/search?q={asked}", "/replies/u6"):
            await client.get(f"/people/ann{path}")
        monkeypatch.undo()
    assert len(taken) > 100
    assert max(taken) < 0.05
