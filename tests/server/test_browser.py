"""The page in a real Chromium, against a real server process. Skipped where either is missing."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_commands import light_config, run_real
from server_process import ServerProcess

sync_api = pytest.importorskip("playwright.sync_api")
AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("page")
    config = light_config(folder, generator="How nice.", extractor="I keep bees.")
    with ServerProcess("-c", config, "--store", folder / "s.db", folder=folder) as server:
        for number, text in enumerate(["I keep forty bee hives in Ghent.", "I bought two goats.", "蜂蜜 is honey."]):
            said = {"utterances": [{"text": text, "at": f"2024-0{number + 1}-01T10:00:00+00:00"}], "end_session": True}
            server.post("/v1/memory/people/ann/observe", said)
        server.chat("How are my bees?", "ann")
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def problems() -> list[str]:
    """What a page loaded from elsewhere, and what its policy or its scripts complained of."""
    return []


@pytest.fixture
def page(browser: Any, server: ServerProcess, problems: list[str]) -> Iterator[Any]:
    """A page that fails the test for its problems."""
    page = browser.new_page(base_url=server.url)
    page.on("request", lambda r: None if r.url.startswith((server.url, "data:")) else problems.append(r.url))
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: problems.append(str(e)))
    yield page
    page.close()
    assert problems == []


def test_from_the_list_to_a_session(page: Any):
    page.goto("/")
    page.get_by_label("Find").fill("an")
    page.get_by_role("link", name="ann").click()
    page.wait_for_selector("#now dd >> text=How nice.")
    sessions = page.locator("ol.timeline > li")
    assert sessions.count() == 4
    last = sessions.nth(3)
    last.locator("summary").first.click()
    last.locator("dd").filter(has_text="forty bee hives").wait_for()


DROPPED = """([element, name, text]) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([text], name, { type: "text/plain" }));
  for (const kind of ["dragover", "drop"])
    element.dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));
}"""


@pytest.mark.parametrize("where", ["#import p", "h1"], ids=["on the form", "beside it"])
def test_a_file_dropped_is_imported_deleted_and_brought_back(page: Any, problems: list[str], where: str):
    chat = "[12/03/2024, 18:00:00] Yan: I keep bees.\n[12/03/2024, 18:01:00] Ann: Lovely!\n"
    for name in ("", "Yan"):
        page.goto("/")
        page.evaluate(DROPPED, [page.locator(where).first.element_handle(), "WhatsApp Chat - Ann.txt", chat])
        page.get_by_label("Your name in it").fill(name)
        page.get_by_role("button", name="Import").click()
        if not name:
            page.get_by_role("alert").filter(has_text="“Your name in it” is empty").wait_for()
            problems.clear()
    page.get_by_role("heading", name="Yan", exact=True).wait_for()
    page.locator("ol.timeline").filter(has_text="2 lines").wait_for()
    page.get_by_label("To delete it all").fill("Yan")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Undo").click()
    page.locator("ol.timeline").filter(has_text="2 lines").wait_for()
    page.get_by_label("To delete it all").fill("Yan")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Undo").wait_for()


def test_search_as_one_types(page: Any):
    page.goto("/")
    page.get_by_label("Find").fill("zzz")
    page.get_by_text("No one with that name.").wait_for()


def test_a_reply_that_appears_while_the_page_is_open(page: Any, server: ServerProcess):
    page.goto("/people/ann")
    page.wait_for_selector("#now dd")
    server.chat("I also keep wasps.", "ann")
    page.locator("#now dd").filter(has_text="wasps").wait_for()


def test_what_has_not_changed_is_not_read_out_again(page: Any):
    page.clock.install()
    page.goto("/people/ann")
    page.wait_for_selector("#now dd")
    page.evaluate("document.querySelector('#now dl').dataset.here = 'yes'")
    with page.expect_response(lambda response: "/live" in response.url) as answered:
        page.clock.run_for(3500)
    assert answered.value.status == 204
    assert page.locator("#now dl[data-here=yes]").count() == 1


def test_a_refused_change_is_reported_next_to_it(page: Any, problems: list[str]):
    page.goto("/people/ann/sessions/1")
    memory = page.locator("article.memory").last
    page.evaluate("document.querySelectorAll('input[name=csrf]').forEach(e => { e.value = 'old' })")
    memory.get_by_role("button", name=re.compile("^Pin")).click()
    memory.get_by_role("alert").filter(has_text="reload the page").wait_for()
    assert memory.get_by_role("button", name=re.compile("^Pin")).count() == 1
    assert [problem for problem in problems if "403" not in problem] == []
    problems.clear()


def test_why_a_reply(page: Any):
    page.goto("/people/ann")
    page.locator("#now").get_by_role("link", name="why?").first.click()
    page.get_by_text("The prompt as sent").click()
    assert "You are Sam" in page.locator("pre").first.inner_text()


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    """A server with keys, and the key of a tenant."""
    folder = tmp_path_factory.mktemp("keyed")
    config = light_config(folder, generator="How nice.", extractor="I keep bees.")
    key = run_real("keys", "create", "home", "--store", folder / "s.db").out.split()[-1]
    with ServerProcess("-c", config, "--store", folder / "s.db", folder=folder) as server:
        said = {"utterances": [{"text": "I keep forty bee hives."}], "end_session": True}
        server.post("/v1/memory/people/ann/observe", said, Authorization=f"Bearer {key}")
        yield server, key


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
@pytest.mark.parametrize("with_key", [False, True], ids=["no keys", "keys"])
def test_every_button_works(browser: Any, request: pytest.FixtureRequest, with_key: bool, scripts: bool):
    server, key = request.getfixturevalue("keyed") if with_key else (request.getfixturevalue("server"), "")
    page = browser.new_page(base_url=server.url, java_script_enabled=scripts)
    if with_key:
        page.goto("/")
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Log in").click()
    page.goto("/")
    page.get_by_role("link", name="ann").click()
    page.locator("ol.timeline > li").last.locator("summary").first.click()
    if not scripts:
        page.get_by_role("link", name="Open session 1", exact=True).click()
    press(page, "Pin", "pinned")
    press(page, "Unpin", "Pin")
    memory = page.locator("article.memory").last
    memory.get_by_text("Edit").click()
    memory.get_by_label("Text").fill("Ann keeps sixty hives.")
    press(page, "Save", "Ann keeps sixty hives.")
    if scripts:
        press(page, "Undo", "Taken back.")
        press(page, "Redo", "Ann keeps sixty hives.")
    page.goto("/people/ann")
    if not scripts:
        page.get_by_role("button", name="Undo the latest change").click()
        page.get_by_text("Ann keeps sixty hives.").first.wait_for()  # what it said before
    page.goto("/people/ann/search")
    page.get_by_label("Ask, or search").fill("hives")
    page.get_by_role("button", name="Search", exact=True).click()
    page.locator("mark").first.wait_for()
    page.get_by_role("link", name="Talk").click()
    page.get_by_label("Say something").fill("I also keep ants.")
    page.get_by_role("button", name="Send").click()
    page.locator("#lines .agent").filter(has_text="How nice.").last.wait_for()
    said = {"utterances": [{"text": "I row."}], "end_session": True}
    server.post("/v1/memory/people/zoe/observe", said, **({"Authorization": f"Bearer {key}"} if key else {}))
    page.goto("/people/zoe/sessions/1")
    page.locator("article.memory").last.get_by_text("Forget", exact=True).click()
    page.get_by_role("button", name=re.compile("^Forget for good")).click()
    page.locator("article.memory").wait_for(state="detached")
    if scripts:
        assert page.evaluate("document.activeElement.textContent") == "Forgotten."
    page.goto("/people/zoe")
    page.get_by_label("To delete it all").fill("zoe")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("link", name="ann").wait_for()
    assert page.get_by_role("link", name="zoe").count() == 0
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("heading", name="zoe", exact=True).wait_for()
    page.get_by_label("To delete it all").fill("zoe")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Undo").wait_for()
    if with_key:
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("API key").wait_for()
    page.close()


def press(page: Any, name: str, shown: str) -> None:
    """Press a button of the oldest memory, and wait for what it then shows."""
    page.locator("article.memory").last.get_by_role("button", name=re.compile(f"^{name}")).click()
    shown_now = re.compile(rf"\b{re.escape(shown)}")  # by case, so that "Unpin" does not pass for "Pin"
    page.locator("article.memory").last.filter(has_text=shown_now).wait_for()


def test_talking_with_the_memory_beside(page: Any):
    page.goto("/talk?person=ann")
    beside = page.locator("#beside")
    beside.locator("h2").first.wait_for()  # of the last reply, which the next one's takes the place of
    page.evaluate("document.querySelector('#beside h2').dataset.earlier = 'yes'")
    page.keyboard.type("What about my bee hives?")  # the field has the focus
    page.keyboard.press("Enter")
    page.locator("#lines .line").last.filter(has_text="How nice.").wait_for()
    beside.locator("[data-earlier]").wait_for(state="detached")
    beside.get_by_text("Because you said").first.wait_for()
    page.locator("#learned").get_by_text("Nothing new about you.").wait_for()  # it was told before
    assert page.evaluate("document.activeElement.id") == "text"
    memory = beside.locator("article").first
    memory.get_by_role("button", name=re.compile("^Pin")).click()
    memory.get_by_role("button", name=re.compile("^Unpin")).click()
    memory.get_by_role("button", name=re.compile("^Pin")).wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Pin"


def test_the_memory_of_an_earlier_reply_does_not_come_late(page: Any):
    page.goto("/talk?person=ann")
    page.keyboard.type("What about my bee hives?")
    page.keyboard.press("Enter")
    page.locator("#beside").get_by_text("Because you said").first.wait_for()
    page.goto("about:blank")  # the first page asks again while something is being learned
    held: list[Any] = []
    page.route("**/beside/**", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/beside/**"):  # of the last reply
        page.goto("/talk?person=ann")
    with page.expect_event("requestfailed", lambda request: request == held[0].request):
        page.keyboard.type("Do I keep bees?")
        page.keyboard.press("Enter")
    page.locator("#beside").get_by_text("Because you said").first.wait_for()


def test_somebody_new_is_known_after_the_first_reply(page: Any):
    page.goto("/talk?person=neo")
    assert page.get_by_role("link", name="Traits").count() == 0
    page.keyboard.type("I keep wasps.")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Traits").click()
    page.get_by_role("heading", name="Animals").wait_for()


def test_a_reply_that_is_stopped_and_one_that_fails(page: Any, problems: list[str]):
    page.goto("/talk?person=ann")
    page.route("**/talk", lambda route: None)  # never answered
    page.get_by_label("Say something").fill("Tell me more.")
    page.keyboard.press("Enter")
    page.locator(".thinking").wait_for()
    page.keyboard.press("Escape")
    page.get_by_text(", stopped").last.wait_for()
    page.unroute_all()
    page.route("**/talk", lambda route: route.abort())
    page.get_by_label("Say something").fill("Are you there?")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("alert").filter(has_text="the server cannot be reached").wait_for()
    page.unroute_all()
    problems.clear()
    page.get_by_role("button", name="Try again").click()
    page.locator("#lines .line").last.filter(has_text="How nice.").wait_for()
    assert page.locator("#lines .line").filter(has_text="Are you there?").count() == 1
    assert page.get_by_role("alert").count() == 0


def test_times_are_the_readers(browser: Any, server: ServerProcess):
    page = browser.new_page(base_url=server.url, timezone_id="Asia/Tokyo")
    page.goto("/people/ann")
    page.get_by_text("1 Jan 2024, 19:00").wait_for()
    assert "Asia/Tokyo" in page.locator("footer").inner_text()
    page.close()


def test_by_keyboard_alone(page: Any):
    page.goto("/people/ann")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    seen = []
    for _ in range(12):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.textContent.trim()"))
    assert {"Talk", "About", "Traits", "Search"} <= set(seen)


def test_a_phone_shows_it_without_scrolling_sideways(page: Any):
    page.set_viewport_size({"width": 360, "height": 740})
    for path in ("/", "/people/ann", "/people/ann/traits", "/people/ann/search?q=hives", "/talk?person=ann"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


@pytest.mark.parametrize(("scheme", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(21, 23, 26)")])
def test_light_and_dark(page: Any, scheme: str, ground: str):
    page.emulate_media(color_scheme=scheme)
    page.goto("/")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground


@pytest.mark.skipif(not AXE.exists(), reason="needs axe: npm install --no-save axe-core")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page: Any, scheme: str):
    page.emulate_media(color_scheme=scheme)
    paths = ["/", "/people/ann", "/people/ann/traits", "/people/ann/search?q=hives", "/people/ann/sessions/1"]
    for path in [*paths, "/talk?person=ann", "/talk?person=new"]:
        page.goto(path)
        page.evaluate(AXE.read_text("utf-8"))
        found = page.evaluate("axe.run()")["violations"]
        assert [(path, rule["id"], rule["impact"], rule["nodes"][0]["html"]) for rule in found] == []


def test_what_a_screen_reader_meets_has_a_name(page: Any):
    for path in ("/", "/people/ann", "/people/ann/traits", "/people/ann/search?q=hives", "/talk?person=ann"):
        page.goto(path)
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("a, button, input:not([type=hidden]), textarea, meter, summary")]
                 .filter(e => !(e.getAttribute("aria-label") || e.textContent.trim() || (e.labels && e.labels.length)))
                 .map(e => e.outerHTML)"""
        )
        assert nameless == []
        assert page.locator("h1").count() == 1
        assert page.locator("main").count() == 1
