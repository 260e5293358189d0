"""Operators find payouts, refunds and the ledger of a booking on pages, and act on them."""

from __future__ import annotations

import httpx
import pytest

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.payments.operations import SettlementStatus
from staffbooking_core.domain.payments.processor import OutcomeUnknown
from staffbooking_core.usecases.accounts import audit
from staffbooking_core.usecases.payments import payouts
from tests.http.deployment import HttpDeployment
from tests.http.pages.test_admin_disputes import PEOPLE, operator, scene_of
from tests.support.html_pages import page_forms, page_text

pytestmark = pytest.mark.anyio


def page(booking: Booking) -> str:
    return f"/admin/bookings/{booking.id}"


async def act(client: httpx.AsyncClient, booking: Booking, way: str, reason: str) -> httpx.Response:
    """Follow the link of the booking's page, and press the button with a reason."""
    address = f"{page(booking)}/{way}"
    assert f'href="{address}"' in (await client.get(page(booking))).text
    [form] = page_forms((await client.get(address)).text)
    return await client.post(form.action, data={**form.fields, "reason": reason})


async def failed_refund(world: HttpDeployment) -> Booking:
    scene = scene_of(world)
    booking = await scene.paid()
    await scene.fault("refund", "refuse")
    await scene.cancel(booking)
    await scene.drain()
    return booking


async def last_audit(world: HttpDeployment) -> tuple[str, str, str | None]:
    [entry, *_] = await audit.list_audit_entries(world.ports)
    assert entry.actor == world.admin.email
    return f"{entry.subject} {entry.act}", entry.subject_id, entry.reason


async def test_payouts_are_listed_by_what_they_need(each_world: HttpDeployment) -> None:
    """Scheduled, held and failed payouts, and failed refunds, have a list each."""
    refused = await failed_refund(each_world)
    scheduled = await scene_of(each_world).completed()
    client = await operator(each_world)
    for show, booking in (("scheduled", scheduled), ("refunds", refused)):
        text = page_text((await client.get(f"/admin/money?show={show}")).text)
        assert booking.code in text
    assert "No payout has failed" in (await client.get("/admin/money")).text
    assert "No payout is on hold" in (await client.get("/admin/money?show=held")).text
    assert (await client.get("/admin/money?show=all", headers=PEOPLE)).status_code == 422


async def test_a_payout_is_held_and_released(each_world: HttpDeployment) -> None:
    """Each asks once for a reason; the booking's page then shows how the payout stands, and the
    audit who did it and why."""
    world = each_world
    booking = await scene_of(world).completed()
    client = await operator(world)
    held = await act(client, booking, "payout/hold", "The name looks wrong.")
    assert (held.status_code, held.headers["location"]) == (
        303,
        f"{page(booking)}?done=payout/hold",
    )
    assert await last_audit(world) == ("payout hold", booking.code, "The name looks wrong.")
    text = page_text((await client.get(held.headers["location"])).text)
    assert "The payout is on hold." in text
    assert booking.code in (await client.get("/admin/money?show=held")).text
    assert (await scene_of(world).booking(booking)).payout_status is PayoutStatus.FROZEN
    await act(client, booking, "payout/release", "It is her sister's account.")
    assert await last_audit(world) == (
        "payout release",
        booking.code,
        "It is her sister's account.",
    )
    assert (await scene_of(world).booking(booking)).payout_status is PayoutStatus.SCHEDULED


async def test_a_failed_refund_is_ordered_again(each_world: HttpDeployment) -> None:
    """The refund is made, and the list is empty then."""
    world = each_world
    booking = await failed_refund(world)
    await scene_of(world).clear_faults()
    client = await operator(world)
    await act(client, booking, "refunds/retry", "The card works again.")
    assert await last_audit(world) == ("refund retry", booking.code, "The card works again.")
    await scene_of(world).drain()
    after = await scene_of(world).booking(booking)
    assert [refund.status for refund in after.refunds][-1] is SettlementStatus.SETTLED
    assert "No refund has failed" in (await client.get("/admin/money?show=refunds")).text


@pytest.mark.parametrize("reason", ["", " ", "x" * 301])
async def test_an_act_needs_a_reason(world: HttpDeployment, reason: str) -> None:
    """Without a valid reason nothing is done, and the text stays."""
    booking = await scene_of(world).completed()
    client = await operator(world)
    refused = await act(client, booking, "payout/hold", reason)
    assert refused.status_code in (400, 422)
    assert 'id="e-reason"' in refused.text
    assert f">\n{reason}</textarea>" in refused.text
    assert (await scene_of(world).booking(booking)).payout_status is PayoutStatus.SCHEDULED


async def test_what_is_not_possible_leads_to_the_booking(world: HttpDeployment) -> None:
    """An act that is not possible, or not any more, leads to the page that shows how it stands."""
    booking = await scene_of(world).completed()
    client = await operator(world)
    shown = await client.get(f"{page(booking)}/payout/release")
    assert (shown.status_code, shown.headers["location"]) == (303, page(booking))
    [form] = page_forms((await client.get(f"{page(booking)}/payout/hold")).text)
    for expected in ("?done=payout/hold", ""):
        answer = await client.post(form.action, data={**form.fields, "reason": "Why"})
        assert answer.headers["location"] == f"{page(booking)}{expected}"
    assert len(await audit.list_audit_entries(world.ports)) == 1


async def test_a_release_is_of_the_hold_that_was_shown(each_world: HttpDeployment) -> None:
    """A payout that was released and held again since the form was loaded stays on hold."""
    booking = await scene_of(each_world).completed()
    client = await operator(each_world)
    await act(client, booking, "payout/hold", "The name looks wrong.")
    [form] = page_forms((await client.get(f"{page(booking)}/payout/release")).text)
    await payouts.release_payout(each_world.ports, booking.code)
    await payouts.hold_payout(each_world.ports, booking.code, "The account was stolen.")
    late = await client.post(form.action, data={**form.fields, "reason": "A married name."})
    assert late.headers["location"] == page(booking)
    assert (await scene_of(each_world).booking(booking)).payout_status is PayoutStatus.FROZEN


async def test_the_booking_has_its_ledger_beside_the_processor(each_world: HttpDeployment) -> None:
    """Postings, calls with their keys and states, events, and both sides, which agree."""
    booking = await scene_of(each_world).paid_out()
    client = await operator(each_world)
    text = page_text((await client.get(page(booking))).text)
    for words in (
        "Payment arrived",
        "Money divided",
        "Payout made",
        "Balance at the processor",
        "Owed to the staff member",
        "pay_out_",
        "Both sides agree.",
        "booking.completed",
        "Mia was paid",
    ):
        assert words in text, words


async def test_a_silent_processor_is_no_fault_of_the_page(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the processor does not answer, the page says so and shows the rest."""
    booking = await scene_of(world).paid()

    async def fail(*_: object) -> None:
        raise OutcomeUnknown

    monkeypatch.setattr(FakeProcessor, "snapshot", fail)
    text = page_text((await (await operator(world)).get(page(booking))).text)
    assert "The processor does not answer" in text
    assert "Payment arrived" in text


async def test_a_booking_is_found_by_its_code(world: HttpDeployment) -> None:
    """The code leads to the booking, however it is written; others are told at the field."""
    booking = await scene_of(world).request()
    client = await operator(world)
    found = await client.get("/admin/bookings", params={"code": f" {booking.code.lower()} "})
    assert (found.status_code, found.headers["location"]) == (303, page(booking))
    assert (await client.get("/admin/bookings?code=")).status_code == 200
    for code in ("BK0", "<b>", "x" * 101, "\u202ebk", "%"):
        refused = await client.get("/admin/bookings", params={"code": code}, headers=PEOPLE)
        assert refused.status_code == 422
        assert 'id="e-code"' in refused.text


async def test_money_is_there_for_operators_alone(world: HttpDeployment) -> None:
    """Others find nothing; forged forms and unknown bookings change nothing."""
    booking = await scene_of(world).completed()
    customer = await world.signed_in_client(world.customer.id)
    paths = ("/admin/money", "/admin/bookings", page(booking), f"{page(booking)}/payout/hold")
    for path in paths:
        assert (await customer.get(path, headers=PEOPLE)).status_code == 404
    client = await operator(world)
    forged = await client.post(f"{page(booking)}/payout/hold", data={"reason": "x"})
    assert forged.status_code == 403
    for number in ("999999", "0", "x"):
        address = f"/admin/bookings/{number}"
        assert (await client.get(address, headers=PEOPLE)).status_code == 404
        assert (await client.get(f"{address}/refunds/retry", headers=PEOPLE)).status_code == 404
