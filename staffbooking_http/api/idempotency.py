"""Idempotency-Key: a repeated call gets the first call's response (CONTRACT 4).

The use-case stores a success in its own transaction. This module stores a refusal, after the
use-case has failed. Rate limit responses (429) and server errors (5xx) are never stored.
"""

import hashlib

from staffbooking_adapters.inputs import structure
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.errors import RuleBroken, StaffbookingError
from staffbooking_core.ports import StoredResponse
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.idempotency import AlreadyAnswered, IdempotencyRequest
from staffbooking_http.api import request_body
from staffbooking_http.api.endpoint import Call, Endpoint, Reply
from staffbooking_http.api.errors import HttpError, to_reply

_MAX_IDEMPOTENCY_KEY_LENGTH = 255
_REPLAY_HEADERS = ((b"idempotent-replay", b"true"),)


async def handle_idempotently(call: Call, endpoint: Endpoint, raw: bytes) -> Reply:
    """Handle a call whose response may be stored."""
    assert endpoint.body is not None
    request_body.check_media_type(call)
    call.idempotency_request = _idempotency_request(call, endpoint, raw)
    try:
        call.parsed_input = structure(endpoint.body, request_body.parse_object(raw))
        return await endpoint.handler(call)
    except AlreadyAnswered as before:
        return _replay_reply(before.response)
    except (StaffbookingError, HttpError) as error:
        if (
            call.idempotency_request is None
            or (reply := to_reply(error)) is None
            or not _is_storable(reply)
        ):
            raise
        first = await idempotency.store_failure(
            call.ports, call.idempotency_request, reply.status, reply.body
        )
        return reply if first.body == reply.body else _replay_reply(first)


def _is_storable(reply: Reply) -> bool:
    return reply.status < 500 and reply.status != 429


def _replay_reply(stored: StoredResponse) -> Reply:
    return Reply(stored.status, stored.body, _REPLAY_HEADERS)


def _idempotency_request(
    call: Call, endpoint: Endpoint, raw: bytes
) -> IdempotencyRequest[Booking] | None:
    """The idempotency request of this call; None without an Idempotency-Key."""
    key_headers = call.headers(b"idempotency-key")
    if not key_headers:
        return None
    if len(key_headers) > 1 or not _is_valid_key(key_headers[0]):
        message = (
            f"Idempotency-Key must be 1 to {_MAX_IDEMPOTENCY_KEY_LENGTH} printable ASCII characters"
        )
        raise RuleBroken("idempotency_key_invalid", message)

    def success_response(booking: Booking) -> tuple[int, bytes]:
        assert endpoint.build_stored_reply is not None
        reply = endpoint.build_stored_reply(call, booking)
        return reply.status, reply.body

    actor = call.actor
    scope = f"user:{actor.user_id}" if actor.key_id is None else f"key:{actor.key_id}"
    fingerprint = hashlib.sha256(raw).digest()
    return IdempotencyRequest(scope, key_headers[0].decode("ascii"), fingerprint, success_response)


def _is_valid_key(key: bytes) -> bool:
    return 1 <= len(key) <= _MAX_IDEMPOTENCY_KEY_LENGTH and all(0x20 <= byte < 0x7F for byte in key)
