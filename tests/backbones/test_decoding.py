"""Ids drawn by the decode loop: as likely as the model has them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import save_model
from torch import Tensor

from ld_agent.backbones.local import LocalBackbone
from ld_agent.backbones.local.decoding import Choice, Row, Steps, _sample, _varied, continuations, decode
from ld_agent.backbones.local.steps import CausalSteps, PrefixCache, Seq2SeqSteps

PROMPT = [5, 6, 7, 8, 9]
DRAWS = 3000


def read(ids: list[int], prompt: list[int], model: Any) -> Tensor:
    """The logits after ``ids``, by transformers' own forward pass on one row."""
    if model.config.is_encoder_decoder:
        output = model(input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([ids]))
    else:
        output = model(input_ids=torch.tensor([ids]))
    logits: Tensor = output.logits[0, -1]
    return logits


def made(kind: str, folder: Path) -> tuple[Any, Callable[[int], Steps], list[int]]:
    """A model, its steps over ``PROMPT`` for a number of rows, and the ids that an answer follows."""
    seq2seq = kind.startswith("Bart")
    backbone = LocalBackbone(str(save_model(folder / kind, kind, **({"template": None} if seq2seq else {}))))
    model = backbone._model
    if seq2seq:
        return model, lambda count: Seq2SeqSteps(model, lambda names: None, [PROMPT] * count, 1), [2]
    return model, lambda count: CausalSteps(model, lambda names: None, PrefixCache(), 2), PROMPT


@pytest.mark.parametrize("kind", ["LlamaForCausalLM", "BartForConditionalGeneration"])
def test_an_id_is_drawn_by_its_probability(kind: str, tmp_path: Path) -> None:
    model, steps_of, start = made(kind, tmp_path)
    rows = [Row(start, 1, temperature=0.7, seed=seed) for seed in range(DRAWS)]
    decode(steps_of(DRAWS), rows, Choice(frozenset()))
    with torch.inference_mode():
        likely = (read(start, PROMPT, model) / 0.7).softmax(-1)
    for token, times in Counter(row.out[0] for row in rows).most_common(5):
        p = float(likely[token])
        assert times / DRAWS == pytest.approx(p, abs=5 * (p * (1 - p) / DRAWS) ** 0.5)


def test_continuations_by_hand() -> None:
    assert continuations([[7, 8, 9, 8], [7, 5]]) == {(): [7, 7], (7,): [8, 5], (7, 8): [9], (8, 9): [8]}


def test_an_answer_is_worded_otherwise_than_those_before(tmp_path: Path) -> None:
    _, steps_of, start = made("LlamaForCausalLM", tmp_path)
    plain = Row(start, 4)
    decode(steps_of(1), [plain], Choice(frozenset()))
    first, second, *_ = plain.out
    begun = Row(start, 4, unlike={(): [first] * 9})
    continued = Row(start, 4, unlike={(first,): [second] * 9})
    ended = Row(start, 4, unlike={(): [first] * 9})
    beside = Row(start, 4, unlike={(): [first + 1], (first + 1,): [second]})
    decode(steps_of(3), [begun, continued, beside], Choice(frozenset()))
    assert begun.out[0] != first
    assert continued.out[0] == first
    assert continued.out[1] != second
    assert beside.out == plain.out
    decode(steps_of(1), [ended], Choice(frozenset({first})))
    assert (ended.out, ended.stopped) == ([], True)


def test_an_answer_does_not_go_round_in_circles() -> None:
    row = Row([1], 9, unlike={(3, 1): [4]}, out=[0, 3, 1, 2, 3, 1, 2, 3, 1])
    assert _varied(torch.zeros(6), row, frozenset()).tolist() == [0, 0, -4, 0, -2, 0]


def test_what_top_k_and_top_p_leave_out_is_never_drawn() -> None:
    logits, plain = torch.tensor([3.0, 1.0, 2.0, 0.0]).log_softmax(-1), Row([1], 1, temperature=1.0)
    for row, choice, left in (
        (plain, Choice(frozenset(), top_k=2), {0, 2}),
        (plain, Choice(frozenset(), top_p=0.8), {0, 2}),
        (plain, Choice(frozenset()), {0, 1, 2, 3}),
        (replace(plain, top_p=0.8), Choice(frozenset(), top_p=1.0), {0, 2}),
    ):
        generator = torch.Generator().manual_seed(0)
        assert {_sample(logits, row, generator, choice) for _ in range(500)} == left
