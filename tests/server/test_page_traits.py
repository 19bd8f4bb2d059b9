"""The page's traits: by theme, with what they replaced; and an edit that is taken back where it was made."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from server_parts import Client

NOW = datetime(2024, 3, 1, tzinfo=UTC)
pytestmark = pytest.mark.anyio
TOLD = {
    "I keep forty bee hives.": "Animals",
    "I teach maths at a school in Ghent.": "Work and study",
    "My brother Luc lives in Lille.": "Family and friends",
    "I am allergic to penicillin.": "Health",
    "I am going to Rome next summer.": "Plans and wishes",
    "Qwz 77 xx.": "Other",
}


async def told(client: Client, *texts: str) -> None:
    said = [{"text": text, "speaker": "Ann", "at": "2024-03-01T10:00:00+00:00"} for text in texts]
    await client.post("/v1/memory/people/ann/observe", json={"utterances": said, "end_session": True})
    client.service.agent.conversation("ann").traits()  # learned by now


async def pressed(client: Client, target: str, action: str, **fields: str) -> str:
    """Press a button beside a memory, as htmx does."""
    token = re.search(r'name="csrf" value="([^"]+)"', (await client.get("/people/ann/traits")).text)
    assert token
    sent = {"csrf": token[1], **fields}
    path = f"/people/ann/memories/{target}/{action}"
    return (await client.post(path, data=sent, headers={"HX-Request": "true"})).text


async def test_traits_stand_under_what_they_are_about(client: Client):
    await told(client, "I keep forty bee hives.")
    conversation = client.service.agent.conversation("ann")
    shelf = conversation.relation.resources.store.personas(conversation.key)
    for text in list(TOLD)[1:]:
        shelf.add("Ann", text, NOW, "", conversation.relation.encoder.encode([text])[0])
    page = (await client.get("/people/ann/traits")).text
    shown = re.findall(r'<h3>(.*?)</h3>|<p class="text">(.*?)</p>', page)
    theme, under = "", {}
    for heading, text in shown:
        theme = heading or theme
        under |= {text: theme} if text else {}
    assert under == TOLD
    assert len(re.findall("<h3>", page)) == len(set(TOLD.values()))


async def test_what_a_trait_replaced_is_folded_under_it(client: Client):
    await told(client, "I live in Ghent.", "I live in Bruges.", "I live in Antwerp now.")
    conversation = client.service.agent.conversation("ann")
    first, second, third = conversation.traits()
    shelf = conversation.relation.resources.store.personas(conversation.key)
    for old, new in ((first, second), (second, third)):
        shelf.update(replace(old, superseded_by=new.id, ended_by=new.source))
    page = (await client.get("/people/ann/traits")).text
    assert re.findall(r'<p class="text">(.*?)</p>', page) == [
        "I live in Antwerp now.",
        "I live in Bruges.",
        "I live in Ghent.",
    ]
    assert "<summary>Before: <q>I live in Bruges.</q> and 1 more</summary>" in page
    assert page.count("<h3>") == 1


async def test_an_edit_is_undone_beside_it_until_something_else_was_changed(client: Client):
    await told(client, "I keep forty bee hives.", "I row on Sundays.")
    edited = await pressed(client, "t1", "edit", text="I keep sixty bee hives.")
    assert "/people/ann/memories/t1/undo" in edited
    assert "I keep forty bee hives." in await pressed(client, "t1", "undo")
    assert "I keep sixty bee hives." in await pressed(client, "t1", "undo")
    await pressed(client, "t2", "edit", text="I row on Mondays.")
    assert "something else was changed since" in await pressed(client, "t1", "undo")
    about = (await client.get("/people/ann")).text
    [target] = re.findall(r'action="/people/ann/memories/(\w+)/undo"', about)
    assert target in ("t2", "u2")
    assert "I row on Sundays." in await pressed(client, "t2", "undo")
    await pressed(client, "t2", "forget")
    assert "/undo" not in (await client.get("/people/ann")).text
