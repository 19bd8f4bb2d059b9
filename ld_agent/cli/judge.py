"""``ld-agent judge``: let a language model judge runs, and compare it with people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.cli.runs import Json, Overrides
from ld_agent.program import print_json

if TYPE_CHECKING:
    from ld_agent.evaluation.judge import Case

app = typer.Typer(help="Let a language model judge stored runs.", no_args_is_help=True)
Runs = Annotated[
    list[str], typer.Argument(metavar="RUN... [KEY=VALUE]...", help="Folders of runs, and config overrides.")
]
OneRun = Annotated[Path, typer.Argument(metavar="RUN", help="A folder of ld-agent eval response or ecm run.")]
Other = Annotated[Path, typer.Argument(metavar="OTHER", help="The run to compare with.")]
Config = Annotated[str | None, typer.Option("--config", "-c", help="The judge: the backbone of this config.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only N predictions, drawn at random.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed for --limit and for shuffled positions.")]


@app.command()
def rate(
    run: OneRun,
    overrides: Overrides = None,
    config: Config = None,
    limit: Limit = None,
    seed: Seed = 0,
    aspects: Annotated[
        list[str] | None, typer.Option("--aspect", help="An aspect to rate; repeat for more. Also available: fluency.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Rate replies from 1 to 100 on engagingness, coherence and consistency (Rsum, Table 4), or on chosen aspects.

    Example:

      ld-agent judge rate runs/recursive -c openai --limit 100
    """
    _judge("rate", [run], config, overrides, limit, as_json, seed, aspects)


@app.command()
def score(
    run: OneRun,
    overrides: Overrides = None,
    config: Config = None,
    limit: Limit = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Score from 0 to 2 how much of the reference a reply contains (ECM's GPT-score).

    Example:

      ld-agent judge score runs/knowledge/conditional -c openai
    """
    _judge("score", [run], config, overrides, limit, as_json, seed)


@app.command()
def prefer(
    run: OneRun,
    other: Other,
    overrides: Overrides = None,
    config: Config = None,
    limit: Limit = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Choose the better of two replies by four options, in both orders (Rsum, section 6.2).

    Example:

      ld-agent judge prefer runs/recursive runs/memorybank -c openai
    """
    _judge("prefer", [run, other], config, overrides, limit, as_json, seed)


@app.command()
def compare(
    run: OneRun,
    other: Other,
    overrides: Overrides = None,
    config: Config = None,
    limit: Limit = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Judge good, same or bad against another run by closeness to the reference, in both orders (ECM, Tables 3, 5 and
    6).

    Example:

      ld-agent judge compare runs/feedback/conditional runs/feedback/summary -c openai
    """
    _judge("compare", [run, other], config, overrides, limit, as_json, seed)


@app.command()
def choose(
    runs: Runs,
    config: Config = None,
    limit: Limit = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Choose the best of several runs' answers, in shuffled order (ECM, Figure 5).

    Example:

      ld-agent judge choose runs/none runs/history runs/summary runs/conditional -c openai
    """
    folders = [Path(given) for given in runs if "=" not in given or Path(given).exists()]
    overrides = [given for given in runs if Path(given) not in folders]
    _judge("choose", folders, config, overrides, limit, as_json, seed)


@app.command()
def errors(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder of ld-agent eval memory.")],
    overrides: Overrides = None,
    config: Config = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only N conversations, drawn at random.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Classify the errors of each statement of a memory: fabricated, wrong relationship, missing detail (Rsum, Table
    6).

    Example:

      ld-agent judge errors runs/memory/recursive -c openai --limit 100
    """
    _judge("errors", [run], config, overrides, limit, as_json, seed)


@app.command()
def form(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of runs over the same data; see --questions for alternatives."),
    ],
    out: Annotated[Path, typer.Option("--out", help="The page to write; its key is written next to it.")],
    questions: Annotated[
        str,
        typer.Option(
            "--questions",
            help="chat (whole dialogues; also files of ld-agent run or memory export), recursive, memory, benchmark, pairs "
            "(which reply of two files of ld-agent run is preferred).",
        ),
    ] = "chat",
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, help="Only N dialogues, replies, statements or samples, drawn at random."),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Write a page for blind ratings by people (LD-Agent, appendix B; Rsum, Tables 3 and 6; ECM, Table 7).

    Examples:

      ld-agent judge form runs/recursive runs/none --out page.html --limit 50

      ld-agent judge form knowledge.jsonl --questions benchmark --out page.html --limit 50

      ld-agent judge form here.jsonl alone.jsonl --questions pairs --out page.html
    """
    from ld_agent.cli.show import say
    from ld_agent.evaluation.form import write_form
    from ld_agent.evaluation.form_items import shown

    selection = shown(sources, questions, limit, seed)
    key = write_form(selection.items, questions, out, seed, selection.about)
    say(f"the page is {out}; keep {key} from the annotators, because it names the systems")


@app.command()
def agree(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES...", help="Exported ratings; or a judge-….jsonl file and labels.")
    ],
    key: Annotated[Path | None, typer.Option("--key", help="The form's key: figures per system.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Store the ratings where ld-agent tables finds them; requires --key.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure agreement between people, or between a judge and people.

    Ratings exported from a form: Cohen's and Fleiss' kappa. A judge's verdicts and labels, JSON lines of "key", "label" and,
    for ratings, "aspect": accuracy, Cohen's kappa, Pearson and Spearman. With verdicts about several runs, a label also names
    the folder of its "run".

    Examples:

      ld-agent judge agree ratings-ann.jsonl ratings-bob.jsonl --key page.key.json --keep

      ld-agent judge agree runs/conditional/judge-score.jsonl runs/history/judge-score.jsonl labels.jsonl
    """
    from ld_agent.datasets.records import json_lines, raise_bad
    from ld_agent.errors import InputError

    if keep and key is None:
        raise InputError("--keep needs --key, which says what the ratings are about")
    first = next(iter(json_lines(files[0], raise_bad)), None)
    if first is None or "verdicts" not in first:
        _agree_with_one_another(files, key, keep, as_json)
        return
    if len(files) < 2:
        raise InputError("only one file; give the files of verdicts, then the file of labels")
    _agree_with_people(files[:-1], files[-1], as_json)


def _agree_with_one_another(files: list[Path], key: Path | None, keep: bool, as_json: bool) -> None:
    from ld_agent.cli.show import say
    from ld_agent.evaluation.form import preferences, read_key, read_ratings, summary, systems_of
    from ld_agent.evaluation.form_figures import keep_ratings

    form_id, ratings = read_ratings(files)
    known = read_key(key, form_id) if key else None
    if known is not None and known["questions"] == "pairs":
        _show(preferences(ratings, systems_of(known)), as_json)
        return
    result = summary(ratings, systems_of(known) if known else None)
    flat = {
        f"{group} {name}": about for group, named in result.items() if group != "all" for name, about in named.items()
    }
    if keep and key is not None and known is not None:
        for path in keep_ratings(ratings, known, key):
            say(f"kept in {path}")
    _show(result if as_json else flat | {"all": result["all"]}, as_json)


def _agree_with_people(files: list[Path], labels: Path, as_json: bool) -> None:
    from ld_agent.errors import InputError
    from ld_agent.evaluation.agreement import agreement, of_run, read_labels
    from ld_agent.evaluation.verdicts import read_verdicts

    read = {path: read_verdicts(path) for path in files}
    judges = {(judged.kind, judged.judge) for judged in read.values()}
    if len(judges) > 1:
        raise InputError(f"the files have verdicts of {len(judges)} judges or kinds of judgement; give files of one")
    several = len(files) > 1
    verdicts = [
        (of_run(path.parent.name, key) if several else key, aspect, verdict)
        for path, judged in read.items()
        for key, aspect, verdict in judged.verdicts
    ]
    given = read_labels(labels, {(key, aspect) for key, aspect, _ in verdicts})
    kind, judge = judges.pop()
    result: dict[str, Any] = {"kind": kind, "judge": judge}
    by_aspect = {}
    for aspect in dict.fromkeys(aspect for _, aspect, _ in verdicts):
        pairs = [(v, given[key, of]) for key, of, v in verdicts if of == aspect and (key, of) in given]
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
    seed: int,
    aspects: Sequence[str] | None = None,
) -> None:
    from ld_agent.backbones import build_backbone
    from ld_agent.backbones.base import Completion, Request
    from ld_agent.cli.show import say
    from ld_agent.config import load_config
    from ld_agent.evaluation.fallbacks import MARK, footnote, of_predictions
    from ld_agent.evaluation.fallbacks import as_json as shown
    from ld_agent.evaluation.judge import ASPECTS, Judge
    from ld_agent.evaluation.verdicts import QUESTIONS, cases, complete_run, pronounce, summarized, write_verdicts
    from ld_agent.terminal import progress

    section = load_config(config, overrides or []).backbone
    runs = [complete_run(folder) for folder in folders]
    counts = {run.name: of_predictions(run.predictions) for run in runs}
    for name, counted in counts.items():
        if note := footnote(counted):
            say(f"{MARK} {name}: {note}")
    given, empty = _judgeable(cases(runs, kind, limit, seed))
    backbone = build_backbone(section)
    try:
        rated = list(dict.fromkeys(aspects or ASPECTS))
        asked = QUESTIONS[kind] * len(given) * (len(rated) if kind == "rate" else 1)
        with progress(f"judge {kind}", asked) as advance:

            def complete(requests: Sequence[Request]) -> list[Completion]:
                completions = backbone.generate(requests)
                advance(len(requests))
                return completions

            judgement = pronounce(Judge(complete), kind, given, seed, rated)
    finally:
        backbone.close()
    path = write_verdicts(folders[0], kind, section.model, runs, given, judgement, seed=seed, empty=empty)
    about = {"kind": kind, "judge": section.model, "cases": len(given), "empty": empty}
    result = about | summarized(kind, list(given[0].candidates), judgement)
    result["fallback_counts"] = {name: shown(counted) for name, counted in counts.items()}
    _show(result, as_json)
    if not as_json:
        say(f"the verdicts are in {path}")


def _judgeable(every: Sequence[Case]) -> tuple[list[Case], int]:
    """The cases in which no reply is empty, and how many others there are."""
    from ld_agent.cli.show import say
    from ld_agent.errors import InputError

    given = [case for case in every if all(text.strip() for text in case.candidates.values())]
    empty = len(every) - len(given)
    if not given:
        raise InputError(f"all {empty} cases have an empty reply; fix the configuration and run again")
    if empty:
        say(f"{empty} of {len(every)} cases are not judged: a reply is empty")
    return given, empty


def _show(result: dict[str, Any], as_json: bool) -> None:
    from ld_agent.cli.show import console

    if as_json:
        print_json(result)
        return
    for name, value in result.items():
        shown = ", ".join(f"{k} {_number(v)}" for k, v in value.items()) if isinstance(value, dict) else _number(value)
        console.print(f"{name}: {shown}", markup=False)


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
