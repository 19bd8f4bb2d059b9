"""One caller at a time, in the order of arrival, from threads and coroutines alike."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from ld_agent.errors import ConversationBusyError
from ld_agent.running.turnstile import Turnstile

PATIENCE = 30.0
pytestmark = pytest.mark.anyio


def until(condition: Callable[[], bool]) -> None:
    """Give other threads the processor until something has happened; a watchdog ends a test that hangs."""
    gate, left = threading.Event(), int(PATIENCE * 1000)
    while not condition():
        left -= 1
        assert left, "nothing happened"
        gate.wait(0.001)


def queued(turnstile: Turnstile) -> int:
    return len(turnstile._queue)


async def until_queued(turnstile: Turnstile, count: int) -> None:
    while queued(turnstile) < count:
        await asyncio.sleep(0)


def check_free(turnstile: Turnstile) -> None:
    with turnstile.entered(waits=False):
        pass


def test_threads_and_coroutines_are_let_in_in_the_order_of_arrival() -> None:
    turnstile, order = Turnstile("it", waits=True), list[int]()

    def in_thread(number: int) -> None:
        with turnstile.entered():
            order.append(number)

    async def in_coroutine(number: int) -> None:
        async with turnstile.aentered():
            order.append(number)

    workers = []
    with turnstile.entered():
        for number in range(6):
            if number % 2:
                worker = threading.Thread(target=in_thread, args=(number,))
            else:
                worker = threading.Thread(target=lambda number=number: asyncio.run(in_coroutine(number)))
            worker.start()
            workers.append(worker)
            until(lambda number=number: queued(turnstile) == number + 1)
        assert order == []
    for worker in workers:
        worker.join(PATIENCE)
    assert order == list(range(6))
    check_free(turnstile)


def test_a_caller_that_does_not_wait_is_refused_and_the_turnstile_is_free_afterwards() -> None:
    turnstile, refused = Turnstile("conversation 'maya'", waits=False), list[str]()

    def enter() -> None:
        try:
            with turnstile.entered():
                refused.append("entered")
        except ConversationBusyError as exc:
            refused.append(str(exc))

    with turnstile.entered():
        worker = threading.Thread(target=enter)
        worker.start()
        worker.join(PATIENCE)
    assert refused == [
        "conversation 'maya' is in use by another caller; wait for its turn to end, or use another conversation"
    ]
    enter()
    assert refused[1:] == ["entered"]


def test_a_caller_that_would_wait_for_itself_is_refused() -> None:
    turnstile = Turnstile("it", waits=True)
    with turnstile.entered():
        with pytest.raises(ConversationBusyError), turnstile.entered():
            pass
        with pytest.raises(ConversationBusyError), turnstile.entered(waits=False):
            pass
    check_free(turnstile)


async def test_a_synchronous_call_that_would_block_the_event_loop_of_the_one_inside_is_refused() -> None:
    turnstile = Turnstile("it", waits=True)

    def enter() -> None:
        with turnstile.entered():
            pass

    async with turnstile.aentered():
        with pytest.raises(ConversationBusyError, match="await the asynchronous call"):
            enter()
        in_a_thread = asyncio.ensure_future(asyncio.to_thread(enter))
        await until_queued(turnstile, 1)
    await in_a_thread
    enter()


async def test_a_synchronous_call_behind_a_coroutine_that_waits_on_its_own_loop_is_refused() -> None:
    turnstile, inside, leave = Turnstile("it", waits=True), threading.Event(), threading.Event()

    def stay() -> None:
        with turnstile.entered():
            inside.set()
            assert leave.wait(PATIENCE)

    async def enter() -> None:
        async with turnstile.aentered():
            pass

    staying = asyncio.ensure_future(asyncio.to_thread(stay))
    await asyncio.to_thread(inside.wait, PATIENCE)
    waiting = asyncio.ensure_future(enter())
    await until_queued(turnstile, 1)
    with pytest.raises(ConversationBusyError, match="event loop"), turnstile.entered():
        pass
    leave.set()
    await asyncio.gather(staying, waiting)


def test_an_exception_inside_lets_the_next_one_in() -> None:
    turnstile = Turnstile("it", waits=True)
    with pytest.raises(ValueError), turnstile.entered():  # noqa: PT011
        raise ValueError
    check_free(turnstile)


async def test_a_waiter_that_is_cancelled_is_passed_over() -> None:
    turnstile, order = Turnstile("it", waits=True), list[str]()

    async def enter(name: str) -> None:
        async with turnstile.aentered():
            order.append(name)

    async with turnstile.aentered():
        first, second, third = (asyncio.ensure_future(enter(name)) for name in ("first", "second", "third"))
        await until_queued(turnstile, 3)
        second.cancel()
        await asyncio.sleep(0)
    await asyncio.gather(first, third)
    assert second.cancelled()
    assert order == ["first", "third"]
    check_free(turnstile)


async def test_a_waiter_cancelled_on_admission_leaves() -> None:
    turnstile = Turnstile("it", waits=True)

    async def enter() -> None:
        async with turnstile.aentered():
            raise AssertionError("it was cancelled")

    async with turnstile.aentered():
        waiter = asyncio.ensure_future(enter())
        await until_queued(turnstile, 1)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    check_free(turnstile)


async def test_who_waits_with_a_coroutine_takes_a_thread_only_once_it_is_let_in() -> None:
    turnstile, order = Turnstile("it", waits=True), list[str]()
    free = threading.Semaphore(1)

    async def in_thread(work: Callable[[], None]) -> None:
        assert free.acquire(blocking=False), "two took a thread at once"
        try:
            await asyncio.to_thread(work)
        finally:
            free.release()

    def work(name: str) -> None:
        with turnstile.entered(), turnstile.entered(waits=False):
            order.append(name)

    async with turnstile.aentered():
        lent = [asyncio.create_task(turnstile.alent(lambda name=name: work(name), in_thread)) for name in "abc"]
        await until_queued(turnstile, 3)
        assert order == []
    await asyncio.gather(*lent)
    assert order == list("abc")


async def test_nobody_enters_before_the_thread_of_a_cancelled_caller_has_ended() -> None:
    turnstile, working, go_on = Turnstile("it", waits=True), threading.Event(), threading.Event()

    def work() -> None:
        working.set()
        assert go_on.wait(PATIENCE)

    lent = asyncio.create_task(turnstile.alent(work, asyncio.to_thread))
    while not working.is_set():
        await asyncio.sleep(0)
    lent.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    with pytest.raises(ConversationBusyError):
        turnstile._ticket(False)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await lent
    assert turnstile._ticket(False) is None
