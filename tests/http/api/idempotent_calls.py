"""A valid call of each endpoint that takes an Idempotency-Key, for tests over all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import httpx
from attrs import frozen

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, add_booking
from staffbooking_adapters.testing.builders_messages import add_direct
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_adapters.testing.builders_webhooks import add_delivery, add_endpoint
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.ports import CustomerCompanionPair
from staffbooking_core.usecases.payments import payouts
from tests.http.deployment import HttpDeployment, json_body
from tests.support.memory_deployment import BookingScenario, actor_of


@frozen
class PreparedCall:
    """A client, and the path and body of a call that succeeds."""

    client: httpx.AsyncClient
    path: str
    body: dict[str, Any] | None = None

    async def send(self, key: str, **changes: Any) -> httpx.Response:
        body = None if self.body is None and not changes else {**(self.body or {}), **changes}
        return await self.client.post(self.path, headers={"idempotency-key": key}, json=body)


Prepare: TypeAlias = Callable[[HttpDeployment], Awaitable[PreparedCall]]


async def _booking(world: HttpDeployment, **given: Any) -> Booking:
    return await add_booking(world.store, world.companion, world.customer, **given)


def _action(
    name: str,
    who: str,
    status: BookingStatus,
    body: dict[str, Any] | None = None,
    starts_in: Any = DAY,
) -> Prepare:
    """An action on a booking of this status that starts in this time and takes an hour."""

    async def prepare(world: HttpDeployment) -> PreparedCall:
        starts_at = world.clock.now + starts_in
        booking = await _booking(
            world, status=status, starts_at=starts_at, ends_at=starts_at + HOUR
        )
        client = await world.signed_in_client(getattr(world, who).id)
        return PreparedCall(client, f"/bookings/{booking.id}/{name}", body)

    return prepare


async def _checkout(world: HttpDeployment) -> PreparedCall:
    given = world.request_body()
    made = json_body(await world.client_with_key().post("/api/v1/bookings", json=given), 201)
    path = f"/bookings/{made['booking']['id']}"
    staff = await world.signed_in_client(world.companion.id)
    json_body(await staff.post(f"{path}/accept"))
    return PreparedCall(await world.signed_in_client(world.customer.id), f"{path}/checkout")


def _in_dispute(name: str, body: dict[str, Any] | None = None) -> Prepare:
    async def prepare(world: HttpDeployment) -> PreparedCall:
        opened = await _action(
            "dispute", "customer", BookingStatus.PAID, {"reason": "late"}, -MINUTE
        )(world)
        json_body(await opened.client.post(opened.path, json=opened.body))
        return PreparedCall(opened.client, f"{opened.path}/{name}", body)

    return prepare


async def _by_key(world: HttpDeployment) -> PreparedCall:
    return PreparedCall(world.client_with_key(), "/api/v1/bookings", world.request_body())


async def _by_session(world: HttpDeployment) -> PreparedCall:
    body = world.request_body()
    del body["customer_email"]
    return PreparedCall(await world.signed_in_client(world.customer.id), "/bookings", body)


async def _review(world: HttpDeployment) -> PreparedCall:
    booking = await _booking(world, status=BookingStatus.COMPLETED)
    client = await world.signed_in_client(world.customer.id)
    return PreparedCall(client, f"/reviews/booking/{booking.id}", {"rating": 5})


async def _response(world: HttpDeployment) -> PreparedCall:
    review = await add_review(world.store, await _booking(world, status=BookingStatus.COMPLETED))
    client = await world.signed_in_client(world.companion.id)
    return PreparedCall(client, f"/reviews/{review.id}/respond", {"response": "Thank you"})


async def _message(world: HttpDeployment) -> PreparedCall:
    await _booking(world)
    client = await world.signed_in_client(world.customer.id)
    return PreparedCall(client, f"/messages/send/{world.companion.id}", {"content": "Hello"})


async def _group_message(world: HttpDeployment) -> PreparedCall:
    pair = CustomerCompanionPair(world.customer.id, world.companion.id)
    talk = await add_direct(world.store, pair)
    client = await world.signed_in_client(world.customer.id)
    return PreparedCall(client, f"/messages/conversation/{talk.id}", {"content": "Hello"})


def _on_webhook(name: str) -> Prepare:
    async def prepare(world: HttpDeployment) -> PreparedCall:
        hook = await add_endpoint(world.store, world.subscriber, vault=world.ports.vault)
        client = world.client_with_key()
        if name == "activate-secret":
            json_body(await client.post(f"/api/webhooks/{hook.id}/rotate-secret"))
        if name == "redeliver":
            delivery = await add_delivery(world.store, hook)
            return PreparedCall(client, f"/api/webhooks/{hook.id}/deliveries/{delivery.id}/{name}")
        return PreparedCall(client, f"/api/webhooks/{hook.id}/{name}")

    return prepare


async def _webhook(world: HttpDeployment) -> PreparedCall:
    body = {"url": "https://hooks.example.com/in"}
    return PreparedCall(world.client_with_key(), "/api/webhooks", body)


async def _api_key(world: HttpDeployment) -> PreparedCall:
    client = await world.signed_in_client(world.subscriber.id)
    return PreparedCall(client, "/api/keys", {"name": "Program", "permissions": ["read"]})


def _as_staff(path: str, body: dict[str, Any] | None = None) -> Prepare:
    async def prepare(world: HttpDeployment) -> PreparedCall:
        return PreparedCall(await world.signed_in_client(world.companion.id), path, body)

    return prepare


# Operators ------------------------------------------------------------------------------


def _by_operator(path: str, **body: Any) -> Prepare:
    """A change of the companion, their review, portfolio item or webhook endpoint."""

    async def prepare(world: HttpDeployment) -> PreparedCall:
        review = await add_review(world.store, await _booking(world))
        item = await add_portfolio_item(world.store, world.companion.id)
        hook = await add_endpoint(world.store, world.subscriber, vault=world.ports.vault)
        numbers = {"reviews": review.id, "portfolio": item.id, "webhooks": hook.id}
        number = numbers.get(path.split("/")[3], world.companion.id)
        return await _as_operator(world, path.replace("{id}", str(number)), **body)

    return prepare


def _of_money(path: str, scenario: Callable[[BookingScenario], Awaitable[Booking]]) -> Prepare:
    """A change of the payout, refund or dispute of a booking."""

    async def prepare(world: HttpDeployment) -> PreparedCall:
        parties = (actor_of(each) for each in (world.customer, world.companion, world.admin))
        booking = await scenario(BookingScenario(world.ports, *parties))
        outcome = {"outcome": "refund"} if path.endswith("resolve") else {}
        return await _as_operator(world, path.replace("{code}", booking.code), **outcome)

    return prepare


async def _as_operator(world: HttpDeployment, path: str, **body: Any) -> PreparedCall:
    client = await world.signed_in_client(world.admin.id)
    return PreparedCall(client, path, {"reason": "Asked by phone", **body})


async def _disputed(scene: BookingScenario) -> Booking:
    return await scene.dispute(await scene.completed())


async def _held(scene: BookingScenario) -> Booking:
    return await payouts.hold_payout(scene.ports, (await scene.completed()).code)


async def _with_failed_payout(scene: BookingScenario) -> Booking:
    booking = await scene.completed()
    await scene.fault("pay_out", "refuse")
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    return booking


async def _with_failed_refund(scene: BookingScenario) -> Booking:
    booking = await scene.paid()
    await scene.fault("refund", "refuse")
    await scene.cancel(booking)
    await scene.drain()
    return booking


_MONEY_SCENARIOS: dict[str, Callable[[BookingScenario], Awaitable[Booking]]] = {
    "/api/admin/disputes/{code}/resolve": _disputed,
    "/api/admin/payouts/{code}/hold": BookingScenario.completed,
    "/api/admin/payouts/{code}/release": _held,
    "/api/admin/payouts/{code}/retry": _with_failed_payout,
    "/api/admin/refunds/{code}/retry": _with_failed_refund,
}

_ADMIN_CALLS: dict[str, Prepare] = {
    **{
        path: _by_operator(path)
        for path in (
            *(f"/api/admin/companions/{{id}}/{act}" for act in ("approve", "reject")),
            *(f"/api/admin/portfolio/{{id}}/{act}" for act in ("approve", "reject")),
            *(f"/api/admin/reviews/{{id}}/{act}" for act in ("hide", "show")),
            *(f"/api/admin/webhooks/{{id}}/{act}" for act in ("enable", "disable")),
            "/api/admin/people/{id}/enable",
        )
    },
    "/api/admin/people/{id}/disable": _by_operator(
        "/api/admin/people/{id}/disable", bookings="keep"
    ),
    **{path: _of_money(path, scenario) for path, scenario in _MONEY_SCENARIOS.items()},
}

CALLS: dict[str, Prepare] = {
    **_ADMIN_CALLS,
    "/api/v1/bookings": _by_key,
    "/bookings": _by_session,
    "/bookings/{id}/accept": _action("accept", "companion", BookingStatus.PENDING),
    "/bookings/{id}/decline": _action("decline", "companion", BookingStatus.PENDING),
    "/bookings/{id}/checkout": _checkout,
    "/bookings/{id}/check-in": _action("check-in", "companion", BookingStatus.PAID, None, HOUR),
    "/bookings/{id}/confirm": _action("confirm", "customer", BookingStatus.PAID, None, -DAY),
    "/bookings/{id}/cancel": _action("cancel", "customer", BookingStatus.PENDING),
    "/bookings/{id}/dispute": _action(
        "dispute", "customer", BookingStatus.PAID, {"reason": "late"}, -MINUTE
    ),
    "/bookings/{id}/no-show": _action("no-show", "customer", BookingStatus.PAID, None, -HOUR),
    "/bookings/{id}/dispute/statements": _in_dispute("statements", {"text": "An hour"}),
    "/bookings/{id}/dispute/withdraw": _in_dispute("withdraw"),
    "/reviews/booking/{id}": _review,
    "/reviews/{id}/respond": _response,
    "/messages/send/{id}": _message,
    "/messages/conversation/{id}": _group_message,
    "/api/webhooks": _webhook,
    "/api/webhooks/{id}/rotate-secret": _on_webhook("rotate-secret"),
    "/api/webhooks/{id}/activate-secret": _on_webhook("activate-secret"),
    "/api/webhooks/{id}/test": _on_webhook("test"),
    "/api/webhooks/{id}/deliveries/{delivery_id}/redeliver": _on_webhook("redeliver"),
    "/api/keys": _api_key,
    "/staff/portfolio": _as_staff("/staff/portfolio", {"title": "A ball", "image": "a/b.jpg"}),
    "/staff/calendar-feed": _as_staff("/staff/calendar-feed"),
    "/staff/payout-account": _as_staff("/staff/payout-account"),
}
"""The endpoints that take the header, by path."""

SECRETS = {
    "/api/webhooks": "secret",
    "/api/webhooks/{id}/rotate-secret": "secret",
    "/api/keys": "key",
    "/staff/calendar-feed": "url",
    "/staff/payout-account": "onboarding_url",
}
"""The field of each response that shows a secret."""
