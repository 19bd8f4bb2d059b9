"""Tunes the check of statements, `ld_agent.checks.learned`, on lines and claims:

python -m training.check --msc msc_personasummary/session_2/valid.txt --pairs sick.tsv --pairs dnli_train.tsv --out runs/check

The encoder of texts reads lines and claim together (a cross-encoder, with a LoRA) and says whether the lines support the
claim, end it, or say nothing of it. `training.check_rows` makes the rows.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from torch.utils.data import Dataset
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

from ld_agent.backbones.local.loading import device_named, dtype_on
from ld_agent.checks.learned import LABELS, encoded, load_base
from ld_agent.config.sections import MINILM
from training.change_rows import change_rows, later_rows
from training.check_rows import (
    MARKS,
    Row,
    answer_rows,
    asked_rows,
    claim_rows,
    exchanged_rows,
    lasting_rows,
    msc_rows,
    public_rows,
    remark_rows,
    summary_rows,
    told_rows,
    yes_or_no_rows,
)
from training.command import run_command
from training.talks import PEOPLE

WRITTEN = Path("data/training/claims")
RANK = 64
TUNED = re.compile(r".*encoder\.layer\..*\.(?:query|key|value|dense)\.weight$")
LONGEST_ROW = 110
"""Tokens of a row; longer ones are left out, because time grows with them."""


class Rows(Dataset[dict[str, Any]]):
    """Rows as token ids, encoded when they are asked for."""

    def __init__(self, rows: Sequence[Row], tokenizer: Any) -> None:
        ids = encoded(tokenizer, [pair for pair, _ in rows])
        kept = [n for n, of_row in enumerate(ids["input_ids"]) if len(of_row) <= LONGEST_ROW]
        self._ids = {name: [values[n] for n in kept] for name, values in ids.items()}
        self._labels = [LABELS.index(rows[n][1]) for n in kept]

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {name: values[index] for name, values in self._ids.items()} | {"labels": self._labels[index]}


FIXED: Mapping[str, Any] = {
    "per_device_train_batch_size": 96,
    "warmup_steps": 60,
    "lr_scheduler_type": "linear",
    "train_sampling_strategy": "group_by_length",
    "logging_steps": 50,
    "save_steps": 500,
    "save_total_limit": 1,
    "report_to": [],
    "use_cpu": not torch.cuda.is_available(),
    "bf16": dtype_on("auto", device_named("auto")) is torch.bfloat16,
    "disable_tqdm": False,
}
"""Arguments of transformers' Trainer that nobody changes."""


def tune(
    out: Annotated[Path, typer.Option("--out", help="Folder of the adapter.")],
    msc: Annotated[list[Path] | None, typer.Option("--msc", help="msc_personasummary files.")] = None,
    summaries: Annotated[list[Path] | None, typer.Option("--summaries", help="DialogSum files.")] = None,
    pairs: Annotated[list[Path] | None, typer.Option("--pairs", help="SICK or DNLI files.")] = None,
    claims: Annotated[Path, typer.Option("--claims", help="Folder of labelled claims.")] = WRITTEN,
    repeat: Annotated[int, typer.Option(min=1, help="Times that labelled claims count.")] = 3,
    begin: Annotated[Path | None, typer.Option("--begin", help="Adapter to continue from.")] = None,
    epochs: Annotated[float, typer.Option(min=0.01)] = 4.0,
    learning_rate: Annotated[float, typer.Option(min=0.0)] = 2e-4,
    limit: Annotated[int | None, typer.Option(min=1, help="Rows drawn of MSC, summaries and pairs.")] = None,
    written_limit: Annotated[
        int | None, typer.Option(min=1, help="Labelled claims drawn; those on lasting stay.")
    ] = None,
    seed: int = 7,
) -> None:
    """Tune the check of statements."""
    rng = random.Random(seed)
    rows = [row for path in msc or [] for row in msc_rows(path, rng)] + list(answer_rows(msc or [], rng))
    rows += [row for path in summaries or [] for row in summary_rows(path, rng)]
    rows += [row for path in pairs or [] for row in public_rows(path)]
    rows = rng.sample(rows, min(limit or len(rows), len(rows)))
    apart: dict[Path, Callable[[Path], Iterator[Row]]] = {
        claims / "extracted.txt": partial(claim_rows, lasting=True),
        claims / "lasting.txt": lasting_rows,
        claims / "asked.txt": partial(asked_rows, sources=msc or [], rng=rng),
        claims.parent / "told.txt": told_rows,
    }
    files = sorted({*claims.glob("*.txt")} - {*apart})
    written = [row for path in files for row in (*claim_rows(path), *later_rows(path, MARKS))]
    written += [*yes_or_no_rows(written, rng), *change_rows(PEOPLE, rng)]
    rows += [*remark_rows(claims.parent / "replies.txt", written, rng), *exchanged_rows(rng)]
    written = rng.sample(written, min(written_limit or len(written), len(written)))
    rows += (written + [row for path, read in apart.items() if path.exists() for row in read(path)]) * repeat
    typer.echo(f"{len(rows)} rows: {Counter(label for _, label in rows)}", err=True)
    fit(rows, begin, out, learning_rate=learning_rate, num_train_epochs=epochs, seed=seed)


def fit(rows: Sequence[Row], begin: Path | None, out: Path, **settings: Any) -> None:
    """Tune the encoder on rows, from ``begin`` on if it is given, and write what changed as an adapter."""
    model, tokenizer = load_base()
    torch.nn.init.eye_(model.bert.pooler.dense.weight)  # the encoder itself never used it
    before = {name: weight.detach().clone() for name, weight in model.named_parameters() if TUNED.search(name)}
    if begin is not None:
        model = PeftModel.from_pretrained(model, str(begin)).merge_and_unload()
    for name, weight in model.named_parameters():
        weight.requires_grad = name in before or not name.startswith("bert.e")
    trainer = Trainer(
        model,
        TrainingArguments(str(out / "checkpoints"), **FIXED, **settings),
        train_dataset=Rows(rows, tokenizer),
        processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    trainer.train(resume_from_checkpoint=any((out / "checkpoints").glob("checkpoint-*")))
    low_rank(model.cpu(), before).half().save_pretrained(str(out))


def low_rank(model: Any, before: Mapping[str, torch.Tensor]) -> PeftModel:
    """The tuned encoder as the one before and a LoRA: of each difference, the `RANK` greatest singular values."""
    after = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(before.get(name, weight))
    lora = LoraConfig(
        TaskType.SEQ_CLS,
        r=RANK,
        lora_alpha=RANK,
        target_modules=TUNED.pattern.removesuffix(r"\.weight$"),
        modules_to_save=["classifier", "pooler"],
    )
    tuned = get_peft_model(model, lora)
    tuned.peft_config["default"].base_model_name_or_path = MINILM  # not where it lies on this machine
    layers = dict(tuned.base_model.model.named_modules())
    with torch.no_grad():
        for name, weight in before.items():
            u, s, v = torch.linalg.svd(after[name] - weight, full_matrices=False)
            layer = layers[name.removesuffix(".weight")]
            layer.lora_A["default"].weight.copy_(s[:RANK].sqrt()[:, None] * v[:RANK])
            layer.lora_B["default"].weight.copy_(u[:, :RANK] * s[:RANK].sqrt())
    return tuned


def main() -> None:
    """The command."""
    run_command(tune, "training.check")


if __name__ == "__main__":
    main()
