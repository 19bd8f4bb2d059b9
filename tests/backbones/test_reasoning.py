"""Reasoning in what a model says: taken out of whole answers and of streams, in every way that models mark it."""

from __future__ import annotations

import pytest

from ld_agent.backbones.answer_text import AnswerStream, answer_text
from ld_agent.backbones.base import Completion
from ld_agent.backbones.reasoning import opened, text_of, without_reasoning

HARMONY = "<|channel|>analysis<|message|>She keeps newts.<|end|><|start|>assistant"
MARKED = [
    ("<think>\nShe keeps newts.\n</think>\n\nHow many?", "How many?"),
    ("<think>\n\n</think>\n\nHow many?", "How many?"),
    ("<thought>newts</thought>How many?", "How many?"),
    ("<thinking>newts</thinking> How many?", "How many?"),
    ("<THINK>newts</Think>How many?", "How many?"),
    ("Newts! <think>ask</think>How many?", "Newts! How many?"),
    ("<think>a</think>Newts! <think>b</think>How many?", "Newts! How many?"),
    ("<think>no </thought> yet</think>How many?", "How many?"),
    ("<think>newts<|im_end|>", ""),
    ("<think>\nOkay, she keeps", ""),
    ("How many? <think>or not", "How many? "),
    (f"{HARMONY}<|channel|>final<|message|>How many?<|return|>", "How many?"),
    ("<|start|>assistant<|channel|>final<|message|>How many?", "How many?"),
    ("<|channel|>commentary to=count <|constrain|>json<|message|>{}<|call|>", ""),
    ("<|channel|>analysis<|message|>She keeps", ""),
]
UNOPENED = "Okay, she keeps newts.\n</think>\n\nHow many?"
PLAIN = ["How many?", "I think <b>so</b>: 1 < 2.", "It ends with `</think>`, after a `<think>`.", "<thinker>?"]


def streamed(text: str, size: int, *, thinks: bool = False) -> str:
    shown: list[str] = []
    stream = AnswerStream(shown.append, thinks=thinks)
    for start in range(0, len(text), size):
        stream(text[start : start + size])
    return "".join(shown)


@pytest.mark.parametrize(("answer", "expected"), [*MARKED, *((text, text) for text in PLAIN)])
def test_reasoning_is_taken_out_of_whole_answers_and_of_streams(answer: str, expected: str) -> None:
    assert answer_text(answer) == expected
    assert answer_text(expected) == expected
    for size in (1, 3, 1000):
        assert streamed(answer, size) == expected


@pytest.mark.parametrize(("answer", "expected"), MARKED)
def test_a_stream_of_a_model_that_thinks_shows_the_same(answer: str, expected: str) -> None:
    assert streamed(answer, 1, thinks=True) == expected


def test_reasoning_that_no_tag_opens_ends_at_the_tag_that_closes_it() -> None:
    completion = Completion(UNOPENED, 0, 0)
    assert (completion.text, completion.unopened) == ("How many?", True)
    assert streamed(UNOPENED, 1, thinks=True) == "How many?"
    assert streamed(UNOPENED, 1) == "Okay, she keeps newts.\n\n\nHow many?"  # nobody knew; the answer still comes


@pytest.mark.parametrize(
    "answer", ["<think>\nOkay, she", "<think>newts</think>\n", "<|channel|>analysis<|message|>She"]
)
def test_an_answer_of_reasoning_alone_says_so(answer: str) -> None:
    assert Completion(answer, 0, 0).why_none("extractor").startswith("the model's answer was only reasoning; ")
    why = Completion(answer, 0, 0, "length").why_none("extractor")
    assert why.startswith("the limit went to reasoning; raise modules.extractor.max_new_tokens")


def test_an_empty_text_alone_is_an_answer() -> None:
    assert Completion("", 0, 0).why_none("extractor") == ""
    assert Completion("tea", 0, 0, "length").why_none("extractor") == ""


def test_text_of_any_content() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "newts"}]},
        {"type": "reasoning", "text": "newts"},
        {"type": "text", "text": "How many"},
        {"type": "output_text", "text": "newts?"},
        {"type": "image_url", "image_url": {"url": "data:,"}},
    ]
    assert text_of(parts) == "How many\nnewts?\n[image]"
    assert text_of(parts[2:4], "") == "How manynewts?"
    assert (text_of("tea"), text_of(None), text_of([])) == ("tea", "", "")
    assert text_of(["tea"]) is None
    assert text_of({"text": "tea"}) is None


def test_what_a_prompt_leaves_open() -> None:
    assert opened("<|im_start|>assistant\n<think>\n") == "<think>"
    assert opened("<think>\n\n</think>\n\n") == ""
    assert opened("She wrote <think> once.") == ""


def test_ordinary_text_stays_as_it_is() -> None:
    assert without_reasoning("  I think, therefore I am.\n") == "  I think, therefore I am.\n"
