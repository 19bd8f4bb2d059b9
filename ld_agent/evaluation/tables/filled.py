"""The papers' tables with our runs next to the printed figures, in Markdown.

A cell that was not run is empty. Notes under a table state what the paper used, what each run used, and which runs fit
no row or could not be used. Computes nothing itself; knows no model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ld_agent.errors import InputError
from ld_agent.evaluation.fallbacks import MARK, footnote, mostly
from ld_agent.evaluation.judging.verdicts import MEASURES, Judged
from ld_agent.evaluation.tables.paper_figures import Column, OurRow, PaperRow, PaperTable
from ld_agent.evaluation.tables.runs import Collected, Entry, TableRun

SCORED = "ecm-knowledge"
"""Compared by GPT-score, because its references are clear; the other benchmarks by good/same/bad (ECM, section 5.2)."""

Group = list[Entry]
"""Runs of one system."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a filled table: the paper's, ours, or (``cells`` empty) a section's heading."""

    label: str
    cells: tuple[str, ...] = ()
    ours: bool = False


class FilledTable:
    """A paper's table with our runs next to its figures.

    Args:
        given: hashes of the runs assigned to a row by its label, see `row_named`; these runs appear nowhere else.

    Attributes:
        lines: the rows.
        notes: what stands under the table.
    """

    def __init__(
        self, table: PaperTable, collected: Collected, given: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.table, self._collected = table, collected
        self._used: dict[str, Entry] = {}
        self._judges: list[Judged] = []
        by_row: dict[int, set[str]] = {}
        for label, hashes in (given or {}).items():
            by_row.setdefault(row_named(table, label), set()).update(hashes)
        taken = set().union(*by_row.values())
        if absent := taken - {run.hash for run in collected.runs}:
            why = "; ".join(collected.left_out) or "give --from a folder that holds them"
            raise InputError(f"{len(absent)} of the runs given to rows are not in the folder or cannot be taken: {why}")
        self.lines: list[Line] = []
        for number, row in enumerate(table.rows):
            if isinstance(row, str):
                self.lines.append(Line(row))
            elif isinstance(row, PaperRow):
                self.lines.append(Line(f"{table.paper}: {row.label}", row.values))
            else:
                fitting = [run for run in collected.runs if run.hash in by_row.get(number, ())]
                if not fitting and not row.adapter_of:
                    fitting = [run for run in collected.runs if run.hash not in taken and run.matches(row.where)]
                self.lines += self._ours(row, fitting)
        self.notes = self._notes()

    @property
    def filled(self) -> int:
        """Number of our cells that contain a figure."""
        return sum(1 for line in self.lines if line.ours for cell in line.cells if cell)

    def markdown(self) -> str:
        """The table in Markdown: the paper's rows plain, ours in bold."""
        table, heads = self.table, [column.head for column in self.table.columns]
        out = [f"### {table.paper}, {table.number}: {table.title}", ""]
        out += [_piped(["", *heads]), _piped(["---", *("---:" for _ in heads)])]
        for line in self.lines:
            label = _escaped(line.label)
            cells = line.cells or ("",) * len(heads)
            if line.ours:
                out.append(_piped([f"**{label}**", *(f"**{cell}**" if cell else "" for cell in cells)]))
            else:
                out.append(_piped([label if line.cells else f"*{label}*", *cells]))
        return "\n".join([*out, "", *(f"- {_escaped(note)}" for note in self.notes)]) + "\n"

    def _ours(self, row: OurRow, fitting: Sequence[Entry]) -> list[Line]:
        """The lines of a row, one for each system of its runs."""
        columns = self.table.columns
        compared = any(len(column.sides) > 1 for column in columns)  # which needs several systems
        groups: dict[tuple[str, str], Group] = {}
        for run in fitting:
            groups.setdefault((run.backbone, "" if compared else run.system), []).append(run)
        filled = [(group, tuple(self._cell(column, group) for column in columns)) for group in groups.values()]
        standing = _joined([(group, cells) for group, cells in filled if any(cells)])
        if not standing:
            label = row.label.replace(" ({backbone})", "").replace("{backbone}", "…")
            return [Line(f"ours: {label}, not run", ("",) * len(columns), ours=True)]
        backbones = Counter(group[0].backbone for group, _ in standing)
        lines = []
        for group, cells in standing:
            label = row.label.replace("{backbone}", group[0].backbone)
            label += "" if "{backbone}" in row.label else f" ({group[0].backbone})"
            label += f", run {group[0].name}" if backbones[group[0].backbone] > 1 else ""
            mark = f" {MARK}" if any(mostly(run.fallbacks) for run in group if run.hash in self._used) else ""
            lines.append(Line(f"ours: {label}{mark}", cells, ours=True))
        return lines

    def _cell(self, column: Column, runs: Group) -> str:
        sides = [[run for run in runs if run.matches(side)] for side in column.sides]
        if len(sides) > 1:
            return self._compared(*sides)
        if column.measure is None:
            return ""
        figures = {run.hash: run.figure(column.measure, column.session) for run in sides[0]}
        measured = [run for run in sides[0] if figures[run.hash]]
        if not measured:
            return ""
        chosen = max(reversed(measured), key=lambda run: run.count(column.session))
        self._used[chosen.hash] = chosen
        kind = MEASURES.get(column.measure)
        self._judges += [judged for judged in chosen.verdicts if judged.kind == kind]
        return figures[chosen.hash] + column.unit

    def _compared(self, ones: Group, others: Group) -> str:
        """Two runs over the same data, by GPT-score or by good/same/bad."""
        for one, other in product(ones, others):
            if one.data_sha256 != other.data_sha256:
                continue
            if one.facts["task"] == SCORED:
                scored = [judged for run in (one, other) for judged in run.verdicts if judged.kind == "score"]
                figures = [one.figure("gpt_score"), other.figure("gpt_score")]
                text = "/".join(figures) if all(figures) else ""
            else:
                text, scored = self._shares(one, other)
            if text:
                self._used |= {one.hash: one, other.hash: other}
                self._judges += scored
                return text
        return ""

    def _shares(self, one: Entry, other: Entry) -> tuple[str, list[Judged]]:
        """Good, same and bad of one run against another, from verdicts in either order."""
        for judged in self._collected.comparisons:
            stated, turned = judged.stated(), judged.runs == (other.hash, one.hash)
            if judged.kind == "compare" and stated and (turned or judged.runs == (one.hash, other.hash)):
                values = (-1, 0, 1) if turned else (1, 0, -1)
                return "/".join(f"{100 * (judged.share(value) or 0):.0f}%" for value in values), [judged]
        return "", []

    def _notes(self) -> list[str]:
        """What stands under the table."""
        table, used = self.table, list(self._used.values())
        printed = "; ".join(f"{key}: {value}" for key, value in table.setting.items())
        notes = [f"What differs. The paper: {printed}.", *dict.fromkeys(run.note for run in used)]
        notes += [f"{MARK} Run {run.name}: {note}." for run in used if (note := footnote(run.fallbacks))]
        notes += dict.fromkeys(
            f"Judge of {judged.kind} over {' and '.join(judged.names)}: {judged.judge}, {judged.cases} cases; left out are "
            f"{judged.unparsed} verdicts that it did not state and {judged.empty} cases with an empty reply."
            for judged in self._judges
        )
        if any(column.measure and column.measure.startswith("bleu") for column in table.columns):
            notes.append(
                "BLEU of ours is nlg-eval's (corpus, no smoothing); figures of ours are in per cent as the paper's."
            )
        notes += table.remarks
        tasks = {column.sides[0].get("task") for column in table.columns}
        tasks |= {row.where.get("task") for _, row in table.our_rows}
        for run in self._collected.runs:
            if isinstance(run, TableRun) and run.hash not in self._used and run.facts["task"] in tasks:
                notes.append(f"Fits no cell: run {run.name} ({run.folder}); --plan has the commands of those that fit.")
        return notes + [f"Left out: {reason}." for reason in self._collected.left_out]


def row_named(table: PaperTable, label: str) -> int:
    """Return the index of our row with a label, "section/label" if several have it."""
    matching, count = [], Counter(row.label for _, row in table.our_rows)
    for number, row in table.our_rows:
        spellings = {row.label, row.label.removesuffix(" ({backbone})")}
        if label in spellings | {f"{row.section}/{spelling}" for spelling in spellings}:
            matching.append(number)
    if len(matching) != 1:
        rows = [row for _, row in table.our_rows]
        names = [row.label if count[row.label] == 1 else f"{row.section}/{row.label}" for row in rows]
        raise InputError(
            f"{label!r} is {'no row' if not matching else 'several rows'} of {table.name}: {'; '.join(names)}"
        )
    return matching[0]


def _joined(standing: Sequence[tuple[Group, tuple[str, ...]]]) -> list[tuple[Group, tuple[str, ...]]]:
    """The groups with their cells, those of one backbone as one if no two of them fill the same column: an extraction and its
    replies."""
    by_backbone: dict[str, list[tuple[Group, tuple[str, ...]]]] = {}
    for group, cells in standing:
        by_backbone.setdefault(group[0].backbone, []).append((group, cells))
    out: list[tuple[Group, tuple[str, ...]]] = []
    for same in by_backbone.values():
        columns = list(zip(*(cells for _, cells in same), strict=True))
        if all(sum(map(bool, column)) <= 1 for column in columns):
            out.append(([run for group, _ in same for run in group], tuple(map("".join, columns))))
        else:
            out += same
    return out


def _piped(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    return re.sub(r"([|*<\[\]])", r"\\\1", text)
