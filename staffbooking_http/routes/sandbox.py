"""The sandbox over HTTP: the clock, chargebacks and processor faults (CONTRACT 9)."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from attrs import frozen

from staffbooking_adapters import codec
from staffbooking_core.bounds import IntegerBounds, TextBounds, UtcInstant
from staffbooking_core.errors import FieldError, MissingField, invalid_field
from staffbooking_core.representations.json_types import Success, Timestamp, format_instant
from staffbooking_core.usecases import sandbox
from staffbooking_http.api.access import PublicAccess
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.response_schemas import (
    reply_schema,
)

_SUCCESS_SCHEMA = reply_schema("Success", success=Success)
_CLOCK_SCHEMA = reply_schema("ClockReply", now=Timestamp)
_CENTURY_SECONDS = 100 * 366 * 24 * 3600


class ChargebackOutcome(StrEnum):
    OPEN = "open"
    WON = "won"
    LOST = "lost"


@frozen(kw_only=True)
class ClockRequest:
    """Exactly one field is required."""

    advance_seconds: Annotated[int, IntegerBounds(-_CENTURY_SECONDS, _CENTURY_SECONDS)] | None = (
        None
    )
    set_to: Annotated[str, UtcInstant()] | None = None


@frozen(kw_only=True)
class ChargebackRequest:
    booking_code: Annotated[str, TextBounds(64)]
    outcome: ChargebackOutcome


@frozen(kw_only=True)
class FaultRequest:
    """The processor validates `op` and `kind`."""

    op: Annotated[str, TextBounds(64)]
    kind: Annotated[str, TextBounds(64)]
    times: Annotated[int, IntegerBounds(1, 1000)] = 1


@endpoint(
    "GET",
    "/sandbox/clock",
    PublicAccess(),
    operation_id="getClock",
    summary="Read the service's clock",
    description="A browser gets the page of the clock.",
    response_schema=_CLOCK_SCHEMA,
)
async def get_clock(call: Call) -> Reply:
    return _clock_reply(await call.ports.clock.business())


@endpoint(
    "POST",
    "/sandbox/clock",
    PublicAccess(),
    operation_id="moveClock",
    summary="Move the service's clock ahead",
    body=ClockRequest,
    response_schema=_CLOCK_SCHEMA,
    rule_codes=("clock_backwards",),
)
async def move_clock(call: Call) -> Reply:
    wanted: ClockRequest = call.parsed_input
    match wanted.advance_seconds, wanted.set_to:
        case None, None:
            raise MissingField(
                FieldError(name, "one of the two is required")
                for name in ("advance_seconds", "set_to")
            )
        case int(seconds), None:
            now = await sandbox.advance_clock(call.ports, timedelta(seconds=seconds))
        case None, str(text):
            now = await sandbox.set_clock(call.ports, datetime.fromisoformat(text))
        case _:
            raise invalid_field("set_to", "must not come with advance_seconds")
    return _clock_reply(now)


def _clock_reply(now: datetime) -> Reply:
    return Reply(200, codec.encode({"now": format_instant(now)}))


@endpoint(
    "POST",
    "/sandbox/chargebacks",
    PublicAccess(),
    operation_id="setChargeback",
    summary="Open, win or lose a chargeback",
    body=ChargebackRequest,
    response_schema=_SUCCESS_SCHEMA,
    rule_codes=("not_paid", "already_charged_back", "chargeback_decided", "nothing_left"),
    not_found_name="Booking",
)
async def set_chargeback(call: Call) -> Reply:
    wanted: ChargebackRequest = call.parsed_input
    await sandbox.simulate_chargeback(call.ports, wanted.booking_code, wanted.outcome)
    return Reply(200, codec.encode({"success": True}))


@endpoint(
    "POST",
    "/sandbox/payments/faults",
    PublicAccess(),
    operation_id="addFault",
    summary="Inject faults into the simulated processor",
    description=(
        "`op`: open_checkout, close_checkout, refund, pay_out, reverse_payout, open_payee, any, "
        "event. `kind` of calls: timeout_before, timeout_after, error_500, error_500_after, "
        "rate_limit, conflict, refuse, slow; of refunds too: pending_then_settled, "
        "pending_then_failed, settled_then_failed; of events: delay, duplicate, drop, reorder, "
        "bad_signature."
    ),
    body=FaultRequest,
    response_schema=_SUCCESS_SCHEMA,
)
async def add_fault(call: Call) -> Reply:
    wanted: FaultRequest = call.parsed_input
    await sandbox.require_sandbox(call.ports).add_fault(wanted.op, wanted.kind, wanted.times)
    return Reply(200, codec.encode({"success": True}))


@endpoint(
    "DELETE",
    "/sandbox/payments/faults",
    PublicAccess(),
    operation_id="clearFaults",
    summary="Remove all faults of the simulated processor",
    response_schema=_SUCCESS_SCHEMA,
)
async def clear_faults(call: Call) -> Reply:
    await sandbox.require_sandbox(call.ports).clear_faults()
    return Reply(200, codec.encode({"success": True}))
