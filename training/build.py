"""Builds training files from corpora:

    python -m training.build extractor --from msc_personasummary/session_2/valid.txt --out extractor.jsonl

Every row is ``{"messages": [..., target], "module", "sources", "corpus", "episode", "session", "turn"}``, its prompt
rendered by the same code as at inference; `ld_agent.modules.registry` defines the rows of each module. All rows of an episode
are on the same side of ``--eval-out``. Knows no tokens.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import typer

from ld_agent.config import load_config
from ld_agent.errors import InputError
from ld_agent.files import check_output
from ld_agent.modules.registry import TUNED
from ld_agent.program import lenient
from ld_agent.running.on_ray import check_not_launched
from training.command import Lenient, run_command
from training.rows import BuildRequest, held_out, origin, write_rows

Values = dict[str, Any]
WIDTH = 16
Module = Annotated[str, typer.Argument(metavar=f"[{'|'.join(TUNED)}]", help="The module to build training data for.")]
Share = Annotated[float, typer.Option(min=0.0, max=0.5, help="Share of episodes in the validation file.")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="generator: number of episodes replayed concurrently.")]
Longest = Annotated[
    int, typer.Option(min=1, help="summarizer: also sessions of up to this many consecutive dialogues.")
]


def build(
    module: Module,
    sources: Annotated[list[Path], typer.Option("--from", help="A corpus file; repeat for more.")],
    out: Annotated[Path, typer.Option("--out", help="The training file to write.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings: modules.extractor.prompting=brief")] = None,
    config: Annotated[str | None, typer.Option("-c", "--config", help="Agent config, as for ld-agent.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Episodes or dialogues read of each file.")] = None,
    eval_out: Annotated[Path | None, typer.Option("--eval-out", help="Also write a validation file.")] = None,
    eval_share: Share = 0.05,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
    skip_bad: Lenient = False,
    width: Batch = WIDTH,
    longest: Longest = 1,
) -> None:
    """Build a module's training file from a corpus.

    Examples:

      python -m training.build summarizer --from dialogsum.dev.jsonl --out runs/summarizer.jsonl

      python -m training.build generator --from msc_dialogue/session_3/valid.txt --out runs/generator.jsonl

      python -m training.build generator --from msc/session_3/valid.txt --out context.jsonl memory.views=[none] personas.cap=0
    """
    options = {"--longest": longest > 1, "--batch": width != WIDTH}
    _check_options(module, [name for name, given in options.items() if given])
    _check_targets(
        [out, *([eval_out] if eval_out else [])], [*map(str, sources), *([config] if config else [])], overwrite
    )
    held_out = eval_share if eval_out is not None else 0.0
    how: Values = {"limit": limit, "held_out": held_out, "longest": longest, "width": width}
    request = BuildRequest(sources, load_config(config, overrides or []), **how)
    built_from = {"module": module, "sources": [source.name for source in sources]}
    with lenient(skip_bad):
        rows = [row | built_from for row in resolve_name(TUNED[module].rows)(request)]
    if not rows:
        raise InputError(f"{', '.join(map(str, sources))}: no rows for the {module}; give more data")
    _written(rows, out, eval_out, share=held_out)


def _check_targets(targets: Sequence[Path], inputs: Sequence[str], overwrite: bool) -> None:
    """Refuse to overwrite an input, a file that is there, or one output with the other."""
    for target in targets:
        check_output(target, inputs)
        if target.exists() and not overwrite:
            raise InputError(f"{target} exists; give another name, or --overwrite to replace it")
    if len({os.path.realpath(target) for target in targets}) < len(targets):
        raise InputError(f"--out and --eval-out are both {targets[0]}; give two files")


def _check_options(module: str, given: Sequence[str]) -> None:
    """Reject an unknown module, options of another one, and one of several processes of a launch."""
    check_not_launched("training.build")
    if module not in TUNED:
        raise typer.BadParameter(f"{module!r} is not a module that can be tuned; give one of {', '.join(TUNED)}")
    for option in given:
        if option not in TUNED[module].options:
            others = " and ".join(name for name, entry in TUNED.items() if option in entry.options)
            raise typer.BadParameter(f"{option} is for the {others}, not for the {module}; leave it out")


def _written(rows: Sequence[Values], out: Path, eval_out: Path | None, *, share: float) -> None:
    apart = held_out([row["episode"] for row in rows], share)
    kept = [row for row in rows if origin(row["episode"]) not in apart]
    counts = {out: write_rows(out, kept)}
    if eval_out is not None:
        counts[eval_out] = write_rows(eval_out, (row for row in rows if origin(row["episode"]) in apart))
    for path, count in counts.items():
        typer.echo(f"{path}: {count} rows", err=True)


def main() -> None:
    """The command."""
    run_command(build, "training.build")


if __name__ == "__main__":
    main()
