"""Idempotency-Key: the same call again gets the first answer again (CONTRACT 4).

A success is kept by the use-case, in the transaction of what it did; a refusal is kept here,
once it is clear that nothing was done. Limits and faults of ours are never kept.
"""

import hashlib

from staffbooking_adapters.inputs import structure
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.errors import RuleBroken, StaffbookingError
from staffbooking_core.ports import Answer
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.idempotency import AnsweredBefore, Keep
from staffbooking_http.api import request_body
from staffbooking_http.api.endpoint import Call, Endpoint, Reply
from staffbooking_http.api.errors import Refused, to_reply

LONGEST = 255
REPLAYED = ((b"idempotent-replay", b"true"),)


async def answer(call: Call, endpoint: Endpoint, raw: bytes) -> Reply:
    """Handle a call whose answer may be kept."""
    assert endpoint.body is not None
    request_body.check_media(call)
    call.keep = _keep(call, endpoint, raw)
    try:
        call.given = structure(endpoint.body, request_body.parse(raw))
        return await endpoint.handler(call)
    except AnsweredBefore as before:
        return _replay(before.answer)
    except (StaffbookingError, Refused) as error:
        if call.keep is None or (reply := to_reply(error)) is None or not _is_kept(reply):
            raise
        first = await idempotency.keep_failure(call.ports, call.keep, reply.status, reply.body)
        return reply if first.body == reply.body else _replay(first)


def _is_kept(reply: Reply) -> bool:
    return reply.status < 500 and reply.status != 429


def _replay(first: Answer) -> Reply:
    return Reply(first.status, first.body, REPLAYED)


def _keep(call: Call, endpoint: Endpoint, raw: bytes) -> Keep[Booking] | None:
    """How this call's answer will be kept; None where it names no key."""
    shown = call.headers(b"idempotency-key")
    if not shown:
        return None
    if len(shown) > 1 or not _is_well_formed(shown[0]):
        message = f"Idempotency-Key must be 1 to {LONGEST} printable ASCII characters"
        raise RuleBroken("idempotency_key_invalid", message)

    def success(booking: Booking) -> tuple[int, bytes]:
        assert endpoint.kept is not None
        reply = endpoint.kept(call, booking)
        return reply.status, reply.body

    actor = call.actor
    scope = f"user:{actor.user_id}" if actor.key_id is None else f"key:{actor.key_id}"
    fingerprint = hashlib.sha256(raw).digest()
    return Keep(scope, shown[0].decode("ascii"), fingerprint, success)


def _is_well_formed(key: bytes) -> bool:
    return 1 <= len(key) <= LONGEST and all(0x20 <= byte < 0x7F for byte in key)
