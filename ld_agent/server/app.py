"""The server as one ASGI application: routes, limits and lifespan. The behaviour is in the neighbouring modules."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from pydantic import BaseModel

from ld_agent import __version__
from ld_agent.agent import Agent
from ld_agent.server import errors, memory, metrics, page
from ld_agent.server.errors import ErrorBody
from ld_agent.server.limits import ATTEMPTS, Bodies, Places, Rates
from ld_agent.server.logins import Logins
from ld_agent.server.logs import Logged
from ld_agent.server.metrics import Metrics
from ld_agent.server.openai import chat, responses
from ld_agent.server.service import Service

OPEN = ("/healthz", "/readyz")
"""Paths of the document that need no key."""


class State(BaseModel):
    """Whether the server is up."""

    status: str


def create_app(agents: Mapping[str, Agent], failed: Callable[[BaseException], None] | None = None) -> FastAPI:
    """Create the application that serves agents over one store, and closes them at shutdown.

    Args:
        agents: by the model names used by clients; see `Service`. The server uses the settings of the first.
        failed: called if the models cannot be loaded.
    """
    service = Service(agents)
    settings = service.config.server
    app = FastAPI(
        title="ld_agent",
        version=__version__,
        lifespan=lambda app: _life(app, service, failed),
        docs_url=None,
        redoc_url=None,
        description="An agent that remembers people for months, through OpenAI's protocol, and its memory.",
    )
    app.state.service, app.state.started = service, int(time.time())
    app.state.rates, app.state.attempts = Rates(settings.rate), Rates(ATTEMPTS)
    app.state.places = Places(settings.concurrency)
    app.state.metrics = Metrics()
    service.count_tokens = app.state.metrics.count_tokens
    app.state.logins = Logins(service.keys)
    errors.install(app)
    _health(app, service)
    app.include_router(chat.router)
    app.include_router(metrics.router)
    app.include_router(responses.router)
    app.include_router(memory.router)
    page.install(app)
    app.add_middleware(Bodies, patience=settings.patience)
    if settings.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors),
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["Retry-After", "X-LD-Memory", "X-LD-Repeated"],
        )
    app.add_middleware(Logged, count=app.state.metrics.count)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _life(app: FastAPI, service: Service, failed: Callable[[BaseException], None] | None) -> AsyncIterator[None]:
    def warmed_up(task: asyncio.Task[None]) -> None:
        if failed is not None and not task.cancelled() and (exc := task.exception()):
            failed(exc)

    work = [asyncio.create_task(service.warm_up()), asyncio.create_task(service.tidy())]
    work[0].add_done_callback(warmed_up)
    yield
    for task in work:
        task.cancel()
    await asyncio.gather(*work, return_exceptions=True)
    await service.close()


def _health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthz() -> State:
        """The process responds."""
        return State(status="ok")

    @app.get("/readyz", tags=["health"], responses={503: {"model": ErrorBody}})
    async def readyz() -> Any:
        """The models are loaded."""
        if service.ready:
            return State(status="ready")
        raise errors.ApiError(503, "the models are still loading", "not_ready", headers=errors.SOON)


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, in which bad values are refused with 400 and not with FastAPI's 422, and keys are named."""
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        for path, operations in document["paths"].items():
            for operation in operations.values():
                operation["responses"].pop("422", None)
                if path not in OPEN:
                    operation["security"] = [{"key": []}, {}]
        for name in ("HTTPValidationError", "ValidationError"):
            document["components"]["schemas"].pop(name, None)
        document["components"]["securitySchemes"] = {
            "key": {"type": "http", "scheme": "bearer", "description": "Needed once the server has keys."}
        }
        app.openapi_schema = document
    return app.openapi_schema
