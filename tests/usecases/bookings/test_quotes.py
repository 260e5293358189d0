"""Cancellation quotes: executed as given, by the actor who got them, for ten minutes."""

from __future__ import annotations

import base64
import json
from decimal import Decimal

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    add_user,
    next_revision,
    save_booking,
)
from staffbooking_adapters.vault import KeyringVault
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Trigger
from staffbooking_core.errors import Forbidden, NotFound, RuleBroken
from staffbooking_core.usecases.bookings import cancellation_quotes
from tests.support.memory_deployment import actor_of, with_another_customer

pytestmark = pytest.mark.anyio


async def quote(scene, booking, by=None):
    return await cancellation_quotes.quote_cancellation(
        scene.ports, by or scene.customer, booking.id
    )


async def refused(scene, booking, text, by=None):
    with pytest.raises(RuleBroken) as caught:
        await scene.cancel(booking, by, text)
    assert (await scene.booking(booking)).status is booking.status
    return caught.value.code


async def quoted(scene, before=48 * HOUR, **given):
    """A paid booking, and its quote at this time before the start."""
    booking = await scene.paid(**given)
    await scene.jump_to(booking.starts_at - before)
    return booking, await quote(scene, booking)


@pytest.mark.parametrize(
    "before, percent, amount, rule",
    [
        (48 * HOUR, 100, "400.00", "48_hours_or_more"),
        (48 * HOUR - SECOND, 50, "200.00", "24_to_48_hours"),
        (24 * HOUR, 50, "200.00", "24_to_48_hours"),
        (24 * HOUR - SECOND, 0, "0.00", "under_24_hours"),
    ],
)
async def test_a_quote_says_what_a_cancellation_gives_back(scene, before, percent, amount, rule):
    """A quote has percent, amount and rule of the current tier."""
    _, said = await quoted(scene, before)
    assert (said["refund_percent"], str(said["refund_amount"]), said["rule"]) == (
        percent,
        amount,
        rule,
    )


@pytest.mark.parametrize("by", ["staff", "admin"])
async def test_a_quote_is_for_who_asks(scene, by):
    """The quote of the staff member refunds everything."""
    booking, _ = await quoted(scene, HOUR)
    assert (await quote(scene, booking, getattr(scene, by)))["refund_percent"] == 100


async def test_an_unpaid_booking_has_nothing_to_give_back(scene):
    """An unpaid booking has a quote of zero."""
    said = await quote(scene, await scene.accepted())
    assert (said["refund_percent"], said["refund_amount"], said["rule"]) == (
        0,
        Decimal(0),
        "not_paid",
    )


async def test_a_quote_is_refused_where_a_cancellation_is(scene):
    """No quote is given after the start or for a cancelled booking."""
    booking, _ = await quoted(scene, 0 * HOUR + SECOND)
    await scene.jump_to(booking.starts_at)
    with pytest.raises(RuleBroken):
        await quote(scene, booking)


async def test_who_booked_gets_no_quote(scene):
    """The key's owner cannot get a quote."""
    booking = await scene.request()
    agent = actor_of(await add_user(scene.ports.store))
    await save_booking(scene.ports.store, next_revision(booking, booked_by=agent.user_id))
    with pytest.raises(Forbidden):
        await quote(scene, booking, agent)


async def test_a_quote_lives_for_ten_minutes(scene):
    """A quote expires after ten minutes and contains its expiry."""
    booking, said = await quoted(scene)
    assert said["expires_at"] == f"{await scene.now() + 10 * MINUTE:%Y-%m-%dT%H:%M:%SZ}"
    await scene.jump_to(booking.starts_at - 48 * HOUR + 10 * MINUTE)
    assert await refused(scene, booking, said["quote"]) == "quote_invalid"


@pytest.mark.parametrize("before, amount", [(48 * HOUR, 40_000), (24 * HOUR, 20_000)])
async def test_a_quote_holds_when_the_tier_has_changed(scene, before, amount):
    """A quote holds until a second before its expiry, even where the tier is lower by then."""
    booking, said = await quoted(scene, before)
    await scene.jump_to(booking.starts_at - before + 10 * MINUTE - SECOND)
    found = await scene.cancel(booking, quote=said["quote"])
    assert found.refunded_amount == amount
    await scene.drain()
    assert await scene.faults() == []


async def test_a_full_quote_gives_the_premium_back_later_too(scene):
    """A full quote refunds the premium, even where the tier is the half by then."""
    booking, said = await quoted(scene, cancellation_insurance=True)
    await scene.jump_to(booking.starts_at - 48 * HOUR + MINUTE)
    found = await scene.cancel(booking, quote=said["quote"])
    assert (found.refunded_amount, found.payout_amount) == (42_000, 0)
    await scene.drain()
    assert await scene.faults() == []


async def test_a_quote_does_not_outlive_the_start(scene):
    """A quote expires at the start at the latest, and cannot be used after it."""
    booking, said = await quoted(scene, MINUTE)
    assert said["expires_at"] == f"{booking.starts_at:%Y-%m-%dT%H:%M:%SZ}"
    await scene.jump_to(booking.starts_at)
    assert await refused(scene, booking, said["quote"]) == "booking_not_cancellable"


async def test_an_admins_quote_lives_for_ten_minutes_after_the_start_too(scene):
    """An admin cancels at any time, so their quote expires after ten minutes."""
    booking, _ = await quoted(scene, MINUTE)
    said = await quote(scene, booking, scene.admin)
    await scene.jump_to(booking.starts_at + 9 * MINUTE - SECOND)
    found = await scene.cancel(booking, scene.admin, said["quote"])
    assert found.status is BookingStatus.CANCELLED


async def test_a_quote_of_another_booking_is_none(scene):
    """A quote of another booking is invalid."""
    first, said = await quoted(scene)
    second = await scene.paid(start_time="18:00")
    assert await refused(scene, second, said["quote"]) == "quote_invalid"
    assert (await scene.booking(first)).status is BookingStatus.PAID


async def test_a_quote_of_somebody_else_is_none(scene):
    """A quote of the other party is invalid."""
    booking, _ = await quoted(scene, HOUR)
    theirs = await quote(scene, booking, scene.staff)
    assert await refused(scene, booking, theirs["quote"]) == "quote_invalid"


async def test_a_quote_of_an_earlier_version_is_none(scene):
    """A quote is invalid once the booking has changed."""
    booking, said = await quoted(scene, HOUR)
    changed = await scene.apply_trigger(booking, Trigger.CHECK_IN, scene.staff)
    assert await refused(scene, changed, said["quote"]) == "quote_invalid"


async def test_a_quote_from_before_the_payment_is_none(scene):
    """A quote from before the payment is invalid."""
    booking = await scene.accepted()
    said = await quote(scene, booking)
    await scene.simulate_checkout(booking)
    await scene.drain()
    paid = await scene.booking(booking)
    assert await refused(scene, paid, said["quote"]) == "quote_invalid"


def signed_by(vault, text, **changes):
    """A quote with changed fields, signed by this signer."""
    message = json.loads(base64.urlsafe_b64decode(text.partition(".")[0]))
    raw = json.dumps({**message, **changes}).encode()
    parts = (raw, vault.sign("cancellation-quote", raw))
    return ".".join(base64.urlsafe_b64encode(part).decode() for part in parts)


async def test_a_forged_quote_is_none(scene):
    """A quote with changed fields or another key's signature is invalid."""
    booking, said = await quoted(scene, HOUR)
    message, _, signature = said["quote"].partition(".")
    forged = signed_by(KeyringVault(["mine"]), said["quote"], percent=100, amount=40_000)
    mixed = f"{forged.partition('.')[0]}.{signature}"
    for text in (forged, mixed, f"{message}.", message):
        assert await refused(scene, booking, text) == "quote_invalid"


async def test_a_signature_for_another_purpose_is_none(scene):
    """A signature for another purpose is invalid."""
    booking, said = await quoted(scene)
    raw = base64.urlsafe_b64decode(said["quote"].partition(".")[0])
    other = base64.urlsafe_b64encode(scene.ports.vault.sign("else", raw)).decode()
    text = f"{said['quote'].partition('.')[0]}.{other}"
    assert await refused(scene, booking, text) == "quote_invalid"


@pytest.mark.parametrize("text", [".", "x", "é.é", "a.b.c", "====", "A" * 1000])
async def test_nonsense_is_no_quote(scene, text):
    """Any malformed quote raises `quote_invalid`."""
    booking, _ = await quoted(scene)
    assert await refused(scene, booking, text) == "quote_invalid"


@pytest.mark.parametrize("alter", [" {}", "{}\n", "!{}", "{}!", "{}=", "{}.", "{}.{}"])
async def test_an_altered_quote_is_none(scene, alter):
    """A quote with characters added is invalid, also where Base64 would ignore them."""
    booking, said = await quoted(scene)
    assert await refused(scene, booking, alter.replace("{}", said["quote"])) == "quote_invalid"


async def test_a_quote_with_other_unused_bits_is_none(scene):
    """A quote whose last Base64 digit differs in bits that encode nothing is invalid."""
    booking, said = await quoted(scene)
    signature = said["quote"].removesuffix("=")
    other = f"{signature[:-1]}{chr(ord(signature[-1]) + 1)}="
    decoded = [base64.urlsafe_b64decode(text.partition(".")[2]) for text in (said["quote"], other)]
    assert decoded[0] == decoded[1]
    assert await refused(scene, booking, other) == "quote_invalid"


async def test_a_quote_is_used_once(scene):
    """A quote cannot be used twice."""
    booking, said = await quoted(scene)
    cancelled = await scene.cancel(booking, quote=said["quote"])
    assert await refused(scene, cancelled, said["quote"]) == "booking_not_cancellable"


async def test_a_stranger_with_a_quote_is_still_a_stranger(scene):
    """A stranger with a quote gets NotFound."""
    booking, said = await quoted(scene)
    other = await with_another_customer(scene)
    with pytest.raises(NotFound):
        await other.cancel(booking, quote=said["quote"])


async def test_a_key_that_was_rotated_still_verifies(scene):
    """Quotes remain valid after a rotation of the secret key."""
    booking, said = await quoted(scene)
    rotated = evolve(scene, ports=evolve(scene.ports, vault=KeyringVault(["new", "key"])))
    assert (await rotated.cancel(booking, quote=said["quote"])).refunded_amount == 40_000
