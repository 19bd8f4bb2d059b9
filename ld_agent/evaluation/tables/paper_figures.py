"""The papers' tables as printed, and which runs belong in which row: reads and checks `paper_tables.yaml`.

A column has a ``name``, a ``group`` (the heading above it) and either a ``measure`` or ``first`` and ``second``, two kinds of
runs to compare. ``unit`` is what stands behind its printed figures ("%"). ``sessions`` with ``measures`` expands to one column
per session and measure; ``session`` and ``where`` are the session and the conditions of all columns. A row is one of:

- a ``section`` heading;
- the paper's figures: ``paper`` and ``values``, one for each column, "-" for none;
- a slot for runs: ``ours`` and ``where``, the conditions on a run; with ``adapter_of``, the corpus its generator was
  tuned on, runs are assigned by name only.

``tuned_apart``: each tuned row has an adapter of its own.

Knows no run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from ld_agent.errors import InputError

Where = Mapping[str, Any]
Facts = Mapping[str, Any]
CORPORA = {"msc_personasummary": "msc"}
"""Formats of the same corpus."""


def satisfied(facts: Facts, where: Where) -> bool:
    """Whether facts meet conditions; lists are compared without their order."""

    def same(have: Any, wanted: Any) -> bool:
        return sorted(have) == sorted(wanted) if isinstance(wanted, list) and isinstance(have, list) else have == wanted

    return all(same(facts.get(key), value) for key, value in where.items())


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        sides: conditions on the run for this column, in addition to those of its row; for a comparison, on either run.
        measure: the measure; None: a comparison, or not measured by this package.
        session: number of the session to measure; None: all sessions with predictions.
        unit: stands behind our figures, as behind the printed ones.
    """

    name: str
    group: str
    sides: tuple[Where, ...]
    measure: str | None = None
    session: int | None = None
    unit: str = ""

    @property
    def head(self) -> str:
        return f"{self.group} {self.name}".strip()


@dataclass(frozen=True, slots=True)
class PaperRow:
    """Figures as printed, one text per column; "" where the paper has none."""

    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OurRow:
    """A slot for runs.

    Attributes:
        label: the row's label, in which "{backbone}" is replaced with the run's backbone.
        section: the heading of its section.
        where: conditions on a run.
        adapter_of: the corpus that the generator was tuned on. No configuration records it, so such runs are assigned
            by name.
    """

    label: str
    section: str
    where: Where
    adapter_of: str = ""


@dataclass(frozen=True, slots=True)
class PaperTable:
    """One table of a paper.

    Attributes:
        setting: the paper's backbone, data, split, memory and judge.
        remarks: notes on the printed figures.
        rows: the rows; a text is a section heading.
        tuned_apart: every tuned row has a generator tuned for it.
    """

    name: str
    paper: str
    number: str
    title: str
    setting: Mapping[str, str]
    remarks: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[str | PaperRow | OurRow, ...]
    tuned_apart: bool = False

    @property
    def our_rows(self) -> list[tuple[int, OurRow]]:
        """The slots for runs, with their places among the rows."""
        return [(place, row) for place, row in enumerate(self.rows) if isinstance(row, OurRow)]

    @property
    def session(self) -> int | None:
        """The session of all columns; None: there is none, or several."""
        sessions = {column.session for column in self.columns}
        return sessions.pop() if len(sessions) == 1 else None

    def of_session(self, session: int) -> PaperTable:
        """Return the table with columns of another session than the paper's, and a remark that says so."""
        if self.session is None:
            raise InputError(f"the columns of {self.name} cover several sessions; omit --session")
        remark = f"Ours are of session {session}, the paper's of session {self.session}."
        columns = tuple(replace(column, session=session) for column in self.columns)
        return replace(self, columns=columns, remarks=(remark, *self.remarks))


def paper_table(name: str) -> PaperTable:
    """Return a table by its name, such as "ld-agent-1", or by an unambiguous ending of it, such as "a10"."""
    tables = paper_tables()
    ending = [full for full in tables if full.endswith(f"-{name}")]
    if len(ending) == 1:
        return tables[ending[0]]
    if name not in tables:
        raise InputError(f"no table {name!r}; the tables are {', '.join(tables)}")
    return tables[name]


@cache
def paper_tables() -> dict[str, PaperTable]:
    """Return all tables by name, in file order."""
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
            rows.append(OurRow(row["ours"], section, row["where"], row.get("adapter_of", "")))
    return PaperTable(
        name=name,
        paper=values["paper"],
        number=values["number"],
        title=values["title"],
        setting=values["setting"],
        remarks=tuple(values.get("remarks", ())),
        columns=columns,
        rows=tuple(rows),
        tuned_apart=values.get("tuned_apart", False),
    )


def _columns(values: Mapping[str, Any]) -> tuple[Column, ...]:
    common = {key: values[key] for key in ("task",) if key in values} | values.get("where", {})
    session = values.get("session")
    if "sessions" in values:
        return tuple(
            Column(name, f"Session {session}", (common,), measure, session)
            for session in values["sessions"]
            for name, measure in values["measures"].items()
        )
    columns = []
    for column in values["columns"]:
        where = common | {key: column[key] for key in ("task",) if key in column} | column.get("where", {})
        sides = [column[side] for side in ("first", "second") if side in column] or [{}]
        measured = (column.get("measure"), session, column.get("unit", ""))
        columns.append(
            Column(column["name"], column.get("group", ""), tuple(where | side for side in sides), *measured)
        )
    return tuple(columns)
