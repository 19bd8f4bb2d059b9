"""Chat completions: what clients get, and what enters the memory."""

import asyncio
import threading
from typing import Any

import pytest
from server_parts import Client, Served, events, turn

from ld_agent.backbones.base import Request
from ld_agent.languages import ENGLISH
from ld_agent.server.history import Line
from ld_agent.server.openai.chat import ChatEvents
from ld_agent.server.openai.sending import RunningTurn, stream
from ld_agent.server.openai.turns import Asked
from ld_agent.storage.served import Answer
from ld_agent.types import ReplyOptions

pytestmark = pytest.mark.anyio


async def test_an_assistant_is_read_without_its_reasoning(served: Served):
    thought = [{"type": "thinking", "thinking": "Bees."}, {"type": "text", "text": "How many bees?"}]
    before = [
        {"role": "user", "content": "I typed <think>."},
        {"role": "assistant", "content": "<think>A tag.</think>How nice."},
        {"role": "user", "content": "I keep bees."},
        {"role": "assistant", "content": thought},
        {"role": "user", "content": "And wasps."},
        {"role": "assistant", "content": "<think>Wasps?"},
    ]
    async with served({"generator": "Oh."}) as client:
        assert (await client.chat("Nine.", before=before)).status_code == 200
        said = await client.said()
    assert said == ["I typed <think>.", "How nice.", "I keep bees.", "How many bees?", "And wasps.", "Nine.", "Oh."]


async def test_a_client_that_sends_a_secret_again_is_understood(served: Served):
    key = "sk-proj-Abcd1234Efgh5678Ijkl9012"
    async with served({"generator": f"I will use {key}."}, **{"store.redact": "secrets"}) as client:
        first = (await client.chat(f"Use {key}.")).json()["choices"][0]["message"]["content"]
        await client.chat(f"Use {key}.", first, "Thanks!")
        assert (await client.said())[:3] == ["Use [redacted].", "I will use [redacted].", "Thanks!"]


async def test_without_an_answer_a_stranger_gets_a_stock_phrase_and_the_reason(served: Served):
    async with served({"generator": "<think>Bees."}) as client:
        answer = (await client.chat("I keep bees.", person=None)).json()
        responses = await client.post("/v1/responses", json={"model": "default", "input": "I keep bees."})
    assert answer["choices"][0]["message"]["content"] == ENGLISH.words.speechless
    assert answer["ld_agent"]["notes"][0].startswith("the model's answer was only reasoning")
    assert responses.json()["output"][0]["content"][0]["text"] == ENGLISH.words.speechless


async def test_a_stream_joins_to_the_reply_and_ends_with_usage(served: Served):
    async with served({"generator": "Bees are fine company."}) as client:
        response = await client.chat("I keep bees.", stream=True, stream_options={"include_usage": True})
        *chunks, usage = events(response)
        assert response.headers["content-type"].startswith("text/event-stream")
        assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == "Bees are fine company."
        assert (chunks[-1]["choices"][0]["finish_reason"], usage["choices"]) == ("stop", [])
        assert {chunk["usage"] for chunk in chunks} == {None}
        assert usage["usage"]["completion_tokens"] == 4
        assert await client.said() == ["I keep bees.", "Bees are fine company."]


async def test_a_stream_says_something_while_nothing_comes(served: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ld_agent.server.openai.sending.PING", 0.001)
    release = threading.Event()

    def slow(request: Request) -> str:
        assert release.wait(20)
        return "At last."

    async with served({"generator": slow}) as client:
        asked = Asked("ann", "t1", (Line(False, "I keep bees."),), ReplyOptions(), "default", "chatcmpl-1")
        turn = RunningTurn(client.service, asked)
        sent = []
        async for line in stream(turn, ChatEvents(asked, False)):
            sent.append(line)
            if line.startswith(":"):
                release.set()
        assert sent[1] == ": waiting\n\n"
        assert sent[-1] == "data: [DONE]\n\n"


async def test_max_tokens_temperature_and_seed_reach_the_model(client: Client):
    await client.chat("I keep bees.", max_tokens=7, temperature=0.5, seed=3)
    for _ in range(2):
        await client.chat("And goats.", temperature=0.5)
    request, *others = [r for r in client.backbone.requests if r.module == "generator"]
    assert (request.max_new_tokens, request.temperature, request.seed) == (7, 0.5, 3)
    assert others[0].seed != others[1].seed


async def test_max_tokens_bound_an_answer_that_was_checked_too(served: Served):
    modules = {"generator": {"grounded": True}, "reader": {"passages": 4}}
    checks = {"adapter": "shipped:adapters/check"}
    async with served({"generator": "Your dog is Rex."}, modules=modules, checks=checks) as client:
        for thread, streamed in (("t1", False), ("t2", True)):
            answer = await client.chat("What is my dog called?", thread=thread, max_tokens=3, stream=streamed)
            if streamed:
                *chunks, last = events(answer)
                text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
            else:
                last, text = answer.json(), answer.json()["choices"][0]["message"]["content"]
            assert (len(text.split()), last["choices"][0]["finish_reason"]) == (3, "length")
            assert (await client.said())[-1] == text


async def test_a_system_message_is_added_to_the_agents_own(client: Client):
    await client.chat("I keep bees.", before=[{"role": "system", "content": "Answer like a pirate."}])
    [request] = [r for r in client.backbone.requests if r.module == "generator"]
    assert request.messages[0].content.startswith("You are Sam")
    assert request.messages[0].content.endswith("Answer like a pirate.")


async def test_a_long_system_message_leaves_room_for_the_chat(client: Client):
    answer = await client.chat("I keep bees.", before=[{"role": "system", "content": "word " * 5000}])
    assert "the caller's instructions were cut to a quarter of the model's window" in answer.json()["ld_agent"]["notes"]
    [request] = [r for r in client.backbone.requests if r.module == "generator"]
    assert request.messages[-1].content == "I keep bees."


# ---- who is talking


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"X-LD-Person": "ann", "X-LD-Thread": "t1"}, {}),
        ({"X-OpenWebUI-User-Id": "ann", "X-OpenWebUI-Chat-Id": "t1", "X-OpenWebUI-User-Name": "Ann%20Lee"}, {}),
        ({}, {"user": "ann", "metadata": {"thread": "t1"}}),
        ({}, {"safety_identifier": "ann", "metadata": {"chat_id": "t1"}}),
    ],
)
async def test_person_and_thread(client: Client, headers: dict[str, str], body: dict[str, Any]):
    response = await client.chat("I keep bees.", person=None, thread=None, headers=headers, **body)
    assert response.headers["x-ld-memory"] == "on"
    [key] = [c.key for c in client.service.agent.store.conversations() if c.id == "ann"]
    assert client.service.agent.store.open_threads(key) == ["t1"]
    name = "Ann Lee" if "X-OpenWebUI-User-Name" in headers else "User"
    assert client.service.agent.store.speakers(key) == [name, "Sam"]


async def test_without_a_person_nothing_is_remembered(client: Client):
    response = await client.chat("Hi.", "Hello.", "I keep bees.", person=None, thread=None)
    assert response.headers["x-ld-memory"] == "none"
    assert response.json()["choices"][0]["message"]["content"]
    assert client.service.agent.store.conversations() == []
    [request] = client.backbone.requests
    assert [m.content for m in request.messages[-3:]] == ["Hi.", "Hello.", "I keep bees."]


async def test_a_temporary_chat_of_open_webui_is_not_remembered(client: Client):
    headers = {"X-OpenWebUI-User-Id": "ann", "X-OpenWebUI-Chat-Id": "local:Zm9v"}
    response = await client.chat("I keep bees.", person=None, thread=None, headers=headers)
    assert (response.status_code, response.headers["x-ld-memory"]) == (200, "none")
    assert await client.said() == []


@pytest.mark.parametrize("person", ["a/b", " ", "..", "x" * 201, "{{LIBRECHAT_USER_ID}}", "a\u202eb"])
async def test_a_person_that_is_not_an_id(client: Client, person: str):
    response = await client.chat("Hi.", person=None, user=person)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_person")


# ---- what clients send again


async def test_an_edited_turn_replaces_the_stored_one_and_what_was_learned_from_it(client: Client):
    first = await turn(client, "Hello Sam.")
    await turn(client, "Hello Sam.", first, "I keep snakes.")
    await client.get("/v1/models")
    client.service.agent.conversation("ann", thread="t1").traits()  # learned by now
    reply = await turn(client, "Hello Sam.", first, "I keep bees.")
    assert await client.said() == ["Hello Sam.", first, "I keep bees.", reply]
    assert [t.text for t in client.service.agent.conversation("ann").traits()] == ["I keep bees."]
    kept = client.service.agent.resources.store.db.rows("SELECT text FROM utterance WHERE replaced = 1")
    assert ("I keep snakes.",) in kept


async def test_what_a_person_forgot_or_corrected_does_not_come_back_with_a_chat_that_is_sent_again(served: Served):
    async with served({"generator": "Okay."}) as client:
        chat = ["I have a partner named Joao.", "Okay.", "I have a dog called Bo.", "Okay."]
        await turn(client, *chat[:1])
        await turn(client, *chat[:3])
        assert (await client.delete("/v1/memory/people/ann/memories/u1")).status_code == 200
        changed = {"text": "I have a cat called Bo."}
        assert (await client.patch("/v1/memory/people/ann/memories/u3", json=changed)).status_code == 200
        await turn(client, *chat, "Guess what.")
        assert await client.said() == ["Okay.", "I have a cat called Bo.", "Okay.", "Guess what.", "Okay."]
        shown = [str(r.messages) for r in client.backbone.requests if r.module == "generator"][-1]
        assert "Joao" not in shown
        assert "dog" not in shown
        assert (await client.delete("/v1/memory/people/ann/memories/u1")).status_code == 404


async def test_open_webui_regenerates_the_first_reply(served: Served):
    headers = {"X-OpenWebUI-User-Id": "ann", "X-OpenWebUI-Chat-Id": "c1"}
    async with served({"generator": ["First try.", "Second try."]}) as client:
        for _ in range(2):
            await turn(client, "I keep bees.", person=None, thread=None, headers=headers)
        assert await client.said() == ["I keep bees.", "Second try."]


async def test_librechat_with_the_headers_of_its_guide(served: Served):
    """It streams, sends whole chats in parts, names the user in the body too, and has each chat titled."""
    headers = {
        "X-LD-Person": "65f0c2a1b7", "X-LD-Thread": "0f9b2c64-54c3-4a55-9d2e-1b6a5c1f0a77", "X-LD-History": "whole"
    }  # fmt: skip

    def sent(*texts: str) -> dict[str, Any]:
        roles = ["user", "assistant"] * len(texts)
        messages = [
            {"role": role, "content": [{"type": "text", "text": text}]}
            for role, text in zip(roles, texts, strict=False)
        ]
        return {"model": "default", "user": "65f0c2a1b7", "messages": messages, "stream": True, "n": None, "tools": []}

    async with served({"generator": ["How nice.", "A title", "Two?", "Two goats!", "Oh."]}) as client:

        async def asked(*texts: str, **more: Any) -> None:
            response = await client.post("/v1/chat/completions", json=sent(*texts) | more, headers=headers)
            assert response.status_code == 200, response.text

        await asked("I keep bees.")
        title = "Provide a concise, 5-word-or-less title for the conversation. Conversation:\nUser: I keep bees."
        await asked(title, stream=False)
        await asked("I keep bees.", "How nice.", "And two goats.")
        await asked("I keep bees.", "How nice.", "And two goats.")  # generated again
        await asked("I keep wasps.")  # edited
        assert await client.said("65f0c2a1b7") == ["I keep wasps.", "Oh."]
        kept = client.service.agent.resources.store.db.rows("SELECT text FROM utterance WHERE replaced = 1 ORDER BY pk")
        assert [text for (text,) in kept] == ["I keep bees.", "How nice.", "And two goats.", "Two?", "Two goats!"]


async def test_without_a_thread_a_transcript_changes_nothing(client: Client):
    first = await turn(client, "Hi.", thread=None)
    await turn(client, "Hi.", first, "I keep bees.", thread=None)
    other = await turn(client, "Hi.", first, "I keep goats.", thread=None)
    said = await client.said()
    assert (said[0], said[2], said[4:]) == ("Hi.", "I keep bees.", ["I keep goats.", other])


async def test_a_finished_session_does_not_change(client: Client):
    first = await turn(client, "I keep bees.")
    client.service.agent.conversation("ann", thread="t1").end_session()
    response = await client.chat("I keep snakes.", first, "Guess.", headers={"X-LD-History": "whole"})
    assert response.status_code == 200
    assert (await client.said())[:2] == ["I keep bees.", first]


async def test_a_repeated_request_is_answered_alike_and_stored_once(client: Client):
    once = await client.chat("Buy salt.", headers={"Idempotency-Key": "k1"})
    again = await client.chat("Buy salt.", headers={"Idempotency-Key": "k1"})
    assert again.json()["choices"] == once.json()["choices"]
    assert (again.json()["id"], again.headers["x-ld-repeated"]) == (once.json()["id"], "true")
    assert len(await client.said()) == 2
    other = await client.chat("Buy rice.", headers={"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_key_reused")


@pytest.mark.parametrize("whole", [False, True])
async def test_a_server_killed_before_it_kept_the_answer_stores_the_request_once(client: Client, whole: bool):
    headers = {"Idempotency-Key": "k1"} | ({"X-LD-History": "whole"} if whole else {})
    first = await turn(client, "Buy salt.")  # the same words before, under no key
    keep, before = client.service.answers.keep, () if not whole else ("Buy salt.", first)

    def killed(key: int, answer: Answer) -> None:
        if answer.finish != "begun":
            raise RuntimeError("killed")
        keep(key, answer)

    client.service.answers.keep = killed
    assert (await client.chat(*before, "Buy salt.", headers=headers)).status_code == 500
    client.service.answers.keep = keep
    again = await client.chat(*before, "Buy salt.", headers=headers)
    assert again.headers["x-ld-repeated"] == "true"
    assert len(said := await client.said()) == 4
    assert again.json()["choices"][0]["message"]["content"] == said[3]


async def test_two_requests_with_one_key_at_once(client: Client):
    asked = [client.chat("Buy salt.", headers={"Idempotency-Key": "k1"}) for _ in range(2)]
    first, second = await asyncio.gather(*asked)
    assert first.json()["choices"] == second.json()["choices"]
    assert len(await client.said()) == 2


async def test_two_requests_on_one_thread_at_once_take_turns(client: Client):
    await asyncio.gather(client.chat("I keep bees."), client.chat("I keep goats."))
    said = await client.said()
    assert {said[0], said[2]} == {"I keep bees.", "I keep goats."}
    assert len(said) == 4


async def test_a_clients_own_jobs_enter_no_memory(client: Client):
    text = "### Task:\nGenerate a concise title."
    await turn(client, "I keep bees.")
    response = await client.chat(text)
    assert response.headers["x-ld-memory"] == "none"
    assert len(await client.said()) == 2
    [*_, last] = [r for r in client.backbone.requests if r.module == "generator"]
    assert [m.content for m in last.messages] == [text]


async def test_what_was_forgotten_on_request_comes_back_neither_with_the_chat_nor_with_another_answer(served: Served):
    async with served(**{"modules.generator.temperature": 0.0}) as client:
        chat = ["I keep bees in Ghent."]
        for line in ("I have a partner named Joao.", "Please forget what I said about my partner."):
            chat += [await turn(client, *chat), line]
        said = await turn(client, *chat)
        assert said == ENGLISH.words.forgotten.format(told="I have a partner named Joao.")
        assert not client.service.explained
        assert await turn(client, *chat) == ENGLISH.words.forgot, "generated again"
        await turn(client, *chat, said, "Guess what.")
        assert (await client.said())[2:-1] == [ENGLISH.words.forget, ENGLISH.words.forgot, "Guess what."]
        assert "Joao" not in str(client.backbone.requests[-1].messages)
