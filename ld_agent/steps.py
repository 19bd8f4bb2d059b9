"""Work that asks a model, as steps: a generator that yields requests and is sent their completions.

The code that decides what to ask does not know who answers: `run` asks one backbone, `arun` awaits one, `run_many`
answers many pieces of work in shared batches. `Work` is the one place where a generator is advanced.
"""

from __future__ import annotations

from asyncio import to_thread
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar

from ld_agent.backbones.base import Completion, Request
from ld_agent.errors import BackboneError

T = TypeVar("T")
K = TypeVar("K")
Steps = Generator[Sequence[Request], Sequence[Completion], T]
Complete = Callable[[Sequence[Request]], Sequence[Completion]]


class GaveWay(BaseException):
    """Ends work that can be done again later, because somebody waits for what it holds. Like asyncio's cancellation it is not an
    `Exception`, so that nothing on its way takes it for a failure of the model."""


class Work(Generic[T]):
    """A piece of work in progress: its current requests, or its result.

    An exception raised by the work propagates from the call that advanced it.

    Attributes:
        asked: the requests waiting for completions; may be empty.
        done: whether the work has ended; ``result`` is then its return value.
    """

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self.asked: Sequence[Request] = ()
        self.done = False
        self.result: T
        self._advance(lambda: next(steps))

    def answer(self, completions: Sequence[Completion]) -> None:
        """Send the completions of ``asked``, in order."""
        self._advance(lambda: self._steps.send(completions))

    def fail(self, exc: BaseException) -> None:
        """Raise an exception of the model at the point where the work asked."""
        self._advance(lambda: self._steps.throw(exc))

    def answer_by(self, complete: Complete) -> None:
        """Ask a model, and send the work its answers or exception."""
        try:
            completions = complete(self.asked) if self.asked else []
        except BaseException as exc:
            self.fail(exc)
        else:
            self.answer(completions)

    def close(self) -> None:
        """Abandon the work, so that it releases its resources."""
        self._steps.close()

    def _advance(self, step: Callable[[], Sequence[Request]]) -> None:
        try:
            self.asked = step()
        except StopIteration as stop:
            self.asked, self.done, self.result = (), True, stop.value


def run(steps: Steps[T], complete: Complete, wanted: Callable[[], bool] = lambda: False) -> T:
    """Run one piece of work; an exception of ``complete`` is raised inside it, at the request.

    Args:
        wanted: whether somebody waits for what the work holds; asked before each step.

    Raises:
        GaveWay: from inside the work, because of ``wanted``.
    """
    work = Work(steps)
    while not work.done:
        work.fail(GaveWay()) if wanted() else work.answer_by(complete)
    return work.result


async def arun(steps: Steps[T], complete: Callable[[Sequence[Request]], Awaitable[Sequence[Completion]]]) -> T:
    """`run` for coroutines: neither the model nor the work itself blocks the event loop."""
    work = await to_thread(Work, steps)
    while not work.done:
        try:
            completions = await complete(work.asked) if work.asked else []
        except GeneratorExit as exc:  # this coroutine is being closed, and may await nothing more
            work.fail(exc)
        except BaseException as exc:
            await to_thread(work.fail, exc)
        else:
            await to_thread(work.answer, completions)
    return work.result


def metered(steps: Steps[T], seen: list[Completion]) -> Steps[T]:
    """Pass a piece of work through and append every completion it receives to ``seen``."""
    work = Work(steps)
    while not work.done:
        try:
            completions = yield work.asked
        except BaseException as exc:
            work.fail(exc)
        else:
            seen.extend(completions)
            work.answer(completions)
    return work.result


def answered(steps: Steps[T]) -> Steps[T]:
    """Pass a piece of work through, and raise inside it if a model gave no answer at all (`Completion.lack`): what would be
    learnt from an answer then has to wait.

    Raises:
        BackboneError: inside the work, which may propagate it.
    """
    work = Work(steps)
    while not work.done:
        asked = work.asked
        try:
            completions = yield asked
        except BaseException as exc:
            work.fail(exc)
            continue
        why = next((w for c, r in zip(completions, asked, strict=True) if (w := c.why_none(r.module))), "")
        work.fail(BackboneError(why)) if why else work.answer(completions)
    return work.result


def answering_some(steps: Steps[T], given: Callable[[Request], str | None]) -> Steps[T]:
    """Pass a piece of work through, but answer those requests here for which ``given`` returns a text."""
    work = Work(steps)
    while not work.done:
        texts = [given(request) for request in work.asked]
        others = [request for request, text in zip(work.asked, texts, strict=True) if text is None]
        try:
            completions = iter((yield others) if others else ())
        except BaseException as exc:
            work.fail(exc)
        else:
            work.answer([next(completions) if text is None else Completion(text, 0, 0) for text in texts])
    return work.result


def side_by_side(pieces: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Run independent pieces of work together: their concurrent requests form one list.

    If a joint batch of several pieces fails, each piece is asked again alone, so that one bad request fails only its
    own piece.

    Returns:
        the results, in order. An exception raised by one piece ends all of them.
    """
    works: list[Work[T]] = []
    try:
        works += map(Work, pieces)
        while asking := [work for work in works if not work.done]:
            requests = [request for work in asking for request in work.asked]
            try:
                completions = (yield requests) if requests else []
            except Exception as exc:
                yield from _one_by_one([work for work in asking if work.asked], exc)
            else:
                _distribute(asking, completions)
    finally:
        for steps in pieces:
            steps.close()
    return [work.result for work in works]


def _one_by_one(works: Sequence[Work[T]], exc: Exception) -> Steps[None]:
    """Retry each of several pieces whose joint batch failed; a single piece receives the exception."""
    for work in works:
        try:
            if len(works) == 1:
                raise exc
            completions = yield work.asked
        except Exception as failure:
            work.fail(failure)
        else:
            work.answer(completions)


def run_many(pieces: Iterable[tuple[K, Steps[T]]], complete: Complete, width: int) -> Iterator[tuple[K, T]]:
    """Run many pieces of work, at most ``width`` at a time, and yield each result as soon as it is available.

    Each call answers the requests of the module that most pieces are waiting for; the others wait. Rows of a batch are
    then of similar length, and a few long answers of one module do not delay short ones of another. An exception of
    ``complete`` is raised inside every piece that asked; one raised by a piece propagates from this iterator.

    Args:
        pieces: (key, steps) pairs; the key is returned with the result and need not be unique.
        width: at least 1.

    Raises:
        ValueError: ``width`` is under 1.
    """
    if width < 1:
        raise ValueError(f"width={width}; do at least 1 piece of work at once")
    source = iter(pieces)
    under_way: list[tuple[K, Work[T]]] = []
    try:
        while True:
            while len(under_way) < width and (piece := next(source, None)) is not None:
                under_way.append((piece[0], Work(piece[1])))
                if under_way[-1][1].done:
                    key, work = under_way.pop()
                    yield key, work.result
            if not under_way:
                return
            asking = largest_group([work for _, work in under_way])
            requests = [request for work in asking for request in work.asked]
            try:
                completions = complete(requests) if requests else []
            except Exception as exc:
                for work in asking:
                    work.fail(exc)
            else:
                _distribute(asking, completions)
            answered = [pair for pair in under_way if pair[1] in asking]
            waiting = [pair for pair in under_way if pair[1] not in asking]
            under_way = waiting + [pair for pair in answered if not pair[1].done]
            for key, work in answered:
                if work.done:
                    yield key, work.result
    finally:
        for _, work in under_way:  # if one fails, leave no other suspended
            work.close()


def largest_group(works: Sequence[Work[T]]) -> list[Work[T]]:
    """The pieces that ask the most requested module, and those that ask nothing; ties go to the piece that has waited
    longest."""
    modules = Counter(work.asked[0].module for work in works if work.asked)
    most = max(modules, key=lambda module: modules[module], default=None)
    return [work for work in works if not work.asked or work.asked[0].module == most]


def _distribute(works: Sequence[Work[T]], completions: Sequence[Completion]) -> None:
    rest = iter(completions)
    for work in works:
        work.answer(list(islice(rest, len(work.asked))))
