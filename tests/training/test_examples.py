"""Tokenized rows, in batches of similar length; and the loss of their answers, which is that of all logits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from backbones.tiny_models import byte_tokenizer, save_model

from ld_agent.backbones.base import Message
from ld_agent.backbones.local import LocalBackbone
from ld_agent.backbones.local.chat_tokens import ChatTokens
from ld_agent.errors import DataFileError
from training.answers import AnswerLogits, answer_losses
from training.examples import IGNORED, Collator, Example, LengthGrouped, encode
from training.rows import Row


def row(text: str, target: str) -> Row:
    return Row((Message("user", text),), target, Path("rows.jsonl"), 7)


def test_ids_equal_those_of_the_backbone(tiny_llama: Path):
    given = row("What <|end|> is it?", "A dog.")
    tokens = ChatTokens(byte_tokenizer())
    example = encode(given, tokens, 128, None, None)
    assert list(example.prompt) == LocalBackbone(str(tiny_llama), device="cpu").encode_messages(given.prompt)
    assert list(example.answer) == tokens.encode_answer("A dog.")
    assert example.answer[-1] == 0
    assert example.cut == 0


def test_a_long_prompt_is_truncated_and_the_target_is_not():
    tokens = ChatTokens(byte_tokenizer())
    whole = encode(row("abcdefghij" * 6, "A dog."), tokens, 200, None, None)
    cut = encode(row("abcdefghij" * 6, "A dog."), tokens, 60, None, None)
    _, head = tokens.encode(row("abcdefghij" * 6, "").prompt)
    assert head > 0
    assert len(cut) == 60
    assert cut.answer == whole.answer
    assert cut.prompt[:head] == whole.prompt[:head]
    assert cut.prompt[head:] == whole.prompt[len(whole.prompt) - (len(cut.prompt) - head) :]
    assert cut.cut == len(whole.prompt) - len(cut.prompt)


@pytest.mark.parametrize(("start", "window"), [(None, 9), ([1], 8)])
def test_an_overlong_target_is_named_by_file_and_line(start: list[int] | None, window: int):
    tokens = ChatTokens(byte_tokenizer(), start is not None)
    with pytest.raises(DataFileError, match=rf"rows.jsonl, line 7: the target has 9 tokens.*max_length={window}"):
        encode(row("Hi", "12345678"), tokens, window, start, None)
    assert encode(row("Hi", "12345678"), tokens, window + 1, start, None).answer


def test_an_encoder_decoder_answer_begins_with_the_forced_token():
    tokens = ChatTokens(byte_tokenizer(None), True)
    assert list(encode(row("Hi", "no"), tokens, 50, [1], 1).answer) == [1, *tokens.encode_answer("no")]


def test_batches_are_padded_on_the_right():
    batch = Collator(2, None)([Example([5, 6], [7]), Example([8], [9])])
    assert batch["input_ids"].tolist() == [[5, 6, 7], [8, 9, 2]]
    assert batch["labels"].tolist() == [[-100, -100, 7], [-100, 9, -100]]
    assert set(batch) == {"input_ids", "labels"}
    batch = Collator(2, [1])([Example([5, 6], [7]), Example([8], [9, 0])])
    assert batch["input_ids"].tolist() == [[5, 6], [8, 2]]
    assert batch["attention_mask"].tolist() == [[1, 1], [1, 0]]
    assert batch["decoder_input_ids"].tolist() == [[1, 2], [1, 9]]
    assert batch["labels"].tolist() == [[7, -100], [9, 0]]


@pytest.fixture
def order() -> Callable[[int, int], list[int]]:
    lengths = [(37 * n) % 101 for n in range(1003)]

    def indices(seed: int, epoch: int) -> list[int]:
        sampler = LengthGrouped(lengths, 8, seed)
        sampler.epoch = epoch
        assert len(sampler) == 1003
        return list(sampler)

    return indices


def test_every_row_appears_once_in_an_order_given_by_seed_and_epoch(order: Callable[[int, int], list[int]]):
    assert sorted(order(1, 0)) == list(range(1003))
    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1) != order(2, 1) != order(1, 0)


def test_batches_have_similar_lengths_and_random_order(order: Callable[[int, int], list[int]]):
    lengths = [(37 * n) % 101 for n in order(3, 0)]
    batches = [lengths[n : n + 8] for n in range(0, 1000, 8)]
    assert sum(max(b) - min(b) for b in batches) / len(batches) < 8
    longest = [max(b) for b in batches]
    assert longest != sorted(longest)
    assert longest != sorted(longest, reverse=True)


EXAMPLES = [Example([5, 6, 7, 8, 9], [10, 11]), Example([20], [21]), Example([30, 31], [32, 33, 34, 35])]
KINDS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {},
    "Qwen3ForCausalLM": {},
    "GPT2LMHeadModel": {},
    "Gemma2ForCausalLM": {"final_logit_softcapping": 0.5, "query_pre_attn_scalar": 4},
    "GraniteForCausalLM": {"logits_scaling": 7.0},
}


def loaded(folder: Path, kind: str, **settings: Any) -> Any:
    import transformers

    return getattr(transformers, kind).from_pretrained(save_model(folder, kind, **settings), dtype=torch.float32).eval()


def narrowed(model: Any) -> bool:
    return bool(model.get_output_embeddings()._forward_pre_hooks)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_loss_equals_that_of_all_logits(tmp_path: Path, kind: str):
    model = loaded(tmp_path / kind, kind, **KINDS[kind])
    batch = Collator(0, None)(EXAMPLES)
    mask = torch.tensor([[1] * 7, [1] * 2 + [0] * 5, [1] * 6 + [0]])
    whole = model(input_ids=batch["input_ids"], attention_mask=mask).logits[:, :-1].flatten(0, 1)
    expected = F.cross_entropy(whole, batch["labels"][:, 1:].flatten(), ignore_index=IGNORED)
    model.zero_grad()
    expected.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}

    seen: list[torch.Size] = []
    compute = AnswerLogits(model, encoder_decoder=False)
    model.get_output_embeddings().register_forward_hook(lambda layer, args, out: seen.append(out.shape))
    logits, targets, rows = compute(model, batch)
    assert narrowed(model)
    assert [tuple(shape[:2]) for shape in seen] == [(1, 7)]
    assert targets.tolist() == [10, 11, 21, 32, 33, 34, 35]
    assert rows.tolist() == [0, 0, 1, 2, 2, 2, 2]
    assert model(input_ids=torch.tensor([[5, 6, 7]])).logits.shape == (1, 3, 259)  # other callers get all
    model.zero_grad()
    loss = answer_losses(logits, targets).mean()
    loss.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-3, atol=1e-5)


def test_an_unknown_layout_falls_back_to_all_logits(tmp_path: Path):
    """As in ChatGLM, time comes first, so rows and tokens of the layer's input are swapped."""
    model = loaded(tmp_path / "llama", "LlamaForCausalLM")
    head = model.lm_head

    class TimeFirst(torch.nn.Module):
        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.layer(hidden.transpose(0, 1)).transpose(0, 1)
            return out

    model.lm_head = TimeFirst()
    model.lm_head.layer = head
    model.get_output_embeddings = lambda: head
    batch = Collator(0, None)(EXAMPLES)
    whole = model(input_ids=batch["input_ids"]).logits
    compute = AnswerLogits(model, encoder_decoder=False)
    assert not head._forward_pre_hooks
    logits, _, _ = compute(model, batch)
    torch.testing.assert_close(logits[0], whole[0, 4])


def test_an_encoder_decoder_model_answers_from_its_labels(tmp_path: Path):
    model = loaded(tmp_path / "bart", "BartForConditionalGeneration", template=None)
    batch = Collator(2, [1])(EXAMPLES)
    logits, targets, rows = AnswerLogits(model, encoder_decoder=True)(model, batch)
    assert targets.tolist() == [10, 11, 21, 32, 33, 34, 35]
    alone = Collator(2, [1])(EXAMPLES[1:2])
    expected = model(input_ids=torch.tensor([[20]]), labels=alone["labels"], decoder_input_ids=torch.tensor([[1]])).loss
    torch.testing.assert_close(answer_losses(logits, targets)[rows == 1].mean(), expected, rtol=1e-5, atol=1e-5)
