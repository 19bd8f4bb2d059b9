"""A language model in this process: any decoder-only or encoder-decoder model of transformers, with LoRA adapters.

Puts the parts together: `weights` finds the files, `chat_tokens` makes ids of messages, `steps` runs the model,
`lora` gives every row its adapter, `decoding` chooses the tokens. Knows nothing of prompts, personas or memory.

Greedy answers of a row do not depend on the other rows of its batch but for the rounding of batched arithmetic (which
may tip the balance between two tokens of nearly equal logits); sampled answers depend on the request's seed alone in
the same sense.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ld_agent.backbones.base import Completion, Message, Request
from ld_agent.backbones.local.chat_tokens import ChatTokens, TextStream, cut_left
from ld_agent.backbones.weights import resolve_model
from ld_agent.errors import BackboneError

if TYPE_CHECKING:
    from ld_agent.backbones.local.likelihood import Likelihood

MAX_ROWS = 16
"""Most rows of one forward pass; more requests are answered in several batches of similar prompt length."""


class LocalBackbone:
    """A transformers model with named LoRA adapters, answering batches of requests. Safe to call from several threads.

    Args:
        model: hub id, local directory, ``.gguf`` path or ``package:NAME/PATH``.
        dtype: ``auto`` is bfloat16 where the processor computes it natively, else float32.
        device: ``auto`` is a GPU where there is one, else the CPU.
        sha256: expected digest of the weight file.
        trust_remote_code: run modelling code that comes with the model.
        context_window: tokens; None: what the model's config says. Of an encoder-decoder model it is the smaller of
            the two halves, so that what fits by this number fits.
        adapters: LoRA adapters in PEFT's format by name, each a folder or a reference like ``model``.

    Raises:
        ModelError: the model or an adapter cannot be found, verified or loaded.
    """

    def __init__(
        self,
        model: str,
        *,
        dtype: str = "auto",
        device: str = "auto",
        sha256: str | None = None,
        trust_remote_code: bool = False,
        context_window: int | None = None,
        adapters: Mapping[str, str] | None = None,
    ) -> None:
        # torch and transformers take seconds to import, which only those who load a model should wait for.
        from ld_agent.backbones.local import loading
        from ld_agent.backbones.local.steps import PrefixCache

        self._name = model
        self._source = source = resolve_model(model, sha256)
        self._model, tokenizer = loading.load(model, source, dtype, device, trust_remote_code)
        self._layers = loading.prepare(self._model, source)
        self._encoder_decoder = bool(self._model.config.is_encoder_decoder)
        self._tokens = ChatTokens(tokenizer, self._encoder_decoder)
        self._padding_id = next((i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id) if isinstance(i, int)), 0)
        self._window = context_window or loading.context_window(self._model.config, tokenizer)
        self._lock = threading.Lock()
        self._choice = loading.choice(self._model, tokenizer)
        self._adapters: Any = None
        self._prefixes = PrefixCache()
        for name, reference in (adapters or {}).items():
            self.add_adapter(name, reference)

    @property
    def context_window(self) -> int:
        return self._window

    def add_adapter(self, name: str, reference: str) -> None:
        """Load a LoRA adapter under a name that requests use.

        Raises:
            ModelError: no such adapter, or one made for another base.
        """
        from ld_agent.backbones.local.loading import adapter_folder
        from ld_agent.backbones.local.lora import LoraAdapters

        folder = adapter_folder(name, reference)
        with self._lock:
            if self._adapters is None:
                self._adapters = LoraAdapters(self._loaded(), self._name)
            self._adapters.add(name, folder)
            self._prefixes.clear()

    def encode_messages(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of the rendered prompt; control tokens standing in a message's content are plain text there.

        Raises:
            BackboneError: the chat template cannot render these messages.
        """
        return self._tokens.encode_messages(messages)

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return len(self._tokens.encode_messages(messages))

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer every request, in order.

        A prompt that leaves no room for ``max_new_tokens`` loses its oldest tokens, after those with which the chat
        template opens.

        Raises:
            BackboneError: an adapter nobody added, a closed backbone, or a model that failed.
        """
        self._check_adapters(requests)
        prompts = [self._prompt(request) for request in requests]
        by_length = sorted(range(len(requests)), key=lambda i: len(prompts[i][0]))
        completions: dict[int, Completion] = {}
        with self._lock:
            for start in range(0, len(by_length), MAX_ROWS):
                batch = by_length[start : start + MAX_ROWS]
                answers = self._answer([requests[i] for i in batch], [prompts[i] for i in batch])
                completions.update(zip(batch, answers, strict=True))
        return [completions[i] for i in range(len(requests))]

    def likelihoods(self, requests: Sequence[Request], answers: Sequence[str]) -> list[Likelihood]:
        """Return how likely each answer is after its request's prompt, which is cut so that the answer fits.

        Raises:
            BackboneError: an adapter nobody added, a closed backbone, or a model that failed.
        """
        from ld_agent.backbones.local.likelihood import causal_likelihoods, seq2seq_likelihoods
        from ld_agent.backbones.local.loading import decoder_start

        self._check_adapters(requests)
        targets = [self._tokens.encode_answer(answer)[-(self._window // 2) :] for answer in answers]
        sized = [replace(r, max_new_tokens=len(own)) for r, own in zip(requests, targets, strict=True)]
        prompts = [self._prompt(request)[0] for request in sized]
        by_length = sorted(range(len(requests)), key=lambda i: len(prompts[i]))
        found: dict[int, Likelihood] = {}
        with self._lock:
            model = self._loaded()
            for start in range(0, len(by_length), MAX_ROWS // 2):
                rows = by_length[start : start + MAX_ROWS // 2]
                if self._adapters is not None:
                    self._adapters.select([requests[i].adapter for i in rows])
                own, wanted = [prompts[i] for i in rows], [targets[i] for i in rows]
                try:
                    if self._encoder_decoder:
                        opening = model.generation_config.forced_bos_token_id
                        scored = seq2seq_likelihoods(
                            model, own, wanted, self._padding_id, decoder_start(model), opening
                        )
                    else:
                        scored = causal_likelihoods(model, own, wanted, self._padding_id)
                except (RuntimeError, ValueError, IndexError) as exc:
                    raise BackboneError(
                        f"the model failed on a batch of {len(rows)} answers to score ({type(exc).__name__}); try a "
                        f"smaller backbone.context_window, or another dtype"
                    ) from exc
                found.update(zip(rows, scored, strict=True))
        return [found[i] for i in range(len(requests))]

    def close(self) -> None:
        with self._lock:
            self._model = self._layers = None
            self._adapters = None
            self._prefixes.clear()

    def _loaded(self) -> Any:
        if self._model is None:
            raise BackboneError(f"the backbone {self._name} is closed; make a new one")
        return self._model

    def _check_adapters(self, requests: Sequence[Request]) -> None:
        known = self._adapters.names if self._adapters is not None else frozenset()
        for request in requests:
            if request.adapter is not None and request.adapter not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise BackboneError(f"no adapter {request.adapter!r} on {self._name}; the adapters are: {listed}")

    def _prompt(self, request: Request) -> tuple[list[int], int, int]:
        """Return prompt ids that fit, the number of new tokens that fit, and the length of the constant prefix."""
        ids, head = self._tokens.encode(request.messages)
        limit = max(1, min(request.max_new_tokens, self._window // 2))
        room = self._window if self._encoder_decoder else self._window - limit
        if len(ids) > room:
            return cut_left(ids, head, room), limit, 0
        prefix = 0
        if request.cacheable_prefix and not self._encoder_decoder:
            prefix = self._tokens.prefix_length(request.messages, request.cacheable_prefix)
        return ids or [self._padding_id], limit, prefix

    def _answer(self, requests: Sequence[Request], prompts: Sequence[tuple[list[int], int, int]]) -> list[Completion]:
        from ld_agent.backbones.local.decoding import Row, Steps, decode
        from ld_agent.backbones.local.fast_cpu.llama import LlamaSteps
        from ld_agent.backbones.local.loading import decoder_start
        from ld_agent.backbones.local.steps import CausalSteps, Seq2SeqSteps

        model = self._loaded()
        select: Callable[[Sequence[str | None]], None] = (
            self._adapters.select if self._adapters is not None else lambda rows: None
        )
        steps: Steps
        if self._encoder_decoder:
            start = decoder_start(model)
            steps = Seq2SeqSteps(model, select, [ids for ids, _, _ in prompts], self._padding_id)
        elif self._layers is not None:
            start = None
            steps = LlamaSteps(model, select, self._prefixes, self._padding_id, self._layers)
        else:
            start = None
            steps = CausalSteps(model, select, self._prefixes, self._padding_id)
        rows, streams = [], []
        for request, (ids, limit, prefix) in zip(requests, prompts, strict=True):
            stream = TextStream(self._tokens, request.on_text) if request.on_text is not None else None
            rows.append(
                Row(
                    prompt=ids if start is None else start,
                    limit=limit,
                    temperature=request.temperature,
                    seed=request.seed,
                    repetition_penalty=request.repetition_penalty,
                    adapter=request.adapter,
                    prefix=prefix,
                    on_ids=stream.update if stream is not None else None,
                )
            )
            streams.append(stream)
        decode(steps, rows, self._choice)
        completions = []
        for row, stream, (ids, _, _) in zip(rows, streams, prompts, strict=True):
            if stream is not None:
                stream.update(row.out, last=True)
            text = self._tokens.decode(row.out).strip()
            completions.append(Completion(text, len(ids), len(row.out), "stop" if row.stopped else "length"))
        return completions
