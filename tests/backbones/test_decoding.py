"""Ids drawn by the decode loops: as likely as the model has them, the same from the same seed, and no work done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import save_model
from torch import Tensor

from ld_agent.backbones.local import LocalBackbone
from ld_agent.backbones.local.decoding import Choice, Row, _sample, decode, draw
from ld_agent.backbones.local.steps import CausalSteps, PrefixCache, Seq2SeqSteps

PROMPTS = [[5, 6, 7, 8, 9], [11], [4, 4, 30]]
DRAWS = 3000


def read(ids: list[int], prompt: list[int], model: Any) -> Tensor:
    """The logits after ``ids``, by transformers' own forward pass on one row."""
    if model.config.is_encoder_decoder:
        output = model(input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([ids]))
    else:
        output = model(input_ids=torch.tensor([ids]))
    logits: Tensor = output.logits[0, -1]
    return logits


def made(kind: str, folder: Path) -> tuple[Any, Any, list[Row]]:
    """A model, its steps over ``PROMPTS``, and rows of at most three ids."""
    seq2seq = kind.startswith("Bart")
    backbone = LocalBackbone(str(save_model(folder / kind, kind, **({"template": None} if seq2seq else {}))))
    model = backbone._model
    rows = [Row([2] if seq2seq else prompt, 3, temperature=0.4, seed=n) for n, prompt in enumerate(PROMPTS)]
    if seq2seq:
        return model, Seq2SeqSteps(model, lambda names: None, PROMPTS, 1), rows
    return model, CausalSteps(model, lambda names: None, PrefixCache(), 2), rows


@pytest.mark.parametrize("kind", ["LlamaForCausalLM", "BartForConditionalGeneration"])
def test_answers_are_sampled_by_their_probability(kind: str, tmp_path: Path) -> None:
    model, steps, rows = made(kind, tmp_path)
    with torch.inference_mode():
        first = read(rows[0].prompt, PROMPTS[0], model)
    choice = Choice(frozenset(first.topk(2).indices[1:].tolist()))
    for row, prompt, found in zip(rows, PROMPTS, draw(steps, rows, DRAWS, choice), strict=True):
        assert sum(times for _, times in found) == DRAWS
        assert len({(*answer.out, answer.stopped) for answer, _ in found}) == len(found)
        for answer, times in sorted(found, key=lambda pair: -pair[1])[:8]:
            ids, likely = list(row.prompt), 1.0
            for token in answer.out:
                with torch.inference_mode():
                    likely *= float((read(ids, prompt, model) / 0.4).softmax(-1)[token])
                ids.append(token)
            if answer.stopped:
                with torch.inference_mode():
                    likely *= float((read(ids, prompt, model) / 0.4).softmax(-1)[list(choice.end_ids)])
            assert answer.stopped == (len(answer.out) < 3)
            assert times / DRAWS == pytest.approx(likely, abs=5 * (likely * (1 - likely) / DRAWS) ** 0.5)
    assert any(answer.stopped for answer, _ in draw(made(kind, tmp_path)[1], rows, DRAWS, choice)[0])


def test_draws_depend_on_the_seed_alone_and_like_answers_are_one_row(tmp_path: Path) -> None:
    model, _, rows = made("LlamaForCausalLM", tmp_path)

    class Counted(CausalSteps):
        most = 0

        def step(self, ids: Sequence[int]) -> Tensor:
            self.most = max(self.most, len(ids))
            return super().step(ids)

    def drawn(rows: Sequence[Row]) -> list[Counter[tuple[int, ...]]]:
        steps = Counted(model, lambda names: None, PrefixCache(), 2)
        found = draw(steps, rows, 40, Choice(frozenset([0])))
        assert steps.most <= sum(len(answers) for answers in found) < 40 * len(rows)
        return [Counter({tuple(answer.out): times for answer, times in answers}) for answers in found]

    together = drawn(rows)
    assert together == drawn(rows) == [drawn([row])[0] for row in rows]
    assert together != drawn([Row(row.prompt, row.limit, row.temperature, row.seed + 1) for row in rows])
    assert not any(row.out for row in rows)


def test_one_draw_a_row_is_as_likely_too(tmp_path: Path) -> None:
    model, steps, _ = made("LlamaForCausalLM", tmp_path)
    rows = [Row(PROMPTS[0], 1, temperature=0.7, seed=seed) for seed in range(DRAWS)]
    decode(steps, rows, Choice(frozenset()))
    with torch.inference_mode():
        likely = (read(PROMPTS[0], PROMPTS[0], model) / 0.7).softmax(-1)
    for token, times in Counter(row.out[0] for row in rows).most_common(5):
        p = float(likely[token])
        assert times / DRAWS == pytest.approx(p, abs=5 * (p * (1 - p) / DRAWS) ** 0.5)


def test_what_top_k_and_top_p_leave_out_is_never_drawn() -> None:
    logits, row = torch.tensor([3.0, 1.0, 2.0, 0.0]).log_softmax(-1), Row([1], 1, temperature=1.0)
    for choice, left in ((Choice(frozenset(), top_k=2), {0, 2}), (Choice(frozenset(), top_p=0.8), {0, 2})):
        assert set(_sample(logits, row, torch.Generator().manual_seed(0), choice, 500)) == left
    assert set(_sample(logits, row, torch.Generator().manual_seed(0), Choice(frozenset()), 500)) == {0, 1, 2, 3}
