"""Compare adapters on held-out rows, for ablations whose prompts differ:

    python -m training.compare zero-shot=rows.context.jsonl context=rows.context.jsonl@runs/context full=rows.jsonl@runs/full

All systems have the same recorded replies, each with its own prompts. Measures the perplexity of the recorded replies and,
with ``--generate``, BLEU and ROUGE-L of generated ones. Each system is compared with the first by paired bootstrap over
episodes. ``--out`` keeps the replies as runs, for the tables of ``ld-agent tables``. Knows no agent, because rows contain
finished prompts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.backbones.base import Request
from ld_agent.config import Config, load_config
from ld_agent.errors import ConfigError, InputError
from ld_agent.evaluation.run_files import PREDICTIONS, Item, line_of
from ld_agent.evaluation.runner import FORMAT
from ld_agent.files import check_output, written_atomically
from training.ablations import ABLATIONS
from training.command import run_command
from training.rows import Row, read_rows

if TYPE_CHECKING:
    from ld_agent.backbones.local import LocalBackbone
    from ld_agent.evaluation.metrics import Measure

CHUNK = 32
NEW_TOKENS = 48


@dataclass(frozen=True, slots=True)
class System:
    """A system.

    Attributes:
        rows: the prompts and the recorded replies.
        values: the rows as in the file, with their provenance.
        adapter: None: the base model.
    """

    name: str
    rows: tuple[Row, ...]
    values: tuple[dict[str, Any], ...]
    adapter: str | None

    @property
    def episodes(self) -> tuple[str, ...]:
        return tuple(str(value.get("episode", number)) for number, value in enumerate(self.values))

    @property
    def sessions(self) -> tuple[int, ...]:
        return tuple(int(value.get("session", 0)) for value in self.values)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A system's results: nats and tokens of the recorded replies, and its own replies ("": none)."""

    nats: list[float]
    tokens: list[int]
    replies: list[str]


def read_system(text: str, limit: int | None = None) -> System:
    """Read ``NAME=ROWS[@ADAPTER]``.

    Raises:
        ConfigError: the text has another form.
        InputError, DataFileError: as in `read_rows`.
    """
    name, assigned, rest = text.partition("=")
    file, _, adapter = rest.partition("@")
    if not assigned or not name or not file:
        raise ConfigError(f"{text!r} is not a system; expected NAME=ROWS or NAME=ROWS@ADAPTER")
    rows = read_rows(file)[:limit]
    with Path(file).open(encoding="utf-8") as lines:
        values = [json.loads(line) for line in lines if line.strip()][:limit]
    return System(name, tuple(rows), tuple(values), adapter or None)


def outcome(backbone: LocalBackbone, system: System, new_tokens: int, penalty: float) -> Outcome:
    """Find how likely the recorded replies are and, with ``new_tokens``, generate replies."""
    from ld_agent.terminal import progress

    requests = [
        Request(row.prompt, "generator", max(new_tokens, 1), adapter=system.adapter, repetition_penalty=penalty)
        for row in system.rows
    ]
    targets = [row.target for row in system.rows]
    order = sorted(range(len(requests)), key=lambda n: sum(len(m.content) for m in requests[n].messages))
    nats, tokens, replies = [0.0] * len(order), [0] * len(order), [""] * len(order)
    with progress(system.name, len(order)) as advance:
        for start in range(0, len(order), CHUNK):
            chunk = order[start : start + CHUNK]
            batch = [requests[n] for n in chunk]
            for n, likelihood in zip(chunk, backbone.likelihoods(batch, [targets[n] for n in chunk]), strict=True):
                nats[n], tokens[n] = likelihood.nats, likelihood.tokens
            if new_tokens:
                for n, completion in zip(chunk, backbone.generate(batch), strict=True):
                    replies[n] = completion.text.strip()
            advance(len(chunk))
    return Outcome(nats, tokens, replies)


def measures(system: System, outcome: Outcome, *, generated: bool) -> dict[str, Measure]:
    """Measure perplexity of recorded replies and, with ``generated``, BLEU and ROUGE-L of the system's own."""
    from ld_agent.evaluation.metrics import bleu, perplexity, rouge

    result = {"perplexity": perplexity(outcome.nats, outcome.tokens)}
    if generated:
        references = [[row.target] for row in system.rows]
        result |= bleu(outcome.replies, references, (2, 3)) | rouge(outcome.replies, references, ["rouge_l"])
    return result


def compared(systems: Sequence[System], measured: Sequence[dict[str, Measure]]) -> list[dict[str, Any]]:
    """Return each system's figures, also by session, and its differences from the first with intervals."""
    from ld_agent.evaluation.bootstrap import compare

    result = []
    for system, figures in zip(systems, measured, strict=True):
        values: dict[str, Any] = {"system": system.name, "rows": len(system.rows), "adapter": system.adapter}
        for name, measure in figures.items():
            values[name] = measure.overall
            if system is not systems[0] and (test := compare(measured[0][name], measure, system.episodes)) is not None:
                values[f"{name}_difference"] = test.difference
                values[f"{name}_interval"], values[f"{name}_p"] = list(test.interval), test.p
        values["by_session"] = {
            str(number): {name: m.where([s == number for s in system.sessions]).overall for name, m in figures.items()}
            for number in sorted(set(system.sessions))
        }
        result.append(values)
    return result


def run_header(system: System, config: Config, model: str | None) -> dict[str, Any]:
    """Return the first line of a system's run, as `ld_agent.evaluation.runner.describe` makes it.

    Args:
        config: what the rows were built with; the parts of the system's prompts and its adapter are set in it.
        model: the base; None: the config's.

    Raises:
        InputError: the rows do not say what their prompts are made of, or from which corpus they are.
    """
    named, corpora = ({str(value.get(key)) for value in system.values} for key in ("parts", "corpus"))
    if len(named) != 1 or len(corpora) != 1 or (name := named.pop()) not in ABLATIONS:
        raise InputError(
            f"the rows of {system.name} do not all state their prompt parts and their corpus; "
            "build them with training.build generator --ablations"
        )
    parts, personas = ABLATIONS[name], config.personas
    values = config.model_dump(mode="json")
    values["memory"]["views"] = values["memory"]["views"] if parts.memory else ["none"]
    values["personas"]["user_cap"] = personas.most(of_agent=False) if parts.user_personas else 0
    values["personas"]["agent_cap"] = personas.most(of_agent=True) if parts.agent_personas else 0
    values["modules"]["generator"]["adapter"] = system.adapter
    values["backbone"]["model"] = model or values["backbone"]["model"]
    digest = hashlib.sha256(json.dumps(system.values, sort_keys=True).encode()).hexdigest()
    marks = [system.name, digest, values]
    return {
        "format": FORMAT,
        "task": "response",
        "name": system.name,
        "data": str(system.rows[0].path),
        "corpus": corpora.pop(),
        "data_sha256": digest,
        "config": values,
        "hash": hashlib.sha256(json.dumps(marks, sort_keys=True).encode()).hexdigest(),
    }


def write_run(folder: Path, header: dict[str, Any], system: System, outcome: Outcome) -> None:
    """Write a system's replies as a finished run of ``eval response``."""
    plan = {"limit": None, "predictions": len(system.rows)}
    lines: list[dict[str, Any]] = [{"run": header}, {"started": plan}]
    for number, (row, value) in enumerate(zip(system.rows, system.values, strict=True)):
        episode, session = system.episodes[number], system.sessions[number]
        turn = value.get("turn", number)
        item = Item(f"{episode}/{session}/{turn}", episode, session, references=(row.target,), about={"turn": turn})
        details = {"nats": outcome.nats[number], "tokens": outcome.tokens[number]}
        lines.append(line_of(item, outcome.replies[number], details))
    folder.mkdir(parents=True, exist_ok=True)
    check_output(folder / PREDICTIONS)
    with written_atomically(folder / PREDICTIONS) as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in (*lines, {"finished": plan}))


def compare_adapters(
    systems: Annotated[
        list[str], typer.Argument(metavar="NAME=ROWS[@ADAPTER]...", help="All are compared with the first.")
    ],
    model: Annotated[str | None, typer.Option(help="The base model. Default: that of the default config.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N rows of each file.")] = None,
    generate: Annotated[bool, typer.Option("--generate", help="Also generate replies: BLEU and ROUGE-L.")] = False,
    penalty: Annotated[float, typer.Option(help="Repetition penalty of the replies.")] = 1.1,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="With --generate: keep the replies here, a run per system, for ld-agent tables."),
    ] = None,
    config: Annotated[
        str, typer.Option("-c", "--config", help="With --out: the agent config that the rows were built with.")
    ] = "paper-tuned",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Compare adapters on held-out rows, each system with its own prompts.

    Examples:

      python -m training.compare context=rows.context.jsonl@runs/context full=rows.jsonl@runs/full

      python -m training.compare context=rows.context.jsonl@runs/context full=rows.jsonl@runs/full --generate --out runs/table2
    """
    if out is not None and not generate:
        raise InputError("--out keeps replies, which are only made with --generate; add it")
    columns = [read_system(text, limit) for text in systems]
    runs = {} if out is None else {system.name: run_header(system, load_config(config), model) for system in columns}
    first = columns[0]
    for system in columns[1:]:
        if [r.target for r in system.rows] != [r.target for r in first.rows] or system.episodes != first.episodes:
            raise InputError(
                f"{system.name} and {first.name} have different replies; build both with training.build --ablations"
            )

    from ld_agent.backbones.local import LocalBackbone

    settings = load_config().backbone
    backbone = LocalBackbone(
        model or settings.model,
        context_window=settings.context_window if model is None else None,
        adapters={system.adapter: system.adapter for system in columns if system.adapter is not None},
    )
    try:
        outcomes = [outcome(backbone, system, NEW_TOKENS if generate else 0, penalty) for system in columns]
    finally:
        backbone.close()
    for system, replies in zip(columns, outcomes, strict=True):
        if out is not None:
            write_run(out / system.name, runs[system.name], system, replies)
    measured = [
        measures(system, replies, generated=generate) for system, replies in zip(columns, outcomes, strict=True)
    ]
    result = compared(columns, measured)
    if as_json:
        typer.echo(json.dumps({"base": model or settings.model, "systems": result}, ensure_ascii=False))
        return
    _show(result)


def _show(result: Sequence[dict[str, Any]]) -> None:
    from rich.table import Table

    from ld_agent.terminal import console

    names = [name for name in ("perplexity", "bleu_2", "bleu_3", "rouge_l") if name in result[0]]
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("system", *names, "perplexity minus the first's (95 %)"):
        table.add_column(heading)
    for values in result:
        interval = values.get("perplexity_interval")
        difference = (
            f"{values['perplexity_difference']:+.2f} [{interval[0]:+.2f}, {interval[1]:+.2f}]" if interval else ""
        )
        table.add_row(values["system"], *(f"{values[name]:.4g}" for name in names), difference)
    console.print(table)


def main() -> None:
    """The command."""
    run_command(compare_adapters, "training.compare")


if __name__ == "__main__":
    main()
