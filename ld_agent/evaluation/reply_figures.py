"""What LD-Agent's Figure 3b and LLM-Rsum's Figures 4 and 7 show of kept runs: people's ratings of whole chats, preferences of a
judge, and the length of replies. Draws nothing.

The papers do not print the numbers behind these figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import fmean

from ld_agent.evaluation.form import QUESTIONS
from ld_agent.evaluation.published import based_on, typed
from ld_agent.evaluation.table_figures import CHATS, TableFigures
from ld_agent.evaluation.table_plan import run_folder
from ld_agent.evaluation.table_runs import Collected, TableRun
from ld_agent.evaluation.verdicts import PEOPLE, average
from ld_agent.modules.wording import words_of

Bars = dict[str, dict[str, float]]
Lines = dict[str, dict[int, float]]
OUTCOMES = {1: "win", 0: "tie", -1: "lose"}
RSUM = ("recursive",)
RIVALS = ("full", "memochat", "memorybank")
"""What LLM-Rsum is compared with in Figure 4."""
LENGTHS = ("none", "full", "bm25", "dense", "memochat", "memorybank", "golden", "recursive")
SAMPLED = 1000
"""Replies of a comparison (section 6.2)."""
MSC = "MSC/msc_dialogue/session_5/test.txt"


def chats(collected: Collected) -> Bars:
    """Return people's mean ratings of whole chats, 0 to 2, by system and aspect."""
    aspects = tuple(QUESTIONS["chat"])
    rated: Bars = {}
    for run in collected.runs:
        if isinstance(run, TableFigures):
            if run.facts["task"] == CHATS:
                rated[run.backbone] = {
                    aspect: float(run.figures[aspect]) for aspect in aspects if aspect in run.figures
                }
            continue
        for judged in (judged for judged in run.verdicts if judged.kind == f"{PEOPLE}-chat"):
            means = {aspect: average(judged.stated(aspect)) for aspect in aspects}
            rated[_named(run)] = {aspect: value for aspect, value in means.items() if value is not None}
    return rated


def preferences(collected: Collected) -> Bars:
    """Return how often replies with the recursive summary win, tie and lose against each other mechanism, in [0, 1]."""
    runs = {run.hash: run for run in collected.runs if isinstance(run, TableRun)}
    shares: Bars = {}
    for judged in sorted(collected.comparisons, key=lambda judged: judged.cases):
        if judged.kind != "prefer" or not judged.stated():
            continue
        one, other = (runs[hash] for hash in judged.runs)
        if not _arms(one, other):
            continue
        turned = tuple(other.facts["views"]) == RSUM
        counts = Counter(-int(value) if turned else int(value) for value in judged.stated())
        rival = one if turned else other
        shares[_named(rival)] = {name: counts[value] / counts.total() for value, name in OUTCOMES.items()}
    return shares


def lengths(collected: Collected) -> Lines:
    """Return the mean length of replies to Multi-Session Chat in words, by system and session."""
    lines: Lines = {}
    for run in sorted(_responses(collected), key=lambda run: run.count(None)):
        by_session = {
            number: fmean(len(words_of(p.text)) for p in run.run.predictions if p.session == number)
            for number in run.sessions
        }
        lines[_named(run)] = lines.get(_named(run), {}) | by_session
    return {name: dict(sorted(by_session.items())) for name, by_session in lines.items()}


def _responses(collected: Collected) -> Iterator[TableRun]:
    """Runs over Multi-Session Chat without persona banks, as LLM-Rsum's."""
    for run in collected.runs:
        facts = run.facts
        if (
            isinstance(run, TableRun)
            and facts["task"] == "response"
            and facts["corpus"] == "msc"
            and not facts["personas"]
        ):
            yield run


def _arms(one: TableRun, other: TableRun) -> bool:
    """Whether exactly one of the runs is LLM-Rsum's, and neither has persona banks."""
    recursive = [tuple(run.facts["views"]) == RSUM for run in (one, other)]
    return recursive.count(True) == 1 and not any(run.facts["personas"] for run in (one, other))


def _named(run: TableRun) -> str:
    return f"{run.backbone}, {'+'.join(run.facts['views'])}"


# ---- the commands


def chat_commands(config: str) -> list[str]:
    """The commands of Figure 3b: a given first session, a chat with each agent, one page with all chats."""
    lines, exports = [], []
    for name, views in (("events", ["events"]), ("none", ["none"])):
        base, settings = based_on(config, views, "LD-Agent")
        settings |= {"personas.cap": 0} if name == "none" else {}
        given, store = typed(base, settings), f"runs/chat_{name}.db"
        exports.append(f"runs/chat_{name}.jsonl")
        played = f"--teacher-forced --out runs/first_{name}.jsonl"
        lines += [
            f"ld-agent run FIRST_SESSION -c {base} {given} --store {store} {played}",
            f"ld-agent chat -c {base} {given} --store {store} --conversation CONVERSATION",
            f"ld-agent memory export {exports[-1]} --store {store}",
        ]
    form = f"ld-agent judge form {' '.join(exports)} --out runs/chats.html"
    agree = "ld-agent judge agree RATINGS... --key runs/chats.key.json --keep"
    return [" ".join(line.split()) for line in (*lines, form, agree)]


def preference_commands(config: str) -> list[str]:
    """The commands of Figure 4."""
    [recursive] = RSUM
    folder = _folder(config, recursive)
    return [_reply_command(config, view, 5) for view in (recursive, *RIVALS)] + [
        f"ld-agent judge prefer {folder} {_folder(config, rival)} -c JUDGE --limit {SAMPLED}" for rival in RIVALS
    ]


def length_commands(config: str) -> list[str]:
    """The commands of Figure 7."""
    return [_reply_command(config, view, 2) for view in LENGTHS]


def _reply_command(config: str, view: str, session: int) -> str:
    base, settings = based_on(config, [view], "Rsum")
    command = f"ld-agent eval response {MSC} -c {base} {typed(base, settings)} --from-session {session}"
    return " ".join(f"{command} --out {_folder(config, view)}".split())


def _folder(config: str, view: str) -> str:
    """The folder of the same run of the paper's tables."""
    shown = {"k": 3} if view in ("bm25", "dense") else {}
    return run_folder("Rsum", {"corpus": "msc", "views": [view], "personas": False} | shown, config)
