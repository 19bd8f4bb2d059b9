"""``ld-agent bench turn``: a turn without the model's forward passes, as one conversation grows or at 10,000 events;
generation against plain transformers; memory of adapters.

Store, encoder, topics and index are real; the contents of the memory are random. What is compared is measured in one run.
"""

from __future__ import annotations

import re
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent, Conversation
from ld_agent.backbones import build_backbone
from ld_agent.backbones.base import Message, Request
from ld_agent.backbones.quiet import quiet_transformers
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.backbones.weights import resolve_model
from ld_agent.config import Config
from ld_agent.evaluation.bench.random_memory import START, RandomMemory
from ld_agent.evaluation.bench.recall import sample
from ld_agent.evaluation.bench.timing import in_process, machine, peak_mb, spread
from ld_agent.memory.encoder import configured
from ld_agent.memory.topics import TopicExtractor
from ld_agent.modules.generator import render
from ld_agent.modules.situation import Situation
from ld_agent.running.terminal import errors, progress
from ld_agent.types import Utterance

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SESSION = 10
"""Utterances of a session."""
EVENTS = 10_000
WARM_UP, TURNS = 3, 15
AT_ONCE = 100
"""Sessions stored in one transaction."""


def bench_turn(config: Config) -> dict[str, Any]:
    """Time a turn without the model and generation against a plain float32 ``generate()``, and weigh adapters."""
    with tempfile.TemporaryDirectory() as folder, quiet_transformers():
        grown = GrowingConversation(config, Path(folder) / "turn.db")
        row = grown.measured(EVENTS * SESSION)
        around = {"events": EVENTS, "median": row["turn_ms_median"], "p95": row["turn_ms_p95"], **row["steps_ms"]}
        with errors.status("measuring generation …"):
            rates = _rates(config)
        with errors.status("measuring memory of one adapter and of three …"):
            adapters = _adapter_memory(config, Path(folder))
    return {"turn_without_model_ms": around, "generation": rates, "adapters": adapters, "machine": machine()}


def bench_growth(config: Config, sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """Measure turns and reopening of one conversation at each size.

    Returns:
        ``growth``: a row for each size with ``utterances``, ``sessions``, ``traits``, ``turn_ms_median``, ``turn_ms_p95``,
        milliseconds by step (``steps_ms``), ``reopen_s`` (opening and the first turn, models loaded) and ``store_mb``.
    """
    with tempfile.TemporaryDirectory() as folder:
        grown = GrowingConversation(config, Path(folder) / "growth.db")
        rows = [grown.measured(size) for size in sizes]
    return {"growth": rows, "machine": machine()}


class GrowingConversation:
    """One conversation that is filled up to a size and measured there, through the public API with a scripted model."""

    def __init__(self, config: Config, path: Path) -> None:
        # Random vectors are similar to nothing: recall them anyway.
        self._config = config.changed(memory={"gamma": -1.0}, store={"path": str(path)})
        self._encoder = configured(config.encoder)
        self._topics = TopicExtractor(config.topics.model, config.topics.pos)
        self._random = RandomMemory(self._encoder.dimension, config.agent.name, SESSION)
        self._at, self._turns = START, 0

    def measured(self, size: int) -> dict[str, Any]:
        """Fill up to a number of utterances, and measure."""
        self._fill(size)
        with self._agent() as agent:
            conversation = agent.conversation("growth")
            laps = [self._turn(conversation) for _ in range(WARM_UP + TURNS)][WARM_UP:]
        start = time.perf_counter()
        with self._agent() as agent:
            self._turn(agent.conversation("growth"))
            reopen = time.perf_counter() - start
            counts = agent.store.counts(agent.conversation("growth").key)
        total = spread([sum(lap.values()) for lap in laps])
        return {
            "utterances": size,
            "sessions": counts["sessions"],
            "traits": counts["traits"],
            "turn_ms_median": round(total["median"], 2),
            "turn_ms_p95": round(total["p95"], 2),
            "steps_ms": {name: round(statistics.median(lap[name] for lap in laps), 2) for name in laps[0]},
            "reopen_s": round(reopen, 3),
            "store_mb": round(Path(self._config.store.path).stat().st_size / 1e6),
        }

    def _agent(self) -> Agent:
        def trait(request: Request) -> str:
            word = "".join(re.findall(r"word\d+", request.messages[-1].content)[-1:])  # a number must have been said
            return f"I like {word}." if word and self._turns % 4 == 0 else "NO_TRAIT"

        script: dict[str, Any] = {
            "generator": lambda request: f"That sounds good, number {self._turns}.",
            "extractor": trait,
            "summarizer": "They talk about words.",
        }
        return Agent(self._config, backbone=ScriptedBackbone(script), encoder=self._encoder, topics=self._topics)

    def _turn(self, conversation: Conversation) -> dict[str, float]:
        self._turns += 1
        self._at += timedelta(minutes=1)
        text = f"What did I say about {self._random.session(self._turns).texts[0]} and word{self._turns}?"
        return dict(conversation.respond(text, speaker="Ann", at=self._at).timings_ms)

    def _fill(self, size: int) -> None:
        with self._agent() as agent:
            store, key = agent.store, agent.conversation("growth").key
            numbers = range(store.counts(key)["utterances"] // SESSION, size // SESSION)
            with progress(f"filling up to {size:,} utterances", len(numbers)) as step:
                for start in range(numbers.start, numbers.stop, AT_ONCE):
                    some = range(start, min(start + AT_ONCE, numbers.stop))
                    with store.writing(key):
                        for number in some:
                            self._at = max(self._at, self._random.fill(store, key, number, self._config.memory.beta))
                    step(len(some))


# ---- the configured model alone

PROMPTS, NEW_TOKENS = 8, 48


def _rates(config: Config) -> dict[str, Any]:
    """Tokens per second on the same prompts: plain transformers in float32, this backbone alone, and in batches of 4."""
    import torch
    from transformers import AutoModelForCausalLM

    from ld_agent.backbones.local import LocalBackbone

    backbone = build_backbone(config.backbone)
    if not isinstance(backbone, LocalBackbone):
        return {"skipped": f"backbone.kind={config.backbone.kind} does not run here"}
    prompts = _sample_prompts(PROMPTS)
    ids = [torch.tensor([backbone.encode_messages(messages)]) for messages in prompts]
    plain = AutoModelForCausalLM.from_pretrained(str(resolve_model(config.backbone.model)), dtype=torch.float32).eval()

    def plainly(row: Any) -> int:
        with torch.inference_mode():
            out = plain.generate(row, attention_mask=torch.ones_like(row), max_new_tokens=NEW_TOKENS, do_sample=False)
        return int(out.shape[1] - row.shape[1])

    def answered(batch: Sequence[tuple[Message, ...]]) -> int:
        requests = [Request(messages, "generator", NEW_TOKENS) for messages in batch]
        return sum(completion.completion_tokens for completion in backbone.generate(requests))

    plainly(ids[0])
    answered(prompts[:1])
    slow = _rate([partial(plainly, row) for row in ids])
    one = _rate([partial(answered, [p]) for p in prompts])
    four = _rate([partial(answered, prompts[b : b + 4]) for b in range(0, PROMPTS, 4)])
    backbone.close()
    return {
        "prompts": PROMPTS,
        "prompt_tokens_mean": round(statistics.mean(row.shape[1] for row in ids)),
        "new_tokens_at_most": NEW_TOKENS,
        "plain_float32_tokens_per_s": slow,
        "one_stream_tokens_per_s": one,
        "four_streams_tokens_per_s": four,
        "one_stream_speedup": round(one / slow, 2),
        "four_streams_speedup": round(four / slow, 2),
    }


def _sample_prompts(count: int) -> list[tuple[Message, ...]]:
    """Prompts as the generator renders them along the shipped conversation."""
    episode = sample()
    said = [Utterance(f"u{n}", t.speaker, t.text, t.at, 1) for n, t in enumerate(episode.turns[:24], 1)]
    heard = [n for n, u in enumerate(said) if u.speaker != episode.agent][1 : count + 1]
    traits = {"Maya": ("I am a nurse.", "I have a beagle named Biscuit.")}
    return [render(Situation(episode.agent, said[n], tuple(said[:n]), (), traits)) for n in heard]


def _rate(calls: Sequence[Callable[[], int]]) -> float:
    start = time.perf_counter()
    tokens = sum(call() for call in calls)
    return round(tokens / (time.perf_counter() - start), 1)


def _adapter_memory(config: Config, folder: Path) -> dict[str, Any]:
    """Peak resident memory of a process that answers three rows with one adapter, and with three."""
    if peak_mb() is None or config.backbone.kind != "transformers":
        return {"skipped": "peak memory is read from /proc, for local models"}
    adapters = [str(_random_adapter(config.backbone.model, folder / f"adapter{n}", n)) for n in range(3)]
    answering = f"{__name__}:measured_adapters"
    one, three = (
        statistics.median(in_process(answering, config.backbone.model, adapters[:n]) for _ in range(3)) for n in (1, 3)
    )
    return {"one_mb": one, "three_mb": three, "ratio": round(three / one, 3)}


def _random_adapter(model: str, folder: Path, seed: int) -> Path:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    base = AutoModelForCausalLM.from_pretrained(str(resolve_model(model)), dtype=torch.bfloat16)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj"]
    lora = LoraConfig(r=16, lora_alpha=32, target_modules=targets, init_lora_weights=False, task_type="CAUSAL_LM")
    get_peft_model(base, lora).save_pretrained(folder)
    return folder


def measured_adapters(model: str, adapters: Sequence[str]) -> int | None:
    """Answer three rows with adapters in turn; return the peak memory."""
    from ld_agent.backbones.local import LocalBackbone

    backbone = LocalBackbone(model, adapters={name: name for name in adapters})
    messages = (Message("user", "Hello, who are you?"),)
    requests = [Request(messages, "generator", 16, adapter=name) for name in adapters]
    backbone.generate(requests * (3 // len(adapters)))
    return peak_mb()
