"""Files that come to the page and people who leave it: imports that fail half-way, deletion with undo, all at once."""

import asyncio
import io
import json
import re
import threading
import zipfile
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from server_parts import NDJSON, Client, Served

from ld_agent.backbones.base import Request
from ld_agent.conversation import Conversation
from ld_agent.errors import StoreError
from ld_agent.server import page, service

pytestmark = pytest.mark.anyio
NOW = datetime(2024, 5, 1, tzinfo=UTC)
CHAT = b"[01.03.24, 10:00:00] Zoe: I bake bread.\r\n[01.03.24, 10:01:00] Bob: Nice!\r\n"
BROWSER = {"Accept": "text/html"}


async def token(client: Client) -> dict[str, str]:
    [found] = set(re.findall(r'name="csrf" value="([^"]+)"', (await client.get("/")).text))
    return {"csrf": found}


async def uploaded(
    client: Client, content: bytes, name: str = "_chat.txt", kind: str = "text/plain", person: str = "Zoe"
) -> httpx.Response:
    """Import a file, as a browser sends it, but with a name and type that none would."""
    fields = "".join(
        f'--=B\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in (await token(client) | {"person": person}).items()
    )
    file = f'--=B\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: {kind}\r\n\r\n'
    headers = BROWSER | {"Content-Type": "multipart/form-data; boundary==B"}
    body = fields.encode() + file.encode() + content + b"\r\n--=B--\r\n"
    return await client.post("/import", content=body, headers=headers)


async def deleted(client: Client, form: dict[str, str]) -> httpx.Response:
    return await client.post("/people/ann/delete", data=form | {"name": "ann"})


# ---- imports


@pytest.mark.parametrize("name", ["..", "a\0b.txt", "x" * 300 + ".txt", "", "Zoë's chat.txt"])
async def test_a_file_may_have_any_name(client: Client, name: str):
    brought = await uploaded(client, CHAT, name)
    assert (brought.status_code, await client.said("Zoe")) == (303, ["I bake bread.", "Nice!"])


async def test_an_import_that_is_still_to_be_read_says_so(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Conversation, "learn_later", lambda self: None)
    await uploaded(client, CHAT)
    assert "2 lines still to be read." in (await client.get("/people/Zoe")).text


@pytest.mark.parametrize("kind", ["message/rfc822", "multipart/mixed; boundary=x", "multipart/digest", "nonsense"])
async def test_a_file_may_have_any_type(client: Client, kind: str):
    brought = await uploaded(client, CHAT, kind=kind)
    assert (brought.status_code, await client.said("Zoe")) == (303, ["I bake bread.", "Nice!"])


async def test_an_archive_is_bounded_by_what_it_unpacks_to(client: Client, monkeypatch):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_chat.txt", CHAT * 1000)
    monkeypatch.setattr(service, "UNPACKED", 999 * len(CHAT))
    refused = await uploaded(client, packed.getvalue(), "chat.zip")
    assert (refused.status_code, f"chat.zip holds {1000 * len(CHAT)} bytes of text" in refused.text) == (400, True)
    monkeypatch.setattr(service, "UNPACKED", 1000 * len(CHAT))
    assert (await uploaded(client, packed.getvalue(), "chat.zip")).status_code == 303


async def test_a_file_without_a_message_makes_nobody(client: Client):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:  # whole at its beginning, by which a format is recognised
        archive.writestr("_chat.txt", CHAT * 1000)
    damaged = packed.getvalue().replace(CHAT, CHAT.replace(b"Nice!", b"Nasty"))
    refused = await uploaded(client, damaged, "chat.zip")
    assert (refused.status_code, "cannot be read" in refused.text) == (400, True)
    refused = await uploaded(client, b"[01.03.24, 10:00:00] Zoe: \r\n")
    assert (refused.status_code, "_chat.txt holds no messages" in refused.text) == (400, True)
    assert (await client.get("/people/Zoe")).status_code == 404


async def test_what_comes_before_an_error_is_kept_learned_and_counted(client: Client):
    said = [{"from": "Zoe", "from_id": "u1", "text": f"I bake bread {n}.", "type": "message"} for n in range(3)]
    rows = [row | {"id": n, "date": f"2024-03-01T10:0{n}:00"} for n, row in enumerate(said)]
    whole = json.dumps({"name": "Bob", "type": "personal_chat", "id": 1, "messages": rows})
    refused = await uploaded(client, whole[: whole.index("bread 2")].encode(), "result.json")
    assert (refused.status_code, "2 messages before that were stored" in refused.text) == (400, True)
    key = client.service.agent.store.open_conversation("Zoe", "Sam").key
    while client.service.agent.store.to_learn(key):
        await asyncio.sleep(0)
    assert (await uploaded(client, whole.encode(), "result.json")).status_code == 303
    assert await client.said("Zoe") == [f"I bake bread {n}." for n in range(3)]


async def test_of_two_imports_at_once_one_is_told_that_the_person_exists(client: Client):
    await client.chat("I keep bees.")
    exported = (await client.get("/v1/memory/people/ann/export")).content
    imports = [client.post("/v1/memory/people/bo/import", content=exported, headers=NDJSON) for _ in range(2)]
    answers = await asyncio.gather(*imports)
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert {answer.json().get("error", {}).get("code") for answer in answers} == {None, "person_exists"}


async def test_a_file_that_is_too_large_or_late_is_answered_with_a_page(client: Client):
    large = {"data": await token(client), "files": {"file": ("x.txt", b"x" * 17_000_000)}, "headers": BROWSER}
    refused = await client.post("/import", **large)
    assert (refused.status_code, '<p role="alert"' in refused.text) == (413, True)
    key = client.service.keys.create("a", ["memory"], None, NOW)
    await client.post("/login", data={"key": key})
    client.service.keys.revoke(key[:12], NOW)
    late = await client.post("/import", **large)
    assert (late.status_code, late.headers["location"]) == (303, "/login")
    part = await client.post("/import", **large | {"headers": {"HX-Request": "true"}})
    assert (part.status_code, part.headers["hx-redirect"]) == (401, "/login")
    refused = await client.post("/login", data={"key": "x" * 100_000}, headers=BROWSER)
    assert (refused.status_code, '<p role="alert"' in refused.text) == (413, True)


# ---- deletion and undo


async def test_undo_brings_back_the_turn_that_the_deletion_waited_for(served: Served):
    go_on = threading.Event()

    def generator(request: Request) -> str:
        assert "slow" not in request.messages[-1].content or go_on.wait(20)
        return "How nice."

    async with served({"generator": generator}) as client:
        await client.chat("I keep bees.")
        form = await token(client)
        slow = asyncio.create_task(client.chat("I am slow."))
        while not any("slow" in r.messages[-1].content for r in client.backbone.requests):
            await asyncio.sleep(0)
        deletion = asyncio.create_task(deleted(client, form))
        for _ in range(50):
            await asyncio.sleep(0.001)
        go_on.set()
        assert ((await slow).status_code, (await deletion).status_code) == (200, 303)
        assert await client.said() == []
        undone = await asyncio.gather(*(client.post("/undo", data=form | {"person": "ann"}) for _ in range(2)))
        assert sorted(answer.status_code for answer in undone) == [303, 404]
        assert await client.said() == ["I keep bees.", "How nice.", "I am slow.", "How nice."]


async def test_a_copy_does_not_outlive_its_time_when_the_deletion_fails(client: Client, monkeypatch):
    await client.chat("I keep bees.")
    form, kept = await token(client), copies(client)
    monkeypatch.setattr(page, "UNDO", 0)

    def failing(key: int) -> None:
        raise StoreError("the rows are deleted, but the log is not", "store.db")

    monkeypatch.setattr(client.service.agent.store, "delete_conversation", failing)
    assert (await deleted(client, form)).status_code == 503
    for _ in range(3):
        await asyncio.sleep(0)
    assert kept == {}


async def test_undo_asks_no_clock_and_keeps_its_copy_if_it_fails(client: Client):
    await client.chat("I keep bees.")
    form = await token(client) | {"person": "ann"}
    await deleted(client, form)
    client.service.agent.clock.at -= timedelta(days=900)  # type: ignore[attr-defined]
    await client.chat("I am new.")
    assert (await client.post("/undo", data=form)).status_code == 409
    await client.service.delete("ann")
    assert (await client.post("/undo", data=form)).status_code == 303
    assert (await client.said())[0] == "I keep bees."
    assert copies(client) == {}


def copies(client: Client) -> Any:
    return client._transport.app.state.deleted  # type: ignore[attr-defined]
