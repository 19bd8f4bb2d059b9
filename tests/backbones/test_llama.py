"""Prompts read one after the other, as the Llama family's general code reads them in a padded batch."""

import re
from pathlib import Path

import pytest
import torch
from local_parts import steps_of
from tiny_models import save_model

from ld_agent.backbones.local import LocalBackbone
from ld_agent.backbones.local.decoding import Row
from ld_agent.backbones.local.fast_cpu.llama import PACK, LlamaSteps
from ld_agent.backbones.local.lora import PIECE, AdaptedLinear
from ld_agent.backbones.local.steps import CausalSteps, PrefixCache


@pytest.mark.parametrize("kind", ["LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"])
def test_prompts_of_any_length_are_read_as_transformers_reads_them(kind: str, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model", kind, max_position_embeddings=4096)
    backbone = LocalBackbone(str(folder), dtype="float32", device="cpu")
    lengths = [96, 1, PACK + 7, PACK // 2, PACK // 2 + 1, 5]
    ids = torch.randint(3, 259, (max(lengths),), generator=torch.Generator().manual_seed(1)).tolist()
    rows = [Row(ids[:length], 4, prefix=70 if length > 80 else 0) for length in lengths]
    model = backbone._model
    own = steps_of(backbone, rows)
    assert isinstance(own, LlamaSteps)
    theirs = CausalSteps(model, lambda names: None, PrefixCache(), 2)
    with torch.inference_mode():
        torch.testing.assert_close(own.prefill(rows), theirs.prefill(rows), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(own.step(range(9, 15)), theirs.step(range(9, 15)), rtol=1e-4, atol=1e-4)
        for steps in (own, theirs):
            steps.keep([0, 2, 5])
        torch.testing.assert_close(own.step([3, 4, 5]), theirs.step([3, 4, 5]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tokens", [1, PIECE, 2 * PIECE + 1])
def test_what_an_adapter_adds_does_not_depend_on_the_pieces(tokens: int) -> None:
    torch.manual_seed(0)
    linear = torch.nn.Linear(8, 6, bias=False)
    adapted = AdaptedLinear(linear)
    adapted.down, adapted.up = torch.randn(1, 8, 2), torch.randn(1, 2, 6)
    for x in (torch.randn(tokens, 8), torch.randn(3, tokens, 8)):
        with torch.inference_mode():
            torch.testing.assert_close(adapted(x), linear(x) + x @ adapted.down[0] @ adapted.up[0])


def test_the_rest_of_the_project_comes_in_by_one_door() -> None:
    root = Path(__file__).parents[2]
    inside = root / "ld_agent/backbones/local/fast_cpu"
    entries = {
        match
        for folder in ("ld_agent", "training")
        for path in (root / folder).rglob("*.py")
        if inside not in path.parents
        for match in re.findall(r"fast_cpu(\S*) import (.+)", path.read_text("utf-8"))
    }
    assert entries == {("", "steps_for")}


def test_what_a_prompt_shares_with_the_last_ones_is_not_read_again(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model", "LlamaForCausalLM", max_position_embeddings=4096)
    ids = torch.randint(3, 259, (700,), generator=torch.Generator().manual_seed(1)).tolist()
    first, second = Row(ids[:600], 4), Row([*ids[:400], *ids[650:]], 4)
    fresh, backbone = (LocalBackbone(str(folder), dtype="float32", device="cpu") for _ in range(2))

    def logits(of: LocalBackbone, rows: list[Row]) -> tuple[torch.Tensor, list[int]]:
        steps, read = steps_of(of, rows), list[int]()
        plain = steps._read
        steps._read = lambda pack, states: read.extend(len(one.ids) for one in pack) or plain(pack, states)
        with torch.inference_mode():
            return steps.prefill(rows), read

    expected, whole = logits(fresh, [second])
    logits(backbone, [first])
    found, read = logits(backbone, [second])
    assert (whole, read) == ([450], [450 - 384])  # of 400 shared ones, whole steps
    assert torch.equal(found, expected)
    assert logits(backbone, [first])[1] == [600 - 512]  # never all of it: the last token's logits are needed
    assert logits(backbone, [first, second])[1] == [600, 450]  # in a batch they are read whole, as ever
    assert logits(backbone, [Row(first.prompt, 4, prefix=70)])[1] == [70, 530]
    backbone._prefixes.clear()
    assert logits(backbone, [second])[1] == [450]


def test_the_last_prompts_are_kept_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def states(tokens: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [(torch.zeros(1, 2, tokens, 4), torch.zeros(1, 2, tokens, 4))]

    monkeypatch.setattr("ld_agent.backbones.local.steps.RECENT", 2 * 2 * 4 * 4 * 600)  # of 600 tokens
    cache = PrefixCache()
    for name in ("a", "b", None):
        cache.add_recent(name, range(250), states(250))
    shared = {name: [keys.shape[2] for keys, _ in cache.beginning(name, range(300))] for name in ("a", "b", None)}
    assert shared == {"a": [], "b": [128], None: [128]}
    cache.add_recent("c", range(900), states(900))
    assert [keys.shape[2] for keys, _ in cache.beginning("c", range(900))] == [512]
    assert cache.beginning("b", range(250)) == []
