"""The shared recipe: a settings file and rows in, a LoRA adapter with its card out. Read `tune` top-down.

    python -m training.extractor -c configs/training/extractor.yaml [key=value ...] [--dry-run] [--overwrite]

Loss on answers only, logits only at their positions, prompts truncated from the left, batches of similar length, the
base frozen in bfloat16 and the factors trained in float32. A killed run resumes from its last checkpoint with the same
curve.
"""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.backbones.quiet import quiet_transformers
from ld_agent.program import lenient
from ld_agent.running.terminal import say
from training import run_page
from training.card import card
from training.command import Lenient, run_command
from training.prepared import Prepared, adapted, is_first_process, prepare, rows_of, show, warn_of_prompts
from training.run_folder import check_folder, claim, description, last_checkpoint, tidy
from training.settings import TrainingSettings, load_settings

HELP = """Tune the {module} into a LoRA adapter.

    The settings that matter first:

    \b
      train_file=ROWS.jsonl     of python -m training.build, or chats: messages, ShareGPT, Alpaca
      output_dir=runs/mine      the adapter, its card and its page; the same command resumes a crash
      eval_file=HELD_OUT.jsonl  the state with the lowest loss on it is kept; null: the last one
      max_steps=400             or num_train_epochs=3
      learning_rate=1e-3        lower it if losses jump

    configs/training/default.yaml explains the others.

    Example:

      python -m training.{module} train_file=rows.jsonl eval_file=null output_dir=runs/mine max_steps=100
    """

if TYPE_CHECKING:
    from training.answers import AnswerLogits
    from training.trainer import AnswerTrainer


def main(module: str) -> None:
    """Run the command of one module's script."""

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
                show(settings, module)
            else:
                words = [f"training.{module}", *(a for a in sys.argv[1:] if a != "--debug")]
                tune(settings, module, overwrite=overwrite, command=f"python -m {shlex.join(words)}")

    tune_module.__doc__ = HELP.format(module=module)
    run_command(tune_module, f"training.{module}")


def tune(settings: TrainingSettings, module: str, *, overwrite: bool = False, command: str = "") -> None:
    """Tune one module and write the adapter to ``settings.output_dir``.

    An unfinished run of the same settings there resumes from its last checkpoint.

    Raises:
        ConfigError: the settings do not fit this base or these files.
        InputError: the folder is in use, or a data file is missing; `DataFileError` names file and line.
        ModelError: the base cannot be loaded.
    """
    folder = Path(settings.output_dir)
    rows = rows_of(settings, module)
    run = description(settings, module)
    check_folder(folder, run, overwrite)
    prepared = prepare(settings, *rows)
    warn_of_prompts(rows[0], module)
    tuned = adapted(prepared, settings)
    if is_first_process():  # only now, when nothing is left to reject
        claim(folder, run, overwrite)
        before = run_page.answers(tuned[0], prepared)
    trainer, seconds = _trained(prepared, tuned, settings)
    if is_first_process():
        from training.adapters import save_adapter

        state, model = trainer.state, trainer.accelerator.unwrap_model(trainer.model)
        text = card(
            settings, run, state=state, data=rows[0], rows=len(prepared.train), seconds=seconds, command=command
        )
        state.save_to_json(str(folder / "trainer_state.json"))
        after = run_page.answers(model, prepared)
        logged = {"log": state.log_history, "prepared": prepared, "before": before, "after": after}
        run_page.write(settings, module, command=command, **logged)
        save_adapter(model, folder, settings, text)
        tidy(folder)
        say(run_page.announced(settings, module))


def _trained(
    prepared: Prepared, tuned: tuple[Any, AnswerLogits], settings: TrainingSettings
) -> tuple[AnswerTrainer, float]:
    """Train to the end, from the last whole checkpoint of the folder if there is one; and the seconds that it took."""
    from training.trainer import AnswerTrainer

    model, logits = tuned
    with quiet_transformers():
        trainer = AnswerTrainer(model, settings, logits, prepared)
        trainer.accelerator.wait_for_everyone()
        start = time.monotonic()
        with trainer.bar:
            trainer.train(resume_from_checkpoint=last_checkpoint(Path(settings.output_dir)))
        return trainer, time.monotonic() - start
