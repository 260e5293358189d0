"""What pages are asked by, and the call that it is for the rest of the service."""

from typing import Any, TypeAlias

from litestar import Request
from litestar.datastructures import State

from staffbooking_http.endpoint import Call, Site

Asked: TypeAlias = Request[Any, Any, State]


def call_of(request: Asked) -> Call:
    site: Site = request.app.state.site
    return Call(site, request.scope, request.receive)  # type: ignore[arg-type]
