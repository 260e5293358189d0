"""Idempotency-Key: a repeated call gets the first call's response (CONTRACT 4).

The header belongs to every endpoint whose `takes_idempotency_key` is true. The stored response goes
before everything but authentication and rate limits; a call without the header does nothing here.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.errors import RuleBroken
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.idempotency import (
    IdempotentCall,
    Response,
    scope_of_api_key,
    scope_of_user,
)
from staffbooking_http.api import request_body
from staffbooking_http.api.endpoint import AsgiMessage, Call, Endpoint, Receive, Reply
from staffbooking_http.api.errors import HttpError, to_reply

KEY_HEADER = b"idempotency-key"
MAX_KEY_LENGTH = 255
EndpointHandler: TypeAlias = Callable[[Call, Endpoint], Awaitable[Reply]]

_REPLAY_HEADERS = ((b"idempotent-replay", b"true"),)


async def handle_idempotently(call: Call, endpoint: Endpoint, handle: EndpointHandler) -> Reply:
    """Handle a call with an Idempotency-Key by `handle`, or replay its stored response.

    Raises HttpError `idempotency_key_invalid` and `idempotency_mismatch`, and the errors that are
    not stored.
    """
    raw = await request_body.read(call)
    idempotent_call = _idempotent_call(call, endpoint, raw)
    call.receive = _receive_again(raw)
    ports = call.ports

    async def work(call_ports: Ports) -> Response:
        call.ports = call_ports
        return _to_response(await handle(call, endpoint))

    run = idempotency.run_repeatable if endpoint.calls_services else idempotency.run
    try:
        response = await run(ports, idempotent_call, work, _error_response)
    except RuleBroken as error:  # Those of the handler are stored, and are no exceptions here.
        raise HttpError(400, error.code, error.message) from error
    finally:
        call.ports = ports
    return _to_reply(response)


def _idempotent_call(call: Call, endpoint: Endpoint, raw: bytes) -> IdempotentCall:
    def booking_response(booking: Booking) -> Response:
        assert endpoint.build_booking_reply is not None
        return _to_response(endpoint.build_booking_reply(call, booking))

    actor = call.actor
    return IdempotentCall(
        scope_of_user(actor.user_id) if actor.key_id is None else scope_of_api_key(actor.key_id),
        _read_key(call),
        _fingerprint(endpoint, call, raw),
        shows_secret=endpoint.shows_secret,
        booking_response=None if endpoint.build_booking_reply is None else booking_response,
    )


def _read_key(call: Call) -> str:
    keys = call.headers(KEY_HEADER)
    if len(keys) == 1 and _is_valid_key(keys[0]):
        return keys[0].decode("ascii")
    message = f"Idempotency-Key must be 1 to {MAX_KEY_LENGTH} printable ASCII characters"
    raise HttpError(400, "idempotency_key_invalid", message)


def _is_valid_key(key: bytes) -> bool:
    return 1 <= len(key) <= MAX_KEY_LENGTH and all(0x20 <= byte < 0x7F for byte in key)


def _fingerprint(endpoint: Endpoint, call: Call, raw: bytes) -> bytes:
    path = " ".join((endpoint.path, *call.params))
    return hashlib.sha256(path.encode() + b"\0" + hashlib.sha256(raw).digest()).digest()


def _receive_again(raw: bytes) -> Receive:
    async def receive() -> AsgiMessage:
        return {"type": "http.request", "body": raw, "more_body": False}

    return receive


def _error_response(error: Exception) -> Response | None:
    reply = to_reply(error)
    return None if reply is None else _to_response(reply)


def _to_response(reply: Reply) -> Response:
    headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in reply.headers
    )
    return Response(reply.status, reply.body, headers)


def _to_reply(response: Response) -> Reply:
    headers = tuple(
        (name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers
    )
    return Reply(
        response.status, response.body, headers + (_REPLAY_HEADERS if response.is_replay else ())
    )
