"""Logits at answer positions only give the same loss and gradients as all logits, on any architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from backbones.tiny_models import save_model

from training.answers import AnswerLogits, answer_losses
from training.examples import IGNORED, Collator, Example

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
