"""``ld-agent judge``: a language model judges runs, and is itself compared with people."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ld_agent.cli.runs import Json, Overrides

app = typer.Typer(help="Let a language model judge kept runs.", no_args_is_help=True)
Runs = Annotated[
    list[str], typer.Argument(metavar="RUN... [KEY=VALUE]...", help="Folders of runs, and config overrides.")
]
OneRun = Annotated[Path, typer.Argument(metavar="RUN", help="A folder of ld-agent eval response or ecm run.")]
Other = Annotated[Path, typer.Argument(metavar="OTHER", help="The run to compare with.")]
Config = Annotated[str | None, typer.Option("--config", "-c", help="The judge: the backbone of this config.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N predictions.")]


@app.command()
def rate(
    run: OneRun, overrides: Overrides = None, config: Config = None, limit: Limit = None, as_json: Json = False
) -> None:
    """Rate replies from 1 to 100 on engagingness, coherence and consistency (Rsum, Table 4).

    Example:

      ld-agent judge rate runs/recursive -c openai --limit 100
    """
    _judge("rate", [run], config, overrides, limit, as_json)


@app.command()
def score(
    run: OneRun, overrides: Overrides = None, config: Config = None, limit: Limit = None, as_json: Json = False
) -> None:
    """Score from 0 to 2 how much of the reference a reply contains (ECM's GPT-score).

    Example:

      ld-agent judge score runs/knowledge/conditional -c openai
    """
    _judge("score", [run], config, overrides, limit, as_json)


@app.command()
def prefer(
    run: OneRun,
    other: Other,
    overrides: Overrides = None,
    config: Config = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Choose the better of two replies by four options, in both orders (Rsum, section 6.2).

    Example:

      ld-agent judge prefer runs/recursive runs/memorybank -c openai
    """
    _judge("prefer", [run, other], config, overrides, limit, as_json)


@app.command()
def compare(
    run: OneRun,
    other: Other,
    overrides: Overrides = None,
    config: Config = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Good, same or bad against another run by nearness to the reference, in both orders (ECM, Tables 3, 5 and 6).

    Example:

      ld-agent judge compare runs/feedback/conditional runs/feedback/summary -c openai
    """
    _judge("compare", [run, other], config, overrides, limit, as_json)


@app.command()
def choose(
    runs: Runs,
    config: Config = None,
    limit: Limit = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the shuffled places.")] = 0,
    as_json: Json = False,
) -> None:
    """Choose the best of several runs' answers, from shuffled places (ECM, Figure 5).

    Example:

      ld-agent judge choose runs/none runs/history runs/summary runs/conditional -c openai
    """
    folders = [Path(given) for given in runs if "=" not in given or Path(given).exists()]
    overrides = [given for given in runs if Path(given) not in folders]
    _judge("choose", folders, config, overrides, limit, as_json, seed)


@app.command()
def form(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs over the same data.")],
    out: Annotated[Path, typer.Option("--out", help="The page; its key is written next to it.")],
    questions: Annotated[str, typer.Option("--questions", help="chat, recursive or benchmark.")] = "chat",
    limit: Limit = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the shuffled order.")] = 0,
) -> None:
    """Write a page on which people rate replies blind (LD-Agent, appendix B; Rsum; ECM, Table 7).

    Example:

      ld-agent judge form runs/recursive runs/none --out page.html --limit 50
    """
    from ld_agent.cli.show import say
    from ld_agent.evaluation.form import write_form
    from ld_agent.evaluation.verdicts import cases, complete_run

    read = [complete_run(folder) for folder in runs]
    kind = "rate" if read[0].task == "response" else "score"
    key = write_form(cases(read, kind, limit), questions, out, seed)
    say(f"the page is {out}; keep {key} from the annotators, because it names the systems")


@app.command()
def agree(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES...", help="Exported ratings; or a judge-….jsonl file and labels.")
    ],
    key: Annotated[Path | None, typer.Option("--key", help="The form's key: figures per system.")] = None,
    as_json: Json = False,
) -> None:
    """How far people agree with one another, or a judge with people.

    Ratings exported from a form: Cohen's and Fleiss' kappa. A judge's verdicts and labels, JSON lines of "key", "label" and,
    for ratings, "aspect": accuracy, Cohen's kappa, Pearson and Spearman.

    Examples:

      ld-agent judge agree ratings-ann.jsonl ratings-bob.jsonl --key page.key.json

      ld-agent judge agree runs/conditional/judge-score.jsonl labels.jsonl
    """
    from ld_agent.datasets.records import json_lines, raise_bad
    from ld_agent.errors import InputError
    from ld_agent.evaluation.form import read_key, read_ratings, summary

    first = next(iter(json_lines(files[0], raise_bad)), None)
    if first is None or "verdicts" not in first:
        form_id, ratings = read_ratings(files)
        result = summary(ratings, read_key(key, form_id) if key else None)
        flat = {
            f"{group} {name}": about
            for group, named in result.items()
            if group != "all"
            for name, about in named.items()
        }
        _show(result if as_json else flat | {"all": result["all"]}, as_json)
        return
    if len(files) != 2:
        raise InputError(f"{len(files)} files; give one file of verdicts and one of labels")
    _agree_with_people(files[0], files[1], as_json)


def _agree_with_people(verdicts: Path, labels: Path, as_json: bool) -> None:
    from ld_agent.evaluation.agreement import agreement, read_labels
    from ld_agent.evaluation.verdicts import read_verdicts

    judged = read_verdicts(verdicts)
    given = read_labels(labels, {(key, aspect) for key, aspect, _ in judged.verdicts})
    result: dict[str, Any] = {"kind": judged.kind, "judge": judged.judge}
    by_aspect = {}
    for aspect in dict.fromkeys(aspect for _, aspect, _ in judged.verdicts):
        pairs = [(v, given[key, of]) for key, of, v in judged.verdicts if of == aspect and (key, of) in given]
        if pairs:
            by_aspect[aspect] = agreement([v for v, _ in pairs], [label for _, label in pairs]).as_json()
    result |= by_aspect[""] if set(by_aspect) == {""} else by_aspect
    _show(result, as_json)


def _judge(
    kind: str,
    folders: list[Path],
    config: str | None,
    overrides: list[str] | None,
    limit: int | None,
    as_json: bool,
    seed: int = 0,
) -> None:
    from ld_agent.backbones import build_backbone
    from ld_agent.backbones.base import Completion, Request
    from ld_agent.cli.show import say
    from ld_agent.config import load_config
    from ld_agent.errors import InputError
    from ld_agent.evaluation.fallbacks import MARK, footnote, of_predictions
    from ld_agent.evaluation.fallbacks import as_json as shown
    from ld_agent.evaluation.judge import Judge
    from ld_agent.evaluation.runner import progress
    from ld_agent.evaluation.verdicts import QUESTIONS, cases, complete_run, pronounce, summarized, write_verdicts

    section = load_config(config, overrides or []).backbone
    runs = [complete_run(folder) for folder in folders]
    every = cases(runs, kind, limit)
    counts = {run.name: of_predictions(run.predictions) for run in runs}
    for name, counted in counts.items():
        if note := footnote(counted):
            say(f"{MARK} {name}: {note}")
    given = [case for case in every if all(text.strip() for text in case.candidates.values())]
    empty = len(every) - len(given)
    if not given:
        raise InputError(f"in each of the {empty} cases a reply is empty; fix the configuration and run again")
    if empty:
        say(f"{empty} of {len(every)} cases are not judged: a reply is empty")
    backbone = build_backbone(section)
    try:
        with progress(QUESTIONS[kind] * len(given), 0, f"judge {kind}") as advance:

            def complete(requests: Sequence[Request]) -> list[Completion]:
                completions = backbone.generate(requests)
                advance(len(requests))
                return completions

            found = pronounce(Judge(complete), kind, given, seed)
    finally:
        backbone.close()
    path = write_verdicts(folders[0], kind, section.model, runs, given, found, seed=seed, empty=empty)
    about = {"kind": kind, "judge": section.model, "cases": len(given), "empty": empty}
    result = about | summarized(kind, list(given[0].candidates), found)
    result["fallback_counts"] = {name: shown(counted) for name, counted in counts.items()}
    _show(result, as_json)
    if not as_json:
        say(f"the verdicts are in {path}")


def _show(result: dict[str, Any], as_json: bool) -> None:
    from ld_agent.cli.show import console

    if as_json:
        sys.stdout.write(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
        return
    for name, value in result.items():
        shown = ", ".join(f"{k} {_number(v)}" for k, v in value.items()) if isinstance(value, dict) else _number(value)
        console.print(f"{name}: {shown}", markup=False)


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
