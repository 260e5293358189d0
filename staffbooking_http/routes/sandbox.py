"""The test bench over HTTP: the clock, and a processor that misbehaves (CONTRACT 9)."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from attrs import frozen

from staffbooking_adapters import codec
from staffbooking_core.errors import Fault, MissingField, invalid
from staffbooking_core.inputs import Instant, Text, Whole
from staffbooking_core.representations.records import instant
from staffbooking_core.usecases import sandbox
from staffbooking_http.api.access import Unguarded
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.response_schemas import INSTANT, SUCCESS, shape

_DONE = shape({"success": SUCCESS})
_CENTURY = 100 * 366 * 24 * 3600


class Outcome(StrEnum):
    OPEN = "open"
    WON = "won"
    LOST = "lost"


@frozen(kw_only=True)
class MoveClock:
    """One of the two."""

    advance_seconds: Annotated[int, Whole(-_CENTURY, _CENTURY)] | None = None
    set_to: Annotated[str, Instant()] | None = None


@frozen(kw_only=True)
class ChargeBack:
    booking_code: Annotated[str, Text(64)]
    outcome: Outcome


@frozen(kw_only=True)
class AddFault:
    """Which ops and kinds there are, the processor says itself."""

    op: Annotated[str, Text(64)]
    kind: Annotated[str, Text(64)]
    times: Annotated[int, Whole(1, 1000)] = 1


@endpoint(
    "POST",
    "/sandbox/clock",
    Unguarded(),
    summary="Move the service's clock ahead",
    body=MoveClock,
    answer=shape({"now": INSTANT}),
    codes=("clock_backwards",),
)
async def clock(call: Call) -> Reply:
    wanted: MoveClock = call.given
    match wanted.advance_seconds, wanted.set_to:
        case None, None:
            raise MissingField(
                Fault(name, "one of the two is required") for name in ("advance_seconds", "set_to")
            )
        case int(seconds), None:
            now = await sandbox.advance_clock(call.ports, timedelta(seconds=seconds))
        case None, str(text):
            now = await sandbox.set_clock(call.ports, datetime.fromisoformat(text))
        case _:
            raise invalid("set_to", "must not come with advance_seconds")
    return Reply(200, codec.encode({"now": instant(now)}))


@endpoint(
    "POST",
    "/sandbox/chargebacks",
    Unguarded(),
    summary="Open, win or lose a chargeback",
    body=ChargeBack,
    answer=_DONE,
    codes=("not_paid", "already_charged_back", "chargeback_decided", "nothing_left"),
    not_found="Booking",
)
async def chargebacks(call: Call) -> Reply:
    wanted: ChargeBack = call.given
    await sandbox.charge_back(call.ports, wanted.booking_code, wanted.outcome)
    return Reply(200, codec.encode({"success": True}))


@endpoint(
    "POST",
    "/sandbox/payments/faults",
    Unguarded(),
    summary="Make the processor misbehave",
    description=(
        "`op`: open_checkout, close_checkout, refund, pay_out, reverse_payout, open_payee, any, "
        "event. `kind` of calls: timeout_before, timeout_after, error_500, error_500_after, "
        "rate_limit, conflict, refuse, slow; of refunds too: pending_then_settled, "
        "pending_then_failed, settled_then_failed; of events: delay, duplicate, drop, reorder, "
        "bad_signature."
    ),
    body=AddFault,
    answer=_DONE,
)
async def add_fault(call: Call) -> Reply:
    wanted: AddFault = call.given
    await sandbox.bench(call.ports).add_fault(wanted.op, wanted.kind, wanted.times)
    return Reply(200, codec.encode({"success": True}))


@endpoint(
    "DELETE",
    "/sandbox/payments/faults",
    Unguarded(),
    summary="Make the processor behave again",
    answer=_DONE,
)
async def clear_faults(call: Call) -> Reply:
    await sandbox.bench(call.ports).clear_faults()
    return Reply(200, codec.encode({"success": True}))
