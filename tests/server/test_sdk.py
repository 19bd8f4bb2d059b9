"""The `openai` SDK talks with the served agent, in both of OpenAI's protocols."""

import openai
import pytest
from server_parts import Client, Served

pytestmark = pytest.mark.anyio
HEADERS = {"X-LD-Person": "ann", "X-LD-Thread": "t1"}


def sdk(client: Client) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url="http://localhost/v1", api_key="none", http_client=client, max_retries=0)


async def test_chat_completions(served: Served):
    async with served({"generator": "How nice."}) as client:
        chat = sdk(client).chat.completions
        done = await chat.create(
            model="default", messages=[{"role": "user", "content": "I keep bees."}], extra_headers=HEADERS
        )
        assert (done.choices[0].message.content, done.choices[0].finish_reason) == ("How nice.", "stop")
        assert done.usage is not None
        assert done.usage.completion_tokens == 2
        assert done.model_extra is not None
        assert done.model_extra["ld_agent"]["heard"] == "u1"


async def test_a_response_continues_another(client: Client):
    responses = sdk(client).responses
    first = await responses.create(model="default", input="I keep bees.", extra_headers={"X-LD-Person": "ann"})
    second = await responses.create(model="default", input="And goats.", previous_response_id=first.id)
    assert (second.status, second.previous_response_id) == ("completed", first.id)
    assert await client.said() == ["I keep bees.", first.output_text, "And goats.", second.output_text]
    asked = [r for r in client.backbone.requests if r.module == "generator"][-1]
    assert "I keep bees." in [m.content for m in asked.messages]
    assert (await responses.retrieve(second.id)).output_text == second.output_text
    with pytest.raises(openai.NotFoundError):
        await responses.create(model="default", input="Hi.", previous_response_id="resp_nothing")
    with pytest.raises(openai.NotFoundError):
        await responses.create(
            model="default", input="Hi.", previous_response_id=first.id, extra_headers={"X-LD-Person": "bob"}
        )


async def test_a_conversation_is_a_thread(client: Client):
    responses = sdk(client).responses
    for text in ("I keep bees.", "And goats."):
        done = await responses.create(
            model="default", input=[{"role": "user", "content": text}], conversation="c1", user="ann",
            instructions="Be brief.",
        )  # fmt: skip
        assert done.conversation is not None
        assert done.conversation.id == "c1"
    asked = [r for r in client.backbone.requests if r.module == "generator"][-1]
    assert asked.messages[0].content.endswith("Be brief.")
    first, _, last = asked.messages[-3:]
    assert (first.content, last.content) == ("I keep bees.", "And goats.")


async def test_a_response_stream(served: Served):
    async with served({"generator": "How very nice."}) as client:
        stream = await sdk(client).responses.create(
            model="default", input="I keep bees.", stream=True, extra_headers=HEADERS
        )
        events = [event async for event in stream]
        assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "How very nice."
        assert [e.sequence_number for e in events] == list(range(len(events)))
        last = events[-1]
        assert last.type == "response.completed"
        assert last.response.output_text == "How very nice."
        assert (await sdk(client).responses.retrieve(last.response.id)).id == last.response.id
