"""The shared recipe: a settings file and rows in, a LoRA adapter with its card out. Read `tune` top-down.

    python -m training.extractor -c configs/training/extractor.yaml [key=value ...] [--dry-run] [--overwrite]
    python -m training.train MODULE …       the same for any module in `ld_agent.modules.registry`

Loss on answers only, logits only at their positions, prompts truncated from the left, batches of similar length, the
base frozen in bfloat16 and the factors trained in float32. A killed run resumes from its last checkpoint with the same
curve.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.errors import ConfigError, ModelError
from ld_agent.modules.registry import TUNED
from ld_agent.program import lenient
from training.command import Lenient, run_command, run_commands
from training.rows import Row, RowFile, read_rows
from training.settings import TrainingSettings, load_settings

if TYPE_CHECKING:
    from training.answers import AnswerLogits
    from training.examples import Example
    from training.stored import StoredExamples
    from training.trainer import AnswerTrainer

SHOWN = 3


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
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Show prompts, tokens and time; train nothing.")
        ] = False,
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


@dataclass(frozen=True, slots=True)
class Prepared:
    """The inputs of a run: a base, its tokenizer and the rows as ids.

    Attributes:
        train, evaluation: of `training.examples.Example`; those to train on are in a file (`training.stored`).
        collator: makes batches of them.
    """

    model: Any
    tokenizer: Any
    train: StoredExamples
    evaluation: list[Any] | None
    collator: Any


def tune(settings: TrainingSettings, module: str, *, overwrite: bool = False, command: str = "") -> None:
    """Tune one module and write the adapter to ``settings.output_dir``.

    An unfinished run of the same settings there resumes from its last checkpoint.

    Raises:
        ConfigError: the settings do not fit this base or these files.
        InputError: the folder is in use, or a data file is missing; `DataFileError` names file and line.
        ModelError: the base cannot be loaded.
    """
    from training.measures import check_metric
    from training.run_folder import check_folder, claim, description, tidy

    check_metric(settings, module)
    folder = Path(settings.output_dir)
    rows = rows_of(settings, module)
    run = description(settings, module)
    check_folder(folder, run, overwrite)
    prepared = prepare(settings, *rows)
    tuned = adapted(prepared, settings)
    if is_first_process():  # only now, when nothing is left to reject
        claim(folder, run, overwrite)
    trainer, seconds = _trained(prepared, tuned, settings, module=module, held_out=rows[1])
    factors = trainer.factors()
    if is_first_process():
        from training.adapters import save_adapter
        from training.card import card
        from training.curves import draw

        draw(folder, trainer.state.log_history)
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
        save_adapter(adapter, factors, folder, dtype=settings.adapter_dtype, files={"README.md": text})
        tidy(folder)


def _trained(
    prepared: Prepared,
    tuned: tuple[Any, AnswerLogits],
    settings: TrainingSettings,
    *,
    module: str,
    held_out: list[Row] | None,
) -> tuple[AnswerTrainer, float]:
    """Train to the end, from the last whole checkpoint of the folder if there is one; and the seconds that it took."""
    from ld_agent.backbones.weights import quiet_transformers
    from training.curves import Curves
    from training.generated import Generations
    from training.trainer import AnswerTrainer, checkpoints, finished

    folder = Path(settings.output_dir)
    model, logits = tuned
    generations = None
    if held_out and prepared.evaluation and settings.eval_generations:
        generations = Generations(
            module,
            prepared.model,
            prepared.tokenizer,
            rows=held_out,
            examples=prepared.evaluation,
            most=settings.eval_generations,
            batch=settings.per_device_eval_batch_size,
        )
    with Curves(folder) as curves, quiet_transformers():
        trainer = AnswerTrainer(
            model,
            settings,
            logits,
            collator=prepared.collator,
            train=prepared.train,
            evaluation=prepared.evaluation,
            shown=curves,
            generations=generations,
        )
        trainer.accelerator.wait_for_everyone()
        whole = checkpoints(folder)
        start = time.monotonic()
        if whole and finished(whole[-1]):  # killed between the last step and the adapter
            trainer.take_up(whole[-1])
        else:
            trainer.train(resume_from_checkpoint=str(whole[-1]) if whole else None)
        return trainer, time.monotonic() - start


def rows_of(settings: TrainingSettings, module: str) -> tuple[RowFile, list[Row] | None]:
    """The training rows, which may be more than memory holds, and the evaluation rows.

    Raises:
        ConfigError: no training file is named.
        InputError: as `RowFile`.
    """
    if settings.train_file is None:
        raise ConfigError("train_file is not given; add train_file=FILE, as python -m training.build writes it")
    train = RowFile(settings.train_file, module)
    return train, None if settings.eval_file is None else read_rows(settings.eval_file, module, "evaluation")


def prepare(settings: TrainingSettings, rows: Iterable[Row], evaluation: Sequence[Row] | None) -> Prepared:
    """Load the base and tokenize the rows.

    Raises:
        ModelError: the base cannot be loaded.
        DataFileError: a target longer than the window; names file and line.
    """
    from ld_agent.backbones.local.chat_tokens import ChatTokens
    from ld_agent.backbones.local.loading import context_window, decoder_start, load
    from ld_agent.backbones.weights import resolve_model
    from ld_agent.datasets.records import built, current_report
    from ld_agent.terminal import say
    from training.examples import Collator, encode
    from training.stored import StoredExamples

    source = resolve_model(settings.model, settings.sha256)
    if settings.load_in_4bit:
        from training.quantised import load_quantised

        model, tokenizer = load_quantised(settings, source, _device(settings))
    else:
        model, tokenizer = load(
            settings.model,
            source,
            dtype=settings.dtype,
            device=_device(settings),
            trust_remote_code=settings.trust_remote_code,
        )
    if not any(True for _ in model.parameters()):
        raise ModelError(f"model {settings.model!r} has no weights; check the reference")
    seq2seq = bool(model.config.is_encoder_decoder)
    window = min(settings.max_length or sys.maxsize, context_window(model.config, tokenizer))
    start = decoder_start(model) if seq2seq else None
    opening = model.generation_config.forced_bos_token_id if seq2seq else None
    tokens = ChatTokens(tokenizer, seq2seq)

    def encoded(of: Iterable[Row]) -> Iterator[Example]:
        encode_one = partial(encode, tokens=tokens, window=window, decoder_start=start, opening=opening)
        return built(of, encode_one, current_report())

    train = StoredExamples(encoded(rows))
    held_out = None if evaluation is None else list(encoded(evaluation))
    if is_first_process() and (cut := sum(example.cut > 0 for example in train)):
        say(f"{cut} of {len(train)} prompts lose their beginning to max_length={window}")
    padding = next((i for i in (tokenizer.pad_token_id, tokenizer.eos_token_id) if isinstance(i, int)), 0)
    return Prepared(model, tokenizer, train, evaluation=held_out, collator=Collator(padding, start))


def adapted(prepared: Prepared, settings: TrainingSettings) -> tuple[Any, AnswerLogits]:
    """Return the model with its factors, optimised for this machine, and a function for the logits of its answers.

    Raises:
        ConfigError: as `training.adapters.with_lora`.
    """
    from training.adapters import with_lora
    from training.answers import AnswerLogits
    from training.attention import use_causal_attention
    from training.lora_sum import quicken

    logits = AnswerLogits(prepared.model, prepared.model.config.is_encoder_decoder)
    model = with_lora(prepared.model, settings)
    quicken(model)
    use_causal_attention(prepared.model)
    return model, logits


def is_first_process() -> bool:
    """Whether this process writes files and messages; under ``accelerate launch`` only one does."""
    return os.environ.get("RANK", "0") == "0"


def _device(settings: TrainingSettings) -> str:
    import torch

    if settings.use_cpu:
        return "cpu"
    if torch.cuda.is_available() and (rank := os.environ.get("LOCAL_RANK")):
        return f"cuda:{rank}"
    return "auto"


if __name__ == "__main__":
    run_commands({module: command_of(module, "training.train") for module in TUNED}, "training.train")
