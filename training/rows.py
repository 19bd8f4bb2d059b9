"""Training rows: JSON lines of chat messages whose last one is the target, as built here or in ShareGPT's or Alpaca's shape.
What is asked of a builder of rows, the choice of held-out episodes, and the files; knows no tokens.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ld_agent.backbones.base import Message
from ld_agent.config import Config
from ld_agent.datasets.records import Record, built, json_lines, json_list, text_lines
from ld_agent.errors import InputError
from ld_agent.files import written_atomically

Role = Literal["system", "user", "assistant"]
SCENES = "memory"
"""The corpus of rows that are made of the project's own texts."""
ROLES: Mapping[str, Role] = {role: role for role in get_args(Role)} | {"human": "user", "gpt": "assistant"}
SHAREGPT = ("conversations", "from", "value")


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """One call of ``training.build``. A row builder takes it and returns rows as dictionaries (`row_values`).

    Attributes:
        sources: corpus files.
        limit: episodes, sessions or dialogues read of each.
        held_out: share of episodes in the validation file.
        longest: summarizer: also sessions of up to this many dialogues; 1: none.
        width: generator: episodes side by side.
    """

    sources: Sequence[Path]
    config: Config
    limit: int | None = None
    held_out: float = 0.0
    longest: int = 1
    width: int = 16


@dataclass(frozen=True, slots=True)
class Row:
    """One training example.

    Attributes:
        prompt: the messages as at inference.
        target: the expected answer.
        path, line: the row's position, for messages.
        further: number of the prompt's last assistant messages that are also targets, so that one pass teaches several
            answers.
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


class RowFile(Iterable[Row]):
    """The rows of a training or evaluation file, read again on every iteration.

    Args:
        module: the module that the rows must be for; "": any. Rows that do not say it are for any.
        kind: "training" or "evaluation", for messages.

    Attributes:
        path: the file.
        corpora, sources: formats and files of the data that the rows read so far were built from, where they say it.
        unprompted: a row read so far has no system message.

    Iterating raises:
        InputError: there is no row in it, or one is for another module.
        DataFileError: a line that is not a row; names file and line.

    Raises:
        InputError: no such file.
    """

    def __init__(self, path: str | Path, module: str = "", kind: str = "training") -> None:
        self.path, self._module, self._kind = Path(path), module, kind
        self.corpora: dict[str, None] = {}
        self.sources: dict[str, None] = {}
        self.unprompted = False
        if not self.path.is_file():
            out = f"--out {path}" if kind == "training" else f"--out TRAIN --eval-out {path}"
            raise InputError(
                f"no {kind} file {path}; make one with: python -m training.build {module or 'MODULE'} --from DATA {out}"
            )

    def __iter__(self) -> Iterator[Row]:
        row = None
        listed = next((line for _, line in text_lines(self.path)), "").startswith("[")
        for row in built((json_list if listed else json_lines)(self.path), self._read):
            yield row
        if row is None:
            raise InputError(f"{self.path} holds no rows; build it again with: python -m training.build")

    def _read(self, record: Record) -> Row:
        module = record.values.get("module")
        if self._module and module not in (None, self._module):
            raise InputError(
                f"{self.path}, line {record.line}: a row for the {module}, not for the {self._module}; build the "
                f"{self._kind} file with: python -m training.build {self._module}"
            )
        row = _row(record)
        self.unprompted |= row.prompt[0].role != "system"
        self.corpora.update(dict.fromkeys(str(record.values.get("corpus", "not recorded")).split("+")))
        self.sources.update(dict.fromkeys(record.texts("sources") if "sources" in record else ()))
        return row


def read_rows(path: str | Path, module: str = "", kind: str = "training") -> list[Row]:
    """Return the rows of a file; arguments and errors as for `RowFile`."""
    return list(RowFile(path, module, kind))


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
    messages = _messages(record)
    if len(messages) < 2 or messages[-1].role != "assistant":
        raise record.error("messages must be a prompt and then the target, which is an assistant's message")
    further = record.integer("further") if "further" in record else 0
    *prompt, target = messages
    return Row(tuple(prompt), target.content, record.path, line=record.line or 0, further=further)


def _messages(record: Record) -> list[Message]:
    """The messages of a row: `row_values`, or ShareGPT's conversations, or Alpaca's instruction, input and output."""
    if "instruction" in record:
        asked = [record.text("instruction"), record.text("input") if record.values.get("input") else ""]
        return [Message("user", "\n\n".join(filter(None, asked))), Message("assistant", record.text("output"))]
    key, role_key, text_key = SHAREGPT if "conversations" in record else ("messages", "role", "content")
    messages = []
    for message in record.records(key):
        role = message.text(role_key)
        if role not in ROLES:
            raise message.error(f"{role_key} {role!r} is not one of {', '.join(ROLES)}")
        messages.append(Message(ROLES[role], message.text(text_key)))
    return messages


def held_out(episodes: Sequence[str], share: float) -> frozenset[str]:
    """Choose a share of episodes, at least one, by their names only: the same for every file and module."""
    names = sorted(dict.fromkeys(map(origin, episodes)), key=lambda name: hashlib.sha256(name.encode()).digest())
    if share and len(names) < 2:
        raise InputError(f"{len(names)} episode cannot be split in two; give more data, or omit --eval-out")
    return frozenset(names[: math.ceil(share * len(names))])


def origin(episode: str) -> str:
    """The conversation of an episode id; a repeated one ("valid_7#2") belongs to the first."""
    return episode.partition("#")[0]
