"""Imports of companions: rows of a batch, and batches of a file."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, NOW, POLICY
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.companions.availability import (
    DateOverride,
    Interval,
    Slot,
    WeeklySlot,
)
from staffbooking_core.domain.companions.companion import Approval, Badge, Tier
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.domain.privacy import erase_user
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import RuleBroken
from staffbooking_core.inputs import DateHours, ImportedCompanion, Login, SlotHours, WeeklyHours
from staffbooking_core.ports import SkippedRow
from staffbooking_core.usecases.accounts import administration, sessions
from staffbooking_core.usecases.accounts.administration import CreateUser
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.companions import approvals, imports
from staffbooking_core.usecases.companions.imports import ImportRow
from staffbooking_core.usecases.notifications import notifications
from tests.support.memory_deployment import memory_ports

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse battery"


async def create(scene, **given):
    """Create an account with the e-mail address of the rows."""
    fields = {"first_name": "Mia", "last_name": "Okoro", "role": Role.CUSTOMER}
    wanted = CreateUser(**{**fields, **given}, email="mia@example.com")
    return await administration.create_user(scene.ports, wanted)


async def login(scene):
    given = Login(email="mia@example.com", password=PASSWORD)
    return await sessions.login(scene.ports, given, "::1")


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
    counts = await imports.import_companions(scene.ports, rows)
    return counts.imported, counts.updated, counts.refused


async def companion(scene, email="mia@example.com"):
    user = await administration.get_user(scene.ports, email)
    async with scene.ports.store.read_view() as view:
        return await view.companions.companion(user.id)


async def test_an_import_makes_staff_and_companion(scene):
    """An import creates a pending companion with rates in minor units and its hours."""
    weekly = (WeeklyHours(weekday=0, start="09:00", end="24:00"),)
    overrides = (DateHours(date=date(2027, 3, 4), slots=()),)
    rows = (row(weekly=weekly, overrides=overrides, daily_rate=Decimal(300), tier=Tier.ELITE),)
    assert await imported(scene, *rows) == (1, 0, ())
    made = await companion(scene)
    assert (made.hourly_rate, made.daily_rate, made.tier) == (4_550, 30_000, Tier.ELITE)
    assert made.calendar.weekly == (WeeklySlot(0, Slot(540, 1440)),)
    assert made.calendar.overrides == (DateOverride(date(2027, 3, 4)),)
    assert made.approval is Approval.PENDING
    assert (await administration.get_user(scene.ports, "mia@example.com")).role is Role.STAFF


async def test_an_import_may_approve_and_set_a_password(scene):
    """An approved row is listed and can log in."""
    await imported(scene, row(approved=True, password=PASSWORD))
    made = await companion(scene)
    assert made.is_listed
    assert (await login(scene))[0].id == made.id


async def test_an_import_again_updates(scene):
    """A repeated import updates by e-mail address and keeps reviews."""
    await imported(scene, row(approved=True, password=PASSWORD))
    known = await companion(scene)
    rated = evolve(known, rating_sum=9, total_reviews=2, years_experience=7)

    async def unit(tx):
        await tx.companions.save_companion(rated)

    await scene.ports.store.run_transaction(unit)
    await scene.jump_to(NOW + DAY)
    counts = await imported(scene, row("MIA@example.com", first_name="Maria", tagline="Hello"))
    assert counts == (0, 1, ())
    assert await companion(scene) == evolve(rated, first_name="Maria", tagline="Hello")
    assert (await login(scene))[0].first_name == "Maria"


WEEKLY = (WeeklyHours(weekday=0, start="09:00", end="24:00"),)
DAY_OFF = (DateHours(date=date(2027, 3, 4), slots=()),)
ALL = {
    "tagline": "Calm",
    "bio": "Long",
    "profile_photo": "photos/mia.jpg",
    "daily_rate": Decimal(300),
    "languages": ("English",),
    "tier": Tier.ELITE,
    "badges": (Badge.VERIFIED,),
    "weekly": WEEKLY,
    "overrides": DAY_OFF,
    "payout_account": "acct_1",
}


@pytest.mark.parametrize("batches", [1, 2], ids=["one batch", "two"])
async def test_what_a_row_does_not_say_stays(scene, batches):
    """Fields that a row lacks are unchanged; required ones are replaced."""
    rows = [row(**ALL), row(hourly_rate=Decimal(60))]
    for some in [rows] if batches == 1 else [[one] for one in rows]:
        await imported(scene, *some)
    known = await companion(scene)
    assert known == evolve(await other(scene, **ALL), id=known.id, hourly_rate=6_000)


@pytest.mark.parametrize(
    "field, value", [("weekly", ()), ("overrides", ()), ("bio", ""), ("tier", Tier.STANDARD)]
)
async def test_what_a_row_says_is_replaced(scene, field, value):
    """A given field is replaced alone, also by an empty value."""
    await imported(scene, row(**ALL))
    await imported(scene, row(**{field: value}))
    known = await companion(scene)
    expected = await other(scene, **{**ALL, field: value})
    assert known == evolve(expected, id=known.id)


async def other(scene, **given):
    """The companion that such a row creates."""
    await imported(scene, row("other@example.com", **given))
    return await companion(scene, "other@example.com")


async def test_an_import_approves_who_waits(scene):
    """A row can approve an existing pending companion."""
    await imported(scene, row())
    await imported(scene, row(approved=True))
    assert (await companion(scene)).approval is Approval.APPROVED


async def test_an_import_lifts_no_suspension(scene):
    """A row does not lift a suspension."""
    await imported(scene, row(approved=True))
    await approvals.set_approval(scene.ports, (await companion(scene)).id, Approval.SUSPENDED)
    assert await imported(scene, row(approved=True, tagline="Hello")) == (0, 1, ())
    known = await companion(scene)
    assert (known.approval, known.tagline) == (Approval.SUSPENDED, "Hello")


async def test_a_password_by_import_ends_sessions(scene):
    """A row with a password ends the sessions of its user."""
    for email in ("mia@example.com", "bo@example.com"):
        await imported(scene, row(email, password=PASSWORD))
        given = Login(email=email, password=PASSWORD)
        await sessions.login(scene.ports, given, "::1")
    await imported(scene, row(password="another password"), row("bo@example.com"))
    people = [
        await administration.get_user(scene.ports, f"{name}@example.com") for name in ("mia", "bo")
    ]
    async with scene.ports.store.read_view() as view:
        left = [len(await view.accounts.sessions_of(user.id)) for user in people]
    assert left == [0, 1]


async def test_an_erased_account_is_left_alone(scene):
    """A row for an erased account is refused."""
    await imported(scene, row())
    user = await administration.get_user(scene.ports, "mia@example.com")
    gone = erase_user(user, NOW, "t0ken")
    await scene.ports.store.run_transaction(lambda tx: tx.accounts.save_user(gone))
    counts = await imported(scene, row(gone.email, password=PASSWORD))
    assert counts == (0, 0, ((0, imports.ERASED_REASON),))
    async with scene.ports.store.read_view() as view:
        assert await view.accounts.user(gone.id) == gone


async def test_long_calendars_are_not_kept(scene):
    """Only short calendars are cached and shared."""
    days = [DateHours(date=date(2027, 3, 1) + number * DAY, slots=()) for number in range(51)]
    slots = tuple(SlotHours(start=f"{n // 60:02}:{n % 60:02}", end="23:59") for n in range(50))
    imports._cached_calendar.cache_clear()
    await imported(scene, row(overrides=tuple(days)))
    await imported(scene, row(overrides=(evolve(days[0], slots=slots),)))
    assert imports._cached_calendar.cache_info().currsize == 0
    await imported(scene, row(overrides=tuple(days[:50])))
    assert imports._cached_calendar.cache_info().currsize == 1


async def test_whose_password_an_import_replaces_is_told(scene):
    """Each user whose password is replaced gets one e-mail."""
    await imported(scene, row("new@example.com", password=PASSWORD), row(), row("bo@example.com"))
    assert await told(scene) == []
    await imported(scene, row(password=PASSWORD), row(password=PASSWORD), row("bo@example.com"))
    user = await administration.get_user(scene.ports, "mia@example.com")
    assert await told(scene) == [(user.id, NotificationKind.PASSWORD_CHANGED)]


async def told(scene):
    """The recipients and kinds of e-mails sent since then."""
    while await notifications.send_notifications(scene.ports):
        pass
    letters = [(letter.user_id, letter.kind) for letter in scene.ports.notifier.emails]
    scene.ports.notifier.emails.clear()
    return letters


async def test_the_later_of_two_rows_takes_nothing_away(scene):
    """A later row of the same new account keeps its approval and password."""
    await imported(scene, row(approved=True, password=PASSWORD), row(tagline="Later"))
    made = await companion(scene)
    assert (made.is_listed, made.tagline) == (True, "Later")
    assert (await login(scene))[0].id == made.id


async def test_times_that_are_taken_elsewhere_stay(scene):
    """An import keeps imported busy times."""
    await imported(scene, row())
    known = await companion(scene)
    taken = (Interval(NOW, NOW + DAY),)
    busy = evolve(known.calendar, busy=taken, busy_until=(NOW + 9 * DAY).date())
    await scene.ports.store.run_transaction(
        lambda tx: tx.companions.save_companion(evolve(known, calendar=busy))
    )
    await imported(scene, row(weekly=(WeeklyHours(weekday=0, start="09:00", end="24:00"),)))
    kept = (await companion(scene)).calendar
    assert (kept.busy, kept.busy_until) == (taken, busy.busy_until)
    assert kept.weekly == (WeeklySlot(0, Slot(540, 1440)),)


async def test_a_disabled_companion_stays_so(scene):
    """An import does not enable an account."""
    await imported(scene, row(approved=True))
    await disabling.disable_user(scene.ports, "mia@example.com")
    await imported(scene, row(approved=True))
    assert not (await companion(scene)).is_listed


async def test_a_disabled_staff_user_without_a_profile_stays_hidden(scene):
    """The profile of a disabled user is created unlisted."""
    await create(scene, role=Role.STAFF)
    await disabling.disable_user(scene.ports, "mia@example.com")
    assert await imported(scene, row(approved=True)) == (0, 1, ())
    assert not (await companion(scene)).is_listed


async def test_the_same_email_twice_is_made_and_updated(scene):
    """Rows with the same address in a batch apply in order."""
    assert await imported(scene, row(), row(tagline="Later")) == (1, 1, ())
    assert (await companion(scene)).tagline == "Later"


SLOT = SlotHours(start="10:00", end="09:00")


@pytest.mark.parametrize(
    "fields, text",
    [
        ({"hourly_rate": Decimal("1.005")}, "hourly_rate"),
        ({"daily_rate": Decimal("1.005")}, "daily_rate"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"weekly": (WeeklyHours(weekday=0, start="10:00", end="10:00"),)}, "weekly.0.start"),
        (
            {"overrides": (DateHours(date=date(2027, 3, 4), slots=(SLOT,)),)},
            "overrides.0.slots.0.start",
        ),
        ({"overrides": (DateHours(date=date(2027, 3, 4), slots=()),) * 2}, "overrides"),
    ],
)
async def test_a_bad_row_is_named_and_the_rest_goes_in(scene, fields, text):
    """An invalid row is refused by position with a reason; the others are imported."""
    made, updated, refused = await imported(
        scene, row("a@example.com"), row(**fields), row("c@example.com")
    )
    assert (made, updated) == (2, 0)
    ((position, reason),) = refused
    assert position == 1
    assert text in reason


async def test_an_account_that_is_not_staff_is_left_alone(scene):
    """Each row of an account that is not staff is refused."""
    await create(scene)
    made, updated, refused = await imported(scene, row(), row("b@example.com"), row())
    assert (made, updated, [position for position, _ in refused]) == (1, 0, [0, 2])
    assert (await administration.get_user(scene.ports, "mia@example.com")).role is Role.CUSTOMER


async def test_rates_are_of_the_deployments_currency():
    """Rates with more decimals than the currency are refused."""
    ports = memory_ports(evolve(POLICY, currency=Currency("jpy")))
    counts = await imports.import_companions(
        ports, [row(), row("b@x.org", hourly_rate=Decimal(5000))]
    )
    assert (counts.imported, [position for position, _ in counts.refused]) == (1, [0])


# Files ----------------------------------------------------------------------------------

FILE = "ab" * 32


def read(line, **given):
    """A row of a file; each line is another person."""
    email = given.pop("email", f"mia{line}@example.com")
    return ImportRow(line, email, row(email, **given))


def unread(line, problem="is not an object"):
    return ImportRow(line, None, problem=problem)


def counts(progress):
    return progress.line, progress.imported, progress.updated, progress.skipped


async def skipped(scene):
    return list(await imports.list_skipped_rows(scene.ports, FILE))


async def test_a_file_begins_before_its_first_line(scene):
    """A new file starts at line 0."""
    assert counts(await imports.begin_import(scene.ports, FILE)) == (0, 0, 0, 0)


async def test_batches_add_up(scene):
    """Progress accumulates over batches, and skipped last lines count."""
    done = await imports.begin_import(scene.ports, FILE)
    done = await imports.import_rows(scene.ports, done, [read(2), unread(3)])
    assert counts(done) == (3, 1, 0, 1)
    again = [read(5), read(7, email="MIA2@example.com"), unread(8), unread(12)]
    done = await imports.import_rows(scene.ports, done, again)
    assert (counts(done), done.row_count) == ((12, 2, 1, 3), 6)


async def test_what_stays_out_is_named_with_line_and_reason(scene):
    """Skipped rows are listed by line with their reasons."""
    await create(scene)
    rows = [
        read(2, email="mia@example.com"),
        unread(3),
        read(4, hourly_rate=Decimal("1.005")),
        read(5),
        unread(6, "x" * 2_000),
    ]
    done = await imports.import_rows(
        scene.ports, await imports.begin_import(scene.ports, FILE), rows
    )
    assert counts(done) == (6, 1, 0, 4)
    assert await skipped(scene) == [
        SkippedRow(2, "mia@example.com", imports.NOT_STAFF_REASON),
        SkippedRow(3, None, "is not an object"),
        SkippedRow(4, "mia4@example.com", "hourly_rate: has more than 2 decimals"),
        SkippedRow(6, None, "x" * imports.MAX_REASON_LENGTH),
    ]


async def test_a_file_that_was_cut_short_is_gone_on_with(scene):
    """An interrupted import resumes after its last batch with its counts."""
    done = await imports.begin_import(scene.ports, FILE)
    done = await imports.import_rows(scene.ports, done, [read(1), unread(2)])
    assert await imports.begin_import(scene.ports, FILE) == done
    assert len(await skipped(scene)) == 1
    assert counts(await imports.begin_import(scene.ports, "cd" * 32)) == (0, 0, 0, 0)


async def test_a_file_may_begin_anew(scene):
    """A restarted import begins at line 0 and updates imported rows."""
    done = await imports.begin_import(scene.ports, FILE)
    await imports.import_rows(scene.ports, done, [read(1), unread(2)])
    done = await imports.begin_import(scene.ports, FILE, restart=True)
    assert (counts(done), await skipped(scene)) == ((0, 0, 0, 0), [])
    assert counts(await imports.import_rows(scene.ports, done, [read(1)])) == (1, 0, 1, 0)


async def test_a_file_that_is_done_is_forgotten(scene):
    """A finished file can be imported again from the first line."""
    done = await imports.begin_import(scene.ports, FILE)
    await imports.import_rows(scene.ports, done, [unread(1)])
    await imports.finish_import(scene.ports, FILE)
    assert await skipped(scene) == []
    assert counts(await imports.begin_import(scene.ports, FILE)) == (0, 0, 0, 0)


async def test_two_imports_of_a_file_do_not_mix(scene):
    """Of two concurrent imports the one behind is refused with its batch."""
    done = await imports.begin_import(scene.ports, FILE)
    ahead = await imports.import_rows(scene.ports, done, [read(1)])
    with pytest.raises(RuleBroken, match="being imported elsewhere"):
        await imports.import_rows(scene.ports, done, [read(2)])
    with pytest.raises(RuleBroken):
        await imports.import_rows(scene.ports, evolve(done, fingerprint="cd" * 32), [read(2)])
    assert await imports.begin_import(scene.ports, FILE) == ahead
    assert "mia2@example.com" not in [
        one.email for one in await administration.list_users(scene.ports)
    ]
