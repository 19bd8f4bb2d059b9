"""``ld-agent eval``: measures modules and agents against references, with intervals. Prints; decides nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ld_agent.cli import questions, retrieval
from ld_agent.cli.runs import BertModel, Configs, Data, Json, Limit, Out, Overrides, Overwrite, carry_out, report

if TYPE_CHECKING:
    from ld_agent.config import Config
    from ld_agent.evaluation.runner import Run, Task

app = typer.Typer(help="Measure extraction, summaries, replies and recall against references.", no_args_is_help=True)
retrieval.register(app)
questions.register(app)


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

    carry_out(lambda settings: ExtractionTask(data, limit), data, overrides, config, limit, as_json, out, overwrite)


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

    carry_out(
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

    carry_out(make, data, overrides, config, limit, as_json, out, overwrite, bert_score)


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
    report(runs, as_json, bert_score)
