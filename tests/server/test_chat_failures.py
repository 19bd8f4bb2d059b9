"""Chat completions: what goes wrong, and that nothing is lost by it."""

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest
from server_parts import IMAGE, NDJSON, WEATHER, Client, Served, events, text, turn

from ld_agent.backbones.base import Request
from ld_agent.errors import BackboneError
from ld_agent.server.history import Line
from ld_agent.server.openai.chat import ChatMessage, ChatRequest
from ld_agent.server.openai.reading import AgentRequest
from ld_agent.server.openai.sending import RunningTurn
from ld_agent.server.openai.turns import Answered, Asked
from ld_agent.types import ReplyOptions

pytestmark = pytest.mark.anyio


def image(address: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": address}}


def away(request: Request) -> str:
    raise BackboneError("the endpoint is away")


def cut_short(left: threading.Event) -> Callable[[Request], str]:
    """A reply that is still being generated when its client leaves."""

    def generator(request: Request) -> str:
        if left.is_set():
            return "Well, bees are busy."
        assert request.on_text is not None
        request.on_text("Well, bees ")
        assert left.wait(20)
        request.on_text("are ")
        raise AssertionError("nobody listens, and yet the reply continues")

    return generator


async def test_a_failed_model_loses_nothing_and_the_request_can_be_sent_again(served: Served):
    answers = [away, lambda request: "Back again."]
    async with served({"generator": lambda request: answers.pop(0)(request)}) as client:
        response = await client.chat("I keep bees.")
        assert (response.status_code, response.json()["error"]["code"]) == (502, "model_failed")
        assert await turn(client, "I keep bees.") == "Back again."
        assert await client.said() == ["I keep bees.", "Back again."]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_an_endpoint_refuses_is_the_clients_to_mend(served: Served, stream: bool):
    def generator(request: Request) -> str:
        raise BackboneError("HTTP 400: Invalid schema for response_format 'person'", refused=True)

    async with served({"generator": generator}) as client:
        for person, kept in (("ann", "the message is stored"), (None, "nothing was stored")):
            response = await client.chat("I keep bees.", person=person, stream=stream)
            error = response.json()["error"]
            assert (response.status_code, error["code"], error["type"]) == (
                400,
                "model_refused",
                "invalid_request_error",
            )
            assert "Invalid schema for response_format 'person'" in error["message"]
            assert kept in error["message"]


async def test_a_model_that_fails_in_a_stream(served: Served):
    def generator(request: Request) -> str:
        assert request.on_text is not None
        request.on_text("Well, ")
        raise BackboneError("the endpoint is away")

    async with served({"generator": generator}) as client:
        last = events(await client.chat("I keep bees.", stream=True))[-1]
        assert "the endpoint is away" in last["error"]["message"]
        assert await client.said() == ["I keep bees."]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
async def test_what_fails_before_the_first_piece_of_a_stream_has_a_status(served: Served, path: str):
    asked = {"messages": [{"role": "user", "content": "I keep bees."}]} if "chat" in path else {"input": "I keep bees."}
    async with served({"generator": away}) as client:
        body = {"model": "default", "stream": True, **asked}
        response = await client.post(path, json=body, headers={"X-LD-Person": "ann", "X-LD-Thread": "t1"})
        assert (response.status_code, response.json()["error"]["code"]) == (502, "model_failed")
        assert await client.said() == ["I keep bees."]
        response = await client.post(path, json=body)
        assert response.status_code == 502
        assert "nothing was stored" in response.json()["error"]["message"]


async def test_nulls_are_defaults(client: Client):
    nulls = dict.fromkeys(("stream", "stream_options", "n", "max_tokens", "temperature", "seed", "metadata"))
    assert (await client.chat("I keep bees.", **nulls)).status_code == 200
    answer = await client.chat("And goats.", stream=True, stream_options={"include_usage": None})
    assert answer.headers["content-type"].startswith("text/event-stream")


async def test_an_unexpected_error_is_counted_as_such(client: Client):
    client.service.directory.people = None
    assert (await client.get("/v1/memory/people")).status_code == 500
    assert 'route="/v1/memory/people",status="500"' in (await client.get("/metrics")).text


async def test_a_failed_store_says_what_to_do_and_the_log_where(client: Client, monkeypatch, caplog, store):
    def failing(*given: object) -> None:
        with client.service.agent.store.db.errors():
            raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(client.service.agent.store, "find_conversation", failing)
    answer = await client.get("/v1/memory/people/ann")
    assert (answer.status_code, "database or disk is full" in answer.text, str(store) in answer.text) == (
        503,
        True,
        False,
    )
    assert f"{store}: the store failed: database or disk is full" in caplog.text
    assert "OperationalError" in caplog.text


async def test_a_client_that_leaves_keeps_what_was_said(served: Served):
    left = threading.Event()
    async with served({"generator": cut_short(left)}) as client:
        asked = Asked("ann", "t1", (Line(False, "I keep bees."),), ReplyOptions(), "default", "1")
        answered = await abandoned(client, left, asked)
        assert (answered.finish, answered.finish_reason) == ("interrupted", "stop")
        assert await client.said() == ["I keep bees.", "Well, bees are"]
        shown = (await client.get("/v1/memory/people/ann/sessions/1")).json()["utterances"]
        assert [u["interrupted"] for u in shown] == [False, True]
        assert 'Well, bees are <em class="dim">(stopped)' in (await client.get("/people/ann/sessions/1")).text
        exported = (await client.get("/v1/memory/people/ann/export")).text
        assert (await client.post("/v1/memory/people/bob/import", content=exported, headers=NDJSON)).status_code == 200
        assert (await client.get("/v1/memory/people/bob/export")).text.count('"interrupted": true') == 1


@pytest.mark.parametrize("thread", ["t1", None])
async def test_a_resent_request_after_a_lost_connection_gets_a_whole_reply(served: Served, thread: str | None):
    left = threading.Event()
    async with served({"generator": cut_short(left)}) as client:
        body = ChatRequest(model="default", messages=[ChatMessage(role="user", content="I keep bees.")])
        keyed = {"key": "k1", "fingerprint": body.fingerprint(thread)}
        lines = (Line(False, "I keep bees."),)
        await abandoned(client, left, Asked("ann", thread, lines, ReplyOptions(), "default", "chatcmpl-1", **keyed))
        for _ in range(2):
            again = await client.chat("I keep bees.", thread=thread, headers={"Idempotency-Key": "k1"})
            assert again.json()["choices"][0]["message"]["content"] == "Well, bees are busy."
        assert await client.said() == ["I keep bees.", "Well, bees are busy."]


async def abandoned(client: Client, left: threading.Event, asked: Asked) -> Answered:
    """What becomes of a turn whose client leaves after the first piece."""
    turn = RunningTurn(client.service, asked)
    async for piece in turn.pieces():
        assert piece
        turn.leave()
        left.set()
    return await turn.work


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"model": "default", "messages": [{"role": "user", "content": content}], **more}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "invalid_json"),
        (b"\xff", 400, "invalid_json"),
        (b"[" * 10**5, 400, "invalid_json"),
        (b'{"model": "default", "messages": [{"role": "user", "content": "\\ud800"}]}', 400, "invalid_value"),
        ({"model": "default", "messages": []}, 400, "invalid_value"),
        (user("x", model="nope"), 404, "model_not_found"),
        (user(" "), 400, "empty_message"),
        (user("x", n=2), 400, "invalid_value"),
        ({"model": "default", "messages": user("x")["messages"] * 1001}, 413, "too_many_messages"),
        (user("x" * 17_000_000), 413, "body_too_large"),
        (user(7), 400, "messages.0.content: Input should be a valid string"),
        ({"model": "default", "messages": [{"role": "assistant", "content": "Hi."}]}, 400, "no message of the user"),
        (
            {"model": "default", "messages": [{"role": "tool", "tool_call_id": "c1", "content": "12"}]},
            400,
            "no message of the user",
        ),
        (user([image("file:///etc/passwd")]), 400, "'file:///etc/passwd' is not passed on"),
        (user([image("http://169.254.169.254/")]), 400, "give media as data: or https:"),
        (user([{"type": "image_url", "image_url": "HTTP://x"}]), 400, "'HTTP://x' is not passed on"),
        (user([{"type": "input_file", "file_url": "ftp://x"}]), 400, "'ftp://x' is not passed on"),
    ],
)
async def test_bad_bodies_get_one_clear_answer(client: Client, body: Any, status: int, words: str):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = await client.post("/v1/chat/completions", content=content, headers={"Content-Type": "application/json"})
    error = response.json()["error"]
    assert (response.status_code, words in f"{error['code']} {error['message']}") == (status, True), error


@pytest.mark.parametrize("part", [{"type": "hologram"}, {"type": "tool_result", "content": "12 C"}, {"text": "Hi"}])
async def test_a_part_of_an_unknown_kind_is_refused_with_its_place(client: Client, part: dict[str, Any]):
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [text("Hello"), part]}]
    for path, field in (("chat/completions", "messages"), ("responses", "input")):
        asked = {"model": "default", "user": "ann", field: [*said, {"role": "user", "content": "Well?"}]}
        response = await client.post(f"/v1/{path}", json=asked)
        error, kind = response.json()["error"], part.get("type", "")
        assert (response.status_code, error["param"]) == (400, field)
        assert error["message"].startswith(f"{field}[1].content[1]: unknown kind {kind!r}; known: text, ")
    assert await client.said() == []


async def test_a_text_in_parts_is_as_bounded_as_one_in_one_piece(client: Client):
    for parts in ([text("x" * 500_000)] * 3, [text("x" * 999_999), text(";base64,")]):
        for path, body in (("chat/completions", "messages"), ("responses", "input")):
            given = {"model": "default", body: [{"role": "user", "content": parts}]}
            response = await client.post(f"/v1/{path}", json=given)
            assert (response.status_code, response.json()["error"]["code"]) == (413, "text_too_long")
    lines = [{"role": "user", "content": [text("x" * 900_000)]}] * 3
    response = await client.post(
        "/v1/chat/completions", json={"model": "default", "messages": [*lines, {"role": "user", "content": [IMAGE]}]}
    )
    assert (response.status_code, response.json()["error"]["code"]) == (413, "text_too_long")


async def test_only_the_clients_own_tools_are_taken(client: Client):
    tools = [WEATHER, {"type": "mcp", "server_url": "http://10.0.0.1"}]
    for path, body in (("chat/completions", "messages"), ("responses", "input")):
        given = {"model": "default", body: [{"role": "user", "content": "Hi"}]}
        response = await client.post(f"/v1/{path}", json=given | {"tools": tools})
        assert (response.status_code, "tools[1]: type 'mcp'" in response.text) == (400, True)
    flat = {"type": "custom", "name": "sql", "description": "Runs a query."}
    assert AgentRequest(model="default", tools=[flat]).of_tools == {
        "tools": [{"type": "custom", "custom": {"name": "sql", "description": "Runs a query."}}]
    }


async def test_items_that_say_nothing_are_skipped_and_others_named(client: Client):
    hello = {"role": "user", "content": "Hi"}
    silent = [
        {"type": "item_reference", "id": "msg_1"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1 + 1", "container_id": "c", "outputs": None},
        {"type": "mcp_call", "id": "mcp_1", "name": "roll", "arguments": "{}", "server_label": "dice", "output": "4"},
    ]
    response = await client.post("/v1/responses", json={"model": "default", "input": [*silent, hello]})
    assert response.status_code == 200, response.text
    unknown = [{"type": "computer_call", "id": "c_1"}, hello]
    response = await client.post("/v1/responses", json={"model": "default", "input": unknown})
    assert (response.status_code, "an item of type 'computer_call'" in response.text) == (400, True)


async def test_a_wrong_content_type(client: Client):
    response = await client.post("/v1/chat/completions", content=b"{}", headers={"Content-Type": "text/plain"})
    assert response.status_code == 415


async def test_too_many_requests_at_once(served: Served):
    release = threading.Event()

    def slow(request: Request) -> str:
        assert release.wait(20)
        return "At last."

    async with served({"generator": slow}, **{"server.concurrency": 1}) as client:
        asking = asyncio.create_task(client.chat("I keep bees."))
        while not client.backbone.requests:
            await asyncio.sleep(0)
        refused = await client.chat("I keep goats.", person="bob")
        release.set()
        assert (await asking).status_code == 200
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert (await client.chat("I keep goats.", person="bob")).status_code == 200


async def test_an_unknown_path_is_refused_in_the_same_shape(client: Client):
    response = await client.get("/v1/nothing")
    assert (response.status_code, response.json()["error"]["type"]) == (404, "not_found_error")


async def test_what_is_pending_is_learned_after_a_restart(served: Served):
    async with served() as client:
        await turn(client, "I keep bees.")
    async with served() as client:
        while client.service.directory.unfinished():
            await asyncio.sleep(0)
        stored = client.service.agent.store.find_conversation("ann")
        assert stored is not None
        traits = client.service.agent.store.personas(stored.key).traits()
        assert [trait.text for trait, _ in traits] == ["I keep bees."]


async def test_metrics_count_requests_tokens_and_costs_without_names(served: Served):
    async with served({"generator": "How nice."}) as client:
        await turn(client, "I keep bees.", thread=None)
        client.service.agent.conversation("ann").traits()  # learned by now
        await client.get("/v1/memory/people/ann")
        client.service.agent.models.as_json["extractor"] = (1, 2)
        shown = (await client.get("/metrics")).text
    for name, labels, value in (
        ("requests_total", 'method="POST",route="/v1/chat/completions",status="200"', 1),
        ("request_seconds_count", 'route="/v1/chat/completions"', 1),
        ("reply_tokens_total", 'kind="completion"', 2),
        ("model_calls_total", 'module="generator"', 1),
        ("model_calls_total", 'module="extractor"', 2),  # both utterances
        ("model_tokens_total", 'module="generator",kind="completion"', 2),
        ("model_not_json_total", 'model="default",module="extractor"', 1),
        ("model_as_json_total", 'model="default",module="extractor"', 2),
    ):
        assert f"ld_agent_{name}{{{labels}}} {value}\n" in shown
    assert "ann" not in shown


async def test_replaced_turns_are_exported_and_imported_as_history(served: Served):
    async with served({"generator": ["First try.", "Second try."]}) as client:
        for _ in range(2):
            await turn(client, "I keep bees.", headers={"X-LD-History": "whole"})
        exported = (await client.get("/v1/memory/people/ann/export")).text
        assert exported.count('"replaced": true') == 1
        done = await client.post("/v1/memory/people/bob/import", content=exported, headers=NDJSON)
        assert done.json()["counts"]["utterances"] == 2
        assert await client.said("bob") == ["I keep bees.", "Second try."]
