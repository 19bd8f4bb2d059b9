"""Work written as steps: one at a time, side by side, counted, and when the model fails."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from ld_agent.backbones.base import Completion, Message, Request
from ld_agent.errors import BackboneError
from ld_agent.steps import GaveWay, Steps, arun, metered, run, run_many


def request(text: str) -> Request:
    """Of the module that stands before a colon in the text, if one does."""
    module = text.split(":")[0] if ":" in text else "generator"
    return Request((Message("user", text),), module, 8)


class Echo:
    """Says every prompt back and notes what was asked together; refuses what says "fail"."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def __call__(self, requests: Sequence[Request]) -> list[Completion]:
        texts = [r.messages[0].content for r in requests]
        self.batches.append(texts)
        if "fail" in texts:
            raise BackboneError("no answer")
        return [Completion(text.upper(), len(text), 1) for text in texts]


def asking(*rounds: Sequence[str]) -> Steps[list[str]]:
    """Ask for each round's texts together and return all answers."""
    answers: list[str] = []
    for texts in rounds:
        completions = yield [request(text) for text in texts]
        answers += [c.text for c in completions]
    return answers


def recovering() -> Steps[str]:
    """Fail, notice it inside, and go on asking."""
    try:
        yield [request("fail")]
    except BackboneError:
        completions = yield [request("again")]
        return completions[0].text
    return "did not fail"


def test_a_failure_is_raised_at_its_request():
    assert run(recovering(), Echo()) == "AGAIN"
    with pytest.raises(BackboneError, match="no answer"):
        run(asking(["fail"]), Echo())


def test_an_interrupt_is_raised_inside_too():
    closed: list[bool] = []

    def work() -> Steps[str]:
        try:
            yield [request("a")]
        except KeyboardInterrupt:
            closed.append(True)
            return "kept"
        return "not interrupted"

    def interrupt(requests: Sequence[Request]) -> list[Completion]:
        raise KeyboardInterrupt

    assert run(work(), interrupt) == "kept"
    assert closed == [True]


def test_work_is_ended_between_two_steps_if_somebody_waits():
    model, ended = Echo(), list[bool]()

    def work() -> Steps[None]:
        try:
            yield [request("a")]
            yield ()
            yield [request("b")]
        except GaveWay:
            ended.append(True)
            raise

    with pytest.raises(GaveWay):
        run(work(), model, lambda: len(model.batches) == 1)
    assert (model.batches, ended) == ([["a"]], [True])


def test_metered_notes_every_completion_and_changes_nothing():
    seen: list[Completion] = []
    assert run(metered(asking(["a", "bb"], ["ccc"]), seen), Echo()) == ["A", "BB", "CCC"]
    assert [c.prompt_tokens for c in seen] == [1, 2, 3]
    assert run(metered(recovering(), seen), Echo()) == "AGAIN"
    assert len(seen) == 4


def test_side_by_side_work_is_asked_in_one_batch():
    echo = Echo()
    work = [("x", asking(["a1"], ["a2"])), ("y", asking(["b1", "b2"])), ("z", asking(["c1"], ["c2"], ["c3"]))]
    results = list(run_many(work, echo, width=3))
    assert results == [("y", ["B1", "B2"]), ("x", ["A1", "A2"]), ("z", ["C1", "C2", "C3"])]  # as each is done
    assert echo.batches == [["a1", "b1", "b2", "c1"], ["a2", "c2"], ["c3"]]


def test_what_most_ask_of_one_module_is_answered_first():
    echo = Echo()
    work = [
        ("x", asking(["extractor:x1"], ["summarizer:x2"], ["extractor:x3"])),
        ("y", asking(["extractor:y1"], [], ["extractor:y2"], ["summarizer:y3"])),
        ("z", asking(["extractor:z1"], ["extractor:z2"], ["extractor:z3"])),
    ]
    assert dict(run_many(work, echo, width=3))["x"] == ["EXTRACTOR:X1", "SUMMARIZER:X2", "EXTRACTOR:X3"]
    assert echo.batches == [
        ["extractor:x1", "extractor:y1", "extractor:z1"],
        ["summarizer:x2"],  # y asks nothing now, so x draws with z and came first
        ["extractor:z2", "extractor:x3", "extractor:y2"],
        ["extractor:z3"],
        ["summarizer:y3"],
    ]


def test_no_more_than_the_width_runs_concurrently():
    echo = Echo()
    begun: list[int] = []

    def work(number: int) -> Steps[int]:
        begun.append(number)
        yield [request(f"{number}a")]
        yield [request(f"{number}b")]
        return number

    results = []
    for key, value in run_many(((i, work(i)) for i in range(5)), echo, width=2):
        results.append((key, value))
        assert len(begun) - len(results) <= 2
    assert results == [(i, i) for i in range(5)]
    assert max(len(batch) for batch in echo.batches) == 2
    assert echo.batches[0] == ["0a", "1a"]


@pytest.mark.parametrize("width", [1, 2, 7])
def test_the_width_changes_no_result(width: int):
    work = [(i, asking(*[[f"{i}.{j}"] for j in range(i % 4)])) for i in range(9)]
    assert dict(run_many(work, Echo(), width)) == {i: [f"{i}.{j}" for j in range(i % 4)] for i in range(9)}


def test_a_failure_is_raised_inside_all_that_asked():
    assert list(run_many([(1, recovering()), (2, recovering())], Echo(), width=2)) == [(1, "AGAIN"), (2, "AGAIN")]
    with pytest.raises(BackboneError):
        list(run_many([(1, recovering()), (2, asking(["a"]))], Echo(), width=2))


def test_an_interrupt_leaves_immediately():
    def interrupt(requests: Sequence[Request]) -> list[Completion]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_many([(1, recovering())], interrupt, width=1))


def test_a_width_of_zero_is_refused():
    with pytest.raises(ValueError, match="width=0"):
        list(run_many([(1, asking(["a"]))], Echo(), width=0))


@pytest.mark.parametrize("failure", [BackboneError("no answer"), KeyboardInterrupt()])
def test_what_a_failure_leads_to_holds_up_no_event_loop(failure: BaseException):
    """An interrupted reply is stored, for instance."""

    def storing() -> Steps[int]:
        try:
            yield [request("a")]
        except type(failure):
            return threading.get_ident()
        raise AssertionError

    async def complete(requests: Sequence[Request]) -> list[Completion]:
        raise failure

    assert asyncio.run(arun(storing(), complete)) != threading.get_ident()


def test_a_closed_coroutine_ends_its_work():
    ended = []

    def work() -> Steps[None]:
        try:
            yield [request("a")]
        finally:
            ended.append(True)

    async def never(requests: Sequence[Request]) -> list[Completion]:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def begun() -> None:
        await asyncio.wait([asyncio.ensure_future(arun(work(), never))], timeout=0)

    asyncio.run(begun())
    assert ended == [True]
