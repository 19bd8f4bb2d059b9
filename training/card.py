"""The model card of an adapter: its base, data, settings and results. Knows no torch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ld_agent.backbones.weights import file_sha256, resolve_model
from ld_agent.modules.registry import TUNED
from training.rows import SCENES, RowFile
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
    run: dict[str, Any],
    *,
    state: Any,
    data: RowFile,
    rows: int,
    seconds: float,
    command: str,
) -> str:
    """Return the card as Markdown with front matter for the hub.

    Args:
        run: the run's description (`training.run_folder.description`).
        state: the trainer's.
        data: the training file, after it was read.
        rows: number of training rows.
    """
    digests, module = run["data_sha256"], run["module"]
    table = [
        ("base", f"`{settings.model}`"),
        *((f"sha256 of its {name}", f"`{digest}`") for name, digest in _base_sha256(settings).items()),
        ("training rows", f"{rows}, `{data.path.name}`, sha256 `{digests['train']}`"),
    ]
    if settings.eval_file is not None:
        table.append(("validation rows", f"`{Path(settings.eval_file).name}`, sha256 `{digests['eval']}`"))
    if data.sources:
        table.append(("built from", ", ".join(f"`{source}`" for source in data.sources)))
    table += [
        *(("data", _terms(corpus)) for corpus in data.corpora),
        ("steps", f"{state.global_step} ({state.epoch or 0:.2f} epochs), {seconds / 60:.1f} minutes in the last start"),
        *_measured(state),
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


def _terms(corpus: str) -> str:
    if corpus == SCENES:
        return "scenes of this project"
    terms = PUBLISHED.get(corpus)
    return f"in the format `{corpus}`" + (
        f"; the terms of the corpus published in it, if it is that: {terms}" if terms else ""
    )


def _measured(state: Any) -> Iterator[tuple[str, str]]:
    """The results from a trainer's state: of its checkpoint that was kept, the validation loss."""
    losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
    speeds = [entry["train_tokens_per_second"] for entry in state.log_history if "train_tokens_per_second" in entry]
    if losses:
        yield "training loss, first and last logged", f"{losses[0]:.4f}, {losses[-1]:.4f} nats a token"
    if state.best_metric is not None:
        best = f"{state.best_metric:.4f} nats a token at step {state.best_global_step}"
        yield "validation loss", f"{best} (perplexity {math.exp(state.best_metric):.2f})"
    if speeds:
        yield "speed", f"{speeds[-1]:.0f} tokens/s, prompts and padding included"


def _base_sha256(settings: TrainingSettings) -> dict[str, str]:
    """The digests of the base's weights: the configured one, or those of the loaded files."""
    if settings.sha256 is not None:
        return {"weights": settings.sha256.lower()}
    source = resolve_model(settings.model)
    files = sorted(source.glob("model*.safetensors")) if isinstance(source, Path) else []
    return {file.name: file_sha256(file) for file in files}
