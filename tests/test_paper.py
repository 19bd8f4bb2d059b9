"""PAPER.md: every file, name and test that it points at exists."""

import ast
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
TEXT = (CHECKOUT / "PAPER.md").read_text(encoding="utf-8")
POINTERS = sorted(set(re.findall(r"`((?:ld_agent|configs|tests|training)/[^`]+)`", TEXT)))


def names_in(source: Path) -> set[str]:
    """Functions and classes of a file; methods as "Class.method"."""
    found: set[str] = set()
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{method.name}" for method in node.body if isinstance(method, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("pointer", POINTERS)
def test_what_is_pointed_at_exists(pointer: str):
    path, _, name = pointer.replace("::", ":").partition(":")
    assert (CHECKOUT / path).is_file()
    if name:
        assert name in names_in(CHECKOUT / path)


def test_every_row_names_code_and_test():
    rows = [line.split("|")[1:-1] for line in TEXT.splitlines() if line.startswith("| ") and "| code |" not in line]
    assert rows
    assert len(POINTERS) > 40
    for what, code, test in rows:
        assert "`ld_agent/" in code or "`configs/" in code, what
        assert "`tests/" in test, what
