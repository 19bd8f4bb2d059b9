"""``ld-agent judge``: let a language model judge runs, and compare it with people. The judgements are one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ld_agent.cli.options import Drawn, Json, OneConfig, Seed, help_of
from ld_agent.cli.show import print_figures, say
from ld_agent.config import load_config
from ld_agent.errors import InputError
from ld_agent.running.terminal import progress

if TYPE_CHECKING:
    from ld_agent.backbones.base import Completion, Request
    from ld_agent.config.sections import BackboneSection
    from ld_agent.evaluation.judging.judge import Case

app = typer.Typer(help="Let a language model judge stored runs.", no_args_is_help=True)
Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN... [KEY=VALUE]...",
        help="Folders of runs; and overrides of the config whose backbone is the judge.",
    ),
]
JUDGEMENTS = {
    "rate": (
        "Rate replies from 1 to 100 on engagingness, coherence and consistency (Rsum, Table 4).",
        "runs/recursive -c openai --limit 100",
    ),
    "score": (
        "Score from 0 to 2 how much of the reference a reply contains (ECM's GPT-score).",
        "runs/knowledge/conditional -c openai",
    ),
    "prefer": (
        "Choose the better of two replies by four options, in both orders (Rsum, section 6.2).",
        "runs/recursive runs/memorybank -c openai",
    ),
    "compare": (
        "Judge good, same or bad against another run by closeness to the reference, in both orders (ECM, Tables 3, 5, 6).",
        "runs/feedback/conditional runs/feedback/summary -c openai",
    ),
    "choose": (
        "Choose the best of several runs' answers, in shuffled order (ECM, Figure 5).",
        "runs/none runs/history runs/summary runs/conditional -c openai",
    ),
    "errors": (
        "Classify errors of each statement of a memory: fabricated, wrong relationship, missing detail (Rsum, Table 6).",
        "runs/memory/recursive -c openai --limit 100",
    ),
}
"""The help of each judgement, and the arguments of an example."""


def command_of(kind: str) -> Callable[..., None]:
    """Create the command of a judgement."""

    def command(
        runs: Runs, config: OneConfig = None, limit: Drawn = None, seed: Seed = 0, as_json: Json = False
    ) -> None:
        folders = [Path(given) for given in runs if "=" not in given or Path(given).exists()]
        section = load_config(config, [given for given in runs if Path(given) not in folders]).backbone
        path, result = judged(kind, folders, section, limit, seed)
        print_figures(result, as_json)
        if not as_json:
            say(f"the verdicts are in {path}")

    text, example = JUDGEMENTS[kind]
    command.__doc__ = help_of(text, f"judge {kind} {example}")
    return command


for _kind in JUDGEMENTS:
    app.command(_kind)(command_of(_kind))


def judged(
    kind: str, folders: Sequence[Path], section: BackboneSection, limit: int | None, seed: int
) -> tuple[Path, dict[str, Any]]:
    """Judge runs with a backbone; store the verdicts and return their file and a summary."""
    from ld_agent.backbones import build_backbone
    from ld_agent.evaluation.fallbacks import MARK, as_json, footnote, of_predictions
    from ld_agent.evaluation.judging.judge import JUDGEMENTS, judge
    from ld_agent.evaluation.judging.verdicts import Judged, cases, write_verdicts
    from ld_agent.evaluation.run_files import complete_run

    runs = [complete_run(folder) for folder in folders]
    counts = {run.name: of_predictions(run.predictions) for run in runs}
    for name, counted in counts.items():
        if note := footnote(counted):
            say(f"{MARK} {name}: {note}")
    given, empty = _judgeable(cases(runs, kind, limit, seed))
    total = JUDGEMENTS[kind].requests * len(given)
    with closing(build_backbone(section)) as backbone, progress(f"judge {kind}", total) as advance:

        def complete(requests: Sequence[Request]) -> list[Completion]:
            completions = backbone.generate(requests)
            advance(len(requests))
            return completions

        verdicts = judge(kind, given, complete, seed=seed)
    hashes = tuple(run.header["hash"] for run in runs)
    whole = Judged(kind, section.model, tuple(given[0].candidates), hashes, empty, tuple(verdicts))
    about = {"kind": kind, "judge": section.model, "cases": len(given), "empty": empty} | whole.summary()
    about |= {"fallback_counts": {name: as_json(counted) for name, counted in counts.items()}}
    return write_verdicts(folders[0], whole, seed), about


def _judgeable(every: Sequence[Case]) -> tuple[list[Case], int]:
    """The cases in which no reply is empty, and how many others there are."""
    given = [case for case in every if all(text.strip() for text in case.candidates.values())]
    empty = len(every) - len(given)
    if empty and not given:
        raise InputError(f"all {empty} cases have an empty reply; fix the configuration and run again")
    if empty:
        say(f"{empty} of {len(every)} cases are not judged: a reply is empty")
    return given, empty


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
            help="chat (whole dialogues; also files of ld-agent run), recursive, memory, benchmark, pairs "
            "(which reply of two runs is preferred; also files of ld-agent run).",
        ),
    ] = "chat",
    limit: Drawn = None,
    seed: Seed = 0,
) -> None:
    """Write a page for blind ratings by people (LD-Agent, appendix B; Rsum, Tables 3 and 6; ECM, Table 7).

    Examples:

      ld-agent judge form runs/recursive runs/none --out page.html --limit 50

      ld-agent judge form knowledge.jsonl --questions benchmark --out page.html --limit 50

      ld-agent judge form here.jsonl alone.jsonl --questions pairs --out page.html
    """
    from ld_agent.evaluation.judging.form import write_form
    from ld_agent.evaluation.judging.form_items import shown

    items, about = shown(sources, questions, limit, seed)
    key = write_form(items, questions, out, seed, **about)
    say(f"the page is {out}; keep {key} from the annotators, because it names the systems")


@app.command()
def agree(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES...", help="Exported ratings; or judge-….jsonl files and labels.")
    ],
    key: Annotated[Path | None, typer.Option("--key", help="The form's key: figures per system.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Store the ratings where ld-agent tables finds them; requires --key.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure agreement between people, or between a judge and people: kappas, share of equal ratings, Spearman's rho.

    Labels are JSON lines of "key", "label" and, for ratings, "aspect". With verdicts about several runs, a label also names
    the folder of its "run". Of pairs, --key shows how often each run is preferred.

    Examples:

      ld-agent judge agree ratings-ann.jsonl ratings-bob.jsonl --key page.key.json --keep

      ld-agent judge agree runs/conditional/judge-score.jsonl runs/history/judge-score.jsonl labels.jsonl
    """
    from ld_agent.evaluation.judging.agreement import read_ratings
    from ld_agent.evaluation.judging.form import keep_ratings, preferences, read_key, summary, systems_of

    if keep and key is None:
        raise InputError("--keep needs --key, which says what the ratings are about")
    form_id, ratings = read_ratings(files)
    known = read_key(key, form_id, ratings) if key else {}
    if keep and key is not None:
        for path in keep_ratings(ratings, known, key):
            say(f"kept in {path}")
    if known.get("questions") == "pairs":
        print_figures(preferences(ratings, known), as_json)
    else:
        print_figures(summary(ratings, systems_of(known) if known else None), as_json)
