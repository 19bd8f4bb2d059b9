"""The OpenAPI document is true: whatever it allows is answered as it says, and nothing makes the server fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from agent_parts import START, Clock
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.server.app import create_app

CHECKS = (not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance)
EXAMPLES = 4
UNTRIED = ("/readyz", "/metrics", "/v1/memory/people/{person}/import")


@pytest.fixture
def document(config: Callable[..., Config], encoder: SentenceEncoder, topics: TopicExtractor) -> Iterator[Any]:
    script = {"generator": "How nice.", "extractor": "NO_TRAIT", "summarizer": "They talked."}
    agent = Agent(
        config(**{"server.rate": 1_000_000}), backbone=ScriptedBackbone(script), clock=Clock(), encoder=encoder,
        topics=topics, background=True,
    )  # fmt: skip
    app = create_app({"default": agent})
    key = app.state.service.keys.create("a", ["admin"], None, START)
    yield schemathesis.openapi.from_asgi("/openapi.json", app), {"Authorization": f"Bearer {key}"}
    agent.close(end_sessions=False)


def test_it_names_keys_and_headers(document: Any):
    schema, _ = document
    raw = schema.raw_schema
    assert raw["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    for path, operations in raw["paths"].items():
        for operation in operations.values():
            assert ("security" in operation) == path.startswith(("/v1/", "/metrics")), path
    for path in ("/v1/chat/completions", "/v1/responses"):
        named = {p["name"] for p in raw["paths"][path]["post"]["parameters"]}
        assert {"X-LD-Person", "X-LD-Thread", "X-LD-History", "X-OpenWebUI-Chat-Id", "Idempotency-Key"} <= named


def test_whatever_the_document_allows(document: Any):
    schema, headers = document
    operations = [found.ok() for found in schema.get_all_operations()]
    tried = [operation for operation in operations if operation.path not in UNTRIED]
    assert len(tried) >= 16
    for operation in tried:

        @given(case=operation.as_strategy())
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        def answered(case: Any) -> None:
            case.call_and_validate(checks=CHECKS, headers=headers)

        answered()
