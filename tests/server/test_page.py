"""The page, as its server answers: who may see it, what its forms do, and that what people said stays text."""

import re
import time
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from server_parts import Client, Served, events

from ld_agent.languages import ENGLISH
from ld_agent.server.page_data import marked

pytestmark = pytest.mark.anyio
NOW = datetime(2024, 5, 1, tzinfo=UTC)


async def remembered(client: Client, person: str = "ann", text: str = "I keep forty bee hives.") -> None:
    said = {"utterances": [{"text": text, "speaker": "Ann", "at": "2024-03-01T10:00:00+00:00"}], "end_session": True}
    assert (await client.post(f"/v1/memory/people/{person}/observe", json=said)).status_code == 200


async def csrf(client: Client, path: str = "/people/ann/traits") -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', (await client.get(path)).text)
    assert found
    return found[1]


async def test_every_page_is_shown_and_needs_nothing_from_elsewhere(client: Client):
    await remembered(client)
    await client.chat("How are my bees?", thread=None)
    about = (
        "",
        "/live",
        "/sessions/1",
        "/traits",
        "/search?q=hives",
        "/beside/u3",
        "/replies/u3",
        "/replies/u99",
        "?before=2",
    )
    pages = ["", "/talk?person=ann", "/talk?person=new", *(f"/people/ann{path}" for path in about)]
    for path in pages:
        page = await client.get(path or "/")
        assert page.status_code == 200, path
        assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", page.text)
        assert " style=" not in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
    assert (await client.get("/people/nobody")).status_code == 404
    for path in pages:
        page = await client.get(path or "/")
        parts = [await client.get(part) for part in set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text))]
        assert {part.status_code for part in parts} <= {200}
        assert transferred(page, *parts) < 100_000, path


def transferred(*responses: httpx.Response) -> int:
    """Bytes of bodies, compressed where they are."""
    return sum(int(response.headers.get("content-length") or response.num_bytes_downloaded) for response in responses)


async def test_a_person_with_many_traits_and_replies_is_as_quick_to_load(served: Served):
    async with served({"generator": "How nice."}) as client:
        said = [
            {"text": f"I like thing number {number} very much on Sundays.", "speaker": "User" if number < 90 else "Bob"}
            for number in range(120)
        ]
        await client.post("/v1/memory/people/ann/observe", json={"utterances": said})
        await client.chat("Hello.", thread=None)
        client.service.agent.conversation("ann").traits()  # learned by now
        path, shown, headings = "/people/ann/traits", 0, []
        page = await client.get(path)
        parts = [await client.get(part) for part in set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text))]
        assert transferred(page, *parts) < 100_000
        assert min([await loaded(client, path) for _ in range(5)]) < 0.15
        while path:
            page = (await client.get(path, headers={"HX-Request": "true"} if "?" in path else {})).text
            shown += page.count('class="memory"')
            headings += re.findall("<h[23]>(.*?)</h[23]>", page)
            following = re.search(r'hx-get="([^"]+/traits[^"]+)"', page)
            path = following[1] if following else ""
        assert (shown, [heading for heading in headings if heading in ("User", "Bob")]) == (120, ["User", "Bob"])
        themes = headings[1 : headings.index("Bob")]
        assert len(themes) == len(set(themes)) > 1  # none begins again on a later part


async def test_what_is_shown_explains_a_recall_and_a_reply(served: Served):
    async with served(**{"memory.gamma": -1.0}) as client:
        await remembered(client, text="So much to do. I keep forty bee hives.")
        asked = (await client.get("/people/ann/search?q=What+about+the+hives")).text
        assert "Because Ann said <q>I keep forty bee hives.</q>" in asked
        assert re.findall("<em>(.*?)</em>", asked) == ["hives"]
        sure, words = re.search(r'<meter [^>]*value="(0\.\d+)".*?</meter> <span[^>]*>(.*?)<', asked, re.S).groups()
        assert (0.2 < float(sure) < 1, words) == (True, "a strong match" if float(sure) >= 0.5 else "a fair match")
        assert re.search(r"the memory means the same <span class=\"dim\">s_sem</span></th><td[^>]*>0\.\d+", asked)
        assert "overall = 0.95 s_sem" in asked
        await client.chat("How are my bees?", thread=None)
        why = (await client.get("/people/ann/replies/u3")).text
        assert "You are Sam" in why
        assert "How are my bees?" in why
        assert "Because you said <q>I keep forty bee hives.</q>" in (await client.get("/people/ann/beside/u3")).text


async def test_what_only_the_running_session_knows_is_found(client: Client):
    await client.chat("My dog is called Biscuit.")
    asked = (await client.get("/people/ann/search?q=What+is+my+dog+called")).text
    assert "said <q>My dog is called Biscuit.</q>" in asked
    assert re.findall("<em>(.*?)</em>", asked) == ["dog", "called"]
    assert "required>My dog is called Biscuit.</textarea>" in asked
    said = asked.partition("Said in these words")[2]
    assert "My <mark>dog</mark> is <mark>called</mark> Biscuit." in said  # all words that carry meaning, in any order
    assert "Nobody used" in (await client.get("/people/ann/search?q=dog+and+cat")).text


async def test_a_search_may_have_many_words(client: Client):
    await remembered(client, text="Seven 7 hives.")
    page = await client.get("/people/ann/search", params={"q": "7 " * 1000})
    assert (page.status_code, "hives" in page.text) == (200, True)


async def test_a_reply_says_what_was_left_out_and_why(served: Served):
    async with served(**{"memory.gamma": -1.0}) as client:
        await remembered(client)
        await client.chat("How are my bees?" + " Well?" * 4096, thread=None)
        why = (await client.get("/people/ann/replies/u3")).text
        assert "1 memories did not fit the model&#39;s window: m1" in why
        assert re.findall(r"(m\d), <strong>left out of the prompt or shortened", why) == ["m1"]
        asked = re.search(r'href="(/people/ann/search\?q=[^"]+)"', why)
        assert asked
        assert 'value="How are my bees? Well?' in (await client.get(asked[1])).text


async def test_a_session_shows_the_replies_that_recalled_it(served: Served):
    async with served(**{"memory.gamma": -1.0}) as client:
        await remembered(client)
        assert "Recalled later" not in (await client.get("/people/ann/sessions/1")).text
        for text in ("How are my bees?", "And the hives?"):
            await client.chat(text, thread=None)
        assert "recalled 2×" in (await client.get("/people/ann")).text
        shown = (await client.get("/people/ann/sessions/1")).text
        assert "Recalled later 2 times" in shown
        assert re.findall(r'href="(/people/ann/replies/u\d+)"><time datetime="2024-05-01T', shown) == [
            "/people/ann/replies/u5",
            "/people/ann/replies/u3",
        ]
        client.service.explained.clear()  # as after a restart
        why = (await client.get("/people/ann/replies/u3")).text
        assert "I keep forty bee hives." in why
        assert "You are Sam" not in why
        await client.delete("/v1/memory/people/ann/memories/m1")
        assert "Recalled later" not in (await client.get("/people/ann/sessions/1")).text
        assert "I keep forty bee hives." not in (await client.get("/people/ann/replies/u3")).text
        assert "There is no such reply." in (await client.get("/people/ann/replies/u99")).text


async def test_a_trait_says_when_it_ended_and_by_which_words(client: Client):
    await remembered(client)
    await remembered(client, text="I <gave> my hives away.")
    conversation = client.service.agent.conversation("ann")
    [trait, *_] = conversation.traits()
    said = conversation.utterances[-1]
    assert conversation.relation.bank.end(trait.id, said.at, said.id)
    page = (await client.get("/people/ann/traits")).text
    assert 'until <time datetime="2024-03-01T10:00:00+00:00">1 Mar 2024, 10:00</time>' in page
    assert f"Ended: “I &lt;gave&gt; my hives away.” ({said.id})" in page
    assert 'until <time datetime="2024-03-01T10' in (await client.get("/people/ann/sessions/1")).text
    assert trait.text not in (await client.get("/people/ann")).text.partition('<h2 id="live"')[0]
    conversation.replace([said.id], finished=True)
    assert "until" not in (await client.get("/people/ann/traits")).text


async def test_a_browser_is_shown_errors_as_a_page(client: Client):
    await remembered(client)
    browser = {"Accept": "text/html,*/*"}
    for path in ("/people/nobody", "/nowhere", "/people/ann?before=x"):
        page = await client.get(path, headers=browser)
        assert page.status_code in (400, 404)
        assert '<p role="alert"' in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "&lt;b&gt;" in (await client.get("/people/%3Cb%3E", headers=browser)).text
    part = await client.post("/people/ann/memories/m1/pin", data={}, headers=browser | {"HX-Request": "true"})
    assert (part.status_code, part.headers["hx-reswap"]) == (403, "beforeend")
    assert part.text.startswith('<p role="alert"')
    assert (await client.get("/v1/memory/people/nobody", headers=browser)).json()["error"]["type"] == "not_found_error"


async def test_the_running_session_is_sent_again_only_when_it_has_changed(client: Client):
    await client.chat("I keep bees.")
    seen = re.search(r'name="seen" value="([^"]+)"', (await client.get("/people/ann/live")).text)
    assert seen
    assert (await client.get("/people/ann/live", params={"seen": seen[1]})).status_code == 204
    await client.chat("And goats.")
    assert "And goats." in (await client.get("/people/ann/live", params={"seen": seen[1]})).text


async def test_what_people_said_stays_text(client: Client):
    script = "<script>alert(1)</script> \"quoted\" 'hives'"
    await remembered(client, "ann", script)
    await remembered(client, "<b>bob", "I keep bees.")
    about = ("", "/sessions/1", "/search?q=alert", "/search?q=<i>", "/traits")
    for path in ("/", "/talk?person=ann", "/talk?person=<b>bob", *(f"/people/ann{path}" for path in about)):
        page = (await client.get(path)).text
        assert "<script>alert" not in page
        assert "<b>bob" not in page
        assert "<i>" not in page


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        ("<b>Hives & goats</b>", "my hive <b>", "&lt;b&gt;<mark>Hives</mark> &amp; goats&lt;/b&gt;"),
        ("What a dog!", "What is my dog called?", "What a <mark>dog</mark>!"),
        ("Marathon", "rath", "<mark>Marathon</mark>"),
    ],
)
def test_words_that_carry_something_are_marked(text: str, query: str, shown: str):
    assert str(marked(text, query, ENGLISH.reading)) == shown


async def test_talking_is_a_turn_as_any_other(client: Client):
    token = {"csrf": await csrf(client, "/talk?person=ann"), "person": "ann"}
    assert (await client.post("/talk", data={"person": "ann", "text": "Hi."})).status_code == 403
    came = {"Referer": "http://localhost/talk?person=ann"}
    said = await client.post("/talk", data=token | {"text": "I keep bees."}, headers=came)
    assert (said.status_code, said.headers["location"]) == (303, "/talk?person=ann")
    away = await client.post("/talk", data=token | {"text": "And goats."}, headers={"Referer": "http://evil.example/x"})
    assert away.headers["location"] == "/"
    await client.chat("And wasps.", thread=None)  # the same session of the same person
    assert (await client.said())[::2] == ["I keep bees.", "And goats.", "And wasps."]
    assert client.service.agent.conversation("ann").speakers[0] == "ann"
    page = (await client.get("/talk?person=ann")).text
    assert [page.index(text) for text in ("I keep bees.", "And goats.", "And wasps.")]
    streamed = await client.post("/talk", data=token | {"text": "And ants."}, headers={"Accept": "text/event-stream"})
    last = [event for event in events(streamed) if "ld_agent" in event][-1]["ld_agent"]
    assert "I also keep" not in (beside := (await client.get(f"/people/ann/beside/{last['reply']}")).text)
    assert "Learned from it" in beside


async def test_a_key_that_may_not_chat_sees_the_memory_only(client: Client):
    await client.post("/login", data={"key": client.service.keys.create("a", ["memory"], None, NOW)})
    page = await client.get("/talk?person=ann")
    assert ("This key may not chat" in page.text, 'id="say"' in page.text) == (True, False)
    token = await csrf(client, "/")
    assert (await client.post("/talk", data={"csrf": token, "person": "ann", "text": "Hi."})).status_code == 403
    assert (await client.get("/people/ann")).status_code == 404


async def test_forms_of_other_sites_are_refused(client: Client):
    await remembered(client)
    for data in ({}, {"csrf": "guess"}):
        for path in ("/people/ann/memories/m1/forget", "/people/ann/delete"):
            assert (await client.post(path, data=data)).status_code == 403
    assert (await client.get("/v1/memory/people/ann")).status_code == 200


async def test_edit_and_pin(client: Client):
    await remembered(client)
    token = {"csrf": await csrf(client)}
    edited = await client.post(
        "/people/ann/memories/m1/edit", data=token | {"text": "Fifty hives."}, headers={"HX-Request": "true"}
    )
    assert "Fifty hives." in edited.text
    assert "<html" not in edited.text
    pinned = await client.post("/people/ann/memories/m1/pin", data=token)
    assert (pinned.status_code, pinned.headers["location"]) == (303, "/people/ann")
    assert "<strong>pinned</strong>" in (await client.get("/people/ann/sessions/1")).text


async def test_forgetting_and_deleting(client: Client):
    await remembered(client)
    token = {"csrf": await csrf(client)}
    forgotten = await client.post("/people/ann/memories/m1/forget", data=token, headers={"HX-Request": "true"})
    assert "Forgotten." in forgotten.text
    assert (await client.post("/people/ann/memories/m1/forget", data=token)).status_code == 404
    assert (await client.post("/people/ann/delete", data=token | {"name": "bob"})).status_code == 400
    about = (await client.get("/people/ann")).text
    assert re.search(
        r"Changed by hand</h2>.*2024-05-01T.*Forgotten: a memory</span> <span class=\"dim\">m1<", about, re.S
    )
    before = (await client.get("/v1/memory/people/ann/export")).text
    gone = await client.post("/people/ann/delete", data=token | {"name": "ann"})
    assert (gone.status_code, gone.headers["location"]) == (303, "/?deleted=ann")
    assert (await client.get("/v1/memory/people/ann")).status_code == 404
    assert "Undo" in (await client.get("/?deleted=ann")).text
    assert "Undo" not in (await client.get("/?deleted=bob")).text
    assert (await client.post("/undo", data=token | {"person": "ann"})).status_code == 303
    assert (await client.get("/v1/memory/people/ann/export")).text == before
    assert (await client.post("/undo", data=token | {"person": "ann"})).status_code == 404


async def test_a_file_is_imported(client: Client):
    await remembered(client, text="I keep “forty” hives.")
    exported = (await client.get("/people/ann/export")).content
    token = {"csrf": await csrf(client)}
    assert (await client.post("/import", data=token, files={"file": ("ann.jsonl", exported)})).status_code == 409
    copied = await client.post("/import", data=token | {"person": "eve"}, files={"file": ("ann.jsonl", exported)})
    assert (copied.status_code, copied.headers["location"]) == (303, "/people/eve")
    assert (await client.get("/v1/memory/people/eve/export")).content == exported.replace(
        b'"id": "ann"', b'"id": "eve"'
    )
    chat = b"[01.03.24, 10:00:00] Zoe: I bake bread.\r\n[01.03.24, 10:01:00] Bob: Nice!\r\n"
    brought = await client.post("/import", data=token | {"person": "Zoe"}, files={"file": ("_chat.txt", chat)})
    assert (brought.status_code, await client.said("Zoe")) == (303, ["I bake bread.", "Nice!"])
    refused = await client.post("/import", data=token | {"person": "Max"}, files={"file": ("x.txt", b"what is this")})
    assert (refused.status_code, "x.txt is in none of the known formats" in refused.text) == (400, True)
    assert (await client.get("/people/Max")).status_code == 404
    assert (await client.post("/import", files={"file": ("ann.jsonl", exported)})).status_code == 403


async def test_logging_in_and_out(client: Client):
    await remembered(client)
    key = client.service.keys.create("a", ["memory"], None, NOW)
    page = await client.get("/people/ann")
    assert (page.status_code, page.headers["location"]) == (303, "/login")
    assert (await client.post("/login", data={"key": "lda_wrong"})).status_code == 401
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    assert (await client.post("/login", data={"key": key}, headers=elsewhere)).status_code == 403
    into = await client.post("/login", data={"key": key})
    cookie = into.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    assert key not in cookie
    assert "No one yet" in (await client.get("/")).text  # ann is not this tenant's
    assert (await client.get("/people/ann")).status_code == 404
    assert (await client.get("/v1/memory/people")).status_code == 401  # the cookie is for the page alone
    await client.post("/logout", data={"csrf": await csrf(client, "/")})
    assert (await client.get("/")).status_code == 303


async def test_a_session_ends_with_its_key(client: Client):
    key = client.service.keys.create("a", ["memory"], None, NOW)
    await client.post("/login", data={"key": key})
    assert (await client.get("/")).status_code == 200
    client.service.keys.revoke(key[:12], NOW)
    assert (await client.get("/")).status_code == 303
    part = await client.get("/people/ann/live", headers={"HX-Request": "true"})
    assert (part.status_code, part.headers["hx-redirect"]) == (401, "/login")


async def test_a_key_without_the_scope_sees_nothing(client: Client):
    key = client.service.keys.create("a", ["chat"], None, NOW)
    await client.post("/login", data={"key": key})
    assert (await client.get("/")).status_code == 403


async def test_a_thousand_sessions_are_paged(client: Client):
    """Under the 150 ms that a first load may take, style and scripts included; the best of a few, since others work too."""
    store = client.service.agent.store
    key = store.open_conversation("ann", "Sam").key
    with store.writing(key):
        for number in range(1000):
            at = NOW + timedelta(days=number - 1000)
            for speaker in ("Ann", "Sam"):
                store.append(key, speaker, f"About {number}.", at, 3600, lambda: NOW)
            store.close_session(key)
    fastest = min([await loaded(client, "/people/ann") for _ in range(5)])
    assert fastest < 0.15
    before, shown = "", 0
    for _ in range(3):
        page = (await client.get(f"/people/ann{before}")).text
        shown += page.count("<li value=")
        [before] = re.findall(r'hx-get="/people/ann(\?before=\d+)"', page)
    assert (shown, before) == (45, "?before=956")


async def loaded(client: Client, path: str) -> float:
    """Seconds for a page and all its parts."""
    begun = time.perf_counter()
    page = (await client.get(path)).text
    for part in sorted(set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))):
        assert (await client.get(part)).status_code == 200
    return time.perf_counter() - begun
