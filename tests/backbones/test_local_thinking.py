"""Local models that reason: Qwen3's own template on a tiny model, templates that open reasoning, and harmony's tokens."""

from pathlib import Path
from typing import Any

import pytest
from local_parts import request
from tiny_models import TEMPLATE, byte_tokenizer, save_model

from ld_agent.backbones import build_backbone
from ld_agent.backbones.base import Message
from ld_agent.backbones.local import LocalBackbone
from ld_agent.backbones.local.chat_tokens import ChatTokens, TextStream
from ld_agent.config.sections import BackboneSection

QWEN3 = (Path(__file__).parent / "qwen3.jinja").read_text(encoding="utf-8")
EMPTY = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
OPENING = TEMPLATE.replace("assistant\n{% endif", "assistant\n<think>\n{% endif")
CHAT = [Message("system", "Be Sam."), Message("user", "Hi"), Message("assistant", "Yo."), Message("user", "Newts?")]


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "qwen3"
    return save_model(folder, "Qwen3ForCausalLM", QWEN3, hidden_size=8, intermediate_size=16, num_hidden_layers=1)


def chat_tokens(template: str, special: tuple[str, ...] = (), **settings: Any) -> ChatTokens:
    tokenizer = byte_tokenizer(template)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|start|>", *special]})
    return ChatTokens(tokenizer, **settings)


def prompt(tokens: ChatTokens, messages: list[Message]) -> str:
    return tokens.decode(tokens.encode_messages(messages))


def test_the_config_decides_whether_qwen3_reasons(qwen3: Path) -> None:
    section = {"model": str(qwen3), "dtype": "float32", "device": "cpu"}
    silent = build_backbone(BackboneSection.model_validate(section))
    assert isinstance(silent, LocalBackbone)
    assert prompt(silent._tokens, CHAT).endswith(f"Newts?<|im_end|>\n{EMPTY}")
    assert "<think>" not in prompt(silent._tokens, CHAT).removesuffix(EMPTY)
    thinking = build_backbone(BackboneSection.model_validate(section | {"thinking": True}))
    assert isinstance(thinking, LocalBackbone)
    assert prompt(thinking._tokens, CHAT).endswith("Newts?<|im_end|>\n<|im_start|>assistant\n")
    assert silent.generate([request("Newts?", tokens=3)])[0].completion_tokens == 3


def test_qwen3_is_trained_and_scored_on_what_its_template_renders(qwen3: Path) -> None:
    backbone = LocalBackbone(str(qwen3), dtype="float32", device="cpu")
    tokens = backbone._tokens
    whole = tokens._tokenizer.apply_chat_template(
        [*({"role": m.role, "content": m.content} for m in CHAT), {"role": "assistant", "content": "Two."}],
        tokenize=False,
    )
    ids = [*tokens.encode_messages(CHAT), *tokens._ids("Two.")]
    assert tokens.decode(ids) == whole.removesuffix("<|im_end|>\n")
    assert tokens.decode(tokens.encode_answer("Two.")) == "Two."
    [likelihood] = backbone.likelihoods([request("Newts?")], ["Two."])
    assert likelihood == backbone.likelihoods([request("Newts?"), request("Tea?")], ["Two.", "No."])[0]


def test_reasoning_that_a_template_opens_is_closed_or_known() -> None:
    assert prompt(chat_tokens(OPENING), CHAT).endswith("assistant\n<think>\n\n</think>\n\n")
    thinking = chat_tokens(OPENING, thinking=True)
    assert prompt(thinking, CHAT).endswith("assistant\n<think>\n")
    pieces: list[str] = []
    TextStream(thinking, pieces.append, thinking.opening([])).update(thinking._ids("newts</think>Two."), last=True)
    assert "".join(pieces) == "<think>newts</think>Two."


def test_an_answer_within_opened_reasoning_is_none(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "llama", "LlamaForCausalLM", OPENING)
    backbone = LocalBackbone(str(folder), dtype="float32", device="cpu", thinking=True)
    pieces: list[str] = []
    [answer] = backbone.generate([request("Hi", tokens=5, on_text=pieces.append)])
    assert (answer.text, answer.lack) == ("", "reasoning")
    assert pieces[0] == "<think>"


def test_special_tokens_are_kept_where_they_mark_reasoning() -> None:
    harmony = chat_tokens(TEMPLATE, ("<|channel|>", "<|message|>"))
    answer = "<|channel|>analysis<|message|>newts<|end|><|start|>assistant<|channel|>final<|message|>Two."
    assert harmony.decode([*harmony._ids(answer), 2]) == answer
    assert harmony.decode(harmony._ids("Two.<|end|>")) == "Two.<|end|>"
    tagged = chat_tokens(TEMPLATE, ("<think>", "</think>"))
    assert tagged.decode(tagged._ids("<think>newts</think>Two.<|end|>")) == "<think>newts</think>Two."
    assert chat_tokens(TEMPLATE).decode(harmony._ids("Two.<|end|>")) == "Two."
