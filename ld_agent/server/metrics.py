"""Prometheus metrics: requests by route and status, their durations, and tokens of replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from ld_agent.running.collector import Cost
from ld_agent.server.errors import ERRORS
from ld_agent.server.identity import AdminCaller
from ld_agent.server.service import Service

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
KINDS = ("prompt", "completion")
TEXT = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Metrics:
    """Counters of one process, by route and never by person."""

    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    buckets: Counter[tuple[str, float]] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    tokens: Counter[str] = field(default_factory=Counter)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[method, route, status] += 1
        self.seconds[route] = self.seconds.get(route, 0.0) + seconds
        for bound in BUCKETS:
            if seconds <= bound:
                self.buckets[route, bound] += 1

    def count_tokens(self, prompt: int, completion: int) -> None:
        self.tokens.update(prompt=prompt, completion=completion)

    def lines(self, at_once: int, costs: Mapping[str, Cost], as_json: Mapping[str, tuple[int, int]]) -> Iterator[str]:
        """The metrics in Prometheus' text format.

        Args:
            at_once: turns under way.
            costs: of the models, by module.
            as_json: answers that had to be JSON and were not, and that had to be, by the labels of model and module.
        """
        requests = {
            f'method="{method}",route="{route}",status="{status}"': count
            for (method, route, status), count in sorted(self.requests.items())
        }
        yield from _samples("requests_total", "counter", requests)
        yield "# TYPE ld_agent_request_seconds histogram"
        for route in sorted(self.seconds):
            total = sum(count for (_, other, _), count in self.requests.items() if other == route)
            for bound in BUCKETS:
                yield f'ld_agent_request_seconds_bucket{{route="{route}",le="{bound:g}"}} {self.buckets[route, bound]}'
            yield f'ld_agent_request_seconds_bucket{{route="{route}",le="+Inf"}} {total}'
            yield f'ld_agent_request_seconds_sum{{route="{route}"}} {self.seconds[route]:.6f}'
            yield f'ld_agent_request_seconds_count{{route="{route}"}} {total}'
        yield from _samples("reply_tokens_total", "counter", {f'kind="{kind}"': self.tokens[kind] for kind in KINDS})
        yield from _samples("turns_at_once", "gauge", {"": at_once})
        modules = {f'module="{module}"': cost for module, cost in costs.items()}
        yield from _samples("model_calls_total", "counter", {of: cost.calls for of, cost in modules.items()})
        seconds = {of: f"{cost.milliseconds / 1000:.6f}" for of, cost in modules.items()}
        yield from _samples("model_seconds_total", "counter", seconds)
        tokens = {f'{of},kind="prompt"': cost.prompt_tokens for of, cost in modules.items()}
        tokens |= {f'{of},kind="completion"': cost.completion_tokens for of, cost in modules.items()}
        yield from _samples("model_tokens_total", "counter", tokens)
        for name, place in (("not_json", 0), ("as_json", 1)):
            yield from _samples(f"model_{name}_total", "counter", {of: both[place] for of, both in as_json.items()})


def _samples(name: str, kind: str, values: Mapping[str, object]) -> Iterator[str]:
    """A metric by its labels."""
    yield f"# TYPE ld_agent_{name} {kind}"
    for labels, value in values.items():
        yield f"ld_agent_{name}{{{labels}}} {value}" if labels else f"ld_agent_{name} {value}"


router = APIRouter(tags=["health"], responses=ERRORS)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request, caller: AdminCaller) -> PlainTextResponse:
    """Prometheus metrics."""
    state = request.app.state
    service: Service = state.service
    as_json = {
        f'model="{model}",module="{module}"': counts
        for model, agent in service.agents.items()
        for module, counts in agent.models.as_json.items()
    }
    lines = state.metrics.lines(state.places.taken, service.costs.by_module(), as_json)
    return PlainTextResponse("\n".join(lines) + "\n", media_type=TEXT)
