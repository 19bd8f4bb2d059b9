"""The configured model alone: tokens a second against plain transformers, and the memory of adapters."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ld_agent.backbones import build_backbone
from ld_agent.backbones.base import Message, Request
from ld_agent.backbones.weights import resolve_model
from ld_agent.config import Config
from ld_agent.evaluation.bench.recall import sample
from ld_agent.evaluation.bench.timing import in_process, peak_mb
from ld_agent.modules.generator import render
from ld_agent.modules.situation import Situation
from ld_agent.types import Utterance

PROMPTS, NEW_TOKENS = 8, 48


def rates(config: Config) -> dict[str, Any]:
    """Tokens per second on the same prompts: plain transformers in float32, this backbone alone, and in batches of 4."""
    import torch
    from transformers import AutoModelForCausalLM

    from ld_agent.backbones.local import LocalBackbone

    backbone = build_backbone(config.backbone)
    if not isinstance(backbone, LocalBackbone):
        return {"skipped": f"backbone.kind={config.backbone.kind} does not run here"}
    prompts = sample_prompts(PROMPTS)
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


def sample_prompts(count: int) -> list[tuple[Message, ...]]:
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


def adapter_memory(config: Config, folder: Path) -> dict[str, Any]:
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
