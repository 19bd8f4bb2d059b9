"""The page of a run, ``index.html`` in its folder: the command that uses the adapter, losses, and answers before and after.
Asks the model; writes one file that loads nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ld_agent.config import load_config
from training.prepared import Prepared
from training.settings import TrainingSettings

PAGE = "index.html"
SHOWN = 4
"""Rows whose answers are shown, of the evaluation file if there is one."""
LONGEST = 64
"""Tokens of an answer."""
END_OF_PROMPT = 400
"""Characters of a prompt that are shown: its last ones."""
WIDTH, HEIGHT = 640, 200
TEMPLATE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{ module }}: {{ folder }}</title>
<style>
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
body { max-width: 44rem; margin: 2rem auto; padding: 0 1rem }
pre { overflow-x: auto; padding: .6rem; background: #8882; border-radius: .4rem }
svg { width: 100%; height: auto } polyline { fill: none; stroke: #0f6e63; stroke-width: 2 } .held_out { stroke: #c2410c }
svg text { fill: currentColor; font-size: 12px } article { border-top: 1px solid #8886; padding: .6rem 0 }
dt { font-weight: 600 } dd { margin: 0 0 .4rem; white-space: pre-wrap } .small { color: #777; font-size: .85rem }
</style>
<h1>The {{ module }}, tuned</h1>
<p>Use it:</p><pre>{{ use }}</pre>
{% if note %}<p class="small">{{ note }}</p>{% endif %}
<p class="small">Tuned with <code>{{ command }}</code>. <a href="README.md">Its card</a> has data, settings and digests.</p>
<h2>Losses</h2>
{% if drawn %}<svg viewBox="0 0 {{ width }} {{ height + 20 }}" role="img" aria-label="Losses by step">
{% for name, points in curves %}<polyline class="{{ name }}" points="{{ points }}"/>{% endfor %}
<text x="0" y="12">{{ "%.3g" | format(top) }} nats a token</text><text x="0" y="{{ height + 16 }}">0, step 0</text>
<text x="{{ width }}" y="{{ height + 16 }}" text-anchor="end">step {{ last }}</text></svg>
<p class="small">Green: training. Orange: the evaluation file, if there is one.</p>
{% else %}
<p class="small">Too few steps for a curve: a loss is logged every {{ logging_steps }} (<code>logging_steps</code>).</p>
{% endif %}
<h2>Before and after</h2>
{% for prompt, wanted, before, after in answers %}<article><p class="small">… {{ prompt }}</p><dl>
<dt>before</dt><dd>{{ before or "(nothing)" }}</dd><dt>after</dt><dd>{{ after or "(nothing)" }}</dd>
<dt>wanted</dt><dd>{{ wanted }}</dd></dl></article>{% endfor %}
"""


def answers(model: Any, prepared: Prepared) -> list[str]:
    """What the model answers now to the rows that the page shows, greedily."""
    import torch

    training, given = model.training, []
    model.eval()
    for example in _shown(prepared):
        prompt = torch.tensor([list(example.prompt)], device=model.device)
        room = min(LONGEST, 2 * len(example.answer) + 8)
        with torch.no_grad():
            ids = model.generate(
                input_ids=prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=room,
                do_sample=False,
                pad_token_id=prepared.collator.padding_id,
            )[0]
        if not model.config.is_encoder_decoder:
            ids = ids[prompt.shape[1] :]
        given.append(prepared.tokenizer.decode(ids, skip_special_tokens=True).strip())
    model.train(training)
    return given


def write(
    settings: TrainingSettings,
    module: str,
    *,
    command: str,
    log: Sequence[dict[str, Any]],
    prepared: Prepared,
    before: Sequence[str],
    after: Sequence[str],
) -> None:
    """Write the page into the run's folder.

    Args:
        command: that made the run.
        log: the trainer's ``log_history``.
        before, after: `answers` of the model at the start and at the end.
    """
    from jinja2 import Environment

    losses = {name: [(e["step"], e[key]) for e in log if key in e] for name, key in CURVES.items()}
    last = max((step for points in losses.values() for step, _ in points), default=1)
    top = max((loss for points in losses.values() for _, loss in points), default=1.0)
    page = Environment(autoescape=True).from_string(TEMPLATE)
    values = {
        "module": module,
        "folder": settings.output_dir,
        "use": use(settings, module),
        "note": note(settings, module),
        "command": command,
        "curves": [(name, " ".join(_places(points, last, top))) for name, points in losses.items()],
        "drawn": any(len(points) > 1 for points in losses.values()),
        "logging_steps": settings.logging_steps,
        "last": last,
        "top": top,
        "width": WIDTH,
        "height": HEIGHT,
        "answers": [(*row, b, a) for row, b, a in zip(_asked(prepared), before, after, strict=True)],
    }
    Path(settings.output_dir, PAGE).write_text(page.render(**values) + "\n", encoding="utf-8")


CURVES = {"training": "loss", "held_out": "eval_loss"}


def announced(settings: TrainingSettings, module: str) -> str:
    """The last line of a run: where its page is, and how to use the adapter."""
    page = f"{Path(settings.output_dir, PAGE)} shows losses and answers."
    return " ".join(filter(None, [page, note(settings, module), f"Use it:  {use(settings, module)}"]))


def use(settings: TrainingSettings, module: str) -> str:
    """The command that chats with the adapter."""
    words = ["ld-agent", "chat"]
    if settings.model != _default_model():
        words += ["-c", "bare", f"backbone.model={settings.model}"]
    return shlex.join([*words, f"modules.{module}.adapter={settings.output_dir}"])


def note(settings: TrainingSettings, module: str) -> str:
    """What else that command needs to show what the module writes; "": nothing."""
    if module not in ("extractor", "summarizer") or settings.model != _default_model():
        return ""
    return f"The default stores people's own words; with checks.adapter=null, it stores what the {module} writes."


def _default_model() -> str:
    return load_config("default").backbone.model


def _shown(prepared: Prepared) -> Sequence[Any]:
    """Rows from the whole file."""
    rows = prepared.evaluation or prepared.train
    return [rows[place] for place in range(0, len(rows), max(1, len(rows) // SHOWN))][:SHOWN]


def _asked(prepared: Prepared) -> Iterator[tuple[str, str]]:
    """The end of each shown row's prompt, and the answer that it wants."""
    for row in _shown(prepared):
        prompt, answer = (
            prepared.tokenizer.decode(list(ids), skip_special_tokens=True) for ids in (row.prompt, row.answer)
        )
        yield prompt[-END_OF_PROMPT:], answer


def _places(points: Sequence[tuple[int, float]], last: int, top: float) -> Iterator[str]:
    for step, loss in points:
        yield f"{WIDTH * step / last:.1f},{HEIGHT * (1 - loss / (top or 1)):.1f}"
