"""Error pages: an error as HTML for browsers, as the API's JSON for programs."""

import re
from collections.abc import Mapping
from typing import Any

from jinja2 import Environment
from litestar import Response
from litestar.datastructures.headers import Accept
from litestar.response import Redirect, Template

from staffbooking_http.api import request_body
from staffbooking_http.api.endpoint import REQUEST_ID_KEY, Reply, Scope
from staffbooking_http.api.errors import ClientDisconnected, reply_to_error
from staffbooking_http.pages.bookings import booking_path
from staffbooking_http.pages.rendering import view_of_scope
from staffbooking_http.pages.session import (
    PageRequest,
    SignInRequired,
    error_sentence,
    render,
    unchecked_csrf,
)

_TEMPLATE = "problem.html"
_API_PATH = re.compile(r"/api(/|$)")
_MAX_ACCEPT_LENGTH = 500
"""Characters of an `Accept` header that are read."""
_FORMS = ["application/json", "text/html"]
_BOOKING_PATH = re.compile(r"/bookings/([0-9]{1,15})(/|$)")


def handle_error(request: PageRequest, error: Exception) -> Response[bytes] | Template | Redirect:
    """Convert an error to an HTML page if the client accepts HTML, else to the API's JSON error."""
    if isinstance(error, SignInRequired):
        return error.response
    if isinstance(error, ClientDisconnected):
        return Response(b"", status_code=400)
    request_id = request.scope[REQUEST_ID_KEY]  # type: ignore[literal-required]
    reply = reply_to_error(error, request_id, request.scope.get("path_template", "no route"))
    if accepts_html(request.scope):  # type: ignore[arg-type]
        visitor = request.scope["state"].get("visitor")
        return render(_TEMPLATE, visitor, reply, **_problem_context(request.scope, reply))
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return Response(
        reply.body, status_code=reply.status, headers=headers, media_type="application/json"
    )


def accepts_html(scope: Scope) -> bool:
    """Whether a request comes from a browser: it names HTML and likes it better than JSON, and its
    path is not the API's."""
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept").lower()
    if b"text/html" not in accepted or _API_PATH.match(scope["path"]):
        return False
    try:
        best = Accept(accepted[:_MAX_ACCEPT_LENGTH].decode("latin-1")).best_match(_FORMS)
    except OverflowError:  # A weight such as `q=inf`.
        return False
    return best == _FORMS[1]


def problem_reply(environment: Environment, scope: Scope, reply: Reply) -> Reply:
    """The HTML page for an error response of a path that no page handles. It shows no visitor,
    since unknown paths do not ask the store (CONTRACT 10), and leads who may have a session to no
    sign-in, unless the session has ended."""
    page = environment.get_template(_TEMPLATE).render(
        page_of_visit=view_of_scope(scope),
        csrf="" if reply.status == 401 else unchecked_csrf(scope),
        **_problem_context(scope, reply),
    )
    return Reply(reply.status, page.encode(), reply.headers, b"text/html; charset=utf-8")


def _problem_context(scope: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    context = {
        "problem": error_sentence(reply),
        "code": request_body.parse_object(reply.body)["code"],
        "status": reply.status,
        "request_id": scope[REQUEST_ID_KEY],
    }
    return context | {"way": _page_about(scope["path"])} if reply.status == 401 else context


def _page_about(path: str) -> str:
    """The page of what an address of the interface is about, to which signing in leads; empty where
    there is none."""
    found = _BOOKING_PATH.match(path)
    return booking_path(int(found[1])) if found else ""
