"""Finds leftovers of merges in the project's files, and links and anchors in its Markdown that lead nowhere.

``make lint`` runs it. Knows nothing of the package.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from documentation import ROOT, anchors, links

MARKER = re.compile(r"^(?:<{7} .*|\|{7}(?: .*)?|={7}|>{7} .*)$")


def tracked_files(root: Path) -> list[Path]:
    """The files of the project; without git, all outside hidden folders."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return [p for p in root.rglob("*") if p.is_file() and not any(n[0] == "." for n in p.relative_to(root).parts)]
    return [path for name in listed.split("\0") if (path := root / name).is_file()]


def problems(files: Iterable[Path]) -> Iterator[str]:
    """What is wrong with files, each problem with its file."""
    for file in files:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, start=1):
            if MARKER.match(line):
                yield f"{file}, line {number}: a merge marker, {line!r}; resolve the merge"
        if file.suffix == ".md":
            yield from _broken_links(file)


def _broken_links(page: Path) -> Iterator[str]:
    for name, anchor in links(page):
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            yield f"{page}: links to {name}, which does not exist"
        elif anchor and anchor not in anchors(target):
            yield f"{page}: links to {name}#{anchor}, which has no such heading"


if __name__ == "__main__":
    sys.exit("\n".join(problems(tracked_files(ROOT))) or 0)
