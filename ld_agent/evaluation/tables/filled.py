"""The papers' tables with our runs next to the printed figures, in Markdown.

A cell that was not run is empty. Notes under a table state what the paper used, what each run used, and which runs fit
no row or could not be used. Computes nothing itself; knows no model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ld_agent.errors import InputError
from ld_agent.evaluation.fallbacks import MARK, footnote, mostly
from ld_agent.evaluation.judging.verdicts import MEASURES, Judged
from ld_agent.evaluation.tables.facts import FACTS
from ld_agent.evaluation.tables.paper_figures import Column, OurRow, PaperRow, PaperTable, Where
from ld_agent.evaluation.tables.published import unpublished
from ld_agent.evaluation.tables.runs import Collected, Entry, TableRun

SCORED = "ecm-knowledge"
"""Compared by GPT-score, because its references are clear; the other benchmarks by good/same/bad (ECM, section 5.2)."""

OTHER_MECHANISM = 2
"""By how many further differences a row of other memory mechanisms is less close to a run."""

FITTING = "another run with more predictions takes its cell, or its verdicts are missing"
"""Why a run that fits a cell is not in it."""

Filled = tuple[list[Entry], tuple[str, ...]]
"""Runs of one system, and the cells that they fill."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a filled table: the paper's, ours, or (``cells`` empty) a section's heading."""

    label: str
    cells: tuple[str, ...] = ()
    ours: bool = False


@dataclass(frozen=True, slots=True)
class FilledTable:
    """A paper's table with our runs, and the notes under it."""

    table: PaperTable
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    @property
    def filled(self) -> int:
        """Number of our cells that contain a figure."""
        return sum(1 for line in self.lines if line.ours for cell in line.cells if cell)


def fill(table: PaperTable, collected: Collected, given: Mapping[str, Sequence[str]] | None = None) -> FilledTable:
    """Put runs next to a paper's figures.

    Args:
        given: hashes of the runs assigned to a row by its label, see `row_named`; these runs appear nowhere else.

    Raises:
        InputError: a label that matches no row, or several; a run that does not exist.
    """
    by_row: dict[int, set[str]] = {}
    for label, hashes in (given or {}).items():
        by_row.setdefault(row_named(table, label), set()).update(hashes)
    taken = set().union(*by_row.values()) if by_row else set()
    if absent := taken - {run.hash for run in collected.runs}:
        why = "; ".join(collected.left_out) or "give --from a folder that holds them"
        raise InputError(f"{len(absent)} of the runs given to rows are not in the folder or cannot be taken: {why}")
    used: dict[str, Entry] = {}
    judges: list[Judged] = []
    lines: list[Line] = []
    for number, row in enumerate(table.rows):
        if isinstance(row, str):
            lines.append(Line(row))
        elif isinstance(row, PaperRow):
            lines.append(Line(f"{table.paper}: {row.label}", row.values))
        else:
            fitting = _fitting(row, by_row.get(number, set()), taken, collected.runs)
            groups: dict[tuple[str, str], list[Entry]] = {}
            for run in fitting:
                system = "" if _compares(table) else run.system  # a comparison needs different systems
                groups.setdefault((run.backbone, system), []).append(run)
            filled = [
                (group, tuple(_cell(c, group, collected, used, judges) for c in table.columns))
                for group in groups.values()
            ]
            standing = _joined([(group, cells) for group, cells in filled if any(cells)])
            first = [group[0] for group, _ in standing]
            ours = [
                Line(_label(row, group[0], first) + _mark(group, used), cells, ours=True) for group, cells in standing
            ]
            lines += ours or [Line(_label(row, None, []), ("",) * len(table.columns), ours=True)]
    return FilledTable(table, tuple(lines), tuple(_notes(table, collected, used, judges)))


def row_named(table: PaperTable, label: str) -> int:
    """Return the index of our row with a label, "section/label" if several have it.

    Raises:
        InputError: no such row, or several.
    """
    rows = [(number, row) for number, row in enumerate(table.rows) if isinstance(row, OurRow)]
    spellings = [(number, row.label, row.label.removesuffix(" ({backbone})"), row.section) for number, row in rows]
    matching = [n for n, full, short, of in spellings if label in (full, short, f"{of}/{full}", f"{of}/{short}")]
    if len(matching) != 1:
        count = Counter(row.label for _, row in rows)
        names = [row.label if count[row.label] == 1 else f"{row.section}/{row.label}" for _, row in rows]
        raise InputError(
            f"{label!r} is {'no row' if not matching else 'several rows'} of {table.name}: {'; '.join(names)}"
        )
    return matching[0]


def markdown(filled: FilledTable) -> str:
    """The table in Markdown: the paper's rows plain, ours in bold."""
    table = filled.table
    heads = [f"{column.group} {column.name}".strip() for column in table.columns]
    out = [f"### {table.paper}, {table.number}: {table.title}", ""]
    out += [_piped(["", *heads]), _piped(["---", *("---:" for _ in heads)])]
    for line in filled.lines:
        label = _escaped(line.label)
        cells = line.cells or ("",) * len(heads)
        if line.ours:
            out.append(_piped([f"**{label}**", *(f"**{cell}**" if cell else "" for cell in cells)]))
        else:
            out.append(_piped([label if line.cells else f"*{label}*", *cells]))
    return "\n".join([*out, "", *(f"- {_escaped(note)}" for note in filled.notes)]) + "\n"


# ---- cells


def _fitting(row: OurRow, given: set[str], taken: set[str], runs: Sequence[Entry]) -> list[Entry]:
    chosen = [run for run in runs if run.hash in given]
    if chosen or row.where is None or row.adapter_of:
        return chosen
    return [run for run in runs if run.hash not in taken and run.matches(row.where)]


def _joined(standing: Sequence[Filled]) -> list[Filled]:
    """The groups, those of one backbone as one if no two of them fill the same column: an extraction and its replies."""
    by_backbone: dict[str, list[Filled]] = {}
    for group, cells in standing:
        by_backbone.setdefault(group[0].backbone, []).append((group, cells))
    out: list[Filled] = []
    for same in by_backbone.values():
        columns = list(zip(*(cells for _, cells in same), strict=True))
        if all(sum(map(bool, column)) <= 1 for column in columns):
            out.append(([run for group, _ in same for run in group], tuple(map("".join, columns))))
        else:
            out += same
    return out


def _cell(
    column: Column,
    runs: Sequence[Entry],
    collected: Collected,
    used: dict[str, Entry],
    judges: list[Judged],
) -> str:
    fitting = [run for run in runs if run.matches(column.where)]
    if column.first is not None and column.second is not None:
        return _compared(column.first, column.second, fitting, collected, used, judges)
    if column.measure is None:
        return ""
    best = ""
    for run in sorted(fitting, key=lambda run: run.count(column.session)):  # the one with most predictions comes last
        figure = run.figure(column.measure, column.session)
        if figure:
            best = figure
            chosen = run
    if best:
        used[chosen.hash] = chosen
        if column.measure in MEASURES:
            judges += [judged for judged in chosen.verdicts if judged.kind == MEASURES[column.measure]]
    return best and f"{best}{column.unit}"


def _compared(
    first: Where,
    second: Where,
    runs: Sequence[Entry],
    collected: Collected,
    used: dict[str, Entry],
    judges: list[Judged],
) -> str:
    ones, others = ([run for run in runs if run.matches(where)] for where in (first, second))
    for one in ones:
        for other in others:
            if one.data_sha256 != other.data_sha256:
                continue
            if one.facts["task"] == SCORED:
                figures = one.figure("gpt_score"), other.figure("gpt_score")
                if all(figures):
                    used |= {one.hash: one, other.hash: other}
                    judges += [judged for run in (one, other) for judged in run.verdicts if judged.kind == "score"]
                    return "/".join(figures)
            elif (shares := _shares(one, other, collected.comparisons, judges)) is not None:
                used |= {one.hash: one, other.hash: other}
                return shares
    return ""


def _shares(one: Entry, other: Entry, comparisons: Sequence[Judged], judges: list[Judged]) -> str | None:
    """Good, same and bad of one run against another, from verdicts in either order."""
    for judged in comparisons:
        stated = judged.stated()
        turned = judged.runs == (other.hash, one.hash)
        if judged.kind != "compare" or not stated or not (turned or judged.runs == (one.hash, other.hash)):
            continue
        judges.append(judged)
        counts = Counter(stated)
        return "/".join(f"{100 * counts[value] / len(stated):.0f}%" for value in ((-1, 0, 1) if turned else (1, 0, -1)))
    return None


def _compares(table: PaperTable) -> bool:
    return any(column.first is not None for column in table.columns)


# ---- words


def _label(row: OurRow, run: Entry | None, standing: Sequence[Entry]) -> str:
    """A row's label with its backbone, and with the run's name if several systems share a backbone."""
    if run is None:
        return f"ours: {row.label.replace(' ({backbone})', '').replace('{backbone}', '…')}, not run"
    label = row.label.replace("{backbone}", run.backbone)
    if "{backbone}" not in row.label:
        label += f" ({run.backbone})"
    several = sum(1 for other in standing if other.backbone == run.backbone) > 1
    return f"ours: {label}" + (f", run {run.name}" if several else "")


def _mark(group: Sequence[Entry], used: Mapping[str, Entry]) -> str:
    """The mark behind the label of a row that is not the mechanism it is named after."""
    return f" {MARK}" if any(mostly(run.fallbacks) for run in group if run.hash in used) else ""


def _notes(table: PaperTable, collected: Collected, used: Mapping[str, Entry], judges: Sequence[Judged]) -> list[str]:
    printed = "; ".join(f"{key}: {value}" for key, value in table.setting.items())
    notes = [f"What differs. The paper: {printed}.", *dict.fromkeys(run.note for run in used.values())]
    for run in used.values():
        if isinstance(run, TableRun) and (
            other := unpublished(table.paper, run.facts["views"], run.run.header["config"])
        ):
            notes.append(f"Run {run.name} is not the published arm, which has {', '.join(other)}.")
    notes += [f"{MARK} Run {run.name}: {note}." for run in used.values() if (note := footnote(run.fallbacks))]
    verdicts = dict.fromkeys(
        f"Judge of {judged.kind} over {' and '.join(judged.names)}: {judged.judge}, {judged.cases} cases; left out are "
        f"{judged.unparsed} verdicts that it did not state and {judged.empty} cases with an empty reply."
        for judged in judges
    )
    notes += verdicts
    if any(column.measure and column.measure.startswith("bleu") for column in table.columns):
        notes.append(
            "BLEU of ours is nlg-eval's (corpus, no smoothing); figures of ours are in per cent as the paper's."
        )
    notes += table.remarks
    tasks = {column.where.get("task") for column in table.columns}
    tasks |= {row.where.get("task") for row in table.rows if isinstance(row, OurRow) and row.where}
    for run in collected.runs:
        if isinstance(run, TableRun) and run.hash not in used and run.facts["task"] in tasks:
            notes.append(f"Fits no cell: run {run.name} ({run.folder}): {_misfit(table, run)}.")
    return notes + [f"Left out: {reason}." for reason in collected.left_out]


def _misfit(table: PaperTable, run: Entry) -> str:
    """Why a run fits no cell: how it differs from the closest row."""
    nearest: tuple[int, str] | None = None
    for row in table.rows:
        if not isinstance(row, OurRow) or row.where is None or row.adapter_of:
            continue
        for column, wanted in ((c, {**row.where, **w}) for c in table.columns for w in _wanted(c)):
            differs = [fact for fact, value in wanted.items() if not run.matches({fact: value})]
            words = [
                f"{fact} is {_word(run.facts.get(fact))}, not {_word(wanted[fact])}{_key(fact)}" for fact in differs
            ]
            if column.session is not None and not run.count(column.session):
                words.append(
                    f"no prediction is of session {column.session}, only of {', '.join(map(str, run.sessions))}"
                )
            if not words:
                return FITTING
            distance = len(words) + OTHER_MECHANISM * ("views" in differs)
            if nearest is None or distance < nearest[0]:
                nearest = distance, f"for {row.label.replace('{backbone}', '…')!r}, {'; '.join(words)}"
    return nearest[1] if nearest else FITTING


def _wanted(column: Column) -> list[Where]:
    """The conditions on a run for a column: one run's, or those of either side of a comparison."""
    return [{**column.where, **side} for side in (column.first, column.second) if side is not None] or [column.where]


def _key(fact: str) -> str:
    return f" ({FACTS[fact].key})" if fact in FACTS else ""


def _word(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else "unknown" if value is None else str(value)


def _piped(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    return re.sub(r"([|*<\[\]])", r"\\\1", text)
