"""People, companions, portfolios, reviews, webhooks, alerts and the audit, for operators (CONTRACT
10)."""

from collections.abc import Sequence

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.domain.webhooks.deliveries import EndpointSubscription
from staffbooking_core.errors import NotFound
from staffbooking_core.inputs import ChangeWebhook
from staffbooking_core.operator_inputs import (
    DisablePerson,
)
from staffbooking_core.ports import Ports
from staffbooking_core.representations.administration import (
    AdminCompanionRecord,
    AdminPortfolioItemRecord,
    AdminReviewRecord,
    AdminWebhookRecord,
    AlertRecord,
    AuditEntryRecord,
    PersonRecord,
    admin_companion_record,
    admin_portfolio_record,
    admin_review_record,
    admin_webhook_record,
    alert_record,
    audit_record,
    person_record,
)
from staffbooking_core.usecases.accounts import administration, audit
from staffbooking_core.usecases.bookings import alerts, disabling
from staffbooking_core.usecases.companions import approvals, reviews
from staffbooking_core.usecases.webhooks import endpoints
from staffbooking_http.api.endpoint import Call
from staffbooking_http.api.query_string import (
    ListCompanionsForOperators,
    ListPortfolioForOperators,
)
from staffbooking_http.routes.admin_endpoints import AuditedResource, change_endpoint, list_endpoint


async def _check_person(call: Call) -> object:
    person = await administration.get_user_by_id(call.ports, call.path_id("User"))
    if person.erased_at is not None:
        raise NotFound("User")
    return person


async def _check_companion(call: Call) -> object:
    return await approvals.get_companion(call.ports, call.path_id("Companion"))


async def _check_portfolio_item(call: Call) -> object:
    return await approvals.get_portfolio_item(call.ports, call.path_id("Portfolio item"))


async def _check_review(call: Call) -> object:
    return await reviews.get_review(call.ports, call.path_id("Review"))


async def _check_webhook(call: Call) -> object:
    await endpoints.authorize(call.ports, None, call.path_id("Webhook"))
    return None


_COMPANION = AuditedResource(
    *("companions", "companion", AdminCompanionRecord, AuditSubject.COMPANION),
    *("Companion", _check_companion),
)
_ITEM = AuditedResource(
    *("portfolio", "item", AdminPortfolioItemRecord, AuditSubject.PORTFOLIO_ITEM),
    *("Portfolio item", _check_portfolio_item),
)
_PERSON = AuditedResource(
    *("people", "person", PersonRecord, AuditSubject.PERSON), *("User", _check_person)
)
_REVIEW = AuditedResource(
    *("reviews", "review", AdminReviewRecord, AuditSubject.REVIEW), *("Review", _check_review)
)
_WEBHOOK = AuditedResource(
    *("webhooks", "webhook", AdminWebhookRecord, AuditSubject.WEBHOOK), *("Webhook", _check_webhook)
)


# Companions, portfolios and reviews -----------------------------------------------------------


@list_endpoint(
    "companions",
    AdminCompanionRecord,
    "All of them by id, also those that search does not show.",
    query=ListCompanionsForOperators,
)
async def list_companions(call: Call, page: int, limit: int) -> Sequence[object]:
    wanted: ListCompanionsForOperators = call.parsed_input
    found = await approvals.list_companions(call.ports, wanted.status, page, limit)
    emails = await administration.emails_of(call.ports, [each.id for each in found])
    currency = call.ports.policy.currency
    return [admin_companion_record(each, currency, emails) for each in found]


async def _set_approval(call: Call, ports: Ports, approval: Approval) -> object:
    changed = await approvals.set_approval(ports, call.path_id("Companion"), approval)
    emails = await administration.emails_of(ports, [changed.id])
    return admin_companion_record(changed, ports.policy.currency, emails)


@change_endpoint(
    _COMPANION,
    "approve",
    "Search shows it, and it can be booked.",
    rule_codes=("profile_incomplete",),
)
async def approve_companion(call: Call, ports: Ports) -> object:
    return await _set_approval(call, ports, Approval.APPROVED)


@change_endpoint(_COMPANION, "reject", "Search hides it; accepted bookings stay.")
async def reject_companion(call: Call, ports: Ports) -> object:
    return await _set_approval(call, ports, Approval.SUSPENDED)


@list_endpoint(
    "portfolio",
    AdminPortfolioItemRecord,
    "The items of all companions, by id.",
    query=ListPortfolioForOperators,
)
async def list_portfolio(call: Call, page: int, limit: int) -> Sequence[object]:
    wanted: ListPortfolioForOperators = call.parsed_input
    found = await approvals.list_portfolio_items(call.ports, wanted.status, page, limit)
    emails = await administration.emails_of(call.ports, {each.companion_id for each in found})
    return [admin_portfolio_record(each, emails) for each in found]


async def _moderate(call: Call, ports: Ports, status: PortfolioItemStatus) -> object:
    reason: str = call.parsed_input.reason
    item = await approvals.moderate_item(ports, call.path_id("Portfolio item"), status, reason)
    emails = await administration.emails_of(ports, [item.companion_id])
    return admin_portfolio_record(item, emails)


@change_endpoint(_ITEM, "approve", "Everybody can see it.")
async def approve_portfolio_item(call: Call, ports: Ports) -> object:
    return await _moderate(call, ports, PortfolioItemStatus.APPROVED)


@change_endpoint(_ITEM, "reject", "Only its owner can see it, and reads the reason.")
async def reject_portfolio_item(call: Call, ports: Ports) -> object:
    return await _moderate(call, ports, PortfolioItemStatus.REJECTED)


@list_endpoint("reviews", AdminReviewRecord, "All of them by id, hidden ones too.")
async def list_reviews(call: Call, page: int, limit: int) -> Sequence[object]:
    found = await reviews.list_all_reviews(call.ports, page, limit)
    parties = {number for each in found for number in (each.reviewer_id, each.reviewee_id)}
    emails = await administration.emails_of(call.ports, parties)
    return [admin_review_record(each, emails) for each in found]


async def _set_hidden(call: Call, ports: Ports, *, hidden: bool) -> object:
    review = await reviews.set_review_hidden(ports, call.path_id("Review"), hidden)
    emails = await administration.emails_of(ports, [review.reviewer_id, review.reviewee_id])
    return admin_review_record(review, emails)


@change_endpoint(_REVIEW, "hide", "It leaves lists, profile and rating.")
async def hide_review(call: Call, ports: Ports) -> object:
    return await _set_hidden(call, ports, hidden=True)


@change_endpoint(_REVIEW, "show", "A hidden review is shown and counted again.")
async def show_review(call: Call, ports: Ports) -> object:
    return await _set_hidden(call, ports, hidden=False)


# People and webhooks --------------------------------------------------------------------------


@list_endpoint("people", PersonRecord, "All accounts by id.")
async def list_people(call: Call, page: int, limit: int) -> Sequence[object]:
    found = await administration.list_users(call.ports, page, limit)
    return [person_record(each) for each in found]


@change_endpoint(
    _PERSON,
    "disable",
    "Sessions and keys stop working, search hides the companion, requests end and payouts are "
    "held. `bookings` is needed where accepted or paid bookings are ahead.",
    body=DisablePerson,
    rule_codes=("bookings_ahead", "own_account"),
)
async def disable_person(call: Call, ports: Ports) -> object:
    user = await administration.get_user_by_id(ports, call.path_id("User"))
    wanted: DisablePerson = call.parsed_input
    done = await disabling.disable_user(
        ports, user.email, wanted.bookings, wanted.reason, actor_id=call.user.id
    )
    return person_record(done.user)


@change_endpoint(_PERSON, "enable", "A disabled account works again.")
async def enable_person(call: Call, ports: Ports) -> object:
    user = await administration.get_user_by_id(ports, call.path_id("User"))
    return person_record(await administration.enable_user(ports, user.email))


@list_endpoint("webhooks", AdminWebhookRecord, "The endpoints of all users, by id.")
async def list_webhooks(call: Call, page: int, limit: int) -> Sequence[object]:
    found = await endpoints.list_all_endpoints(call.ports, page, limit)
    return [admin_webhook_record(each) for each in found]


async def _set_active(call: Call, ports: Ports, *, active: bool) -> object:
    changed = await endpoints.update_endpoint(
        ports, None, call.path_id("Webhook"), ChangeWebhook(active=active)
    )
    owner = await administration.get_user_by_id(ports, changed.owner_id)
    return admin_webhook_record(EndpointSubscription(changed, owner))


@change_endpoint(_WEBHOOK, "enable", "Its held deliveries are sent.")
async def enable_webhook(call: Call, ports: Ports) -> object:
    return await _set_active(call, ports, active=True)


@change_endpoint(_WEBHOOK, "disable", "Its deliveries are held, as if its owner paused it.")
async def disable_webhook(call: Call, ports: Ports) -> object:
    return await _set_active(call, ports, active=False)


# Alerts and the audit -------------------------------------------------------------------------


@list_endpoint("alerts", AlertRecord, "The newest first.")
async def list_alerts(call: Call, page: int, limit: int) -> Sequence[object]:
    found = await alerts.list_alerts(call.ports, page, limit)
    return [alert_record(*each) for each in found]


@list_endpoint("audit", AuditEntryRecord, "Every change by an operator, the newest first.")
async def list_audit(call: Call, page: int, limit: int) -> Sequence[object]:
    found = await audit.list_audit_entries(call.ports, page, limit)
    return [audit_record(each) for each in found]
