"""The commands that tune adapters for the runs of a paper's table, where a config has none. Runs nothing.

LD-Agent tunes summarizer and extractor for every run with memories and personas, even if the generator is zero-shot:
averaged over the sessions, the figures of zero-shot ChatGLM[LDA] in Table 1 are those of the tuned extractor in Table 3.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ld_agent.evaluation.tables.paper_figures import Where
from ld_agent.evaluation.tables.published import DEFAULT, typed, values_of
from ld_agent.files import shipped_path

SPLIT = "python -m training.split --from CONVERSATION_CHRONICLES.jsonl --out CC --seed 0"
SOURCES = {
    "summarizer": "--from DIALOGSUM/dialogsum.train.jsonl",
    "extractor": " ".join(f"--from MSC/msc_personasummary/session_{n}/train.txt" for n in range(1, 5)),
    "msc": "--from MSC/msc_dialogue/session_4/train.txt",
    "conversation_chronicles": "--from CC/train.jsonl",
    "ubuntu_irc": "--from UBUNTU_IRC/train.jsonl",
}
"""Training data by module or, for the generator, by corpus; Multi-Session Chat's ends with session 4."""
BASELINE, FULL = "context", "full"
PARTS: dict[str, dict[str, Any]] = {
    BASELINE: {"views": ["none"], "personas": False},
    "memory": {"views": ["events"], "personas": False},
    "user": {"views": ["none"], "user_personas": True, "agent_personas": False},
    "agent": {"views": ["none"], "user_personas": False, "agent_personas": True},
    FULL: {"views": ["events"], "personas": True},
}
"""Conditions on a run whose prompts have these parts besides the running session (LD-Agent, table 2)."""
UNTUNABLE = "answers at an endpoint: nothing here tunes it"


def slug(config: str) -> str:
    """Return a config's name as part of a file's name."""
    return Path(config).stem if config.endswith((".yaml", ".yml")) else config.replace("/", "-")


def is_local(config: str) -> bool:
    return bool(values_of(config)["backbone.kind"] == "transformers")


def untunable(wanted: Where, config: str) -> bool:
    """Whether a run needs an adapter that the config lacks and nothing here can tune."""
    facts = {"tuned": "generator", "extractor_tuned": "extractor"}
    have = values_of(config)
    return not is_local(config) and any(
        wanted.get(fact) and have[f"modules.{module}.adapter"] is None for fact, module in facts.items()
    )


def tuned_modules(paper: str, wanted: Where, config: str) -> list[str]:
    """Return the modules besides the generator that have to be tuned for a run, because the config has no adapter for them."""
    if paper != "LD-Agent" or not is_local(config):
        return []
    extracting = wanted.get("task") == "extraction"
    banks = any(wanted.get(name) for name in ("personas", "user_personas", "agent_personas"))
    used = {
        "summarizer": wanted.get("views") == ["events"] and not extracting,
        "extractor": wanted.get("extractor_tuned", banks),
    }
    have = values_of(config)
    return [module for module, needed in used.items() if needed and have[f"modules.{module}.adapter"] is None]


def adapter_of(module: str, config: str) -> str:
    return f"adapters/{slug(config)}/{module}"


def settings_for(modules: list[str], config: str) -> dict[str, Any]:
    """Return the settings of a run whose modules are tuned; an extractor answers as its training rows do."""
    settings: dict[str, Any] = {f"modules.{module}.adapter": adapter_of(module, config) for module in modules}
    return settings | ({"modules.extractor.prompting": "brief"} if "extractor" in modules else {})


def module_commands(modules: list[str], config: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the commands that tune modules; of an arm's ``settings``, those of a module decide its prompts."""
    lines = []
    for module in modules:
        prompts = {key: value for key, value in settings.items() if key.startswith(f"modules.{module}.")}
        prompts |= {"modules.extractor.prompting": "brief"} if module == "extractor" else {}
        lines += _commands(module, config, module, SOURCES[module], f"-c {config} {typed(config, prompts)}".rstrip())
    return lines


def generator_adapter(corpus: str, part: str, config: str) -> str:
    return adapter_of(f"generator-{corpus}-{part}", config)


def generator_commands(part: str, corpus: str, config: str, arm: str) -> list[str]:
    """Return the commands that build rows with the parts of the prompt that a row of the table has, and tune on them: a part by
    itself on top of the baseline, as in LD-Agent's section 3.3. The rows are built with ``arm``, a config and its overrides."""
    start = "" if part in (BASELINE, FULL) else f"adapter={generator_adapter(corpus, BASELINE, config)}"
    return _commands("generator", config, f"{corpus}-{part}", SOURCES[corpus], arm, start)


def _commands(module: str, config: str, name: str, sources: str, arm: str, start: str = "") -> list[str]:
    """Build rows and tune an adapter with the settings that ship for the model, or else the default ones."""
    rows, model = f"rows/{slug(config)}/{name}.jsonl", str(values_of(config)["backbone.model"])
    out = adapter_of(module if name == module else f"{module}-{name}", config)
    file, named = f"configs/training/{slug(config)}.yaml", ""
    if model == values_of(DEFAULT)["backbone.model"]:
        file = f"configs/training/{module}.yaml"
    elif not shipped_path(file).is_file():
        file, named = "configs/training/default.yaml", shlex.quote(f"model={model}")
    tune = f"python -m training.{module} -c {file} {named} train_file={rows} eval_file=null {start} output_dir={out}"
    return [f"python -m training.build {module} {sources} --out {rows} {arm}", " ".join(tune.split())]


def part_of(wanted: Where) -> str:
    """Return which of `PARTS` the prompts of a row have."""
    if wanted.get("personas") is False:
        return "memory" if wanted.get("views") == ["events"] else BASELINE
    alone = [name for name in ("user", "agent") if wanted.get(f"{name}_personas") is False]
    return {"user": "agent", "agent": "user"}[alone[0]] if alone else FULL
