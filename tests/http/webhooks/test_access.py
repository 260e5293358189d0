"""Who may manage webhooks, in which order calls are checked, and how often (CONTRACT 2, 8)."""

from __future__ import annotations

from typing import Any

import pytest

from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.domain.shared.rate_limits import Rule
from staffbooking_http.api.request_body import MOST_BYTES
from tests.http.api.test_errors import JSON
from tests.http.api.test_rate_limits import shown
from tests.http.deployment import World, ok, refused
from tests.http.webhooks.webhook_calls import PATH, URL, at_endpoint, register
from tests.support.builders import MINUTE, NOW, add_subscriber, make_key_text
from tests.support.webhooks import add_endpoint

pytestmark = pytest.mark.anyio

RESET = int((NOW + 15 * MINUTE).timestamp())


# Who may --------------------------------------------------------------------------------


async def test_the_authorization_header_decides(world: World) -> None:
    """With it the cookie is not looked at: neither to help it out nor to overrule it."""
    await register(world.by_key())
    browser = await world.browser(world.subscriber.id)
    browser.headers["authorization"] = f"Bearer {make_key_text()}"
    refused(await browser.get(PATH), 401, "invalid_api_key")
    browser.headers["authorization"] = f"Bearer {await world.new_key(world.outsider)}"
    assert ok(await browser.get(PATH)) == {"webhooks": []}


async def test_a_session_needs_its_token_to_change_anything(world: World) -> None:
    """Reading goes without; a key needs none."""
    browser = await world.browser(world.subscriber.id)
    path = await at_endpoint(browser)
    del browser.headers["x-csrf-token"]
    ok(await browser.get(PATH))
    for answer in (
        await browser.post(PATH, json={"url": URL}),
        await browser.patch(path, json={}),
        await browser.post(f"{path}/test"),
        await browser.delete(path),
    ):
        refused(answer, 403, "csrf_failed")
    ok(await world.by_key().delete(path))


@pytest.mark.parametrize("subscription", [Subscription.NONE, Subscription.BASIC])
async def test_a_subscription_is_needed(world: World, subscription: Subscription) -> None:
    """By key and by session, to read as well."""
    user = await add_subscriber(world.store, subscription=subscription)
    for client in (world.by_key(await world.new_key(user)), await world.browser(user.id)):
        for path in (PATH, "/api/events"):
            refused(await client.get(path), 403, "subscription_required")
        refused(await client.post(PATH, json={"url": URL}), 403, "subscription_required")


async def test_a_subscription_ends_in_time(world: World) -> None:
    """A session loses the endpoints with it, and no sooner."""
    user = await add_subscriber(world.store, subscription_expires_at=NOW + MINUTE)
    browser = await world.browser(user.id)
    await register(browser)
    world.clock.advance(MINUTE)
    refused(await browser.get(PATH), 403, "subscription_required")


def touching(path: str, delivery_id: Any = 1) -> list[tuple[str, str, dict[str, Any]]]:
    """Every call that names an endpoint, with what it takes: as wrong as can be."""
    huge = {"content": b"x" * (MOST_BYTES + 1)}
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


async def test_what_is_somebody_elses_is_404(world: World) -> None:
    """For strangers and admins alike, in the same words as what is not there; before whatever
    is wrong with what was sent."""
    world.raise_limits()
    owner = world.by_key()
    path = await at_endpoint(owner)
    sent = ok(await owner.post(f"{path}/test"))["delivery"]
    outsider = world.by_key(await world.new_key(world.outsider))
    for client in (outsider, await world.browser(world.admin.id)):
        assert ok(await client.get(PATH)) == {"webhooks": []}
        theirs, none = touching(path, sent["id"]), touching(f"{PATH}/999", 999)
        for (method, taken, body), (_, free, _) in zip(theirs, none, strict=True):
            answer = await client.request(method, taken, **body)
            told = refused(answer, 404, "not_found")
            assert told == (await client.request(method, free, **body)).json()
    assert len(ok(await owner.get(PATH))["webhooks"]) == 1


@pytest.mark.parametrize("number", ["0", "01", "x", "+1", "1.0", "-1", str(2**63), "9" * 30])
async def test_a_path_that_names_no_number_is_404(world: World, number: str) -> None:
    """Both ids are read to the letter."""
    program = world.by_key()
    for method, path, body in touching(f"{PATH}/{number}"):
        refused(await program.request(method, path, **body), 404, "not_found")
    redeliver = f"{await at_endpoint(program)}/deliveries/{number}/redeliver"
    refused(await program.post(redeliver), 404, "not_found")


async def test_an_admin_needs_no_subscription(world: World) -> None:
    """Nor has an admin's key to have the permission."""
    assert world.admin.role is Role.ADMIN
    await register(await world.browser(world.admin.id))
    await register(world.by_key(await world.new_key(world.admin, Permission.READ)))


# The order ------------------------------------------------------------------------------


async def test_the_order_for_an_endpoint(world: World) -> None:
    """401, 403, 404 of the path, 413, 415, 400 and 422."""
    path = await at_endpoint(world.by_key())
    huge, text = b"x" * (MOST_BYTES + 1), {"content-type": "text/plain"}
    reader = world.by_key(await world.new_key(world.subscriber, Permission.READ))
    owner = world.by_key()
    refused(await world.client().patch(path, content=huge), 401, "unauthenticated")
    refused(await reader.patch(f"{PATH}/999", content=huge), 403, "permission_required")
    refused(await owner.patch(f"{PATH}/999", content=huge), 404, "not_found")
    refused(await owner.patch(path, content=huge, headers=text), 413, "body_too_large")
    refused(await owner.patch(path, content=b"{", headers=text), 415, "unsupported_media_type")
    refused(await owner.patch(path, content=b"{", headers=JSON), 400, "malformed_json")
    refused(await owner.patch(path, json={"active": 1}), 422, "invalid_field")


async def test_a_url_is_judged_before_the_number_of_endpoints(world: World) -> None:
    """What is wrong goes before what a rule forbids."""
    world.raise_limits()
    for _ in range(10):
        await add_endpoint(world.store, world.subscriber)
    program = world.by_key()
    refused(await program.post(PATH, json={"url": "http://x.example"}), 422, "invalid_field")
    refused(await program.post(PATH, json={"url": URL}), 400, "too_many_webhooks")


# Limits ---------------------------------------------------------------------------------


async def test_managing_has_a_window_of_its_own(world: World) -> None:
    """30 in 15 minutes, whatever they answer; the general one is not spent."""
    program = world.by_key()
    assert shown(await program.get(PATH)) == (30, 29, RESET)
    assert shown(await program.get(f"{PATH}/999/deliveries")) == (30, 28, RESET)
    for _ in range(28):
        await program.post(PATH, json={})
    answer = await program.get(PATH)
    assert refused(answer, 429, "rate_limited")["retry_after"] == 900
    assert shown(answer) == (30, 0, RESET)
    assert shown(await program.get("/api/v1/companions"))[:2] == (1000, 999)
    world.clock.advance(15 * MINUTE)
    ok(await program.get(PATH))


async def test_keys_and_sessions_of_a_user_share_it(each_world: World) -> None:
    """One window a user on every store, and nobody else's."""
    world = each_world
    world.raise_limits(webhooks=Rule("webhooks", 3, 15 * MINUTE))
    another = world.by_key(await world.new_key(world.subscriber))
    browser = await world.browser(world.subscriber.id)
    left = [shown(await client.get(PATH))[1] for client in (world.by_key(), browser, another)]
    assert left == [2, 1, 0]
    for client in (browser, world.by_key()):
        refused(await client.get(PATH), 429, "rate_limited")
    assert shown(await (await world.browser(world.outsider.id)).get(PATH))[1] == 2


async def test_what_is_not_permitted_is_not_counted(world: World) -> None:
    """Neither without the permission nor without the token."""
    reader = world.by_key(await world.new_key(world.subscriber, Permission.READ))
    browser = await world.browser(world.subscriber.id)
    del browser.headers["x-csrf-token"]
    for client in (reader, browser):
        assert (await client.post(PATH, json={"url": URL})).status_code == 403
    assert shown(await reader.get(PATH))[1] == 29


async def test_reading_the_feed_counts_generally(world: World) -> None:
    """By the key, or by the user; managing is not counted there."""
    program, browser = world.by_key(), await world.browser(world.subscriber.id)
    ok(await program.get(PATH))
    assert shown(await program.get("/api/events"))[:2] == (1000, 999)
    assert shown(await browser.get("/api/events"))[:2] == (1000, 999)


async def test_bad_credentials_count_against_their_address(world: World) -> None:
    """As they do everywhere."""
    guess = world.by_key(make_key_text())
    answer = await guess.get(PATH)
    refused(answer, 401, "invalid_api_key")
    assert shown(answer)[:2] == (1000, 999)
