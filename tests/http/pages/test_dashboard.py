"""Tests of the subscribers' dashboard: who sees it, the subscription, keys, limits."""

from __future__ import annotations

import re
from datetime import timedelta

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, add_user
from staffbooking_core.domain.accounts.users import Subscription, User
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.usecases.accounts import api_keys
from tests.http.deployment import HttpDeployment
from tests.http.pages.dashboard_steps import (
    KEYS,
    OVERVIEW,
    dashboard,
    make_key,
    send,
    shown_key,
)
from tests.http.pages.test_bookings import PEOPLE
from tests.support.html_pages import page_text

pytestmark = pytest.mark.anyio

SEARCH = "/api/v1/companions"


async def works(world: HttpDeployment, key: str) -> bool:
    return (await world.client_with_key(key).get(SEARCH)).status_code == 200


async def lapsed_subscriber(world: HttpDeployment) -> User:
    return await add_user(
        world.store,
        subscription=Subscription.ENTERPRISE,
        subscription_expires_at=NOW - timedelta(days=2),
    )


# Access ---------------------------------------------------------------------------------


async def test_only_subscribers_are_led_to_the_dashboard(world: HttpDeployment) -> None:
    """The navigation has a link for subscribers and for nobody else."""
    for number, is_led in (
        (world.subscriber.id, True),
        (world.customer.id, False),
        (world.companion.id, False),
    ):
        home = await (await world.signed_in_client(number)).get("/", headers=PEOPLE)
        assert (f'href="{OVERVIEW}"' in home.text) is is_led, number


async def test_others_read_how_to_subscribe(world: HttpDeployment) -> None:
    """Without a subscription the first page says how to get one; the others are not there, and
    forms do nothing."""
    for user in (world.customer, world.companion):
        client = await world.signed_in_client(user.id)
        page = await client.get(OVERVIEW, headers=PEOPLE)
        assert page.status_code == 200
        assert "/contact-us" in page.text
        for path in (KEYS, f"{KEYS}/1/rotation", "/dashboard/webhooks", "/dashboard/events"):
            assert (await client.get(path, headers=PEOPLE)).status_code == 404
        made = await client.post(KEYS, data={"name": "x", "permissions": "read"}, headers=PEOPLE)
        assert made.status_code == 404


async def test_signed_out_visitors_are_led_back_by_the_sign_in(world: HttpDeployment) -> None:
    """Every page of the dashboard leads to sign-in and back."""
    for path in (OVERVIEW, KEYS, "/dashboard/webhooks", "/dashboard/events"):
        answer = await world.client().get(path, headers=PEOPLE)
        assert answer.status_code == 303
        assert httpx.URL(answer.headers["location"]).params["next"] == path


async def test_an_ended_subscription_is_told_with_what_to_do(world: HttpDeployment) -> None:
    """Once the subscription has ended, the pages say so and lead to its renewal; nothing can be
    made any more, but keys can be revoked."""
    user = await lapsed_subscriber(world)
    key = await world.add_api_key(user)
    client = await dashboard(world, user)
    page = await client.get(OVERVIEW)
    assert "subscription ended on" in page_text(page.text)
    assert "/contact-us" in page.text
    keys = await client.get(KEYS)
    assert "Make the key" not in keys.text
    refused = await send(client, KEYS, page=OVERVIEW, name="x", permissions="read", expires="never")
    assert refused.status_code == 403
    number = re.findall(rf"{KEYS}/(\d+)/revocation", keys.text)[0]
    assert (await send(client, f"{KEYS}/{number}/revocation")).status_code == 303
    assert not await works(world, key)


async def test_an_end_is_announced(world: HttpDeployment) -> None:
    """A subscription and keys that end within two weeks are announced on the first page, with their
    time of day: the end of a last day is the midnight after it."""
    user = await add_user(
        world.store,
        subscription=Subscription.ENTERPRISE,
        subscription_expires_at=NOW.replace(hour=0) + 10 * DAY,
    )
    await world.add_api_key(user, name="nightly", expires_at=NOW + 3 * DAY)
    text = page_text((await (await dashboard(world, user)).get(OVERVIEW)).text)
    assert "Your subscription ends on 11 Mar 2027, 00:00 (UTC)." in text
    assert "The key “nightly” expires on" in text


async def test_used_limits_are_shown(each_world: HttpDeployment) -> None:
    """The first page has how much of each key's limits is used, as numbers and as bars."""
    world = each_world
    user = await add_user(world.store, subscription=Subscription.ENTERPRISE)
    key = await world.add_api_key(user, name="website")
    for _ in range(3):
        assert await works(world, key)
    page = await (await dashboard(world, user)).get(OVERVIEW)
    assert "website 3 / 1,000" in page_text(page.text)
    assert re.search(r'class="used" width="0\.3"', page.text)
    assert "Webhook calls of your account 0 / 30" in page_text(page.text)


async def test_a_used_up_limit_is_told(world: HttpDeployment) -> None:
    """A window with nothing left says that it is used up and when it starts again."""
    world.raise_limits(general=RateLimit("general", 2, HOUR))
    user = await add_user(world.store, subscription=Subscription.ENTERPRISE)
    key = await world.add_api_key(user)
    await works(world, key), await works(world, key)
    text = page_text((await (await dashboard(world, user)).get(OVERVIEW)).text)
    assert "Used up 1 Mar 2027, 13:00" in text


async def test_requests_are_drawn_by_the_hour(each_world: HttpDeployment) -> None:
    """The first page draws the requests of the last 24 hours, and has them as a table."""
    world = each_world
    client = await dashboard(world)
    assert "<rect" not in (await client.get(OVERVIEW)).text.partition('id="calls"')[2]
    for hours, count in ((0, 2), (3, 1)):
        world.clock.now = NOW + hours * HOUR
        for _ in range(count):
            assert await works(world, world.api_key)
    page = await (await dashboard(world)).get(OVERVIEW)
    text = page_text(page.text)
    assert "3 requests in all. The most in an hour with one key: 2 of 1,000." in text
    assert "1 Mar 2027, 15:00 (UTC) 1 1 Mar 2027, 12:00 (UTC) 2" in text
    assert len(re.findall(r'<rect class="hour"', page.text)) == 24
    assert re.findall(r'<rect class="made"[^>]*height="([\d.]+)"', page.text) == ["100.0", "50.0"]
    assert '<line class="limit"' not in page.text


async def test_a_near_limit_is_drawn(world: HttpDeployment) -> None:
    """From a quarter of the limit on, the chart has a line for it."""
    world.raise_limits(general=RateLimit("general", 4, HOUR))
    await works(world, world.api_key)
    page = await (await dashboard(world)).get(OVERVIEW)
    assert '<line class="limit" x1="0" x2="240" y1="0.0"' in page.text
    assert re.findall(r'<rect class="made"[^>]*height="([\d.]+)"', page.text) == ["25.0"]


# Keys -----------------------------------------------------------------------------------


async def test_a_key_is_made_and_shown_once(each_world: HttpDeployment) -> None:
    """A new key is shown with a line that uses it, works, and is listed masked afterwards."""
    world = each_world
    client = await dashboard(world)
    made = await make_key(client, name="website")
    key = shown_key(made)
    assert f"Authorization: Bearer {key}" in page_text(made.text)
    assert made.headers["cache-control"] == "no-store"
    assert await works(world, key)
    listed = await client.get(KEYS)
    assert key not in listed.text
    assert "website" in listed.text
    assert f"{key[:7]}…{key[-4:]}" in listed.text


async def test_a_form_that_is_sent_again_makes_no_second_key(each_world: HttpDeployment) -> None:
    """The same form sent twice, as by a reload, shows the same key."""
    client = await dashboard(each_world)
    page = await client.get(KEYS)
    first = await make_key(client, page, name="once")
    again = await make_key(client, page, name="once")
    assert shown_key(first) == shown_key(again)
    found = await api_keys.list_keys(each_world.ports, each_world.subscriber)
    assert [key.name for key in found].count("once") == 1


async def test_all_faults_of_a_key_are_told_at_once(world: HttpDeployment) -> None:
    """A refused form names each fault at its field and keeps what was typed."""
    client = await dashboard(world)
    refused = await make_key(client, permissions=(), expires="tomorrow", name="")
    assert refused.status_code == 400
    for field in ("name", "permissions", "expires"):
        assert f'id="e-{field}"' in refused.text, field
    kept = await make_key(client, name="a" * 101, permissions=("read", "fly"), expires="90")
    assert kept.status_code == 422
    assert 'id="e-name"' in kept.text
    assert 'id="e-permissions"' in kept.text
    assert f'value="{"a" * 101}"' in kept.text
    assert '<option value="90" selected>' in kept.text


@pytest.mark.parametrize("name", ["<script>x</script>", "a\x00b", "\u202eevil", "👩‍💻 app", "'\"&"])
async def test_names_of_keys_are_text(world: HttpDeployment, name: str) -> None:
    """A hostile name is refused or shown as text."""
    made = await make_key(await dashboard(world), name=name)
    assert made.status_code in (200, 422)
    assert "<script>x" not in made.text


async def test_a_sixth_key_is_refused(world: HttpDeployment) -> None:
    """With five active keys the form is gone, and another one is refused."""
    client = await dashboard(world)
    page = await client.get(KEYS)
    for number in range(4):
        assert (await make_key(client, name=f"key {number}")).status_code == 200
    assert "as many as an account may have" in page_text((await client.get(KEYS)).text)
    refused = await make_key(client, page, name="sixth")
    assert refused.status_code == 400
    assert "at most 5 active keys" in page_text(refused.text)


async def test_a_key_is_replaced_with_an_overlap(each_world: HttpDeployment) -> None:
    """A replaced key works beside the new one until the chosen time."""
    world = each_world
    client = await dashboard(world)
    number = re.findall(rf"{KEYS}/(\d+)/rotation", (await client.get(KEYS)).text)[0]
    made = await send(client, f"{KEYS}/{number}/rotation", overlap="24", expires="never")
    assert made.status_code == 200, made.text
    assert "works too until 2 Mar 2027, 12:00" in page_text(made.text)
    new = shown_key(made)
    assert await works(world, world.api_key)
    assert await works(world, new)
    world.clock.now = NOW + 24 * HOUR
    assert (await works(world, world.api_key), await works(world, new)) == (False, True)


async def test_a_key_is_replaced_at_once(world: HttpDeployment) -> None:
    """Without an overlap the old key is refused at once."""
    client = await dashboard(world)
    number = re.findall(rf"{KEYS}/(\d+)/rotation", (await client.get(KEYS)).text)[0]
    made = await send(client, f"{KEYS}/{number}/rotation", overlap="0", expires="30")
    assert (await works(world, world.api_key), await works(world, shown_key(made))) == (False, True)
    assert (await client.get(f"{KEYS}/{number}/rotation", headers=PEOPLE)).status_code == 404


async def test_a_false_overlap_is_refused(world: HttpDeployment) -> None:
    """An overlap or an end that is no choice is refused at its field; both keys stay as they
    are."""
    client = await dashboard(world)
    number = re.findall(rf"{KEYS}/(\d+)/rotation", (await client.get(KEYS)).text)[0]
    for overlap in ("", "-1", "9" * 30, "x"):
        refused = await send(client, f"{KEYS}/{number}/rotation", overlap=overlap, expires="soon")
        assert refused.status_code == 422
        assert 'id="e-overlap"' in refused.text
        assert 'id="e-expires"' in refused.text
    assert await works(world, world.api_key)


async def test_keys_of_others_are_not_there(world: HttpDeployment) -> None:
    """Somebody else's key can be neither seen nor replaced nor revoked."""
    mine = re.findall(rf"{KEYS}/(\d+)/rotation", (await (await dashboard(world)).get(KEYS)).text)
    other = await dashboard(world, world.outsider)
    for step in ("rotation", "revocation"):
        for number in (mine[0], "404", "0", "x", "9" * 25):
            path = f"{KEYS}/{number}/{step}"
            assert (await other.get(path, headers=PEOPLE)).status_code == 404
            sent = await send(other, path, page=KEYS, overlap="24", expires="never")
            assert sent.status_code == 404
    assert await works(world, world.api_key)


async def test_a_key_is_revoked_after_a_question(world: HttpDeployment) -> None:
    """The page asks first, with the button that keeps the key before the other."""
    client = await dashboard(world)
    number = re.findall(rf"{KEYS}/(\d+)/revocation", (await client.get(KEYS)).text)[0]
    asked = await client.get(f"{KEYS}/{number}/revocation")
    assert asked.text.index("Keep the key") < asked.text.index("Revoke the key</button>")
    assert await works(world, world.api_key)
    answer = await send(client, f"{KEYS}/{number}/revocation")
    assert answer.headers["location"] == f"{KEYS}?revoked"
    assert not await works(world, world.api_key)
    assert "1 key that no longer works" in page_text((await client.get(KEYS)).text)


async def test_forms_need_their_token(world: HttpDeployment) -> None:
    """A form without the session's token is refused."""
    client = await dashboard(world)
    refused = await client.post(KEYS, data={"name": "x", "permissions": "read"}, headers=PEOPLE)
    assert refused.status_code == 403


async def test_the_limit_of_requests_counts_forms(world: HttpDeployment) -> None:
    """Forms of the dashboard count against the account's limits; one over the limit keeps what was
    typed."""
    world.raise_limits(general=evolve(RateLimit("general", 1, HOUR)))
    client = await dashboard(world)
    assert (await make_key(client, name="a")).status_code == 200
    refused = await make_key(client, name="Night batch")
    assert (refused.status_code, 'value="Night batch"' in refused.text) == (429, True)
