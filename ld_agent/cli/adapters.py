"""``ld-agent adapters``: export tuned adapters for a server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from ld_agent.cli.options import OneConfig, Overrides
from ld_agent.config import load_config

app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Export tuned adapters for a server."""


@app.command()
def export(
    server: Annotated[Literal["vllm", "llama.cpp"], typer.Option("--for", help="The server that will load them.")],
    out: Annotated[Path, typer.Option("--out", help="The output folder; one subfolder or file per module.")],
    overrides: Overrides = None,
    config: OneConfig = None,
    base: Annotated[
        str | None, typer.Option("--base", help="The base model: its name in vLLM, or a model reference for llama.cpp.")
    ] = None,
    most_rank: Annotated[int, typer.Option("--max-rank", min=1, help="The --max-lora-rank of the vLLM server.")] = 16,
) -> None:
    """Write a config's LoRA adapters in the form that vLLM or llama.cpp loads, and print the command to serve them.

    Examples:

      ld-agent adapters export --for vllm --out adapters --base HuggingFaceTB/SmolLM2-135M-Instruct

      ld-agent adapters export --for llama.cpp --out adapters
    """
    from ld_agent.backbones.adapter_export import export_for_llama_cpp, export_for_vllm

    settings = load_config(config, overrides or [])
    modules = {name: getattr(settings.modules, name).adapter for name in type(settings.modules).model_fields}
    adapters = {name: reference for name, reference in modules.items() if reference is not None}
    if server == "vllm":
        line = export_for_vllm(adapters, base, out, most_rank)
    else:
        line = export_for_llama_cpp(adapters, base or settings.backbone.model, out)
    sys.stdout.write(line + "\n")
