"""Invariants of every row of the endpoint table: headers, credentials, errors.

The rows come from the table itself: an endpoint that is missing from the matrix fails.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import add_api_key, add_booking, make_api_key_text
from staffbooking_adapters.testing.builders_messages import add_direct
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_adapters.testing.builders_webhooks import add_delivery, add_endpoint
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.ports import CustomerCompanionPair
from staffbooking_http.api.access import (
    ApiKeyAccess,
    ApiKeyOrSessionAccess,
    PublicAccess,
    SecretPathAccess,
    SessionAccess,
    SignedOutAccess,
)
from staffbooking_http.api.endpoint import Endpoint
from staffbooking_http.routes import ENDPOINTS_BY_TAG, SANDBOX_ENDPOINTS_BY_TAG
from tests.http.deployment import HttpDeployment

pytestmark = pytest.mark.anyio

ROWS: list[Endpoint] = [
    row
    for family in (*ENDPOINTS_BY_TAG.values(), *SANDBOX_ENDPOINTS_BY_TAG.values())
    for row in family
]
NAMES = [f"{row.method} {row.path}" for row in ROWS]
SECURITY = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

PRINCIPALS = (
    "nobody",
    "bad key",
    "bad session",
    "reading key",
    "booking key",
    "admin's key",
    "customer",
    "companion",
    "stranger",
    "admin",
)

OPEN = dict.fromkeys(PRINCIPALS, 200)
BY_READ = {
    **dict.fromkeys(PRINCIPALS, 401),
    "reading key": 200,
    "booking key": 403,
    "admin's key": 200,
}
BY_BOOK = {**BY_READ, "reading key": 403, "booking key": 200}
BY_SESSION = {
    **dict.fromkeys(PRINCIPALS, 401),
    **dict.fromkeys(("customer", "companion", "stranger", "admin"), 200),
}
BY_STAFF = {**BY_SESSION, "customer": 403, "stranger": 403, "admin": 403}
OF_CUSTOMER = {**BY_SESSION, "companion": 403, "stranger": 404, "admin": 403}
OF_COMPANION = {**BY_SESSION, "customer": 403, "stranger": 404, "admin": 403}
OF_PARTIES = {**BY_SESSION, "stranger": 404}
BY_EITHER = {**BY_READ, **dict.fromkeys(("customer", "companion", "stranger", "admin"), 200)}
NO_TIER = dict.fromkeys(("customer", "companion", "stranger"), 403)
TO_LOOK = {**BY_EITHER, **NO_TIER}
TO_CHANGE = {**TO_LOOK, "reading key": 403, "booking key": 200}
BY_ADMIN = {**BY_SESSION, **dict.fromkeys(("customer", "companion", "stranger"), 403)}
FOREIGN = {"admin's key": 404, "admin": 404}

MATRIX: dict[str, dict[str, int]] = {
    "GET /api/v1/companions": BY_READ,
    "GET /api/v1/companions/{id}": BY_READ,
    "GET /api/v1/companions/{id}/availability": BY_READ,
    "GET /api/v1/service-types": BY_READ,
    "GET /api/v1/bookings": BY_READ,
    "GET /api/v1/bookings/{code}": BY_READ,
    "POST /api/v1/bookings": BY_BOOK,
    "POST /api/v1/quotes": BY_READ,
    "POST /quotes": BY_SESSION,
    "GET /bookings": BY_SESSION,
    "POST /bookings": {**BY_SESSION, "companion": 403, "admin": 403},
    "GET /bookings/{id}": OF_PARTIES,
    "GET /bookings/{id}/cancellation-quote": OF_PARTIES,
    "POST /bookings/{id}/accept": OF_COMPANION,
    "POST /bookings/{id}/decline": OF_COMPANION,
    "POST /bookings/{id}/check-in": OF_COMPANION,
    "POST /bookings/{id}/checkout": OF_CUSTOMER,
    "POST /bookings/{id}/confirm": OF_CUSTOMER,
    "POST /bookings/{id}/cancel": OF_PARTIES,
    "POST /bookings/{id}/dispute": {**OF_PARTIES, "admin": 403},
    "GET /bookings/{id}/dispute": {
        name: 404 if met == 200 else met for name, met in OF_PARTIES.items()
    },
    "POST /bookings/{id}/dispute/statements": {**OF_PARTIES, "admin": 403},
    "POST /bookings/{id}/dispute/withdraw": {**OF_PARTIES, "admin": 403},
    "POST /bookings/{id}/dispute/files": {
        **OF_PARTIES,
        **dict.fromkeys(("customer", "companion"), 415),
        "admin": 403,
    },
    "GET /bookings/{id}/dispute/files/{file}": {
        name: 404 if met == 200 else met for name, met in OF_PARTIES.items()
    },
    "POST /bookings/{id}/no-show": OF_CUSTOMER,
    "POST /reviews/booking/{id}": {**OF_PARTIES, "admin": 403},
    "GET /reviews/user/{id}": BY_EITHER,
    "POST /reviews/{id}/respond": BY_STAFF,
    "GET /messages": BY_SESSION,
    "GET /messages/conversation/{id}": {**OF_PARTIES, "admin": 404},
    "POST /messages/conversation/{id}": {**OF_PARTIES, "admin": 404},
    "POST /messages/send/{id}": {**BY_SESSION, "stranger": 403, "admin": 403},
    "POST /api/webhooks": TO_CHANGE,
    "GET /api/webhooks": TO_LOOK,
    "PATCH /api/webhooks/{id}": {**TO_CHANGE, **FOREIGN},
    "DELETE /api/webhooks/{id}": {**TO_CHANGE, **FOREIGN},
    "POST /api/webhooks/{id}/test": {**TO_CHANGE, **FOREIGN},
    "POST /api/webhooks/{id}/rotate-secret": {**TO_CHANGE, **FOREIGN},
    "POST /api/webhooks/{id}/activate-secret": {**TO_CHANGE, **FOREIGN},
    "GET /api/webhooks/{id}/deliveries": {**TO_LOOK, **FOREIGN},
    "POST /api/webhooks/{id}/deliveries/{delivery_id}/redeliver": {**TO_CHANGE, **FOREIGN},
    "GET /api/events": TO_LOOK,
    "POST /api/keys": {**BY_SESSION, "customer": 403, "companion": 403, "stranger": 403},
    "GET /api/keys": BY_SESSION,
    "DELETE /api/keys/{id}": {**BY_SESSION, "companion": 404, "stranger": 404, "admin": 404},
    "POST /auth/register": OPEN,
    "POST /auth/login": OPEN,
    "POST /auth/logout": BY_SESSION,
    "GET /auth/session": BY_SESSION,
    "POST /auth/password": BY_SESSION,
    "POST /auth/forgot-password": OPEN,
    "POST /auth/reset-password": OPEN,
    "GET /auth/sessions": BY_SESSION,
    "DELETE /auth/sessions/{id}": {
        name: 404 if met == 200 else met for name, met in BY_SESSION.items()
    },
    "DELETE /auth/sessions": BY_SESSION,
    "POST /auth/verification": BY_SESSION,
    "POST /auth/verify-email": OPEN,
    "GET /account/notifications": BY_SESSION,
    "PUT /account/notifications": BY_SESSION,
    "GET /account/export": BY_SESSION,
    "POST /account/erase": BY_SESSION,
    "POST /contact": OPEN,
    "GET /staff/profile": BY_STAFF,
    "PUT /staff/profile": BY_STAFF,
    "GET /staff/availability": BY_STAFF,
    "PUT /staff/availability": BY_STAFF,
    "GET /staff/portfolio": BY_STAFF,
    "POST /staff/portfolio": BY_STAFF,
    "DELETE /staff/portfolio/{id}": BY_STAFF,
    "GET /staff/images": BY_STAFF,
    "POST /staff/images": {**BY_STAFF, "companion": 415},
    "DELETE /staff/images/{name}": {**BY_STAFF, "companion": 404},
    "GET /media/{name}": dict.fromkeys(PRINCIPALS, 404),
    "GET /staff/calendar-feed": BY_STAFF,
    "POST /staff/calendar-feed": BY_STAFF,
    "DELETE /staff/calendar-feed": BY_STAFF,
    "GET /calendars/{secret}.ics": dict.fromkeys(PRINCIPALS, 404),
    "POST /staff/busy-times": {**BY_STAFF, "companion": 415},
    "GET /staff/busy-times": BY_STAFF,
    "DELETE /staff/busy-times": BY_STAFF,
    "GET /staff/payout-account": BY_STAFF,
    "POST /staff/payout-account": BY_STAFF,
    "POST /processor/{provider}/webhook": OPEN,
    "GET /api/admin/disputes": BY_ADMIN,
    "GET /api/admin/payouts": BY_ADMIN,
    "GET /api/admin/refunds": BY_ADMIN,
    "GET /api/admin/companions": BY_ADMIN,
    "GET /api/admin/portfolio": BY_ADMIN,
    "GET /api/admin/people": BY_ADMIN,
    "GET /api/admin/reviews": BY_ADMIN,
    "GET /api/admin/webhooks": BY_ADMIN,
    "GET /api/admin/alerts": BY_ADMIN,
    "GET /api/admin/audit": BY_ADMIN,
    "GET /api/admin/ledger/{code}": BY_ADMIN,
    "POST /api/admin/disputes/{code}/resolve": BY_ADMIN,
    "POST /api/admin/payouts/{code}/hold": BY_ADMIN,
    "POST /api/admin/payouts/{code}/release": BY_ADMIN,
    "POST /api/admin/payouts/{code}/retry": BY_ADMIN,
    "POST /api/admin/refunds/{code}/retry": BY_ADMIN,
    "POST /api/admin/companions/{id}/approve": BY_ADMIN,
    "POST /api/admin/companions/{id}/reject": BY_ADMIN,
    "POST /api/admin/portfolio/{id}/approve": BY_ADMIN,
    "POST /api/admin/portfolio/{id}/reject": BY_ADMIN,
    "POST /api/admin/people/{id}/disable": BY_ADMIN,
    "POST /api/admin/people/{id}/enable": BY_ADMIN,
    "POST /api/admin/reviews/{id}/hide": BY_ADMIN,
    "POST /api/admin/reviews/{id}/show": BY_ADMIN,
    "POST /api/admin/webhooks/{id}/enable": BY_ADMIN,
    "POST /api/admin/webhooks/{id}/disable": BY_ADMIN,
    "GET /healthz": OPEN,
    "GET /readyz": OPEN,
    "GET /metrics": OPEN,
    "GET /openapi.json": OPEN,
    "GET /asyncapi.json": OPEN,
    "GET /ws": dict.fromkeys(PRINCIPALS, 426),
    "GET /sandbox/clock": OPEN,
    "POST /sandbox/clock": OPEN,
    "POST /sandbox/chargebacks": OPEN,
    "POST /sandbox/payments/faults": OPEN,
    "DELETE /sandbox/payments/faults": OPEN,
}
"""The status of each principal; 200 stands for 200, 201, 400 and 422, where access is granted."""


async def client_of(world: HttpDeployment, who: str) -> httpx.AsyncClient:
    """A client of a principal."""
    match who:
        case "nobody":
            return world.client()
        case "bad key":
            return world.client_with_key(make_api_key_text())
        case "bad session":
            return world.client(cookie="connect.sid=guess")
        case "reading key":
            return world.client_with_key(await world.add_api_key(world.subscriber, Permission.READ))
        case "booking key":
            return world.client_with_key(await world.add_api_key(world.subscriber, Permission.BOOK))
        case "admin's key":
            return world.client_with_key(await world.add_api_key(world.admin, Permission.READ))
    return await world.signed_in_client(getattr(world, who).id)


async def call(world: HttpDeployment, row: Endpoint, client: httpx.AsyncClient) -> httpx.Response:
    """Call a row on resources of the customer and the companion, and a webhook endpoint of the
    subscriber."""
    booking = await add_booking(world.store, world.companion, world.customer)
    key = await add_api_key(world.store, world.customer.id)
    review = await add_review(world.store, booking)
    item = await add_portfolio_item(world.store, world.companion.id)
    hook = await add_endpoint(world.store, world.subscriber, vault=world.ports.vault)
    talk = await add_direct(
        world.store, CustomerCompanionPair(booking.customer_id, booking.companion_id)
    )
    number = {
        "/api/keys/{id}": key.id,
        "/api/v1/companions": world.companion.id,
        "/reviews/user/": world.companion.id,
        "/reviews/{id}/": review.id,
        "/staff/portfolio/": item.id,
        "/messages/conversation/": talk.id,
        "/messages/send/": world.companion.id,
        "/api/webhooks": hook.id,
        "/api/admin/companions": world.companion.id,
        "/api/admin/people": world.companion.id,
        "/api/admin/portfolio": item.id,
        "/api/admin/reviews": review.id,
        "/api/admin/webhooks": hook.id,
    }
    wanted = next((number[head] for head in number if row.path.startswith(head)), booking.id)
    path = row.path.replace("{id}", str(wanted)).replace("{code}", booking.code)
    path = path.replace("{provider}", world.ports.payments.name)
    if "{delivery_id}" in path:
        delivery = await add_delivery(world.store, hook)
        path = path.replace("{delivery_id}", str(delivery.id))
    body: Any = {"json": {}} if row.body is not None else {}
    return await client.request(row.method, path, **body)


def test_the_matrix_names_every_row() -> None:
    """The matrix has an entry for each endpoint and no others."""
    assert set(MATRIX) == set(NAMES)


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
async def test_every_row_grants_access_as_in_the_matrix(
    world: HttpDeployment, row: Endpoint
) -> None:
    """Each principal gets the matrix's status at each endpoint."""
    world.raise_limits()
    met = {}
    for who in PRINCIPALS:
        status = (await call(world, row, await client_of(world, who))).status_code
        met[who] = 200 if status in (200, 201, 400, 422) else status
    assert met == MATRIX[f"{row.method} {row.path}"]


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
async def test_every_answer_has_its_headers(world: HttpDeployment, row: Endpoint) -> None:
    """Every response has security headers, and rate limit headers exactly on rate-limited
    endpoints."""
    world.raise_limits()
    path = row.path.replace("{code}", "BK")
    path = path.replace("{id}", "1").replace("{delivery_id}", "1")
    program, browser = world.client_with_key(), await world.signed_in_client(world.customer.id)
    for client in (world.client(), program, browser):
        for method in (row.method, "OPTIONS", "TRACE"):
            answer = await client.request(method, path)
            assert SECURITY.items() <= answer.headers.items()
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            assert answer.headers["x-request-id"]
            assert "server" not in answer.headers
            assert ("x-ratelimit-reset" in answer.headers) is row.access.is_rate_limited
            if answer.status_code >= 400:
                assert {"error", "code"} <= answer.json().keys()


BY_SESSION_ALONE = (
    *(
        "/auth/",
        "/account/",
        "/api/admin/",
        "/api/keys",
        "/bookings",
        "/quotes",
        "/staff/",
        "/reviews/",
        "/messages",
    ),
)
SIGNED_OUT = (
    *("/auth/login", "/auth/register", "/auth/forgot-password", "/auth/reset-password"),
    *("/auth/verify-email", "/contact"),
)


def test_each_path_has_its_kind_of_access() -> None:
    """Each path has its kind of access: API key, session, either, secret path, signed out or
    public."""
    for row in ROWS:
        if row.path.startswith("/api/v1/"):
            assert isinstance(row.access, ApiKeyAccess), row.path
        elif row.path.startswith("/calendars/"):
            assert isinstance(row.access, SecretPathAccess), row.path
        elif row.path in SIGNED_OUT:
            assert isinstance(row.access, SignedOutAccess), row.path
        elif row.path.startswith(("/reviews/user/", "/api/webhooks", "/api/events")):
            assert isinstance(row.access, ApiKeyOrSessionAccess), row.path
        elif row.path.startswith(BY_SESSION_ALONE):
            assert isinstance(row.access, SessionAccess), row.path
        else:
            assert isinstance(row.access, PublicAccess), row.path


@pytest.mark.parametrize("path", ["/account/sign-in", "/docs", "/nope", "/sandbox/checkout/nope"])
async def test_pages_and_unknown_paths_have_security_headers(
    world: HttpDeployment, path: str
) -> None:
    """Pages and unknown paths have the same security headers."""
    answer = await world.client().get(path)
    assert SECURITY.items() <= answer.headers.items()
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_without_a_sandbox_its_paths_are_unknown(world: HttpDeployment) -> None:
    """With the sandbox off its endpoints are 404 and absent from the document."""
    world.restart(policy=evolve(world.ports.policy, sandbox=False))
    for row in SANDBOX_ENDPOINTS_BY_TAG["Sandbox"]:
        assert (await world.client().request(row.method, row.path)).status_code == 404
    assert "/sandbox" not in (await world.client().get("/openapi.json")).text
