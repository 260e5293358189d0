"""The response at the channel's path to requests that are no WebSocket handshake."""

from typing import NoReturn

from staffbooking_core.representations.errors import ErrorRecord
from staffbooking_http.api.access import PublicAccess
from staffbooking_http.api.endpoint import Call, endpoint
from staffbooking_http.api.errors import HttpError
from staffbooking_http.api.response_schemas import type_schema
from staffbooking_http.channel.frames import CHANNEL_PATH

_UPGRADE_HEADERS = (
    (b"connection", b"upgrade"),
    (b"upgrade", b"websocket"),
    (b"sec-websocket-version", b"13"),
)


@endpoint(
    "GET",
    CHANNEL_PATH,
    PublicAccess(),
    operation_id="openChannel",
    summary="The real-time channel",
    description="A WebSocket that requires a session: 401 without one, 403 for a missing or "
    "foreign Origin, 429 for more than {max_connections} connections of a "
    "user. The AsyncAPI document, `/asyncapi.json`, describes its events.",
    response_schema=type_schema(ErrorRecord),
    status=426,
    rule_codes=("unauthenticated", "session_required", "foreign_origin"),
)
async def require_upgrade(_: Call) -> NoReturn:
    raise HttpError(
        426, "upgrade_required", "This is a WebSocket: ask for it by a handshake", _UPGRADE_HEADERS
    )
