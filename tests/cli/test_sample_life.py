"""What the people of the demo's sample did: bookings, money, reviews, messages, pictures."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from staffbooking_cli.sample import cast, market, seed
from staffbooking_cli.sample.art import portraits, scenes
from staffbooking_cli.sample.trades import TRADES
from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import due_work
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.bookings import actions, disputes
from staffbooking_core.usecases.companions import profiles
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.payments import ledger_check
from tests.cli.deployment import make_cli_ports

pytestmark = pytest.mark.anyio

SIGN_INS = (cast.CUSTOMER_EMAIL, market.STAFF_EMAIL)
ENDINGS = {
    ("pending", None, None, "none"),
    ("accepted", None, None, "requires_payment"),
    ("paid", None, None, "succeeded"),
    ("completed", None, None, "succeeded"),
    ("disputed", None, None, "succeeded"),
    ("cancelled", "customer", "none", "none"),
    ("cancelled", "customer", "all", "refunded"),
    ("cancelled", "customer", "half", "partially_refunded"),
    ("cancelled", "customer", "none", "succeeded"),
    ("cancelled", "staff", "none", "none"),
    ("cancelled", "staff", "all", "refunded"),
    ("cancelled", "system", "none", "none"),
    ("cancelled", "system", "none", "void"),
}
"""Status, who cancelled, how much of the price came back, and the state of the payment."""


@pytest.fixture(scope="module")
def ports() -> Ports:
    """A filled database: its tests don't change the sample."""
    ports = make_cli_ports(Policy())
    anyio.run(seed.fill_database, ports)
    return ports


async def actor_of(ports: Ports, email: str) -> Actor:
    user = await administration.get_user(ports, email)
    return Actor(user.id, user.role)


async def bookings_of(ports: Ports, email: str) -> list[Booking]:
    actor = await actor_of(ports, email)
    return [*await actions.list_bookings(ports, actor, role=None, status=None, page=1, limit=1000)]


def ending_of(booking: Booking) -> tuple[str, str | None, str | None, str]:
    if booking.cancelled_by is None:
        return (booking.status, None, None, booking.payment_status)
    shares = {0: "none", booking.price: "all", booking.price // 2: "half"}
    share = shares.get(booking.refunded_amount, "all")
    return (booking.status, booking.cancelled_by, share, booking.payment_status)


@pytest.mark.parametrize("email", SIGN_INS)
async def test_every_state_is_there(ports: Ports, email: str) -> None:
    """The customer and the staff member have bookings in every state, and ended in every way."""
    assert {ending_of(booking) for booking in await bookings_of(ports, email)} >= ENDINGS


@pytest.mark.parametrize("email", SIGN_INS)
async def test_the_event_is_today(ports: Ports, email: str) -> None:
    """One booking is checked in and not over, and for another the check-in is open."""
    now = await ports.clock.business()
    paid = [
        booking
        for booking in await bookings_of(ports, email)
        if booking.status is BookingStatus.PAID
    ]
    assert any(one.checked_in_at and one.starts_at <= now < one.ends_at for one in paid)
    assert any(
        Trigger.CHECK_IN in actions.available_triggers(one, Party.STAFF, now, ports.policy)
        for one in paid
    )


@pytest.mark.parametrize("email", SIGN_INS)
async def test_payouts_wait_or_are_made(ports: Ports, email: str) -> None:
    """Completed bookings are paid out, or will be within a day."""
    found = await bookings_of(ports, email)
    completed = [one for one in found if one.status is BookingStatus.COMPLETED]
    assert {str(one.payout_status) for one in completed} == {"scheduled", "paid"}


@pytest.mark.parametrize("email", SIGN_INS)
async def test_both_sides_speak_in_a_dispute(ports: Ports, email: str) -> None:
    """A dispute has statements of both sides with pictures, and another one is a no-show."""
    disputed = [
        one for one in await bookings_of(ports, email) if one.status is BookingStatus.DISPUTED
    ]
    actor = await actor_of(ports, email)
    told = [await disputes.get_dispute(ports, actor, one.id) for one in disputed]
    spoken = next(one for one in told if len(one.statements) > 1)
    assert {str(statement.party) for statement in spoken.statements} == {"customer", "staff"}
    assert any(statement.files for statement in spoken.statements)
    assert any(one.is_no_show for one in disputed)


async def test_the_customer_may_rebook(ports: Ports) -> None:
    """The staff member's cancellation left a credit, with others who are free."""
    actor = await actor_of(ports, cast.CUSTOMER_EMAIL)
    offers = [
        (await actions.get_by_id(ports, actor, one.id))[2]
        for one in await bookings_of(ports, cast.CUSTOMER_EMAIL)
        if one.cancelled_by is Party.STAFF
    ]
    assert any(offers)


async def test_the_ledger_agrees(ports: Ports) -> None:
    """All postings, the processor's balance and the bookings agree."""
    found = [each async for each in ledger_check.check_ledger(ports)]
    assert all(isinstance(each, int) for each in found)


async def test_the_present_is_reached(ports: Ports) -> None:
    """Business time is real time at the end, and no work is left."""
    async with ports.store.read_view() as view:
        assert await view.sandbox.clock_offset() == timedelta()
    assert await due_work.run_all_due(ports) == 0
    assert await administration.list_alerts(ports)


@pytest.mark.parametrize("email", SIGN_INS)
async def test_conversations_have_words(ports: Ports, email: str) -> None:
    """Conversations have messages, unread ones among them; one is of a whole team."""
    found = await messages.list_conversations(ports, await actor_of(ports, email), 1, 1000)
    assert all(one.last_message for one in found)
    assert any(one.unread for one in found)
    assert any(len(one.conversation.participants) == 5 for one in found)


async def test_the_featured_have_pictures_and_reviews(ports: Ports) -> None:
    """Featured people have a photo and years of experience; the first one has reviews with
    answers, and a portfolio with an item that waits."""
    for person in market.sample_companions((await ports.clock.business()).date()):
        if person.is_featured:
            profile = await profiles.get_profile(ports, await actor_of(ports, person.email))
            assert profile.profile_photo
            assert profile.years_experience == person.years
    actor = await actor_of(ports, market.STAFF_EMAIL)
    assert (await profiles.get_profile(ports, actor)).total_reviews >= 8
    items = await profiles.list_portfolio_items(ports, actor)
    assert {item.status for item in items} == {
        PortfolioItemStatus.APPROVED,
        PortfolioItemStatus.PENDING,
    }


def test_a_person_always_looks_the_same() -> None:
    """The same person has the same portrait, others have others."""
    look = portraits.Look("portuguese", feminine=True, trade="Chef")
    first = portraits.draw_portrait("one@demo.test", look)
    assert portraits.draw_portrait("one@demo.test", look) == first
    assert portraits.draw_portrait("two@demo.test", look) != first


def test_every_trade_has_pictures() -> None:
    """Every picture of every trade can be drawn, the same each time."""
    for trade in TRADES:
        for title in scenes.scene_titles(trade.name):
            drawn = scenes.draw_scene("seed", trade.name, title)
            assert drawn == scenes.draw_scene("seed", trade.name, title)
