"""Calendar subscriptions: other calendars that are read again each hour."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, NOW, POLICY, add_user
from staffbooking_adapters.vault import KeyringVault
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.calendar_subscriptions import CalendarReadFault
from staffbooking_core.errors import (
    CompanionUnavailable,
    Conflict,
    InvalidField,
    NotFound,
    RuleBroken,
)
from staffbooking_core.inputs import AddCalendarAddress, SetAvailability
from staffbooking_core.ports import Lease
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.companions import (
    calendar_subscriptions,
    calendars,
    profiles,
)
from staffbooking_core.usecases.notifications import notifications
from tests.support.ics import make_ics_calendar, make_ics_hour
from tests.support.memory_deployment import actor_of

pytestmark = pytest.mark.anyio

URL = "https://calendar.example/private-x9/basic.ics"
NINE = Interval(NOW + 21 * HOUR, NOW + 22 * HOUR)
AT_NINE = make_ics_calendar(make_ics_hour("20270302T090000Z"))
AT_TEN = make_ics_calendar(make_ics_hour("20270302T100000Z"))
TEN = Interval(NOW + 22 * HOUR, NOW + 23 * HOUR)


async def subscribe(scene, content=AT_NINE, url=URL, name="", by=None):
    if content is not None:
        scene.ports.calendar_fetcher.calendars[url] = content
    command = AddCalendarAddress(url=url, name=name)
    return await calendar_subscriptions.subscribe(scene.ports, by or scene.staff, command)


async def the_one(scene):
    (found,) = await calendar_subscriptions.list_subscriptions(scene.ports, scene.staff)
    return found


async def busy(scene):
    return (await profiles.get_profile(scene.ports, scene.staff)).calendar.subscribed_busy


async def read_later(scene, by=HOUR):
    """Let time pass, and read what is due; the number of read calendars."""
    scene.pass_time(by)
    count = 0
    while await calendar_subscriptions.read_due_calendar(scene.ports):
        count += 1
    return count


def serve(scene, what, url=URL):
    scene.ports.calendar_fetcher.calendars[url] = what


async def refusal(scene, **given):
    with pytest.raises(InvalidField) as refused:
        await subscribe(scene, **given)
    ((fault),) = refused.value.field_errors
    assert fault.field == "url"
    return fault.message


# Adding and removing ----------------------------------------------------------------------


async def test_a_calendar_is_read_at_once(scene):
    """A new subscription has its busy times at once, and customers can't book them."""
    made = await subscribe(scene, name="  My   work ")
    assert (made.busy, made.name, made.host) == ((NINE,), "My work", "calendar.example")
    assert await busy(scene) == (NINE,)
    with pytest.raises(CompanionUnavailable) as refused:
        await scene.request(event_date=NINE.starts_at.date(), start_time="09:00")
    assert refused.value.reason == "busy"


async def test_the_address_is_kept_sealed(scene):
    """The address is stored sealed, bound to its row, and not shown by the subscription."""
    made = await subscribe(scene)
    assert b"private" not in made.address
    assert "private" not in repr(made)
    vault = scene.ports.vault
    assert vault.open("calendar-address", made.address, made.id).decode() == URL


async def test_a_webcal_address_is_read_by_https(scene):
    """`webcal://`, as calendar programs copy it, means https."""
    serve(scene, AT_NINE)
    made = await subscribe(scene, content=None, url=f" {URL.replace('https', 'WebCal')} ")
    assert made.busy == (NINE,)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://calendar.example/a.ics", "must be an https URL"),
        ("https://10.0.0.1/a.ics", "must lead to a public address"),
        ("https://user:secret@calendar.example/", "must not hold a user name or password"),
        ("nonsense", "must be an https URL"),
        ("https://\N{RIGHT-TO-LEFT OVERRIDE}x/", "must not hold blanks"),
        (f"{POLICY.base_url}/calendars/x.ics", "is the feed of bookings here"),
    ],
)
async def test_an_address_of_another_kind_is_refused(scene, url, told):
    """An address that is not public https, and a feed of this service, are refused unread."""
    scene = evolve(
        scene, ports=evolve(scene.ports, policy=evolve(POLICY, webhook_allow_insecure=False))
    )
    assert (await refusal(scene, content=None, url=url)).startswith(told)
    assert scene.ports.calendar_fetcher.fetched == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        *(
            (fault, "")
            for fault in CalendarReadFault
            if fault is not CalendarReadFault.ADDRESS_LOST
        ),
        (b"<html>Sign in</html>", "leads to something that is no readable calendar"),
        (bytes(POLICY.max_calendar_bytes + 1), "leads to a calendar that is too large"),
    ],
)
async def test_a_calendar_that_cannot_be_read_is_not_stored(scene, content, told):
    """Each fault of the first read is told on the address, and nothing is stored."""
    assert (await refusal(scene, content=content)).startswith(told)
    assert await calendar_subscriptions.list_subscriptions(scene.ports, scene.staff) == []


async def test_the_same_address_is_added_once(scene):
    """An address that is known already is refused."""
    await subscribe(scene)
    assert await refusal(scene) == "is one of your addresses already"


async def test_the_number_of_addresses_is_limited(scene):
    """A staff member has at most five addresses; the sixth is not read."""
    for number in range(POLICY.max_calendar_subscriptions):
        await subscribe(scene, url=f"{URL}?{number}")
    count = len(scene.ports.calendar_fetcher.fetched)
    with pytest.raises(RuleBroken, match="the limit"):
        await subscribe(scene)
    assert len(scene.ports.calendar_fetcher.fetched) == count


async def test_busy_times_are_limited_over_all_addresses(scene):
    """Addresses that have too many busy times together are refused, at first and later."""
    policy = evolve(POLICY, max_busy_times=1)
    scene = evolve(scene, ports=evolve(scene.ports, policy=policy))
    await subscribe(scene)
    apart = make_ics_calendar(make_ics_hour("20270303T090000Z"))
    assert (await refusal(scene, content=apart, url=f"{URL}?2")).startswith("has too many busy")
    serve(scene, make_ics_calendar(*(make_ics_hour(f"2027030{n}T090000Z") for n in (3, 4))))
    await read_later(scene)
    assert (await the_one(scene)).fault is CalendarReadFault.TOO_MANY_TIMES
    assert await busy(scene) == (NINE,)


async def test_a_removed_calendar_blocks_no_time(scene):
    """Removal takes the busy times of that calendar alone, and nothing of imported files."""
    await calendars.set_busy_times(scene.ports, scene.staff, AT_NINE)
    first = await subscribe(scene)
    await subscribe(scene, AT_TEN, f"{URL}?2")
    assert await busy(scene) == (Interval(NINE.starts_at, TEN.ends_at),)
    await calendar_subscriptions.unsubscribe(scene.ports, scene.staff, first.id)
    assert await busy(scene) == (TEN,)
    assert (await calendars.get_busy_times(scene.ports, scene.staff)).times == (NINE,)
    with pytest.raises(NotFound):
        await calendar_subscriptions.unsubscribe(scene.ports, scene.staff, first.id)


async def test_others_calendars_are_not_found(scene):
    """Nobody reads or removes another's calendar."""
    made = await subscribe(scene)
    other = actor_of(await add_user(scene.ports.store, role=Role.STAFF))
    for act in (calendar_subscriptions.read_now, calendar_subscriptions.unsubscribe):
        with pytest.raises(NotFound):
            await act(scene.ports, other, made.id)
    assert await busy(scene) == (NINE,)


# Reading again ----------------------------------------------------------------------------


async def test_a_calendar_is_read_again_each_hour(scene):
    """After an hour, not before, the busy times are replaced by those of the calendar then."""
    await subscribe(scene)
    serve(scene, AT_TEN)
    assert await read_later(scene, HOUR - timedelta(microseconds=1)) == 0
    assert await busy(scene) == (NINE,)
    assert await read_later(scene, timedelta(microseconds=1)) == 1
    assert await busy(scene) == (TEN,)
    assert await read_later(scene, 59 * MINUTE) == 0


async def test_a_calendar_that_has_not_changed_is_not_sent_again(scene):
    """A read names the known version, except once a day and after a change of the time zone, as
    then the busy times are others."""
    await subscribe(scene)
    known = (await the_one(scene)).etag

    async def versions(**passed):
        scene.ports.calendar_fetcher.fetched.clear()
        await read_later(scene, **passed)
        return [version.etag for _, version in scene.ports.calendar_fetcher.fetched]

    assert await versions() == [known]
    assert (await the_one(scene)).read_at == NOW + HOUR
    assert await busy(scene) == (NINE,)
    hours = SetAvailability(timezone="Asia/Tokyo")
    await profiles.set_availability(scene.ports, scene.staff, hours)
    assert await versions() == [None]
    assert await versions() == [known]
    assert await versions(by=DAY) == [None]


async def test_own_bookings_in_a_calendar_block_nothing(scene):
    """Bookings of this service that a calendar repeats from its feed are left out."""
    secret, _ = await calendars.create_feed(scene.ports, scene.staff)
    await scene.accepted()
    feed = await calendars.render_feed(scene.ports, secret)
    assert b"BEGIN:VEVENT" in feed
    assert (await subscribe(scene, feed)).busy == ()


async def test_failures_are_tried_again_later_and_later(scene):
    """After failures the delay doubles up to a day; the busy times of the last read hold."""
    await subscribe(scene)
    serve(scene, CalendarReadFault.UNREACHABLE)
    scene.pass_time(HOUR)
    delays = []
    for _ in range(7):
        assert await calendar_subscriptions.read_due_calendar(scene.ports) == 1
        found = await the_one(scene)
        delays.append((found.next_read_at - found.tried_at) // HOUR)
        scene.pass_time(found.next_read_at - found.tried_at)
    assert delays == [1, 2, 4, 8, 16, 24, 24]
    assert (found.fault, found.read_at) == (CalendarReadFault.UNREACHABLE, NOW)
    assert await busy(scene) == (NINE,)
    serve(scene, AT_TEN)
    await calendar_subscriptions.read_due_calendar(scene.ports)
    found = await the_one(scene)
    assert (found.fault, found.failures, found.next_read_at - found.tried_at) == (None, 0, HOUR)


async def test_a_calendar_that_fails_for_a_week_is_given_up(scene):
    """After a week of failures the subscription is disabled, its owner is told once, without the
    address; its busy times stay. Read again by hand with success, it is read each hour again."""
    made = await subscribe(scene, name="Secret wedding")
    serve(scene, CalendarReadFault.NOT_FOUND)
    for _ in range(14):
        await read_later(scene, DAY)
    found = await the_one(scene)
    assert (found.is_disabled, found.busy) == (True, (NINE,))
    assert await notifications.send_notifications(scene.ports) == 1
    (email,) = scene.ports.notifier.emails
    assert email.user_id == scene.staff.user_id
    assert "calendar.example could not be read for 7 days" in email.text
    assert email.url.endswith("/staff/calendars")
    assert "private" not in email.text + email.subject
    failed = await calendar_subscriptions.read_now(scene.ports, scene.staff, made.id)
    assert failed.is_disabled
    assert await notifications.send_notifications(scene.ports) == 0
    serve(scene, make_ics_calendar(make_ics_hour("20270410T090000Z")))
    scene.pass_time(HOUR)
    read = await calendar_subscriptions.read_now(scene.ports, scene.staff, made.id)
    assert (len(read.busy), read.fault, read.is_disabled) == (1, None, False)


async def test_a_calendar_is_read_by_hand_once_a_minute(scene):
    """Reading by hand is refused within a minute of the last attempt, and while it is read."""
    made = await subscribe(scene)
    serve(scene, AT_TEN)
    with pytest.raises(RuleBroken, match="read just now"):
        await calendar_subscriptions.read_now(scene.ports, scene.staff, made.id)
    scene.pass_time(MINUTE)
    lease = Lease("held", scene.ports.clock.wall() + MINUTE)
    now = scene.ports.clock.wall()
    await scene.ports.store.run_transaction(
        lambda tx: tx.calendar_subscriptions.claim_subscriptions(now, lease, 1, made.id)
    )
    with pytest.raises(RuleBroken, match="read just now"):
        await calendar_subscriptions.read_now(scene.ports, scene.staff, made.id)
    scene.pass_time(MINUTE)
    read = await calendar_subscriptions.read_now(scene.ports, scene.staff, made.id)
    assert read.busy == (TEN,)


async def test_a_reader_that_was_killed_is_followed_by_another(scene):
    """A claim that was never settled expires, and the calendar is read once by the next reader; the
    late result of the first is not saved."""
    made = await subscribe(scene)
    scene.pass_time(HOUR)
    fetch = scene.ports.calendar_fetcher.fetch

    class Slow:
        """Its answer comes after its claim has expired, and another has read the calendar."""

        async def fetch(self, *given):
            late = await fetch(*given)
            scene.pass_time(POLICY.calendar_lease)
            serve(scene, AT_TEN)
            assert await calendar_subscriptions.read_due_calendar(scene.ports) == 1
            return late

    ports = evolve(scene.ports, calendar_fetcher=Slow())
    assert await calendar_subscriptions.read_due_calendar(ports) == 1
    assert await busy(scene) == (TEN,)
    assert (await the_one(scene)).id == made.id


async def test_a_calendar_that_is_removed_while_it_is_read_stays_removed(scene):
    """The result of a read that ends after the removal is dropped."""
    made = await subscribe(scene)
    scene.pass_time(HOUR)
    serve(scene, AT_TEN)
    fetch = scene.ports.calendar_fetcher.fetch

    class Removing:
        async def fetch(self, *given):
            await calendar_subscriptions.unsubscribe(scene.ports, scene.staff, made.id)
            return await fetch(*given)

    ports = evolve(scene.ports, calendar_fetcher=Removing())
    assert await calendar_subscriptions.read_due_calendar(ports) == 1
    assert await busy(scene) == ()


async def test_calendars_of_disabled_accounts_are_not_read(scene):
    """No address is called for an account that is disabled; once it is enabled again, its calendars
    are read within the hour."""
    await subscribe(scene)
    async with scene.ports.store.read_view() as view:
        user = await view.accounts.user(scene.staff.user_id)
    await disabling.disable_user(scene.ports, user.email)
    scene.ports.calendar_fetcher.fetched.clear()
    assert await read_later(scene) == 1
    assert scene.ports.calendar_fetcher.fetched == []
    assert (await the_one(scene)).next_read_at == NOW + 2 * HOUR


async def test_an_address_that_no_key_opens_is_a_fault(scene):
    """Without the key that sealed it, an address counts as lost; the service keeps working."""
    made = await subscribe(scene)
    ports = evolve(scene.ports, vault=KeyringVault(["another"]))
    scene.pass_time(HOUR)
    assert await calendar_subscriptions.read_due_calendar(ports) == 1
    assert (await the_one(scene)).fault is CalendarReadFault.ADDRESS_LOST
    assert (await the_one(scene)).address == made.address


async def test_all_due_work_reads_calendars(scene):
    """`run_all_due` reads what is due."""
    await subscribe(scene)
    serve(scene, AT_TEN)
    scene.pass_time(HOUR)
    assert await scene.drain() == 1
    assert await busy(scene) == (TEN,)


# Personal data ----------------------------------------------------------------------------


async def test_erasure_ends_all_reading(scene):
    """The subscriptions of an erased person are deleted, and their busy times with them."""
    await subscribe(scene)
    await privacy.erase_person(scene.ports, scene.staff.user_id)
    assert await calendar_subscriptions.list_subscriptions(scene.ports, scene.staff) == []
    assert await read_later(scene) == 0


async def test_a_lost_claim_is_no_error_to_the_owner(scene, monkeypatch):
    """A reader that lost its claim to another reports what that one has read."""
    made = await subscribe(scene)
    scene.pass_time(HOUR)

    async def lose(*_):
        raise Conflict("calendar subscription")

    monkeypatch.setattr(calendar_subscriptions, "_read_and_save", lose)
    found = await calendar_subscriptions.read_now(scene.ports, scene.staff, made.id)
    assert found == made


async def test_the_export_has_no_addresses(scene):
    """The export has names, hosts and busy times of other calendars, never their addresses."""
    await subscribe(scene, name="Family")
    record = await privacy.export_user_data(scene.ports, scene.staff.user_id)
    at = "2027-03-01T12:00:00Z"
    assert record["calendar_addresses"] == [
        {
            "name": "Family",
            "host": "calendar.example",
            "created_at": at,
            "read_at": at,
            "busy_times": [
                {"starts_at": "2027-03-02T09:00:00Z", "ends_at": "2027-03-02T10:00:00Z"}
            ],
        }
    ]
    customer = await privacy.export_user_data(scene.ports, scene.customer.user_id)
    assert customer["calendar_addresses"] == []
