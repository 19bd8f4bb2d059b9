"""Any transformers model as the decode loop wants it: prefill, one step, keep some rows.

Knows the calling conventions of transformers and the state of one batch; nothing of text, sampling or stopping.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ld_agent.backbones.local.decoding import Row, Steps

PrefixKey = tuple[str | None, tuple[int, ...]]
LayerStates = list[tuple[Tensor, Tensor]]
Select = Callable[[Sequence[str | None]], None]
"""Tells the adapters of a model which one each row of the coming forward passes uses."""
BatchSteps = Callable[[Sequence[list[int]]], Steps]
"""Makes the steps of one batch from the ids of its prompts."""


PREFIXES = 8
"""Constant beginnings that are kept."""
RECENT = 2**26
"""Bytes of the last prompts that are kept: some six of the embedded default, three of a model of 1.5B."""
ALIGNED = 128
"""Tokens in steps of which the beginning of a kept prompt is used. A prompt is read in these steps, so that an answer has the
same bits whether or not its beginning was known."""


class PrefixCache:
    """Keys and values of the last few constant prompt beginnings and of the last prompts, per adapter; the least recently
    used go first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[PrefixKey, LayerStates] = OrderedDict()
        self._recent: OrderedDict[PrefixKey, LayerStates] = OrderedDict()

    def get(self, key: PrefixKey, compute: Callable[[], LayerStates]) -> LayerStates:
        """Return per layer the keys and values (1, heads, tokens, width), computing them at the first call."""
        if key not in self._entries:
            self._entries[key] = compute()
            if len(self._entries) > PREFIXES:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        return self._entries[key]

    def beginning(self, adapter: str | None, ids: Sequence[int]) -> LayerStates:
        """Per layer the keys and values (1, heads, tokens, width) of the longest beginning shared with a recent prompt."""
        best, length = None, 0
        for key in self._recent:
            if key[0] == adapter:
                shared = next((n for n, (a, b) in enumerate(zip(ids, key[1], strict=False)) if a != b), None)
                shared = min(len(ids), len(key[1])) if shared is None else shared
                if (shared := shared - shared % ALIGNED) > length:
                    best, length = key, shared
        if best is None:
            return []
        self._recent.move_to_end(best)
        return [(keys[:, :, :length], values[:, :, :length]) for keys, values in self._recent[best]]

    def add_recent(self, adapter: str | None, ids: Sequence[int], states: LayerStates) -> None:
        """Keep a copy of a prompt's keys and values (1, heads, tokens, width), or of as much of its beginning as may be kept."""
        kept = min(len(ids), RECENT * len(ids) // _bytes(states))
        copied = [(keys[:, :, :kept].clone(), values[:, :, :kept].clone()) for keys, values in states]
        self._recent.pop(key := (adapter, tuple(ids[:kept])), None)
        self._recent[key] = copied
        while sum(map(_bytes, self._recent.values())) > RECENT:
            self._recent.popitem(last=False)

    def clear(self) -> None:
        self._entries.clear()
        self._recent.clear()


def _bytes(states: LayerStates) -> int:
    return sum(keys.nbytes + values.nbytes for keys, values in states)


class CausalSteps:
    """A decoder-only model with one batch in its cache."""

    def __init__(self, model: Any, select: Select, prefixes: PrefixCache, padding_id: int) -> None:
        self._model, self._select, self._prefixes, self._padding_id = model, select, prefixes, padding_id
        accepted = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in accepted
        self._takes_logits_to_keep = "logits_to_keep" in accepted

    def prefill(self, rows: Sequence[Row]) -> Tensor:
        from transformers import DynamicCache

        device = self._model.device
        prefixes = [self._prefix(row) for row in rows]
        lengths = [states[0][0].shape[-2] if states else 0 for states in prefixes]
        self._adapters = [row.adapter for row in rows]
        self._select(self._adapters)
        before = max(lengths)
        rest = [row.prompt[length:] for row, length in zip(rows, lengths, strict=True)]
        width = max(len(ids) for ids in rest)
        ids = torch.tensor([[self._padding_id] * (width - len(r)) + r for r in rest], device=device)
        read = [
            [0] * (before - p) + [1] * p + [0] * (width - len(r)) + [1] * len(r)
            for p, r in zip(lengths, rest, strict=True)
        ]
        self._mask = torch.tensor(read, device=device)
        positions = (self._mask.cumsum(-1) - 1).clamp(min=0)
        self._next = positions[:, -1:] + 1
        self._cache = DynamicCache(config=self._model.config)
        if before:
            layers = range(len(next(states for states in prefixes if states)))
            for layer in layers:
                keys, values = (_right_aligned(prefixes, layer, part, before) for part in (0, 1))
                self._cache.update(keys, values, layer)
        return self._forward(ids, positions[:, before:])

    def step(self, ids: Sequence[int]) -> Tensor:
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(ids), 1)], dim=1)
        positions, self._next = self._next, self._next + 1
        return self._forward(torch.tensor(ids, device=self._mask.device)[:, None], positions)

    def keep(self, rows: Sequence[int]) -> None:
        index = torch.tensor(rows, device=self._mask.device)
        self._cache.batch_select_indices(index)
        self._mask, self._next = self._mask[index], self._next[index]
        self._adapters = [self._adapters[row] for row in rows]
        self._select(self._adapters)

    def _forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        # A mask of ones changes nothing; without it attention takes its fast path.
        mask = None if bool(self._mask.all()) else self._mask
        extra: dict[str, Any] = {"position_ids": positions} if self._takes_positions else {}
        if self._takes_logits_to_keep:
            extra["logits_to_keep"] = 1
        output = self._model(
            input_ids=ids, attention_mask=mask, past_key_values=self._cache, use_cache=True, return_dict=True, **extra
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    def _prefix(self, row: Row) -> LayerStates | None:
        length = min(row.prefix, len(row.prompt) - 1)
        if length <= 0 or not self._takes_positions:
            return None
        states = self._prefixes.get(
            (row.adapter, tuple(row.prompt[:length])), lambda: self._compute(row.adapter, row.prompt[:length])
        )
        return states or None

    def _compute(self, adapter: str | None, ids: list[int]) -> LayerStates:
        from transformers import DynamicCache
        from transformers.cache_utils import DynamicLayer

        cache = DynamicCache(config=self._model.config)
        if any(type(layer) is not DynamicLayer for layer in cache.layers):
            return []  # a sliding window or a recurrent state cannot be continued in columns of another batch
        self._select([adapter])
        self._model(input_ids=torch.tensor([ids], device=self._model.device), past_key_values=cache, use_cache=True)
        return [(layer.keys, layer.values) for layer in cache.layers]


class Seq2SeqSteps:
    """An encoder-decoder model with one batch in its cache; ``encoder_prompts`` are read by the encoder."""

    def __init__(self, model: Any, select: Select, encoder_prompts: Sequence[Sequence[int]], padding_id: int) -> None:
        self._model, self._select = model, select
        self._encoder_prompts, self._padding_id = encoder_prompts, padding_id

    def prefill(self, rows: Sequence[Row]) -> Tensor:
        from transformers import DynamicCache, EncoderDecoderCache

        self._adapters = [row.adapter for row in rows]
        self._select(self._adapters)
        device = self._model.device
        width = max(len(ids) for ids in self._encoder_prompts)
        # An encoder's positions are counted from the first column, hence padding on the right here.
        ids = [[*prompt] + [self._padding_id] * (width - len(prompt)) for prompt in self._encoder_prompts]
        read = [[1] * len(prompt) + [0] * (width - len(prompt)) for prompt in self._encoder_prompts]
        self._mask = torch.tensor(read, device=device)
        encoder = self._model.get_encoder()
        encoded = encoder(input_ids=torch.tensor(ids, device=device), attention_mask=self._mask, return_dict=True)
        self._encoded = encoded.last_hidden_state
        config = self._model.config
        self._cache = EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
        return self._forward(torch.tensor([row.prompt for row in rows], device=device))

    def step(self, ids: Sequence[int]) -> Tensor:
        return self._forward(torch.tensor(ids, device=self._mask.device)[:, None])

    def keep(self, rows: Sequence[int]) -> None:
        index = torch.tensor(rows, device=self._mask.device)
        self._cache.batch_select_indices(index)
        self._mask, self._encoded = self._mask[index], self._encoded[index]
        self._adapters = [self._adapters[row] for row in rows]
        self._select(self._adapters)

    def _forward(self, ids: Tensor) -> Tensor:
        output = self._model(
            encoder_outputs=(self._encoded,),
            attention_mask=self._mask,
            decoder_input_ids=ids,
            past_key_values=self._cache,
            use_cache=True,
            return_dict=True,
        )
        logits: Tensor = output.logits[:, -1]
        return logits


def _right_aligned(prefixes: Sequence[LayerStates | None], layer: int, part: int, width: int) -> Tensor:
    some = next(states for states in prefixes if states)[layer][part]
    out = some.new_zeros(len(prefixes), some.shape[1], width, some.shape[3])
    for row, states in enumerate(prefixes):
        if states:
            out[row, :, width - states[layer][part].shape[-2] :] = states[layer][part][0]
    return out
