"""One decoding step of the Llama family on a CPU without the overhead of the general forward pass.

Prompts are read by transformers' own forward; only the single-token step is written out here, over keys and values in
buffers of their final size and, where the weights lie on a 4-bit grid, over those. It computes what the general forward
computes, in the same precision. Any model that is not exactly of the shape expected here is refused by `llama_layers`
and goes through `CausalSteps`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ld_agent.backbones.decoding import Row
from ld_agent.backbones.four_bit import FourBitGrids, FourBitMatrix
from ld_agent.backbones.lora import AdaptedLinear
from ld_agent.backbones.steps import CausalSteps, PrefixCache

SMALL = 500_000_000
"""Parameters below which one row is stepped by one thread: there is too little to share out, and threads that meet some
three hundred times a token wait for whatever else runs on the machine (on two busy cores: 8 tokens a second with two
threads, 64 with one; on idle ones 107 and 91)."""
FAMILY = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")


class Projections:
    """Linear modules that read the same input, as one call; the adapters that they carry at the moment included."""

    def __init__(self, parent: nn.Module, names: Sequence[str], matrix: FourBitMatrix | None) -> None:
        self._parent, self._names, self._matrix = parent, names, matrix
        self.bind()

    @property
    def four_bit(self) -> bool:
        return self._matrix is not None

    def bind(self) -> None:
        """Look the modules up again: an adapter added since may have wrapped them."""
        self._modules = [getattr(self._parent, name) for name in self._names]
        self._adapted = []
        start = 0
        for module in self._modules:
            end = start + module.weight.shape[0]
            if isinstance(module, AdaptedLinear):
                self._adapted.append((module, start, end))
            start = end

    def __call__(self, x: Tensor) -> Tensor:
        """(rows, in) to (rows, sum of out)."""
        if self._matrix is None or len(x) > FourBitMatrix.MOST_ROWS:
            if len(self._modules) == 1:
                alone: Tensor = self._modules[0](x)
                return alone
            return torch.cat([module(x) for module in self._modules], -1)
        out = self._matrix(x)
        for module, start, end in self._adapted:
            module.add_to(out[:, start:end], x)
        return out


@dataclass(slots=True)
class Layer:
    """What one decoder layer needs for a step."""

    attention: Any
    before_attention: Any
    before_mlp: Any
    activation: Callable[[Tensor], Tensor]
    read: Projections
    attended: Projections
    gate_up: Projections
    down: Projections

    @property
    def projections(self) -> tuple[Projections, ...]:
        return self.read, self.attended, self.gate_up, self.down


def llama_layers(model: Any, grids: FourBitGrids) -> list[Layer] | None:
    """Return the layers of a model of the family on a CPU, or None for any other."""
    config = model.config
    if type(model).__name__ not in FAMILY or model.device.type != "cpu":
        return None
    sliding = any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ())
    if sliding or getattr(config, "sliding_window", None) or config.num_attention_heads % config.num_key_value_heads:
        return None
    layers = []
    for number, layer in enumerate(model.model.layers):
        attention, mlp = layer.self_attn, layer.mlp

        def group(parent: nn.Module, place: str, names: list[str], number: int = number) -> Projections:
            matrix = grids.take([f"model.layers.{number}.{place}.{name}" for name in names])
            return Projections(parent, names, matrix)

        layers.append(
            Layer(
                attention,
                layer.input_layernorm,
                layer.post_attention_layernorm,
                mlp.act_fn,
                group(attention, "self_attn", ["q_proj", "k_proj", "v_proj"]),
                group(attention, "self_attn", ["o_proj"]),
                group(mlp, "mlp", ["gate_proj", "up_proj"]),
                group(mlp, "mlp", ["down_proj"]),
            )
        )
    return layers


class LlamaSteps(CausalSteps):
    """`CausalSteps` with the step written out."""

    def __init__(
        self,
        model: Any,
        select: Callable[[Sequence[str | None]], None],
        prefixes: PrefixCache,
        padding_id: int,
        layers: list[Layer],
    ) -> None:
        super().__init__(model, select, prefixes, padding_id)
        self._layers = layers
        config = model.config
        self._heads, self._key_heads = config.num_attention_heads, config.num_key_value_heads
        self._width: int = layers[0].attention.head_dim
        self._small = model.num_parameters() < SMALL

    def prefill(self, rows: Sequence[Row]) -> Tensor:
        logits = super().prefill(rows)
        for layer in self._layers:
            for projections in layer.projections:
                projections.bind()
        self._length = self._mask.shape[1]
        longest = self._length + max(row.limit for row in rows)
        shape = (len(rows), self._key_heads, longest, self._width)
        self._states = []
        for filled in self._cache.layers:
            keys, values = filled.keys.new_zeros(shape), filled.values.new_zeros(shape)
            keys[:, :, : self._length] = filled.keys
            values[:, :, : self._length] = filled.values
            self._states.append((keys, values))
        self._cache = None
        self._visible: Tensor | None = None
        if not bool(self._mask.all()):
            self._visible = torch.ones(len(rows), 1, 1, longest, dtype=torch.bool)
            self._visible[:, 0, 0, : self._length] = self._mask.bool()
        return logits

    def step(self, ids: Sequence[int]) -> Tensor:
        if len(ids) > 1 or not self._small:
            return self._step(ids)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self._step(ids)
        finally:
            torch.set_num_threads(threads)

    def _step(self, ids: Sequence[int]) -> Tensor:
        rows, end = len(ids), self._length + 1
        base = self._model.model
        x = base.embed_tokens(torch.tensor(ids))
        cosine, sine = base.rotary_emb(x, self._next)
        # Rotating half turns is one roll when the sign is already in the sine.
        half = self._width // 2
        sine = torch.cat([-sine[..., :half], sine[..., half:]], -1)
        self._next = self._next + 1
        visible = None if self._visible is None else self._visible[..., :end]
        turned = self._heads + self._key_heads
        for layer, (keys, values) in zip(self._layers, self._states, strict=True):
            read = layer.read(_normed(x, layer.before_attention)).view(rows, -1, self._width)
            queries_keys = read[:, :turned]
            if hasattr(layer.attention, "q_norm"):
                queries_keys = torch.cat(
                    [
                        layer.attention.q_norm(read[:, : self._heads]),
                        layer.attention.k_norm(read[:, self._heads : turned]),
                    ],
                    1,
                )
            rotated = torch.addcmul(queries_keys * cosine, queries_keys.roll(half, -1), sine)
            keys[:, :, end - 1] = rotated[:, self._heads :]
            values[:, :, end - 1] = read[:, turned:]
            # Query heads that share a key head go in as if they were successive queries: one pass over the keys.
            queries = rotated[:, : self._heads].reshape(rows, self._key_heads, -1, self._width)
            attended = F.scaled_dot_product_attention(
                queries, keys[:, :, :end], values[:, :, :end], attn_mask=visible, scale=layer.attention.scaling
            )
            x = layer.attended(attended.reshape(rows, -1)).add_(x)
            both = layer.gate_up(_normed(x, layer.before_mlp))
            inner = both.shape[-1] // 2
            x = layer.down(layer.activation(both[:, :inner]).mul_(both[:, inner:])).add_(x)
        self._length = end
        logits: Tensor = self._model.lm_head(_normed(x, base.norm))
        return logits

    def keep(self, rows: Sequence[int]) -> None:
        index = torch.tensor(rows)
        self._states = [(keys[index], values[index]) for keys, values in self._states]
        self._next = self._next[index]
        self._visible = None if self._visible is None else self._visible[index]
        self._adapters = [self._adapters[row] for row in rows]
        self._select(self._adapters)


def _normed(x: Tensor, norm: Any) -> Tensor:
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + norm.variance_epsilon)
    normed: Tensor = norm.weight * (wide * scale).to(x.dtype)
    return normed
