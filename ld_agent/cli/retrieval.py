"""``ld-agent eval retrieval``, ``annotate`` and ``marks``: how often recall finds the evidence of a question, as given
by a corpus or marked by people. Only prints.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ld_agent.cli.runs import Json, Lenient, Overrides
from ld_agent.program import lenient, print_json

if TYPE_CHECKING:
    from ld_agent.config import Config

Records = Literal["summaries", "pipeline", "utterances", "extracts"]
ConfigOption = Annotated[str | None, typer.Option("--config", "-c", help="A config file, or a shipped one's name.")]
ScorerOption = Annotated[
    str | None, typer.Option("--scorer", help="Overrides memory.scorer: paper, hybrid, dense or bm25.")
]
StoreOption = Annotated[str, typer.Option("--store", help="The memory: a file, or a postgresql:// address.")]
Marks = Annotated[Path, typer.Argument(metavar="MARKS", help="The JSON-lines file of marks.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``ld-agent eval``."""
    app.command()(retrieval)
    app.command()(annotate)
    app.command()(marks)


def retrieval(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="A LoCoMo file, conversations with questions, or a corpus of several sessions."
        ),
    ],
    overrides: Overrides = None,
    config: ConfigOption = None,
    scorer: ScorerOption = None,
    records: Annotated[
        Records | None,
        typer.Option(
            "--records",
            help="How sessions are stored: summaries of the corpus (the default if it has any), summaries by the "
            "pipeline, utterances, or extracts (two utterances).",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N conversations.")] = None,
    skip_bad: Lenient = False,
    as_json: Json = False,
) -> None:
    """Ask every question of a corpus and measure how often the answering session is recalled.

    The project's own questions (`ld-agent eval questions`) query ONE memory of all conversations; the target is the
    session in which an answer is said.

    For a corpus without questions, such as MSC, all sessions except each episode's last form ONE memory, and each user
    utterance of a last session, with the one before it, must find the sessions of its own episode.

    No language model is used unless --records pipeline summarises the sessions with the configured one.

    Examples:

      ld-agent eval retrieval locomo10.json

      ld-agent eval retrieval locomo10.json --scorer paper memory.tau=null --json

      ld-agent eval retrieval data/samples/questions.zh.jsonl -c zh memory.tau=null

      ld-agent eval retrieval msc_dialogue/session_3/valid.txt --limit 100
    """
    from ld_agent.cli.show import errors
    from ld_agent.evaluation.retrieval import load_cases, measure

    settings = _settings(config, overrides, scorer)
    with lenient(skip_bad):
        cases = load_cases(data, limit)
    with errors.status("loading the models …") as status:
        known_by = records or ("summaries" if any(case.summaries for case in cases) else "extracts")
        result = measure(settings, cases, known_by, lambda name: status.update(f"asking about {name} …"))
    if as_json:
        print_json(result)
    else:
        _show_figures(result)


def annotate(
    marks: Marks,
    store: StoreOption,
    conversation: Annotated[str, typer.Option("--conversation", help="The conversation to annotate.")],
    overrides: Overrides = None,
    at: Annotated[str | None, typer.Option("--at", help="As of this time (ISO 8601 with zone). Default: now.")] = None,
    config: ConfigOption = None,
) -> None:
    """Mark which memories are relevant to queries, typed or read from a pipe.

    After a query, enter the numbers of the relevant memories; an empty line marks none. An empty query ends.

    Example:

      ld-agent eval annotate marks.jsonl --store me.db --conversation maya
    """
    from ld_agent.cli.show import console, day, plain, say
    from ld_agent.errors import InputError
    from ld_agent.evaluation.annotation import add_mark, candidates, new_mark
    from ld_agent.storage.address import shown as path_shown
    from ld_agent.types import utc

    agent = _agent(store, _settings(config, overrides, None))
    count = 0
    try:
        when = agent.clock() if at is None else utc(at)
        while query := _line("query> ").strip():
            shown = candidates(agent, conversation, query, when)
            if not shown:
                say("there are no memories to mark")
                continue
            for number, record in enumerate(shown, 1):
                console.print(plain(f"{number:3}  {day(record)}  {record.text}"))
            while True:
                try:
                    mark = new_mark(conversation, query, when, shown, _line("relevant> "))
                    break
                except InputError as exc:
                    say(str(exc))
                    if not sys.stdin.isatty():
                        raise
            add_mark(marks, mark)
            count += 1
    finally:
        agent.close(end_sessions=False)
    say(
        f"{count} quer{'y' if count == 1 else 'ies'} marked in {marks}; score them with "
        f"`ld-agent eval marks {marks} --store {path_shown(store)}`"
    )


def marks(
    marks: Marks,
    store: StoreOption,
    overrides: Overrides = None,
    config: ConfigOption = None,
    as_json: Json = False,
) -> None:
    """Compare every scorer with human marks: accuracy and recall.

    Example:

      ld-agent eval marks marks.jsonl --store me.db --json
    """
    from rich.table import Table

    from ld_agent.cli.show import console
    from ld_agent.evaluation.annotation import agreement, load_marks

    loaded = load_marks(marks)
    agent = _agent(store, _settings(config, overrides, None))
    try:
        result = agreement(agent, loaded)
    finally:
        agent.close(end_sessions=False)
    if as_json:
        print_json(result)
        return
    console.print(f"{result['queries']} queries, {result['records']} records looked at, k = {result['k']}")
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for heading in ("scorer", "accuracy", "recall", "precision"):
        table.add_column(heading, justify="left" if heading == "scorer" else "right")
    for name, figures in result["scorers"].items():
        table.add_row(name, *("–" if value is None else f"{value:.3f}" for value in figures.values()))
    console.print(table)


def _settings(config: str | None, overrides: list[str] | None, scorer: str | None) -> Config:
    from ld_agent.config import load_config

    return load_config(config, [*(overrides or []), *([f"memory.scorer={scorer}"] if scorer else [])])


def _agent(store: str, settings: Config) -> Any:
    from ld_agent.agent import Agent
    from ld_agent.storage.address import existing_store

    existing_store(store).close()
    return Agent(settings.changed(store={"path": store}))


def _line(prompt: str) -> str:
    if sys.stdin.isatty():
        sys.stderr.write(prompt)
        sys.stderr.flush()
    return sys.stdin.readline()


def _show_figures(result: dict[str, Any]) -> None:
    from rich.table import Table

    from ld_agent.cli.show import console, plain
    from ld_agent.evaluation.fallbacks import MARK, counts_of, footnote

    tau = "no decay" if result["tau"] is None else f"τ = {result['tau']:g} s"
    asked = f"memory: {result['memory']}, records: {result['records']}"
    title = f"scorer {result['scorer']}, {asked}, {tau}, {result['ms_per_query']} ms per query"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1), header_style="dim")
    shown = ("questions", "recall_any@1", "recall_any@3", "recall_any@5", "recall_all@5", "mrr")
    table.add_column("recall", no_wrap=True)
    for key in shown:
        table.add_column(key.removeprefix("recall_"), justify="right", no_wrap=True)
    for name, figures in [("all", result), *result["by_category"].items()]:
        table.add_row(name, *(str(v) if isinstance(v := figures[key], int) else f"{v:.3f}" for key in shown))
    console.print(table)
    if note := footnote(counts_of(result)):
        console.print(plain(f"{MARK} {note}", "yellow"), soft_wrap=True)
