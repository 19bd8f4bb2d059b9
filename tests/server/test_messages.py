"""Messages as clients send them: images, tools, names, replies to be continued; before a model with text only and an endpoint."""

import json
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import httpx
import pytest
from agent_parts import CHECKED, confessed
from backbones.stage import Call, Stage, fails, says, sends, streams
from openai import AsyncOpenAI
from pydantic import BaseModel
from server_parts import IMAGE, WEATHER, Client, Served, events, text

from ld_agent.backbones.base import NOT_PASSED, Message, Request
from ld_agent.backbones.endpoint import EndpointBackbone
from ld_agent.modules.situation import with_passed
from ld_agent.passed import Passed

pytestmark = pytest.mark.anyio

FILE = {"type": "file", "file": {"filename": "tides.pdf", "file_data": "data:application/pdf;base64,AAAA"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"town": "Turku"}'}}


async def sent(client: Client, messages: list[Any], **more: Any) -> Any:
    headers = {"X-LD-Person": "ann", "X-LD-Thread": "t"} | more.pop("headers", {})
    body = {"model": "default", "messages": messages, **more}
    response = await client.post("/v1/chat/completions", json=body, headers=headers)
    assert response.status_code == 200, response.text
    return events(response) if more.get("stream") else response.json()


def shown(client: Client) -> str:
    """The last prompt of a reply, as text."""
    request = [r for r in client.backbone.requests if r.module == "generator"][-1]
    return "\n".join(f"{m.role}: {m.content}" for m in request.messages)


# ---- before a model that reads text


@pytest.mark.parametrize(
    ("parts", "stored"),
    [
        ([text("My boat."), IMAGE], "My boat.\n[image]"),
        ([FILE, text("Read this.")], "[file: tides.pdf]\nRead this."),
        ([{"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}], "[audio]"),
        ([{"type": "file", "file": {"file_id": "f-1"}}], "[file]"),
        ([IMAGE, IMAGE, text("Which?")], "[image]\n[image]\nWhich?"),
    ],
)
async def test_what_is_no_text_leaves_its_place(client: Client, parts: list[Any], stored: str):
    answer = await sent(client, [{"role": "user", "content": parts}])
    assert (await client.said())[0] == stored
    assert any("takes no images" in note for note in answer["ld_agent"]["notes"])
    chat = [{"role": "user", "content": parts}, {"role": "assistant", "content": (await client.said())[1]}]
    await sent(client, [*chat, {"role": "user", "content": "She is called Puffin."}])
    assert (await client.said())[2] == "She is called Puffin."
    assert len(await client.said()) == 4


async def test_a_tools_result_is_read_but_not_remembered(client: Client):
    asked = {"role": "user", "content": "What is the weather in Turku?"}
    called = {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "c1", "content": [text("12 C"), IMAGE]}
    answer = await sent(client, [asked, called, result], tools=[WEATHER])
    assert "weather, from a tool: 12 C" in shown(client).replace("written by", "from")
    assert any("takes no tools" in note for note in answer["ld_agent"]["notes"])
    reply = (await client.said())[1]
    assert (await client.said()) == ["What is the weather in Turku?", reply]
    chat = [asked, called, result, {"role": "assistant", "content": reply}, {"role": "user", "content": "Thanks!"}]
    await sent(client, chat)
    assert [u for u in await client.said() if "12 C" in u or "Let me" in u] == []
    assert len(await client.said()) == 4
    assert shown(client).index("12 C") < shown(client).index("Thanks!")


async def test_a_long_result_is_bounded(client: Client):
    asked = {"role": "user", "content": "What does the log say?"}
    result = {"role": "tool", "tool_call_id": "c1", "content": "start " + "x" * 100_000 + " the end"}
    await sent(client, [asked, {"role": "assistant", "content": None, "tool_calls": [CALL]}, result])
    assert "start" in shown(client)
    assert "the end" in shown(client)
    assert len(shown(client)) < 6000


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_that_has_begun_is_continued(served: Served, stream: bool):
    chat = [
        {"role": "user", "content": "A story of a gull?"},
        {"role": "assistant", "content": "Once upon a time, a gull"},
    ]
    async with served({"generator": "flew over the sea."}) as client:
        answer = await sent(client, chat, stream=stream)
        if stream:
            said = "".join(c["choices"][0]["delta"].get("content", "") for c in answer)
        else:
            said = answer["choices"][0]["message"]["content"]
        assert said == " flew over the sea."
        assert await client.said() == ["A story of a gull?", "Once upon a time, a gull flew over the sea."]
        assert shown(client).endswith("assistant: Once upon a time, a gull")
        chat[1]["content"] += said
        await sent(client, chat)
        assert (await client.said())[1:] == ["Once upon a time, a gull flew over the sea. flew over the sea."]
        await sent(client, chat, headers={"X-LD-Person": ""})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("said", "begun"),
    [
        ('{"response": "hi there"}', ""),
        ('{\n  "Ann": "keeps\nSam: bees",\n  "reply": "</memory>"}\n', ""),
        ('"Remember: yes"', ""),
        ('"age": 41}', "{"),
        ('{"age": 41}', '{"age": 4'),
        ("2}", '{"age": 4'),
    ],
)
async def test_a_reply_in_a_form_is_the_models_to_the_letter(served: Served, said: str, begun: str, stream: bool):
    chat = [{"role": "user", "name": "Ann", "content": "Who am I?"}, {"role": "assistant", "content": begun}][
        : 1 + bool(begun)
    ]
    expected = said.removeprefix(begun)
    async with served({"generator": said}, **{"memory.views": ["conditional"]}) as client:
        for headers in ({}, {"X-LD-Person": ""}):
            more = {"response_format": {"type": "json_object"}, "stream": stream, "headers": headers}
            answer = await sent(client, chat, **more)
            if stream:
                heard = "".join(c["choices"][0]["delta"].get("content", "") for c in answer)
            else:
                heard = answer["choices"][0]["message"]["content"]
            assert heard == expected
        assert await client.said() == ["Who am I?", begun + expected]
        assert "Remember:" not in shown(client)


async def test_a_reply_in_a_form_that_is_cut_off_keeps_its_end(served: Served, endpoint: Stage, reached: Any):
    said = '{"diary": "I swam. I slept. And th'
    endpoint.plays = [says(said, "length")]
    async with served() as client:
        reached(client)
        answer = await sent(client, [{"role": "user", "content": "Hi"}], response_format={"type": "json_object"})
        assert (answer["choices"][0]["message"]["content"], (await client.said())[1]) == (said, said)


async def test_a_reply_begun_in_two_messages_keeps_the_first(served: Served):
    chat = [
        {"role": "user", "content": "A story?"},
        {"role": "assistant", "content": "Gladly."},
        {"role": "assistant", "content": "A gull"},
    ]
    async with served({"generator": "flew."}) as client:
        answer = await sent(client, chat)
        assert answer["choices"][0]["message"]["content"] == " flew."
        assert await client.said() == ["A story?", "Gladly.\nA gull flew."]
        chat[2]["content"] += " flew."
        await sent(client, [*chat, {"role": "user", "content": "Where?"}])
        assert (await client.said())[:3] == ["A story?", "Gladly.\nA gull flew.", "Where?"]
        assert len(await client.said()) == 4


async def test_a_model_that_repeats_the_beginning_is_not_heard_twice(served: Served):
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Once upon"}]
    async with served({"generator": "Once upon a time."}) as client:
        streamed = await sent(client, chat, stream=True)
        assert "".join(c["choices"][0]["delta"].get("content", "") for c in streamed) == " a time."
        assert (await client.said())[-1] == "Once upon a time."


async def test_names_separate_the_people_of_a_group(client: Client):
    chat = [
        {"role": "user", "name": "Lena", "content": "I bake bread."},
        {"role": "assistant", "name": "helper", "content": "Lovely."},
        {"role": "user", "name": "Omar", "content": "I cycle to work."},
    ]
    for _ in range(2):
        await sent(client, chat)
    found = client.service.agent.store.find_conversation("ann")
    said = client.service.agent.store.utterances(found.key)
    assert [(u.speaker, u.text) for u in said[:3]] == [
        ("Lena", "I bake bread."),
        ("Sam", "Lovely."),
        ("Omar", "I cycle to work."),
    ]
    assert len(said) == 4
    assert "Omar: I cycle to work." in shown(client)
    await sent(client, chat, headers={"X-LD-Person": ""})
    assert "Omar: I cycle to work." in shown(client)


async def test_names_count_however_they_are_written(client: Client):
    def chat(name: str, *words: str) -> list[Any]:
        first = [{"role": "user", "name": name, "content": "I bake bread."}, {"role": "assistant", "content": words[0]}]
        return first[: 2 if len(words) > 1 else 1] + [{"role": "user", "name": name, "content": w} for w in words[1:]]

    await sent(client, chat("Lena", ""))
    reply = (await client.said())[1]
    await sent(client, chat("Lena", reply, "It is rye."))
    await sent(client, chat("lena", reply, "It is wheat."))
    assert (await client.said())[2:3] == ["It is wheat."]
    assert len(await client.said()) == 4


@pytest.mark.parametrize(("person", "name"), [("ann", "SAM"), ("", "Sam")])
async def test_a_person_named_like_the_agent_is_a_person(client: Client, person: str, name: str):
    first = {"role": "user", "name": name, "content": "I bake bread."}
    await sent(client, [first], headers={"X-LD-Person": person})
    assert "assistant: I bake" not in shown(client)
    if person:
        reply = (await client.said())[1]
        chat = [first, {"role": "assistant", "content": reply}, {"role": "user", "name": name, "content": "Rye."}]
        await sent(client, chat)
        assert (await client.said())[:3] == ["I bake bread.", reply, "Rye."]
        assert len(await client.said()) == 4
    chat = [first, {"role": "assistant", "content": "Nice."}, {"role": "user", "content": "Rye."}]
    await sent(client, chat, headers={"X-LD-Person": ""})
    assert "assistant: I bake" not in shown(client)


def test_images_without_words_stay_with_their_messages():
    said = [Message("user", "[image]"), Message("assistant", "A boat."), Message("user", "[image]")]
    other = {"type": "image_url", "image_url": {"url": "https://example.org/2.png"}}
    shown = with_passed(said, Passed((("[image]", (IMAGE,)), ("[image]", (other,)))), ())
    assert [message.media for message in shown] == [(IMAGE,), (), (other,)]
    [together] = with_passed(
        [Message("user", "[image]\n[image]")], Passed((("[image]", (IMAGE,)), ("[image]", (other,)))), ()
    )
    assert together.media == (IMAGE, other)


# ---- before an endpoint


def weather(call: Call) -> None:
    """Call the weather, then say what the last message says."""
    last, streamed = call.body["messages"][-1], call.body.get("stream")
    if not call.body.get("tools") or last["role"] == "tool":
        said = f"It is {last['content']}."
        (streams(said) if streamed else says(said))(call)
    elif streamed:
        halves = [
            CALL | {"function": {"name": "weather", "arguments": '{"town"'}},
            {"function": {"arguments": ': "Turku"}'}},
        ]
        deltas = [{"tool_calls": [{"index": 0, **half}]} for half in halves]
        choices = [{"index": 0, "delta": delta} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
        chunks = [f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices]
        sends("".join(chunks) + "data: [DONE]\n\n", "text/event-stream")(call)
    else:
        message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
        sends(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}))(call)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-endpoint-0123456789")
    with Stage() as stage:
        stage.plays = [weather]
        Thread(target=stage.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield stage
        stage.shutdown()


@pytest.fixture
def reached(endpoint: Stage, served: Served) -> Iterator[Callable[[Client], AsyncOpenAI]]:
    """Let the served agent's replies come from the endpoint, and talk with it through OpenAI's client."""
    backbone = EndpointBackbone("m", base_url=f"http://127.0.0.1:{endpoint.server_port}/v1")

    def connect(client: Client) -> AsyncOpenAI:
        scripted = client.backbone

        class Both:
            passes_on, context_window, count_tokens, close = True, 8192, backbone.count_tokens, scripted.close

            def generate(self, requests: list[Request]) -> Any:
                return (backbone if requests[0].module == "generator" else scripted).generate(requests)

        client.service.agent.models._given = Both()
        person = {"X-LD-Person": "ann", "X-LD-Thread": "t"}
        http = httpx.AsyncClient(transport=client._transport)
        return AsyncOpenAI(base_url="http://localhost/v1", api_key="none", http_client=http, default_headers=person)

    yield connect
    backbone.close()


async def test_a_form_of_the_reply_reaches_an_endpoint_and_nothing_else_stands_in_it(
    served: Served, endpoint: Stage, reached: Any
):
    """With a check that doubts everything, and a reply that repeats itself."""

    class Color(BaseModel):
        color: str
        again: str

    said = json.dumps({"color": "I do love the colour green. I do love the colour green.", "again": "I"})
    endpoint.plays = [says(said)]
    async with served({"extractor": confessed}, checks=CHECKED) as client:
        openai = reached(client)
        question: Any = [{"role": "user", "content": "What is my favourite colour?"}]
        for _ in range(2):
            done = await openai.chat.completions.parse(model="default", messages=question, response_format=Color)
            assert done.choices[0].message.parsed.again == "I"
        response = await openai.responses.parse(model="default", input="I love green.", text_format=Color)
        assert response.output_parsed.color.endswith("green.")
        forms = [body["response_format"] for body in endpoint.bodies]
        assert forms[0] == forms[-1]
        assert forms[0]["json_schema"]["schema"]["required"] == ["color", "again"]
        endpoint.plays = [says("Green.")]
        await openai.responses.create(model="default", input="And?", text={"format": {"type": "text"}})
        assert "response_format" not in endpoint.bodies[-1]


async def test_a_form_that_the_model_does_not_take_is_said(client: Client):
    sent = await client.chat("What?", response_format={"type": "json_object"})
    assert NOT_PASSED["format"] in sent.json()["ld_agent"]["notes"]


async def test_images_reach_an_endpoint_untouched_in_every_turn(served: Served, endpoint: Stage, reached: Any):
    async with served({"extractor": confessed}) as client:
        openai = reached(client)
        chat: list[Any] = [{"role": "user", "content": [text("My boat."), IMAGE, FILE]}]
        first = await openai.chat.completions.create(model="default", messages=chat)
        chat += [
            {"role": "assistant", "content": first.choices[0].message.content},
            {"role": "user", "content": "Her colour?"},
        ]
        await openai.chat.completions.create(model="default", messages=chat)
        for body in endpoint.bodies:
            parts = next(m["content"] for m in body["messages"] if isinstance(m["content"], list))
            assert (parts[0]["text"].endswith("[file: tides.pdf]"), parts[1:]) == (True, [IMAGE, FILE])
        await openai.responses.create(
            model="default",
            input=[
                {
                    "role": "user",
                    "content": [{"type": "input_image", "image_url": IMAGE["image_url"]["url"], "detail": "low"}],
                }
            ],
        )
        assert endpoint.bodies[-1]["messages"][-1]["content"][1]["image_url"]["detail"] == "low"


async def test_an_endpoint_that_refuses_images_or_tools_answers_without_and_a_note_says_so(
    served: Served, endpoint: Stage, reached: Any
):
    def refuse(call: Call) -> None:
        lists = any(isinstance(m["content"], list) for m in call.body["messages"])
        error = "image_url is not supported by this model" if lists else "no tool use here"
        (fails(400, {"message": error}) if lists or "tools" in call.body else weather)(call)

    endpoint.plays = [refuse]
    async with served() as client:
        reached(client)
        answer = await sent(client, [{"role": "user", "content": [text("My boat."), IMAGE]}], tools=[WEATHER])
    assert len(endpoint.bodies) == 3
    assert {note.partition(";")[0] for note in answer["ld_agent"]["notes"]} == {
        "the model takes no images or files",
        "the model takes no tools",
    }


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_call_comes_back_and_its_result_is_answered(
    served: Served, endpoint: Stage, reached: Any, stream: bool
):
    async with served() as client:
        openai = reached(client)
        chat: list[Any] = [{"role": "user", "content": "What is the weather in Turku?"}]
        more: dict[str, Any] = {"model": "default", "tools": [WEATHER], "tool_choice": "auto"}
        if stream:
            async with openai.chat.completions.stream(messages=chat, **more) as events_of_it:
                completion = await events_of_it.get_final_completion()
        else:
            completion = await openai.chat.completions.create(messages=chat, **more)
        [choice] = completion.choices
        assert choice.finish_reason == "tool_calls"
        [call] = choice.message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"town": "Turku"})
        assert await client.said() == ["What is the weather in Turku?"]
        chat += [
            choice.message.model_dump(exclude_unset=True),
            {"role": "tool", "tool_call_id": call.id, "content": "12 C"},
        ]
        done = await openai.chat.completions.create(messages=chat, **more)
        assert done.choices[0].message.content == "It is 12 C."
        called, result = endpoint.bodies[-1]["messages"][-2:]
        assert (called["role"], called["tool_calls"][0]["id"]) == ("assistant", "c1")
        assert result == {"role": "tool", "tool_call_id": "c1", "content": "12 C"}
        assert await client.said() == ["What is the weather in Turku?", "It is 12 C."]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_calls_a_tool_and_is_continued(served: Served, endpoint: Stage, reached: Any, stream: bool):
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}
    async with served() as client:
        openai = reached(client)
        asked: dict[str, Any] = {"model": "default", "tools": [tool], "input": "What is the weather in Turku?"}
        if stream:
            kinds = []
            async for event in await openai.responses.create(stream=True, **asked):
                kinds.append(event.type)
            response = event.response
            assert "response.function_call_arguments.done" in kinds
            assert "response.output_text.done" not in kinds
        else:
            response = await openai.responses.create(**asked)
        [call] = response.output
        assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "weather", {"town": "Turku"})
        assert endpoint.bodies[-1]["tools"][0]["function"]["name"] == "weather"
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "12 C"}
        alone = await openai.responses.create(model="default", previous_response_id=response.id, input=[result])
        called, told = endpoint.bodies[-1]["messages"][-2:]
        assert [call["id"] for call in called["tool_calls"]] == [call.call_id]
        assert told == {"role": "tool", "tool_call_id": call.call_id, "content": "12 C"}
        assert alone.output_text.startswith("It is ")
        assert len(await client.said()) == 2
        assert client.service.exchanges == {}
