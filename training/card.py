"""The model card of an adapter: its base, data, settings and results. Knows no torch."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ld_agent.backbones.weights import file_sha256, resolve_model
from ld_agent.modules.registry import TUNED
from training.rows import SCENES
from training.settings import TrainingSettings

PUBLISHED = {
    "msc": "Multi-Session Chat (Xu et al., ACL 2022), under the terms of ParlAI's release",
    "msc_personasummary": "Multi-Session Chat, persona annotations (Xu et al., ACL 2022), under the terms of ParlAI's release",
    "dialogsum": "DialogSum (Chen et al., 2021), CC BY-NC-SA 4.0: not for commercial use",
    "conversation_chronicles": "Conversation Chronicles (Jang et al., EMNLP 2023), CC BY 4.0",
}
"""The corpora that are published in a format, and their terms. A file in the format may also be anybody's own."""


CARD = """---
base_model: {base}
library_name: peft
tags: [lora, ld-agent, dialogue]
---
# LD-Agent {module}, a LoRA adapter
It {purpose}. Load it by `modules.{module}.adapter` in an agent's config, or with PEFT.

| | |
|---|---|
{table}

## Command
```
{command}
```

## Settings
```yaml
{settings}
```

## Prompt
The {module}'s of `ld_agent/languages/en/prompts`, made by `python -m training.build {module}` as it is at inference.
"""


def card(
    settings: TrainingSettings,
    module: str,
    run: dict[str, Any],
    *,
    state: Any,
    rows: int,
    corpora: Sequence[str],
    sources: Sequence[str],
    seconds: float,
    command: str,
) -> str:
    """Return the card as Markdown with front matter for the hub.

    Args:
        rows: number of training rows.
        corpora, sources: formats and files of the data that they were built from.
    """
    table = [
        ("base", f"`{settings.model}`"),
        *((f"sha256 of its {name}", f"`{digest}`") for name, digest in base_sha256(settings).items()),
        ("training rows", f"{rows}, `{_name(settings.train_file)}`, sha256 `{run['data_sha256']['train']}`"),
        *_validation(settings, run),
        *_data(corpora, sources),
        ("steps", f"{state.global_step} ({state.epoch or 0:.2f} epochs), {seconds / 60:.1f} minutes in the last start"),
        *measured(state.log_history, state.best_global_step).items(),
        ("made with", ", ".join(f"{p} {version(p)}" for p in ("torch", "transformers", "peft"))),
    ]
    return CARD.format(
        base=json.dumps(settings.model),
        module=module,
        purpose=TUNED[module].purpose,
        table="\n".join(f"| {name} | {value} |" for name, value in table),
        command=command,
        settings="\n".join(f"{key}: {json.dumps(value)}" for key, value in run["settings"].items()),
    )


def _validation(settings: TrainingSettings, run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if settings.eval_file is not None:
        yield "validation rows", f"`{_name(settings.eval_file)}`, sha256 `{run['data_sha256']['eval']}`"


def _data(corpora: Sequence[str], sources: Sequence[str]) -> Iterator[tuple[str, str]]:
    if sources:
        yield "built from", ", ".join(f"`{source}`" for source in sources)
    for name in corpora:
        terms = (
            f"; the terms of the corpus published in it, if it is that: {PUBLISHED[name]}" if name in PUBLISHED else ""
        )
        yield "data", "scenes of this project" if name == SCENES else f"in the format `{name}`{terms}"


def measured(history: list[dict[str, Any]], kept: int | None = None) -> dict[str, str]:
    """The results from a run's log, by name.

    Args:
        kept: step of the saved checkpoint; None: that with the lowest validation loss.
    """
    facts = {}
    losses = [entry["loss"] for entry in history if "loss" in entry]
    evaluations = [(entry["eval_loss"], entry["step"]) for entry in history if "eval_loss" in entry]
    speeds = [entry["tokens_per_second"] for entry in history if "tokens_per_second" in entry]
    if losses:
        facts["training loss, first and last logged"] = f"{losses[0]:.4f}, {losses[-1]:.4f} nats a token"
    if evaluations:
        best, step = next((entry for entry in evaluations if entry[1] == kept), min(evaluations))
        facts["validation loss"] = f"{best:.4f} nats a token at step {step} (perplexity {math.exp(best):.2f})"
    if speeds:
        facts["speed"] = f"{statistics.median(speeds):.0f} tokens/s, prompts and padding included"
    return facts


def base_sha256(settings: TrainingSettings) -> dict[str, str]:
    """Return the digests of the base's weights: the configured one, or those of the loaded files."""
    if settings.sha256 is not None:
        return {"weights": settings.sha256.lower()}
    source = resolve_model(settings.model)
    files = sorted(source.glob("*.safetensors")) if isinstance(source, Path) else []
    return {file.name: file_sha256(file) for file in files if file.name.startswith("model")}


def _name(path: str | None) -> str:
    return Path(path).name if path is not None else ""
