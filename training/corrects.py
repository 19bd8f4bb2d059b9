"""Tunes what tells whether a line corrects its speaker, `ld_agent.checks.slips.Corrections`, in seconds:

python -m training.corrects --out data/adapters/check

A logistic regression over words and pairs of words: of the lines of ``data/training/correcting.txt``, marked + and -,
and of what people say in other training texts, which corrects nothing.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch.nn.functional import binary_cross_entropy_with_logits

from ld_agent.checks.slips import words_and_pairs
from training.command import run_command
from training.texts import blocks, every_talk

WRITTEN = Path("data/training")
FEWEST = 3
"""Lines that have a word that counts."""
OTHERS = 3_500
WIDTH = 10.0
"""The variance of the weights' prior."""
LEAST = 0.02
"""A weight that is written."""


def marked(path: Path) -> list[tuple[str, bool]]:
    """Lines marked + (corrects) and - (does not)."""
    return [
        (line[2:], line[0] == "+") for line in path.read_text(encoding="utf-8").splitlines() if line[:2] in ("+ ", "- ")
    ]


def ordinary(written: Path, rng: random.Random) -> list[str]:
    """What people say in training texts: small talk, and news of themselves."""
    told = [
        line.partition(": ")[2] for block in blocks(written / "told.txt") for line in block if not line.startswith("= ")
    ]
    said = [*told, *(text for talk in every_talk(written / "replies.txt") for text in talk.heard)]
    return rng.sample(said, min(len(said), OTHERS))


def fitted(lines: list[tuple[str, bool]]) -> dict[str, float]:
    """The weights of words and pairs of words, and under "" of every line."""
    found = [sorted(words_and_pairs(text)) for text, _ in lines]
    counts: dict[str, int] = {}
    for one in found:
        counts |= {word: counts.get(word, 0) + 1 for word in one}
    places = {word: n for n, word in enumerate(sorted(word for word, count in counts.items() if count >= FEWEST))}
    read = torch.zeros(len(lines), len(places), dtype=torch.float64)
    for row, words in enumerate(found):
        for word in words:
            if word in places:
                read[row, places[word]] = len(words) ** -0.5
    labels = torch.tensor([float(corrects) for _, corrects in lines], dtype=torch.float64)
    weights = torch.zeros(len(places) + 1, dtype=torch.float64, requires_grad=True)
    optimizer: Any = torch.optim.LBFGS([weights], max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> Any:
        optimizer.zero_grad()
        value: Any = binary_cross_entropy_with_logits(read @ weights[1:] + weights[0], labels, reduction="sum")
        value = value + weights[1:].square().sum() / (2 * WIDTH)
        value.backward()
        return value

    optimizer.step(loss)
    always, *each = weights.tolist()
    return {"": round(always, 2)} | {word: round(each[n], 2) for word, n in places.items() if abs(each[n]) >= LEAST}


def tune(
    out: Annotated[Path, typer.Option("--out", help="Folder of the check's adapter.")],
    written: Annotated[Path, typer.Option("--texts", help="Folder of training texts.")] = WRITTEN,
    seed: int = 7,
) -> None:
    """Tune what tells whether a line corrects its speaker."""
    lines = marked(written / "correcting.txt")
    lines += [(text, False) for text in ordinary(written, random.Random(seed))]
    weights = fitted(lines)
    out.mkdir(parents=True, exist_ok=True)
    (out / "corrects.json").write_text(json.dumps(weights, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
    typer.echo(f"{len(lines)} lines, {len(weights)} weights: {out / 'corrects.json'}", err=True)


def main() -> None:
    """The command."""
    run_command(tune, "training.corrects")


if __name__ == "__main__":
    main()
