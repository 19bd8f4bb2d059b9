"""What a model said, whole and in pieces: without its reasoning, characters no store takes, and template tokens."""

import pytest

from ld_agent.backbones import answer_text
from ld_agent.backbones.answer_text import AnswerStream, cleaned, opened
from ld_agent.backbones.base import Completion
from ld_agent.backbones.client_message import text_of

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
    ("<think>\nOkay, she keeps", ""),
    ("How many? <think>or not", "How many? "),
    (f"{HARMONY}<|channel|>final<|message|>How many?<|return|>", "How many?"),
    ("<|start|>assistant<|channel|>final<|message|>How many?", "How many?"),
    ("<|channel|>commentary to=count <|constrain|>json<|message|>{}<|call|>", ""),
]
CLEANED = [
    ("I like tea.", "I like tea."),
    ("Tea\n\tand milk 🐝", "Tea\n\tand milk 🐝"),
    ("a list: [x] <b> 1 < 2, I <3 tea", "a list: [x] <b> 1 < 2, I <3 tea"),
    # halves of characters
    ("I like tea \ud83d", "I like tea "),
    ("\ude00 I like tea", " I like tea"),
    ("tea \ud83d\ude00!", "tea \U0001f600!"),
    # controls
    ("a\x00b\x07c\x7f\x9dd", "abcd"),
    ("a\r\nb\rc\x0bd\x0ce\x85f\u2028g", "a\nb\nc\nd\ne\nf\ng"),
    ("\x1b[31;1mred\x1b[0m \x9b2Jgone \x1b", "red gone "),
    # template tokens
    ("<|im_start|>assistant\nI like tea.<|im_end|>", "I like tea."),
    ("<|start_header_id|>assistant<|end_header_id|>\n\nI like tea.<|eot_id|>", "I like tea."),
    ("<start_of_turn>model\nI like tea.<end_of_turn>\n<start_of_turn>user\nMe too.", "I like tea."),
    ("<|im_end|>I like tea.", "I like tea."),
    ("<s>I like tea.</s>", "I like tea."),
    ("[INST]I like tea.[/INST]", "I like tea."),
    ("<｜end▁of▁sentence｜>I like tea.", "I like tea."),
    ("<|im_<|x|>end|>", "< |im_end|>"),
    ("<|im_end|>", ""),
    ("", ""),
]
UNOPENED = "Okay, she keeps newts.\n</think>\n\nHow many?"
PLAIN = ["How many?", "I think <b>so</b>: 1 < 2.", "It ends with `</think>`, after a `<think>`.", "<thinker>?"]


def streamed(text: str, size: int, *, thinks: bool = False) -> str:
    shown: list[str] = []
    stream = AnswerStream(shown.append, thinks=thinks)
    for start in range(0, len(text), size):
        stream(text[start : start + size])
    return "".join(shown)


@pytest.mark.parametrize(("answer", "expected"), [*MARKED, *CLEANED, *((text, text) for text in PLAIN)])
def test_an_answer_is_the_same_whole_and_streamed(answer: str, expected: str) -> None:
    assert Completion(answer, 0, 0).text == expected
    assert cleaned(expected).text == expected
    expected.encode()
    for size in (1, 3, 1000):
        if "<|x|>" not in answer:  # taken apart at the end only
            assert streamed(answer, size) == expected
    if (answer, expected) in MARKED:
        assert streamed(answer, 1, thinks=True) == expected


def test_a_long_answer_is_not_read_again_at_every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second for 6,000 words, and not a minute."""
    answer, read = " ".join(f"newt{number}" for number in range(6_000)), list[int]()

    def counted(text: str) -> answer_text.Split:
        read.append(len(text))
        return cleaned(text)

    monkeypatch.setattr(answer_text, "cleaned", counted)
    shown = streamed(answer, 5)
    assert answer.startswith(shown)
    assert len(shown) > 0.95 * len(answer)
    assert sum(read) < 50 * len(answer)
    assert streamed(answer[:2_000], 5) == answer[:2_000]


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


def test_deeply_nested_tokens_are_cleaned_in_one_pass():
    answer = "<|a" * 20_000 + "|>" * 20_000
    assert len(cleaned(answer).text) <= 2 * len(answer)
