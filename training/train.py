"""The shared recipe: a settings file and rows in, a LoRA adapter with its card out. Read `tune` top-down.

    python -m training.extractor -c configs/training/extractor.yaml [key=value ...] [--dry-run] [--overwrite]
    python -m training.train MODULE …       the same for any module in `ld_agent.modules.registry`

Loss on answers only, logits only at their positions, prompts truncated from the left, batches of similar length, the
base frozen in bfloat16 and the factors trained in float32. A killed run resumes from its last checkpoint with the same
curve.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.modules.registry import TUNED
from ld_agent.program import lenient
from training.command import Lenient, run_command, run_commands
from training.prepared import Prepared, adapted, is_first_process, prepare, rows_of
from training.settings import TrainingSettings, load_settings

if TYPE_CHECKING:
    from training.answers import AnswerLogits
    from training.trainer import AnswerTrainer


def main(module: str) -> None:
    """Run the command of one module's script."""
    run_command(command_of(module, f"training.{module}"), f"training.{module}")


def command_of(module: str, program: str) -> Callable[..., None]:
    """The command that tunes a module. ``program``: its name on the adapter's card."""

    def tune_module(
        overrides: Annotated[
            list[str] | None, typer.Argument(help="Settings: learning_rate=1e-4 max_steps=400")
        ] = None,
        config: Annotated[
            Path, typer.Option("-c", "--config", help="A settings file, or a name in configs/training.")
        ] = (Path(module)),
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Show prompts and tokens; train nothing.")] = False,
        overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in output_dir.")] = False,
        skip_bad: Lenient = False,
    ) -> None:
        settings = load_settings(config, overrides or [])
        with lenient(skip_bad):
            if dry_run:
                from training.dry_run import show

                show(settings, module)
            else:
                words = [program, *(a for a in sys.argv[1:] if a != "--debug")]
                tune(settings, module, overwrite=overwrite, command=f"python -m {shlex.join(words)}")

    tune_module.__doc__ = f"Tune the {module} into a LoRA adapter."
    return tune_module


def tune(settings: TrainingSettings, module: str, *, overwrite: bool = False, command: str = "") -> None:
    """Tune one module and write the adapter to ``settings.output_dir``.

    An unfinished run of the same settings there resumes from its last checkpoint.

    Raises:
        ConfigError: the settings do not fit this base or these files.
        InputError: the folder is in use, or a data file is missing; `DataFileError` names file and line.
        ModelError: the base cannot be loaded.
    """
    from training.run_folder import check_folder, claim, description, tidy

    folder = Path(settings.output_dir)
    rows = rows_of(settings, module)
    run = description(settings, module)
    check_folder(folder, run, overwrite)
    prepared = prepare(settings, *rows)
    tuned = adapted(prepared, settings)
    if is_first_process():  # only now, when nothing is left to reject
        claim(folder, run, overwrite)
    trainer, seconds = _trained(prepared, tuned, settings)
    if is_first_process():
        from training.adapters import save_adapter
        from training.card import card

        adapter = trainer.accelerator.unwrap_model(trainer.model)
        text = card(
            settings,
            module,
            run,
            state=trainer.state,
            rows=len(prepared.train),
            corpora=list(rows[0].corpora),
            sources=list(rows[0].sources),
            seconds=seconds,
            command=command,
        )
        save_adapter(adapter, folder, dtype=settings.adapter_dtype, files={"README.md": text})
        tidy(folder)


def _trained(
    prepared: Prepared, tuned: tuple[Any, AnswerLogits], settings: TrainingSettings
) -> tuple[AnswerTrainer, float]:
    """Train to the end, from the last whole checkpoint of the folder if there is one; and the seconds that it took."""
    from ld_agent.backbones.quiet import quiet_transformers
    from training.curves import Curves
    from training.trainer import AnswerTrainer, checkpoints, finished

    folder = Path(settings.output_dir)
    model, logits = tuned
    with Curves(folder) as curves, quiet_transformers():
        trainer = AnswerTrainer(
            model,
            settings,
            logits,
            collator=prepared.collator,
            train=prepared.train,
            evaluation=prepared.evaluation,
            shown=curves,
        )
        trainer.accelerator.wait_for_everyone()
        whole = checkpoints(folder)
        start = time.monotonic()
        if whole and finished(whole[-1]):  # killed between the last step and the adapter
            trainer.take_up(whole[-1])
        else:
            trainer.train(resume_from_checkpoint=str(whole[-1]) if whole else None)
        return trainer, time.monotonic() - start


if __name__ == "__main__":
    run_commands({module: command_of(module, "training.train") for module in TUNED}, "training.train")
