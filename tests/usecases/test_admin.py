"""What operators do: accounts, approvals, imports, lists."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from attrs import evolve

from staffbooking_core.domain.accounts import Role, Subscription, session_digest
from staffbooking_core.domain.calendar import Override, Slot, WeeklySlot
from staffbooking_core.domain.companions import Approval, Tier
from staffbooking_core.domain.lifecycle import Status
from staffbooking_core.domain.money import Currency
from staffbooking_core.errors import InvalidField, NotFound, Unauthenticated
from staffbooking_core.inputs import (
    ImportedCompanion,
    ImportedOverride,
    ImportedSlot,
    ImportedWeekly,
    Login,
)
from staffbooking_core.usecases import admin, sessions
from staffbooking_core.usecases.admin import CreateUser
from tests.support.builders import DAY, NOW, POLICY, add_user
from tests.support.ports import memory_ports

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse battery"


async def create(scene, email="ada@example.com", **given):
    fields = {"first_name": "Ada", "last_name": "Okoro", "role": Role.CUSTOMER}
    return await admin.create_user(scene.ports, CreateUser(**{**fields, **given}, email=email))


async def login(scene, email="ada@example.com", password=PASSWORD):
    return await sessions.login(scene.ports, Login(email=email, password=password), "::1")


async def listed(scene, companion_id):
    async with scene.ports.store.reading() as view:
        return (await view.companions.companion(companion_id)).is_listed


# Users ----------------------------------------------------------------------------------


async def test_an_account_of_any_role_is_made(scene):
    """With a subscription, if wanted; it can sign in with its password."""
    user = await create(
        scene, role=Role.ADMIN, subscription=Subscription.ENTERPRISE, password=PASSWORD
    )
    assert (user.role, user.subscription) == (Role.ADMIN, Subscription.ENTERPRISE)
    assert (await login(scene))[0] == user


async def test_without_a_password_nobody_signs_in(scene):
    """Until one is set."""
    await create(scene)
    with pytest.raises(Unauthenticated):
        await login(scene, password="")
    await admin.set_password(scene.ports, "ada@example.com", PASSWORD)
    assert await login(scene)


@pytest.mark.parametrize(
    "password, good",
    [
        ("x" * 9, False),
        ("x" * 10, True),
        ("x" * 128, True),
        ("x" * 129, False),
    ],
)
async def test_a_password_has_10_to_128_characters(scene, password, good):
    """When it is made and when it is set."""
    calls = [
        create(scene, "b@example.com", password=password),
        admin.set_password(scene.ports, (await create(scene)).email, password),
    ]
    for call in calls:
        if good:
            await call
        else:
            with pytest.raises(InvalidField) as caught:
                await call
            assert [fault.field for fault in caught.value.faults] == ["password"]


async def test_a_taken_email_is_refused(scene):
    """Whatever its case."""
    await create(scene)
    with pytest.raises(InvalidField):
        await create(scene, "ADA@example.com")


async def test_an_account_is_found_by_any_spelling(scene):
    """And an unknown one is not, by any call."""
    user = await create(scene)
    assert await admin.user(scene.ports, "Ada@Example.COM") == user
    ports, nobody = scene.ports, "nobody@example.com"
    for call in (
        admin.user(ports, nobody),
        admin.subscribe(ports, nobody, Subscription.BASIC),
        admin.disable(ports, nobody),
        admin.enable(ports, nobody),
        admin.set_password(ports, nobody, PASSWORD),
    ):
        with pytest.raises(NotFound):
            await call


async def test_accounts_are_paged_by_id(scene):
    """From the first above the given one."""
    ids = [(await add_user(scene.ports.store)).id for _ in range(4)]
    assert [user.id for user in await admin.users(scene.ports, ids[0], 2)] == ids[1:3]


async def test_a_subscription_is_set_with_or_without_an_end(scene):
    """Setting it again takes the end away."""
    await create(scene)
    email, end = "ada@example.com", NOW + DAY
    user = await admin.subscribe(scene.ports, email, Subscription.ENTERPRISE, end)
    assert (user.subscription, user.subscription_expires_at) == (Subscription.ENTERPRISE, end)
    user = await admin.subscribe(scene.ports, email, Subscription.BASIC)
    assert user.subscription_expires_at is None


async def test_disabling_locks_at_once(scene):
    """Sessions end, signing in fails, the companion is not listed; enabling opens it again."""
    async with scene.ports.store.reading() as view:
        email = (await view.accounts.user(scene.staff.user_id)).email
    await admin.set_password(scene.ports, email, PASSWORD)
    _, token = await login(scene, email)
    user = await admin.disable(scene.ports, email)
    assert user.disabled_at == scene.ports.clock.wall()
    digest, wall = session_digest(token), scene.ports.clock.wall()
    assert await scene.ports.admission.by_session(digest, wall) is None
    assert not await listed(scene, user.id)
    with pytest.raises(Unauthenticated):
        await login(scene, email)
    await admin.enable(scene.ports, email)
    assert await listed(scene, user.id)
    assert await scene.ports.admission.by_session(digest, wall) is None
    assert await login(scene, email)


async def test_disabling_twice_keeps_the_first_time(scene):
    """It says since when."""
    await create(scene)
    first = await admin.disable(scene.ports, "ada@example.com")
    scene.pass_time(DAY)
    assert (await admin.disable(scene.ports, "ada@example.com")).disabled_at == first.disabled_at


async def test_a_new_password_ends_all_sessions(scene):
    """Whoever had the old one is out."""
    await create(scene, password=PASSWORD)
    _, token = await login(scene)
    await admin.set_password(scene.ports, "ada@example.com", "another " + PASSWORD)
    digest = session_digest(token)
    assert await scene.ports.admission.by_session(digest, scene.ports.clock.wall()) is None
    with pytest.raises(Unauthenticated):
        await login(scene)


# Companions -----------------------------------------------------------------------------


async def test_an_approval_lists_and_a_suspension_hides(scene):
    """At once; an unknown companion is not found."""
    number = scene.staff.user_id
    await admin.approve(scene.ports, number, Approval.SUSPENDED)
    assert not await listed(scene, number)
    await admin.approve(scene.ports, number, Approval.APPROVED)
    assert await listed(scene, number)
    with pytest.raises(NotFound):
        await admin.approve(scene.ports, 999, Approval.APPROVED)


def row(email="mia@example.com", **given):
    fields = {
        "first_name": "Mia",
        "last_name": "Lindqvist",
        "hourly_rate": Decimal("45.50"),
        "location_city": "Lisbon",
        "location_country": "Portugal",
        "timezone": "Europe/Lisbon",
        "service_types": ("Gala dinner",),
    }
    return ImportedCompanion(**{**fields, **given}, email=email)


async def imported(scene, *rows):
    counts = await admin.import_companions(scene.ports, rows)
    return counts.imported, counts.updated, counts.refused


async def companion(scene, email="mia@example.com"):
    user = await admin.user(scene.ports, email)
    async with scene.ports.store.reading() as view:
        return await view.companions.companion(user.id)


async def test_an_import_makes_staff_and_companion(scene):
    """With rates in minor units and the hours as given; it waits for approval."""
    weekly = (ImportedWeekly(weekday=0, start="09:00", end="24:00"),)
    overrides = (ImportedOverride(date=date(2027, 3, 4), slots=()),)
    rows = (row(weekly=weekly, overrides=overrides, daily_rate=Decimal(300), tier=Tier.ELITE),)
    assert await imported(scene, *rows) == (1, 0, ())
    made = await companion(scene)
    assert (made.hourly_rate, made.daily_rate, made.tier) == (4_550, 30_000, Tier.ELITE)
    assert made.calendar.weekly == (WeeklySlot(0, Slot(540, 1440)),)
    assert made.calendar.overrides == (Override(date(2027, 3, 4)),)
    assert made.approval is Approval.PENDING
    assert (await admin.user(scene.ports, "mia@example.com")).role is Role.STAFF


async def test_an_import_may_approve_and_set_a_password(scene):
    """Such a companion is listed, and can sign in."""
    await imported(scene, row(approved=True, password=PASSWORD))
    made = await companion(scene)
    assert made.is_listed
    assert (await login(scene, "mia@example.com"))[0].id == made.id


async def test_an_import_again_updates(scene):
    """By e-mail; what others said of the companion stays."""
    await imported(scene, row(approved=True, password=PASSWORD))
    known = await companion(scene)
    rated = evolve(known, rating_sum=9, total_reviews=2, years_experience=7)

    async def unit(tx):
        await tx.companions.save_companion(rated)

    await scene.ports.store.write(unit)
    await scene.jump_to(NOW + DAY)
    counts = await imported(scene, row("MIA@example.com", first_name="Maria", tagline="Hello"))
    assert counts == (0, 1, ())
    assert await companion(scene) == evolve(rated, first_name="Maria", tagline="Hello")
    assert (await login(scene, "mia@example.com"))[0].first_name == "Maria"


async def test_a_disabled_companion_stays_so(scene):
    """An import opens no account."""
    await imported(scene, row(approved=True))
    await admin.disable(scene.ports, "mia@example.com")
    await imported(scene, row(approved=True))
    assert not (await companion(scene)).is_listed


async def test_a_disabled_staff_user_without_a_profile_stays_hidden(scene):
    """The profile is made, and is not listed."""
    await create(scene, "mia@example.com", role=Role.STAFF)
    await admin.disable(scene.ports, "mia@example.com")
    assert await imported(scene, row(approved=True)) == (0, 1, ())
    assert not (await companion(scene)).is_listed


async def test_the_same_email_twice_is_made_and_updated(scene):
    """In one batch, in its order."""
    assert await imported(scene, row(), row(tagline="Later")) == (1, 1, ())
    assert (await companion(scene)).tagline == "Later"


SLOT = ImportedSlot(start="10:00", end="09:00")


@pytest.mark.parametrize(
    "fields, text",
    [
        ({"hourly_rate": Decimal("1.005")}, "hourly_rate"),
        ({"daily_rate": Decimal("1.005")}, "daily_rate"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"weekly": (ImportedWeekly(weekday=0, start="10:00", end="10:00"),)}, "weekly.0"),
        (
            {"overrides": (ImportedOverride(date=date(2027, 3, 4), slots=(SLOT,)),)},
            "overrides.0.slots.0",
        ),
        ({"overrides": (ImportedOverride(date=date(2027, 3, 4), slots=()),) * 2}, "overrides"),
    ],
)
async def test_a_bad_row_is_named_and_the_rest_goes_in(scene, fields, text):
    """By its position, with what is wrong."""
    made, updated, refused = await imported(
        scene, row("a@example.com"), row(**fields), row("c@example.com")
    )
    assert (made, updated) == (2, 0)
    ((position, reason),) = refused
    assert position == 1
    assert text in reason


async def test_an_account_that_is_not_staff_is_left_alone(scene):
    """Each of its rows is refused, by its own position."""
    await create(scene, "mia@example.com")
    made, updated, refused = await imported(scene, row(), row("b@example.com"), row())
    assert (made, updated, [position for position, _ in refused]) == (1, 0, [0, 2])
    assert (await admin.user(scene.ports, "mia@example.com")).role is Role.CUSTOMER


async def test_rates_are_of_the_deployments_currency():
    """Yen have no decimals."""
    ports = memory_ports(evolve(POLICY, currency=Currency("jpy")))
    counts = await admin.import_companions(
        ports, [row(), row("b@x.org", hourly_rate=Decimal(5000))]
    )
    assert (counts.imported, [position for position, _ in counts.refused]) == (1, [0])


# Lists ----------------------------------------------------------------------------------


async def test_bookings_are_listed_for_operators(scene):
    """All, or of a status."""
    booking = await scene.accepted()
    assert [one.id for one in await admin.bookings(scene.ports)] == [booking.id]
    assert list(await admin.bookings(scene.ports, Status.PAID)) == []


async def test_payouts_that_wait_are_listed(scene):
    """Scheduled and failed ones, until they are paid."""
    booking = await scene.completed()
    assert [one.id for one in await admin.payouts(scene.ports)] == [booking.id]
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    assert list(await admin.payouts(scene.ports)) == []


async def test_companions_are_listed_for_operators(scene):
    """Hidden ones too."""
    await imported(scene, row())
    assert len(await admin.companions(scene.ports)) == 2
