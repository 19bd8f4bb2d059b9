"""A backbone behind HTTP: any server with OpenAI's chat completions API (OpenAI, vLLM, Ollama, llama.cpp).

Knows nothing of tensors, tokenizers or adapters; the server offers each tuned module as a separate model. Calls run on a
dedicated event loop, for two reasons: an interrupted caller (Ctrl-C) closes the connection at once, so that the server
stops generating; and several threads, including callers with a running loop, can share one client.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import random
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, NoReturn

from ld_agent.backbones import wire
from ld_agent.backbones.answer_text import OMITTED, split
from ld_agent.backbones.base import FORMAT, Completion, Lack, Message, Request, noted
from ld_agent.backbones.client_message import tool_calls
from ld_agent.errors import BackboneError, ConfigError, ModelError

OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_WINDOW = 8192
CALLS_AT_ONCE = 8
CONNECT_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE, LONGEST_RETRY_AFTER = 0.5, 8.0, 120.0

Pieces = SimpleQueue[tuple[Request, str] | None]

OPTIONAL = ("max_tokens", "temperature", "top_p", "seed", "stream_options")
"""Parameters of a call that it can do without."""
SET_HERE = frozenset({"model", "messages", "stream"})
_LACKS: Mapping[Any, Lack] = {
    "length": "reasoning",
    "content_filter": "filter",
    "tool_calls": "tool",
    "function_call": "tool",
}
"""What an answer without text lacks, by the reason why it ended. OpenAI does not return reasoning at all."""
_FIXES = {
    401: "check the key in ${key}",
    402: "check the account's credit",
    403: "check what the key in ${key} may use",
    404: "check backbone.base_url, and that backbone.model or modules.{module}.model is served there",
    413: "shorten the prompt, or set backbone.context_window to the server's window",
    429: "wait, and try again",
}


class EndpointBackbone:
    """Generates with an OpenAI-compatible endpoint.

    A call is retried after a failed connection, 429 or 5xx, with exponential backoff and jitter, or after the delay in
    ``Retry-After`` (up to two minutes; a longer one is an error). It is not retried after a timeout, because the server
    may still be working on it, nor after part of its text has been streamed. A parameter that the server rejects as
    unknown (``seed``, ``temperature`` …) is omitted from then on.

    The token limit is sent as ``max_tokens``, which every local server obeys (Ollama silently ignores the newer name), but
    as ``max_completion_tokens`` to OpenAI's own hosts, whose newer models reject the older name.

    Args:
        model: name of the model on the server.
        base_url: the endpoint up to and including ``/v1``; None: ``OPENAI_BASE_URL``, else OpenAI.
        api_key_env: environment variable with the key. If it is not set, local and private hosts get a placeholder.
        timeout: seconds for a complete answer; when streaming, seconds between two pieces.
        max_retries: maximum number of retries of one call.
        context_window: tokens of prompt and answer together; None: 8192, because the API cannot be asked.
        models: model names on the server by module, where they differ from ``model``.
        extra: further parameters of every call, as in the request's JSON.
        pause: coroutine that waits the given seconds between two tries.

    Attributes:
        passes_on: images, files, tools and a format of a client are sent as they came; without those that the endpoint refuses.
        concurrent: callers in several threads are answered at once.

    Raises:
        ModelError: the ``openai`` package is missing, no key is set, or base_url is not an http address.
        ConfigError: ``extra`` has a parameter that is set here.
    """

    passes_on = concurrent = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        timeout: float = 60.0,
        max_retries: int = 4,
        context_window: int | None = None,
        models: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        try:
            import openai
        except ImportError as exc:
            raise ModelError("backbone.kind=openai needs the openai package; pip install 'ld_agent[openai]'") from exc
        self._extra = dict(extra or {})
        if wrong := sorted(SET_HERE & set(self._extra)):
            raise ConfigError(f"backbone.extra has {wrong[0]!r}, which ld_agent sets itself; remove it")
        url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
        self.endpoint, host = wire.address(url)
        self._key_env = api_key_env
        self._key = wire.key(api_key_env, host, self.endpoint)
        at_openai = host.endswith((".openai.com", ".openai.azure.com"))
        self._length_name = "max_completion_tokens" if at_openai else "max_tokens"
        self._model = model
        self._models = dict(models or {})
        self._timeout = timeout
        self._max_retries = max_retries
        self.context_window = context_window or DEFAULT_WINDOW
        self._pause = pause
        self._refused: dict[str, set[str]] = {}
        self._never: set[tuple[str, str]] = set()  # models and what they refuse: the role "system", a "format"
        self._openai = openai
        # _call keeps the deadline of an answer: the client's timeout restarts with every keep-alive byte. The client's retries
        # cannot be told from a timeout, and ignore `Retry-After: 0`.
        limit = openai.Timeout(None, connect=min(timeout, CONNECT_SECONDS))
        self._client = openai.AsyncOpenAI(api_key=self._key, base_url=url, timeout=limit, max_retries=0)
        self._slots = asyncio.Semaphore(CALLS_AT_ONCE)
        self._closing = threading.Lock()
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ld_agent-endpoint", daemon=True)
        self._thread.start()

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer every request, in order, several at a time; ``on_text`` is called in the caller's thread.

        Raises:
            BackboneError: one line with endpoint, model, status, the server's message and how to fix it.
        """
        pieces: Pieces = SimpleQueue()
        with self._closing:
            if self._closed:
                raise BackboneError(f"the connection to {self.endpoint} was closed; create a new backbone")
            answers = asyncio.run_coroutine_threadsafe(self._answer_all(requests, pieces), self._loop)
        answers.add_done_callback(lambda _: pieces.put(None))
        try:
            while (piece := pieces.get()) is not None:
                request, text = piece
                if request.on_text is not None:
                    request.on_text(text)
            return answers.result()
        except concurrent.futures.CancelledError as exc:
            raise BackboneError(f"the connection to {self.endpoint} was closed during the request; try again") from exc
        finally:
            answers.cancel()

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """An upper estimate (`estimated_prompt`); the tokenizer is on the server, out of reach."""
        return wire.estimated_prompt(messages)

    def close(self) -> None:
        """Cancel pending calls and close the connections; idempotent."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(self._end_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end_all(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    async def _answer_all(self, requests: Sequence[Request], pieces: Pieces) -> list[Completion]:
        tasks = [asyncio.ensure_future(self._answer(request, pieces)) for request in requests]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _answer(self, request: Request, pieces: Pieces) -> Completion:
        if request.adapter is not None and request.module not in self._models:
            raise BackboneError(
                f"{self.endpoint} cannot load adapter {request.adapter!r}; serve it there under a separate name and "
                f"set modules.{request.module}.model to that name"
            )
        shown: list[str] = []
        failures, model = 0, self._served_name(request)
        without = [what for what in ("system", "format") if (model, what) in self._never]
        while True:
            parameters = self._parameters(request, without)
            try:
                async with self._slots:
                    completion = await self._call(request, parameters, shown, pieces)
                self._never |= {(model, what) for what in without if what in ("system", "format")}
                return noted(completion, request, without)
            except self._openai.OpenAIError as exc:
                if self._leave_out_refused(parameters, exc):
                    continue
                status = getattr(exc, "status_code", None)
                if what := wire.refused(parameters, request, status, wire.said(exc), without):
                    without.append(what)
                    continue
                wait = self._wait_before_retry(exc, failures)
                if wait is None or _has_text(shown) or failures >= self._max_retries:
                    self._fail(request, exc, failures, _has_text(shown))
                failures += 1
            except TimeoutError as exc:
                self._fail(request, exc, failures, _has_text(shown))
            except ValueError as exc:
                what = f"the answer is not JSON ({self._quoted(str(exc))})"
                raise self._error(request, what, "check backbone.base_url and the server's log") from exc
            await self._pause(wait)

    async def _call(self, request: Request, sent: Mapping[str, Any], shown: list[str], pieces: Pieces) -> Completion:
        async with asyncio.timeout(self._timeout) as deadline:
            answer = await self._client.chat.completions.create(**sent)
            if request.on_text is None:
                return self._completion(request, answer)
            usage = finish = None
            calls: list[Any] = []
            async with answer as stream:
                received = wire.Received(stream.response)
                async for chunk in stream:
                    received.events = True
                    deadline.reschedule(self._loop.time() + self._timeout)
                    usage = getattr(chunk, "usage", None) or usage
                    choice = wire.first_choice(chunk)
                    delta = getattr(choice, "delta", None)
                    calls += getattr(delta, "tool_calls", None) or ()
                    if text := wire.said_by_model(delta, again=bool(shown)):
                        shown.append(text)
                        pieces.put((request, text))
                    finish = getattr(choice, "finish_reason", None) or finish
        if not received.events:
            return self._unstreamed(request, received.text, pieces)
        if finish is None and not received.whole:
            raise self._error(request, "the stream was interrupted", "try again and check the server's log")
        return self._counted(request, "".join(shown), finish, usage, calls)

    def _unstreamed(self, request: Request, body: str, pieces: Pieces) -> Completion:
        """The answer of an endpoint that does not stream, or its error."""
        answer: Any
        try:
            answer = self._openai.types.chat.ChatCompletion.construct(**json.loads(body))
        except (ValueError, TypeError):
            answer = body or "nothing"
        completion = self._completion(request, answer)
        pieces.put((request, completion.text))
        return completion

    def _completion(self, request: Request, answer: Any) -> Completion:
        choice = wire.first_choice(answer)
        message = getattr(choice, "message", None)
        text = wire.said_by_model(message)
        if message is None or text is None:
            if error := wire.error_text(getattr(answer, "error", None)):
                fix = "check the model's name and limits on the server"
                raise self._error(request, f"the answer is an error: {self._quoted(error)}", fix)
            seen = self._quoted(getattr(answer, "model_dump_json", lambda **_: str(answer))(exclude_unset=True))
            raise self._error(request, f"the answer is not a chat completion: {seen}", "check backbone.base_url (…/v1)")
        finish, calls = getattr(choice, "finish_reason", None), getattr(message, "tool_calls", None) or ()
        return self._counted(request, text, finish, getattr(answer, "usage", None), calls)

    def _counted(self, request: Request, text: str, finish: Any, usage: Any, made: Sequence[Any]) -> Completion:
        answer = split(text)
        calls = tool_calls([call.to_dict() for call in made]) if "tools" in request.passes else ()
        lack: Lack = (
            "" if answer.text.strip() or calls else _LACKS.get(finish, "reasoning" if answer.reasoned else "empty")
        )
        prompt, completion = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
        return Completion(
            text,
            prompt if isinstance(prompt, int) else self.count_tokens(request.messages),
            completion if isinstance(completion, int) else wire.estimated_tokens(text),
            "length" if finish == "length" or (finish == "content_filter" and not lack) else "stop",
            lack,
            calls=calls,
        )

    def _served_name(self, request: Request) -> str:
        return self._models.get(request.module, self._model)

    def _parameters(self, request: Request, without: Sequence[str]) -> dict[str, Any]:
        model = self._served_name(request)
        parameters: dict[str, Any] = {
            "model": model,
            "messages": wire.on_wire(request.messages, without),
            "temperature": request.temperature,
            "seed": request.seed,
            self._length_name: request.max_new_tokens,
        }
        given = dict(request.parameters)
        if request.form is not None:
            schema = {"name": request.module, "strict": True, "schema": request.form}
            given[FORMAT] = {"type": "json_schema", "json_schema": schema}
        for name, value in given.items():
            if ("format" if name == FORMAT else "tools") not in without:
                parameters[name] = value
        if request.top_p is not None and request.temperature > 0:
            parameters["top_p"] = request.top_p
        penalty = request.repetition_penalty  # unknown to OpenAI, but supported by vLLM and others
        extra = ({"repetition_penalty": penalty} if penalty != 1.0 else {}) | self._extra
        if request.on_text is not None:
            parameters |= {"stream": True, "stream_options": {"include_usage": True}}
        for name in self._refused.get(model, ()):
            extra.pop(name, None)
            bound = parameters.pop(name, None)
            if name == "max_tokens" and bound is not None:
                parameters["max_completion_tokens"] = bound
        return parameters | ({"extra_body": extra} if extra else {})

    def _leave_out_refused(self, sent: Mapping[str, Any], exc: Exception) -> bool:
        """Omit an optional parameter that the server rejects; True if the call can be retried without it."""
        message = f"{getattr(exc, 'code', '')} {wire.said(exc)}"
        if getattr(exc, "status_code", None) not in (400, 422) or not wire.REFUSAL.search(message):
            return False
        for name in [*(name for name in OPTIONAL if name in sent), *sent.get("extra_body", ())]:
            if getattr(exc, "param", None) == name or re.search(rf"\b{re.escape(name)}\b", message):
                self._refused.setdefault(sent["model"], set()).add(name)
                return True
        return False

    def _wait_before_retry(self, exc: Exception, failures: int) -> float | None:
        """Return the seconds to wait before a retry; None if a retry is pointless."""
        status = getattr(exc, "status_code", 0)
        busy = status >= 500 or (status == 429 and getattr(exc, "code", None) != "insufficient_quota")
        if not busy and not isinstance(exc, self._openai.APIConnectionError):
            return None
        if (asked := wire.retry_after(exc)) is None:
            return min(FIRST_PAUSE * 2.0**failures, LONGEST_PAUSE) * random.uniform(0.75, 1.0)
        return asked if asked <= LONGEST_RETRY_AFTER else None

    def _fail(self, request: Request, exc: Exception, failures: int, shown: bool) -> NoReturn:
        status = getattr(exc, "status_code", None)
        if isinstance(exc, TimeoutError):
            what, fix = f"no answer within {self._timeout:g} s", "raise backbone.timeout or use a faster model"
        elif isinstance(status, int):
            what, fix = f"HTTP {status}: {self._quoted(wire.said(exc))}", self._fix_for(status, request)
            if (asked := wire.retry_after(exc)) is not None and asked > LONGEST_RETRY_AFTER:
                what += f" (it asks to wait {asked:.0f} s)"
        elif isinstance(exc, self._openai.APIConnectionError):
            what = f"no connection ({self._quoted(str(exc.__cause__ or exc))})"
            fix = "start the server or check backbone.base_url"
        else:
            what, fix = self._quoted(wire.said(exc)), "check the server's log"
        if shown:
            what = f"the stream was interrupted: {what}"
        elif failures:
            what += f", after {failures + 1} tries"
        raise self._error(request, what, fix, refused=status in (400, 413, 422)) from exc

    def _fix_for(self, status: int, request: Request) -> str:
        fallback = "check the server's log" if status >= 500 else "check the model's name and limits on the server"
        return _FIXES.get(status, fallback).replace("{key}", self._key_env).replace("{module}", request.module)

    def _error(self, request: Request, what: str, fix: str, *, refused: bool = False) -> BackboneError:
        return BackboneError(f"{self.endpoint}, model {self._served_name(request)!r}: {what}; {fix}", refused=refused)

    def _quoted(self, text: str) -> str:
        return wire.quoted(text, self._key)


def _has_text(shown: Sequence[str]) -> bool:
    return any(text != OMITTED for text in shown)
