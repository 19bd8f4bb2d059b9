"""``ld-agent eval``: measures modules and agents against references, with intervals. Prints; decides nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.cli import retrieval

if TYPE_CHECKING:
    from ld_agent.config import Config
    from ld_agent.evaluation.runner import Run, Task

app = typer.Typer(help="Measure extraction, summaries, replies and recall against references.", no_args_is_help=True)
retrieval.register(app)
Data = Annotated[Path, typer.Argument(metavar="DATA", help="A corpus file with references.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Config overrides, for every config.", metavar="[KEY=VALUE]...")
]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", help="A config file or a shipped one's name; repeat it to compare with the first."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N episodes or dialogues.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output and nothing else.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Keep the predictions in this folder; a run that was broken off goes on from there."),
]
BertModel = Annotated[
    str | None,
    typer.Option("--bert-score", metavar="MODEL", help="Also BERTScore by this encoder; 'default': encoder.model."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Throw away what another configuration has left in --out.")
]


@app.command()
def extraction(
    data: Data,
    overrides: Overrides = None,
    config: Configs = None,
    limit: Limit = None,
    as_json: Json = False,
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Score the extractor: accuracy of trait or no trait, BLEU and ROUGE-L against annotated traits.

    Examples:

      ld-agent eval extraction msc_personasummary/session_4/test.txt --limit 25

      ld-agent eval extraction test.txt -c default -c qwen3-0.6b --out runs/extraction --json
    """
    from ld_agent.evaluation.extraction import ExtractionTask

    _evaluate(lambda settings: ExtractionTask(data, limit), data, overrides, config, limit, as_json, out, overwrite)


@app.command()
def summary(
    data: Data,
    overrides: Overrides = None,
    config: Configs = None,
    limit: Limit = None,
    as_json: Json = False,
    out: Out = None,
    overwrite: Overwrite = False,
    bert_score: BertModel = None,
) -> None:
    """Score the summarizer on DialogSum or on LoCoMo's sessions: ROUGE-1, -2 and -L against the best of the references.

    Examples:

      ld-agent eval summary dialogsum.test250.jsonl --limit 60 modules.summarizer.adapter=null

      ld-agent eval summary locomo10.json --limit 2
    """
    from ld_agent.evaluation.summary import SummaryTask

    _evaluate(
        lambda settings: SummaryTask(data, limit), data, overrides, config, limit, as_json, out, overwrite, bert_score
    )


@app.command()
def response(
    data: Data,
    overrides: Overrides = None,
    config: Configs = None,
    limit: Limit = None,
    as_json: Json = False,
    out: Out = None,
    overwrite: Overwrite = False,
    bert_score: BertModel = None,
    from_session: Annotated[
        int, typer.Option("--from-session", min=1, help="Hear the sessions before this one without replying.")
    ] = 1,
    no_perplexity: Annotated[
        bool, typer.Option("--no-perplexity", help="Do not ask how likely the recorded replies are.")
    ] = False,
) -> None:
    """Score the agent's replies by teacher-forced replay: BLEU, ROUGE, METEOR, F1, Distinct, perplexity, by session.

    Examples:

      ld-agent eval response msc_dialogue/session_3/test.txt --limit 20 --from-session 2 --out runs/response

      ld-agent eval response test.txt -c default -c history --json
    """
    from ld_agent.evaluation.response import ResponseTask

    def make(settings: Config) -> Task:
        return ResponseTask(data, settings, limit, from_session, not no_perplexity)

    _evaluate(make, data, overrides, config, limit, as_json, out, overwrite, bert_score)


@app.command()
def score(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders that --out has filled.")],
    as_json: Json = False,
    bert_score: BertModel = None,
    partial: Annotated[bool, typer.Option("--partial", help="Score half-finished runs too.")] = False,
) -> None:
    """Score kept predictions again, without a model; several runs are compared with the first.

    Example:

      ld-agent eval score runs/extraction/default runs/extraction/qwen3-0.6b
    """
    from ld_agent.cli.show import say
    from ld_agent.errors import InputError
    from ld_agent.evaluation.runner import missing, read_run, runs_under

    found = [run for folder in folders for run in (runs_under(folder) or [folder])]
    runs: list[tuple[Run, Path | None]] = []
    for folder in found:
        run = read_run(folder)
        absent, wanted = missing(folder)
        if absent:
            told = f"{folder} is half finished: {absent} of {wanted} predictions are missing"
            if not partial:
                raise InputError(f"{told}; run its eval command again to go on, or score what is there with --partial")
            say(told)
        runs.append((run, None if absent else folder))
    _report(runs, as_json, bert_score)


def _evaluate(
    make: Callable[[Config], Task],
    data: Path,
    overrides: list[str] | None,
    configs: list[str] | None,
    limit: int | None,
    as_json: bool,
    out: Path | None,
    overwrite: bool,
    bert_score: str | None = None,
) -> None:
    from ld_agent.config import load_config
    from ld_agent.evaluation.runner import perform

    named = [(name, load_config(name, overrides or [])) for name in configs or [None]]  # type: ignore[list-item]
    names = _names([name or "default" for name, _ in named])
    runs: list[tuple[Run, Path | None]] = []
    for name, (_, settings) in zip(names, named, strict=True):
        folder = out / name if out is not None and len(named) > 1 else out
        run = perform(make(settings), settings, name, data, folder, limit, overwrite)
        if run is not None:
            runs.append((run, folder))
    if runs:
        _report(runs, as_json, bert_score)


def _names(configs: Sequence[str]) -> list[str]:
    """Short names of configs, each once: a file's stem, with a number where it comes again."""
    names: list[str] = []
    for config in configs:
        stem = Path(config).stem if config.endswith((".yaml", ".yml")) else Path(config).name
        again = sum(1 for name in names if name.partition("#")[0] == stem)
        names.append(f"{stem}#{again + 1}" if again else stem)
    return names


def _report(runs: Sequence[tuple[Run, Path | None]], as_json: bool, encoder: str | None) -> None:
    from ld_agent.cli.show import say
    from ld_agent.config import Config
    from ld_agent.evaluation.bert_score import BertScore
    from ld_agent.evaluation.runner import write_scores
    from ld_agent.evaluation.scoring import comparisons, measures, scores

    similarity = None
    if encoder is not None:
        similarity = BertScore(Config().encoder.model if encoder == "default" else encoder)
    measured = [measures(run, similarity) for run, _ in runs]
    results = []
    for (run, folder), own in zip(runs, measured, strict=True):
        result = scores(run, own) | ({"bert_score_model": similarity.name} if similarity is not None else {})
        results.append(result)
        if result["empty"]:
            say(f"{run.name}: {result['empty']} of {result['predictions']} predictions are empty and count as such")
        if folder is not None:
            write_scores(folder, result)
    compared = comparisons([run for run, _ in runs], measured) if len(runs) > 1 else []
    if as_json:
        whole = results[0] if len(results) == 1 else {"systems": results, "comparisons": compared}
        sys.stdout.write(json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
        return
    _show(results, compared)


def _show(results: Sequence[dict[str, Any]], compared: Sequence[dict[str, Any]]) -> None:
    from rich.table import Table

    from ld_agent.cli.show import console, plain

    for result in results:
        title = f"{result['system']}: eval {result['task']}, {result['episodes']} episodes, {result['predictions']} predictions"
        table = Table(title=title, title_justify="left", box=None, padding=(0, 1), header_style="dim")
        for heading in ("", "all", "95 % interval", *(f"session {n}" for n in result.get("by_session", {}))):
            table.add_column(heading, justify="right" if heading else "left")
        for name in [key for key, value in result.items() if isinstance(value, float) or key in result["intervals"]]:
            if name == "interval_level":
                continue
            low_high = result["intervals"].get(name)
            between = f"{_number(low_high[0])} … {_number(low_high[1])}" if low_high else "–"
            by_session = [_number(figures[name]) for figures in result.get("by_session", {}).values()]
            table.add_row(plain(name), _number(result[name]), between, *by_session)
        console.print(table)
    if compared:
        table = Table(title="paired bootstrap", title_justify="left", box=None, padding=(0, 1), header_style="dim")
        for heading in ("system", "against", "metric", "difference", "95 % interval", "p"):
            table.add_column(heading, justify="left" if heading in ("system", "against", "metric") else "right")
        for test in compared:
            low, high = test["interval"]
            between = f"{_number(low)} … {_number(high)}"
            named = (plain(test["system"]), plain(test["against"]), plain(test["metric"]))
            table.add_row(*named, _number(test["difference"]), between, _number(test["p"]))
        console.print(table)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
