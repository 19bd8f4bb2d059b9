"""The OpenAPI document is true: whatever it allows is answered as it says, and nothing makes the server fail."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from agent_parts import DAY, START, Clock
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from ld_agent.agent import Agent
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.config import Config
from ld_agent.errors import InputError
from ld_agent.memory.encoder import SentenceEncoder
from ld_agent.memory.topics import TopicExtractor
from ld_agent.server.app import create_app
from ld_agent.storage.exchange import export_lines, import_lines

CHECKS = (not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance)
EXAMPLES = 4
OPERATIONS = 25
KNOWN = {"person": "ann", "number": "1", "target": "m1", "model": "default"}
"""Path parameters that lead to something."""


@schemathesis.serializer("application/x-ndjson")
def lines(context: Any, value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


@pytest.fixture
def document(config: Callable[..., Config], encoder: SentenceEncoder, topics: TopicExtractor) -> Iterator[Any]:
    script = {"generator": "How nice.", "extractor": "I keep bees.", "summarizer": "They talked."}
    agent = Agent(
        config(**{"server.rate": 1_000_000}), backbone=ScriptedBackbone(script), clock=Clock(), encoder=encoder,
        topics=topics, background=True,
    )  # fmt: skip
    app = create_app({"default": agent})
    app.state.service.ready = True  # its lifespan, which would load the models, is not run
    key = app.state.service.keys.create("a", ["admin"], None, START)
    yield schemathesis.openapi.from_asgi("/openapi.json", app), {"Authorization": f"Bearer {key}"}, agent
    agent.close(end_sessions=False)


def make_known(agent: Agent) -> list[bytes]:
    """Make the person `KNOWN` known to the tenant; return the export."""
    ann = agent.conversation("a/ann")
    ann.observe("I keep bees.", at=START)
    ann.end_session()
    ann.edit("t1", "I keep forty bees.")
    ann.observe("And goats.", at=START + DAY)
    return [line.encode() for line in export_lines(agent.store, "a/ann")]


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_whatever_a_client_sends(document: Any, mode: GenerationMode):
    """What the document allows is answered as it says, and what it forbids is refused as it says."""
    schema, headers, _ = document
    checks = CHECKS if mode == GenerationMode.POSITIVE else (*CHECKS, negative_data_rejection)

    def asked(case: Any) -> None:
        response = case.call(headers=headers)
        # A body may be too large before it breaks any other rule, which the check does not take for a refusal.
        case.validate_response(response, checks=CHECKS if response.status_code == 413 else checks, headers=headers)

    assert tried(schema, asked, mode) >= OPERATIONS / 2


def test_what_is_known_is_answered_as_the_document_says(document: Any):
    """With a person who has sessions, memories, traits and changes, of whom something is asked by each route."""
    schema, headers, agent = document
    answered, exported = set(), make_known(agent)

    def asked(case: Any) -> None:
        known = agent.store.find_conversation("a/ann")
        if known is None or not agent.store.records(known.key):  # a request before this one has deleted it
            if known is not None:
                agent.conversation("a/ann").delete()
            import_lines(agent.store, exported, "the export", "a/ann")
        if case.operation.path.endswith("/undo"):
            with suppress(InputError):  # an earlier request may have forgotten it
                agent.conversation("a/ann").edit("t1", "I keep fifty bees.")
        given = dict(case.path_parameters or {})
        case.path_parameters = given | {name: value for name, value in KNOWN.items() if name in given}
        response = case.call_and_validate(checks=CHECKS, headers=headers)
        if response.status_code == 200:
            answered.add((case.method, case.operation.path))

    assert tried(schema, asked) == OPERATIONS
    assert len(answered) >= OPERATIONS - 4, answered


def tried(schema: Any, asked: Callable[[Any], None], mode: GenerationMode = GenerationMode.POSITIVE) -> int:
    """Ask some requests of each operation; return of how many there are any."""
    count = 0
    for operation in [result.ok() for result in schema.get_all_operations()]:
        run = given(case=operation.as_strategy(generation_mode=mode))(lambda case: asked(case))
        try:
            settings(
                max_examples=EXAMPLES,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            )(run)()
        except (Unsatisfiable, schemathesis.errors.SchemathesisError):
            if mode == GenerationMode.POSITIVE:
                raise  # but nothing needs to be wrong with a request
        else:
            count += 1
    return count
