"""Imports point down, and SQL and database connections stay in storage."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAYERS = (
    ("errors", "types"),
    ("languages", "text", "checks", "prompts", "storage", "backbones", "datasets"),
    ("modules",),
    ("memory",),
    ("agent", "answering", "conversation", "learning", "relation", "revising", "resources", "stateless", "turn"),
    ("rebuild", "replay"),
    ("evaluation", "training", "integrations"),
    ("server",),
    ("cli",),
)
"""From the lowest to the highest; what is not among them may be imported from everywhere, and is free in what it imports."""
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for file in [*ROOT.glob("ld_agent/**/*.py"), *ROOT.glob("training/**/*.py")]:
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield name, ast.parse(file.read_text(encoding="utf-8"))


def layer(module: str) -> str:
    """The folder or file that a module is a layer by; what keeps agents going stands in one folder at several heights."""
    first, _, rest = module.partition(".")
    return rest.removeprefix("running.").partition(".")[0] if first == "ld_agent" else first


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that a file imports, at its top or in a function; what is only for type checkers counts as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            if node.module == "ld_agent":
                yield from (f"ld_agent.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_imports_point_down():
    trees = dict(modules())
    assert len(trees) > 250
    assert {*HEIGHT} <= {layer(name) for name in trees}
    wrong = {
        f"{name} imports {other}"
        for name, tree in trees.items()
        for other in imported(tree)
        if HEIGHT.get(layer(other), 0) > HEIGHT.get(layer(name), len(LAYERS))
    }
    assert wrong == set()


def lengths(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The name and the number of lines of each function, without its head and docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and node.body[1:] else node.body
            yield node.name, body[-1].end_lineno - body[0].lineno + 1  # type: ignore[operator]


def test_a_turn_reads_in_steps_of_fifteen_lines():
    steps = dict(lengths(dict(modules())["ld_agent.turn"]))
    assert len(steps) > 15
    assert {name: lines for name, lines in steps.items() if lines > 15} == {}


def test_files_and_functions_are_short():
    long = {
        f"{name}.{function}": lines
        for name, tree in modules()
        for function, lines in [("", max((part.end_lineno or 0 for part in tree.body), default=0)), *lengths(tree)]
        if lines > (40 if function else 400)
    }
    assert long == {}


def test_databases_stay_in_storage():
    outside = {name: tree for name, tree in modules() if layer(name) != "storage"}
    engines = {f"{name}: {module}" for name, tree in outside.items() for module in imported(tree)}
    assert [found for found in engines if re.search(r": (sqlite3|psycopg|pgvector)", found)] == []
    connections = [
        f"{name}:{node.lineno}"
        for name, tree in outside.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("db", "execute", "executemany", "transaction")
    ]
    assert connections == []
