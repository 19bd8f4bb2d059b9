"""The papers' tables as printed, and which runs stand beside which of their rows: `paper_tables.yaml`, read and checked.

A table has columns and rows. A column has a ``name``, a ``group`` (the heading above it) and a ``measure``, or ``first`` and
``second``, two kinds of runs that are compared. ``sessions`` with ``measures`` stands for the columns of every measure in
every session. A row is a ``section`` heading, the paper's figures (``paper``, ``values``: one for each column, "-" for none)
or a place for runs (``ours``, with ``where``: what a run must be; without: only what is given to it by name). Knows no run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from ld_agent.errors import InputError

Where = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        measure: what is measured; None: nothing that can be measured here, or a comparison.
        where: what a run must be for this column, beside what its row asks for.
        session: number of the session that is measured; None: all that were predicted.
        first, second: of a comparison, what the two runs must be.
    """

    name: str
    group: str = ""
    measure: str | None = None
    where: Where = field(default_factory=dict)
    session: int | None = None
    first: Where | None = None
    second: Where | None = None


@dataclass(frozen=True, slots=True)
class PaperRow:
    """Figures as printed, one text for each column; "" where the paper has none."""

    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OurRow:
    """A place for runs.

    Attributes:
        label: "{backbone}" in it becomes the run's backbone.
        section: the heading it stands under.
        where: what a run must be; None: only runs that are given to it.
    """

    label: str
    section: str
    where: Where | None


@dataclass(frozen=True, slots=True)
class PaperTable:
    """One table of a paper.

    Attributes:
        setting: what the paper used: backbone, data, split, memory, judge.
        remarks: on the figures as printed.
        rows: a text is a section's heading.
    """

    name: str
    paper: str
    number: str
    title: str
    setting: Mapping[str, str]
    remarks: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[str | PaperRow | OurRow, ...]


def paper_table(name: str) -> PaperTable:
    """Return a table by its name, such as "ld-agent-1".

    Raises:
        InputError: no such table; lists those there are.
    """
    tables = paper_tables()
    if name not in tables:
        raise InputError(f"no table {name!r}; the tables are {', '.join(tables)}")
    return tables[name]


@cache
def paper_tables() -> dict[str, PaperTable]:
    """All tables by name, in the file's order."""
    import yaml

    source = yaml.safe_load(files(__package__).joinpath("paper_tables.yaml").read_text(encoding="utf-8"))
    return {name: _table(name, values) for name, values in source.items()}


def _table(name: str, values: Mapping[str, Any]) -> PaperTable:
    columns = _columns(values)
    rows: list[str | PaperRow | OurRow] = []
    section = ""
    for row in values["rows"]:
        if "section" in row:
            section = row["section"]
            rows.append(section)
        elif "paper" in row:
            printed = tuple("" if value == "-" else value for value in row["values"].split())
            if len(printed) != len(columns):
                raise ValueError(f"{name}, {row['paper']}: {len(printed)} figures for {len(columns)} columns")
            rows.append(PaperRow(row["paper"], printed))
        else:
            rows.append(OurRow(row["ours"], section, row.get("where")))
    return PaperTable(
        name,
        values["paper"],
        values["number"],
        values["title"],
        values["setting"],
        tuple(values.get("remarks", ())),
        columns,
        tuple(rows),
    )


def _columns(values: Mapping[str, Any]) -> tuple[Column, ...]:
    common = {"task": values["task"]} if "task" in values else {}
    if "sessions" in values:
        return tuple(
            Column(name, f"Session {session}", measure, common, session)
            for session in values["sessions"]
            for name, measure in values["measures"].items()
        )
    return tuple(
        Column(
            column["name"],
            column.get("group", ""),
            column.get("measure"),
            common | ({"task": column["task"]} if "task" in column else {}) | column.get("where", {}),
            first=column.get("first"),
            second=column.get("second"),
        )
        for column in values["columns"]
    )
