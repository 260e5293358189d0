"""Pages for people, by Litestar: home, the documents, payouts, and the fake processor's own.

They load nothing from anywhere: the one style sheet stands in each page, and the one script in
the page that needs it, both named by their hashes in the policy that the browser enforces.
"""

import base64
import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from attrs import frozen
from jinja2 import Environment, FileSystemLoader
from litestar import Litestar, Response, get, post
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
from staffbooking_core.domain.bookings import Booking
from staffbooking_core.domain.lifecycle import Party, Status
from staffbooking_core.domain.money import Currency
from staffbooking_core.domain.payees import PayeeStatus
from staffbooking_core.errors import NotFound, StaffbookingError
from staffbooking_core.inputs import Text
from staffbooking_core.ports import CheckoutPage, PayeePage
from staffbooking_core.usecases import bookings, payees, payments, sandbox
from staffbooking_http import bodies, letter_pages, queries
from staffbooking_http.access import session_token, staff_only
from staffbooking_http.endpoint import Call, Site
from staffbooking_http.errors import internal, to_reply
from staffbooking_http.visits import Asked, call_of

log = logging.getLogger("staffbooking.http")

WEB = Path(__file__).parent / "web"
STYLE = (WEB / "style.css").read_text(encoding="utf-8")
SCRIPT = (WEB / "payouts.js").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)}; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What pages may do: show themselves, post forms to this service, and run our one script."""


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
    """The application of pages; the processor's own are there where payments are pretended."""
    handlers: list[BaseRouteHandler] = [home, docs, returned, payouts, *letter_pages.PAGES]
    if site.ports.sandbox is not None:
        handlers += [checkout, play, onboarding, complete]
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
    environment.globals |= {"style": STYLE, "script": SCRIPT}
    environment.filters["shape"] = _shape
    environment.filters["prose"] = _prose
    return environment


async def _visitor(call: Call) -> tuple[User, str] | None:
    """Who is signed in, with the session's token."""
    token = session_token(call.scope["headers"])
    if token is None:
        return None
    caller = await call.ports.admission.by_session(session_digest(token), call.now)
    return None if caller is None else (caller.user, token)


@get("/")
async def home(request: Asked) -> Template:
    """Where one arrives."""
    visitor = await _visitor(call_of(request))
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
    call = call_of(request)
    call.params = (request.path_params["number"],)
    if (visitor := await _visitor(call)) is None:
        return Template("return.html", context={"booking": None})
    user, token = visitor
    actor, number = Actor(user.id, user.role), call.path_id("Booking")
    booking, party, _ = await bookings.by_id(call.ports, actor, number)
    cancelled = _said(call, b"cancelled")
    if party is Party.CUSTOMER and booking.status is Status.ACCEPTED and not cancelled:
        # What can't be learned now is learned later: the page shows the status, no more.
        with suppress(StaffbookingError):
            await payments.look_on_visit(
                call.ports, number, call.ports.policy.processor_deadline_inline
            )
        booking, _, _ = await bookings.by_id(call.ports, actor, number)
    context = {
        "booking": booking,
        "cancelled": cancelled,
        "open_page": await _open_page(call, booking) if party is Party.CUSTOMER else None,
        "csrf": csrf_token(token),
    }
    return Template("return.html", context=context)


async def _open_page(call: Call, booking: Booking) -> dict[str, str] | None:
    """The page where an accepted booking can still be paid, and until when."""
    intent = booking.intent
    if booking.status is not Status.ACCEPTED or intent is None or not intent.checkout_url:
        return None
    until = intent.checkout_expires_at
    if until is None or until <= await call.ports.clock.business():
        return None
    return {"url": intent.checkout_url, "until": f"{until:%Y-%m-%d %H:%M} UTC"}


def _said(call: Call, word: bytes) -> bool:
    """Whether the address ends in a word by which the processor's page tells what happened."""
    return word in call.scope["query_string"].split(b"&")


@get("/staff/payouts")
async def payouts(request: Asked) -> Template:
    """Where a staff member opens a payout account, and comes back to from the processor."""
    call = call_of(request)
    if (visitor := await _visitor(call)) is None:
        return Template("payouts.html", context={"user": None})
    user, token = visitor
    staff_only(user, call.now)
    done = _said(call, b"done")
    find = payees.account_on_return if done else payees.account
    payee = await find(call.ports, Actor(user.id, user.role))
    context = {
        "user": user,
        "payee": payee,
        "status": PayeeStatus.NONE if payee is None else payee.status,
        "refused": payees.REFUSED,
        "country": call.ports.policy.country,
        "done": done,
        "again": _said(call, b"again"),
        "csrf": csrf_token(token),
    }
    return Template("payouts.html", context=context)


@get("/sandbox/checkout/{reference:str}")
async def checkout(request: Asked) -> Template:
    """The hosted page of the pretended processor."""
    return _shown(await _page(call_of(request), request.path_params["reference"]))


@post("/sandbox/checkout/{reference:str}", status_code=200)
async def play(request: Asked) -> Response[bytes] | Template | Redirect:
    """Act on the page: by its form, or as a script by JSON. Paid means paid when this ends."""
    call, reference = call_of(request), request.path_params["reference"]
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


@get("/sandbox/payees/{reference:str}")
async def onboarding(request: Asked) -> Template:
    """The page of the pretended processor where a payee completes the account."""
    page = await sandbox.processor(call_of(request).ports).payee_page(
        request.path_params["reference"]
    )
    return Template("payee.html", context={"page": _there(page)})


@post("/sandbox/payees/{reference:str}", status_code=200)
async def complete(request: Asked) -> Response[bytes] | Redirect:
    """Complete the account, by the page's button or as a script by JSON."""
    call, reference = call_of(request), request.path_params["reference"]
    pretended = sandbox.processor(call.ports)
    _there(await pretended.payee_page(reference))
    raw = await bodies.read(call)
    if not _is_form(call):
        bodies.check_media(call)
        bodies.parse(raw)
    page = _there(await pretended.complete_payee(reference))
    await payments.deliver_sandbox_events(call.ports)
    if _is_form(call):
        return Redirect(f"/sandbox/payees/{page.ref}", status_code=303)
    answer = codec.encode({"success": True, "ready": page.ready})
    return Response(answer, media_type="application/json", status_code=200)


def _there(page: PayeePage | None) -> PayeePage:
    if page is None:
        raise NotFound("Payout account")
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
