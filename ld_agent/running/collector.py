"""Batches the model calls of many callers, and counts what they cost: requests that arrive while the model is busy form the next
batch.

One caller at a time runs the model, for everything that has arrived by then. A lone caller runs it directly, without
another thread. Each backbone has its own collector, so that a slow one does not delay the callers of another. A backbone
that answers many callers at once needs no batches: none of its callers waits for another or fails with it. What they cost
is added up by module. Knows requests and completions, but no conversations.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from ld_agent.backbones.base import Completion, Request
from ld_agent.errors import BackboneError
from ld_agent.steps import Complete, GaveWay

CALLERS = 16
"""Coroutines that wait for one concurrent model; others queue for a thread."""


@dataclass(slots=True, eq=False)
class Job:
    """One caller's requests, and where their completions arrive."""

    asked: list[Request]
    answers: Future[list[Completion]] = field(default_factory=Future)
    stopped: BaseException | None = None

    def listening(self, request: Request, alone: bool) -> Request:
        """The request with a listener that cannot break its batch: an exception it raises is kept for its own caller."""
        listener = request.on_text
        if listener is None or alone:
            return request

        def heard(piece: str, listener: Callable[[str], None] = listener) -> None:
            if self.stopped is None:
                try:
                    listener(piece)
                except BaseException as exc:
                    self.stopped = exc

        return replace(request, on_text=heard)


@dataclass(slots=True)
class Cost:
    """Of one module. ``milliseconds``: waited for its model; what several modules waited for together, by their tokens."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    milliseconds: float = 0.0


class Costs:
    """Adds up what modules cost since the process began. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_module: dict[str, Cost] = {}

    def by_module(self) -> dict[str, Cost]:
        with self._lock:
            return dict(self._by_module)

    def add(self, requests: Sequence[Request], completions: Sequence[Completion], seconds: float) -> None:
        """Add what requests cost that were answered together."""
        tokens = [c.prompt_tokens + c.completion_tokens for c in completions]
        each = 1000 * seconds / (sum(tokens) or 1)
        with self._lock:
            for request, completion, count in zip(requests, completions, tokens, strict=True):
                cost = self._by_module.setdefault(request.module, Cost())
                cost.calls += 1
                cost.prompt_tokens += completion.prompt_tokens
                cost.completion_tokens += completion.completion_tokens
                cost.milliseconds += each * count


class Collectors:
    """Calls several models for many callers, each model through its own `Collector` or `Concurrent`.

    Args:
        complete: answers a batch of one model.
        model_of: returns a value that identifies the model of a module.
        concurrent: whether the model of a module answers many callers at once.

    Attributes:
        costs: of the requests that were answered; a call that fails, or that is interrupted, costs nothing.
    """

    def __init__(
        self,
        complete: Complete,
        model_of: Callable[[str], Hashable],
        concurrent: Callable[[str], bool] = lambda module: False,
    ) -> None:
        self._complete, self._model_of, self._concurrent = complete, model_of, concurrent
        self.costs = Costs()
        self._collectors: dict[Hashable, Collector | Concurrent] = {}
        self._lock = threading.Lock()

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer requests of any modules, in order.

        Raises:
            BackboneError: a model failed.
        """
        answers, begun = dict[int, Completion](), time.perf_counter()
        for collector, positions in self._by_model(requests):
            answers.update(zip(positions, collector.complete([requests[p] for p in positions]), strict=True))
        return self._counted(requests, answers, begun)

    def giving_way(self, wanted: Callable[[], bool]) -> Complete:
        """`complete` for work that can be done again: in the middle of an answer it raises `GaveWay` if another caller waits for
        the same model, or ``wanted`` is true."""

        def listener(model: Collector | Concurrent) -> Callable[[str], None]:
            def heard(piece: str) -> None:
                if model.wanted or wanted():
                    raise GaveWay

            return heard

        def complete(requests: Sequence[Request]) -> list[Completion]:
            heeded = list(requests)
            for model, places in self._by_model(requests):
                for place in places:
                    heeded[place] = replace(requests[place], on_text=listener(model))
            return self.complete(heeded)

        return complete

    async def acomplete(self, requests: Sequence[Request]) -> list[Completion]:
        """`complete` for coroutines."""
        answers, begun = dict[int, Completion](), time.perf_counter()
        for collector, positions in self._by_model(requests):
            answers.update(zip(positions, await collector.acomplete([requests[p] for p in positions]), strict=True))
        return self._counted(requests, answers, begun)

    def close(self) -> None:
        with self._lock:
            collectors, self._collectors = self._collectors, {}
        for collector in collectors.values():
            collector.close()

    def _counted(
        self, requests: Sequence[Request], answers: Mapping[int, Completion], begun: float
    ) -> list[Completion]:
        """Answers in the order of their requests, with their costs added."""
        completions = [answers[place] for place in range(len(requests))]
        self.costs.add(requests, completions, time.perf_counter() - begun)
        return completions

    def _by_model(self, requests: Sequence[Request]) -> list[tuple[Collector | Concurrent, list[int]]]:
        positions: dict[Hashable, list[int]] = {}
        for position, request in enumerate(requests):
            positions.setdefault(self._model_of(request.module), []).append(position)
        with self._lock:
            for model, places in positions.items():
                if model not in self._collectors:
                    kind = Concurrent if self._concurrent(requests[places[0]].module) else Collector
                    self._collectors[model] = kind(self._complete)
            return [(self._collectors[model], places) for model, places in positions.items()]


class Concurrent:
    """Calls one model that answers many callers at once, each in a thread.

    Args:
        complete: answers one batch, also while it answers others.

    Attributes:
        wanted: False, as nobody waits.
    """

    def __init__(self, complete: Complete) -> None:
        self.complete = complete
        self.wanted = False
        self._threads = ThreadPoolExecutor(CALLERS, "ld-agent-model")

    async def acomplete(self, requests: Sequence[Request]) -> Sequence[Completion]:
        """`complete` for coroutines."""
        return await asyncio.wrap_future(self._threads.submit(self.complete, requests))

    def close(self) -> None:
        self._threads.shutdown(wait=True)


class Collector:
    """Calls one model for many callers.

    Args:
        complete: answers one batch; never called concurrently.
        most: maximum number of requests per batch, unless a single caller has more.
    """

    def __init__(self, complete: Complete, most: int = 16) -> None:
        self._complete, self._most = complete, most
        self._changed = threading.Condition()
        self._waiting: list[Job] = []
        self._asking = False
        self._driver: ThreadPoolExecutor | None = None

    @property
    def wanted(self) -> bool:
        """Whether a caller waits for the model."""
        return bool(self._waiting)

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer requests, in order.

        Raises:
            BackboneError: the model failed.
        """
        job = self._queued(requests)
        self._drive(job)
        return job.answers.result()

    async def acomplete(self, requests: Sequence[Request]) -> list[Completion]:
        """`complete` for coroutines."""
        job = self._queued(requests)
        with self._changed:
            if self._driver is None:
                self._driver = ThreadPoolExecutor(1, "ld-agent-model")
        self._driver.submit(self._drive, job)
        return await asyncio.wrap_future(job.answers)

    def close(self) -> None:
        with self._changed:
            driver, self._driver = self._driver, None
        if driver is not None:
            driver.shutdown(wait=True)

    def _queued(self, requests: Sequence[Request]) -> Job:
        job = Job(list(requests))
        with self._changed:
            self._waiting.append(job)
        return job

    def _drive(self, job: Job) -> None:
        """Call the model, for this job and those waiting, until this job is answered."""
        with self._changed:
            while self._asking and not job.answers.done():
                self._changed.wait()
            if job.answers.done():
                return
            self._asking = True
        try:
            while not job.answers.done():
                self._answer(self._batch())
        finally:
            with self._changed:
                self._asking = False
                self._changed.notify_all()

    def _batch(self) -> list[Job]:
        """The next batch: jobs of the module with the most requests, oldest first, as many as fit.

        Jobs of callers that left are dropped.
        """
        with self._changed:
            self._waiting = [job for job in self._waiting if not job.answers.cancelled()]
            modules = [job.asked[0].module for job in self._waiting]
            most = max(dict.fromkeys(modules), key=modules.count, default=None)
            batch, size = list[Job](), 0
            for job in self._waiting:
                if job.asked[0].module == most and (not batch or size + len(job.asked) <= self._most):
                    batch.append(job)
                    size += len(job.asked)
            self._waiting = [job for job in self._waiting if job not in batch]
        return [job for job in batch if job.answers.set_running_or_notify_cancel()]

    def _answer(self, batch: Sequence[Job]) -> None:
        requests = [job.listening(request, len(batch) == 1) for job in batch for request in job.asked]
        try:
            completions = list(self._complete(requests)) if requests else []
        except BaseException as exc:
            for job in batch:
                job.answers.set_exception(self._as_own(exc, len(batch)))
        else:
            start = 0
            for job in batch:
                stop = start + len(job.asked)
                if job.stopped is not None:
                    job.answers.set_exception(job.stopped)
                else:
                    job.answers.set_result(completions[start:stop])
                start = stop
        with self._changed:
            self._changed.notify_all()

    @staticmethod
    def _as_own(exc: BaseException, callers: int) -> BaseException:
        """The error to raise for a caller: an interruption of another caller's thread appears as a failed call."""
        if isinstance(exc, Exception) or callers == 1:
            return exc
        return BackboneError("the model call was interrupted by another caller; try again")
