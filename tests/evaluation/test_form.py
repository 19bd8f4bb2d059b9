"""The page for people's ratings: blind, without a network, kept and exported; and kappas worked by hand."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from ld_agent.errors import DataFileError
from ld_agent.evaluation.form import cohen, fleiss, read_key, read_ratings, summary, write_form
from ld_agent.evaluation.judge import Case

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CASES = [
    Case(f"e/{n}", {"alpha-system": f"Yes {n}. </script>", "beta-system": f"No {n}."}, lines=(("Ann", "Hello?"),))
    for n in range(3)
]


def line(annotator: str, item: str, value: int, aspect: str = "fluency", form: str = "f") -> str:
    return json.dumps({"form": form, "annotator": annotator, "item": item, "aspect": aspect, "value": value}) + "\n"


def test_the_page_names_no_system_and_nothing_elsewhere(tmp_path: Path):
    key = write_form(CASES, "chat", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert not re.search(r"https?:|alpha-system|beta-system", page)
    assert {about["system"] for about in json.loads(key.read_text())["items"].values()} == {
        "alpha-system",
        "beta-system",
    }
    write_form(CASES, "chat", tmp_path / "same.html")
    assert (tmp_path / "same.html").read_text() == page
    write_form(CASES, "chat", tmp_path / "other.html", seed=1)
    assert (tmp_path / "other.html").read_text() != page


def test_kappas_by_hand():
    assert cohen([(0, 0), (1, 1), (0, 1), (1, 1)]) == pytest.approx(0.5)
    assert fleiss([[0, 0, 0], [1, 1, 1], [0, 1, 1]]) == pytest.approx(0.55)
    assert cohen([(1, 1)]) is None
    assert fleiss([[1, 1]]) is None


def test_a_sample_is_qualified_if_both_answers_are_yes(tmp_path: Path):
    rows = [("1", 1, 1), ("2", 1, 0)]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(line("a", i, r, "related") + line("a", i, p, "appropriate") for i, r, p in rows))
    _, ratings = read_ratings([path])
    result = summary(ratings, {"1": "x", "2": "y"})
    assert result["all"]["qualified"] == 50
    assert [result["systems"][name]["qualified"] for name in "xy"] == [100, 0]


@pytest.mark.parametrize("second", [line("a", "1", 1), line("b", "1", 3), line("b", "1", 1, form="g")])
def test_a_rating_that_cannot_be_used_is_refused(tmp_path: Path, second: str):
    (tmp_path / "r.jsonl").write_text(line("a", "1", 1) + second)
    with pytest.raises(DataFileError):
        read_ratings([tmp_path / "r.jsonl"])


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_ratings_by_keyboard_survive_a_reload_and_are_exported(tmp_path: Path):
    sync_api = pytest.importorskip("playwright.sync_api")
    key = write_form(CASES, "chat", tmp_path / "page.html")
    problems: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 375, "height": 740}, color_scheme="dark")
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else problems.append(r.url))
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: problems.append(str(e)))
        page.goto((tmp_path / "page.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_label("Your name").fill("Ann")
        for aspect in ("coherence", "fluency", "engagingness"):
            page.locator(f"input[name={aspect}]").first.focus()
            page.keyboard.press("ArrowRight")
        page.get_by_role("button", name="Next").press("Enter")
        page.reload()
        assert page.locator("#place").inner_text() == "Item 2 of 6"
        with page.expect_download() as download:
            page.get_by_role("button", name="Export ratings").press("Enter")
        download.value.save_as(tmp_path / "ann.jsonl")
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        browser.close()
    assert problems == []
    form, ratings = read_ratings([tmp_path / "ann.jsonl"])
    assert {aspect: dict(items) for aspect, items in ratings.items()} == {
        aspect: {"1": {"Ann": 1}} for aspect in ("coherence", "fluency", "engagingness")
    }
    assert len(read_key(key, form)) == 6
