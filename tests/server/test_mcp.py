"""The memory over the Model Context Protocol, asked by the official SDK's own client."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from agent_parts import CHECKED, Scene
from cli_commands import EXECUTABLE, environment, light_config
from mcp import Client, MCPError, StdioServerParameters

from ld_agent.backbones.base import Request
from ld_agent.server.mcp_tools import memory_server

pytestmark = pytest.mark.anyio


TOOLS = {"remember", "recall", "about", "edit", "pin", "undo", "forget"}


async def called(client: Client, tool: str, **arguments: Any) -> Any:
    """What a tool answers; its text where it is a refusal."""
    result = await client.call_tool(tool, arguments)
    if result.is_error or result.structured_content is None:
        return result.content[0].text
    content = result.structured_content
    return content.get("result", content)


async def test_tools_and_resources(scene: Scene):
    agent = scene.agent()
    async with Client(memory_server(agent, "ann")) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        assert "nothing is known about 'ann'" in await called(client, "recall", query="hives")
        assert await called(client, "remember", text="I keep forty bee hives.") == "remembered as m1"
        await called(client, "remember", text="I bake bread.", person="bob")
        await called(client, "remember", text="I sing.", person="home/cat")
        [best] = await called(client, "recall", query="bee hives")
        assert "forty bee hives" in best["text"]
        known = await called(client, "about")
        assert [(trait["text"], trait["channel"]) for trait in known["traits"]] == [("I keep forty bee hives.", "tool")]
        assert [(memory["channel"], memory["said_by"]) for memory in known["memories"]] == [("tool", ["User"])]
        assert await called(client, "edit", id="t1", text="I keep sixty bee hives.") == "corrected t1"
        assert await called(client, "pin", id="t1") == "pinned t1"
        assert [(t.text, t.pinned) for t in agent.conversation("ann").traits()] == [("I keep sixty bee hives.", True)]
        assert await called(client, "pin", id="t1", pinned=False) == "unpinned t1"
        assert [await called(client, "undo") for _ in range(2)] == ["taken back"] * 2
        assert await called(client, "forget", id="t1") == "forgot t1"
        assert (await called(client, "about"))["traits"] == []
        assert "not a record or trait" in await called(client, "forget", id="t9")
        listed = json.loads((await client.read_resource("ldagent://people")).contents[0].text)
        assert [person["id"] for person in listed] == ["ann", "bob", "home/cat"]
        cat = json.loads((await client.read_resource("ldagent://people/home%2Fcat")).contents[0].text)
        assert cat["person"] == "home/cat"
        one = json.loads((await client.read_resource("ldagent://people/bob")).contents[0].text)
        assert [session["number"] for session in one["sessions"]] == [1]
        said = json.loads((await client.read_resource("ldagent://people/bob/sessions/1")).contents[0].text)
        assert [u["text"] for u in said] == ["I bake bread."]
        for uri, message in (
            ("people/nobody", "nothing is known about 'nobody'"),
            ("people/bob/sessions/2", "'bob' has no session 2"),
            (f"people/bob/sessions/{'9' * 30}", "'bob' has no session"),
            ("people/bob/sessions/x", "'bob' has no session x"),
        ):
            with pytest.raises(MCPError, match=message):
                await client.read_resource(f"ldagent://{uri}")


def corrupted(request: Request) -> str:
    """What a small model makes of "I keep forty bee hives in Ghent."."""
    return "I have 4 bee hives." if request.module == "extractor" else "The user asks the beekeeper about hives."


async def test_what_is_remembered_keeps_its_words(scene: Scene):
    agent = scene.agent({"summarizer": corrupted, "extractor": corrupted}, checks=CHECKED)
    async with Client(memory_server(agent, "ann")) as client:
        await called(client, "remember", text="I keep forty bee hives in Ghent.")
        [best] = await called(client, "recall", query="How many hives are there?")
        assert best["text"] == "User: I keep forty bee hives in Ghent."
        assert [t["text"] for t in (await called(client, "about"))["traits"]] == ["I keep forty bee hives in Ghent."]
        agent.conversation("ann", thread="chat").observe("My hives are in Antwerp, all forty.")
        running, *_ = await called(client, "recall", query="Where are the hives?")
        assert running["text"] == "User: My hives are in Antwerp, all forty."
        assert len(await called(client, "recall", query="Where are the hives?", k=1)) == 1
        for tool, arguments in (
            ("remember", {"text": "I sing.", "user": "bob"}),
            ("recall", {"query": "x", "limit": 3}),
        ):
            assert "Extra inputs are not permitted" in await called(client, tool, **arguments)
        assert "I sing." not in [u.text for u in agent.conversation("ann").utterances]


async def test_over_http_this_machine_alone_is_answered(scene: Scene):
    agent = scene.agent()
    app = memory_server(agent, "ann").streamable_http_app()
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    async with Client(url) as client:
        assert await called(client, "remember", text="I keep forty bee hives.") == "remembered as m1"
        [best] = await called(client, "recall", query="bee hives")
        assert "forty bee hives" in best["text"]
    async with httpx.AsyncClient() as browser:
        for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            refused = await browser.post(url, json={}, headers=headers)
            assert refused.status_code in (403, 421)
    server.should_exit = True
    await serving


async def test_the_command_over_standard_input_and_output(tmp_path: Path):
    arguments = ["mcp", "-c", str(light_config(tmp_path)), "--store", str(tmp_path / "s.db"), "--person", "ann"]
    command = StdioServerParameters(command=str(EXECUTABLE), args=arguments, env=environment(OMP_NUM_THREADS="1"))
    async with Client(command) as client:
        assert (await called(client, "remember", text="I keep forty bee hives.")).startswith("remembered as m1")
        assert [m["id"] for m in (await called(client, "about"))["memories"]] == ["m1"]
