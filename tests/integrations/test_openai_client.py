"""A client of the `openai` package that remembers, against a real HTTP server."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest
from agent_parts import START, Scene
from backbones.stage import Stage, fails, says, sends, streams
from documentation import ROOT, blocks

import ld_agent
from ld_agent.agent import Agent

HIVES = {"role": "user", "content": "How many hives do I keep?"}


@pytest.fixture
def agent(scene: Scene) -> Agent:
    """An agent that remembers hives of Ann's."""
    agent = scene.agent(**{"memory.gamma": -1.0})
    talk = agent.conversation("ann")
    talk.observe("I keep forty hives in Ghent.", at=START)
    talk.end_session()
    return agent


@pytest.fixture
def client(agent: Agent, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> openai.OpenAI:
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{stage.server_port}/v1")
    return ld_agent.remembering(openai.OpenAI(max_retries=0), person="ann", store=agent)


def said(agent: Agent, person: str = "ann") -> list[tuple[str, str]]:
    return [(u.speaker, u.text) for u in agent.conversation(person, resume=False).running]


def test_what_is_remembered_is_in_the_prompt_and_the_turn_is_stored(client: openai.OpenAI, agent: Agent, stage: Stage):
    stage.plays = [says("Forty.")]
    given = [{"role": "system", "content": "Be brief."}, HIVES]
    answer = client.chat.completions.create(
        model="m", messages=given, temperature=0.5, extra_headers={"X-Mine": "1"}, extra_body={"top_k": 3}
    )
    assert answer.choices[0].message.content == "Forty."
    [sent], [headers] = stage.bodies, stage.headers
    system, asked = sent.pop("messages")
    assert sent == {"model": "m", "temperature": 0.5, "top_k": 3}
    assert headers["x-mine"] == "1"
    assert system["content"].startswith("Be brief.\n\nText between tags was said")
    assert "I keep forty hives" in system["content"]
    assert asked == HIVES == given[1]
    assert given[0]["content"] == "Be brief."
    assert said(agent) == [("User", HIVES["content"]), ("Sam", "Forty.")]


def test_the_page_shows_it(agent: Agent, client: openai.OpenAI, stage: Stage):
    stage.plays = [says("Forty.")]
    [block] = [b for b in blocks(ROOT / "docs" / "frameworks.md", "python") if "remembering(" in b]
    names: dict[str, Any] = {"agent": agent}
    exec(block, names)
    names["client"].chat.completions.create(model="m", messages=[HIVES])
    assert "forty hives" in stage.bodies[0]["messages"][0]["content"]
    assert said(agent)[-1] == ("Sam", "Forty.")


def test_a_chat_with_tools_images_and_names_is_stored_as_it_goes_on(client: openai.OpenAI, agent: Agent, stage: Stage):
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    calls = {"role": "assistant", "content": None, "tool_calls": [call]}
    called = {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": calls}]}
    stage.plays = [sends(json.dumps(called)), says("<think>cold</think>12 degrees."), says("Nice.")]
    chat = client.chat.completions
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    messages: list[Any] = [
        {"role": "developer", "content": [{"type": "text", "text": "Help."}]},
        {"role": "user", "name": "Lena", "content": [{"type": "text", "text": "Here."}, image]},
        {"role": "user", "content": "Is it warm?"},
    ]
    messages.append(chat.create(model="m", messages=iter(messages)).choices[0].message)
    assert messages[-1].tool_calls[0].to_dict() == call
    messages.append({"role": "tool", "tool_call_id": "c1", "content": "12 C"})
    messages.append(chat.create(model="m", messages=messages).choices[0].message)
    assert [m["role"] for m in stage.bodies[1]["messages"]] == ["developer", "user", "user", "assistant", "tool"]
    assert stage.bodies[1]["messages"][1]["content"][1] == image
    assert "forty hives" in stage.bodies[1]["messages"][0]["content"][1]["text"]
    with_timeout = client.with_options(timeout=5)
    with_timeout.chat.completions.create(
        model="m", messages=[*messages, {"role": "user", "name": "SAM", "content": "Thanks!"}]
    )
    assert said(agent) == [
        ("Lena", "Here.\n[image]"), ("User", "Is it warm?"), ("Sam", "12 degrees."), ("User", "Thanks!"), ("Sam", "Nice."),
    ]  # fmt: skip


def test_a_stream_is_stored_at_its_end_or_as_far_as_it_was_read(client: openai.OpenAI, agent: Agent, stage: Stage):
    stage.plays = [streams("For", "ty."), streams("Fifty ", "no."), streams("Six", "ty.")]
    with client.chat.completions.create(model="m", messages=[HIVES], stream=True) as stream:
        assert stream.response.status_code == 200
        assert "".join(c.choices[0].delta.content or "" for c in stream) == "Forty."
    with client.chat.completions.create(model="m", messages=[HIVES], stream=True) as stream:
        assert next(stream).choices[0].delta.content == "Fifty "
    raw = client.chat.completions.with_raw_response.create(model="m", messages=[HIVES], stream=True)
    for chunk in raw.parse():
        if chunk.choices[0].finish_reason:
            break
    assert [text for speaker, text in said(agent) if speaker == "Sam"] == ["Forty.", "Fifty ", "Sixty."]
    assert len(said(agent)) == 6


def test_a_stream_that_is_left_is_stored_and_of_several_answers_the_first(
    client: openai.OpenAI, agent: Agent, stage: Stage
):
    pieces = [(0, "For", None), (1, "Fif", "length"), (0, "ty.", "stop"), (1, "ty", None)]
    choices = [{"index": index, "delta": {"content": text}, "finish_reason": why} for index, text, why in pieces]
    several = "".join(f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices)
    stage.plays = [sends(f"{several}data: [DONE]\n\n", "text/event-stream"), streams("Six", "ty.")]
    assert len([*client.chat.completions.create(model="m", messages=[HIVES], n=2, stream=True)]) == 4
    for _ in client.chat.completions.create(model="m", messages=[HIVES], stream=True):
        break
    assert said(agent) == [("User", HIVES["content"]), ("Sam", "Forty."), ("User", HIVES["content"]), ("Sam", "Six")]


def test_a_stream_that_outlives_its_agent_is_stored_as_far_as_it_was_read(
    client: openai.OpenAI, agent: Agent, stage: Stage, caplog: pytest.LogCaptureFixture
):
    stage.plays = [streams("For", "ty."), streams("Fifty.")]
    read = client.chat.completions.create(model="m", messages=[HIVES], stream=True)
    unread = client.chat.completions.create(model="m", messages=[HIVES], stream=True)
    assert next(read).choices[0].delta.content == "For"
    agent.close(end_sessions=False)
    assert [chunk.choices[0].delta.content for chunk in read] == ["ty.", None]
    assert [chunk.choices[0].delta.content for chunk in unread] == ["Fifty.", None]
    assert "a turn was not stored" in caplog.text
    with Agent(agent.config, encoder=agent.encoder) as again:
        assert said(again) == [("User", HIVES["content"]), ("Sam", "For")]


def test_an_asynchronous_client(agent: Agent, stage: Stage):
    stage.plays = [says("Forty."), streams("For", "ty."), says("Fifty."), streams("Six", "ty.")]

    async def use() -> None:
        url = f"http://127.0.0.1:{stage.server_port}/v1"
        async with ld_agent.remembering(openai.AsyncOpenAI(base_url=url), person="ann", store=agent) as client:
            answer = await client.chat.completions.create(model="m", messages=[HIVES])
            assert answer.choices[0].message.content == "Forty."
            stream = await client.chat.completions.create(model="m", messages=[HIVES], stream=True)
            assert "".join([c.choices[0].delta.content or "" async for c in stream]) == "Forty."
            raw = client.chat.completions.with_streaming_response.create(model="m", messages=[HIVES])
            async with raw as response:
                assert (await response.parse()).choices[0].message.content == "Fifty."
            async for _ in await client.chat.completions.create(model="m", messages=[HIVES], stream=True):
                break
        assert client.is_closed()

    asyncio.run(use())
    assert all("forty hives" in body["messages"][0]["content"] for body in stage.bodies)
    answers = ["Forty.", "Forty.", "Fifty.", "Six"]
    assert said(agent) == [line for text in answers for line in (("User", HIVES["content"]), ("Sam", text))]


@pytest.mark.parametrize(
    ("wrong", "remembers"),
    [
        ({"role": "system", "content": None}, True),
        ({"role": "system"}, True),
        ({"role": "user", "content": 5}, False),
        ({"role": "user", "content": {"type": "text"}}, False),
        ({"role": "user", "content": [5, None]}, True),
    ],
)
def test_a_message_of_an_odd_shape_is_for_the_endpoint_to_judge(
    client: openai.OpenAI, stage: Stage, wrong: Any, remembers: bool
):
    stage.plays = [says("Hm.")]
    client.chat.completions.create(model="m", messages=[wrong, HIVES])
    [body] = stage.bodies
    assert ("forty hives" in json.dumps(body)) is remembers
    assert body["messages"][-1] == HIVES


def test_a_failure_is_the_clients_and_stores_nothing(
    client: openai.OpenAI, agent: Agent, stage: Stage, caplog: pytest.LogCaptureFixture
):
    stage.plays = [fails(401, {"message": "no such key"}), fails(400, {"message": "bad role"}), says("Hm.")]
    with pytest.raises(openai.AuthenticationError, match="no such key"):
        client.chat.completions.create(model="m", messages=[HIVES])
    wrong: Any = [{"role": "wizard", "content": "Hi."}]
    with pytest.raises(openai.BadRequestError, match="bad role"):
        client.chat.completions.create(model="m", messages=wrong)
    assert "without memory: the message: role 'wizard'" in caplog.text
    with pytest.raises(TypeError, match="messages"):
        client.chat.completions.create(model="m")  # type: ignore[call-overload]
    assert said(agent) == []
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": " "}])
    assert said(agent) == [("Sam", "Hm.")]


def test_one_client_serves_many_people_and_threads(agent: Agent, stage: Stage):
    stage.plays = [says("Yes.")]
    base = openai.OpenAI(base_url=f"http://127.0.0.1:{stage.server_port}/v1")
    ann = ld_agent.remembering(base, person="ann", store=agent)
    bob = ld_agent.remembering(ann, person="bob", store=agent)

    def ask(number: int) -> None:
        asked = {"role": "user", "content": f"Number {number}?"}
        (ann, bob)[number % 2].chat.completions.create(model="m", messages=[asked])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(ask, range(8)))
    base.chat.completions.create(model="m", messages=[HIVES])
    assert {text for _, text in said(agent, "bob")[::2]} == {f"Number {n}?" for n in (1, 3, 5, 7)}
    assert said(agent, "bob")[1::2] == said(agent)[1::2] == [("Sam", "Yes.")] * 4
    prompts = {body["messages"][-1]["content"]: body["messages"][0]["content"] for body in stage.bodies}
    assert {asked: "forty hives" in system for asked, system in prompts.items()} == {
        HIVES["content"]: False, **{f"Number {n}?": n % 2 == 0 for n in range(8)}
    }  # fmt: skip


def test_a_path_is_a_store_that_closes_with_the_client(tmp_path: Path):
    with ld_agent.remembering(openai.OpenAI(api_key="none"), person="ann", store=tmp_path / "ann.db") as client:
        assert (tmp_path / "ann.db").is_file()
        assert not client.is_closed()
    assert client.is_closed()
    with pytest.raises(ld_agent.LDAgentError, match="conversation id"):
        ld_agent.remembering(openai.OpenAI(api_key="none"), person=" ", store=tmp_path / "other.db")
