"""Builds training files from corpora:

    python -m training.build extractor --from msc_personasummary/session_2/valid.txt --out extractor.jsonl

Every row is ``{"messages": [..., target], "corpus", "episode", "session", "turn"}``, its prompt rendered by the code that
renders it at inference. Rows of one episode never come to lie on both sides of ``--eval-out``. Knows no model's tokens.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ld_agent.config import Config, load_config
from ld_agent.datasets import format_of, load_annotated_utterances, load_dialogues, load_episodes
from ld_agent.datasets.base import Episode
from ld_agent.datasets.dialogsum import Dialogue
from ld_agent.errors import InputError
from ld_agent.files import check_output
from training.ablations import ABLATIONS, FULL, Parts
from training.command import run_command
from training.rows import row_values, write_rows

Values = dict[str, Any]
Module = Literal["summarizer", "extractor", "generator"]
NO_TRAIT = "NO_TRAIT"


def extractor_rows(sources: Sequence[Path], config: Config, limit: int | None = None) -> Iterator[Values]:
    """Utterance → its traits joined by a space, or NO_TRAIT.

    Args:
        limit: sessions (episodes, of other corpora) read of each source.

    Raises:
        InputError: no such file, or a corpus without annotated traits.
    """
    from ld_agent.modules.base import Models
    from ld_agent.modules.extractor import Extractor

    extractor = Extractor(Models(config), config.modules.extractor.prompting)
    for source in sources:
        corpus = format_of(source)
        for u in load_annotated_utterances(source, limit=limit):
            yield row_values(
                extractor.prompt_for(u.text, u.before),
                " ".join(u.traits) or NO_TRAIT,
                corpus=corpus,
                episode=u.episode,
                session=u.session,
                turn=u.turn,
            )


def summarizer_rows(
    sources: Sequence[Path], config: Config, limit: int | None = None, longest: int = 1, share: float = 0.0
) -> Iterator[Values]:
    """Dialogue → its summary, one row a reference; the corpus's tags are names on both sides.

    Args:
        limit: dialogues read of each source.
        longest: above 1: also sessions of up to so many dialogues, see `joined`.
        share: of the dialogues that are held out; none of them is joined with one that is not.

    Raises:
        InputError: no such file.
    """
    from ld_agent.datasets.naming import named_dialogue
    from ld_agent.memory.encoder import SentenceEncoder
    from ld_agent.modules.base import Models
    from ld_agent.modules.summarizer import Summarizer

    settings = config.encoder
    summarizer = Summarizer(Models(config), SentenceEncoder(settings.model, settings.device, settings.sha256))
    dialogues = [d for source in sources for d in load_dialogues(source, limit=limit)]
    apart = held_out([dialogue.id for dialogue in dialogues], share)
    sides = [[d for d in dialogues if (origin(d.id) in apart) is there] for there in (False, True)]
    for dialogue in [*dialogues, *(session for side in sides for session in joined(side, longest))]:
        session, summaries = named_dialogue(dialogue)
        for summary in dict.fromkeys(summaries):
            yield row_values(
                summarizer.prompt_for(session),
                summary,
                corpus="dialogsum",
                episode=dialogue.id,
                session=1,
                turn=len(dialogue.turns),
            )


def joined(dialogues: Sequence[Dialogue], longest: int) -> list[Dialogue]:
    """Sessions of several dialogues, one after the other, each with the summaries in the same order.

    Real sessions go on for longer than the dialogues of summarization corpora, and a summarizer that has seen only these
    writes one sentence whatever it is given. For every k from 2 to ``longest`` there are 1/2^(k-1) times as many sessions of
    k dialogues as there are dialogues; the choice depends on the dialogues alone. A session's id is that of its first
    dialogue, "#" and the others'.
    """
    pairs = [dialogue for dialogue in dialogues if len({turn.speaker for turn in dialogue.turns}) == 2]
    chosen = random.Random(len(pairs))
    return [
        _one_session([first, *chosen.sample([d for d in pairs if d is not first], k - 1)])
        for k in range(2, min(longest, len(pairs)) + 1)
        for first in chosen.sample(pairs, len(pairs) // 2 ** (k - 1))
    ]


def _one_session(parts: Sequence[Dialogue]) -> Dialogue:
    first, *others = parts
    return replace(
        first,
        id=f"{first.id}#{'+'.join(d.id for d in others)}",
        turns=tuple(turn for d in parts for turn in d.turns),
        summaries=(" ".join(d.summaries[0] for d in parts),),
    )


def held_out(episodes: Sequence[str], share: float) -> frozenset[str]:
    """Choose at least one episode in ``share`` of them, by their names alone: the same ones from every file and module."""
    names = sorted(dict.fromkeys(map(origin, episodes)), key=lambda name: hashlib.sha256(name.encode()).digest())
    if share and len(names) < 2:
        raise InputError(f"{len(names)} episode cannot be split in two; give more data, or leave --eval-out away")
    return frozenset(names[: math.ceil(share * len(names))])


def origin(episode: str) -> str:
    """The conversation that an episode id comes from: a repeated one ("valid_7#2") belongs with the first."""
    return episode.partition("#")[0]


def build(
    module: Annotated[Module, typer.Argument(help="The module to build training data for.")],
    sources: Annotated[list[Path], typer.Option("--from", help="A corpus file; repeat for more.")],
    out: Annotated[Path, typer.Option("--out", help="The training file to write.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings: modules.extractor.prompting=brief")] = None,
    config: Annotated[str | None, typer.Option("-c", "--config", help="Agent config, as for ld-agent.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Episodes or dialogues read of each file.")] = None,
    eval_out: Annotated[Path | None, typer.Option("--eval-out", help="Also write a validation file.")] = None,
    eval_share: Annotated[float, typer.Option(min=0.0, max=0.5, help="Share of the episodes that go there.")] = 0.05,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
    width: Annotated[int, typer.Option("--batch", min=1, help="generator: episodes replayed side by side.")] = 16,
    annotated: Annotated[
        bool, typer.Option("--annotated-personas", help="generator: the annotators' traits, not the extractor's.")
    ] = False,
    no_memory: Annotated[bool, typer.Option("--no-memory", help="generator: nothing is recalled.")] = False,
    no_user: Annotated[bool, typer.Option("--no-user-personas", help="generator: no traits of the others.")] = False,
    no_agent: Annotated[bool, typer.Option("--no-agent-personas", help="generator: no traits of the agent.")] = False,
    longest: Annotated[
        int, typer.Option(min=1, help="summarizer: also sessions of up to so many dialogues, one after the other.")
    ] = 1,
    ablations: Annotated[
        bool, typer.Option("--ablations", help="generator: also files of context alone and with one part each.")
    ] = False,
) -> None:
    """Build a module's training file from a corpus.

    Examples:

      python -m training.build summarizer --from dialogsum.dev.jsonl --out runs/summarizer.jsonl

      python -m training.build generator --from msc_dialogue/session_3/valid.txt --out runs/generator.jsonl --no-memory

      python -m training.build generator --from msc_dialogue/session_3/valid.txt --out runs/generator.jsonl --ablations

    The last one replays once and writes five files: runs/generator.jsonl with all parts, and beside it
    generator.context.jsonl, generator.memory.jsonl, generator.user.jsonl and generator.agent.jsonl.
    """
    parts = Parts(not no_memory, not no_user, not no_agent, annotated)
    if module != "generator" and (ablations or parts != Parts()):
        raise typer.BadParameter(f"the ablation options are for the generator, not the {module}")
    if module != "summarizer" and longest > 1:
        raise typer.BadParameter(f"--longest joins dialogues for the summarizer, not for the {module}")
    if ablations and not (parts.memory and parts.user_personas and parts.agent_personas):
        raise typer.BadParameter("--ablations switches the parts off one by one itself; leave the --no- options away")
    names = list(ABLATIONS) if ablations else [FULL]
    targets = {name: (_named(out, name), _named(eval_out, name) if eval_out else None) for name in names}
    for target in (path for pair in targets.values() for path in pair):
        if target is None:
            continue
        check_output(target, (*sources, config))
        if target.exists() and not overwrite:
            raise InputError(f"{target} exists; give another name, or --overwrite to replace it")
    if eval_out is not None and os.path.realpath(eval_out) == os.path.realpath(out):
        raise InputError(f"--out and --eval-out are both {out}; give two files")
    settings = load_config(config, overrides or [])
    share = eval_share if eval_out is not None else 0.0
    if module == "generator":
        from training.replayed import build_generator

        variants = ABLATIONS if ablations else {}
        rows = build_generator(
            _episodes(sources, limit), settings, parts, out, variants=variants, width=width, overwrite=overwrite
        )
        if rows is None:  # another process of this launch writes what all of them have built
            return
    elif module == "summarizer":
        rows = list(_counted(summarizer_rows(sources, settings, limit, longest, share), module))
    else:
        rows = list(_counted(extractor_rows(sources, settings, limit), module))
    if not rows:
        raise InputError(f"{', '.join(map(str, sources))}: no row for the {module} came of it; give more data")
    for name, (train_target, eval_target) in targets.items():
        _written([row for row in rows if row.get("parts", name) == name], train_target, eval_target, share)


def _named(path: Path, name: str) -> Path:
    """The file of one ablation beside that of all parts, which has the name that was given."""
    return path if name == FULL else path.with_name(f"{path.stem}.{name}{path.suffix}")


def _written(rows: Sequence[Values], out: Path, eval_out: Path | None, share: float) -> None:
    apart = held_out([row["episode"] for row in rows], share)
    kept = [row for row in rows if origin(row["episode"]) not in apart]
    counts = {out: write_rows(out, kept)}
    if eval_out is not None:
        counts[eval_out] = write_rows(eval_out, (row for row in rows if origin(row["episode"]) in apart))
    for path, count in counts.items():
        typer.echo(f"{path}: {count} rows", err=True)


def _episodes(sources: Sequence[Path], limit: int | None) -> list[tuple[str, Episode]]:
    return [(format_of(source), episode) for source in sources for episode in load_episodes(source, limit=limit)]


def _counted(rows: Iterator[Values], module: str) -> Iterator[Values]:
    """Show on standard error how many rows there are so far."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from ld_agent.cli.show import errors

    columns = (SpinnerColumn(), TextColumn("{task.description}: {task.completed} rows"), TimeElapsedColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as progress:
        task = progress.add_task(module, total=None)
        for row in rows:
            progress.advance(task)
            yield row


def main() -> None:
    """The command."""
    run_command(build, "training.build")


if __name__ == "__main__":
    main()
