"""Pages for people, by Litestar: home, the documents, and the fake processor's checkout.

They work without JavaScript, and load nothing from anywhere: the one style sheet stands in
each page, named by its hash in the policy that the browser enforces.
"""

import base64
import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from attrs import frozen
from jinja2 import Environment, FileSystemLoader
from litestar import Litestar, Request, Response, get, post
from litestar.datastructures import State
from litestar.handlers import BaseRouteHandler
from litestar.plugins.jinja import JinjaTemplateEngine
from litestar.response import Redirect, Template
from litestar.routes import HTTPRoute
from litestar.template.config import TemplateConfig
from markupsafe import Markup, escape

from staffbooking_adapters import codec
from staffbooking_adapters.inputs import structure
from staffbooking_core.domain.accounts import Actor, User, csrf_token, session_digest
from staffbooking_core.domain.money import Currency
from staffbooking_core.errors import NotFound
from staffbooking_core.inputs import Text
from staffbooking_core.ports import CheckoutPage
from staffbooking_core.usecases import bookings, payments, sandbox
from staffbooking_http import bodies, queries
from staffbooking_http.access import session_token
from staffbooking_http.endpoint import Call, Site
from staffbooking_http.errors import internal, to_reply

log = logging.getLogger("staffbooking.http")

WEB = Path(__file__).parent / "web"
STYLE = (WEB / "style.css").read_text(encoding="utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""What pages may do: show themselves, and post forms to this service."""

Asked = Request[Any, Any, State]


@frozen(kw_only=True)
class Play:
    """What a client does on a checkout page: an outcome by name, or `pay` with a test card."""

    outcome: Annotated[str, Text(64)]
    card: Annotated[str, Text(64)] | None = None

    @property
    def word(self) -> str:
        """As the pretended processor takes it."""
        return f"card:{self.card}" if self.outcome == "pay" else self.outcome


def create_pages(site: Site, document: dict[str, Any]) -> Litestar:
    """The application of pages; the checkout is there where payments are pretended."""
    handlers: list[BaseRouteHandler] = [home, docs, returned]
    if site.ports.sandbox is not None:
        handlers += [checkout, play]
    engine = JinjaTemplateEngine.from_environment(_environment())
    return Litestar(
        handlers,
        template_config=TemplateConfig(engine=engine),
        state=State({"site": site, "document": document}),
        exception_handlers={Exception: _refuse},
        openapi_config=None,
        logging_config=None,
    )


def methods(pages: Litestar) -> Mapping[str, Sequence[str]]:
    """What each page may be asked for, by path; parameters are as in the table of endpoints."""
    return {
        route.path.replace(":str}", "}"): ("GET", "HEAD", *(route.methods & {"POST"}))
        for route in pages.routes
        if isinstance(route, HTTPRoute)
    }


def _environment() -> Environment:
    environment = Environment(loader=FileSystemLoader(WEB / "templates"), autoescape=True)
    environment.globals["style"] = STYLE
    environment.filters["shape"] = _shape
    environment.filters["prose"] = _prose
    return environment


def _call(request: Asked) -> Call:
    site: Site = request.app.state.site
    return Call(site, request.scope, request.receive)  # type: ignore[arg-type]


async def _visitor(call: Call) -> tuple[User, str] | None:
    """Who is signed in, with the session's token."""
    token = session_token(call)
    if token is None:
        return None
    caller = await call.ports.admission.by_session(session_digest(token), call.now)
    return None if caller is None else (caller.user, token)


@get("/")
async def home(request: Asked) -> Template:
    """Where one arrives."""
    visitor = await _visitor(_call(request))
    user, token = visitor or (None, None)
    context = {"user": user, "csrf": "" if token is None else csrf_token(token)}
    return Template("home.html", context=context)


@get("/docs")
async def docs(request: Asked) -> Template:
    """The documents for reading, without a connection to anywhere."""
    return Template("docs.html", context={"document": request.app.state.document})


@get("/bookings/{number:str}/return")
async def returned(request: Asked) -> Template:
    """Where the hosted checkout sends its customer; tells strangers nothing."""
    call = _call(request)
    call.params = (request.path_params["number"],)
    if (visitor := await _visitor(call)) is None:
        return Template("return.html", context={"booking": None})
    user, token = visitor
    actor = Actor(user.id, user.role)
    booking, _, _ = await bookings.by_id(call.ports, actor, call.path_id("Booking"))
    context = {"booking": booking, "csrf": csrf_token(token)}
    return Template("return.html", context=context)


@get("/sandbox/checkout/{reference:str}")
async def checkout(request: Asked) -> Template:
    """The hosted page of the pretended processor."""
    return _shown(await _page(_call(request), request.path_params["reference"]))


@post("/sandbox/checkout/{reference:str}", status_code=200)
async def play(request: Asked) -> Response[bytes] | Template | Redirect:
    """Act on the page: by its form, or as a script by JSON. Paid means paid when this ends."""
    call, reference = _call(request), request.path_params["reference"]
    await _page(call, reference)
    raw = await bodies.read(call)
    if _is_form(call):
        return await _play_form(call, reference, raw)
    bodies.check_media(call)
    page = await _play(call, reference, structure(Play, bodies.parse(raw)))
    answer = codec.encode({"success": True, "state": page.state})
    return Response(answer, media_type="application/json", status_code=200)


async def _play_form(call: Call, reference: str, raw: bytes) -> Template | Redirect:
    page = await _play(call, reference, queries.read(Play, raw))
    if page.message:
        return _shown(page)
    return Redirect(f"/sandbox/checkout/{page.ref}", status_code=303)


async def _play(call: Call, reference: str, wanted: Play) -> CheckoutPage:
    page = await sandbox.processor(call.ports).play(reference, wanted.word)
    await payments.deliver_sandbox_events(call.ports)
    if page is None:
        raise NotFound("Checkout")
    return page


def _shown(page: CheckoutPage) -> Template:
    amount = Currency(page.currency).to_decimal(page.amount)
    return Template("checkout.html", context={"page": page, "amount": amount})


async def _page(call: Call, reference: str) -> CheckoutPage:
    page = await sandbox.processor(call.ports).checkout_page(reference)
    if page is None:
        raise NotFound("Checkout")
    return page


def _is_form(call: Call) -> bool:
    declared = b"".join(call.headers(b"content-type")).lower().partition(b";")[0].strip()
    return declared == b"application/x-www-form-urlencoded"


def _refuse(request: Asked, error: Exception) -> Response[bytes]:
    """Every error of a page as JSON of the contract's shape."""
    reply = to_reply(error)
    if reply is None:
        request_id = request.app.state.site.ports.ids.token()[:16]
        log.error("request %s to a page failed", request_id, exc_info=error)
        reply = internal(request_id)
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return Response(
        reply.body, status_code=reply.status, headers=headers, media_type="application/json"
    )


def _shape(schema: dict[str, Any]) -> str:
    """A schema in a few words, for reading."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if options := schema.get("anyOf"):
        return " | ".join(_shape(option) for option in options)
    if values := schema.get("enum"):
        return " | ".join(values)
    if "const" in schema:
        return str(codec.encode(schema["const"]), "ascii")
    if schema.get("type") == "array":
        return f"[{_shape(schema['items'])}]"
    if fields := schema.get("properties"):
        return "{" + ", ".join(fields) + "}"
    words = [str(schema[part]) for part in ("type", "format") if part in schema]
    words += [f"{name} {schema[part]}" for part, name in _BOUNDS.items() if part in schema]
    return " ".join(words)


_BOUNDS = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "minLength": "length from",
    "maximum": "to",
    "maxLength": "to",
    "default": "default",
}


def _prose(text: str) -> Markup:
    """Text with its `code` set as such."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
