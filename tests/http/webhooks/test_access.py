"""Access to webhooks: credentials, order of checks, rate limits (CONTRACT 2, 8)."""

from __future__ import annotations

from typing import Any

import pytest

from staffbooking_adapters.testing.builders import MINUTE, NOW, add_subscriber, make_api_key_text
from staffbooking_adapters.testing.builders_webhooks import add_endpoint
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_http.api.request_body import MAX_BODY_BYTES
from tests.http.api.test_errors import JSON
from tests.http.api.test_rate_limits import shown
from tests.http.deployment import HttpDeployment, error_body, json_body
from tests.http.webhooks.webhook_calls import (
    RECEIVER_URL,
    WEBHOOKS_PATH,
    add_endpoint_path,
    register_endpoint,
)

pytestmark = pytest.mark.anyio

RESET = int((NOW + 15 * MINUTE).timestamp())


# Access ---------------------------------------------------------------------------------


async def test_the_authorization_header_decides(world: HttpDeployment) -> None:
    """With an Authorization header the cookie is ignored."""
    await register_endpoint(world.client_with_key())
    browser = await world.signed_in_client(world.subscriber.id)
    browser.headers["authorization"] = f"Bearer {make_api_key_text()}"
    error_body(await browser.get(WEBHOOKS_PATH), 401, "invalid_api_key")
    browser.headers["authorization"] = f"Bearer {await world.add_api_key(world.outsider)}"
    assert json_body(await browser.get(WEBHOOKS_PATH)) == {"webhooks": []}


async def test_a_session_needs_its_token_to_change_anything(world: HttpDeployment) -> None:
    """Changes by session need the CSRF token; reading, and changes by key, do not."""
    browser = await world.signed_in_client(world.subscriber.id)
    path = await add_endpoint_path(browser)
    del browser.headers["x-csrf-token"]
    json_body(await browser.get(WEBHOOKS_PATH))
    for answer in (
        await browser.post(WEBHOOKS_PATH, json={"url": RECEIVER_URL}),
        await browser.patch(path, json={}),
        await browser.post(f"{path}/test"),
        await browser.delete(path),
    ):
        error_body(answer, 403, "csrf_failed")
    json_body(await world.client_with_key().delete(path))


@pytest.mark.parametrize("subscription", [Subscription.NONE, Subscription.BASIC])
async def test_a_subscription_is_needed(world: HttpDeployment, subscription: Subscription) -> None:
    """A subscription is required for keys and sessions, for reading too."""
    user = await add_subscriber(world.store, subscription=subscription)
    for client in (
        world.client_with_key(await world.add_api_key(user)),
        await world.signed_in_client(user.id),
    ):
        for path in (WEBHOOKS_PATH, "/api/events"):
            error_body(await client.get(path), 403, "subscription_required")
        error_body(
            await client.post(WEBHOOKS_PATH, json={"url": RECEIVER_URL}),
            403,
            "subscription_required",
        )


async def test_a_subscription_expires(world: HttpDeployment) -> None:
    """A session loses access to webhooks when the subscription expires."""
    user = await add_subscriber(world.store, subscription_expires_at=NOW + MINUTE)
    browser = await world.signed_in_client(user.id)
    await register_endpoint(browser)
    world.clock.advance(MINUTE)
    error_body(await browser.get(WEBHOOKS_PATH), 403, "subscription_required")


def touching(path: str, delivery_id: Any = 1) -> list[tuple[str, str, dict[str, Any]]]:
    """Every call that names an endpoint, with invalid input where it takes any."""
    huge = {"content": b"x" * (MAX_BODY_BYTES + 1)}
    return [
        ("PATCH", path, huge),
        ("PATCH", path, {"json": {"active": "yes"}}),
        ("DELETE", path, {}),
        ("POST", f"{path}/test", {}),
        ("POST", f"{path}/rotate-secret", {}),
        ("POST", f"{path}/activate-secret", {}),
        ("GET", f"{path}/deliveries?limit=0", {}),
        ("POST", f"{path}/deliveries/{delivery_id}/redeliver", {}),
    ]


async def test_anothers_endpoint_is_404(world: HttpDeployment) -> None:
    """Another user's endpoint is the same 404 as an unknown one, for admins too, before the input
    is checked."""
    world.raise_limits()
    owner = world.client_with_key()
    path = await add_endpoint_path(owner)
    sent = json_body(await owner.post(f"{path}/test"))["delivery"]
    outsider = world.client_with_key(await world.add_api_key(world.outsider))
    for client in (outsider, await world.signed_in_client(world.admin.id)):
        assert json_body(await client.get(WEBHOOKS_PATH)) == {"webhooks": []}
        theirs, none = touching(path, sent["id"]), touching(f"{WEBHOOKS_PATH}/999", 999)
        for (method, taken, body), (_, free, _) in zip(theirs, none, strict=True):
            answer = await client.request(method, taken, **body)
            told = error_body(answer, 404, "not_found")
            assert told == (await client.request(method, free, **body)).json()
    assert len(json_body(await owner.get(WEBHOOKS_PATH))["webhooks"]) == 1


@pytest.mark.parametrize("number", ["0", "01", "x", "+1", "1.0", "-1", str(2**63), "9" * 30])
async def test_a_malformed_id_is_404(world: HttpDeployment, number: str) -> None:
    """A malformed id of an endpoint or a delivery is 404."""
    program = world.client_with_key()
    for method, path, body in touching(f"{WEBHOOKS_PATH}/{number}"):
        error_body(await program.request(method, path, **body), 404, "not_found")
    redeliver = f"{await add_endpoint_path(program)}/deliveries/{number}/redeliver"
    error_body(await program.post(redeliver), 404, "not_found")


async def test_an_admin_needs_no_subscription(world: HttpDeployment) -> None:
    """An admin needs no subscription, and an admin's key no permission."""
    assert world.admin.role is Role.ADMIN
    await register_endpoint(await world.signed_in_client(world.admin.id))
    await register_endpoint(
        world.client_with_key(await world.add_api_key(world.admin, Permission.READ))
    )


# Order of the checks --------------------------------------------------------------------


async def test_the_order_for_an_endpoint(world: HttpDeployment) -> None:
    """The checks of a change run in the order 401, 403, 404, 413, 415, 400, 422."""
    path = await add_endpoint_path(world.client_with_key())
    huge, text = b"x" * (MAX_BODY_BYTES + 1), {"content-type": "text/plain"}
    reader = world.client_with_key(await world.add_api_key(world.subscriber, Permission.READ))
    owner = world.client_with_key()
    error_body(await world.client().patch(path, content=huge), 401, "unauthenticated")
    error_body(await reader.patch(f"{WEBHOOKS_PATH}/999", content=huge), 403, "permission_required")
    error_body(await owner.patch(f"{WEBHOOKS_PATH}/999", content=huge), 404, "not_found")
    error_body(await owner.patch(path, content=huge, headers=text), 413, "body_too_large")
    error_body(await owner.patch(path, content=b"{", headers=text), 415, "unsupported_media_type")
    error_body(await owner.patch(path, content=b"{", headers=JSON), 400, "malformed_json")
    error_body(await owner.patch(path, json={"active": 1}), 422, "invalid_field")


async def test_the_url_is_checked_before_the_number_of_endpoints(world: HttpDeployment) -> None:
    """An invalid URL is 422 before the limit of endpoints is checked."""
    world.raise_limits()
    for _ in range(10):
        await add_endpoint(world.store, world.subscriber)
    program = world.client_with_key()
    error_body(
        await program.post(WEBHOOKS_PATH, json={"url": "http://x.example"}), 422, "invalid_field"
    )
    error_body(
        await program.post(WEBHOOKS_PATH, json={"url": RECEIVER_URL}), 400, "too_many_webhooks"
    )


# Limits ---------------------------------------------------------------------------------


async def test_managing_has_a_window_of_its_own(world: HttpDeployment) -> None:
    """Managing webhooks has a window of 30 calls in 15 minutes, separate from the general one."""
    program = world.client_with_key()
    assert shown(await program.get(WEBHOOKS_PATH)) == (30, 29, RESET)
    assert shown(await program.get(f"{WEBHOOKS_PATH}/999/deliveries")) == (30, 28, RESET)
    for _ in range(28):
        await program.post(WEBHOOKS_PATH, json={})
    answer = await program.get(WEBHOOKS_PATH)
    assert error_body(answer, 429, "rate_limited")["retry_after"] == 900
    assert shown(answer) == (30, 0, RESET)
    assert shown(await program.get("/api/v1/companions"))[:2] == (1000, 999)
    world.clock.advance(15 * MINUTE)
    json_body(await program.get(WEBHOOKS_PATH))


async def test_keys_and_sessions_of_a_user_share_a_window(each_world: HttpDeployment) -> None:
    """Keys and sessions of a user share one window on every store, and other users have their
    own."""
    world = each_world
    world.raise_limits(webhooks=RateLimit("webhooks", 3, 15 * MINUTE))
    another = world.client_with_key(await world.add_api_key(world.subscriber))
    browser = await world.signed_in_client(world.subscriber.id)
    left = [
        shown(await client.get(WEBHOOKS_PATH))[1]
        for client in (world.client_with_key(), browser, another)
    ]
    assert left == [2, 1, 0]
    for client in (browser, world.client_with_key()):
        error_body(await client.get(WEBHOOKS_PATH), 429, "rate_limited")
    assert shown(await (await world.signed_in_client(world.outsider.id)).get(WEBHOOKS_PATH))[1] == 2


async def test_what_is_not_permitted_is_not_counted(world: HttpDeployment) -> None:
    """A call without the permission or the CSRF token spends no window."""
    reader = world.client_with_key(await world.add_api_key(world.subscriber, Permission.READ))
    browser = await world.signed_in_client(world.subscriber.id)
    del browser.headers["x-csrf-token"]
    for client in (reader, browser):
        assert (await client.post(WEBHOOKS_PATH, json={"url": RECEIVER_URL})).status_code == 403
    assert shown(await reader.get(WEBHOOKS_PATH))[1] == 29


async def test_reading_the_feed_counts_generally(world: HttpDeployment) -> None:
    """Reading the feed counts in the general window of the key or the user, and managing does
    not."""
    program, browser = world.client_with_key(), await world.signed_in_client(world.subscriber.id)
    json_body(await program.get(WEBHOOKS_PATH))
    assert shown(await program.get("/api/events"))[:2] == (1000, 999)
    assert shown(await browser.get("/api/events"))[:2] == (1000, 999)


async def test_bad_credentials_count_against_their_address(world: HttpDeployment) -> None:
    """An invalid key counts in the general window of its IP address."""
    guess = world.client_with_key(make_api_key_text())
    answer = await guess.get(WEBHOOKS_PATH)
    error_body(answer, 401, "invalid_api_key")
    assert shown(answer)[:2] == (1000, 999)
