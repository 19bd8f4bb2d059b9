"""The inspector page: shows memories, explains recalls and lets people correct them. Server-rendered HTML, no CDN."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import RedirectResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles

from ld_agent.conversation import Conversation
from ld_agent.revising.correcting import undoable
from ld_agent.server import page_data, talk
from ld_agent.server.errors import ApiError
from ld_agent.server.identity import address_of
from ld_agent.server.logins import NotLoggedInError, fields_of, form_of
from ld_agent.server.page_frame import HERE, SECURITY, About, Visitor, back, error_page, shown
from ld_agent.server.service import Known
from ld_agent.types import Recalled, Utterance

PEOPLE = 50
MOST_MATCHES = 50
RECALLED = 10
TRAITS = 40
FORMAT = b"ld_agent.memory"
"""What the first line of an export says."""
UNDO = 600
"""Seconds for which a deleted person can be restored."""
router = APIRouter(include_in_schema=False)


def install(app: FastAPI) -> None:
    """Add the page to the application."""
    app.include_router(router)
    app.include_router(talk.router)
    # Pages are not compressed: their lengths would tell about the tokens in them.
    app.mount("/static", GZipMiddleware(StaticFiles(directory=HERE / "static"), compresslevel=6))

    app.state.error_page = error_page
    app.state.deleted = dict[str, list[bytes]]()

    @app.exception_handler(NotLoggedInError)
    async def log_in(request: Request, exc: NotLoggedInError) -> Response:
        if "hx-request" in request.headers:  # the whole page goes there, not the part that was asked for
            return Response(status_code=401, headers=SECURITY | {"HX-Redirect": "/login"})
        return RedirectResponse("/login", 303)


# ---- logging in


@router.get("/login")
async def login_page(request: Request) -> Response:
    return shown(request, "login.html", None, wrong=False)


@router.post("/login")
async def log_in(request: Request) -> Response:
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise ApiError(403, "this log-in comes from another site; open /login here", "cross_site")
    request.app.state.attempts.count_of(address_of(request))
    fields = await fields_of(request)
    key = request.app.state.service.keys.find(fields.get("key", "").strip())
    if key is None:
        return shown(request, "login.html", None, 401, wrong=True)
    response = RedirectResponse("/", 303)
    request.app.state.logins.begin(key, response, request.url.scheme == "https")
    return response


@router.post("/logout")
async def log_out(request: Request, login: Visitor) -> Response:
    await form_of(request, login)
    response = RedirectResponse("/login", 303)
    request.app.state.logins.end(request, response)
    return response


# ---- viewing


@router.get("/")
def people(
    request: Request,
    login: Visitor,
    q: Annotated[str, Query(max_length=200)] = "",
    after: Annotated[str, Query(max_length=200)] = "",
    deleted: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    prefix = login.caller.prefix
    restorable = deleted if prefix + deleted in request.app.state.deleted else ""
    page = request.app.state.service.directory.people(prefix, prefix + after, PEOPLE + 1, q)
    listed = [(login.caller.person(one.id), one) for one in page[:PEOPLE]]
    following = listed[-1][0] if len(page) > PEOPLE else ""
    part = "_people.html" if "hx-request" in request.headers else "people.html"
    return shown(request, part, login, people=listed, q=q, following=following, deleted=restorable)


@router.get("/people/{person}")
def timeline(about: About, before: Annotated[int | None, Query(ge=1, le=2**62)] = None) -> Response:
    """Who a person is, what was said, and what was changed by hand."""
    whose = about.whose
    entries, following = page_data.timeline(whose, before)
    if about.is_part:
        return about.show("_sessions.html", entries=entries, following=following)
    name, facts = page_data.held(whose)
    changes = whose.store.changes(whose.key)
    values = {
        "name": name,
        "facts": facts,
        "unread": whose.store.to_learn(whose.key),
        "changes": changes[: -MOST_MATCHES - 1 : -1],
        "undo": next((change.target for change in reversed(undoable(changes))), ""),
        **page_data.live(whose, about.explained()),
    }
    return about.show("about.html", entries=entries, following=following, tab="about", **values)


@router.get("/people/{person}/live")
def live(about: About, seen: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The current state of the latest session, for an open page; 204: unchanged, so that screen readers stay silent."""
    values = page_data.live(about.whose, about.explained())
    return (
        Response(status_code=204, headers=SECURITY) if seen == values["state"] else about.show("_live.html", **values)
    )


@router.get("/people/{person}/sessions/{number}")
def session(about: About, number: int) -> Response:
    """What was said in a session, what it became, and which replies recalled it."""
    [values] = page_data.opened(about.whose, [number])
    part = "_session.html" if about.is_part else "session.html"
    return about.show(part, number=number, explained=about.explained(), tab="about", **values)


@router.get("/people/{person}/traits")
async def traits(about: About, after: Annotated[int, Query(ge=0, le=2**62)] = 0) -> Response:
    """Traits by speaker and theme, first those that hold now, each with what it replaced."""
    whose, service = about.whose, about.whose.service
    conversation = await service.open(whose.id, "")
    told = await service.brief(lambda: page_data.told(whose, conversation))
    page = told[after : after + TRAITS]
    ended_by = [trait.ended_by for one in page for trait in (one.trait, *one.before) if trait.ended_by]
    previous = told[after - 1] if after and about.is_part and page else None  # its headings are on the page already
    values: dict[str, Any] = {
        "told": page,
        "speaker": previous.trait.speaker if previous else "",
        "theme": previous.theme if previous else "",
        "following": after + TRAITS if after + TRAITS < len(told) else 0,
        "ends": await service.brief(lambda: whose.store.utterances_by_id(whose.key, ended_by)),
    }
    return about.show("_traits.html" if about.is_part else "traits.html", tab="traits", **values)


@router.get("/people/{person}/search")
async def search(about: About, q: Annotated[str, Query(max_length=2000)] = "") -> Response:
    """What a text would recall, and why; then the lines that contain its words."""
    whose, service, text = about.whose, about.whose.service, q.strip()
    conversation = await service.open(whose.id, "")
    reading = conversation.relation.models.language.reading
    hits, why, said = list[Recalled](), list[page_data.Because](), list[Utterance]()
    if text:
        hits = await service.inside(conversation, lambda: conversation.recall(text, k=RECALLED))
        why = await service.brief(lambda: page_data.because(whose, conversation, text, hits))
        said = await service.brief(
            lambda: service.directory.search(whose.key, page_data.words_in(text, reading), MOST_MATCHES)
        )
    mark = partial(page_data.marked, query=text, reading=reading)
    return await service.brief(lambda: about.show("search.html", q=q, because=why, said=said, mark=mark, tab="search"))


@router.get("/people/{person}/replies/{utterance}")
async def reply(about: About, utterance: str) -> Response:
    whose, service = about.whose, about.whose.service
    explained = service.explained.get((whose.id, utterance))
    conversation = await service.open(whose.id, "")
    hits = explained.recalled if explained else whose.store.recalled_by(whose.key, [utterance])[utterance]
    query = explained.heard.text if explained else ""
    return await service.brief(
        lambda: about.show(
            "reply.html",
            reply=explained,
            said=whose.store.utterances_by_id(whose.key, [utterance]).get(utterance),
            because=page_data.because(whose, conversation, query, hits),
            shown=page_data.in_prompt(explained) if explained is not None else set(),
            tab="about",
        )
    )


@router.get("/people/{person}/export")
def export(about: About) -> Response:
    name = quote(about.whose.person, safe="")
    headers = SECURITY | {"Content-Disposition": f"attachment; filename*=UTF-8''{name}.jsonl"}
    return StreamingResponse(about.whose.exported(), media_type="application/x-ndjson", headers=headers)


# ---- changing


@router.post("/people/{person}/memories/{target}/{action}")
async def change(about: About, target: str, action: str) -> Response:
    """Edit, pin, unpin or forget a record, trait or utterance, or undo the latest of that; show the result."""
    fields, whose = await form_of(about.request, about.login), about.whose
    changes: dict[str, Callable[[Conversation], None]] = {
        "edit": lambda conversation: conversation.edit(target, fields.get("text", "")),
        "pin": lambda conversation: conversation.pin(target),
        "unpin": lambda conversation: conversation.pin(target, False),
        "forget": lambda conversation: conversation.forget(target),
        "undo": lambda conversation: _undo(whose, conversation, target),
    }
    if action not in changes:
        raise ApiError(404, f"no action {action[:40]!r}; edit, pin, unpin, undo or forget", "unknown_action")
    await whose.service.change(whose, target, changes[action])
    if not about.is_part:
        return back(about.request, f"/people/{quote(whose.person, safe='')}")
    return await whose.service.brief(lambda: about.show("_memory.html", memory=_memory(whose, target), focus=action))


def _undo(whose: Known, conversation: Conversation, target: str) -> None:
    """Take back the latest change by hand if that is the one whose button was pressed."""
    if target not in {change.target for change in undoable(whose.store.changes(whose.key))}:
        raise ApiError(409, "something else was changed since; the newest change is undone first", "changed_since")
    conversation.undo()


def _memory(whose: Known, target: str) -> Any:
    """A record, trait or utterance by its id; None: it is gone."""
    if target.startswith("u"):
        return whose.store.utterances_by_id(whose.key, [target]).get(target)
    traits = whose.store.traits(whose.key) if target.startswith("t") else []
    return next((memory for memory in traits or whose.store.records(whose.key) if memory.id == target), None)


@router.post("/people/{person}/delete")
async def delete(about: About) -> Response:
    """Delete a person whose name was typed; for a while the server's memory keeps a copy."""
    fields, whose, copy = await form_of(about.request, about.login), about.whose, list[bytes]()
    if fields.get("name") != whose.person:
        raise ApiError(400, "the name does not match; nothing was deleted", "not_confirmed")
    try:
        await whose.service.delete(whose.id, copy)
    finally:  # the rows may be gone, too, if an error follows
        if copy:
            deleted = about.request.app.state.deleted
            deleted[whose.id] = copy
            loop = asyncio.get_running_loop()
            loop.call_later(UNDO, lambda: deleted.get(whose.id) is copy and deleted.pop(whose.id))
    return RedirectResponse(f"/?deleted={quote(whose.person, safe='')}", 303)


@router.post("/undo")
async def undo(request: Request, login: Visitor) -> Response:
    """Restore a person who was just deleted."""
    person, service = (await form_of(request, login)).get("person", ""), request.app.state.service
    deleted, conversation_id = request.app.state.deleted, login.caller.conversation_id(person)
    async with service.lock(conversation_id):
        if (lines := deleted.get(conversation_id)) is None:
            why = "somebody has done it, ten minutes have passed, or the server was restarted"
            raise ApiError(404, f"{person!r} can no longer be restored: {why}", "not_restorable")
        await service.import_export(conversation_id, lines, restores=True)
        deleted.pop(conversation_id, None)
    return RedirectResponse(f"/people/{quote(person, safe='')}", 303)


@router.post("/import")
async def bring(request: Request, login: Visitor) -> Response:
    """Import a file: an export of one person, or the history of another program under its owner's name."""
    fields, service = await form_of(request, login), request.app.state.service
    content, name = fields.get("file", "").encode("utf-8", "surrogateescape"), fields.get("person", "").strip()
    if FORMAT in content[:200]:
        person = name or exported_id(content)
        await service.import_export(login.caller.conversation_id(person), content.splitlines(keepends=True))
    else:
        if not (person := name):
            raise ApiError(
                400, "“Your name in it” is empty; write it as the file does: it says which lines are yours", "no_name"
            )
        await service.import_history(login.caller.conversation_id(name), name, fields.get("filename", ""), content)
    return RedirectResponse(f"/people/{quote(person, safe='')}", 303)


def exported_id(content: bytes) -> str:
    """The person's id in an export; "" if the file is broken, which the import says."""
    with suppress(ValueError, IndexError, AttributeError):
        return str(json.loads(content.splitlines()[1]).get("id", ""))
    return ""
