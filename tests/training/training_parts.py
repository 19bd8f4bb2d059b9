"""Rows that a tiny model can learn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def toy_rows(count: int = 24) -> list[dict[str, Any]]:
    """Return questions of various lengths, each answered with one of two letters."""
    return [
        {
            "messages": [
                {"role": "user", "content": f"{'x' * (n % 7)}{'ab'[n % 2]}?"},
                {"role": "assistant", "content": "ab"[n % 2] * (1 + n % 3)},
            ],
            "corpus": "toy",
            "episode": f"e{n}",
        }
        for n in range(count)
    ]


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
