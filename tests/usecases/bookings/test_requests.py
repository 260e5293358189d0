"""Booking requests: validation, and repeated calls."""

from __future__ import annotations

from datetime import date

import pytest
from attrs import asdict, evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    POLICY,
    SECOND,
    add_companion,
    add_subscriber,
    add_user,
    make_calendar,
)
from staffbooking_adapters.testing.service import make_booking_request
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.companions.availability import Slot, WeeklySlot
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import (
    Forbidden,
    InvalidField,
    NotFound,
    RuleBroken,
    Unauthenticated,
)
from staffbooking_core.inputs import RequestBookingFor
from staffbooking_core.usecases.bookings import actions, disabling, requests
from tests.support.memory_deployment import (
    BookingScenario,
    actor_of,
    list_bookings,
    make_booking_scenario,
    make_idempotent_call,
    memory_ports,
    with_another_companion,
    with_another_customer,
)

pytestmark = pytest.mark.anyio

SPRING = date(2027, 3, 28)  # Berlin: 02:00 becomes 03:00
AUTUMN = date(2027, 10, 31)  # Berlin: 03:00 becomes 02:00


def faulty(caught):
    return [fault.field for fault in caught.value.field_errors]


async def refused(scene, **given):
    """The fields that a request is refused for."""
    with pytest.raises(InvalidField) as caught:
        await scene.request(**given)
    return faulty(caught)


async def in_berlin(scene, **calendar):
    return await with_another_companion(scene, calendar=make_calendar("Europe/Berlin", **calendar))


async def test_a_request_is_pending(scene):
    """A new booking is pending, with price, code and first timeline entry."""
    booking = await scene.request()
    assert (booking.status, booking.total_amount, booking.version) == (
        BookingStatus.PENDING,
        40_000,
        1,
    )
    assert len(booking.code) == 14
    assert (booking.timeline[0].was, booking.timeline[0].actor) == (None, Party.CUSTOMER)
    assert booking == await scene.booking(booking)


async def test_a_request_is_told(scene):
    """A request emits booking.created as the first event."""
    assert await scene.events(await scene.request()) == ["booking.created"]


async def test_insurance_is_priced(scene):
    """Insurance costs 5 % on top."""
    booking = await scene.request(cancellation_insurance=True)
    assert (booking.insurance_premium, booking.total_amount) == (2_000, 42_000)


async def test_rates_are_frozen(scene):
    """A later change of rates does not change a booking."""
    booking = await scene.accepted()

    async def unit(tx):
        companion = await tx.companions.lock_companion(scene.staff.user_id)
        await tx.companions.save_companion(evolve(companion, hourly_rate=1))

    await scene.ports.store.run_transaction(unit)
    assert (await scene.booking(booking)).price == 40_000


async def test_only_customers_book_for_themselves(scene):
    """Staff members and admins cannot book with a session."""
    for actor in (scene.staff, scene.admin):
        with pytest.raises(Forbidden):
            await scene.request(by=actor)


async def test_the_account_of_a_customer_is_a_customers(scene):
    """An actor who is a customer only by their own word is refused like one of another role."""
    with pytest.raises(Forbidden) as caught:
        await scene.request(by=evolve(scene.admin, role=Role.CUSTOMER))
    assert caught.value.code == "customers_only"


async def test_an_unknown_actor_is_told_so(scene):
    """A user id that nobody has is told as an account, whether the caller has sessions or not."""
    with pytest.raises(Unauthenticated) as caught:
        await scene.request(by=Actor(999, Role.CUSTOMER))
    assert caught.value.message == "The account is unknown or disabled"


async def test_by_api_one_books_for_a_registered_customer(scene):
    """The key's owner is recorded as booker, the customer of the address as customer."""
    owner = await add_subscriber(scene.ports.store)
    customer = await add_user(scene.ports.store, email="Grace@Example.com")
    booking = await request_for(scene, owner, "gRACE@example.com")
    assert (booking.customer_id, booking.booked_by) == (customer.id, owner.id)
    assert booking.timeline[0].actor is Party.API


async def request_for(scene, owner, email, **given):
    wanted = make_booking_request(scene.staff.user_id, **given)
    fields = asdict(wanted, recurse=False)
    by_key = Actor(owner.id, owner.role, key_id=1)
    return await requests.request_booking(
        scene.ports, by_key, RequestBookingFor(**fields, customer_email=email)
    )


@pytest.mark.parametrize("role", [Role.STAFF, Role.ADMIN, None])
async def test_who_is_no_customer_is_not_booked_for(scene, role):
    """The addresses of staff, of admins and unknown ones give the same error."""
    owner = await add_subscriber(scene.ports.store)
    email = "nobody@example.com"
    if role is not None:
        await add_user(scene.ports.store, email=email, role=role)
    with pytest.raises(InvalidField) as caught:
        await request_for(scene, owner, email)
    assert faulty(caught) == ["customer_email"]


async def test_a_disabled_customer_is_not_booked_for(scene):
    """A disabled customer cannot be booked for."""
    owner = await add_subscriber(scene.ports.store)
    customer = await add_user(scene.ports.store)
    await disabling.disable_user(scene.ports, customer.email)
    with pytest.raises(InvalidField):
        await request_for(scene, owner, customer.email)


@pytest.mark.parametrize("approval", [Approval.PENDING, Approval.SUSPENDED])
async def test_an_unlisted_companion_is_not_found(scene, approval):
    """A companion that is not listed raises NotFound."""
    other = await with_another_companion(scene, approval=approval)
    with pytest.raises(NotFound):
        await other.request()


async def test_an_unknown_companion_is_not_found(scene):
    """An unknown companion raises NotFound before other faults."""
    with pytest.raises(NotFound):
        await scene.request(companion_id=999, service_type="Nothing")


async def test_a_service_is_matched_without_case(scene):
    """The service is matched without case and stored as offered."""
    assert (await scene.request(service_type="GALA dinner")).service_type == "Gala dinner"


async def test_every_fault_of_meaning_is_told_at_once(scene):
    """All invalid fields are reported together."""
    owner = await add_subscriber(scene.ports.store)
    with pytest.raises(InvalidField) as caught:
        await request_for(
            scene, owner, "x@example.com", event_date=date(2027, 2, 1), service_type="Nothing"
        )
    assert faulty(caught) == ["event_date", "service_type", "customer_email"]


# Start times ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "day, time, field",
    [
        (date(2027, 2, 28), "12:00", "event_date"),
        (date(2027, 3, 1), "11:59", "start_time"),
        (date(2027, 3, 1), "12:00", "start_time"),
        (date(2030, 3, 2), "12:00", "event_date"),
    ],
)
async def test_a_start_lies_ahead_but_not_too_far(scene, day, time, field):
    """A start in the past or too far ahead is refused on the date or the time."""
    assert await refused(scene, event_date=day, start_time=time) == [field]


async def test_the_last_day_is_three_years_ahead(scene):
    """The day three years ahead can be booked."""
    booking = await scene.request(event_date=date(2030, 3, 1))
    assert booking.event_date == date(2030, 3, 1)


async def test_a_minute_ahead_is_ahead(scene):
    """A start one minute ahead can be booked."""
    booking = await scene.request(event_date=date(2027, 3, 1), start_time="12:01")
    assert booking.starts_at > booking.created_at


async def test_today_is_the_companions(scene):
    """Today is the date in the companion's timezone."""
    other = await with_another_companion(scene, calendar=make_calendar("Pacific/Auckland"))
    assert await refused(other, event_date=date(2027, 3, 1), start_time="23:00") == ["event_date"]


async def test_the_time_is_the_companions(scene):
    """The start time is local to the companion's timezone."""
    booking = await (await in_berlin(scene)).request()
    assert (booking.starts_at.hour, booking.start_time, booking.timezone) == (
        11,
        "12:00",
        "Europe/Berlin",
    )


async def test_a_skipped_time_can_not_be_booked(scene):
    """A local time skipped by the change to summer time is refused."""
    berlin = await in_berlin(scene)
    assert await refused(berlin, event_date=SPRING, start_time="02:30") == ["start_time"]


async def test_a_repeated_time_is_the_earlier(scene):
    """A repeated local time is its first occurrence, and hours are elapsed hours."""
    berlin = await in_berlin(scene)
    booking = await berlin.request(event_date=AUTUMN, start_time="02:30")
    assert f"{booking.starts_at:%H:%M}-{booking.ends_at:%H:%M}" == "00:30-04:30"


async def test_a_time_outside_the_hours_is_unavailable(scene):
    """A time outside the companion's hours is unavailable."""
    hours = {"weekly": (WeeklySlot(3, Slot(9 * 60, 17 * 60)),)}
    other = await in_berlin(scene, **hours)
    assert (await other.request(start_time="13:00")).status is BookingStatus.PENDING
    with pytest.raises(RuleBroken) as caught:
        await other.request(start_time="13:01")
    assert caught.value.code == "companion_unavailable"


@pytest.mark.parametrize("time, free", [("08:00", True), ("08:01", False), ("16:00", True)])
async def test_a_booking_may_touch_another(scene, time, free):
    """A booking may start when another one ends."""
    await scene.accepted()
    if free:
        assert await scene.request(start_time=time)
        return
    with pytest.raises(RuleBroken) as caught:
        await scene.request(start_time=time)
    assert caught.value.code == "companion_unavailable"


async def test_pending_requests_compete(scene):
    """A pending request does not hold its slot."""
    first = await scene.request()
    second = await (await with_another_customer(scene)).request()
    assert first.starts_at == second.starts_at


async def test_too_small_an_amount_can_not_be_charged(scene):
    """An amount below the processor's minimum is refused."""
    other = await with_another_companion(scene, hourly_rate=49, daily_rate=None)
    with pytest.raises(RuleBroken) as caught:
        await other.request(duration_hours=1)
    assert caught.value.code == "amount_too_small"
    assert (await other.request(duration_hours=2)).price == 98


async def test_too_large_an_amount_can_not_be_charged(scene):
    """An amount above the processor's maximum is a fault of the duration."""
    other = await with_another_companion(scene, hourly_rate=50_000_000_000, daily_rate=None)
    assert await refused(other, duration_hours=2) == ["duration_hours"]
    assert (await other.request(duration_hours=1)).price == 50_000_000_000


async def test_the_premium_counts_towards_the_maximum(scene):
    """The insurance's premium counts towards the processor's maximum."""
    most = scene.ports.payments.max_amount(POLICY.currency.code)
    other = await with_another_companion(scene, hourly_rate=most, daily_rate=None)
    insured = {"duration_hours": 1, "cancellation_insurance": True}
    assert await refused(other, **insured) == ["duration_hours"]
    assert (await other.request(duration_hours=1)).price == most


async def test_too_large_an_amount_is_told_with_the_other_faults(scene):
    """An amount above the maximum is told at once with the other faults."""
    other = await with_another_companion(scene, hourly_rate=50_000_000_000, daily_rate=None)
    found = await refused(other, duration_hours=2, service_type="Juggling")
    assert sorted(found) == ["duration_hours", "service_type"]


# Stored responses -------------------------------------------------------------------------


async def test_a_repeated_call_gets_the_first_answer(scene):
    """A repeated call gets the same bytes and creates no second booking."""
    first = await scene.request_once(make_idempotent_call())
    again = await scene.request_once(make_idempotent_call())
    assert (first.is_replay, again) == (False, evolve(first, is_replay=True))
    [booking] = await list_bookings(scene)
    assert again.body == booking.code.encode()


async def test_another_body_under_the_key_is_refused(scene):
    """A key used for another request raises `idempotency_mismatch`."""
    await scene.request_once(make_idempotent_call())
    with pytest.raises(RuleBroken) as caught:
        await scene.request_once(make_idempotent_call(fingerprint=b"other"))
    assert caught.value.code == "idempotency_mismatch"


async def test_a_key_belongs_to_its_caller(scene):
    """The same key of another caller is another key."""
    await scene.request_once(make_idempotent_call())
    assert not (await scene.request_once(make_idempotent_call(scope="key:2"))).is_replay


async def test_an_answer_is_kept_for_a_day(scene):
    """A response is stored for a day of wall time."""
    await scene.request_once(make_idempotent_call())
    scene.pass_time(DAY - SECOND)
    assert (await scene.request_once(make_idempotent_call())).is_replay
    scene.pass_time(SECOND)
    assert not (await scene.request_once(make_idempotent_call())).is_replay


@pytest.mark.usefixtures("blind")
async def test_of_twins_one_books_and_both_get_its_answer(scene):
    """Two concurrent equal calls create one booking and get the same response."""
    first = await scene.request_once(make_idempotent_call())
    again = await scene.request_once(make_idempotent_call())
    assert (again.is_replay, again.body) == (True, first.body)
    assert len(await list_bookings(scene)) == 1


@pytest.mark.usefixtures("blind")
async def test_of_unequal_twins_the_slower_is_refused(scene):
    """Of two concurrent different calls with one key the slower raises `idempotency_mismatch`."""
    await scene.request_once(make_idempotent_call())
    with pytest.raises(RuleBroken) as caught:
        await scene.request_once(make_idempotent_call(fingerprint=b"other"))
    assert caught.value.code == "idempotency_mismatch"
    assert len(await list_bookings(scene)) == 1


# Deployments --------------------------------------------------------------------------------


async def test_a_deployment_has_its_own_figures():
    """Fee, premium and currency come from the policy."""
    policy = evolve(
        POLICY, currency=Currency("jpy"), platform_fee_ppm=200_000, insurance_rate_ppm=100_000
    )
    ports = memory_ports(policy)
    companion = await add_companion(ports.store, hourly_rate=5_000, daily_rate=None)
    customer = actor_of(await add_user(ports.store))
    scene = BookingScenario(ports, customer, actor_of(companion), customer)
    booking = await scene.request(cancellation_insurance=True)
    assert (booking.price, booking.insurance_premium, booking.platform_fee) == (
        20_000,
        2_000,
        4_000,
    )


async def test_scenes_are_apart():
    """Two deployments share no state."""
    one, other = await make_booking_scenario(), await make_booking_scenario()
    booking = await one.request()
    with pytest.raises(NotFound):
        await actions.get_by_code(other.ports, booking.code)
