"""The custom attention computes the same as PyTorch's and is used only on request."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from backbones.tiny_models import save_model
from torch import Tensor
from transformers import AutoModelForCausalLM

from training import attention
from training.attention import NAME, CausalAttention, use_causal_attention

LONG = 24


def heads(tokens: int, shared: int, dtype: torch.dtype) -> list[Tensor]:
    """Query, key and value of 2 rows, 4 heads (``shared`` of keys and values) and width 8."""
    torch.manual_seed(tokens)
    return [torch.randn(2, n, tokens, 8, dtype=dtype, requires_grad=True) for n in (4, shared, shared)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shared", [4, 2, 1])
@pytest.mark.parametrize("tokens", [1, 9, LONG])
def test_values_and_gradients_equal_pytorchs(tokens: int, shared: int, dtype: torch.dtype):
    ours, theirs = heads(tokens, shared, dtype), heads(tokens, shared, dtype)
    out = CausalAttention.apply(*ours, 0.3)
    wanted = F.scaled_dot_product_attention(*theirs, is_causal=True, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(out, wanted)
    weight = torch.randn_like(out)
    (out * weight).sum().backward()
    (wanted * weight).sum().backward()
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own.grad, other.grad)


@pytest.mark.parametrize("tokens", [5, LONG])
def test_a_tiny_model_learns_the_same(tmp_path: Path, tokens: int):
    folder = save_model(tmp_path / "llama", "LlamaForCausalLM")
    ids = torch.randint(3, 60, (2, tokens), generator=torch.Generator().manual_seed(0))
    results = []
    for own in (False, True):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        if own:
            assert use_causal_attention(model)
            assert model.config._attn_implementation == NAME
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        results.append([loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-6)


def test_padding_caches_and_long_batches_go_through_pytorchs_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = save_model(tmp_path / "llama", "LlamaForCausalLM")
    own, plain = (AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval() for _ in range(2))
    assert use_causal_attention(own)
    monkeypatch.setattr(attention, "SHORT", 2)
    ids, mask = torch.tensor([[3, 4, 5]]), torch.tensor([[0, 1, 1]])
    with torch.no_grad():
        torch.testing.assert_close(own(input_ids=ids).logits, plain(input_ids=ids).logits)
        padded, wanted = (model(input_ids=ids, attention_mask=mask).logits[:, 1:] for model in (own, plain))
        torch.testing.assert_close(padded, wanted)
        caches = [model(input_ids=ids[:, :2], use_cache=True).past_key_values for model in (own, plain)]
        after, wanted = (
            model(input_ids=ids[:, 2:], past_key_values=cache).logits
            for model, cache in zip((own, plain), caches, strict=True)
        )
        torch.testing.assert_close(after, wanted)


def test_other_models_keep_their_attention(tmp_path: Path):
    gpt2 = AutoModelForCausalLM.from_pretrained(save_model(tmp_path / "gpt2", "GPT2LMHeadModel"))
    assert not use_causal_attention(gpt2)
    llama = AutoModelForCausalLM.from_pretrained(save_model(tmp_path / "llama", "LlamaForCausalLM"))
    llama.config.sliding_window = 8
    assert not use_causal_attention(llama)
    llama.config.sliding_window, llama.config.attention_dropout = None, 0.1
    assert not use_causal_attention(llama)
    assert llama.config._attn_implementation != NAME
