"""``ld-agent bench recall`` and ``bench turn``: the README's claims about speed and memory, measured on this machine.

Uses the configured encoder, topics, store and model. Only the contents of a large memory are random, with a fixed seed.
Everything that is compared is measured in the same run.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ld_agent.agent import Agent
from ld_agent.backbones.base import Message, Request
from ld_agent.backbones.scripted import ScriptedBackbone
from ld_agent.backbones.weights import quiet_transformers
from ld_agent.config import Config
from ld_agent.datasets import load_episodes
from ld_agent.languages import language
from ld_agent.memory.encoder import configured
from ld_agent.memory.index.long_term import LongTermIndex
from ld_agent.memory.index.passages import NO_VECTORS, PackedVectors, Passages
from ld_agent.memory.scoring import SCORERS
from ld_agent.memory.topics import TopicExtractor
from ld_agent.modules.generator import Situation, render
from ld_agent.shipped import shipped_path
from ld_agent.storage.base import Draft, Store
from ld_agent.terminal import errors
from ld_agent.types import Utterance

SIZES = (1_000, 10_000, 100_000)
VOCABULARY = 20_000
TOPICS_A_RECORD = 12
QUERIES = 200
PASSAGES = (22, 7)  # turns and sentences of a record
WORDS_A_TURN = 10
DIFFERENT_PASSAGES = 500
EVENTS = 10_000
TURNS = 60
PROMPTS = 8
NEW_TOKENS = 48
START = datetime(2024, 1, 1, tzinfo=UTC)


def bench_recall(config: Config) -> dict[str, Any]:
    """Time the search over growing memories; encoding and topics of the query are timed separately.

    Returns:
        milliseconds (median and 95th percentile), how many times those of the scorer ``paper`` over the same memory in
        the same run (``vs_paper``, of the medians), and bytes an event, with machine and versions.
    """
    encoder = configured(config.encoder)
    topics = TopicExtractor(config.topics.model, config.topics.pos)
    texts = [turn.text for turn in _sample().turns]
    encoder.encode(texts[:2])
    topics.extract(texts[:2])
    rows = []
    for size in SIZES:
        with _said(f"recall over {size:,} events"):
            rows.append({"events": size} | _search_times(config, encoder.dimension, size))
    fresh = [f"{text} ({n})" for n, text in enumerate(texts * 3)]
    return {
        "query_encoding_ms": _times([partial(encoder.encode, [t]) for t in fresh]),
        "query_topics_ms": _times([partial(topics.extract, [t]) for t in fresh]),
        "recall": rows,
        "machine": machine(),
    }


def _search_times(config: Config, dimension: int, size: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    memory = config.memory
    looked_at = _passages(rng, dimension) if SCORERS[memory.scorer].needs_passages else None
    packed = looked_at[0].vectors if looked_at else NO_VECTORS
    index = LongTermIndex(dimension, language(config.language).reading, lambda keys: dict.fromkeys(keys, packed))
    for key, (vector, at, topics) in enumerate(_records(rng, dimension, size), 1):
        index.add(key, vector, at, topics, looked_at[key % len(looked_at)] if looked_at else None)
    queries = list(_records(rng, dimension, QUERIES + 5))
    at = START.timestamp() + size * 3600.0

    def search(query: tuple[Any, float, tuple[str, ...]], scorer: str) -> None:
        text = " ".join(query[2][:6])
        index.search(query[0], query[2][:4], at, k=memory.k, gamma=-1.0, tau=memory.tau, scorer_name=scorer, text=text)

    for query in queries[:5]:
        search(query, memory.scorer)
    times: dict[bool, list[float]] = {True: [], False: []}
    for n, query in enumerate(queries[5:]):  # alternate the order: the second scorer finds warm caches
        for mine in (n % 2 == 0, n % 2 == 1):
            times[mine].append(_time(partial(search, query, memory.scorer if mine else "paper")))
    return {
        "search_ms_median": round(statistics.median(times[True]), 3),
        "search_ms_p95": _p95(times[True]),
        "vs_paper": round(statistics.median(times[True]) / statistics.median(times[False]), 2),
        "bytes_an_event": round(index.nbytes / size),
    }


def _passages(rng: np.random.Generator, dimension: int) -> list[Passages]:
    """Draw what accompanies records: as many turns and sentences as in LoCoMo, words by Zipf's law."""

    def words() -> tuple[str, ...]:
        return tuple(f"topic{min(int(w), VOCABULARY)}" for w in rng.zipf(1.3, WORDS_A_TURN))

    passages = []
    for _ in range(DIFFERENT_PASSAGES):
        turns, sentences = tuple(words() for _ in range(PASSAGES[0])), tuple(words() for _ in range(PASSAGES[1]))
        vectors = rng.standard_normal((sum(PASSAGES), dimension)).astype(np.float32)
        packed = PackedVectors.of(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
        passages.append(Passages(("Ann", "Ben") * (PASSAGES[0] // 2), turns, sentences, packed))
    return passages


def _records(rng: np.random.Generator, dimension: int, count: int) -> Iterator[tuple[Any, float, tuple[str, ...]]]:
    """Random unit vectors an hour apart, with topics distributed like words (Zipf)."""
    for number in range(count):
        vector = rng.standard_normal(dimension).astype(np.float32)
        words = {f"topic{min(int(w), VOCABULARY)}" for w in rng.zipf(1.3, TOPICS_A_RECORD)}
        yield vector / np.linalg.norm(vector), START.timestamp() + 3600.0 * number, tuple(sorted(words))


def bench_turn(config: Config) -> dict[str, Any]:
    """Time generation against a plain float32 ``generate()``, a turn without the model, the start, and adapters."""
    with tempfile.TemporaryDirectory() as folder, quiet_transformers():
        with _said("a turn without the language model"):
            around = _turn_times(config, Path(folder))
        with _said("the start"):
            start = _start_times(Path(folder))
        with _said("generation"):
            generation = _generation(config)
        with _said("memory of one adapter and of three"):
            adapters = _adapter_memory(config, Path(folder))
    return {
        "turn_without_model_ms": around,
        "start_s": start,
        "generation": generation,
        "adapters": adapters,
        "machine": machine(),
    }


def _turn_times(config: Config, folder: Path) -> dict[str, Any]:
    config = config.changed(store={"path": str(folder / "bench.db")})
    backbone = ScriptedBackbone({"generator": "That sounds good.", "extractor": "NO_TRAIT", "summarizer": "They talk."})
    with Agent(config, backbone=backbone) as agent:
        _fill(agent.store, agent.encoder.dimension, EVENTS, config)
        at = START + timedelta(hours=EVENTS + 1)
        conversation = agent.conversation("bench", at)
        texts = [turn.text for turn in _sample().turns if turn.speaker != "Sam"]
        replies = []
        for number in range(TURNS + 3):
            text = f"{texts[number % len(texts)]} ({number})"
            backbone._every["generator"] = f"That sounds good, number {number}."
            replies.append(conversation.respond(text, at=at + timedelta(seconds=30 * number)))
    laps = [reply.timings_ms for reply in replies[3:]]
    total = [sum(lap.values()) for lap in laps]
    steps = {name: round(statistics.median(lap[name] for lap in laps), 2) for name in laps[0]}
    return {"events": EVENTS, "median": round(statistics.median(total), 2), "p95": _p95(total)} | steps


def _fill(store: Store, dimension: int, count: int, config: Config) -> None:
    """Random records with everything that the configured scorer reads."""
    key = store.open_conversation("bench", config.agent.name).key
    rng = np.random.default_rng(0)
    shelf = store.shelf(key, "events")
    with store.writing(key):
        for number, (vector, seconds, topics) in enumerate(_records(rng, dimension, count), 1):
            at = datetime.fromtimestamp(seconds, UTC)
            shelf.digest(number, [Draft(" ".join(topics), at, number, vector, topics)])
    if SCORERS[config.memory.scorer].needs_passages:
        rows = [(passages.words_text, passages.vectors.stored) for passages in _passages(rng, dimension)]
        shelf.set_passages({row.key: rows[n % len(rows)] for n, row in enumerate(shelf.rows_after(0))})


def _generation(config: Config) -> dict[str, Any]:
    """Tokens per second on the same prompts: plain transformers in float32, this backbone alone, and in batches of 4."""
    import torch
    from transformers import AutoModelForCausalLM

    from ld_agent.backbones import build_backbone
    from ld_agent.backbones.local import LocalBackbone
    from ld_agent.backbones.weights import resolve_model

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
    rates = {
        "plain_float32": _rate([partial(plainly, row) for row in ids]),
        "one_stream": _rate([partial(answered, [p]) for p in prompts]),
        "four_streams": _rate([partial(answered, prompts[b : b + 4]) for b in range(0, PROMPTS, 4)]),
    }
    backbone.close()
    return {
        "prompts": PROMPTS,
        "prompt_tokens_mean": round(statistics.mean(row.shape[1] for row in ids)),
        "new_tokens_at_most": NEW_TOKENS,
        **{f"{name}_tokens_per_s": rate for name, rate in rates.items()},
        **{
            f"{name}_speedup": round(rates[name] / rates["plain_float32"], 2) for name in ("one_stream", "four_streams")
        },
    }


def sample_prompts(count: int) -> list[tuple[Message, ...]]:
    """Prompts as the generator renders them along the shipped conversation."""
    episode = _sample()
    said = [Utterance(f"u{n}", t.speaker, t.text, t.at, 1) for n, t in enumerate(episode.turns[:24], 1)]
    heard = [n for n, u in enumerate(said) if u.speaker != episode.agent][1 : count + 1]
    traits = {"Maya": ("I am a nurse.", "I have a beagle named Biscuit.")}
    return [render(Situation(episode.agent, said[n], tuple(said[:n]), (), traits)) for n in heard]


START_SCRIPT = """
import subprocess, sys, time
t = time.perf_counter()
p = subprocess.Popen([sys.executable, "-c", "from ld_agent.cli import main; main()", "chat", "--store", sys.argv[1]],
                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
p.stdout.readline()
print(time.perf_counter() - t)
p.stdin.write("Hello!\\n")
p.stdin.flush()
p.stdout.readline()
p.stdout.readline()
print(time.perf_counter() - t)
p.kill()
"""
IMPORT_SCRIPT = "import time; t = time.perf_counter(); import ld_agent; print(time.perf_counter() - t)"


def _start_times(folder: Path) -> dict[str, float]:
    imports = [float(_python(IMPORT_SCRIPT)) for _ in range(5)]
    pairs = [_python(START_SCRIPT, str(folder / f"start{n}.db")).split() for n in range(4)][1:]
    return {
        "import_ld_agent": round(statistics.median(imports), 3),
        "chat_to_first_prompt": round(statistics.median(float(first) for first, _ in pairs), 2),
        "chat_to_first_reply": round(statistics.median(float(second) for _, second in pairs), 2),
    }


ADAPTER_SCRIPT = """
import sys
from ld_agent.backbones.local import LocalBackbone
from ld_agent.backbones.base import Message, Request
names = sys.argv[2:]
backbone = LocalBackbone(sys.argv[1], adapters={name: name for name in names})
ask = [Request((Message("user", "Hello, who are you?"),), "generator", 16, adapter=name) for name in names]
backbone.generate(ask * (3 // len(names)))
high = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(high.split()[1]) / 1024)
"""


def _adapter_memory(config: Config, folder: Path) -> dict[str, Any]:
    """Peak resident memory of a process that answers three rows with one adapter, and with three."""
    if not Path("/proc/self/status").exists() or config.backbone.kind != "transformers":
        return {"skipped": "peak memory is read from /proc, for local models"}
    adapters = [str(_random_adapter(config.backbone.model, folder / f"adapter{n}", n)) for n in range(3)]
    one, three = (
        statistics.median(float(_python(ADAPTER_SCRIPT, config.backbone.model, *adapters[:n])) for _ in range(3))
        for n in (1, 3)
    )
    return {"one_mb": round(one), "three_mb": round(three), "ratio": round(three / one, 3)}


def _random_adapter(model: str, folder: Path, seed: int) -> Path:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from ld_agent.backbones.weights import resolve_model

    torch.manual_seed(seed)
    base = AutoModelForCausalLM.from_pretrained(str(resolve_model(model)), dtype=torch.bfloat16)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj"]
    lora = LoraConfig(r=16, lora_alpha=32, target_modules=targets, init_lora_weights=False, task_type="CAUSAL_LM")
    get_peft_model(base, lora).save_pretrained(folder)
    return folder


def machine() -> dict[str, Any]:
    """The machine and the versions that figures were measured on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    packages = ("ld_agent", "torch", "transformers", "sentence-transformers", "spacy", "numpy")
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "date": datetime.now(UTC).date().isoformat(),
    }


def sample_texts(count: int) -> list[str]:
    """What the user says in the shipped conversation."""
    return [turn.text for turn in _sample().turns if turn.speaker != "Sam"][:count]


def _sample() -> Any:
    return load_episodes(shipped_path("data/samples/three_sessions.jsonl"))[0]


def _python(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    return done.stdout.strip()


def _times(calls: Sequence[Callable[[], Any]]) -> dict[str, float]:
    times = [_time(call) for call in calls]
    return {"median": round(statistics.median(times), 3), "p95": _p95(times)}


def _time(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - start)


def _p95(times: Sequence[float]) -> float:
    return round(float(np.percentile(times, 95)), 3)


def _rate(calls: Sequence[Callable[[], int]]) -> float:
    start = time.perf_counter()
    tokens = sum(call() for call in calls)
    return round(tokens / (time.perf_counter() - start), 1)


@contextmanager
def _said(what: str) -> Iterator[None]:
    with errors.status(f"measuring {what} …"):
        yield
