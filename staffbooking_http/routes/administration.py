"""What operators see and decide, for admins with a session (CONTRACT 10).

Every change is in the audit with its reason, in the transaction of the change.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from attrs import frozen

from staffbooking_adapters import codec
from staffbooking_core.domain.accounts.audit import AuditSubject, Operator
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.domain.webhooks.deliveries import EndpointSubscription
from staffbooking_core.errors import FieldError, MissingField, NotFound, invalid_field
from staffbooking_core.inputs import (
    ChangeWebhook,
    DisablePerson,
    OperatorDecision,
    ResolutionOutcome,
    ResolveDispute,
)
from staffbooking_core.ports import Ports
from staffbooking_core.representations.administration import (
    AdminCompanionRecord,
    AdminDisputeRecord,
    AdminPayoutRecord,
    AdminPortfolioItemRecord,
    AdminRefundRecord,
    AdminReviewRecord,
    AdminWebhookRecord,
    AlertRecord,
    AuditRecord,
    LedgerRecord,
    PersonRecord,
    admin_companion_record,
    admin_dispute_record,
    admin_payout_record,
    admin_portfolio_record,
    admin_refund_record,
    admin_review_record,
    admin_webhook_record,
    alert_record,
    audit_record,
    ledger_record,
    person_record,
)
from staffbooking_core.representations.bookings import BookingRecord, booking_record
from staffbooking_core.representations.json_types import Success
from staffbooking_core.usecases.accounts import administration, audit
from staffbooking_core.usecases.bookings import actions, disputes
from staffbooking_core.usecases.companions import reviews
from staffbooking_core.usecases.payments import ledger_check, payouts, refunds
from staffbooking_core.usecases.webhooks import endpoints
from staffbooking_http.api import rate_limits
from staffbooking_http.api.access import SessionAccess, require_admin
from staffbooking_http.api.endpoint import Call, Endpoint, Reply, endpoint
from staffbooking_http.api.query_string import (
    ListCompanionsForOperators,
    ListForOperators,
    ListPortfolioForOperators,
)
from staffbooking_http.api.response_schemas import reply_schema

_ACCESS = SessionAccess(check_user=require_admin)
_RESOLUTION_TRIGGERS = {
    ResolutionOutcome.RELEASE: Trigger.RELEASE,
    ResolutionOutcome.REFUND: Trigger.REFUND,
    ResolutionOutcome.SPLIT: Trigger.SPLIT,
}

# Declarations -----------------------------------------------------------------------------

ListReader: TypeAlias = Callable[[Call, int, int], Awaitable[Sequence[object]]]
"""Reads the records of up to `limit` rows after an offset."""
Change: TypeAlias = Callable[[Call, Ports], Awaitable[object]]
"""Makes a change on audited ports; returns the changed record."""


def _list_endpoint(
    name: str, record: Any, description: str, query: type = ListForOperators
) -> Callable[[ListReader], Endpoint]:
    """Declare the reader of a list as an endpoint."""

    def declare(read: ListReader) -> Endpoint:
        async def handle(call: Call) -> Reply:
            page, limit = call.parsed_input.page, call.parsed_input.limit
            records = await read(call, limit + 1, (page - 1) * limit)
            answer = {
                name: records[:limit],
                "page": page,
                "limit": limit,
                "has_more": len(records) > limit,
            }
            return Reply(200, codec.encode(answer))

        fields = {name: list[record], "page": int, "limit": int, "has_more": bool}
        return endpoint(
            "GET",
            f"/api/admin/{name}",
            _ACCESS,
            summary=f"List {name} for operators",
            description=description,
            query=query,
            response_schema=reply_schema(**fields),
        )(handle)

    return declare


@frozen
class _Subject:
    """What a change is made to: its list, its name in replies, and its place in the audit."""

    list_name: str
    reply_name: str
    record: Any
    kind: AuditSubject
    resource_name: str
    check: Callable[[Call], Awaitable[object]]
    """Raises NotFound where the path names nothing."""
    is_named_by_code: bool = False

    def id_of(self, call: Call) -> int | str:
        return call.path_code() if self.is_named_by_code else call.path_id(self.resource_name)


def _change_endpoint(
    subject: _Subject,
    act: str,
    description: str,
    body: type = OperatorDecision,
    rule_codes: tuple[str, ...] = (),
) -> Callable[[Change], Endpoint]:
    """Declare an operator's change as an endpoint."""

    async def check_target(call: Call) -> Reply:
        await subject.check(call)
        return Reply(200)

    def declare(change: Change) -> Endpoint:
        async def handle(call: Call) -> Reply:
            act_of_operator = audit.OperatorAct(
                operator=Operator(call.user.id, origin=rate_limits.address_key(call)),
                act=act,
                subject=subject.kind,
                subject_id=subject.id_of(call),
                reason=call.parsed_input.reason,
            )
            record = await change(call, audit.audited_ports(call.ports, act_of_operator))
            return Reply(200, codec.encode({"success": True, subject.reply_name: record}))

        parameter = "{code}" if subject.is_named_by_code else "{id}"
        fields = {"success": Success, subject.reply_name: subject.record}
        return endpoint(
            "POST",
            f"/api/admin/{subject.list_name}/{parameter}/{act}",
            _ACCESS,
            summary=f"{act.capitalize()}: {subject.resource_name.lower()}",
            description=description,
            body=body,
            check_target=check_target,
            response_schema=reply_schema(**fields),
            rule_codes=rule_codes,
            not_found_name=subject.resource_name,
        )(handle)

    return declare


async def _check_booking(call: Call) -> object:
    return await actions.get_by_code(call.ports, call.path_code())


async def _check_person(call: Call) -> object:
    return await administration.get_user_by_id(call.ports, call.path_id("User"))


async def _check_companion(call: Call) -> object:
    async with call.ports.store.read_view() as view:
        return _require(await view.companions.companion(call.path_id("Companion")), "Companion")


async def _check_portfolio_item(call: Call) -> object:
    name = "Portfolio item"
    async with call.ports.store.read_view() as view:
        return _require(await view.portfolio.portfolio_item(call.path_id(name)), name)


async def _check_review(call: Call) -> object:
    async with call.ports.store.read_view() as view:
        return _require(await view.reviews.review(call.path_id("Review")), "Review")


async def _check_webhook(call: Call) -> object:
    return await endpoints.authorize(call.ports, None, call.path_id("Webhook"))


def _require(found: object | None, resource_name: str) -> object:
    if found is None:
        raise NotFound(resource_name)
    return found


_DISPUTE = _Subject(
    *("disputes", "dispute", AdminDisputeRecord, AuditSubject.DISPUTE),
    *("Booking", _check_booking, True),
)
_PAYOUT = _Subject(
    *("payouts", "payout", AdminPayoutRecord, AuditSubject.PAYOUT),
    *("Booking", _check_booking, True),
)
_REFUND = _Subject(
    *("refunds", "booking", BookingRecord, AuditSubject.REFUND),
    *("Booking", _check_booking, True),
)
_COMPANION = _Subject(
    *("companions", "companion", AdminCompanionRecord, AuditSubject.COMPANION),
    *("Companion", _check_companion),
)
_ITEM = _Subject(
    *("portfolio", "item", AdminPortfolioItemRecord, AuditSubject.PORTFOLIO_ITEM),
    *("Portfolio item", _check_portfolio_item),
)
_PERSON = _Subject(
    *("people", "person", PersonRecord, AuditSubject.PERSON), *("User", _check_person)
)
_REVIEW = _Subject(
    *("reviews", "review", AdminReviewRecord, AuditSubject.REVIEW), *("Review", _check_review)
)
_WEBHOOK = _Subject(
    *("webhooks", "webhook", AdminWebhookRecord, AuditSubject.WEBHOOK), *("Webhook", _check_webhook)
)

# Disputes ---------------------------------------------------------------------------------


async def _dispute_records(ports: Ports, found: Sequence[Booking]) -> list[AdminDisputeRecord]:
    parties = {number for each in found for number in (each.customer_id, each.companion_id)}
    emails = await administration.emails_of(ports, parties)
    return [admin_dispute_record(each, emails) for each in found]


@_list_endpoint("disputes", AdminDisputeRecord, "The bookings under dispute.")
async def list_disputes(call: Call, _: int, __: int) -> Sequence[object]:
    wanted: ListForOperators = call.parsed_input
    found = await disputes.list_disputes(call.ports, wanted.page, wanted.limit)
    return await _dispute_records(call.ports, found)


@_change_endpoint(
    _DISPUTE,
    "resolve",
    "`release` pays the staff member out, `refund` refunds everything, `split` refunds `amount` "
    "and pays out on the rest.",
    body=ResolveDispute,
    rule_codes=("booking_not_disputed", "split_out_of_range", "chargeback_open"),
)
async def resolve_dispute(call: Call, ports: Ports) -> object:
    wanted: ResolveDispute = call.parsed_input
    trigger = _RESOLUTION_TRIGGERS[wanted.outcome]
    booking = await disputes.resolve_dispute(
        ports, call.path_code(), trigger, _split_amount(call, wanted), wanted.reason
    )
    [record] = await _dispute_records(ports, [booking])
    return record


def _split_amount(call: Call, wanted: ResolveDispute) -> int:
    """The customer's part in minor units; 0 where there is no split."""
    is_split = wanted.outcome is ResolutionOutcome.SPLIT
    if is_split and wanted.amount is None:
        raise MissingField([FieldError("amount", "is required for a split")])
    if not is_split and wanted.amount is not None:
        raise invalid_field("amount", "is for a split only")
    try:
        return call.ports.policy.currency.to_minor(wanted.amount or 0)
    except ValueError as error:
        raise invalid_field("amount", str(error)) from None


# Payouts and refunds ------------------------------------------------------------------------


async def _payout_records(ports: Ports, found: Sequence[Booking]) -> list[AdminPayoutRecord]:
    emails = await administration.emails_of(ports, {each.companion_id for each in found})
    sent = await payouts.payout_operations(ports, found)
    return [admin_payout_record(each, sent.get(each.id), ports.policy, emails) for each in found]


@_list_endpoint(
    "payouts",
    AdminPayoutRecord,
    "Those that are scheduled, failed or frozen (on hold, or under dispute); the earliest due "
    "first.",
)
async def list_payouts(call: Call, limit: int, offset: int) -> Sequence[object]:
    found = await administration.list_payouts(call.ports, limit, offset)
    return await _payout_records(call.ports, found)


@_change_endpoint(
    _PAYOUT,
    "hold",
    "Nothing is sent until it is released.",
    rule_codes=("payout_not_pending",),
)
async def hold_payout(call: Call, ports: Ports) -> object:
    reason = call.parsed_input.reason
    [record] = await _payout_records(
        ports, [await payouts.hold_payout(ports, call.path_code(), reason)]
    )
    return record


@_change_endpoint(
    _PAYOUT, "release", "It is sent when it is due.", rule_codes=("payout_not_on_hold",)
)
async def release_payout(call: Call, ports: Ports) -> object:
    [record] = await _payout_records(ports, [await payouts.release_payout(ports, call.path_code())])
    return record


@_change_endpoint(
    _PAYOUT,
    "retry",
    "Tries again now, ahead of the next attempt.",
    rule_codes=("payout_not_failed",),
)
async def retry_payout(call: Call, ports: Ports) -> object:
    [record] = await _payout_records(ports, [await payouts.retry_payout(ports, call.path_code())])
    return record


@_list_endpoint(
    "refunds",
    AdminRefundRecord,
    "Those that were refused, or whose money came back, and that are not retried; the oldest "
    "first.",
)
async def list_refunds(call: Call, limit: int, offset: int) -> Sequence[object]:
    found = await refunds.list_failed_refunds(call.ports, limit, offset)
    emails = await administration.emails_of(call.ports, {each.customer_id for each, _ in found})
    return [admin_refund_record(booking, operation, emails) for booking, operation in found]


@_change_endpoint(
    _REFUND,
    "retry",
    "Orders every failed refund of the booking again, now.",
    rule_codes=("no_failed_refund",),
)
async def retry_refunds(call: Call, ports: Ports) -> object:
    booking = await refunds.retry_refunds(ports, call.path_code())
    return booking_record(*actions.require_party(call.actor, booking))


@endpoint(
    "GET",
    "/api/admin/ledger/{code}",
    _ACCESS,
    summary="Read the ledger of a booking",
    description="Postings with signed amounts (debits are positive), and payment operations.",
    response_schema=reply_schema(ledger=LedgerRecord),
    not_found_name="Booking",
)
async def read_ledger(call: Call) -> Reply:
    book = await ledger_check.get_booking_ledger(call.ports, call.path_code())
    record = ledger_record(book.booking, book.postings, book.operations)
    return Reply(200, codec.encode({"ledger": record}))


# Companions, portfolios and reviews -----------------------------------------------------------


@_list_endpoint(
    "companions",
    AdminCompanionRecord,
    "All of them by id, also those that search does not show.",
    query=ListCompanionsForOperators,
)
async def list_companions(call: Call, limit: int, offset: int) -> Sequence[object]:
    wanted: ListCompanionsForOperators = call.parsed_input
    found = await administration.list_companions(call.ports, 0, limit, offset, wanted.status)
    emails = await administration.emails_of(call.ports, [each.id for each in found])
    currency = call.ports.policy.currency
    return [admin_companion_record(each, currency, emails) for each in found]


async def _set_approval(call: Call, ports: Ports, approval: Approval) -> object:
    changed = await administration.set_approval(ports, call.path_id("Companion"), approval)
    emails = await administration.emails_of(ports, [changed.id])
    return admin_companion_record(changed, ports.policy.currency, emails)


@_change_endpoint(
    _COMPANION,
    "approve",
    "Search shows it, and it can be booked.",
    rule_codes=("profile_incomplete",),
)
async def approve_companion(call: Call, ports: Ports) -> object:
    return await _set_approval(call, ports, Approval.APPROVED)


@_change_endpoint(_COMPANION, "reject", "Search hides it; accepted bookings stay.")
async def reject_companion(call: Call, ports: Ports) -> object:
    return await _set_approval(call, ports, Approval.SUSPENDED)


@_list_endpoint(
    "portfolio",
    AdminPortfolioItemRecord,
    "The items of all companions, by id.",
    query=ListPortfolioForOperators,
)
async def list_portfolio(call: Call, limit: int, offset: int) -> Sequence[object]:
    wanted: ListPortfolioForOperators = call.parsed_input
    found = await administration.list_portfolio_items(call.ports, wanted.status, 0, limit, offset)
    emails = await administration.emails_of(call.ports, {each.companion_id for each in found})
    return [admin_portfolio_record(each, emails) for each in found]


async def _moderate(call: Call, ports: Ports, status: PortfolioItemStatus) -> object:
    item = await administration.moderate_item(ports, call.path_id("Portfolio item"), status)
    emails = await administration.emails_of(ports, [item.companion_id])
    return admin_portfolio_record(item, emails)


@_change_endpoint(_ITEM, "approve", "Everybody can see it.")
async def approve_item(call: Call, ports: Ports) -> object:
    return await _moderate(call, ports, PortfolioItemStatus.APPROVED)


@_change_endpoint(_ITEM, "reject", "Only its owner can see it.")
async def reject_item(call: Call, ports: Ports) -> object:
    return await _moderate(call, ports, PortfolioItemStatus.REJECTED)


@_list_endpoint("reviews", AdminReviewRecord, "All of them by id, hidden ones too.")
async def list_reviews(call: Call, limit: int, offset: int) -> Sequence[object]:
    found = await reviews.list_all_reviews(call.ports, 0, limit, offset)
    parties = {number for each in found for number in (each.reviewer_id, each.reviewee_id)}
    emails = await administration.emails_of(call.ports, parties)
    return [admin_review_record(each, emails) for each in found]


async def _set_hidden(call: Call, ports: Ports, *, hidden: bool) -> object:
    review = await reviews.set_review_hidden(ports, call.path_id("Review"), hidden)
    emails = await administration.emails_of(ports, [review.reviewer_id, review.reviewee_id])
    return admin_review_record(review, emails)


@_change_endpoint(_REVIEW, "hide", "It leaves lists, profile and rating.")
async def hide_review(call: Call, ports: Ports) -> object:
    return await _set_hidden(call, ports, hidden=True)


@_change_endpoint(_REVIEW, "show", "A hidden review is shown and counted again.")
async def show_review(call: Call, ports: Ports) -> object:
    return await _set_hidden(call, ports, hidden=False)


# People and webhooks --------------------------------------------------------------------------


@_list_endpoint("people", PersonRecord, "All accounts by id.")
async def list_people(call: Call, limit: int, offset: int) -> Sequence[object]:
    found = await administration.list_users(call.ports, 0, limit, offset)
    return [person_record(each) for each in found]


@_change_endpoint(
    _PERSON,
    "disable",
    "Sessions and keys stop working, and search hides the companion.",
    body=DisablePerson,
)
async def disable_person(call: Call, ports: Ports) -> object:
    user = await administration.get_user_by_id(ports, call.path_id("User"))
    return person_record(await administration.disable_user(ports, user.email))


@_change_endpoint(_PERSON, "enable", "A disabled account works again.")
async def enable_person(call: Call, ports: Ports) -> object:
    user = await administration.get_user_by_id(ports, call.path_id("User"))
    return person_record(await administration.enable_user(ports, user.email))


@_list_endpoint("webhooks", AdminWebhookRecord, "The endpoints of all users, by id.")
async def list_webhooks(call: Call, limit: int, offset: int) -> Sequence[object]:
    found = await endpoints.list_all_endpoints(call.ports, 0, limit, offset)
    return [admin_webhook_record(each) for each in found]


async def _set_active(call: Call, ports: Ports, *, active: bool) -> object:
    changed = await endpoints.update_endpoint(
        ports, None, call.path_id("Webhook"), ChangeWebhook(active=active)
    )
    owner = await administration.get_user_by_id(ports, changed.owner_id)
    return admin_webhook_record(EndpointSubscription(changed, owner))


@_change_endpoint(_WEBHOOK, "enable", "Its held deliveries are sent.")
async def enable_webhook(call: Call, ports: Ports) -> object:
    return await _set_active(call, ports, active=True)


@_change_endpoint(_WEBHOOK, "disable", "Its deliveries are held, as if its owner paused it.")
async def disable_webhook(call: Call, ports: Ports) -> object:
    return await _set_active(call, ports, active=False)


# Alerts and the audit -------------------------------------------------------------------------


@_list_endpoint("alerts", AlertRecord, "The newest first.")
async def list_alerts(call: Call, limit: int, offset: int) -> Sequence[object]:
    found = await administration.list_alerts(call.ports, limit, offset)
    return [alert_record(*each) for each in found]


@_list_endpoint("audit", AuditRecord, "Every change by an operator, the newest first.")
async def list_audit(call: Call, _: int, __: int) -> Sequence[object]:
    wanted: ListForOperators = call.parsed_input
    found = await audit.list_audit_entries(call.ports, wanted.page, wanted.limit)
    return [audit_record(each) for each in found]
