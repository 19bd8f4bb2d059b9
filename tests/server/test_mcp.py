"""The memory over the Model Context Protocol, asked by the official SDK's own client."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_parts import Clock, confessed, echo, remembered, retold
from cli_commands import EXECUTABLE, environment, scripted_config
from mcp import Client, StdioServerParameters

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.server.mcp_tools import memory_server

pytestmark = pytest.mark.anyio


async def called(client: Client, tool: str, **arguments: Any) -> Any:
    """What a tool answers; its text where it is a refusal."""
    result = await client.call_tool(tool, arguments)
    if result.is_error or result.structured_content is None:
        return result.content[0].text
    content = result.structured_content
    return content.get("result", content)


async def test_tools_and_resources(config: Callable[..., Config], encoder: SentenceEncoder, topics: TopicExtractor):
    script = {"generator": echo, "summarizer": retold, "extractor": confessed, "memory": remembered}
    agent = Agent(config(), backbone=ScriptedBackbone(script), clock=Clock(), encoder=encoder, topics=topics)
    async with Client(memory_server(agent, "ann")) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"remember", "recall", "about", "forget"}
        assert "nothing is known about 'ann'" in await called(client, "recall", query="hives")
        assert await called(client, "remember", text="I keep forty bee hives.") == "remembered as m1"
        await called(client, "remember", text="I bake bread.", person="bob")
        [best] = await called(client, "recall", query="bee hives")
        assert "forty bee hives" in best["text"]
        known = await called(client, "about")
        assert [trait["text"] for trait in known["traits"]] == ["I keep forty bee hives."]
        assert await called(client, "forget", id=known["traits"][0]["id"]) == "forgot t1"
        assert (await called(client, "about"))["traits"] == []
        assert "not a record or trait" in await called(client, "forget", id="t9")
        listed = json.loads((await client.read_resource("ldagent://people")).contents[0].text)
        assert [person["id"] for person in listed] == ["ann", "bob"]
        one = json.loads((await client.read_resource("ldagent://people/bob")).contents[0].text)
        assert [session["number"] for session in one["sessions"]] == [1]
        said = json.loads((await client.read_resource("ldagent://people/bob/sessions/1")).contents[0].text)
        assert [u["text"] for u in said] == ["I bake bread."]
    agent.close(end_sessions=False)


async def test_the_command_over_standard_input_and_output(tmp_path: Path):
    arguments = ["mcp", "-c", str(scripted_config(tmp_path)), "--store", str(tmp_path / "s.db"), "--person", "ann"]
    command = StdioServerParameters(command=str(EXECUTABLE), args=arguments, env=environment(OMP_NUM_THREADS="1"))
    async with Client(command) as client:
        assert (await called(client, "remember", text="I keep forty bee hives.")).startswith("remembered as m1")
        assert [m["id"] for m in (await called(client, "about"))["memories"]] == ["m1"]
