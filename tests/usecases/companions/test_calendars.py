"""Calendar feeds, and busy times from calendar files."""

from __future__ import annotations

import hashlib
from datetime import date, timedelta
from decimal import Decimal

import icalendar
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, POLICY, add_booking, add_user
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.errors import InvalidField, NotFound, RuleBroken
from staffbooking_core.inputs import ImportedCompanion, SetAvailability
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.companions import calendars, imports, profiles, search
from tests.support.ics import make_ics_calendar, make_ics_hour
from tests.support.memory_deployment import actor_of, make_booking_scenario, with_another_companion

pytestmark = pytest.mark.anyio

TOMORROW = date(2027, 3, 2)
DAY_OFF = make_ics_calendar("DTSTART;VALUE=DATE:20270302")
NINE = Interval(NOW + 21 * HOUR, NOW + 22 * HOUR)


async def newcomer(scene):
    """A newly registered staff member."""
    return actor_of(await add_user(scene.ports.store, role=Role.STAFF))


# The feed -------------------------------------------------------------------------------


async def make(scene, by=None):
    return (await calendars.create_feed(scene.ports, by or scene.staff))[0]


async def events(scene, secret):
    content = await calendars.render_feed(scene.ports, secret)
    return icalendar.Calendar.from_ical(content).walk("VEVENT")


async def codes(scene, secret):
    return [str(event["UID"]).partition("@")[0] for event in await events(scene, secret)]


async def test_a_feed_tells_of_the_companions_bookings(scene):
    """The feed has the companion's bookings without cancelled ones, by the secret alone."""
    secret = await make(scene)
    pending = await scene.request(event_date=date(2027, 3, 4))
    accepted = await scene.accepted(event_date=date(2027, 3, 5))
    paid = await scene.paid(event_date=date(2027, 3, 6))
    await scene.cancel(await scene.accepted(event_date=date(2027, 3, 7)))
    found = {str(event["UID"])[:14]: str(event["STATUS"]) for event in await events(scene, secret)}
    assert found == {
        pending.code: "TENTATIVE",
        accepted.code: "CONFIRMED",
        paid.code: "CONFIRMED",
    }


async def test_a_feed_tells_of_nobody_elses_bookings(scene):
    """The feed has no bookings of other companions, nor those the owner made."""
    secret = await make(scene)
    other = await with_another_companion(scene)
    await other.accepted()
    await add_booking(scene.ports.store, other.staff.user_id, booked_by=scene.staff.user_id)
    assert await codes(scene, secret) == []


async def test_bookings_stay_for_ninety_days(scene):
    """The feed has bookings until ninety days after their end."""
    secret, store = await make(scene), scene.ports.store
    mine, customer = scene.staff.user_id, scene.customer.user_id
    for back in (90 * DAY, 90 * DAY + 5 * HOUR):
        await add_booking(
            store, mine, customer, starts_at=NOW - back, status=BookingStatus.COMPLETED
        )
    (event,) = await events(scene, secret)
    assert event["DTSTART"].dt == NOW - 90 * DAY


@pytest.mark.parametrize("most", [1, 7, 120])
async def test_a_feed_holds_so_many_bookings(most):
    """Over the limit, the feed keeps the soonest bookings."""
    scene = await make_booking_scenario(evolve(POLICY, max_feed_bookings=most))
    secret, store = await make(scene), scene.ports.store
    for number in range(most + 1):
        for status in (BookingStatus.PENDING, BookingStatus.CANCELLED):
            starts_at = NOW + number * HOUR
            mine, customer = scene.staff.user_id, scene.customer.user_id
            await add_booking(store, mine, customer, starts_at=starts_at, status=status)
    found = await events(scene, secret)
    assert [event["DTSTART"].dt for event in found] == [
        NOW + number * HOUR for number in range(most)
    ]


async def test_a_feed_names_its_owner(scene):
    """The feed's name contains the owner's name."""
    content = await calendars.render_feed(scene.ports, await make(scene))
    assert icalendar.Calendar.from_ical(content)["NAME"] == "Bookings of Mia Lindqvist"


async def test_only_a_digest_is_stored(scene):
    """The secret is returned once, with its time of creation."""
    assert await calendars.feed_created_at(scene.ports, scene.staff) is None
    secret, since = await calendars.create_feed(scene.ports, scene.staff)
    assert since == await calendars.feed_created_at(scene.ports, scene.staff) == NOW
    digest = hashlib.sha256(secret.encode()).digest()
    async with scene.ports.store.read_view() as view:
        assert await view.portfolio.calendar_feed_owner_id(digest) == scene.staff.user_id


async def test_a_new_feed_ends_the_old(scene):
    """A new secret replaces the old one at once."""
    old, new = await make(scene), await make(scene)
    with pytest.raises(NotFound):
        await calendars.render_feed(scene.ports, old)
    assert await calendars.render_feed(scene.ports, new)


async def test_a_revoked_feed_is_gone(scene):
    """A removed feed stops working, and removal may be repeated."""
    secret = await make(scene)
    for _ in range(2):
        await calendars.remove_feed(scene.ports, scene.staff)
    assert await calendars.feed_created_at(scene.ports, scene.staff) is None
    with pytest.raises(NotFound):
        await calendars.render_feed(scene.ports, secret)


@pytest.mark.parametrize("secret", ["", "unknown", "x" * 5_000, "\u2028", "\U0001f600"])
async def test_an_unknown_secret_finds_nothing(scene, secret):
    """An unknown or malformed secret raises NotFound."""
    await make(scene)
    with pytest.raises(NotFound):
        await calendars.render_feed(scene.ports, secret)


async def test_who_is_disabled_has_no_feed(scene):
    """The feed of a disabled owner stops until the account is enabled."""
    secret = await make(scene)
    async with scene.ports.store.read_view() as view:
        email = (await view.accounts.user(scene.staff.user_id)).email
    await disabling.disable_user(scene.ports, email)
    with pytest.raises(NotFound):
        await calendars.render_feed(scene.ports, secret)
    await administration.enable_user(scene.ports, email)
    assert await calendars.render_feed(scene.ports, secret)


async def test_a_newcomer_may_have_a_feed(scene):
    """A staff member without a profile can create a feed."""
    secret = await make(scene, await newcomer(scene))
    assert await codes(scene, secret) == []


# Busy times -----------------------------------------------------------------------------


async def take(scene, content, by=None):
    done = await calendars.set_busy_times(scene.ports, by or scene.staff, content)
    return calendars.BusyTimes(done.file.times, done.until)


async def known(scene, by=None):
    return await calendars.get_busy_times(scene.ports, by or scene.staff)


async def found_on(scene, day):
    found = await search.search(scene.ports, CompanionQuery(date=day))
    return len(found)


async def slots_on(scene, day):
    shown = await search.get_availability(scene.ports, scene.staff.user_id, day, day)
    return shown["availability"][0]["slots"]


async def test_a_busy_day_is_not_found_shown_or_booked(scene):
    """Search, availability and booking all respect busy times."""
    await take(scene, DAY_OFF)
    assert await found_on(scene, TOMORROW) == 0
    assert await slots_on(scene, TOMORROW) == []
    with pytest.raises(RuleBroken) as refused:
        await scene.request(event_date=TOMORROW)
    assert refused.value.code == "companion_unavailable"
    assert await found_on(scene, TOMORROW + DAY) == 1
    assert await scene.request(event_date=TOMORROW + DAY)


async def test_what_is_shown_around_busy_times_can_be_booked(scene):
    """Slots next to busy times can be booked to the edge."""
    await take(scene, make_ics_calendar(make_ics_hour("20270302T090000Z")))
    assert await slots_on(scene, TOMORROW) == [
        {"start": "00:00", "end": "09:00"},
        {"start": "10:00", "end": "24:00"},
    ]
    assert await scene.request(event_date=TOMORROW, start_time="10:00", duration_hours=14)
    assert await scene.request(event_date=TOMORROW, start_time="05:00", duration_hours=4)
    with pytest.raises(RuleBroken):
        await scene.request(event_date=TOMORROW, start_time="08:00", duration_hours=2)


async def test_busy_times_are_told(scene):
    """Busy times are returned as imported, with the last covered day."""
    taken = await take(scene, make_ics_calendar(make_ics_hour("20270302T090000Z")))
    assert taken == await known(scene)
    assert (taken.times, taken.until) == ((NINE,), date(2029, 3, 2))


async def test_a_new_file_takes_the_place_of_the_old(scene):
    """A new file replaces all busy times."""
    await take(scene, DAY_OFF)
    await take(scene, make_ics_calendar(make_ics_hour("20270303T090000Z")))
    assert await found_on(scene, TOMORROW) == 1
    assert [span.starts_at for span in (await known(scene)).times] == [NINE.starts_at + DAY]


async def test_busy_times_are_cleared(scene):
    """Clearing busy times may be repeated and creates no companion."""
    await take(scene, DAY_OFF)
    await calendars.clear_busy_times(scene.ports, scene.staff)
    assert await found_on(scene, TOMORROW) == 1
    assert await known(scene) == calendars.BusyTimes((), None)
    stranger = await newcomer(scene)
    await calendars.clear_busy_times(scene.ports, stranger)
    async with scene.ports.store.read_view() as view:
        assert await view.companions.companion(stranger.user_id) is None


async def test_bookings_stay_whatever_is_busy(scene):
    """Busy times neither cancel bookings nor prevent acceptance."""
    accepted = await scene.accepted(event_date=TOMORROW)
    pending = await scene.request(event_date=TOMORROW, start_time="18:00")
    await take(scene, DAY_OFF)
    assert (await scene.booking(accepted)).status is BookingStatus.ACCEPTED
    assert (await scene.accept(pending)).status is BookingStatus.ACCEPTED


async def test_yesterday_and_two_years_are_taken(scene):
    """Busy times outside the window are dropped or cut off."""
    first, last = NOW - DAY, NOW + POLICY.busy_import_horizon
    events = (
        make_ics_hour(f"{first - 2 * HOUR:%Y%m%dT%H%M%SZ}"),
        make_ics_hour(f"{first - timedelta(minutes=30):%Y%m%dT%H%M%SZ}"),
        make_ics_hour(f"{last - timedelta(minutes=30):%Y%m%dT%H%M%SZ}"),
        make_ics_hour(f"{last + HOUR:%Y%m%dT%H%M%SZ}"),
    )
    assert (await take(scene, make_ics_calendar(*events))).times == (
        Interval(first, first + timedelta(minutes=30)),
        Interval(last - timedelta(minutes=30), last),
    )


async def test_whole_days_are_those_of_the_companion(scene):
    """Whole days are in the companion's timezone at the import."""
    given = SetAvailability(timezone="Asia/Tokyo", weekly=(), overrides=())
    await profiles.set_availability(scene.ports, scene.staff, given)
    taken = await take(scene, DAY_OFF)
    assert [span.starts_at for span in taken.times] == [NOW + 3 * HOUR]


async def test_a_newcomer_may_be_busy(scene):
    """A staff member without a profile can import busy times."""
    someone = await newcomer(scene)
    assert await known(scene, someone) == calendars.BusyTimes((), None)
    taken = await take(scene, DAY_OFF, someone)
    assert await known(scene, someone) == taken


async def test_there_are_so_many_busy_times():
    """The limit of busy times counts merged intervals."""
    scene = await make_booking_scenario(evolve(POLICY, max_busy_times=3))
    meeting = [
        make_ics_hour(f"202703{day}T{at}0000Z") for day in (10, 11, 12) for at in ("09", "10")
    ]
    assert len((await take(scene, make_ics_calendar(*meeting))).times) == 3
    with pytest.raises(InvalidField, match="more than 3"):
        await take(scene, make_ics_calendar(*meeting, make_ics_hour("20270313T090000Z")))


@pytest.mark.parametrize(
    "content",
    [b"hello", make_ics_calendar(make_ics_hour("20270303T090000Z", "RRULE:FREQ=SECONDLY"))],
)
async def test_a_file_that_is_refused_changes_nothing(scene, content):
    """A refused file keeps the previous busy times."""
    before = await take(scene, DAY_OFF)
    with pytest.raises(InvalidField) as refused:
        await take(scene, content)
    assert [fault.field for fault in refused.value.field_errors] == ["file"]
    assert await known(scene) == before


async def test_hours_and_busy_times_keep_out_of_each_others_way(scene):
    """Setting hours keeps busy times, and the other way round."""
    await take(scene, DAY_OFF)
    given = SetAvailability(timezone="UTC", weekly=(), overrides=())
    hours = await profiles.set_availability(scene.ports, scene.staff, given)
    assert hours.busy == (await known(scene)).times != ()


async def test_an_import_again_keeps_busy_times(scene):
    """An import by operators keeps busy times."""
    taken = await take(scene, DAY_OFF)
    async with scene.ports.store.read_view() as view:
        email = (await view.accounts.user(scene.staff.user_id)).email
    row = ImportedCompanion(
        email=email,
        first_name="Mia",
        last_name="Lindqvist",
        hourly_rate=Decimal(50),
        location_city="Lisbon",
        location_country="Portugal",
        timezone="Europe/Lisbon",
        service_types=("Gala dinner",),
    )
    counts = await imports.import_companions(scene.ports, [row])
    assert (counts.updated, await known(scene)) == (1, taken)
    assert await found_on(scene, TOMORROW) == 0
