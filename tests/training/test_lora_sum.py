"""The LoRA layer with custom gradients computes the same as PEFT's, and leaves special cases to PEFT."""

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor, nn

from training.lora_sum import LoraSum, quicken


class Small(nn.Module):
    """Two linear layers, with and without a bias."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(5, 6), nn.Linear(6, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x)))


def adapted(dtype: torch.dtype = torch.float32, **changes: Any) -> PeftModel:
    torch.manual_seed(1)
    base = Small().to(dtype)
    model = get_peft_model(base, LoraConfig(r=2, lora_alpha=6, target_modules=["first", "second"], **changes))
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            nn.init.normal_(parameter, std=0.5)
    return model


def outcome(model: PeftModel, x: Tensor) -> dict[str, Tensor]:
    """Return the model's output for x and all gradients."""
    x = x.clone().requires_grad_()
    y = model(x)
    (y.float() ** 2).sum().backward()
    assert x.grad is not None
    return {"y": y.detach(), "x": x.grad} | {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.1)])
def test_values_and_gradients_equal_pefts(dtype: torch.dtype, tolerance: float):
    x = torch.randn(2, 4, 5).to(dtype)
    theirs, ours = adapted(dtype), adapted(dtype)
    assert quicken(ours) == 2
    wanted, found = outcome(theirs, x), outcome(ours, x)
    assert set(found) == set(wanted)
    assert len(found) == 2 + 4
    for name, value in wanted.items():
        assert found[name].dtype == value.dtype, name
        bound = tolerance * value.float().abs().max().item()
        assert (found[name].float() - value.float()).abs().max().item() <= bound, name


@pytest.mark.parametrize("biased", [True, False])
def test_gradients_match_finite_differences(biased: bool):
    """By finite differences, in float64."""
    torch.manual_seed(2)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64)

    x, down, up = (t.requires_grad_() for t in (drawn(2, 3, 5), drawn(2, 5), drawn(4, 2)))
    weight, bias = drawn(4, 5), drawn(4) if biased else None
    by_hand = x @ weight.T + (0 if bias is None else bias) + 1.5 * (x @ down.T) @ up.T
    torch.testing.assert_close(LoraSum.apply(x, weight, bias, down, up, 1.5), by_hand)
    assert torch.autograd.gradcheck(lambda *own: LoraSum.apply(own[0], weight, bias, *own[1:], 1.5), (x, down, up))


def test_a_saved_disabled_or_merged_adapter_is_as_pefts(tmp_path: Path):
    model, x = adapted(), torch.randn(3, 5)
    quicken(model)
    plain, whole = Small()(x), model(x)
    assert not torch.allclose(whole, plain)
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(PeftModel.from_pretrained(Small(), tmp_path)(x), whole)
    with model.disable_adapter():
        torch.testing.assert_close(model(x), plain)
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(model(x), whole)
    model.merge_adapter()
    torch.testing.assert_close(model(x), whole)


@pytest.mark.parametrize("changes", [{"lora_dropout": 0.1}, {"use_dora": True}, {"lora_bias": True}])
def test_special_cases_are_left_to_peft(changes: dict[str, Any]):
    model = adapted(**changes)
    assert quicken(model) == 0
    assert "forward" not in vars(model.base_model.model.first)


def test_several_adapters_are_left_to_peft():
    model = adapted()
    model.add_adapter("other", LoraConfig(r=2, target_modules=["first"]))
    assert quicken(model) == 1  # the second layer has one alone


def test_a_quantised_base_is_left_to_peft():
    model = adapted()
    for name in ("first", "second"):
        getattr(model.base_model.model, name).base_layer.weight.data = torch.ones(1, dtype=torch.int8)
    assert quicken(model) == 0
