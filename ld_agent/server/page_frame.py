"""What every page of the inspector shares: templates, headers, the visitor's login and the person a page is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ld_agent.server import page_data
from ld_agent.server.errors import ApiError
from ld_agent.server.logins import Login
from ld_agent.server.service import Known, Service

HERE = Path(__file__).parent
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
    "when": page_data.when,
    "counted": page_data.counted,
    "path": lambda t: quote(t, safe=""),
}


def shown(request: Request, template: str, login: Login | None, status: int = 200, **values: Any) -> HTMLResponse:
    """A page, or a part of one for htmx."""
    values |= {
        "csrf": login.csrf if login else "",
        "tenant": login.caller.tenant if login else "",
        "login": login is not None,
    }
    service: Service = request.app.state.service
    return HTMLResponse(pages.get_template(template).render(model=service.model, **values), status, SECURITY)


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


def back(request: Request, other: str) -> RedirectResponse:
    """Return to the page of this site whose form was sent, or else to another one."""
    came = urlsplit(request.headers.get("referer", ""))
    here = came.netloc == request.headers.get("host") and came.path.startswith("/")
    return RedirectResponse(f"/{came.path.lstrip('/')}?{came.query}" if here else other, 303)


@dataclass(frozen=True, slots=True)
class Subject:
    """The person a page is about."""

    request: Request
    login: Login
    whose: Known

    @property
    def is_part(self) -> bool:
        """Whether htmx asks for a part of the page."""
        return "hx-request" in self.request.headers

    def explained(self) -> set[str]:
        """The ids of the replies that can be explained."""
        return {utterance for owner, utterance in list(self.whose.service.explained) if owner == self.whose.id}

    def show(self, template: str, **values: Any) -> HTMLResponse:
        return shown(
            self.request, template, self.login, person=self.whose.person, **{"you": False, "known": True} | values
        )


async def subject(request: Request, login: Visitor, person: str) -> Subject:
    service: Service = request.app.state.service
    return Subject(request, login, await service.known(login.caller.conversation_id(person)))


About = Annotated[Subject, Depends(subject)]
