"""A backbone behind HTTP: any server that speaks OpenAI's chat completions (OpenAI, vLLM, Ollama, llama.cpp).

It knows nothing of tensors, tokenizers or adapters. A tuned module is a model name of its own at the server. Calls run
on an event loop of their own, so that a caller who gives up (Ctrl-C) closes the connection at once and the server
stops generating, and so that several threads, and callers that have a running loop, can share one client.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import random
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from queue import SimpleQueue
from typing import Any, NoReturn

from ld_agent.backbones.address import address, key
from ld_agent.backbones.answer_text import disarmed
from ld_agent.backbones.base import Completion, Message, Request
from ld_agent.errors import BackboneError, ModelError

OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_WINDOW = 8192
CALLS_AT_ONCE = 8
CONNECT_SECONDS, FIRST_PAUSE, LONGEST_PAUSE, LONGEST_RETRY_AFTER = 10.0, 0.5, 8.0, 120.0
MESSAGE_OVERHEAD = 8
QUOTED_CHARACTERS = 200

Pieces = SimpleQueue[tuple[Request, str] | None]

_PIECES = re.compile(r"(?P<word>[A-Z]?[a-z]+|  +)|(?P<capitals>[A-Z]+)|(?P<rest> ?[0-9]|[^\x00-\x7f]+|[^ ])")
_CHARACTERS_A_TOKEN = {"word": 3, "capitals": 2, "rest": 1}
OPTIONAL = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "seed": "seed",
    "stream_options": "stream_options",
    "extra_body": "repetition_penalty",
}
"""Parameters that a call can do without, and the word by which a server that does not know one refuses it."""
_REFUSAL = re.compile(r"unsupported|not support|not permitted|unexpected|unrecognized|unknown|forbidden", re.IGNORECASE)
_MEND = {
    401: "check the key in ${key}",
    402: "check the account's credit",
    403: "check what the key in ${key} may use",
    404: "check backbone.base_url, and that backbone.model or modules.{module}.model is served there",
    413: "shorten the prompt, or set backbone.context_window to the server's window",
    429: "wait, or raise backbone.max_retries",
}


class EndpointBackbone:
    """Answers from an OpenAI-compatible endpoint.

    A call is tried again after a failed connection, 429 or 5xx, with exponential backoff and jitter, or after the
    seconds that ``Retry-After`` asks for (up to two minutes; a longer wait is reported instead). It is not tried again
    after a timeout, since the server may still be at work on it, nor once text of it was handed on. A parameter that
    the server says it does not know (``seed``, ``temperature`` …) is left out from then on.

    The bound of an answer is sent as ``max_tokens``, which every local server obeys (Ollama ignores the newer name in
    silence), and as ``max_completion_tokens`` to OpenAI's own hosts, whose newer models refuse the older name.

    Args:
        model: name under which the server knows the model.
        base_url: the endpoint up to and including ``/v1``; None: ``OPENAI_BASE_URL``, else OpenAI.
        api_key_env: environment variable that holds the key. Without it a host on this machine or in a private network
            is sent a placeholder.
        timeout: seconds for a whole answer; for a streamed one, seconds without a new piece.
        max_retries: further tries of one call.
        context_window: tokens of prompt and answer together; None: 8192, since the protocol has no way to ask.
        models: served model name by module, where it is not ``model``.
        pause: waits for the given seconds between two tries.

    Raises:
        ModelError: the ``openai`` package is missing, no key is set, or base_url is no http address.
    """

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
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        try:
            import openai
        except ImportError as exc:
            raise ModelError("backbone.kind=openai needs the openai package; pip install 'ld_agent[openai]'") from exc
        url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
        self.endpoint, host = address(url)
        self._key_env = api_key_env
        self._key = key(api_key_env, host, self.endpoint)
        own_host = host.endswith((".openai.com", ".openai.azure.com"))
        self._length_name = "max_completion_tokens" if own_host else "max_tokens"
        self._model = model
        self._models = dict(models or {})
        self._timeout = timeout
        self._max_retries = max_retries
        self._window = context_window or DEFAULT_WINDOW
        self._pause = pause
        self._refused: dict[str, set[str]] = {}
        self._openai = openai
        self._client = openai.AsyncOpenAI(
            api_key=self._key,
            base_url=url,
            # An answer's deadline is kept in _call: the client's own starts anew with every keep-alive byte.
            timeout=openai.Timeout(None, connect=min(timeout, CONNECT_SECONDS)),
            # Its own retries can neither be interrupted nor told from a timeout, and ignore `Retry-After: 0`.
            max_retries=0,
        )
        self._slots = asyncio.Semaphore(CALLS_AT_ONCE)
        self._closing = threading.Lock()
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ld_agent-endpoint", daemon=True)
        self._thread.start()

    @property
    def context_window(self) -> int:
        return self._window

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer every request, in order, several at a time; ``on_text`` is called in the caller's thread.

        Raises:
            BackboneError: one line with endpoint, model, status, what the server said and how to mend it.
        """
        pieces: Pieces = SimpleQueue()
        with self._closing:
            if self._closed:
                raise BackboneError(f"the connection to {self.endpoint} was closed; make a new backbone")
            answers = asyncio.run_coroutine_threadsafe(self._answer_all(requests, pieces), self._loop)
        answers.add_done_callback(lambda _: pieces.put(None))
        try:
            while (piece := pieces.get()) is not None:
                request, text = piece
                if request.on_text is not None:
                    request.on_text(text)
            return answers.result()
        except concurrent.futures.CancelledError as exc:
            raise BackboneError(f"the connection to {self.endpoint} was closed while it answered; ask again") from exc
        finally:
            answers.cancel()

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Estimate the prompt's tokens from above; the tokenizer is at the server, out of reach.

        Counted are one token per three letters of an English word, per two of a word in capitals, per digit, sign and
        line break, and per byte of anything beyond ASCII (no byte-level vocabulary needs more), with 8 per message and
        8 at the end for the template. English prose needs about one token per four letters, so it is overestimated by
        half; other languages more. Strings that are no words (long keys, say) can exceed the estimate.
        """
        return MESSAGE_OVERHEAD + sum(MESSAGE_OVERHEAD + _estimated_tokens(m.content) for m in messages)

    def close(self) -> None:
        """End what is under way and close the connections; calling it twice is fine."""
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
                f"{self.endpoint} cannot load adapter {request.adapter!r}; serve it there under a name of its own and "
                f"set modules.{request.module}.model to that name"
            )
        shown: list[str] = []
        failures = 0
        while True:
            parameters = self._parameters(request)
            try:
                async with self._slots:
                    return await self._call(request, parameters, shown, pieces)
            except self._openai.OpenAIError as exc:
                if self._leave_out_refused(parameters, exc):
                    continue
                wait = self._wait_before_retry(exc, failures)
                if wait is None or shown or failures >= self._max_retries:
                    self._fail(request, exc, failures, bool(shown))
                failures += 1
            except TimeoutError as exc:
                self._fail(request, exc, failures, bool(shown))
            except ValueError as exc:
                what = f"what came is not JSON ({self._quoted(str(exc))})"
                raise self._error(request, what, "check backbone.base_url and the server's log") from exc
            await self._pause(wait)

    async def _call(self, request: Request, sent: Mapping[str, Any], shown: list[str], pieces: Pieces) -> Completion:
        async with asyncio.timeout(self._timeout) as deadline:
            answer = await self._client.chat.completions.create(**sent)
            if request.on_text is None:
                return self._completion(request, answer)
            usage = finish = None
            async with answer as stream:
                async for chunk in stream:
                    deadline.reschedule(self._loop.time() + self._timeout)
                    usage = getattr(chunk, "usage", None) or usage
                    choice = _first_choice(chunk)
                    text = getattr(getattr(choice, "delta", None), "content", None)
                    if isinstance(text, str) and text:
                        shown.append(text)
                        pieces.put((request, text))
                    finish = getattr(choice, "finish_reason", None) or finish
        if finish is None:
            raise self._error(request, "the stream broke off before its end", "ask again, and see the server's log")
        return self._counted(request, "".join(shown), finish, usage)

    def _completion(self, request: Request, answer: Any) -> Completion:
        choice = _first_choice(answer)
        message = getattr(choice, "message", None)
        content = getattr(message, "content", None)
        if message is None or not isinstance(content, str | None):
            seen = self._quoted(getattr(answer, "model_dump_json", lambda: str(answer))())
            raise self._error(request, f"what came is no chat completion: {seen}", "check backbone.base_url (…/v1)")
        return self._counted(
            request, content or "", getattr(choice, "finish_reason", None), getattr(answer, "usage", None)
        )

    def _counted(self, request: Request, text: str, finish: Any, usage: Any) -> Completion:
        prompt, completion = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
        return Completion(
            text,
            prompt if isinstance(prompt, int) else self.count_tokens(request.messages),
            completion if isinstance(completion, int) else _estimated_tokens(text),
            "length" if finish == "length" else "stop",
        )

    def _served_name(self, request: Request) -> str:
        return self._models.get(request.module, self._model)

    def _parameters(self, request: Request) -> dict[str, Any]:
        model = self._served_name(request)
        parameters: dict[str, Any] = {
            "model": model,
            "messages": [{"role": m.role, "content": as_plain_text(m.content)} for m in request.messages],
            "temperature": request.temperature,
            "seed": request.seed,
            self._length_name: request.max_new_tokens,
        }
        if request.repetition_penalty != 1.0:  # no parameter of OpenAI's own, but of vLLM and others
            parameters["extra_body"] = {"repetition_penalty": request.repetition_penalty}
        if request.on_text is not None:
            parameters |= {"stream": True, "stream_options": {"include_usage": True}}
        for name in self._refused.get(model, ()):
            bound = parameters.pop(name, None)
            if name == "max_tokens" and bound is not None:
                parameters["max_completion_tokens"] = bound
        return parameters

    def _leave_out_refused(self, sent: Mapping[str, Any], exc: Exception) -> bool:
        """Note an optional parameter that the server refuses; True: the call is worth another try without it."""
        said = f"{getattr(exc, 'code', '')} {_said(exc)}"
        if getattr(exc, "status_code", None) not in (400, 422) or not _REFUSAL.search(said):
            return False
        for name, word in OPTIONAL.items():
            if name in sent and (getattr(exc, "param", None) == word or re.search(rf"\b{word}\b", said)):
                self._refused.setdefault(sent["model"], set()).add(name)
                return True
        return False

    def _wait_before_retry(self, exc: Exception, failures: int) -> float | None:
        """Return the seconds to wait, None where another try would fail alike."""
        status = getattr(exc, "status_code", 0)
        busy = status >= 500 or (status == 429 and getattr(exc, "code", None) != "insufficient_quota")
        if not busy and not isinstance(exc, self._openai.APIConnectionError):
            return None
        if (asked := _retry_after(exc)) is None:
            return min(FIRST_PAUSE * 2.0**failures, LONGEST_PAUSE) * random.uniform(0.75, 1.0)
        return asked if asked <= LONGEST_RETRY_AFTER else None

    def _fail(self, request: Request, exc: Exception, failures: int, shown: bool) -> NoReturn:
        status = getattr(exc, "status_code", None)
        if isinstance(exc, TimeoutError):
            what, mend = f"no answer within {self._timeout:g} s", "raise backbone.timeout or use a quicker model"
        elif isinstance(status, int):
            what, mend = f"HTTP {status}: {self._quoted(_said(exc))}", self._mend(status, request)
            if (asked := _retry_after(exc)) is not None and asked > LONGEST_RETRY_AFTER:
                what += f" (it asks to wait {asked:.0f} s)"
        elif isinstance(exc, self._openai.APIConnectionError):
            what = f"no connection ({self._quoted(str(exc.__cause__ or exc))})"
            mend = "start the server or check backbone.base_url"
        else:
            what, mend = self._quoted(_said(exc)), "see the server's log"
        if shown:
            what = f"the stream broke off: {what}"
        elif failures:
            what += f", after {failures + 1} tries"
        raise self._error(request, what, mend) from exc

    def _mend(self, status: int, request: Request) -> str:
        fallback = "see the server's log" if status >= 500 else "check the model's name and limits at the server"
        return _MEND.get(status, fallback).replace("{key}", self._key_env).replace("{module}", request.module)

    def _error(self, request: Request, what: str, mend: str) -> BackboneError:
        return BackboneError(f"{self.endpoint}, model {self._served_name(request)!r}: {what}; {mend}")

    def _quoted(self, text: str) -> str:
        """Return foreign text on one line, shortened, without the key that some servers echo."""
        line = " ".join(text.replace(self._key, "***").split())
        return line if len(line) <= QUOTED_CHARACTERS else f"{line[:QUOTED_CHARACTERS]}…"


def as_plain_text(text: str) -> str:
    """Return text whose chat-template control tokens are taken apart by a space: ``<|im_end|>`` → ``< |im_end|>``.

    The server's tokenizer reads the rendered prompt as one string, so what people said must not spell such a token.
    Lone surrogates become ``?``.
    """
    return disarmed(text).encode("utf-8", "replace").decode()


def _estimated_tokens(text: str) -> int:
    return sum(
        -(-len(piece[0].encode("utf-8", "replace")) // _CHARACTERS_A_TOKEN[str(piece.lastgroup)])
        for piece in _PIECES.finditer(text)
    )


def _first_choice(answer: Any) -> Any:
    choices = getattr(answer, "choices", None)
    return choices[0] if isinstance(choices, list) and choices else None


def _said(exc: Exception) -> str:
    """Return what the server said, from the several shapes in which servers say it."""
    body = getattr(exc, "body", None)
    if isinstance(body, dict):
        body = next((body[name] for name in ("message", "detail", "error") if body.get(name)), body)
    return str(body or exc)


def _retry_after(exc: Exception) -> float | None:
    """Return the seconds that the server asks to wait; a date is measured against the server's own clock."""
    headers = getattr(getattr(exc, "response", None), "headers", None) or {}
    asked = str(headers.get("retry-after"))
    with suppress(ValueError):
        return max(0.0, float(asked))
    with suppress(ValueError, TypeError):
        now = parsedate_to_datetime(str(headers.get("date")))
        return max(0.0, (parsedate_to_datetime(asked) - now).total_seconds())
    return None
