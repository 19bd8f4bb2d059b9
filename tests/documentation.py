"""What the documentation shows: its pages, their code blocks, the commands in them, their links. Knows nothing of the package."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "PAPER.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "training" / "README.md",
    ROOT / "data" / "README.md",
]
DOCKERFILE, COMPOSE = ROOT / "Dockerfile", ROOT / "docker-compose.yml"
BREAKS = {"|", "||", "&", "&&", ";", "(", ")", "<", ">"}


@dataclass(frozen=True)
class Shown:
    """A command that a page shows.

    Attributes:
        program: "ld-agent", or "training.build" of ``python -m training.build``.
        whole: from a code block, ready to paste; one in running text may leave out what is required.
    """

    page: str
    program: str
    words: tuple[str, ...]
    whole: bool

    def __str__(self) -> str:
        return f"{self.page}: {self.program} {shlex.join(self.words)}"


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of some languages."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", text_of(page), flags=re.DOTALL | re.MULTILINE)
    return [block for language, block in found if language in languages]


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)


def shown_commands(page: Path) -> Iterator[Shown]:
    """Every call of ``ld-agent`` and of ``python -m training.…`` on a page, in code blocks and in running text."""
    name = str(page.relative_to(ROOT))
    typed = [line[2:] for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]
    lines = "\n".join([*blocks(page, "sh"), *typed]).replace("\\\n", " ").splitlines()
    values = _variables("\n".join(lines))
    for line in lines:
        yield from _calls(name, _expanded(line, values), whole=True)
    for quoted in re.findall(r"`([^`\n]+)`", re.sub(r"\n> ?", " ", prose(page))):
        yield from _calls(name, re.sub(r"[\[\]]", "", quoted), whole=False)


def container_commands() -> Iterator[Shown]:
    """Every call of ``ld-agent`` in the files for Docker, comments included."""
    services = yaml.safe_load(text_of(COMPOSE))["services"]
    lines = [service["command"] for service in services.values() if "command" in service]
    lines.append(json.loads(re.findall(r"^CMD (.*)$", text_of(DOCKERFILE), flags=re.MULTILINE)[-1]))
    for words in lines:
        if words[0] == "ld-agent":
            yield Shown("containers", "ld-agent", tuple(words[1:]), whole=True)
    for page in (DOCKERFILE, COMPOSE):
        for line in re.findall(r"^#.*?\b(ld-agent .*)$", text_of(page), flags=re.MULTILINE):
            yield from _calls(page.name, line, whole=True)


def _variables(script: str) -> dict[str, str]:
    """Shell variables by name; one that is built up in a loop has what one round gives it."""
    found = re.findall(r'\b(\w+)="([^"]*)"', script)
    return {name: value.replace(f"${name} ", "") for name, value in found}


def _expanded(line: str, values: dict[str, str]) -> str:
    if re.match(r"\s*\w+=\"", line):
        return ""
    for _ in range(2):
        line = re.sub(r"\$(\w+)", lambda found: values.get(found[1], "1"), line)
    return line


def _calls(page: str, line: str, *, whole: bool) -> Iterator[Shown]:
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:  # an apostrophe in running text
        return
    command: list[str] = []
    for word in [*words, ";"]:
        if word in BREAKS:
            if (call := _call(command)) is not None:
                yield Shown(page, *call, whole)
            command = []
        else:
            command.append(word)


def _call(words: list[str]) -> tuple[str, tuple[str, ...]] | None:
    """The program and its arguments in one shell command, whatever launches it."""
    launched = words[0] in ("do", "torchrun", "accelerate", "python", ".venv/bin/python") if words else False
    for place, word in enumerate(words):
        if word in ("ld-agent", ".venv/bin/ld-agent") and (place == 0 or launched or "=" in words[0]):
            return "ld-agent", tuple(words[place + 1 :])
        if word == "-m" and words[place + 1 :] and words[place + 1].startswith("training."):
            return words[place + 1], tuple(words[place + 2 :])
        if launched and word.startswith("training."):
            return word, tuple(words[place + 1 :])
    return None


def links(page: Path) -> Iterator[tuple[str, str]]:
    """(file, anchor) of each link inside the project; "" is the page itself, or no anchor."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            yield file, anchor


def paths(page: Path) -> list[str]:
    """The files of the project that a page names in running text; those with a placeholder in them are not among them."""
    named = re.findall(r"`((?:ld_agent|training|configs|tests|docs|data)/[\w./-]+\.\w+)`", prose(page))
    return [path for path in named if "NAME" not in path]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
