"""Model calls of many callers in shared batches: what one caller does wrong stops that caller alone."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from test_turnstile import until

from ld_agent.backbones.base import Completion, Message, Request
from ld_agent.errors import BackboneError
from ld_agent.running.collector import Collector, Collectors
from ld_agent.steps import GaveWay

PATIENCE = 30.0


def asked(text: str, module: str = "generator", on_text: Callable[[str], None] | None = None) -> Request:
    return Request((Message("user", text),), module, 16, on_text=on_text)


class Model:
    """Answers each request with its own text in capitals; its first call waits until it may go on."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.started, self.go_on = threading.Event(), threading.Event()

    def __call__(self, requests: Sequence[Request]) -> list[Completion]:
        texts = [request.messages[-1].content for request in requests]
        self.batches.append(texts)
        if len(self.batches) == 1:
            self.started.set()
            assert self.go_on.wait(PATIENCE)
        if "bad" in texts:
            raise BackboneError("the model is away")
        for request, text in zip(requests, texts, strict=True):
            if request.on_text is not None:
                request.on_text(text)
        return [Completion(text.upper(), 1, 1) for text in texts]


def answers(model: Model, later: Sequence[Sequence[Request]], most: int = 16) -> list[Future[list[str]]]:
    """What callers are answered that ask while the model is busy with a first one, in the order of asking."""
    collector = Collector(model, most)

    def ask(requests: Sequence[Request]) -> list[str]:
        return [completion.text for completion in collector.complete(requests)]

    with ThreadPoolExecutor(len(later) + 1) as pool:
        pool.submit(ask, [asked("first")])
        try:
            assert model.started.wait(PATIENCE)
            futures = []
            for number, requests in enumerate(later, 1):
                futures.append(pool.submit(ask, requests))
                until(lambda number=number: len(collector._waiting) == number)
        finally:
            model.go_on.set()
    collector.close()
    return futures


def test_who_asks_while_the_model_is_busy_is_answered_in_one_batch() -> None:
    model = Model()
    later = [[asked(f"a{n}"), asked(f"b{n}")] for n in range(5)]
    got = answers(model, later)
    assert [future.result() for future in got] == [[f"A{n}", f"B{n}"] for n in range(5)]
    assert model.batches == [["first"], [request.messages[-1].content for job in later for request in job]]


def test_a_batch_has_one_module_and_no_more_than_it_may_have() -> None:
    model = Model()
    later = [[asked("e", "extractor")], *([asked(f"g{n}")] for n in range(3))]
    assert [f.result() for f in answers(model, later, most=2)] == [["E"], ["G0"], ["G1"], ["G2"]]
    assert sorted(map(sorted, model.batches[1:])) == [["e"], ["g0", "g1"], ["g2"]]


def test_work_that_gives_way_ends_when_somebody_waits_for_its_model() -> None:
    model, wanted = Model(), [False]
    collectors = Collectors(model, lambda module: "one")
    giving_way = collectors.giving_way(lambda: wanted[0])
    with ThreadPoolExecutor(2) as pool:
        learned = pool.submit(giving_way, [asked("history", "extractor")])
        assert model.started.wait(PATIENCE)
        replied = pool.submit(collectors.complete, [asked("hello")])
        [collector] = collectors._collectors.values()
        until(lambda: collector.wanted)
        model.go_on.set()
        with pytest.raises(GaveWay):
            learned.result()
        assert replied.result()[0].text == "HELLO"
    assert giving_way([asked("history")])[0].text == "HISTORY"
    wanted[0] = True
    with pytest.raises(GaveWay):
        giving_way([asked("history")])
    collectors.close()


def test_a_listener_that_raises_stops_its_own_caller_only() -> None:
    def leave(piece: str) -> None:
        raise KeyboardInterrupt

    heard: list[str] = []
    left, stayed = answers(Model(), [[asked("a", on_text=leave)], [asked("b", on_text=heard.append)]])
    assert isinstance(left.exception(), KeyboardInterrupt)
    assert stayed.result() == ["B"]
    assert heard == ["b"]


def test_a_model_that_fails_fails_the_callers_of_that_batch_only() -> None:
    model = Model()
    one, two, other = answers(model, [[asked("bad")], [asked("good")], [asked("e", "extractor")]])
    for failed in (one, two):
        assert str(failed.exception()) == "the model is away"
    assert other.result() == ["E"]


@pytest.mark.anyio
async def test_who_asks_a_concurrent_model_neither_waits_for_others_nor_fails_with_them() -> None:
    model = Model()
    collectors = Collectors(model, lambda module: "", lambda module: True)
    slow = asyncio.ensure_future(collectors.acomplete([asked("slow")]))
    while not model.started.is_set():
        await asyncio.sleep(0)
    try:
        others = [collectors.acomplete([asked(text)]) for text in ("bad", "good")]
        bad, good = await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), PATIENCE)
        assert (str(bad), good[0].text, slow.done()) == ("the model is away", "GOOD", False)
        assert collectors.complete([asked("here")])[0].text == "HERE"
    finally:
        model.go_on.set()
    assert (await slow)[0].text == "SLOW"
    collectors.close()


@pytest.mark.anyio
async def test_coroutines_share_batches_with_threads_and_the_loop_stays_free() -> None:
    model = Model()
    collector = Collector(model)

    async def ask(text: str) -> str:
        [completion] = await collector.acomplete([asked(text)])
        return completion.text

    tasks = [asyncio.ensure_future(ask("first"))]
    while not model.started.is_set():
        await asyncio.sleep(0)
    tasks += [asyncio.ensure_future(ask(f"a{n}")) for n in range(4)]
    while len(collector._waiting) < 4:
        await asyncio.sleep(0)
    model.go_on.set()
    assert await asyncio.gather(*tasks) == ["FIRST", "A0", "A1", "A2", "A3"]
    assert [len(batch) for batch in model.batches] == [1, 4]
    collector.close()


def test_a_slow_model_does_not_delay_requests_to_another() -> None:
    started, go_on = threading.Event(), threading.Event()
    batches: list[list[str]] = []

    def complete(requests: Sequence[Request]) -> list[Completion]:
        batches.append([request.module for request in requests])
        if requests[0].module == "generator":
            started.set()
            assert go_on.wait(PATIENCE)
        return [Completion(request.module, 1, 1) for request in requests]

    collectors = Collectors(complete, {"generator": "far", "extractor": "near", "summarizer": "near"}.__getitem__)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(collectors.complete, [asked("a", "generator"), asked("b", "extractor")])
        try:
            assert started.wait(PATIENCE)
            answers = collectors.complete([asked("c", "summarizer"), asked("d", "extractor")])
            assert [answer.text for answer in answers] == ["summarizer", "extractor"]
            [answer] = asyncio.run(collectors.acomplete([asked("e", "extractor")]))
            assert answer.text == "extractor"
            assert not slow.done()
        finally:
            go_on.set()
        assert [answer.text for answer in slow.result()] == ["generator", "extractor"]
    assert batches == [["generator"], ["summarizer", "extractor"], ["extractor"], ["extractor"]]
    collectors.close()


def test_a_caller_that_fails_alone_gets_the_exception_itself() -> None:
    collector = Collector(lambda requests: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        collector.complete([asked("a")])
