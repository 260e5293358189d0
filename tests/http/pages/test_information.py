"""Tests of the pages that explain the service, and of the contact form."""

from __future__ import annotations

import re
from datetime import timedelta

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.usecases.notifications import inquiries
from tests.http.deployment import BASE_URL, HttpDeployment
from tests.http.pages.test_search import words

pytestmark = pytest.mark.anyio

CONTACT = "/contact-us"
INQUIRY = {"name": "Eve", "email": "eve@example.com", "message": "Hello\r\n& all"}


async def test_terms_follow_the_policy(world: HttpDeployment) -> None:
    """The terms name the figures of this deployment's policy."""
    policy = evolve(
        world.ports.policy,
        platform_fee_ppm=125_000,
        insurance_rate_ppm=40_000,
        payout_delay=timedelta(hours=30),
        payment_window=timedelta(hours=5),
    )
    world.restart(policy=policy)
    shown = words((await world.client().get("/terms")).text)
    for said in (
        "We keep 12.5% of the price",
        "For 4% of the price",
        "30 hours after the booking is completed",
        "You have 5 hours to pay",
        "The customer, 48 hours or more before the start Everything",
        "The customer, 24 to 48 hours before the start Half of the price",
        "within 72 hours",
    ):
        assert said in shown


async def test_terms_name_spans_that_are_not_whole_hours(world: HttpDeployment) -> None:
    """A payment window of 30 minutes and a payout delay of 90 are told as such on each page."""
    policy = evolve(
        world.ports.policy,
        payment_window=timedelta(minutes=30),
        payout_delay=timedelta(minutes=90),
    )
    world.restart(policy=policy)
    client, staff = world.client(), await world.signed_in_client(world.companion.id)
    terms = words((await client.get("/terms")).text)
    assert "You have 30 minutes to pay; after that the booking lapses." in terms
    assert "when the event starts lapses" not in terms
    for reader, path, said in (
        (client, "/terms", "90 minutes after the booking is completed, and within 48 hours"),
        (client, "/how-it-works", "made 90 minutes after the booking is completed"),
        (client, "/help", "When am I paid? 90 minutes after the booking is completed"),
        (client, "/", "on its way 90 minutes after the event is confirmed"),
        (staff, "/staff/payouts", "made 90 minutes after a booking is completed"),
        (staff, "/staff/payouts", "the rest is paid out 90 minutes later"),
    ):
        assert said in words((await reader.get(path)).text)


@pytest.mark.parametrize("path", ["/how-it-works", "/terms", CONTACT])
async def test_everybody_reads_what_explains_the_service(world: HttpDeployment, path: str) -> None:
    """The pages are there for signed-out and signed-in visitors, and lead to each other."""
    for who in (None, world.customer.id, world.companion.id, world.admin.id):
        client = world.client() if who is None else await world.signed_in_client(who)
        answer = await client.get(path)
        assert answer.status_code == 200
        for other in ("/how-it-works", "/terms", CONTACT):
            assert f'href="{other}"' in answer.text


async def test_forms_of_pages_name_their_origin(world: HttpDeployment) -> None:
    """Pages let browsers send their origin along with forms: under `no-referrer` it is `null`."""
    for path in ("/", CONTACT):
        shown = (await world.client().get(path)).text
        assert '<meta name="referrer" content="same-origin">' in shown


async def test_an_inquiry_reaches_the_operators(each_world: HttpDeployment) -> None:
    """The form stores the inquiry, and loading its page again sends nothing."""
    client = each_world.client(origin=BASE_URL)
    sent = await client.post(CONTACT, data={**INQUIRY, "subject": ""})
    assert (sent.status_code, sent.headers["location"]) == (303, f"{CONTACT}?sent")
    assert "Your message is on its way" in (await client.get(sent.headers["location"])).text
    [kept] = await inquiries.list_inquiries(each_world.ports)
    assert (kept.name, kept.email, kept.subject, kept.message) == (
        "Eve",
        "eve@example.com",
        "",
        "Hello\n& all",
    )


async def test_a_form_that_is_pressed_twice_is_one_inquiry(each_world: HttpDeployment) -> None:
    """The same form sent again says that it was sent; another text is another inquiry."""
    client = each_world.client()
    for message in ("Hello", "Hello", "Hello again"):
        sent = await client.post(CONTACT, data={**INQUIRY, "message": message})
        assert (sent.status_code, sent.headers["location"]) == (303, f"{CONTACT}?sent")
    kept = await inquiries.list_inquiries(each_world.ports)
    assert [each.message for each in kept] == ["Hello", "Hello again"]


def key_of(page: httpx.Response) -> str:
    """The hidden key of the page's contact form."""
    found = re.search(r'name="key" value="([^"]+)"', page.text)
    assert found is not None
    return found[1]


async def test_the_same_text_from_a_new_form_is_another_inquiry(
    each_world: HttpDeployment,
) -> None:
    """Each form that is shown sends its own inquiry, once, even with the words of another one."""
    client = each_world.client()
    for _ in range(2):
        form = {**INQUIRY, "key": key_of(await client.get(CONTACT))}
        for _ in range(2):
            assert (await client.post(CONTACT, data=form)).status_code == 303
    kept = await inquiries.list_inquiries(each_world.ports)
    assert [each.message for each in kept] == ["Hello\n& all"] * 2


async def test_a_refused_form_keeps_its_key(world: HttpDeployment) -> None:
    """A form that is refused is shown again with its key; one without a key gets one."""
    client = world.client()
    key = key_of(await client.get(CONTACT))
    refused = await client.post(CONTACT, data={**INQUIRY, "email": "x", "key": key})
    assert (refused.status_code, key_of(refused)) == (422, key)
    assert key_of(await client.post(CONTACT, data={**INQUIRY, "email": "x"})) != key


async def test_who_is_signed_in_need_not_say_who(world: HttpDeployment) -> None:
    """The form of a signed-in visitor has their name and e-mail filled in."""
    client = await world.signed_in_client(world.customer.id)
    shown = (await client.get(CONTACT)).text
    assert 'value="Ada Okoro"' in shown
    assert 'value="ada@example.com"' in shown
    assert (await client.post(CONTACT, data=INQUIRY)).status_code == 303


async def test_all_faults_stand_at_their_fields(world: HttpDeployment) -> None:
    """Every fault is told at once at its field, and what was typed stays."""
    given = {"name": " ", "email": "eve", "subject": "x" * 301, "message": "Kept <b>"}
    answer = await world.client().post(CONTACT, data=given)
    assert answer.status_code == 422
    for field in ("name", "email", "subject"):
        assert f'id="e-{field}"' in answer.text
    assert "Kept &lt;b&gt;" in answer.text
    assert "things again" in answer.text
    missing = await world.client().post(CONTACT, data={"name": "Eve"})
    assert missing.status_code == 400
    assert ('id="e-email"' in missing.text, 'id="e-message"' in missing.text) == (True, True)


async def test_refused_inquiries_spend_nothing(world: HttpDeployment) -> None:
    """Only sent inquiries count; beyond the limit the text stays and the page says when to go
    on."""
    limits = evolve(world.ports.policy.limits, contact=RateLimit("contact", 2, HOUR))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    client = world.client()
    for _ in range(5):
        assert (await client.post(CONTACT, data={**INQUIRY, "email": "x"})).status_code == 422
    for subject in ("First", "Second"):
        sent = await client.post(CONTACT, data={**INQUIRY, "subject": subject})
        assert sent.status_code == 303
    refused = await client.post(CONTACT, data=INQUIRY, headers={"accept": "text/html"})
    assert (refused.status_code, "Try again in 60 minutes" in refused.text) == (429, True)
    assert "Hello" in refused.text
    assert len(await inquiries.list_inquiries(world.ports)) == 2


async def test_foreign_pages_send_no_inquiry(world: HttpDeployment) -> None:
    """A form of another site is refused, with the address of the service."""
    client = world.client(origin="https://other.example")
    refused = await client.post(CONTACT, data=INQUIRY, headers={"accept": "text/html"})
    assert refused.status_code == 403
    assert f"Open {world.ports.policy.base_url} instead." in words(refused.text)
    assert not await inquiries.list_inquiries(world.ports)
