"""Errors as clients of OpenAI's protocol expect them: a status, and ``{"error": {message, type, param, code}}``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from ld_agent.errors import BackboneError, ConversationBusyError, InputError, LDAgentError, ModelError

log = logging.getLogger("ld_agent.server")


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """What every refusal looks like."""

    error: ErrorDetail


class ApiError(Exception):
    """A refusal with its status."""

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
        return ErrorBody(
            error=ErrorDetail(message=self.message, type=kind, param=self.param, code=self.code)
        ).model_dump()


def as_api_error(exc: Exception) -> ApiError:
    """What a client is told about an exception: what the package raises in its own words, anything else without details."""
    if isinstance(exc, ApiError):
        return exc
    if isinstance(exc, ConversationBusyError):
        return ApiError(409, str(exc), "conversation_busy")
    if isinstance(exc, InputError):
        return ApiError(400, str(exc), "invalid_input")
    if isinstance(exc, BackboneError | ModelError):
        return ApiError(
            502, f"the model failed: {exc}; what was said is stored, sending it again is safe", "model_failed"
        )
    if isinstance(exc, LDAgentError):
        return ApiError(503, str(exc), "store_failed", headers={"Retry-After": "1"})
    log.error("unexpected error", exc_info=exc)
    return ApiError(500, f"unexpected {type(exc).__name__}; the server's log has the details", "internal_error")


def _response(error: ApiError) -> JSONResponse:
    return JSONResponse(error.body, error.status, dict(error.headers or {}))


def _invalid(problems: Sequence[Any]) -> ApiError:
    problem = problems[0]
    place = [str(part) for part in problem["loc"] if part not in ("body", "query", "path", "header")]
    if problem["type"] == "json_invalid":
        return ApiError(400, 'the body is not valid JSON; send an object such as {"model": …}', "invalid_json")
    return ApiError(400, f"{'.'.join(place) or 'the body'}: {problem['msg']}", "invalid_value", ".".join(place) or None)


def install(app: FastAPI) -> None:
    """Answer every error in one shape."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, exc: RequestValidationError) -> JSONResponse:
        return _response(_invalid(exc.errors()))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, exc: HTTPException) -> JSONResponse:
        message = f"{request.method} {request.url.path}: {exc.detail}; /openapi.json lists what there is"
        return _response(ApiError(exc.status_code, message, headers=exc.headers))

    @app.exception_handler(ApiError)
    @app.exception_handler(LDAgentError)
    async def failed(request: Request, exc: Exception) -> JSONResponse:
        return _response(as_api_error(exc))

    @app.exception_handler(Exception)
    async def unexpected(request: Request, exc: Exception) -> JSONResponse:
        return _response(as_api_error(exc))
