"""Draws the examples of LLM-Rsum's n-shot variants (Tables 7 and B.15) from a run over a ``valid`` file:

    ld-agent eval response msc_dialogue/session_3/valid.txt -c recursive --from-session 3 --out runs/valid
    python -m training.reply_examples --from runs/valid --out examples.jsonl --count 3

An example is a generated memory, the utterance to answer, and the recorded reply. ``memory.recursive.examples=examples.jsonl``
shows them to the generator.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ld_agent.errors import InputError
from ld_agent.evaluation.run_files import Prediction, complete_run
from ld_agent.files import check_output, write_lines
from training.command import run_command


def reply_examples(
    source: Annotated[Path, typer.Option("--from", help="The folder of a run of eval response with -c recursive.")],
    out: Annotated[Path, typer.Option("--out", help="The JSON-lines file to write.")],
    count: Annotated[int, typer.Option(min=1, help="How many examples.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
) -> None:
    """Draw n-shot examples with generated memory from a finished run."""
    check_output(out)
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists; give another name, or --overwrite to replace it")
    rows = drawn_examples(complete_run(source).predictions, count, seed)
    write_lines(out, rows)
    typer.echo(f"{out}: {len(rows)} examples", err=True)


def drawn_examples(predictions: Sequence[Prediction], count: int, seed: int) -> list[dict[str, Any]]:
    """Draw examples at random, each of another conversation, from the replies that a memory was recalled for.

    Raises:
        InputError: fewer conversations than that have such a reply.
    """
    by_episode: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        if prediction.details.get("recalled") and prediction.details.get("text"):
            by_episode.setdefault(prediction.episode, []).append(prediction)
    if len(by_episode) < count:
        raise InputError(
            f"only {len(by_episode)} conversations of this run have a reply with a recalled memory, not {count}; give a "
            "run of eval response with -c recursive over more conversations"
        )
    draw = random.Random(seed)
    return [_example(draw.choice(by_episode[name])) for name in draw.sample(sorted(by_episode), count)]


def _example(prediction: Prediction) -> dict[str, Any]:
    details = prediction.details
    return {
        "memory": "\n".join(details["recalled"]),
        "dialogue": [[str(details["speaker"]), str(details["text"])]],
        "reply": prediction.references[0],
    }


def main() -> None:
    """The command."""
    run_command(reply_examples, "training.reply_examples")


if __name__ == "__main__":
    main()
