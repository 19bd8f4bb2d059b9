"""Training rows: JSON lines of chat messages whose last one is the target. Reads and writes them; knows no tokens.

A file is written atomically.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ld_agent.backbones.base import Message
from ld_agent.datasets.records import Record, json_lines, raise_bad
from ld_agent.errors import InputError
from ld_agent.files import written_atomically

Role = Literal["system", "user", "assistant"]
ROLES: Mapping[str, Role] = {role: role for role in get_args(Role)}


@dataclass(frozen=True, slots=True)
class Row:
    """One training example.

    Attributes:
        prompt: the messages as at inference.
        target: what the model is to answer.
        path, line: where the row stands, for messages.
        further: how many of the prompt's last assistant messages are targets too; one reading of a prompt then teaches
            several answers.
    """

    prompt: tuple[Message, ...]
    target: str
    path: Path
    line: int
    further: int = 0


def row_values(prompt: Sequence[Message], target: str, **provenance: Any) -> dict[str, Any]:
    """One line of a training file: ``{"messages": [...], **provenance}``."""
    messages = [{"role": m.role, "content": m.content} for m in prompt]
    return {"messages": [*messages, {"role": "assistant", "content": target}], **provenance}


def read_rows(path: str | Path) -> list[Row]:
    """Return the rows of a training file.

    Raises:
        InputError: no such file, or none in it.
        DataFileError: a line that is not a row; names file and line.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(
            f"no training file {path}; make one with: python -m training.build MODULE --from DATA --out {path}"
        )
    rows = [_row(record) for record in json_lines(file, raise_bad)]
    if not rows:
        raise InputError(f"{path} holds no rows; build it again with: python -m training.build")
    return rows


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write a training file and return its number of rows.

    Raises:
        InputError: the file cannot be written.
    """
    count = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise InputError(f"{path} cannot be written ({exc.strerror}); give a file in a writable folder") from exc
    with written_atomically(path) as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count


def _row(record: Record) -> Row:
    messages = []
    for message in record.records("messages"):
        role = message.text("role")
        if role not in ROLES:
            raise message.error(f"role {role!r} is none of {', '.join(ROLES)}")
        messages.append(Message(ROLES[role], message.text("content")))
    if len(messages) < 2 or messages[-1].role != "assistant":
        raise record.error("messages must be a prompt and then the target, which is an assistant's message")
    further = record.integer("further") if "further" in record else 0
    return Row(tuple(messages[:-1]), messages[-1].content, record.path, record.line or 0, further)
