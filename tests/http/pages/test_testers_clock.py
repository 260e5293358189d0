"""Tests of the page of a sandbox's clock, and of the page of payment faults."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import NOW, POLICY
from staffbooking_core.usecases import due_work
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_bookings import PEOPLE
from tests.http.pages.test_messages import met
from tests.http.pages.test_testers import mark

pytestmark = pytest.mark.anyio

ODD_TEXTS = ("", "x" * 300, "<script>", "\u202eabc", "\U0001f389", "9" * 40, "-1", "1e9", "null")


async def request_booking(world: HttpDeployment) -> int:
    """The id of a request by the customer."""
    answer = await world.client_with_key().post("/api/v1/bookings", json=world.request_body())
    booking_id: int = json_body(answer, 201)["booking"]["id"]
    return booking_id


async def forward(client: httpx.AsyncClient, **form: str) -> httpx.Response:
    return await client.post("/sandbox/clock/forward", data=form, headers=PEOPLE)


async def clock_page(client: httpx.AsyncClient, moved: httpx.Response) -> str:
    assert moved.status_code == 303, moved.text
    page = await client.get(moved.headers["location"], headers=PEOPLE)
    assert page.status_code == 200
    return page.text


# The clock -------------------------------------------------------------------------------


async def test_the_clock_is_a_page_to_browsers_only(world: HttpDeployment) -> None:
    """A browser gets a page from the address at which programs read and move the clock."""
    page = await world.client().get("/sandbox/clock", headers=PEOPLE)
    assert (page.status_code, "clock" in page.text) == (200, True)
    assert json_body(await world.client().get("/sandbox/clock")) == {"now": "2027-03-01T12:00:00Z"}
    moved = await world.client().post("/sandbox/clock", json={"advance_seconds": 60})
    assert "now" in json_body(moved)


async def test_messages_are_of_today_by_the_services_clock(world: HttpDeployment) -> None:
    """In a sandbox with a sample, pages with messages tell scripts the time of the service's clock,
    which stamps messages and may be ahead of the reader's."""
    conversation, customer, _ = await met(world, "Hello")
    paths = ("/", "/conversations", f"/conversations/{conversation['id']}")
    assert not any(["data-now" in (await customer.get(path)).text for path in paths])
    await mark(world, world.customer.id)
    world.restart()
    customer = await world.signed_in_client(world.customer.id)
    for path in paths:
        assert f'data-now="{NOW.isoformat()}"' in (await customer.get(path)).text


@pytest.mark.parametrize(
    ("step", "span"),
    [
        ("hour", timedelta(hours=1)),
        ("day", timedelta(days=1)),
        ("week", timedelta(days=7)),
    ],
)
async def test_the_clock_moves_ahead(world: HttpDeployment, step: str, span: timedelta) -> None:
    """A button moves the clock by its span."""
    before = await world.clock.business()
    await forward(world.client(), step=step)
    assert await world.clock.business() == before + span


async def test_the_page_tells_what_happened(world: HttpDeployment) -> None:
    """After a move to what comes next, the page lists what changed and the mails that were sent;
    before it, what comes next."""
    world.restart(policy=evolve(POLICY, keeps_mails=True))
    await request_booking(world)
    await due_work.run_all_due(world.ports)
    client = world.client()
    before = (await client.get("/sandbox/clock", headers=PEOPLE)).text
    assert "an unanswered or unpaid booking lapses" in before
    text = await clock_page(client, await forward(client, step="next"))
    assert "<strong>Cancelled or lapsed</strong>" in text
    assert "<strong>Requested</strong>" not in text
    assert "mail was sent" in text or "mails were sent" in text
    again = await client.get("/sandbox/clock", headers=PEOPLE)
    assert "Nothing is waiting for its time." in again.text


async def test_nothing_due_is_said(world: HttpDeployment) -> None:
    """A move to what comes next, where nothing comes, moves nothing, and the page says so."""
    before = await world.clock.business()
    text = await clock_page(world.client(), await forward(world.client(), step="next"))
    assert "Nothing is waiting for its time." in text
    assert "No booking changed, and no mail was sent." in text
    assert await world.clock.business() == before


async def test_the_clock_moves_to_the_event_of_a_booking(world: HttpDeployment) -> None:
    """A party moves the clock to the start and to the end of their booking, and not back."""
    booking_id = await request_booking(world)
    staff = await world.signed_in_client(world.companion.id)
    json_body(await staff.post(f"/bookings/{booking_id}/accept"))
    booking = json_body(await staff.get(f"/bookings/{booking_id}"))["booking"]
    page = (await staff.get("/sandbox/clock", headers=PEOPLE)).text
    assert booking["booking_code"] in page
    for step in ("start", "end"):
        assert (await forward(staff, step=step, booking=str(booking_id))).status_code == 303
        now = (await world.clock.business()).isoformat().replace("+00:00", "Z")
        assert now[:16] == booking[f"{step}s_at"][:16]
    back = await forward(staff, step="start", booking=str(booking_id))
    assert (back.status_code, "only runs forward" in back.text) == (400, True)


async def test_nobody_moves_the_clock_to_the_booking_of_others(world: HttpDeployment) -> None:
    """The booking of others is not found, signed out or as a stranger."""
    booking_id = await request_booking(world)
    before = await world.clock.business()
    stranger = await world.signed_in_client(world.stranger.id)
    for client in (stranger, world.client()):
        for form in ({"booking": str(booking_id)}, {"booking": "999999"}, {}):
            assert (await forward(client, step="end", **form)).status_code == 404
    assert await world.clock.business() == before


async def test_odd_moves_are_refused(world: HttpDeployment) -> None:
    """Whatever a form or an address holds, the answer is 4xx and the clock stands."""
    before = await world.clock.business()
    forms: list[Mapping[str, str]] = [{"step": text} for text in ODD_TEXTS]
    forms += [{"step": "end", "booking": text} for text in ODD_TEXTS]
    for form in (*forms, {}):
        assert 400 <= (await forward(world.client(), **form)).status_code < 500, form
    for text in ODD_TEXTS[1:]:
        for name in ("position", "mail", "since"):
            address = httpx.URL("/sandbox/clock", params={"position": "0", name: text})
            answer = await world.client().get(address, headers=PEOPLE)
            assert 400 <= answer.status_code < 500, (name, text)
    assert await world.clock.business() == before


async def test_a_foreign_page_moves_no_clock(world: HttpDeployment) -> None:
    """Forms of another origin are refused."""
    foreign = {"origin": "https://other.test"}
    for path in ("/sandbox/clock/forward", "/sandbox/faults", "/sandbox/faults/none"):
        sent = await world.client().post(path, data={"step": "day"}, headers=foreign)
        assert sent.status_code == 403


# Payment faults --------------------------------------------------------------------------


async def test_a_fault_is_armed_and_disarmed(world: HttpDeployment) -> None:
    """An armed fault is listed with its number, meets the next calls, and can be disarmed."""
    client = world.client()
    form = {"fault": "pay_out refuse:payee_not_ready", "times": "3"}
    armed = await client.post("/sandbox/faults", data=form, headers=PEOPLE)
    assert armed.headers["location"] == "/sandbox/faults?armed"
    [fault] = await world.processor.sandbox.list_faults()
    assert (fault.op, fault.kind, fault.times) == ("pay_out", "refuse:payee_not_ready", 3)
    page = (await client.get("/sandbox/faults?armed", headers=PEOPLE)).text
    assert "The payout account is not ready</span>" in page
    assert "3 times" in page
    await client.post("/sandbox/faults/none", headers=PEOPLE)
    assert list(await world.processor.sandbox.list_faults()) == []
    assert "None: everything works." in (await client.get("/sandbox/faults", headers=PEOPLE)).text


async def test_each_offered_fault_can_be_armed(world: HttpDeployment) -> None:
    """The processor knows every fault that the page offers, and the page names each."""
    client = world.client()
    page = (await client.get("/sandbox/faults", headers=PEOPLE)).text
    names = [part.partition('"')[0] for part in page.split('<option value="')[1:]]
    for name in names:
        answer = await client.post("/sandbox/faults", data={"fault": name, "times": "1"})
        assert answer.status_code == 303, name
    assert len(await world.processor.sandbox.list_faults()) == len(names) == 14
    listed = (await client.get("/sandbox/faults", headers=PEOPLE)).text
    assert "pay_out:" not in listed


async def test_odd_faults_are_refused(world: HttpDeployment) -> None:
    """A form with faults is shown again with all of them at their fields; nothing is armed."""
    client = world.client()
    both = await client.post("/sandbox/faults", data={"fault": "", "times": "0"}, headers=PEOPLE)
    assert (both.status_code, both.text.count('aria-invalid="true"')) == (422, 2)
    for text in ODD_TEXTS:
        for form in ({"fault": text, "times": "1"}, {"fault": "refund refuse", "times": text}):
            answer = await client.post("/sandbox/faults", data=form, headers=PEOPLE)
            assert 400 <= answer.status_code < 500, form
    assert list(await world.processor.sandbox.list_faults()) == []
