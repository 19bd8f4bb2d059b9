"""Errors as clients of OpenAI's protocol expect them: a status, and ``{"error": {message, type, param, code}}``."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from ld_agent.errors import (
    BackboneError,
    ConversationBusyError,
    EncoderMismatchError,
    InputError,
    LDAgentError,
    ModelError,
    StoreError,
)

log = logging.getLogger("ld_agent.server")
BRANCH = re.compile(r"\A(body|query|path|header|constrained-str|list\[.*|[A-Z]\w*)$")
"""Parts of a problem's location in pydantic that are not names of fields."""


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """The shape of every error."""

    error: ErrorDetail


ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorBody, "description": text}
    for code, text in {
        400: "The request is invalid.",
        401: "No valid key.",
        403: "The key lacks the scope.",
        404: "Not there.",
        408: "The body came too slowly.",
        409: "The request conflicts with an earlier one.",
        413: "Too large.",
        415: "Wrong content type.",
        429: "Too many requests; see Retry-After.",
        502: "The model failed.",
        503: "The store failed, or the server is not ready.",
    }.items()
}


class ApiError(Exception):
    """An error with its HTTP status."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param, self.headers = status, message, code, param, headers

    @property
    def body(self) -> dict[str, Any]:
        kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


SOON = {"Retry-After": "1"}
NO_JSON = ApiError(400, 'the body is not valid JSON; send an object such as {"model": …}', "invalid_json")


def as_api_error(exc: Exception) -> ApiError:
    """The response to an exception: the message of the package's own errors, no details of any other."""
    if isinstance(exc, ApiError):
        return exc
    if isinstance(exc, ConversationBusyError):
        return ApiError(409, str(exc), "conversation_busy")
    if isinstance(exc, InputError):
        return ApiError(400, str(exc), "invalid_input")
    if isinstance(exc, BackboneError | ModelError):
        return model_error(exc, "the message is stored, and sending it again is safe")
    if isinstance(exc, LDAgentError):
        remedy = exc.remedy if isinstance(exc, StoreError) else ""
        nameless = remedy or isinstance(exc, EncoderMismatchError)  # other messages may name people
        logged = exc if nameless else type(exc).__name__
        log.error("the store failed: %s (cause: %r)", logged, exc.__cause__)
        text = f"the store failed: {remedy or 'the log of the server has the details'}"
        return ApiError(503, text, "store_failed", headers=SOON)
    log.error("unexpected error", exc_info=exc)
    return ApiError(500, f"unexpected {type(exc).__name__}; the server's log has the details", "internal_error")


def model_error(exc: BackboneError | ModelError, then: str) -> ApiError:
    """The response to a model's failure: a 400 if an endpoint refused what the client asked; ``then``: what became of it."""
    if isinstance(exc, BackboneError) and exc.refused:
        return ApiError(400, f"the model refused the request: {exc}; {then}", "model_refused")
    return ApiError(502, f"the model failed: {exc}; {then}", "model_failed")


async def response_to(request: Request, exc: Exception) -> Response:
    """What the application's own handlers answer, for middleware around them."""
    handlers = request.app.exception_handlers
    response: Response = await handlers[next(kind for kind in type(exc).__mro__ if kind in handlers)](request, exc)
    return response


def _response(request: Request, error: ApiError) -> Response:
    """The error as JSON or, for a browser that views the page, as a page."""
    if "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/"):
        shown: Response = request.app.state.error_page(request, error)
        return shown
    return JSONResponse(error.body, error.status, dict(error.headers or {}))


def _invalid(problems: Sequence[Any]) -> ApiError:
    problem = max(problems, key=lambda problem: len(problem["loc"]))  # of a choice of types, the one that fits best
    place = [str(part) for part in problem["loc"] if not BRANCH.match(str(part))]
    if problem["type"] == "json_invalid":
        return NO_JSON
    return ApiError(400, f"{'.'.join(place) or 'the body'}: {problem['msg']}", "invalid_value", ".".join(place) or None)


def install(app: FastAPI) -> None:
    """Answer every error in the same shape; in a browser, ``app.state.error_page`` renders it."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, exc: RequestValidationError) -> Response:
        return _response(request, _invalid(exc.errors()))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, exc: HTTPException) -> Response:
        if exc.status_code == 400:  # FastAPI could not read the body
            return _response(request, NO_JSON)
        message = f"{request.method} {request.url.path}: {exc.detail}; /openapi.json lists all routes"
        return _response(request, ApiError(exc.status_code, message, headers=exc.headers))

    @app.exception_handler(ApiError)
    @app.exception_handler(LDAgentError)
    @app.exception_handler(Exception)
    async def failed(request: Request, exc: Exception) -> Response:
        return _response(request, as_api_error(exc))
