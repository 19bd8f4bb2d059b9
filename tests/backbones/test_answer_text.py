"""What a model said, cleaned once: characters no store takes, terminal control, template tokens; whole and in pieces."""

from __future__ import annotations

import pytest

from ld_agent.backbones.answer_text import AnswerStream, answer_text
from ld_agent.backbones.base import Completion

ANSWERS = [
    ("I like tea.", "I like tea."),
    ("Tea\n\tand milk 🐝", "Tea\n\tand milk 🐝"),
    ("a list: [x] <b> 1 < 2, I <3 tea", "a list: [x] <b> 1 < 2, I <3 tea"),
    # halves of characters
    ("I like tea \ud83d", "I like tea "),
    ("\ude00 I like tea", " I like tea"),
    ("tea \ud83d\ude00!", "tea \U0001f600!"),
    ("a\ud83d\ud83d\ude00b", "a\U0001f600b"),
    # controls
    ("a\x00b\x07c\x7f\x9dd", "abcd"),
    ("a\r\nb\rc\x0bd\x0ce\x85f\u2028g", "a\nb\nc\nd\ne\nf\ng"),
    ("\x1b[31;1mred\x1b[0m \x9b2Jgone \x1b", "red gone "),
    # template tokens
    ("<|im_start|>assistant\nI like tea.<|im_end|>", "I like tea."),
    ("<|start_header_id|>assistant<|end_header_id|>\n\nI like tea.<|eot_id|>", "I like tea."),
    ("<start_of_turn>model\nI like tea.<end_of_turn>\n<start_of_turn>user\nMe too.", "I like tea."),
    ("I like tea.<|im_end|>\n<|im_start|>user\nMe too.", "I like tea."),
    ("<|im_end|>I like tea.", "I like tea."),
    ("<s>I like tea.</s>", "I like tea."),
    ("[INST]I like tea.[/INST]", "I like tea."),
    ("<｜end▁of▁sentence｜>I like tea.", "I like tea."),
    ("<|im_<|x|>end|>", "< |im_end|>"),
    ("<|im_end|>", ""),
    ("", ""),
]


@pytest.mark.parametrize(("answer", "expected"), ANSWERS)
def test_an_answer_is_cleaned_on_entry(answer: str, expected: str):
    assert Completion(answer, 0, 0).text == expected
    assert answer_text(expected) == expected
    expected.encode()


@pytest.mark.parametrize(("answer", "expected"), ANSWERS)
def test_pieces_show_the_beginning_of_the_cleaned_answer(answer: str, expected: str):
    shown: list[str] = []
    stream = AnswerStream(shown.append)
    for character in answer:
        stream(character)
    if "<|x|>" not in answer:  # taken apart at the end only
        assert expected == "".join(shown)


def test_deeply_nested_tokens_are_cleaned_in_one_pass():
    answer = "<|a" * 20_000 + "|>" * 20_000
    assert len(answer_text(answer)) <= 2 * len(answer)
