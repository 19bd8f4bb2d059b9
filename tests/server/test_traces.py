"""OpenTelemetry spans of a served agent: what they say, that texts stay out, and that nothing is sent or imported unasked."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from server_parts import Served

from ld_agent.config import Config
from ld_agent.errors import ConfigError

pytest.importorskip("opentelemetry.sdk")
pytestmark = pytest.mark.anyio


@pytest.fixture
def spans() -> Iterator[Callable[..., list[Any]]]:
    """Begin to collect spans; called again, with a name, those of that name."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from ld_agent.server.traces import traced_by

    exporter, ends = InMemorySpanExporter(), list[Callable[[], None]]()

    def collected(name: str | None = None, texts: bool = False) -> list[Any]:
        if name is None:
            ends.append(traced_by(SimpleSpanProcessor(exporter), texts))
            return []
        return [span for span in exporter.get_finished_spans() if span.name == name]

    yield collected
    for end in ends:
        end()


def told(span: Any) -> dict[str, Any]:
    return {name.removeprefix("gen_ai."): value for name, value in span.attributes.items()}


async def remembers_bees(client: Any) -> None:
    await client.chat("I keep bees.")
    observed = {"utterances": [{"text": "I paint.", "speaker": "Ann", "thread": "t1"}], "end_session": True}
    (await client.post("/v1/memory/people/ann/observe", json=observed)).raise_for_status()


async def test_a_reply_with_its_searches_and_traits(served: Served, spans: Callable[..., list[Any]]):
    spans()
    async with served(**{"memory.gamma": -1.0}) as client:
        await remembers_bees(client)
        await client.chat("What do I keep?", thread="t2")
        [first, second] = spans("invoke_agent Sam")
        [search] = [
            span for span in spans("search_memory") if span.parent and span.parent.span_id == second.context.span_id
        ]
        created = [told(span) for span in spans("create_memory")]
    assert told(search) == {
        "operation.name": "search_memory", "conversation.id": "ann", "memory.store.id": "events",
        "memory.record.count": 1, "memory.record.id": "m1",
    }  # fmt: skip
    assert told(second) | {"usage.input_tokens": 0, "usage.output_tokens": 0} == {
        "operation.name": "invoke_agent", "conversation.id": "ann", "agent.name": "Sam", "request.model": "default",
        "provider.name": "transformers", "usage.input_tokens": 0, "usage.output_tokens": 0,
    }  # fmt: skip
    assert told(first)["usage.input_tokens"] > 0
    assert {(span["memory.store.id"], span["memory.record.count"]) for span in created} == {
        ("events", 1),
        ("personas", 1),
    }
    assert "bees" not in json.dumps([dict(span.attributes) for span in [first, second, search]])


@pytest.mark.parametrize(
    ("settings", "provider"),
    [
        ({"backbone.kind": "openai", "backbone.base_url": "http://127.0.0.1:9/v1"}, "openai"),
        ({"modules.generator.backbone": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}}, "openai"),
        ({"modules.extractor.backbone": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}}, "transformers"),
    ],
)
async def test_the_provider_is_the_generators(
    served: Served, spans: Callable[..., list[Any]], settings: dict[str, Any], provider: str
):
    spans()
    async with served(**settings) as client:
        await client.chat("I keep bees.")
        await client.chat("Hello.", person=None, thread=None)
    assert [told(span)["provider.name"] for span in spans("invoke_agent Sam")] == [provider, provider]


async def test_changes_by_hand_and_a_deletion(served: Served, spans: Callable[..., list[Any]]):
    async with served() as client:
        await remembers_bees(client)
        spans()
        await client.patch("/v1/memory/people/ann/memories/m1", json={"text": "She keeps wasps."})
        await client.delete("/v1/memory/people/ann/memories/t1")
        counted = (await client.get("/v1/memory/people/ann")).json()
        await client.delete("/v1/memory/people/ann")
        [edit] = spans("update_memory")
        [forget, delete] = spans("delete_memory")
    assert (told(edit)["memory.record.id"], told(forget)["memory.record.id"]) == ("m1", "t1")
    assert told(delete)["memory.record.count"] == counted["records"] + counted["traits"] > 0
    assert {told(span)["conversation.id"] for span in (edit, forget, delete)} == {"ann"}


async def test_texts_by_opt_in(served: Served, spans: Callable[..., list[Any]]):
    spans(texts=True)
    async with served(**{"memory.gamma": -1.0}) as client:
        await remembers_bees(client)
        await client.get("/v1/memory/people/ann/recall", params={"text": "hives"})
        [search] = [told(span) for span in spans("search_memory")[-1:]]
        [reply] = [told(span) for span in spans("invoke_agent Sam")]
    assert search["memory.query.text"] == "hives"
    assert "bees" in json.loads(search["memory.records"])[0]["content"]
    assert json.loads(reply["input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "I keep bees."}]}
    ]


async def test_a_failure_is_named_and_not_quoted(served: Served, spans: Callable[..., list[Any]]):
    def fail(request: Any) -> str:
        raise RuntimeError("I keep bees.")

    spans()
    async with served({"generator": fail}) as client:
        assert (await client.chat("I keep bees.")).status_code == 500
        [reply] = spans("invoke_agent Sam")
    assert (reply.status.status_code.name, reply.status.description, reply.events) == ("ERROR", None, ())
    assert reply.attributes["error.type"] == "RuntimeError"


async def test_spans_reach_an_endpoint(served: Served):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    received = []

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, self.headers["Content-Type"], body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        async with served(**{"server.traces": f"http://127.0.0.1:{server.server_port}/v1/traces"}) as client:
            await client.chat("I keep bees.")
        server.shutdown()
    [(path, kind, body)] = received
    assert (path, kind) == ("/v1/traces", "application/x-protobuf")
    [resource] = ExportTraceServiceRequest.FromString(body).resource_spans
    assert {span.name for scope in resource.scope_spans for span in scope.spans} >= {
        "invoke_agent Sam",
        "search_memory",
    }
    assert b"bees" not in body


def test_nothing_is_imported_unasked():
    code = "import sys, ld_agent.server.app; print([m for m in sys.modules if m.startswith('opentelemetry.sdk')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


def test_what_is_missing_or_wrong_is_named(monkeypatch: pytest.MonkeyPatch, config: Callable[..., Config]):
    from ld_agent.server.traces import traced

    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    with pytest.raises(ConfigError, match=r"pip install 'ld_agent\[otel\]'"):
        traced("http://127.0.0.1:4318/v1/traces", False)
    with pytest.raises(ConfigError, match=r"server\.traces"):
        config(**{"server.traces": "collector"})
