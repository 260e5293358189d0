"""Disputes, payouts, refunds and the ledger, for operators (CONTRACT 10)."""

from collections.abc import Sequence

from staffbooking_adapters import codec
from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.operator_inputs import ResolveDispute
from staffbooking_core.ports import Ports
from staffbooking_core.representations.administration import (
    AdminDisputeRecord,
    AdminPayoutRecord,
    AdminRefundRecord,
    LedgerRecord,
    admin_dispute_record,
    admin_payout_record,
    admin_refund_record,
    ledger_record,
)
from staffbooking_core.representations.bookings import BookingRecord, booking_record
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.bookings import actions, dispute_cases, disputes
from staffbooking_core.usecases.payments import ledger_check, payouts, refunds
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.preconditions import allowed_versions
from staffbooking_http.api.response_schemas import reply_schema
from staffbooking_http.routes.admin_endpoints import (
    ADMIN_ACCESS,
    AuditedResource,
    change_endpoint,
    list_endpoint,
)


async def _check_booking(call: Call) -> object:
    return await actions.get_by_code(call.ports, call.path_code())


_DISPUTE = AuditedResource(
    *("disputes", "dispute", AdminDisputeRecord, AuditSubject.DISPUTE),
    *("Booking", _check_booking, True),
)
_PAYOUT = AuditedResource(
    *("payouts", "payout", AdminPayoutRecord, AuditSubject.PAYOUT),
    *("Booking", _check_booking, True),
)
_REFUND = AuditedResource(
    *("refunds", "booking", BookingRecord, AuditSubject.REFUND),
    *("Booking", _check_booking, True),
)

# Disputes ---------------------------------------------------------------------------------


async def _dispute_records(ports: Ports, found: Sequence[Booking]) -> list[AdminDisputeRecord]:
    parties = {number for each in found for number in (each.customer_id, each.companion_id)}
    emails = await administration.emails_of(ports, parties)
    return [admin_dispute_record(each, ports.policy, emails) for each in found]


@list_endpoint("disputes", AdminDisputeRecord, "The bookings under dispute.")
async def list_disputes(call: Call, page: int, limit: int) -> Sequence[object]:
    found = await disputes.list_disputes(call.ports, page, limit)
    return await _dispute_records(call.ports, found)


@change_endpoint(
    _DISPUTE,
    "resolve",
    "`release` pays the staff member out, `refund` refunds everything, `split` refunds `amount` "
    "and pays out on the rest.",
    body=ResolveDispute,
    rule_codes=("booking_not_disputed", "split_out_of_range", "chargeback_open"),
)
async def resolve_dispute(call: Call, ports: Ports) -> object:
    wanted: ResolveDispute = call.parsed_input
    disputed = await actions.get_by_code(call.ports, call.path_code())
    share = dispute_cases.customer_share(wanted, Currency(disputed.currency))
    booking = await disputes.resolve_dispute(
        *(ports, disputed.code, wanted.outcome, share, wanted.reason),
        actor_id=call.user.id,
        allowed_versions=allowed_versions(call),
    )
    [record] = await _dispute_records(ports, [booking])
    return record


# Payouts and refunds ------------------------------------------------------------------------


async def _payout_records(ports: Ports, found: Sequence[Booking]) -> list[AdminPayoutRecord]:
    emails = await administration.emails_of(ports, {each.companion_id for each in found})
    sent = await payouts.payout_operations(ports, found)
    return [admin_payout_record(each, sent.get(each.id), ports.policy, emails) for each in found]


@list_endpoint(
    "payouts",
    AdminPayoutRecord,
    "Those that are scheduled, failed or frozen (on hold, or under dispute); the earliest due "
    "first.",
)
async def list_payouts(call: Call, page: int, limit: int) -> Sequence[object]:
    found = await payouts.list_payouts(call.ports, None, page, limit)
    return await _payout_records(call.ports, found)


@change_endpoint(
    _PAYOUT,
    "hold",
    "Nothing is sent until it is released.",
    rule_codes=("payout_not_pending",),
)
async def hold_payout(call: Call, ports: Ports) -> object:
    code, reason = call.path_code(), call.parsed_input.reason
    booking = await payouts.hold_payout(ports, code, reason, allowed_versions(call))
    [record] = await _payout_records(ports, [booking])
    return record


@change_endpoint(
    _PAYOUT, "release", "It is sent when it is due.", rule_codes=("payout_not_on_hold",)
)
async def release_payout(call: Call, ports: Ports) -> object:
    booking = await payouts.release_payout(ports, call.path_code(), allowed_versions(call))
    [record] = await _payout_records(ports, [booking])
    return record


@change_endpoint(
    _PAYOUT,
    "retry",
    "Tries again now, ahead of the next attempt.",
    rule_codes=("payout_not_failed",),
    calls_services=True,
)
async def retry_payout(call: Call, ports: Ports) -> object:
    booking = await payouts.retry_payout(ports, call.path_code(), allowed_versions(call))
    [record] = await _payout_records(ports, [booking])
    return record


@list_endpoint(
    "refunds",
    AdminRefundRecord,
    "Those that were refused, or whose money came back, and that are not retried; the oldest "
    "first.",
)
async def list_refunds(call: Call, page: int, limit: int) -> Sequence[object]:
    found = await refunds.list_failed_refunds(call.ports, page, limit)
    emails = await administration.emails_of(call.ports, {each.customer_id for each, _ in found})
    return [admin_refund_record(booking, operation, emails) for booking, operation in found]


@change_endpoint(
    _REFUND,
    "retry",
    "Orders every failed refund of the booking again, now.",
    rule_codes=("no_failed_refund",),
    calls_services=True,
)
async def retry_refunds(call: Call, ports: Ports) -> object:
    booking = await refunds.retry_refunds(ports, call.path_code(), allowed_versions(call))
    return booking_record(booking, Party.ADMIN, ports.policy)


@endpoint(
    "GET",
    "/api/admin/ledger/{code}",
    ADMIN_ACCESS,
    operation_id="getLedger",
    summary="Read the ledger of a booking",
    description="Postings with signed amounts (debits are positive), and payment operations.",
    response_schema=reply_schema("LedgerReply", ledger=LedgerRecord),
    not_found_name="Booking",
)
async def read_ledger(call: Call) -> Reply:
    book = await ledger_check.get_booking_ledger(call.ports, call.path_code())
    record = ledger_record(book.booking, book.postings, book.operations)
    return Reply(200, codec.encode({"ledger": record}))
