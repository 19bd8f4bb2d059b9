"""How work that needs a model is written: as a generator that yields requests and is sent their completions.

Nothing that decides what to ask then knows who answers, or how many others ask at the same time. `run` carries one such
piece of work through; `run_many` carries many side by side and answers what they ask in one batch, through the same code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeVar

from ld_agent.backbones.base import Completion, Request

T = TypeVar("T")
K = TypeVar("K")
Steps = Generator[Sequence[Request], Sequence[Completion], T]
Waiting = tuple[K, Steps[T], Sequence[Request]]
"""A piece of work with what it asks."""
Complete = Callable[[Sequence[Request]], Sequence[Completion]]


def run(steps: Steps[T], complete: Complete) -> T:
    """Carry one piece of work through; an exception of ``complete`` is raised inside it, where it asked."""
    try:
        requests = next(steps)
        while True:
            try:
                completions = complete(requests) if requests else []
            except BaseException as exc:
                requests = steps.throw(exc)
            else:
                requests = steps.send(completions)
    except StopIteration as stop:
        result: T = stop.value
        return result


def metered(steps: Steps[T], seen: list[Completion]) -> Steps[T]:
    """Pass a piece of work through and note every completion that it is sent in ``seen``."""
    try:
        requests = next(steps)
        while True:
            try:
                completions = yield requests
            except BaseException as exc:
                requests = steps.throw(exc)
            else:
                seen.extend(completions)
                requests = steps.send(completions)
    except StopIteration as stop:
        result: T = stop.value
        return result


def run_many(work: Iterable[tuple[K, Steps[T]]], complete: Complete, width: int) -> Iterator[tuple[K, T]]:
    """Carry many pieces of work through, at most ``width`` of them at once, and yield each result as it is there.

    What most of them ask of one module is answered in one call, while the others wait until they are most: rows of a
    batch are then alike in length, and the few long answers of one module keep no short ones of another waiting. An
    exception of ``complete`` is raised inside all that asked; one that leaves a piece of work leaves this iterator too.

    Args:
        work: (key, steps) pairs; the key comes back with the result, and need not be unique.
        width: at least 1.

    Raises:
        ValueError: ``width`` is under 1.
    """
    if width < 1:
        raise ValueError(f"width={width}; carry at least 1 piece of work at once")
    source = iter(work)
    waiting: list[Waiting[K, T]] = []
    asked: list[Waiting[K, T]] = []
    drained = False
    try:
        while waiting or not drained:
            while not drained and len(waiting) < width:
                item = next(source, None)
                if item is None:
                    drained = True
                    break
                key, steps = item
                try:
                    waiting.append((key, steps, next(steps)))
                except StopIteration as stop:
                    yield key, stop.value
            asked, waiting = _largest_group(waiting)
            failure: Exception | None = None
            completions: Sequence[Completion] = []
            requests = [request for _, _, own in asked for request in own]
            try:
                completions = complete(requests) if requests else []
            except Exception as exc:
                failure = exc
            start = 0
            for key, steps, own in asked:
                answers = completions[start : start + len(own)]
                start += len(own)
                try:
                    waiting.append((key, steps, steps.send(answers) if failure is None else steps.throw(failure)))
                except StopIteration as stop:
                    yield key, stop.value
    finally:
        for _, steps, _ in [*waiting, *asked]:  # a failure of one leaves no other suspended
            steps.close()


def _largest_group(waiting: Sequence[Waiting[K, T]]) -> tuple[list[Waiting[K, T]], list[Waiting[K, T]]]:
    """Part those that ask what most ask, and those that ask nothing, from the others; the longest waiting win a draw."""
    modules = Counter(requests[0].module for _, _, requests in waiting if requests)
    most = max(modules, key=lambda module: modules[module], default=None)
    asked = [one for one in waiting if not one[2] or one[2][0].module == most]
    return asked, [one for one in waiting if one[2] and one[2][0].module != most]
