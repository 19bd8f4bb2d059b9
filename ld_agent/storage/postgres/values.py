"""Converts the shared SQL and its values for PostgreSQL.

A text may contain NUL, which PostgreSQL refuses: it is stored as U+001A followed by 0, and U+001A itself as U+001A
followed by 1.
"""

from __future__ import annotations

import re
from typing import Any

from psycopg.types.string import TextBinaryLoader

ESCAPE = "\x1a"
PLACEHOLDER = re.compile(r"\?(\d*)")
HINT = re.compile(r" INDEXED BY \w+|(?<= )\+(?=conversation\b)")
"""Hints that keep SQLite on the right index; here the conversation selects the partition."""


def statement(sql: str) -> str:
    """Convert shared SQL to PostgreSQL's placeholders, and remove SQLite's hints."""
    counter = iter(range(1, sql.count("?") + 1))
    return PLACEHOLDER.sub(lambda match: f"${match[1] or next(counter)}", HINT.sub("", sql))


def bound(value: Any) -> Any:
    """Convert a value of the shared SQL for PostgreSQL: flags become numbers, NUL in texts is escaped."""
    if isinstance(value, str):
        return value.replace(ESCAPE, f"{ESCAPE}1").replace("\0", f"{ESCAPE}0")
    if isinstance(value, bool):
        return int(value)
    return [bound(element) for element in value] if isinstance(value, list) else value


class TextLoader(TextBinaryLoader):
    """Reads the texts that `bound` stores."""

    def load(self, data: Any) -> Any:
        text = super().load(data)
        if isinstance(text, str) and ESCAPE in text:
            return text.replace(f"{ESCAPE}0", "\0").replace(f"{ESCAPE}1", ESCAPE)
        return text
