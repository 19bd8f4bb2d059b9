"""A language model in this process: any decoder-only or encoder-decoder model of transformers, with LoRA adapters.

Combines the parts: `weights` finds the files, `chat_tokens` turns messages into ids, `fast_cpu.steps_for` runs the
model, `lora` gives every row its adapter, `decoding` chooses the tokens. Knows nothing of prompts, personas or memory.

A row's greedy answer depends on the other rows of its batch only through the rounding of batched arithmetic, which may
decide between two tokens of nearly equal logits. In the same sense a sampled answer depends on the request's seed alone.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ld_agent.backbones.base import ASKED, Completion, Message, Request
from ld_agent.backbones.local.chat_tokens import ChatTokens, TextStream, cut_left
from ld_agent.backbones.weights import resolve_model
from ld_agent.errors import BackboneError

if TYPE_CHECKING:
    from ld_agent.backbones.local.decoding import Row
    from ld_agent.backbones.local.likelihood import Likelihood
    from ld_agent.backbones.local.steps import BatchSteps

MAX_ROWS = 16
"""Maximum number of rows per forward pass; more requests are split into batches of similar prompt length."""


class LocalBackbone:
    """A transformers model with named LoRA adapters, answering batches of requests. Thread-safe.

    Args:
        model: hub id, local directory, ``.gguf`` path or ``package:NAME/PATH``.
        dtype: ``auto`` is bfloat16 where the processor computes it natively, else float32.
        device: ``auto`` is a GPU where there is one, else the CPU.
        sha256: expected digest of the weight file.
        trust_remote_code: run modelling code that comes with the model.
        context_window: tokens; None: from the model's config. For an encoder-decoder model, the smaller of both halves.
        adapters: LoRA adapters in PEFT's format by name, each a folder or a reference like ``model``.
        thinking: let the model reason before it answers; see `ChatTokens`.

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
        thinking: bool = False,
    ) -> None:
        # torch and transformers take seconds to import, so import them only when a model is loaded.
        from ld_agent.backbones.local import loading
        from ld_agent.backbones.local.fast_cpu import steps_for
        from ld_agent.backbones.local.lora import LoraAdapters
        from ld_agent.backbones.local.steps import PrefixCache

        self._name = model
        self._source = source = resolve_model(model, sha256)
        self._model, tokenizer = loading.load(model, source, dtype, device, trust_remote_code)
        self._start = loading.decoder_start(self._model)
        self._tokens = ChatTokens(tokenizer, self._start is not None, thinking=thinking)
        self._padding_id = loading.padding_id(tokenizer)
        self.context_window = context_window or loading.context_window(self._model.config, tokenizer)
        self._lock = threading.Lock()
        self._choice = loading.choice(self._model, tokenizer)
        self._adapters: Any = LoraAdapters(self._model, model)
        self._prefixes = PrefixCache()
        self._steps: BatchSteps | None = steps_for(
            self._model, self._padding_id, select=self._adapters.select, prefixes=self._prefixes, source=source
        )
        for name, reference in (adapters or {}).items():
            self.add_adapter(name, reference)

    @property
    def adapters(self) -> frozenset[str]:
        """The names that requests may use."""
        return frozenset() if self._adapters is None else self._adapters.names

    def add_adapter(self, name: str, reference: str) -> None:
        """Load a LoRA adapter under a name that requests use; one in its subfolder `ASKED` as ``NAME/asked``.

        Raises:
            ModelError: no such adapter, or one made for another base.
        """
        from ld_agent.backbones.local.loading import adapter_folder

        folder = adapter_folder(name, reference)
        with self._lock:
            self._check_open()
            self._adapters.add(name, folder)
            if (folder / ASKED).is_dir():
                self._adapters.add(f"{name}/{ASKED}", folder / ASKED)
            self._prefixes.clear()

    def encode_messages(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of the rendered prompt; control tokens in a message's content are plain text.

        Raises:
            BackboneError: the chat template cannot render these messages.
        """
        return self._tokens.encode_messages(messages)

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return len(self._tokens.encode_messages(messages))

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer every request, in order.

        A prompt that leaves no room for ``max_new_tokens`` loses its oldest tokens after the template's opening.

        Raises:
            BackboneError: the adapter is unknown, the backbone is closed, or the model failed.
        """
        prompts = [self._prompt(request) for request in requests]
        by_length = sorted(range(len(requests)), key=lambda i: len(prompts[i][0]))
        completions: dict[int, Completion] = {}
        with self._lock:
            self._check_adapters(requests)
            for start in range(0, len(by_length), MAX_ROWS):
                batch = by_length[start : start + MAX_ROWS]
                answers = self._answer([requests[i] for i in batch], [prompts[i] for i in batch])
                completions.update(zip(batch, answers, strict=True))
        return [completions[i] for i in range(len(requests))]

    def likelihoods(self, requests: Sequence[Request], answers: Sequence[str]) -> list[Likelihood]:
        """Return the likelihood of each answer given its request's prompt, which is cut so that the answer fits.

        Raises:
            BackboneError: the adapter is unknown, the backbone is closed, or the model failed.
        """
        targets = [self._tokens.encode_answer(answer)[-(self.context_window // 2) :] for answer in answers]
        sized = [replace(r, max_new_tokens=len(target)) for r, target in zip(requests, targets, strict=True)]
        prompts = [self._prompt(request)[0] for request in sized]
        by_length = sorted(range(len(requests)), key=lambda i: len(prompts[i]))
        likelihoods: dict[int, Likelihood] = {}
        with self._lock:
            self._check_adapters(requests)
            for start in range(0, len(by_length), MAX_ROWS // 2):
                rows = by_length[start : start + MAX_ROWS // 2]
                self._adapters.select([requests[i].adapter for i in rows])
                scored = self._scored([prompts[i] for i in rows], [targets[i] for i in rows])
                likelihoods.update(zip(rows, scored, strict=True))
        return [likelihoods[i] for i in range(len(requests))]

    def close(self) -> None:
        with self._lock:
            self._model = self._steps = self._adapters = None
            self._prefixes.clear()

    def _check_open(self) -> None:
        if self._model is None:
            raise BackboneError(f"the backbone {self._name} is closed; create a new one")

    def _check_adapters(self, requests: Sequence[Request]) -> None:
        self._check_open()
        known = self._adapters.names
        for request in requests:
            if request.adapter is not None and request.adapter not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise BackboneError(f"no adapter {request.adapter!r} on {self._name}; the adapters are: {listed}")

    def _prompt(self, request: Request) -> tuple[list[int], int, int]:
        """Return fitting prompt ids, the number of new tokens that fit, and the length of the constant prefix."""
        ids, head = self._tokens.encode(request.messages)
        limit = max(1, min(request.max_new_tokens, self.context_window // 2))
        room = self.context_window if self._start is not None else self.context_window - limit
        if len(ids) > room:
            return cut_left(ids, head, room), limit, 0
        prefix = 0
        if request.cacheable_prefix and self._start is None:
            prefix = self._tokens.prefix_length(request.messages, request.cacheable_prefix)
        return ids or [self._padding_id], limit, prefix

    def _answer(self, requests: Sequence[Request], prompts: Sequence[tuple[list[int], int, int]]) -> list[Completion]:
        from ld_agent.backbones.local.decoding import decode

        assert self._steps is not None
        openings = [self._tokens.opening(r.messages) for r in requests]
        streams = [
            TextStream(self._tokens, r.on_text, opening) if r.on_text is not None else None
            for r, opening in zip(requests, openings, strict=True)
        ]
        rows = [self._row(*given) for given in zip(requests, prompts, streams, strict=True)]
        decode(self._steps([ids for ids, _, _ in prompts]), rows, self._choice)
        completions = []
        for row, stream, opening, (ids, _, _) in zip(rows, streams, openings, prompts, strict=True):
            if stream is not None:
                stream.update(row.out, last=True)
            text = opening + self._tokens.decode(row.out).strip()
            completions.append(Completion(text, len(ids), len(row.out), "stop" if row.stopped else "length"))
        return completions

    def _row(self, request: Request, prompt: tuple[list[int], int, int], stream: TextStream | None) -> Row:
        from ld_agent.backbones.local.decoding import Row, continuations

        ids, limit, prefix = prompt
        return Row(
            prompt=self._start or ids,
            limit=limit,
            temperature=request.temperature,
            top_p=request.top_p,
            seed=request.seed,
            unlike=continuations(self._tokens.encode_answer(text) for text in request.unlike),
            repetition_penalty=request.repetition_penalty,
            adapter=request.adapter,
            prefix=prefix,
            on_ids=stream.update if stream is not None else None,
        )

    def _scored(self, prompts: Sequence[list[int]], targets: Sequence[list[int]]) -> list[Likelihood]:
        from ld_agent.backbones.local.likelihood import causal_likelihoods, seq2seq_likelihoods

        model = self._model
        try:
            if self._start is None:
                return causal_likelihoods(model, prompts, targets, self._padding_id)
            opening = model.generation_config.forced_bos_token_id
            return seq2seq_likelihoods(model, prompts, targets, self._padding_id, self._start, opening)
        except (RuntimeError, ValueError, IndexError) as exc:
            raise BackboneError(
                f"the model failed on a batch of {len(prompts)} answers to score ({type(exc).__name__}); try a "
                f"smaller backbone.context_window, or another dtype"
            ) from exc
