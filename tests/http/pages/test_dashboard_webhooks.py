"""Tests of the dashboard's webhooks: endpoints, secrets, the delivery log, and the feed."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, MINUTE
from staffbooking_adapters.testing.builders_webhooks import add_endpoint
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.usecases.webhooks import endpoints
from staffbooking_core.webhook_receiver import WebhookReceiver, hex_signature
from tests.http.deployment import HttpDeployment
from tests.http.pages.dashboard_steps import (
    EVENTS,
    KEYS,
    WEBHOOKS,
    add_webhook,
    dashboard,
    send,
)
from tests.http.pages.test_bookings import PEOPLE
from tests.http.webhooks.webhook_calls import (
    deliver_due_events,
    request_booking,
    set_receiver_status,
)
from tests.support.html_pages import page_text

pytestmark = pytest.mark.anyio


def shown_secret(page: httpx.Response) -> str:
    found = re.search(r'<pre id="secret"[^>]*>(whsec_[^<]+)</pre>', page.text)
    assert found, page_text(page.text)
    return found[1]


async def added(world: HttpDeployment, **given: Any) -> tuple[httpx.AsyncClient, str, str]:
    """A subscriber's browser, the path of a new webhook, and its secret."""
    client = await dashboard(world)
    made = await add_webhook(client, **given)
    assert made.status_code == 200, page_text(made.text)
    found = re.search(rf'href="({WEBHOOKS}/\d+)"', made.text)
    assert found
    return client, found[1], shown_secret(made)


async def failed_delivery(world: HttpDeployment) -> tuple[httpx.AsyncClient, str, str]:
    """A browser, the path of a webhook with a failed delivery, and the path of that one."""
    client, path, _ = await added(world)
    set_receiver_status(world, 500)
    await request_booking(world)
    for _ in range(4):
        await deliver_due_events(world)
        world.clock.now += MINUTE
    page = await client.get(path)
    [delivery] = re.findall(rf'href="({path}/deliveries/\d+)"', page.text)
    return client, path, delivery


# Endpoints ------------------------------------------------------------------------------


async def test_a_webhook_is_added_and_its_secret_is_shown_once(each_world: HttpDeployment) -> None:
    """A new webhook gets the chosen events, signed with the secret that is shown only once."""
    world = each_world
    client, path, secret = await added(world, ordered="true")
    set_receiver_status(world)
    await request_booking(world)
    await deliver_due_events(world)
    [sent] = world.sender.sent
    assert sent.headers["X-Webhook-Signature"] == hex_signature(secret, sent.body)
    page = await client.get(path)
    assert secret not in page.text
    text = page_text(page.text)
    assert "Healthy What was sent last has arrived." in text
    assert "kept within a booking" in text
    assert "A booking was requested Delivered" in text
    assert "booking.created booking.cancelled" in text


async def test_the_same_form_adds_one_webhook(world: HttpDeployment) -> None:
    """A form that is sent again shows the same secret and adds nothing."""
    client = await dashboard(world)
    page = await client.get(f"{WEBHOOKS}/new")
    first, again = await add_webhook(client, page), await add_webhook(client, page)
    assert shown_secret(first) == shown_secret(again)
    assert len(await endpoints.list_endpoints(world.ports, world.subscriber)) == 1


async def test_all_faults_of_a_webhook_are_told_at_once(world: HttpDeployment) -> None:
    """A refused form names each fault at its field and keeps what was typed."""
    client = await dashboard(world)
    refused = await add_webhook(client, url="", events=(), description="a" * 5001)
    assert refused.status_code == 400
    for field in ("url", "events", "description"):
        assert f'id="e-{field}"' in refused.text, field
    refused = await add_webhook(client, url="http://10.0.0.1/", events=())
    assert refused.status_code == 422
    for field in ("url", "events"):
        assert f'id="e-{field}"' in refused.text, field
    assert 'value="http://10.0.0.1/"' in refused.text
    assert not await endpoints.list_endpoints(world.ports, world.subscriber)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "ftp://example.com/",
        "javascript:alert(1)",
        "https://user:pw@example.com/",
        "https://example.com/" + "a" * 3000,
        "https://exa\x00mple.com/",
        "https://example.com/\u202e",
        "//example.com",
    ],
)
async def test_addresses_that_must_not_be_called_are_refused(
    world: HttpDeployment, url: str
) -> None:
    """A private, foreign or malformed address is refused at its field."""
    refused = await add_webhook(await dashboard(world), url=url)
    assert refused.status_code == 422
    assert 'id="e-url"' in refused.text


async def test_unknown_events_are_refused(world: HttpDeployment) -> None:
    """An event that is none is refused at the list of events."""
    refused = await add_webhook(await dashboard(world), events=("booking.created", "<b>"))
    assert refused.status_code == 422
    assert 'id="e-events"' in refused.text


async def test_a_webhook_is_changed(each_world: HttpDeployment) -> None:
    """Events, description and order are changed; a form without events is refused."""
    client, path, _ = await added(each_world)
    settings = f"{path}/settings"
    refused = await send(client, settings, description="x")
    assert refused.status_code == 422
    done = await send(client, settings, events="review.created", ordered="true")
    assert done.headers["location"] == f"{path}?changed"
    [endpoint] = await endpoints.list_endpoints(each_world.ports, each_world.subscriber)
    assert (set(endpoint.events), endpoint.description, endpoint.ordered) == (
        {"review.created"},
        None,
        True,
    )


async def test_a_webhook_is_paused_and_resumed(each_world: HttpDeployment) -> None:
    """Events of a paused webhook are kept and sent when it is resumed."""
    world = each_world
    client, path, _ = await added(world)
    set_receiver_status(world)
    assert (await send(client, f"{path}/pause", page=path)).status_code == 303
    await request_booking(world)
    await deliver_due_events(world)
    text = page_text((await client.get(path)).text)
    assert "Paused You have paused it." in text
    assert "kept back: 1" in text
    assert not world.sender.sent
    assert (await send(client, f"{path}/resumption", page=path)).status_code == 303
    await deliver_due_events(world)
    assert len(world.sender.sent) == 1


async def test_a_webhook_is_deleted_after_a_question(world: HttpDeployment) -> None:
    """The page asks first; afterwards the webhook is not there."""
    client, path, _ = await added(world)
    asked = (await client.get(f"{path}/deletion")).text
    assert asked.index("Keep it") < asked.index("Delete the webhook</button>")
    answer = await send(client, f"{path}/deletion")
    assert answer.headers["location"] == f"{WEBHOOKS}?deleted"
    assert (await client.get(path, headers=PEOPLE)).status_code == 404


async def test_webhooks_of_others_are_not_there(world: HttpDeployment) -> None:
    """Somebody else's webhook and its deliveries can be neither seen nor used."""
    _, path, delivery = await failed_delivery(world)
    other = await dashboard(world, world.outsider)
    for page in (path, f"{path}/settings", f"{path}/secret", f"{path}/deletion", delivery):
        assert (await other.get(page, headers=PEOPLE)).status_code == 404, page
    mine = await add_endpoint(world.store, world.outsider, vault=world.ports.vault)
    foreign = delivery.replace(path, f"{WEBHOOKS}/{mine.id}")
    assert (await other.get(foreign, headers=PEOPLE)).status_code == 404
    for form in (
        *(f"{path}/{step}" for step in ("pause", "resumption", "test", "deletion", "settings")),
        *(f"{path}/{step}" for step in ("secret", "secret/activation", "redeliveries")),
        f"{delivery}/redelivery",
        f"{foreign}/redelivery",
    ):
        sent = await send(other, form, page=KEYS, events="booking.created", hours="24")
        assert sent.status_code == 404, form


async def test_an_eleventh_webhook_is_refused(world: HttpDeployment) -> None:
    """At the limit the button is gone, and the form is refused."""
    world.restart(policy=evolve(world.ports.policy, max_webhooks=1))
    client, _, _ = await added(world)
    assert f"{WEBHOOKS}/new" not in (await client.get(WEBHOOKS)).text
    refused = await add_webhook(client)
    assert refused.status_code == 400
    assert "at most 1 webhooks" in page_text(refused.text)


async def test_webhook_forms_count_as_the_interface_counts_them(world: HttpDeployment) -> None:
    """Forms about webhooks share the window of the interface's webhook calls."""
    world.raise_limits(webhooks=RateLimit("webhooks", 2, HOUR))
    client, path, _ = await added(world)
    assert (await send(client, f"{path}/pause", page=path)).status_code == 303
    refused = await send(client, f"{path}/resumption", page=path)
    assert refused.status_code == 429
    assert (await client.get(path)).status_code == 200


async def test_a_webhook_that_came_too_often_is_kept(world: HttpDeployment) -> None:
    """Over the limit, the forms of a new and of a stored endpoint keep what was typed."""
    world.raise_limits(webhooks=RateLimit("webhooks", 1, HOUR))
    client, path, _ = await added(world)
    settings = f"{path}/settings"
    changed = await send(client, settings, description="Of the night", events="booking.created")
    assert (changed.status_code, "Of the night" in changed.text) == (429, True)
    form = await client.get(f"{WEBHOOKS}/new")
    refused = await add_webhook(client, form, url="https://other.example/hook")
    assert (refused.status_code, "https://other.example/hook" in refused.text) == (429, True)


# Secrets --------------------------------------------------------------------------------


async def test_a_secret_is_changed_without_a_gap(each_world: HttpDeployment) -> None:
    """Both secrets sign until the old one is ended."""
    world = each_world
    client, path, old = await added(world)
    set_receiver_status(world)
    made = await send(client, f"{path}/secret")
    new = shown_secret(made)
    assert old != new
    assert "A new secret signs beside the old one." in page_text((await client.get(path)).text)
    await send(client, f"{path}/test", page=path)
    ended = await send(client, f"{path}/secret/activation", page=f"{path}/secret")
    assert ended.headers["location"] == f"{path}?activated"
    await send(client, f"{path}/test", page=path)
    during, after = world.sender.sent
    assert during.headers["X-Webhook-Signature"] == hex_signature(old, during.body)
    assert after.headers["X-Webhook-Signature"] == hex_signature(new, after.body)
    now = world.clock.now.timestamp()
    WebhookReceiver([new]).verify(during.headers, during.body, now)
    twice = await send(client, f"{path}/secret/activation", page=f"{path}/secret")
    assert (twice.status_code, twice.headers["location"]) == (303, path)


# Deliveries -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (204, "Your server answered 204."),
        (500, "Your server answered 500; only 200 to 299 counts as received."),
        (301, "which is not followed"),
        (None, "No connection was accepted."),
    ],
)
async def test_a_test_leads_to_its_delivery(
    world: HttpDeployment, status: int | None, words: str
) -> None:
    """A test is sent at once, and its page tells how it went and what was sent."""
    client, path, _ = await added(world)
    if status is not None:
        set_receiver_status(world, status)
    answer = await send(client, f"{path}/test", page=path)
    page = await client.get(answer.headers["location"])
    text = page_text(page.text)
    assert words in text
    [sent] = world.sender.sent
    assert sent.body.decode() in text
    assert '"event": "webhook.test"' in text


async def test_failed_deliveries_are_found_and_sent_again(each_world: HttpDeployment) -> None:
    """The log is filtered by state and event; a failed delivery shows its attempts, and is sent
    again."""
    world = each_world
    client, path, delivery = await failed_delivery(world)
    for query, is_shown in (
        ("?state=failed", True),
        ("?state=failed&event=booking.created", True),
        ("?event=booking.cancelled", False),
        ("?state=unfinished&event=", False),
        ("?state=succeeded", False),
    ):
        assert (delivery in (await client.get(f"{path}{query}")).text) is is_shown, query
    page = await client.get(delivery)
    assert len(re.findall(r"Attempt \d", page.text)) == 4
    assert "Failing The last delivery failed" in page_text((await client.get(path)).text)
    set_receiver_status(world)
    answer = await send(client, f"{delivery}/redelivery", page=delivery)
    assert answer.headers["location"] == f"{delivery}?again"
    await deliver_due_events(world)
    assert "Delivered" in page_text((await client.get(delivery)).text)


async def test_all_that_failed_is_sent_again(each_world: HttpDeployment) -> None:
    """What has failed in the chosen time is sent again with one form."""
    world = each_world
    client, path, _ = await failed_delivery(world)
    set_receiver_status(world)
    answer = await send(client, f"{path}/redeliveries", page=path, hours="24")
    assert answer.headers["location"] == f"{path}?redelivered"
    await deliver_due_events(world)
    assert "There is no such delivery" in (await client.get(f"{path}?state=failed")).text
    nothing = await send(client, f"{path}/redeliveries", page=path, hours="9" * 40)
    assert nothing.headers["location"] == f"{path}?nothing"


@pytest.mark.parametrize(
    "query", ["state=lost", "page=0", "page=x", "page=9999999", "event=" + "e" * 200, "event=%00"]
)
async def test_false_filters_are_refused(world: HttpDeployment, query: str) -> None:
    """A filter that is none is a fault of the address."""
    client, path, _ = await added(world)
    assert (await client.get(f"{path}?{query}", headers=PEOPLE)).status_code == 422


# The feed -------------------------------------------------------------------------------


async def test_events_are_listed_with_their_bodies(each_world: HttpDeployment) -> None:
    """The feed shows the newest event first, by kind if wanted, and leads to earlier ones."""
    world = each_world
    world.raise_limits()
    codes = [await request_booking(world) for _ in range(2)]
    client = await dashboard(world)
    page = await client.get(EVENTS)
    text = page_text(page.text)
    assert text.index(codes[1]) < text.index(codes[0])
    assert '"event": "booking.created"' in text
    assert codes[0] not in (await client.get(f"{EVENTS}?event=booking.cancelled")).text
    assert codes[0] in (await client.get(f"{EVENTS}?event=booking.created")).text
    assert codes[0] in (await client.get(f"{EVENTS}?before=2")).text
    assert codes[1] not in (await client.get(f"{EVENTS}?before=2")).text
    other = await (await dashboard(world, world.outsider)).get(EVENTS)
    assert codes[0] not in other.text
    for query in ("event=x", "before=0", "before=x"):
        assert (await client.get(f"{EVENTS}?{query}", headers=PEOPLE)).status_code == 422


async def test_the_feed_has_pages(world: HttpDeployment) -> None:
    """More events than a page has are reached by its link."""
    world.raise_limits()
    codes = [await request_booking(world) for _ in range(21)]
    client = await dashboard(world)
    page = await client.get(EVENTS)
    assert codes[0] not in page.text
    [way] = re.findall(rf'href="({EVENTS}\?before=\d+)"', page.text)
    assert codes[0] in (await client.get(way)).text
