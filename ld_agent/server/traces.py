"""OpenTelemetry spans of the agent's operations, following the semantic conventions for generative AI. Off by default.

Texts are omitted unless ``server.trace_texts`` is set. OpenTelemetry is imported only when used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ld_agent import __version__
from ld_agent.errors import ConfigError
from ld_agent.running.watch import Operation, watched_by

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor

REPLY = "invoke_agent"


def traced(endpoint: str, texts: bool) -> Callable[[], None]:
    """Send spans to an OTLP endpoint over HTTP; return a function that flushes and stops.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as exc:
        raise ConfigError("server.traces needs OpenTelemetry; run: pip install 'ld_agent[otel]'") from exc
    return traced_by(BatchSpanProcessor(OTLPSpanExporter(endpoint)), texts)


def traced_by(processor: SpanProcessor, texts: bool) -> Callable[[], None]:
    """Hand spans to a processor; see `traced`."""
    spans = Spans(processor, texts)
    unwatch = watched_by(spans)

    def end() -> None:
        unwatch()
        spans.close()

    return end


class Spans:
    """A watcher that creates a span for each operation; operations during a reply are its children.

    No span becomes the thread's current one, because an operation may continue and end in another thread.
    """

    def __init__(self, processor: SpanProcessor, texts: bool) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider

        resource = Resource.create({"service.name": "ld_agent", "service.version": __version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer, self._texts = self._provider.get_tracer("ld_agent", __version__), texts
        self._replies: dict[str, Context] = {}

    @contextmanager
    def __call__(self, operation: Operation) -> Iterator[None]:
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        span = self._tracer.start_span(operation.name, self._replies.get(operation.conversation))
        is_reply = operation.name == REPLY and bool(operation.conversation)
        if is_reply:
            self._replies[operation.conversation] = set_span_in_context(span)
        try:
            yield
        except BaseException as exc:  # its message may contain what was said
            span.set_attribute("error.type", type(exc).__qualname__)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            if is_reply:
                self._replies.pop(operation.conversation, None)
            span.update_name(f"{operation.name} {operation.agent}".strip())
            span.set_attributes(attributes(operation, self._texts))
            span.end()

    def close(self) -> None:
        self._provider.shutdown()


def attributes(operation: Operation, texts: bool) -> dict[str, Any]:
    """The attributes of an operation's span, with or without texts."""
    records = operation.records
    count = operation.count if records is None else len(records)
    given: dict[str, Any] = {
        "operation.name": operation.name,
        "conversation.id": operation.conversation,
        "agent.name": operation.agent,
        "provider.name": operation.provider,
        "request.model": operation.model,
        "memory.store.id": operation.store,
        "memory.record.count": count,
        "memory.record.id": records[0][0] if records and len(records) == 1 else "",
    }
    if operation.tokens is not None:
        given |= {"usage.input_tokens": operation.tokens[0], "usage.output_tokens": operation.tokens[1]}
    if texts:
        given["memory.query.text"] = operation.query
        if records:
            given["memory.records"] = _json([{"id": id_, "content": text} for id_, text in records])
        if operation.said is not None:
            heard, replied = operation.said
            given["input.messages"] = _messages("user", heard)
            given["output.messages"] = _messages("assistant", replied)
    return {f"gen_ai.{name}": value for name, value in given.items() if value not in ("", None)}


def _messages(role: str, text: str) -> str:
    return _json([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
