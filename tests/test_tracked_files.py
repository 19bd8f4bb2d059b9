"""Leftovers of merges and broken links are found in every kind of file, by ``make lint``."""

import subprocess
from pathlib import Path

import pytest
from documentation import ROOT
from tracked_files import problems


@pytest.mark.parametrize("name", ["page.md", "prompt.yaml", "code.py"])
@pytest.mark.parametrize("marker", ["<<<<<<< HEAD", "||||||| 1a2b3c", "=======", ">>>>>>> branch"], ids=lambda m: m[:1])
def test_each_merge_marker_is_found(tmp_path: Path, name: str, marker: str):
    file = tmp_path / name
    file.write_text(f"a: 1\n{marker}\nb: 2 # {marker}\n")
    assert list(problems([file])) == [f"{file}, line 2: a merge marker, {marker!r}; resolve the merge"]


def test_broken_links_and_anchors_are_found(tmp_path: Path):
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text("# `ld-agent run`\n")
    good = "[a](other.md) [b](other.md#ld-agent-run) [c](#here) [d](https://example.org/x) ![e](.)\n"
    page.write_text(f"## Here\n{good}[f](gone.md) [g](other.md#gone) [h](#gone)\n```sh\n[i](gone.md)\n```\n")
    found = [problem.partition("links to ")[2].partition(",")[0] for problem in problems([page, other])]
    assert found == ["gone.md", "other.md#gone", "#gone"]


def test_lint_runs_it():
    done = subprocess.run(["make", "-n", "lint"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "tests/tracked_files.py" in done.stdout
