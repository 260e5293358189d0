"""HTML pages on Litestar: handler collection, templates, error pages, API docs, sandbox pages.

Pages load only images of this service and run no scripts. The style sheet is inlined in each page
and allowed by its hash in the Content-Security-Policy.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from attrs import frozen
from jinja2 import Environment, FileSystemLoader
from litestar import Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.plugins.jinja import JinjaTemplateEngine
from litestar.response import Redirect, Template
from litestar.template.config import TemplateConfig
from markupsafe import Markup, escape

from staffbooking_adapters import codec
from staffbooking_adapters.inputs import structure
from staffbooking_core.bounds import TextBounds
from staffbooking_core.domain.accounts.users import csrf_token
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import NotFound
from staffbooking_core.ports import CheckoutPage, PayeePage
from staffbooking_core.usecases import sandbox
from staffbooking_http.api import query_string, request_body
from staffbooking_http.api.access import find_session_token
from staffbooking_http.api.endpoint import REQUEST_ID_KEY, Call
from staffbooking_http.api.errors import ClientDisconnected, reply_to_error
from staffbooking_http.pages import (
    account,
    administration,
    availability,
    bookings,
    email_links,
    home,
    messages,
    payouts,
    profile,
    reviews,
    search,
    settings,
)
from staffbooking_http.pages.session import (
    PageRequest,
    SignInRequired,
    error_sentence,
    get_call,
    render,
)

_WEB_DIRECTORY = Path(__file__).parent
_STYLESHEET = (_WEB_DIRECTORY / "style.css").read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


PAGE_CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; img-src 'self'; style-src {_csp_hash(_STYLESHEET)}; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Allows the inlined style sheet, images of this service and forms to this service only."""


@frozen(kw_only=True)
class CheckoutAction:
    """A client's action on a checkout page: an outcome by name, or `pay` with a test card."""

    outcome: Annotated[str, TextBounds(64)]
    card: Annotated[str, TextBounds(64)] | None = None

    @property
    def processor_outcome(self) -> str:
        """The outcome in the fake processor's form: `card:<card>` for `pay`."""
        return f"card:{self.card}" if self.outcome == "pay" else self.outcome


_PAGE_MODULES = (
    home,
    search,
    bookings,
    reviews,
    messages,
    profile,
    availability,
    payouts,
    account,
    settings,
    email_links,
    administration,
)


def page_handlers(*, sandbox: bool) -> list[HTTPRouteHandler]:
    """The handlers of all pages; `sandbox` adds the fake processor's pages.

    The handlers read `site` and `document` from the state of their application.
    """
    handlers = [show_docs, *(handler for family in _PAGE_MODULES for handler in family.PAGES)]
    if sandbox:
        handlers += [show_checkout, submit_checkout, show_onboarding, complete_onboarding]
    return handlers


def page_methods(handlers: Iterable[HTTPRouteHandler]) -> Mapping[str, Sequence[str]]:
    """The allowed methods of each page by path, with path parameters as in the route table."""
    methods: dict[str, list[str]] = {}
    for handler in handlers:
        for path in handler.paths:
            for method in handler.http_methods:
                names = ("GET", "HEAD") if method == "GET" else (method,)
                methods.setdefault(path.replace(":str}", "}"), []).extend(names)
    return methods


@cache
def create_template_config(base_path: str) -> TemplateConfig[JinjaTemplateEngine]:
    """Template configuration whose links begin with `base_path`, the path of the base URL."""
    environment = _create_environment()
    environment.globals["base_path"] = base_path
    return TemplateConfig(engine=JinjaTemplateEngine.from_environment(environment))


def _create_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_WEB_DIRECTORY / "templates"), autoescape=True
    )
    environment.globals["style"] = _STYLESHEET
    environment.filters["moment"] = _format_instant
    environment.filters["shape"] = _format_schema
    environment.filters["prose"] = _format_prose
    environment.globals["query"] = _format_query
    return environment


@get("/docs")
async def show_docs(request: PageRequest) -> Template:
    """Show the API documentation, rendered without external resources. Documents do not ask the
    store (CONTRACT 10), so the visitor is unknown; the CSRF token follows from the cookie."""
    token = find_session_token(get_call(request).scope["headers"])
    csrf = "" if token is None else csrf_token(token)
    return render("docs.html", csrf=csrf, document=request.app.state.document)


@get("/sandbox/checkout/{reference:str}")
async def show_checkout(request: PageRequest) -> Template:
    """Show the fake processor's hosted checkout page."""
    return _render_checkout(
        await _get_checkout_page(get_call(request), request.path_params["reference"])
    )


@post("/sandbox/checkout/{reference:str}", status_code=200)
async def submit_checkout(request: PageRequest) -> Response[bytes] | Template | Redirect:
    """Apply an action sent as a form or as JSON; its outcome is applied before the response."""
    call, reference = get_call(request), request.path_params["reference"]
    await _get_checkout_page(call, reference)
    raw = await request_body.read(call)
    if _is_form_request(call):
        return await _submit_checkout_form(call, reference, raw)
    request_body.check_media_type(call)
    wanted = structure(CheckoutAction, request_body.parse_object(raw))
    page = await sandbox.simulate_checkout(call.ports, reference, wanted.processor_outcome)
    answer = codec.encode({"success": True, "state": page.state})
    return Response(answer, media_type="application/json", status_code=200)


async def _submit_checkout_form(call: Call, reference: str, raw: bytes) -> Template | Redirect:
    wanted = query_string.parse_form(CheckoutAction, raw)
    page = await sandbox.simulate_checkout(call.ports, reference, wanted.processor_outcome)
    if page.message:
        return _render_checkout(page)
    return Redirect(f"/sandbox/checkout/{page.ref}", status_code=303)


def _render_checkout(page: CheckoutPage) -> Template:
    amount = Currency(page.currency).to_decimal(page.amount)
    return Template("checkout.html", context={"page": page, "amount": amount})


async def _get_checkout_page(call: Call, reference: str) -> CheckoutPage:
    page = await sandbox.get_processor(call.ports).checkout_page(reference)
    if page is None:
        raise NotFound("Checkout")
    return page


@get("/sandbox/payees/{reference:str}")
async def show_onboarding(request: PageRequest) -> Template:
    """Show the fake processor's onboarding page of a payee."""
    page = await sandbox.get_processor(get_call(request).ports).payee_page(
        request.path_params["reference"]
    )
    return Template("payee.html", context={"page": _require_payee_page(page)})


@post("/sandbox/payees/{reference:str}", status_code=200)
async def complete_onboarding(request: PageRequest) -> Response[bytes] | Redirect:
    """Complete a payee's onboarding, by form or by JSON."""
    call, reference = get_call(request), request.path_params["reference"]
    _require_payee_page(await sandbox.get_processor(call.ports).payee_page(reference))
    raw = await request_body.read(call)
    if not _is_form_request(call):
        request_body.check_media_type(call)
        request_body.parse_object(raw)
    page = await sandbox.complete_payee(call.ports, reference)
    if _is_form_request(call):
        return Redirect(f"/sandbox/payees/{page.ref}", status_code=303)
    answer = codec.encode({"success": True, "ready": page.ready})
    return Response(answer, media_type="application/json", status_code=200)


def _require_payee_page(page: PayeePage | None) -> PayeePage:
    if page is None:
        raise NotFound("Payout account")
    return page


def _is_form_request(call: Call) -> bool:
    declared = b"".join(call.headers(b"content-type")).lower().partition(b";")[0].strip()
    return declared == b"application/x-www-form-urlencoded"


def handle_error(request: PageRequest, error: Exception) -> Response[bytes] | Template | Redirect:
    """Convert an error to an HTML page if the client accepts HTML, else to the API's JSON error."""
    if isinstance(error, SignInRequired):
        return error.response
    if isinstance(error, ClientDisconnected):
        return Response(b"", status_code=400)
    request_id = request.scope[REQUEST_ID_KEY]  # type: ignore[literal-required]
    reply = reply_to_error(error, request_id, request.scope.get("path_template", "no route"))
    if "text/html" in request.headers.get("accept", ""):
        visitor = request.scope["state"].get("visitor")
        return render("problem.html", visitor, reply, problem=error_sentence(reply))
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return Response(
        reply.body, status_code=reply.status, headers=headers, media_type="application/json"
    )


def _format_schema(schema: dict[str, Any]) -> str:
    """A short human-readable description of a JSON schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if options := schema.get("anyOf"):
        return " | ".join(_format_schema(option) for option in options)
    if values := schema.get("enum"):
        return " | ".join(values)
    if "const" in schema:
        return str(codec.encode(schema["const"]), "ascii")
    if schema.get("type") == "array":
        return f"[{_format_schema(schema['items'])}]"
    if fields := schema.get("properties"):
        return "{" + ", ".join(fields) + "}"
    words = [str(schema[part]) for part in ("type", "format") if part in schema]
    words += [f"{name} {schema[part]}" for part, name in _BOUND_LABELS.items() if part in schema]
    return " ".join(words)


_BOUND_LABELS = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "minLength": "length from",
    "maximum": "to",
    "maxLength": "to",
    "default": "default",
}


def _format_query(**given: object) -> str:
    """The query string of the non-empty values, with its `?`; empty without any."""
    said = urlencode({name: value for name, value in given.items() if value})
    return f"?{said}" if said else ""


def _format_instant(text: str) -> str:
    """An ISO 8601 UTC instant, formatted to the minute."""
    return f"{text[:10]} {text[11:16]} UTC"


def _format_prose(text: str) -> Markup:
    """Escaped text with backquoted parts as `<code>` elements."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
