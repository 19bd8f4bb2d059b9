"""Keys and tenants: who is let in, and that one tenant sees nothing of another by whatever route."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli_commands import CommandLine
from server_parts import Client, Served

from ld_agent.server import page, talk
from ld_agent.server.errors import ApiError
from ld_agent.server.identity import Caller
from ld_agent.server.limits import Rates

pytestmark = pytest.mark.anyio
NOW = datetime(2024, 5, 1, tzinfo=UTC)
SECRET = "My secret word is xylophone."


def key_of(client: Client, tenant: str, *scopes: str, rate: int | None = None) -> dict[str, str]:
    """The header of a new key."""
    key = client.service.keys.create(tenant, scopes or ("chat", "memory"), rate, NOW)
    return {"Authorization": f"Bearer {key}"}


def filled(path: str, response_id: str = "resp_a") -> str:
    """A route's path with the ids of what tenant a has."""
    values = {"person": "ann", "number": "1", "target": "t1", "model": "default", "response_id": response_id}
    for name, value in values.items():
        path = path.replace("{" + name + "}", value)
    return path


BODIES: dict[str, Any] = {
    "/v1/chat/completions": {"model": "default", "messages": [{"role": "user", "content": "What is my secret word?"}]},
    "/v1/responses": {"model": "default", "input": "What is my secret word?"},
    "/v1/memory/people/{person}/messages": {"text": "What is my secret word?"},
    "/v1/memory/people/{person}/observe": {"utterances": [{"text": "What is my secret word?"}]},
    "/v1/memory/people/{person}/memories/{target}": {"text": "Changed."},
}


async def test_no_route_shows_or_changes_what_another_tenant_has(client: Client):
    mine, other = key_of(client, "a"), key_of(client, "b")
    await client.chat(SECRET, headers=mine)
    await client.chat("Buy salt.", headers=mine | {"Idempotency-Key": "k1"})
    await client.post(
        "/v1/memory/people/ann/observe",
        json={"utterances": [{"text": "I keep bees."}], "end_session": True},
        headers=mine,
    )
    asked = {"model": "default", "input": SECRET, "user": "ann"}
    response_id = (await client.post("/v1/responses", json=asked, headers=mine)).json()["id"]
    assert "xylophone" in (await client.get(f"/v1/responses/{response_id}", headers=mine)).text
    before = (await client.get("/v1/memory/people/ann/export", headers=mine)).text
    assert SECRET in before
    document = (await client.get("/openapi.json")).json()
    tried = 0
    for path, operations in document["paths"].items():
        if not path.startswith("/v1/"):
            continue
        for method in operations:
            headers = other | {"X-LD-Person": "ann", "X-LD-Thread": "t1", "Idempotency-Key": "k1"}
            response = await client.request(
                method,
                filled(path, response_id),
                json=BODIES.get(path),
                headers=headers,
                params={"text": "secret word"},
            )
            assert "xylophone" not in response.text, f"{method} {path}"
            tried += 1
    assert tried >= 16
    for person in ({}, {"user": "ann"}):
        body = {"model": "default", "input": "Which?", "previous_response_id": response_id, **person}
        assert (await client.post("/v1/responses", json=body, headers=other)).status_code == 404
    assert (await client.get("/v1/memory/people/ann/export", headers=mine)).text == before
    sent = [r for r in client.backbone.requests if r.module == "generator" and "What is my" in r.messages[-1].content]
    assert sent
    assert not [r for r in sent if "xylophone" in str(r.messages)]


async def test_no_page_shows_or_changes_what_another_tenant_has(client: Client):
    mine = key_of(client, "a")
    await client.chat(SECRET, headers=mine, thread=None)
    observed = {"utterances": [{"text": "I keep bees."}], "end_session": True}
    await client.post("/v1/memory/people/ann/observe", json=observed, headers=mine)
    before = (await client.get("/v1/memory/people/ann/export", headers=mine)).text
    await client.post("/login", data={"key": key_of(client, "b")["Authorization"][7:]})
    token = re.findall(r'name="csrf" value="([^"]+)"', (await client.get("/")).text)[0]
    tried = 0
    for route in (*page.router.routes, *talk.router.routes):
        if "{person}" not in route.path:
            continue
        for action in ("edit", "pin", "unpin", "forget") if "{action}" in route.path else ("",):
            path = filled(route.path).replace("{utterance}", "u2").replace("{action}", action)
            form = {"csrf": token, "name": "ann", "text": "Changed."}
            data = {"data": form} if "POST" in route.methods else {"params": {"q": "secret word"}}
            response = await client.request(next(iter(route.methods)), path, **data)
            assert (response.status_code, "xylophone" in response.text) == (404, False), path
            tried += 1
    assert tried >= 13
    for path in ("/", "/?q=ann", "/talk?person=ann"):
        assert "xylophone" not in (await client.get(path)).text
    assert (await client.get("/v1/memory/people/ann/export", headers=mine)).text == before


@pytest.mark.parametrize("person", ["a/ann", "../a/ann", "a%2Fann", "%2e%2e/a/ann"])
async def test_no_id_leads_to_another_tenant(client: Client, person: str):
    mine, other = key_of(client, "a"), key_of(client, "b")
    await client.chat(SECRET, headers=mine)
    for path in ("", "/export", "/records", "/sessions/1"):
        response = await client.get(f"/v1/memory/people/{person}{path}", headers=other)
        assert response.status_code in (400, 404), path
        assert "xylophone" not in response.text


async def test_without_keys_only_this_machine_is_answered(client: Client):
    assert (await client.chat("Hello.")).status_code == 200
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        assert (await client.chat("Hello.", headers=headers)).status_code == 403
    assert (await client.chat("Hello.", headers={"Origin": "http://localhost:3000"})).status_code == 200


@pytest.mark.parametrize("allowed", [True, False])
async def test_web_pages_of_other_sites_need_to_be_named(served: Served, allowed: bool):
    origin = "https://chat.example.org"
    async with served(**{"server.cors": [origin] if allowed else []}) as client:
        headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        answer = await client.options("/v1/chat/completions", headers=headers)
        assert ("access-control-allow-origin" in answer.headers) == allowed
        refused = await client.post("/v1/chat/completions", content=b"x", headers={"Origin": origin})
        assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (415, allowed)


async def test_with_keys_nobody_is_let_in_without_one(client: Client):
    good = key_of(client, "a")
    for headers in ({}, {"Authorization": "Bearer lda_wrong"}, {"Authorization": good["Authorization"][7:]}):
        response = await client.chat("Hello.", headers=headers)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
    assert (await client.get("/healthz")).status_code == 200
    assert (await client.chat("Hello.", headers=good)).status_code == 200


async def test_scopes(client: Client):
    chat, memory, admin = (key_of(client, "a", scope) for scope in ("chat", "memory", "admin"))
    assert (await client.chat("Hello.", headers=chat)).status_code == 200
    assert (await client.chat("Hello.", headers=memory)).status_code == 403
    assert (await client.get("/v1/memory/people", headers=chat)).status_code == 403
    assert (await client.get("/v1/memory/people", headers=memory)).status_code == 200
    assert (await client.get("/v1/memory/people", headers=admin)).status_code == 200


async def test_a_key_has_a_rate(client: Client):
    slow, other = key_of(client, "a", rate=1), key_of(client, "a")
    assert (await client.get("/v1/models", headers=slow)).status_code == 200
    refused = await client.get("/v1/models", headers=slow)
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 61
    assert (await client.get("/v1/models", headers=other)).status_code == 200


def test_a_bucket_fills_evenly():
    now = [0.0]
    rates, caller = Rates(60, lambda: now[0]), Caller("a", ("chat",), "k", 2)
    rates.count(caller)
    rates.count(caller)
    with pytest.raises(ApiError) as refused:
        rates.count(caller)
    assert refused.value.headers == {"Retry-After": "30"}
    now[0] = 30.5
    rates.count(caller)


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    run, store = CommandLine(monkeypatch, capsys), tmp_path / "s.db"
    made = run("keys", "create", "home", "--store", store, "--rate", "60")
    key = made.out.strip()
    assert (made.code, key[:12] in made.err) == (0, True)
    assert key.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    listed = run("keys", "list", "--store", store).out
    assert key[:12] in listed
    assert key not in listed
    assert "home" in listed
    assert run("keys", "revoke", key[:12], "--store", store).code == 0
    for refused in (
        run("keys", "create", "No Spaces", "--store", store),
        run("keys", "create", "home", "--scope", "all", "--store", store),
        run("keys", "revoke", "lda_nothing", "--store", store),
        run("keys", "list", "--store", tmp_path / "nothing.db"),
    ):
        assert (refused.code, len(refused.err.splitlines())) == (1, 1)
