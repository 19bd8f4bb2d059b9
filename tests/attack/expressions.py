"""Every regular expression of the package and of the language folders, and inputs made to let each one backtrack."""

import ast
import importlib
import itertools
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from re import _constants as code  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import ld_agent
from ld_agent.languages import language, shipped, shipped_reading
from ld_agent.languages.reading import LONGEST_REQUEST, Rules

ROOT = Path(ld_agent.__file__).parent
RUNS = (
    "\n",
    " ",
    "!",
    '"',
    "'",
    "-",
    "_",
    ".",
    ",",
    ":",
    "a",
    "A",
    "1",
    "1.",
    "a ",
    "a.",
    "\n- ",
    ". ",
    "?",
    "。",
    "一",
    "<",
    "[",
    "(",
)
"""Runs of these trip most expressions that can be tripped."""
ENDS = ("", "\0", "a", "!", "\nx")


def expressions() -> dict[str, tuple[re.Pattern[str], int]]:
    """Where each expression stands: the expression, and the longest text that it ever sees; 0: any."""
    found: dict[str, tuple[re.Pattern[str], int]] = {}
    for module in pkgutil.walk_packages(ld_agent.__path__, "ld_agent."):
        for name, value in vars(_imported(module.name)).items() if not module.ispkg else ():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                found[f"{module.name}.{name}"] = value, 0
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (pattern := _literal(node)) is not None:
                found[f"{path.relative_to(ROOT)}:{node.lineno}"] = pattern, 0
    return found | _of_languages()


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:  # of an extra
        return object


def _literal(node: ast.AST) -> re.Pattern[str] | None:
    """The expression of a call like ``re.sub(r"…", …)``."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return None
    of_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
    first = node.args[0]
    if of_re and isinstance(first, ast.Constant) and isinstance(first.value, str):
        return re.compile(first.value)
    return None


def _of_languages() -> dict[str, tuple[re.Pattern[str], int]]:
    found: dict[str, tuple[re.Pattern[str], int]] = {}
    reading = shipped_reading()
    found |= {f"asks_to_forget{n}": (pattern, LONGEST_REQUEST) for n, pattern in enumerate(reading._asks_to_forget)}
    for key in Rules.model_fields:
        if key not in ("stop_words", "not_searched", "stemmer", "saying_nothing", "asks_to_forget"):
            found[f"rules.{key}"] = reading.patterns[key], 0
    for spoken in map(language, shipped()):
        for name in ("_begins_reply", "_decision", "_marker", "_answer"):
            if (pattern := getattr(spoken, name)) is not None:
                found[f"{spoken.code}.{name}"] = pattern, 0
        dates = spoken.dates
        for kind, patterns in dates.compiled.items():
            found |= {f"{spoken.code}.{kind}{n}": (pattern, 0) for n, pattern in enumerate(patterns)}
        found |= {f"{spoken.code}.relative{n}": (p, 0) for n, (_, p) in enumerate(dates.relative_patterns)}
        found[f"{spoken.code}.hint"], found[f"{spoken.code}.relative_hint"] = (dates.hint, 0), (dates.relative_hint, 0)
        if relative := dates.relative:
            found[f"{spoken.code}.age"] = relative.age(date(2024, 5, 6)), 0
            for name in ("future", "past", "unclear", "ending", "clause"):
                found[f"{spoken.code}.{name}"] = re.compile(getattr(relative, name)), 0
    return found


def inputs(pattern: re.Pattern[str], length: int, runs: Sequence[str] = RUNS) -> Iterator[str]:
    """Texts of a length that make an expression try again and again: what it repeats, repeated, and then no match."""
    tree = list(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
    units = {*runs, _sample(tree)}
    pumped = list(_pumped(tree))
    units |= {unit for _, unit in pumped} | {before + unit for before, unit in pumped}
    for unit in sorted(unit for unit in units if unit):
        for end in ENDS[:2]:
            yield (unit * (length // len(unit) + 1))[:length] + end
    for (before, unit), end in itertools.product(pumped, ENDS):
        if unit:
            yield before + (unit * (length // len(unit) + 1))[:length] + end


def _pumped(tree: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """(what leads to a repetition, what is repeated) of every repetition."""
    for op, value in tree:
        for inner in _inner(op, value):
            yield from _pumped(inner, before)
        if op in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT) and value[1] > 9:
            yield before, _sample(value[2])
        before += _sample([(op, value)])


def _inner(op: Any, value: Any) -> list[Any]:
    if op is code.SUBPATTERN:
        return [value[3]]
    if op is code.BRANCH:
        return list(value[1])
    if op in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT):
        return [value[2]]
    if op is code.ATOMIC_GROUP:
        return [value]
    if op in (code.ASSERT, code.ASSERT_NOT):
        return [value[1]]
    return [part for part in value[1:] if part] if op is code.GROUPREF_EXISTS else []


def _sample(tree: Any) -> str:
    """A text that a part of an expression matches, roughly."""
    text = ""
    for op, value in tree:
        if op is code.LITERAL:
            text += chr(value)
        elif op is code.NOT_LITERAL:
            text += "a" if value != ord("a") else "b"
        elif op is code.ANY:
            text += "a"
        elif op is code.IN:
            text += _member(value)
        elif op in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT):
            text += _sample(value[2]) * max(value[0], 1)
        elif op not in (code.ASSERT, code.ASSERT_NOT) and (inner := _inner(op, value)):
            text += _sample(inner[0])
    return text


_CATEGORIES: Mapping[Any, str] = {
    code.CATEGORY_SPACE: " ",
    code.CATEGORY_DIGIT: "1",
    code.CATEGORY_WORD: "a",
    code.CATEGORY_NOT_SPACE: "a",
    code.CATEGORY_NOT_WORD: "!",
    code.CATEGORY_NOT_DIGIT: "a",
}


def _member(items: Any) -> str:
    if items[0][0] is not code.NEGATE:
        op, value = items[0]
        return chr(value) if op is code.LITERAL else chr(value[0]) if op is code.RANGE else _CATEGORIES[value]
    chars = (c for c in "a1! \n.,:" if re.match(_class(items), c))
    return next(chars, "ž")


def _class(items: Any) -> str:
    parts = []
    for op, value in items[1:]:
        if op is code.LITERAL:
            parts.append(re.escape(chr(value)))
        elif op is code.RANGE:
            parts.append(f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}")
        else:
            parts.append({" ": r"\s", "1": r"\d", "a": r"\w", "!": r"\W"}.get(_CATEGORIES[value], r"\s"))
    return f"[^{''.join(parts)}]"
