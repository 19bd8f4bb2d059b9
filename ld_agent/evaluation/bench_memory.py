"""``ld-agent bench turn --memory``: peak memory of the model alone and of a whole agent, and how fast the model is.

Each is measured in a process of its own. Peak memory is ``VmHWM``: anonymous memory and the touched pages of mapped files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from ld_agent.agent import Agent
from ld_agent.backbones import build_backbone
from ld_agent.backbones.base import Request
from ld_agent.config import Config, parse_config
from ld_agent.evaluation.bench import START, machine, sample_prompts, sample_texts
from ld_agent.terminal import errors

PROMPTS = 4
NEW_TOKENS = 32
TURNS = 6


def bench_memory(config: Config) -> dict[str, Any]:
    """Measure a model and an agent with it.

    Returns:
        ``backbone`` with ``peak_mb``, ``read_tokens_per_s`` and ``answer_tokens_per_s`` (per second of one thread's
        computing time; the prompts have about 340 tokens), and ``agent`` with ``peak_mb`` after six turns and a closed
        session.
    """
    figures = {}
    for name in ("backbone", "agent"):
        with errors.status(f"measuring {name} …"):
            figures[name] = _alone(name, config)
    return {"memory": figures, "machine": machine()}


def _alone(name: str, config: Config) -> dict[str, Any]:
    code = "import sys; from ld_agent.evaluation.bench_memory import measure; measure(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, name],
        input=config.model_dump_json(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(name: str) -> None:
    """Measure ``backbone`` or ``agent`` in this process: config from standard input, figures to standard output."""
    config = parse_config(json.loads(sys.stdin.read()))
    figures = _rates(config) if name == "backbone" else {}
    if name == "agent":
        _talk(config)
    high = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    sys.stdout.write(json.dumps({"peak_mb": round(int(high.split()[1]) / 1024), **figures}))


def _rates(config: Config) -> dict[str, float]:
    backbone = build_backbone(config.backbone)
    prompts = sample_prompts(PROMPTS)
    seconds, tokens = {1: 0.0, NEW_TOKENS: 0.0}, {1: 0, NEW_TOKENS: 0}
    read = 0
    backbone.generate([Request(prompts[0], "generator", 2)])
    for prompt in prompts:
        for limit in seconds:
            start = time.process_time()
            [answer] = backbone.generate([Request(prompt, "generator", limit)])
            seconds[limit] += time.process_time() - start
            tokens[limit] += answer.completion_tokens
        read += answer.prompt_tokens
    return {
        "read_tokens_per_s": round(read / seconds[1], 1),
        "answer_tokens_per_s": round((tokens[NEW_TOKENS] - tokens[1]) / (seconds[NEW_TOKENS] - seconds[1]), 1),
    }


def _talk(config: Config) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Agent.from_config(config.changed(store={"path": f"{folder}/bench.db"})) as agent,
    ):
        conversation = agent.conversation("bench", START)
        for number, text in enumerate(sample_texts(TURNS)):
            conversation.respond(text, at=START + timedelta(minutes=number))
        conversation.end_session()
        conversation.respond("Which car do I drive?", at=START + timedelta(days=1))  # denied, so a reader is asked too
