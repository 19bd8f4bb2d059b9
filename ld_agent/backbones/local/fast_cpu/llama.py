"""The Llama family on a CPU without the overhead of the general forward pass.

The prompts of a batch are read one after the other, so that nothing is computed for padding. A step uses buffers of
their final size for keys and values, and 4-bit weights where there are some. Both compute what the general forward pass
computes, in the same precision. `llama_layers` refuses any model that is not exactly of the shape expected here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ld_agent.backbones.local.decoding import Row
from ld_agent.backbones.local.fast_cpu.four_bit import FourBitMatrix, FourBitWeights
from ld_agent.backbones.local.four_bit_groups import is_plain_llama
from ld_agent.backbones.local.lora import AdaptedLinear
from ld_agent.backbones.local.steps import ALIGNED, CausalSteps, LayerStates, PrefixCache, Select

SMALL = 500_000_000
"""Parameters below which a step is computed by one thread: there is too little work to share, and threads that synchronise
about three hundred times per token are held up by other processes. On two busy cores: 8 tokens a second with two
threads, 64 with one; on two idle cores: 107 and 91. It also makes an answer independent of the number of threads, because
attention over several rows rounds differently with each; reading a prompt does not."""
QUERIES = ALIGNED
"""Tokens of a prompt that attend at a time: few enough that hardly any product is computed only to be masked. It takes
two thirds of the time of torch's fused operator."""
PACK = 1024
"""Tokens of several prompts that are read at a time: enough for the products, few enough for the processor's cache."""


class Projections:
    """Linear modules that read the same input, called as one, with the adapters they currently carry."""

    def __init__(self, parent: nn.Module, names: Sequence[str], matrix: FourBitMatrix | None) -> None:
        self._parent, self._names, self._matrix = parent, names, matrix
        self._modules: list[Any] = []
        self._adapted: list[tuple[AdaptedLinear, int, int]] = []

    def bind(self) -> None:
        """Look the modules up before a batch: since the last one, an adapter may have wrapped them."""
        self._modules = [getattr(self._parent, name) for name in self._names]
        self._adapted.clear()
        start = 0
        for module in self._modules:
            end = start + module.weight.shape[0]
            if isinstance(module, AdaptedLinear):
                self._adapted.append((module, start, end))
            start = end

    def apart(self, x: Tensor) -> list[Tensor]:
        """(tokens, in) to (tokens, out) of each module."""
        return [module(x) for module in self._modules]

    def __call__(self, x: Tensor) -> Tensor:
        """(rows, in) to (rows, sum of out)."""
        if self._matrix is None or len(x) > FourBitMatrix.MOST_ROWS:
            outs = self.apart(x)
            return outs[0] if len(outs) == 1 else torch.cat(outs, -1)
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


def is_small(model: Any) -> bool:
    return bool(model.num_parameters() < SMALL)


def llama_layers(model: Any, weights: FourBitWeights) -> list[Layer] | None:
    """Return the layers of a model of the family on a CPU, or None for any other."""
    if not is_plain_llama(model) or model.device.type != "cpu":
        return None
    layers = []
    for number, layer in enumerate(model.model.layers):
        attention, mlp = layer.self_attn, layer.mlp

        def group(parent: nn.Module, place: str, names: list[str], number: int = number) -> Projections:
            return Projections(parent, names, weights.matrix(parent, f"model.layers.{number}.{place}", names))

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


@dataclass(frozen=True, slots=True)
class Unread:
    """The part of a row's prompt that is still to be read: ``first`` is the column of the prompt's first token, ``before``
    how many of its tokens are known already."""

    row: int
    ids: list[int]
    first: int
    before: int


class LlamaSteps(CausalSteps):
    """`CausalSteps` with reading and stepping written out."""

    def __init__(
        self,
        model: Any,
        select: Select,
        prefixes: PrefixCache,
        padding_id: int,
        layers: list[Layer],
    ) -> None:
        super().__init__(model, select, prefixes, padding_id)
        self._layers = layers
        config = model.config
        self._heads, self._key_heads = config.num_attention_heads, config.num_key_value_heads
        self._width: int = layers[0].attention.head_dim
        self._small = is_small(model)

    def prefill(self, rows: Sequence[Row]) -> Tensor:
        for place in self._layers:
            for projections in place.projections:
                projections.bind()
        self._adapters = [row.adapter for row in rows]
        lengths = [len(row.prompt) for row in rows]
        self._length = max(lengths)
        self._states = self._room(len(rows), self._length + max(row.limit for row in rows))
        prompts = []
        alone = len(rows) == 1 and not rows[0].prefix  # only then it is read in steps of `ALIGNED` tokens
        for number, row in enumerate(rows):
            prefix = (self._prefixes.beginning(row.adapter, row.prompt[:-1]) if alone else self._prefix(row)) or []
            first = self._length - lengths[number]
            before = prefix[0][0].shape[-2] if prefix else 0
            for layer, known in enumerate(prefix):
                for states, prefix_states in zip(self._states[layer], known, strict=True):
                    states[number, :, first : first + before] = prefix_states[0]
            prompts.append(Unread(number, row.prompt[before:], first, before))
        base = self._model.model
        last = self._states[0][0].new_empty(len(rows), self._model.config.hidden_size)
        for pack in _packs(prompts, self._adapters):
            self._select([self._adapters[pack[0].row]])
            last[[prompt.row for prompt in pack]] = self._read(pack, self._states)
        self._select(self._adapters)
        if alone:
            read = [(keys[:, :, : self._length], values[:, :, : self._length]) for keys, values in self._states]
            self._prefixes.add_recent(rows[0].adapter, rows[0].prompt, read)
        self._next = torch.tensor(lengths)[:, None]
        self._visible: Tensor | None = None
        if min(lengths) < self._length:
            columns = torch.arange(self._states[0][0].shape[2])
            self._visible = (columns >= self._length - torch.tensor(lengths)[:, None])[:, None, None]
        logits: Tensor = self._model.lm_head(_normed(last, base.norm))
        return logits

    def _compute(self, adapter: str | None, ids: list[int]) -> LayerStates:
        self._select([adapter])
        states = self._room(1, len(ids))
        self._read([Unread(0, ids, 0, 0)], states)
        return states

    def _room(self, rows: int, tokens: int) -> LayerStates:
        """Keys and values (rows, key heads, tokens, width) of every layer, to be filled."""
        weight = self._model.model.norm.weight
        shape = (rows, self._key_heads, tokens, self._width)
        return [(weight.new_zeros(shape), weight.new_zeros(shape)) for _ in self._layers]

    def _read(self, prompts: Sequence[Unread], states: LayerStates) -> Tensor:
        """Read prompts of one adapter one after the other; fill ``states``, return (prompts, hidden) of their ends."""
        base = self._model.model
        x = base.embed_tokens(torch.tensor([token for prompt in prompts for token in prompt.ids]))
        places = torch.tensor([place for p in prompts for place in range(p.before, p.before + len(p.ids))])
        angles = _angles(*(part[0, :, None] for part in base.rotary_emb(x, places[None])))
        ends = torch.tensor([len(prompt.ids) for prompt in prompts]).cumsum(0).tolist()
        for layer, (keys, values) in zip(self._layers, states, strict=True):
            read = layer.read.apart(_normed(x, layer.before_attention))
            new_queries, new_keys, new_values = (part.view(len(x), -1, self._width) for part in read)
            if hasattr(layer.attention, "q_norm"):
                new_queries, new_keys = layer.attention.q_norm(new_queries), layer.attention.k_norm(new_keys)
            new_queries, new_keys = _rotated(new_queries, *angles), _rotated(new_keys, *angles)
            attended = torch.empty_like(new_queries)
            for prompt, end in zip(prompts, ends, strict=True):
                place = slice(end - len(prompt.ids), end)
                known = slice(prompt.first, prompt.first + prompt.before + len(prompt.ids))
                fresh = slice(prompt.first + prompt.before, known.stop)
                keys[prompt.row, :, fresh] = new_keys[place].transpose(0, 1)
                values[prompt.row, :, fresh] = new_values[place].transpose(0, 1)
                attended[place] = _attend(
                    new_queries[place],
                    keys[prompt.row, :, known],
                    values[prompt.row, :, known],
                    layer.attention.scaling,
                )
            x = layer.attended.apart(attended.view(len(x), -1))[0].add_(x)
            gate, up = layer.gate_up.apart(_normed(x, layer.before_mlp))
            x = layer.down.apart(layer.activation(gate).mul_(up))[0].add_(x)
        last: Tensor = x[[end - 1 for end in ends]]
        return last

    def step(self, ids: Sequence[int]) -> Tensor:
        if not self._small:
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
        angles = _angles(*base.rotary_emb(x, self._next))
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
            rotated = _rotated(queries_keys, *angles)
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


def _attend(queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    """Attend from the last tokens of one sequence to all tokens before each.

    Args:
        queries: (new tokens, heads, width).
        keys: (key heads, tokens, width), the new tokens last.
        values: (key heads, tokens, width).

    Returns:
        (new tokens, heads, width).
    """
    fresh, heads, width = queries.shape
    key_heads, tokens, _ = keys.shape
    attended = torch.empty_like(queries)
    # Scores in float32, as the fused operator has them; the products with values in the precision of the values.
    wide_queries, wide_keys = queries.float() * scale, keys.float().transpose(1, 2)
    for start in range(0, fresh, QUERIES):
        block = wide_queries[start : start + QUERIES]
        end = tokens - fresh + start + len(block)
        # Query heads that share a key head go in as if they were successive queries.
        grouped = block.transpose(0, 1).reshape(key_heads, -1, width)
        scores = torch.bmm(grouped, wide_keys[:, :, :end]).view(heads, len(block), end)
        later = torch.ones(len(block), len(block), dtype=torch.bool).triu_(1)
        scores[..., end - len(block) :].masked_fill_(later, -torch.inf)
        weights = scores.softmax(-1).to(values.dtype).view(key_heads, -1, end)
        attended[start : start + QUERIES] = (
            torch.bmm(weights, values[:, :end]).view(heads, len(block), width).transpose(0, 1)
        )
    return attended


def _angles(cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine as `_rotated` takes them: rotating half turns is one roll when the sign is already in the sine."""
    half = sine.shape[-1] // 2
    return cosine, torch.cat([-sine[..., :half], sine[..., half:]], -1)


def _rotated(x: Tensor, cosine: Tensor, signed_sine: Tensor) -> Tensor:
    return torch.addcmul(x * cosine, x.roll(x.shape[-1] // 2, -1), signed_sine)


def _packs(prompts: Sequence[Unread], adapters: Sequence[str | None]) -> Iterator[list[Unread]]:
    """Prompts that are read together: of one adapter, and at most ``PACK`` tokens unless a single prompt has more."""
    ordered = sorted(prompts, key=lambda prompt: adapters[prompt.row] or "")
    pack: list[Unread] = []
    for prompt in ordered:
        foreign = pack and adapters[prompt.row] != adapters[pack[0].row]
        if pack and (foreign or sum(len(unread.ids) for unread in [*pack, prompt]) > PACK):
            yield pack
            pack = []
        pack.append(prompt)
    yield pack


def _normed(x: Tensor, norm: Any) -> Tensor:
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + norm.variance_epsilon)
    normed: Tensor = norm.weight * (wide * scale).to(x.dtype)
    return normed
