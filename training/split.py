"""Splits a corpus in a single file, such as Conversation Chronicles, into training, validation and test files:

    python -m training.split --from cc.jsonl --out cc --seed 0

LD-Agent takes 4,000, 500 and 501 conversations (appendix C.1), as many as Multi-Session Chat has; which ones it does not say.
A file of JSON lines is split line by line, so that nothing in it changes.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import typer

from ld_agent.datasets.records import raise_bad, text_lines
from ld_agent.errors import InputError
from ld_agent.files import check_output, written_atomically
from training.command import run_command

NAMES = ("train", "valid", "test")
PUBLISHED = "4000,500,501"


def split(
    source: Annotated[Path, typer.Option("--from", help="JSON lines, a conversation each.")],
    out: Annotated[Path, typer.Option("--out", help="The folder of train.jsonl, valid.jsonl and test.jsonl.")],
    sizes: Annotated[str, typer.Option(help="Conversations for training, validation and test.")] = PUBLISHED,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
) -> None:
    """Draw three files of conversations at random, none of them in two."""
    counts = _counts(sizes)
    targets = [out / f"{name}{source.suffix or '.jsonl'}" for name in NAMES]
    for target in targets:
        check_output(target, (source,))
        if target.exists() and not overwrite:
            raise InputError(f"{target} exists; give another folder, or --overwrite to replace it")
    lines = [line for _, line in text_lines(source, raise_bad)]
    if len(lines) < sum(counts):
        tested = max(1, len(lines) // 10)
        fits = f"{len(lines) - 2 * tested},{tested},{tested}"
        fix = f"give smaller --sizes, such as {fits}" if len(lines) >= len(NAMES) else "give a longer file"
        raise InputError(f"{source} has {len(lines)} of {sum(counts)} conversations; {fix}")
    drawn = random.Random(seed).sample(range(len(lines)), sum(counts))
    out.mkdir(parents=True, exist_ok=True)
    for target, count in zip(targets, counts, strict=True):
        places, drawn = sorted(drawn[:count]), drawn[count:]
        with written_atomically(target) as file:
            file.writelines(f"{lines[place]}\n" for place in places)
        typer.echo(f"{target}: {count} conversations", err=True)


def _counts(sizes: str) -> list[int]:
    parts = sizes.split(",")
    if len(parts) != len(NAMES) or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"--sizes {sizes!r} is not three positive numbers; write it like {PUBLISHED}")
    return [int(part) for part in parts]


def main() -> None:
    """The command."""
    run_command(split, "training.split")


if __name__ == "__main__":
    main()
