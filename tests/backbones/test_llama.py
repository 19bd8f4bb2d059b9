"""Reading prompts as the Llama family's own code does it: attention in blocks, prompts one behind the other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tiny_models import save_model

from ld_agent.backbones import lora
from ld_agent.backbones.decoding import Row
from ld_agent.backbones.llama import BLOCK, PACK, LlamaSteps, attend
from ld_agent.backbones.local import LocalBackbone
from ld_agent.backbones.steps import CausalSteps, PrefixCache


@pytest.mark.parametrize("before", [0, 1, 70])
@pytest.mark.parametrize("fresh", [1, BLOCK - 1, BLOCK, 2 * BLOCK + 1])
def test_attention_in_blocks_is_attention(fresh: int, before: int) -> None:
    torch.manual_seed(0)
    queries = torch.randn(fresh, 6, 8)
    keys, values = torch.randn(2, 2, before + fresh, 8)
    earlier = torch.ones(fresh, before + fresh, dtype=torch.bool).tril(before)
    wanted = F.scaled_dot_product_attention(
        queries.transpose(0, 1), keys.repeat_interleave(3, 0), values.repeat_interleave(3, 0), earlier, scale=0.3
    )
    torch.testing.assert_close(attend(queries, keys, values, 0.3), wanted.transpose(0, 1))


@pytest.mark.parametrize("kind", ["LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"])
def test_prompts_of_any_length_are_read_as_transformers_reads_them(kind: str, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model", kind, max_position_embeddings=4096)
    backbone = LocalBackbone(str(folder), dtype="float32", device="cpu")
    assert backbone._layers is not None
    lengths = [2 * BLOCK, 1, PACK + 7, PACK // 2, PACK // 2 + 1, 5]
    ids = torch.randint(3, 259, (max(lengths),), generator=torch.Generator().manual_seed(1)).tolist()
    rows = [Row(ids[:length], 4, prefix=3 if length > BLOCK else 0) for length in lengths]
    model = backbone._model
    own = LlamaSteps(model, lambda names: None, PrefixCache(), 2, backbone._layers)
    theirs = CausalSteps(model, lambda names: None, PrefixCache(), 2)
    with torch.inference_mode():
        torch.testing.assert_close(own.prefill(rows), theirs.prefill(rows), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(own.step(range(9, 15)), theirs.step(range(9, 15)), rtol=1e-4, atol=1e-4)
        for steps in (own, theirs):
            steps.keep([0, 2, 5])
        torch.testing.assert_close(own.step([3, 4, 5]), theirs.step([3, 4, 5]), rtol=1e-4, atol=1e-4)


def test_an_adapter_in_sixteen_bits_over_a_long_prompt_is_as_close_to_float32(
    tiny_llama: Path, adapters: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {name: str(folder) for name, folder in adapters.items()}
    backbones = {
        d: LocalBackbone(str(tiny_llama), dtype=d, device="cpu", adapters=named) for d in ("float32", "bfloat16")
    }
    ids = torch.randint(3, 259, (100,), generator=torch.Generator().manual_seed(1)).tolist()

    def read(dtype: str, most_exact: int) -> torch.Tensor:
        monkeypatch.setattr(lora, "MOST_EXACT", most_exact)
        backbone = backbones[dtype]
        steps = LlamaSteps(backbone._model, backbone._adapters.select, PrefixCache(), 2, backbone._layers or [])
        rows = [Row(ids[n:], 4, adapter=name) for n, name in enumerate((None, "summarizer", "extractor"))]
        with torch.inference_mode():
            return steps.prefill(rows).float()

    exact = read("float32", 48)
    torch.testing.assert_close(exact, read("float32", 1000))
    off_wide, off_narrow = (read("bfloat16", most) - exact for most in (1000, 48))
    assert not torch.equal(off_wide, off_narrow)
    assert 0 < off_narrow.norm() < 3 * off_wide.norm()
