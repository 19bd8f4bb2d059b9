"""What the tests of the local backbone share: requests, and a look behind `generate`."""

from collections.abc import Sequence
from typing import Any

import torch

from ld_agent.backbones.base import Message, Request
from ld_agent.backbones.local import LocalBackbone
from ld_agent.backbones.local.decoding import Choice, Row, Steps, decode

TEXTS = ["Hello there", "a", "What did we say about the garden last spring?", "né 日本 🙂"]


def request(text: str, tokens: int = 12, **settings: Any) -> Request:
    return Request((Message("system", "Be kind."), Message("user", text)), "generator", tokens, **settings)


def rows_of(backbone: LocalBackbone, requests: Sequence[Request]) -> list[Row]:
    return [
        Row(backbone.encode_messages(r.messages), r.max_new_tokens, r.temperature, r.seed, adapter=r.adapter)
        for r in requests
    ]


def steps_of(backbone: LocalBackbone, rows: Sequence[Row]) -> Steps:
    assert backbone._steps is not None
    return backbone._steps([row.prompt for row in rows])


def generated(backbone: LocalBackbone, requests: Sequence[Request]) -> list[list[int]]:
    rows = rows_of(backbone, requests)
    decode(steps_of(backbone, rows), rows, Choice(frozenset([0])))
    return [row.out for row in rows]


def hf_generated(model: Any, ids: list[int], tokens: int) -> list[int]:
    out = model.generate(torch.tensor([ids]), max_new_tokens=tokens, do_sample=False, eos_token_id=0, pad_token_id=2)
    answer: list[int] = out[0, len(ids) :].tolist()
    return answer[: answer.index(0)] if 0 in answer else answer
