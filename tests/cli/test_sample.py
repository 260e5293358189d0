"""The sample marketplace of `staffbooking demo`, and what its people did: bookings, money, reviews,
messages, pictures."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from staffbooking_adapters.inputs import structure
from staffbooking_adapters.testing.builders import add_user
from staffbooking_cli.errors import CommandRefused
from staffbooking_cli.sample import guide, seed
from staffbooking_cli.sample.art import portraits, scenes
from staffbooking_cli.sample.companions import KNOWN_STAFF, STAFF_EMAIL, sample_companions
from staffbooking_cli.sample.participants import (
    ADMIN_EMAIL,
    CUSTOMER_EMAIL,
    ENTERPRISE_EMAIL,
    SECOND_CUSTOMER_EMAIL,
)
from staffbooking_cli.sample.trades import TRADES
from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.companions.companion import Approval, CompanionQuery
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.inputs import ImportedCompanion
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import due_work, sandbox
from staffbooking_core.usecases.accounts import administration, api_keys
from staffbooking_core.usecases.bookings import actions, alerts, disputes
from staffbooking_core.usecases.companions import approvals, imports, profiles, search as finding
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.payments import ledger_check
from tests.cli.deployment import make_cli_ports

pytestmark = pytest.mark.anyio

TODAY = date(2027, 3, 1)
PEOPLE = sample_companions(TODAY)
ROWS = [person.row for person in PEOPLE]


SIGN_INS = (CUSTOMER_EMAIL, STAFF_EMAIL)
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


@pytest.fixture
def ports() -> Ports:
    return make_cli_ports(Policy())


@pytest.fixture(scope="module")
def filled() -> Ports:
    """A database that a first start began to fill and a second one filled: its tests don't change
    the sample. tests/cli/test_demo.py has one that a single start filled."""
    ports = make_cli_ports(Policy())

    async def start_twice() -> None:
        await imports.import_companions(ports, [structure(ImportedCompanion, ROWS[0])])
        await seed.fill_database(ports)

    anyio.run(start_twice)
    return ports


def test_the_market_is_large() -> None:
    """The sample has hundreds of distinct people in many cities and zones."""
    assert len(ROWS) >= 300
    assert len({row["location_city"] for row in ROWS}) >= 30
    assert len({row["timezone"] for row in ROWS}) >= 15
    assert len({row["email"] for row in ROWS}) == len(ROWS)


def test_the_market_is_the_same_each_time() -> None:
    """Two runs on one day give the same rows; on another day only the days off differ."""
    assert sample_companions(TODAY) == PEOPLE
    later = [person.row for person in sample_companions(date(2027, 4, 1))]
    assert [row | {"overrides": []} for row in later] == [row | {"overrides": []} for row in ROWS]


async def test_one_account_of_each_kind_is_open_to_everybody(filled: Ports) -> None:
    """Whoever tries the demo signs in as a customer, a second one, a staff member, a subscriber or
    an admin; the others of the sample are not open."""
    accounts = await sandbox.list_sample_accounts(filled)
    assert {user.email for user in accounts} == {
        CUSTOMER_EMAIL,
        SECOND_CUSTOMER_EMAIL,
        STAFF_EMAIL,
        ENTERPRISE_EMAIL,
        ADMIN_EMAIL,
    }


async def test_an_older_sample_opens_no_account_of_a_stranger(ports: Ports) -> None:
    """The accounts of a sample that was made by an earlier version are opened, except those that
    came after its admin."""
    for email in (CUSTOMER_EMAIL, ADMIN_EMAIL, STAFF_EMAIL):
        await add_user(ports.store, email=email)
    for _ in range(2):
        await seed.open_accounts_of_older_samples(ports)
        opened = await sandbox.list_sample_accounts(ports)
        assert [user.email for user in opened] == [CUSTOMER_EMAIL, ADMIN_EMAIL]


async def test_the_past_leaves_no_mails(filled: Ports) -> None:
    """Mails of the sample's past are not kept: nobody sent them."""
    async with filled.store.read_view() as view:
        assert not await view.sandbox.sent_mails(1)


async def test_every_row_is_good(ports: Ports) -> None:
    """No row of the sample is skipped."""
    staff = [structure(ImportedCompanion, row) for row in ROWS]
    counts = await imports.import_companions(ports, staff)
    assert (counts.imported, counts.refused) == (len(ROWS), ())


async def test_most_are_found_and_some_wait(filled: Ports) -> None:
    """A few companions are pending approval; the known staff are approved."""
    found = await approvals.list_companions(filled, limit=1000)
    waiting = [one for one in found if one.approval is Approval.PENDING]
    assert 5 <= len(waiting) <= len(found) / 5
    for email in KNOWN_STAFF.values():
        assert (await administration.get_user(filled, email)).id not in {one.id for one in waiting}


async def test_it_is_filled_once(filled: Ports) -> None:
    """A second start changes nothing."""
    assert not await seed.is_sample_missing(filled)


async def test_an_interrupted_start_is_noticed(ports: Ports) -> None:
    """Where a start was interrupted, the sample is missing for the next one."""
    await imports.import_companions(ports, [structure(ImportedCompanion, ROWS[0])])
    assert await seed.is_sample_missing(ports)


async def test_an_interrupted_start_is_completed(filled: Ports) -> None:
    """A second start completes the sample of an interrupted one."""
    assert not await seed.is_sample_missing(filled)
    assert len(await approvals.list_companions(filled, limit=1000)) == len(ROWS)


async def test_a_database_with_other_data_is_refused(ports: Ports) -> None:
    """The demo refuses a database with other data."""
    await add_user(ports.store)
    with pytest.raises(CommandRefused, match="not the demo's"):
        await seed.is_sample_missing(ports)


async def test_the_key_is_kept(filled: Ports, tmp_path: Path) -> None:
    """The second start prints the same key, which only the file's owner can read."""
    first = await seed.load_sample(filled, tmp_path)
    assert await seed.load_sample(filled, tmp_path) == first
    assert (tmp_path / seed.KEY_FILE).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("kept", ["", "garbage", "ps_" + "0" * 65])
async def test_a_lost_key_is_replaced(filled: Ports, tmp_path: Path, kept: str) -> None:
    """A key that is unknown to the database is replaced, and at most one is active."""
    for _ in range(7):
        made = await seed.load_sample(filled, tmp_path)
        (tmp_path / seed.KEY_FILE).write_text(kept)
    owner = await administration.get_user(filled, ENTERPRISE_EMAIL)
    active = [one for one in await api_keys.list_keys(filled, owner) if one.revoked_at is None]
    assert len(active) == 1
    assert made.key.endswith(active[0].masked_key[-4:])


async def test_the_lines_search_for_somebody(filled: Ports) -> None:
    """The printed search has results."""
    query = CompanionQuery(location="lisbon", service="bartender", limit=3)
    assert await finding.search(filled, query)


async def test_the_lines_book_free_evenings(filled: Ports, tmp_path: Path) -> None:
    """Both evenings are free, in order, and about two weeks ahead in business time."""
    given = await seed.load_sample(filled, tmp_path)
    first, second = await guide.find_free_evenings(filled, given.staff.id)
    ahead = first.starts_at - datetime.now(UTC)
    assert 13 <= ahead.days <= 16
    assert first.ends_at < second.starts_at
    text = await guide.render_guide(filled, given, "http://127.0.0.1:8000", tmp_path)
    assert first.day.isoformat() in text
    assert second.day.isoformat() in text


# What the people did ---------------------------------------------------------------------


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
async def test_every_state_is_there(filled: Ports, email: str) -> None:
    """The customer and the staff member have bookings in every state, and ended in every way."""
    assert {ending_of(booking) for booking in await bookings_of(filled, email)} >= ENDINGS


@pytest.mark.parametrize("email", SIGN_INS)
async def test_the_event_is_today(filled: Ports, email: str) -> None:
    """One booking is checked in and not over, and for another the check-in is open."""
    now = await filled.clock.business()
    paid = [
        booking
        for booking in await bookings_of(filled, email)
        if booking.status is BookingStatus.PAID
    ]
    assert any(one.checked_in_at and one.starts_at <= now < one.ends_at for one in paid)
    assert any(
        Trigger.CHECK_IN in actions.available_triggers(one, Party.STAFF, now, filled.policy)
        for one in paid
    )


@pytest.mark.parametrize("email", SIGN_INS)
async def test_payouts_wait_or_are_made(filled: Ports, email: str) -> None:
    """Completed bookings are paid out, or will be within a day."""
    found = await bookings_of(filled, email)
    completed = [one for one in found if one.status is BookingStatus.COMPLETED]
    assert {str(one.payout_status) for one in completed} == {"scheduled", "paid"}


@pytest.mark.parametrize("email", SIGN_INS)
async def test_both_sides_speak_in_a_dispute(filled: Ports, email: str) -> None:
    """A dispute has statements of both sides with pictures, and another one is a no-show."""
    disputed = [
        one for one in await bookings_of(filled, email) if one.status is BookingStatus.DISPUTED
    ]
    actor = await actor_of(filled, email)
    told = [await disputes.get_dispute(filled, actor, one.id) for one in disputed]
    spoken = next(one for one in told if len(one.statements) > 1)
    assert {str(statement.party) for statement in spoken.statements} == {"customer", "staff"}
    assert any(statement.files for statement in spoken.statements)
    assert any(one.is_no_show for one in disputed)


async def test_the_customer_may_rebook(filled: Ports) -> None:
    """The staff member's cancellation left a credit, with others who are free."""
    actor = await actor_of(filled, CUSTOMER_EMAIL)
    offers = [
        (await actions.get_by_id(filled, actor, one.id))[2]
        for one in await bookings_of(filled, CUSTOMER_EMAIL)
        if one.cancelled_by is Party.STAFF
    ]
    assert any(offers)


async def test_the_ledger_agrees(filled: Ports) -> None:
    """All postings, the processor's balance and the bookings agree."""
    found = [each async for each in ledger_check.check_ledger(filled)]
    assert all(isinstance(each, int) for each in found)


async def test_the_present_is_reached(filled: Ports) -> None:
    """Business time is real time at the end, and no work is left."""
    async with filled.store.read_view() as view:
        assert await view.sandbox.clock_offset() == timedelta()
    assert await due_work.run_all_due(filled) == 0
    assert await alerts.list_alerts(filled)


@pytest.mark.parametrize("email", SIGN_INS)
async def test_conversations_have_words(filled: Ports, email: str) -> None:
    """Conversations have messages, unread ones among them; one is of a whole team."""
    found = await messages.list_conversations(filled, await actor_of(filled, email), 1, 1000)
    assert all(one.last_message for one in found)
    assert any(one.unread for one in found)
    assert any(len(one.conversation.participants) == 5 for one in found)


async def test_the_featured_have_pictures_and_reviews(filled: Ports) -> None:
    """Featured people have a photo and years of experience; the first one has reviews with
    answers, and a portfolio with an item that waits."""
    for person in sample_companions((await filled.clock.business()).date()):
        if person.is_featured:
            profile = await profiles.get_profile(filled, await actor_of(filled, person.email))
            assert profile.profile_photo
            assert profile.years_experience == person.years
    actor = await actor_of(filled, STAFF_EMAIL)
    assert (await profiles.get_profile(filled, actor)).total_reviews >= 8
    items = await profiles.list_portfolio_items(filled, actor)
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
