"""The inspector page: shows memories, explains recalls and lets people correct them. Server-rendered HTML, no CDN."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ld_agent.server import page_data
from ld_agent.server.errors import ApiError
from ld_agent.server.logins import Login, NotLoggedInError, form_of
from ld_agent.server.service import Service
from ld_agent.storage.exchange import export_lines
from ld_agent.storage.rows import StoredConversation

HERE = Path(__file__).parent
PEOPLE = 50
MOST_MATCHES = 50
TRAITS = 40
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with "no-referrer", Chromium sends forms with the origin "null"
    "Cache-Control": "no-store",
}
pages = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
pages.filters |= {
    "day": page_data.day,
    "marked": page_data.marked,
    "bars": page_data.bars,
    "path": lambda t: quote(t, safe=""),
}
router = APIRouter(include_in_schema=False)


def install(app: FastAPI) -> None:
    """Add the page to the application."""
    app.include_router(router)
    # Pages are not compressed: their lengths would tell about the tokens in them.
    app.mount("/static", GZipMiddleware(StaticFiles(directory=HERE / "static"), compresslevel=6))

    app.state.error_page = error_page

    @app.exception_handler(NotLoggedInError)
    async def log_in(request: Request, exc: NotLoggedInError) -> Response:
        if "hx-request" in request.headers:  # the whole page goes there, not the part that was asked for
            return Response(status_code=401, headers=SECURITY | {"HX-Redirect": "/login"})
        return RedirectResponse("/login", 303)


def error_page(request: Request, error: ApiError) -> Response:
    """An error for a person to read: a page, or a line within what htmx asked to replace."""
    if "hx-request" in request.headers:
        line = Markup('<p role="alert" class="problem">{}</p>').format(error.message)
        return HTMLResponse(line, error.status, SECURITY | {"HX-Reswap": "beforeend"})
    return shown(request, "error.html", None, error.status, message=error.message)


async def logged_in(request: Request) -> Login:
    login: Login = request.app.state.logins.find(request)
    request.state.caller = login.caller
    request.app.state.rates.count(login.caller)
    return login


Visitor = Annotated[Login, Depends(logged_in)]


def shown(request: Request, template: str, login: Login | None, status: int = 200, **values: Any) -> HTMLResponse:
    """A page, or a part of one for htmx."""
    values |= {
        "csrf": login.csrf if login else "",
        "tenant": login.caller.tenant if login else "",
        "login": login is not None,
    }
    service: Service = request.app.state.service
    return HTMLResponse(pages.get_template(template).render(model=service.model, **values), status, SECURITY)


class Subject:
    """The person a page is about."""

    def __init__(self, request: Request, login: Login, person: str, stored: StoredConversation) -> None:
        self.service: Service = request.app.state.service
        self.request, self.login, self.person, self.stored = request, login, person, stored

    @property
    def id(self) -> str:
        return self.stored.id

    def show(self, template: str, **values: Any) -> HTMLResponse:
        return shown(self.request, template, self.login, person=self.person, **values)


async def subject(request: Request, login: Visitor, person: str) -> Subject:
    service: Service = request.app.state.service
    return Subject(request, login, person, await service.stored(login.caller.conversation_id(person)))


About = Annotated[Subject, Depends(subject)]


# ---- logging in


@router.get("/login")
async def login_page(request: Request) -> Response:
    return shown(request, "login.html", None, wrong=False)


@router.post("/login")
async def log_in(request: Request) -> Response:
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise ApiError(403, "this log-in comes from another site; open /login here", "cross_site")
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    key = request.app.state.service.keys.find(fields.get("key", [""])[0].strip())
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
async def people(
    request: Request,
    login: Visitor,
    q: Annotated[str, Query(max_length=200)] = "",
    after: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    service: Service = request.app.state.service
    prefix = login.caller.prefix
    page = await asyncio.to_thread(service.directory.people, prefix, prefix + after, PEOPLE + 1, q)
    listed = [(login.caller.person(one.id), one) for one in page[:PEOPLE]]
    following = listed[-1][0] if len(page) > PEOPLE else ""
    part = "_people.html" if "hx-request" in request.headers else "people.html"
    return shown(request, part, login, people=listed, q=q, following=following)


@router.get("/people/{person}")
async def timeline(about: About, before: Annotated[int | None, Query(ge=1, le=2**62)] = None) -> Response:
    service = about.service
    entries, following = await asyncio.to_thread(
        page_data.timeline, service.agent.store, service.directory, about.stored.key, before
    )
    part = "_sessions.html" if before is not None else "timeline.html"
    return about.show(part, entries=entries, following=following, tab="timeline")


@router.get("/people/{person}/live")
async def live(about: About, seen: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The current state of the latest session, for an open page; 204: unchanged, so that screen readers stay silent."""
    service = about.service
    latest = await asyncio.to_thread(service.directory.sessions, about.stored.key, None, 1)
    number = latest[0].number if latest and not latest[0].closed else 0
    said = await asyncio.to_thread(service.agent.store.session_utterances, about.stored.key, number)
    explained = _explained(about)
    state = f"{number}.{said[-1].id if said else ''}.{len(explained.intersection(u.id for u in said))}"
    if seen == state:
        return Response(status_code=204, headers=SECURITY)
    return about.show("_live.html", said=said[-20:], explained=explained, state=state)


@router.get("/people/{person}/sessions/{number}")
async def session(about: About, number: int) -> Response:
    store = about.service.agent.store
    said = await asyncio.to_thread(store.session_utterances, about.stored.key, number) if 0 < number < 2**62 else []
    return about.show("_session.html", said=said, explained=_explained(about))


@router.get("/people/{person}/traits")
async def traits(about: About, after: Annotated[int, Query(ge=0, le=2**62)] = 0) -> Response:
    dated = await asyncio.to_thread(about.service.agent.store.personas(about.stored.key).traits)
    speakers = list(dict.fromkeys(trait.speaker for trait, _ in dated))
    ordered = sorted((trait for trait, _ in dated), key=lambda trait: speakers.index(trait.speaker))
    page = ordered[after : after + TRAITS]
    ended_by, store = [trait.ended_by for trait in page if trait.ended_by], about.service.agent.store
    is_part = "hx-request" in about.request.headers
    return about.show(
        "_traits.html" if is_part else "traits.html",
        by_speaker=[(speaker, list(group)) for speaker, group in groupby(page, key=lambda trait: trait.speaker)],
        continued=ordered[after - 1].speaker if is_part and page and after else "",
        following=after + TRAITS if after + TRAITS < len(ordered) else 0,
        ends=await asyncio.to_thread(store.utterances_by_id, about.stored.key, ended_by),
        tab="traits",
    )


@router.get("/people/{person}/ask")
async def ask(about: About, q: Annotated[str, Query(max_length=2000)] = "") -> Response:
    hits, quoted = [], {}
    if q.strip():
        conversation = await about.service.known(about.id)
        hits = await about.service.inside(conversation, lambda: conversation.recall(q, k=10))
        quoted = await asyncio.to_thread(page_data.passages, about.service.agent.store, about.stored.key, hits, q)
    return about.show("ask.html", q=q, found=hits, quoted=quoted, tab="ask")


@router.get("/people/{person}/search")
async def search(about: About, q: Annotated[str, Query(max_length=2000)] = "") -> Response:
    said = []
    if q.strip():
        said = await asyncio.to_thread(about.service.directory.search, about.stored.key, q.strip(), MOST_MATCHES)
    return about.show("search.html", q=q, said=said, tab="search")


@router.get("/people/{person}/replies/{utterance}")
async def reply(about: About, utterance: str) -> Response:
    explained = about.service.explained.get((about.id, utterance))
    store, key = about.service.agent.store, about.stored.key
    said = await asyncio.to_thread(store.utterances_by_id, key, [utterance])
    recalled = await asyncio.to_thread(store.recalled_by, key, utterance)
    shown = page_data.in_prompt(explained) if explained is not None else set()
    return about.show(
        "reply.html", reply=explained, said=said.get(utterance), recalled=recalled, shown=shown, tab="timeline"
    )


@router.get("/people/{person}/export")
async def export(about: About) -> Response:
    def lines() -> Iterator[str]:
        for line in export_lines(about.service.agent.resources.store, about.id):
            yield line + "\n"

    name = quote(about.person, safe="")
    headers = SECURITY | {"Content-Disposition": f"attachment; filename*=UTF-8''{name}.jsonl"}
    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=headers)


def _explained(about: Subject) -> set[str]:
    return {utterance for owner, utterance in about.service.explained if owner == about.id}


# ---- changing


@router.post("/people/{person}/memories/{target}/{action}")
async def change(about: About, target: str, action: str) -> Response:
    """Edit, pin, unpin or forget a record or trait, or forget an utterance; show the result."""
    fields, service = await form_of(about.request, about.login), about.service
    if action == "edit":
        await service.change(about.id, target, fields.get("text", ""), None)
    elif action in ("pin", "unpin"):
        await service.change(about.id, target, None, action == "pin")
    elif action == "forget":
        if not await asyncio.to_thread(service.directory.has_memory, about.stored.key, target):
            raise ApiError(404, f"no record, trait or utterance {target[:40]!r}", "memory_not_found")
        await service.forget(about.id, target)
    else:
        raise ApiError(404, f"no action {action[:40]!r}; edit, pin, unpin or forget", "unknown_action")
    if "hx-request" not in about.request.headers:
        return RedirectResponse(f"/people/{quote(about.person, safe='')}", 303)
    return about.show("_memory.html", memory=await asyncio.to_thread(_memory, about, target))


def _memory(about: Subject, target: str) -> Any:
    """A record or trait by its id; None: it is gone."""
    store, key = about.service.agent.store, about.stored.key
    if target.startswith("t"):
        return next((trait for trait, _ in store.personas(key).traits() if trait.id == target), None)
    return next((record for record in store.records(key) if record.id == target), None)


@router.post("/people/{person}/delete")
async def delete(about: About) -> Response:
    """Delete a person whose name was typed."""
    fields = await form_of(about.request, about.login)
    if fields.get("name") != about.person:
        raise ApiError(400, "the name does not match; nothing was deleted", "not_confirmed")
    await about.service.delete(about.id)
    return RedirectResponse("/", 303)
