"""Operators read the evidence of disputes and decide them on pages."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import httpx
import pytest

from staffbooking_adapters.testing.builders import DAY
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.inputs import AddDisputeStatement, DisputeBooking
from staffbooking_core.usecases.accounts import audit
from staffbooking_core.usecases.bookings import dispute_files, disputes
from staffbooking_core.usecases.messaging import messages
from tests.http.deployment import HttpDeployment
from tests.support.html_pages import page_forms, page_text
from tests.support.memory_deployment import BookingScenario, actor_of
from tests.support.pictures import make_image_bytes

pytestmark = pytest.mark.anyio

PEOPLE = {"accept": "text/html"}
LIST = "/admin/disputes"


def scene_of(world: HttpDeployment) -> BookingScenario:
    parties = (actor_of(each) for each in (world.customer, world.companion, world.admin))
    return BookingScenario(world.ports, *parties)


async def disputed(world: HttpDeployment) -> Booking:
    """A completed booking of 400 that its customer disputes."""
    scene = scene_of(world)
    return await scene.dispute(await scene.completed())


async def operator(world: HttpDeployment) -> httpx.AsyncClient:
    client = await world.signed_in_client(world.admin.id)
    client.headers.pop("x-csrf-token", None)
    return client


async def choose(
    client: httpx.AsyncClient, booking: Booking, outcome: str, amount: str = ""
) -> httpx.Response:
    """Send the form of the outcome, as a browser does: with empty fields too."""
    given = urlencode({"outcome": outcome, "amount": amount})
    return await client.get(f"{LIST}/{booking.id}/decision?{given}", headers=PEOPLE)


async def decide(
    client: httpx.AsyncClient, booking: Booking, outcome: str, amount: str = "", reason: str = ""
) -> httpx.Response:
    """Choose the outcome, and press the button of the page that asks for the reason."""
    shown = await choose(client, booking, outcome, amount)
    assert shown.status_code == 200, shown.text
    [form] = page_forms(shown.text)
    return await client.post(form.action, data={**form.fields, "reason": reason})


async def send_message(world: HttpDeployment, text: str) -> Message:
    customer, companion = actor_of(world.customer), actor_of(world.companion)
    return await messages.send_to_user(world.ports, customer, companion.user_id, text)


async def test_disputes_are_listed_with_age_and_deadline(world: HttpDeployment) -> None:
    """Each open dispute has its parties, what is held, its age and its deadline; an overdue one
    says so."""
    client = await operator(world)
    assert "No open disputes" in (await client.get(LIST)).text
    booking = await disputed(world)
    text = page_text((await client.get(LIST)).text)
    for words in (booking.code, "Ada", "against Mia", "400.00", "Open for", "Answers until"):
        assert words in text
    await scene_of(world).jump_to(booking.ends_at + 4 * DAY)
    assert "Overdue for 24 hours" in page_text((await client.get(LIST)).text)


async def test_the_case_has_the_evidence_of_both_sides(each_world: HttpDeployment) -> None:
    """The case shows what both sides stated with their pictures, what they wrote to each other,
    addresses, the ledger, and what each decision would do."""
    world = each_world
    booking = await disputed(world)
    staff = actor_of(world.companion)
    file = await dispute_files.upload_file(
        world.ports, staff, booking.id, make_image_bytes(), "image/png"
    )
    statement = AddDisputeStatement(text="I was <b>there</b>", files=(file.id,))
    await disputes.add_statement(world.ports, staff, booking.id, statement)
    await send_message(world, "Where are you?")
    client = await operator(world)
    page = (await client.get(f"{LIST}/{booking.id}")).text
    text = page_text(page)
    for words in (
        "nobody came",
        "I was <b>there</b>",
        "Where are you?",
        world.customer.email,
        "Payment arrived",
        "Held for this booking",
        "Mia is paid US$340.00, nothing goes back",
        "Ada gets US$400.00 back",
    ):
        assert words in text, words
    assert (await client.get(f"/bookings/{booking.id}/dispute/files/{file.id}")).status_code == 200
    assert f"/dispute/files/{file.id}" in page


async def test_a_side_that_is_silent_is_named(world: HttpDeployment) -> None:
    """The case says who has not answered yet."""
    booking = await disputed(world)
    text = page_text((await (await operator(world)).get(f"{LIST}/{booking.id}")).text)
    assert f"{booking.companion_name} has not said anything yet." in text
    assert f"{booking.customer_name} has not said anything yet." not in text


@pytest.mark.parametrize(
    ("outcome", "amount", "shares", "status"),
    [
        ("release", "", ("US$0.00", "US$340.00", "US$60.00"), BookingStatus.COMPLETED),
        ("refund", "", ("US$400.00", "US$0.00"), BookingStatus.CANCELLED),
        ("split", "100.00", ("US$100.00", "US$255.00", "US$45.00"), BookingStatus.COMPLETED),
    ],
)
async def test_a_decision_shows_what_it_does_and_does_that(
    each_world: HttpDeployment,
    outcome: str,
    amount: str,
    shares: tuple[str, ...],
    status: BookingStatus,
) -> None:
    """The page of a decision has the parts of both sides, which are what they get; the reason is
    read by both, and in the audit with the operator."""
    world = each_world
    booking = await disputed(world)
    client = await operator(world)
    shown = page_text((await choose(client, booking, outcome, amount)).text)
    for share in shares:
        assert share in shown
    done = await decide(client, booking, outcome, amount, "The photos show it.")
    assert (done.status_code, done.headers["location"]) == (303, f"{LIST}/{booking.id}?decided")
    assert "The dispute is decided." in (await client.get(done.headers["location"])).text
    after = await scene_of(world).booking(booking)
    assert after.status is status
    assert (after.refunded_amount, after.payout_amount) == (
        int(float(shares[0][3:]) * 100),
        int(float(shares[1][3:]) * 100),
    )
    for side in (world.customer, world.companion):
        reader = await world.signed_in_client(side.id)
        assert "The photos show it." in (await reader.get(f"/bookings/{booking.id}/return")).text
    [entry] = await audit.list_audit_entries(world.ports)
    assert (entry.actor, entry.act, entry.subject_id) == (
        *(world.admin.email, "resolve", booking.code),
    )
    assert (entry.reason, entry.origin) == ("The photos show it.", world.client_address)


@pytest.mark.parametrize("reason", ["", " \n", "x" * 301])
async def test_a_decision_needs_a_reason(world: HttpDeployment, reason: str) -> None:
    """Without a valid reason nothing is decided; the page says so at the field, with the text and
    the outcome kept."""
    booking = await disputed(world)
    client = await operator(world)
    refused = await decide(client, booking, "split", "100", reason)
    assert refused.status_code in (400, 422)
    assert 'id="e-reason"' in refused.text
    [form] = page_forms(refused.text)
    assert (form.fields["outcome"], form.fields["amount"]) == ("split", "100")
    assert f">\n{reason}</textarea>" in refused.text
    assert (await scene_of(world).booking(booking)).status is BookingStatus.DISPUTED
    assert await audit.list_audit_entries(world.ports) == []


@pytest.mark.parametrize(
    ("outcome", "amount", "field"),
    [
        ("", "", "outcome"),
        ("both", "", "outcome"),
        ("split", "", "amount"),
        ("split", "0", "amount"),
        ("split", "-5", "amount"),
        ("split", "400.01", "amount"),
        ("split", "0.001", "amount"),
        ("split", "9" * 300, "amount"),
        ("split", "NaN", "amount"),
        ("split", "<script>", "amount"),
        ("refund", "5", "amount"),
    ],
)
async def test_an_outcome_that_is_impossible_is_refused_at_its_field(
    world: HttpDeployment, outcome: str, amount: str, field: str
) -> None:
    """An unknown outcome, a missing amount, and one that can't be paid are told at their fields;
    what was typed stays, and a forged form changes nothing either."""
    booking = await disputed(world)
    client = await operator(world)
    given = {"outcome": outcome, "amount": amount, "x": "1"}
    way = f"{LIST}/{booking.id}/decision"
    [form] = page_forms((await choose(client, booking, "release")).text)
    for answer in (
        await client.get(f"{way}?{urlencode(given)}", headers=PEOPLE),
        await client.post(way, data={**form.fields, **given, "reason": "Why"}),
    ):
        assert answer.status_code in (400, 422)
        assert f'id="e-{field}"' in answer.text
        if amount and "<" not in amount:
            assert f'value="{amount}"' in answer.text
    assert (await scene_of(world).booking(booking)).status is BookingStatus.DISPUTED


async def test_the_share_is_a_field_for_numbers(world: HttpDeployment) -> None:
    """The browser takes the share in the notation of its person: `10,50` in German."""
    booking = await disputed(world)
    page = (await (await operator(world)).get(f"{LIST}/{booking.id}")).text
    [field] = re.findall(r'<input[^>]* name="amount"[^>]*>', page)
    assert 'type="number"' in field
    assert 'step="0.01"' in field


async def test_a_decision_pressed_twice_is_made_once(world: HttpDeployment) -> None:
    """The second submit, and a dispute that was withdrawn meanwhile, lead to the case."""
    booking = await disputed(world)
    client = await operator(world)
    [form] = page_forms((await choose(client, booking, "refund")).text)
    for expected in ("?decided", ""):
        answer = await client.post(form.action, data={**form.fields, "reason": "Nobody came."})
        assert answer.headers["location"] == f"{LIST}/{booking.id}{expected}"
    assert len(await audit.list_audit_entries(world.ports)) == 1
    shown = await choose(client, booking, "release")
    assert (shown.status_code, shown.headers["location"]) == (303, f"{LIST}/{booking.id}")


async def test_a_decision_is_made_about_the_dispute_that_was_read(
    each_world: HttpDeployment,
) -> None:
    """The form of a withdrawn dispute does not decide a later one: it leads to that case."""
    booking = await disputed(each_world)
    client = await operator(each_world)
    [form] = page_forms((await choose(client, booking, "refund")).text)
    scene = scene_of(each_world)
    await disputes.withdraw_dispute(each_world.ports, scene.customer, booking.id)
    later = DisputeBooking(reason="The bar was closed")
    await disputes.open_dispute(each_world.ports, scene.customer, booking.id, later)
    answer = await client.post(form.action, data={**form.fields, "reason": "Nobody came."})
    assert answer.headers["location"] == f"{LIST}/{booking.id}?changed"
    text = page_text((await client.get(answer.headers["location"])).text)
    assert "The case has changed since you opened it" in text
    assert (await scene.booking(booking)).status is BookingStatus.DISPUTED


async def test_a_statement_is_read_before_the_decision(world: HttpDeployment) -> None:
    """A statement that came after the case was opened leads both steps of a decision back to it."""
    booking = await disputed(world)
    client = await operator(world)
    path = f"{LIST}/{booking.id}"
    [first] = page_forms((await client.get(path)).text)
    [second] = page_forms((await choose(client, booking, "refund")).text)
    statement = AddDisputeStatement(text="I was there")
    await disputes.add_statement(world.ports, actor_of(world.companion), booking.id, statement)
    given = urlencode({**first.fields, "outcome": "refund"})
    for answer in (
        await client.get(f"{first.action}?{given}", headers=PEOPLE),
        await client.post(second.action, data={**second.fields, "reason": "Nobody came."}),
    ):
        assert (answer.status_code, answer.headers["location"]) == (303, f"{path}?changed")


async def test_a_chargeback_is_decided_by_the_bank(world: HttpDeployment) -> None:
    """While a chargeback is open the case has no decision, and says why."""
    scene = scene_of(world)
    booking = await scene.charge_back(await scene.completed())
    client = await operator(world)
    page = (await client.get(f"{LIST}/{booking.id}")).text
    assert "decides" in page_text(page)
    assert 'name="outcome"' not in page
    assert (await choose(client, booking, "refund")).status_code == 303


async def test_the_booking_page_leads_an_admin_to_the_case(world: HttpDeployment) -> None:
    """An admin finds the reason of a dispute on the booking page, and the way to its decision."""
    booking = await disputed(world)
    page = (await (await operator(world)).get(f"/bookings/{booking.id}/return")).text
    assert "nobody came" in page
    assert f'href="{LIST}/{booking.id}">' in page
    assert "Decide the dispute" in page


async def test_disputes_are_there_for_operators_alone(world: HttpDeployment) -> None:
    """Others find nothing, signed-out visitors are led to sign in, and what was never disputed has
    no case."""
    booking = await disputed(world)
    paths = (LIST, f"{LIST}/{booking.id}", f"{LIST}/{booking.id}/decision?outcome=refund")
    customer = await world.signed_in_client(world.customer.id)
    for path in paths:
        assert (await customer.get(path, headers=PEOPLE)).status_code == 404
        assert (await world.client().get(path, headers=PEOPLE)).status_code == 303
    forged = await customer.post(f"{LIST}/{booking.id}/decision", data={"outcome": "refund"})
    assert forged.status_code == 404
    client = await operator(world)
    stranger = await client.post(f"{LIST}/{booking.id}/decision", data={"outcome": "refund"})
    assert stranger.status_code == 403
    undisputed = await scene_of(world).request(start_time="18:00")
    for number in (str(undisputed.id), "999999", "0", "x"):
        assert (await client.get(f"{LIST}/{number}", headers=PEOPLE)).status_code == 404
