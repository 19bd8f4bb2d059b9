"""The site and the notebooks: `make docs` builds without a warning, and the notebooks run as they are shown."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
from cli_commands import environment
from documentation import PAGES, ROOT
from nbclient import NotebookClient

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
def test_the_site_has_every_page_with_links_that_lead_somewhere():
    done = subprocess.run(["make", "docs"], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    assert "griffe:" not in done.stdout + done.stderr  # a docstring that does not fit its function
    site = ROOT / "build" / "site"
    assert "reference/#ld_agent.Conversation.pin" in (site / "search.json").read_text("utf-8")
    outside = re.compile(r'<script[^>]* src="https?:|<link rel="stylesheet" href="https?:')
    assert [page for page in site.glob("**/index.html") if outside.search(page.read_text("utf-8"))] == []


def test_the_site_leads_to_every_page():
    nav = (ROOT / "zensical.toml").read_text("utf-8")
    named = {*re.findall(r'= "([\w/-]+\.md)"', nav)}
    tomllib.loads(nav)
    notebooks = {str(path.relative_to(ROOT).with_suffix(".md")) for path in NOTEBOOKS}
    assert named >= {str(page.relative_to(ROOT)) for page in PAGES} - {"SECURITY.md", "training/README.md"} | notebooks


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_gives(path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in environment(PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin").items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    shown = [len(cell.outputs) > 0 for cell in code]
    assert sum(shown) >= 2
    assert not [output for cell in code for output in cell.outputs if output.get("name") == "stderr"]
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": path.parent}}).execute()
    assert all(cell.outputs for cell, output in zip(code, shown, strict=True) if output)
