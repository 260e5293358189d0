"""Staff members' own profile and hours."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, NOW, POLICY, add_user
from staffbooking_adapters.testing.builders_portfolio import add_uploaded_image
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Interval,
    Slot,
    WeeklySlot,
)
from staffbooking_core.domain.companions.companion import Approval, missing_fields
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import InvalidField, NotFound, RuleBroken
from staffbooking_core.inputs import (
    ChangeProfile,
    DateHours,
    SetAvailability,
    SlotHours,
    WeeklyHours,
)
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.companions import approvals, profiles
from tests.support.memory_deployment import actor_of, make_booking_scenario, with_another_companion

pytestmark = pytest.mark.anyio

NOBODY = Actor(999, Role.STAFF)
COMPLETE = {
    "hourly_rate": Decimal("40.50"),
    "location_city": "Zürich",
    "location_country": "Switzerland",
    "service_types": ("Bartender", "Host"),
}
TEXTS = {
    "first_name": "Maja",
    "last_name": "Lind",
    "tagline": "Calm in every rush",
    "bio": "Ten years\nbehind bars.",
    "profile_photo": "photos/maja.jpg",
    "location_city": "Zürich",
    "location_country": "Switzerland",
    "service_types": ("Bartender", "Host"),
    "languages": ("German", "English"),
    "years_experience": 10,
}


async def newcomer(scene, **given):
    """A newly registered staff member."""
    return actor_of(await add_user(scene.ports.store, role=Role.STAFF, **given))


async def change(scene, actor, **given):
    return await profiles.update_profile(scene.ports, actor, ChangeProfile(**given))


async def set_hours(scene, actor, timezone="Europe/Zurich", **given):
    wanted = SetAvailability(timezone=timezone, **given)
    return await profiles.set_availability(scene.ports, actor, wanted)


async def stored(scene, actor):
    async with scene.ports.store.read_view() as view:
        return await view.companions.companion(actor.user_id)


async def user(scene, actor):
    async with scene.ports.store.read_view() as view:
        return await view.accounts.user(actor.user_id)


async def faults(call):
    """The fields that a call is refused for."""
    with pytest.raises(InvalidField) as caught:
        await call
    return [fault.field for fault in caught.value.field_errors]


def weekly(weekday, start, end):
    return WeeklyHours(weekday=weekday, start=start, end=end)


# Profile --------------------------------------------------------------------------------


async def test_a_newcomer_has_a_draft(scene):
    """A new staff member has an unsaved draft with the account's name."""
    actor = await newcomer(scene, first_name="Maja", created_at=NOW)
    draft = await profiles.get_profile(scene.ports, actor)
    assert (draft.id, draft.first_name, draft.member_since) == (actor.user_id, "Maja", NOW)
    assert draft.approval is Approval.PENDING
    needed = ["hourly_rate", "location_city", "location_country", "service_types"]
    assert missing_fields(draft) == needed
    assert await stored(scene, actor) is None


async def test_the_first_change_makes_the_companion(scene):
    """The first change stores a pending companion that can be approved."""
    actor = await newcomer(scene)
    changed = await change(scene, actor, **COMPLETE)
    assert await stored(scene, actor) == changed
    assert (changed.hourly_rate, changed.approval) == (4050, Approval.PENDING)
    assert missing_fields(changed) == []
    approved = await approvals.set_approval(scene.ports, actor.user_id, Approval.APPROVED)
    assert approved.is_listed


async def test_every_field_can_be_changed(scene):
    """All fields are stored, with amounts in minor units."""
    rates = {"hourly_rate": Decimal("40.5"), "daily_rate": Decimal(300)}
    zone = "America/New_York"
    changed = await change(scene, scene.staff, **TEXTS, **rates, timezone=zone)
    for name, value in {**TEXTS, "hourly_rate": 4050, "daily_rate": 30_000}.items():
        assert getattr(changed, name) == value, name
    assert changed.calendar.timezone == zone


@pytest.mark.parametrize("name", [*TEXTS, "hourly_rate", "daily_rate", "timezone"])
async def test_what_is_left_out_stays(scene, name):
    """A change of one field keeps all others and the approval."""
    values = {
        **TEXTS,
        "hourly_rate": Decimal(1),
        "daily_rate": Decimal(2),
        "timezone": "Asia/Tokyo",
    }
    before = await stored(scene, scene.staff)
    after = await change(scene, scene.staff, **{name: values[name]})
    changed = "calendar" if name == "timezone" else name
    assert getattr(after, changed) != getattr(before, changed)
    assert evolve(after, **{changed: getattr(before, changed)}) == before


async def test_none_empties_what_may_be_empty(scene):
    """Daily rate and years of experience can be removed."""
    await change(scene, scene.staff, daily_rate=Decimal(300), years_experience=3)
    changed = await change(scene, scene.staff, daily_rate=None, years_experience=None)
    assert (changed.daily_rate, changed.years_experience) == (None, None)


async def test_the_names_of_user_and_companion_stay_in_step(scene):
    """A new name changes the user, the companion and its public views."""
    changed = await change(scene, scene.staff, first_name="Maja")
    person = await user(scene, scene.staff)
    assert (person.first_name, person.last_name) == ("Maja", changed.last_name)
    async with scene.ports.store.read_view() as view:
        shown = json.loads(await view.companions.detail(changed.id))["companion"]
    assert shown["first_name"] == "Maja"


async def test_every_fault_of_meaning_is_told(scene):
    """All invalid fields are reported together."""
    await add_uploaded_image(scene.ports.store, scene.customer.user_id, "theirs.jpg")
    cents = {"hourly_rate": Decimal("1.005"), "daily_rate": Decimal("0.001")}
    found = await faults(change(scene, scene.staff, **cents, profile_photo="media/theirs.jpg"))
    assert found == ["hourly_rate", "daily_rate", "profile_photo"]
    assert (await stored(scene, scene.staff)).hourly_rate == 10_000


async def test_the_decimals_are_the_currencys():
    """Amounts with more decimals than the currency are refused."""
    scene = await make_booking_scenario(evolve(POLICY, currency=Currency("jpy")))
    assert await faults(change(scene, scene.staff, hourly_rate=Decimal("40.5"))) == ["hourly_rate"]
    assert (await change(scene, scene.staff, hourly_rate=Decimal(4000))).hourly_rate == 4000


async def test_an_upload_of_ones_own_is_a_photo(scene):
    """An own upload can be the photo, an unknown one cannot."""
    await add_uploaded_image(scene.ports.store, scene.staff.user_id, "mine.jpg")
    changed = await change(scene, scene.staff, profile_photo="media/mine.jpg")
    assert changed.profile_photo == "media/mine.jpg"
    unknown = change(scene, scene.staff, profile_photo="media/unknown.jpg")
    assert await faults(unknown) == ["profile_photo"]


async def test_a_refused_first_change_stores_nothing(scene):
    """A refused first change stores no companion."""
    actor = await newcomer(scene)
    await faults(change(scene, actor, **{**COMPLETE, "profile_photo": "media/unknown.jpg"}))
    assert await stored(scene, actor) is None


async def test_who_is_forgotten_comes_back_by_no_late_call(scene):
    """A call of a user erased since authentication raises NotFound."""
    actor = await newcomer(scene)
    await privacy.erase_person(scene.ports, actor.user_id)
    with pytest.raises(NotFound):
        await change(scene, actor, bio="Here I am again.")


async def test_who_is_not_there_has_no_profile(scene):
    """An unknown user can neither read nor change a profile."""
    for call in (
        profiles.get_profile(scene.ports, NOBODY),
        change(scene, NOBODY, tagline="x"),
        set_hours(scene, NOBODY),
    ):
        with pytest.raises(NotFound):
            await call


# Approval -------------------------------------------------------------------------------


@pytest.mark.parametrize("lacking", COMPLETE)
async def test_an_unfinished_profile_is_not_approved(scene, lacking):
    """Approval names the missing fields; suspension works."""
    actor = await newcomer(scene)
    await change(scene, actor, **{k: v for k, v in COMPLETE.items() if k != lacking})
    with pytest.raises(RuleBroken) as caught:
        await approvals.set_approval(scene.ports, actor.user_id, Approval.APPROVED)
    assert caught.value.code == "profile_incomplete"
    assert caught.value.message == f"The profile has no {lacking} yet"
    assert (await stored(scene, actor)).approval is Approval.PENDING
    await approvals.set_approval(scene.ports, actor.user_id, Approval.SUSPENDED)


async def test_a_profile_that_was_never_saved_is_not_approved(scene):
    """Approval names all that a newly registered staff member's draft lacks."""
    actor = await newcomer(scene)
    with pytest.raises(RuleBroken) as caught:
        await approvals.set_approval(scene.ports, actor.user_id, Approval.APPROVED)
    assert caught.value.code == "profile_incomplete"


async def test_a_profile_that_was_never_saved_is_suspended(scene):
    """A suspension of a newly registered staff member is kept with the draft."""
    actor = await newcomer(scene)
    await approvals.set_approval(scene.ports, actor.user_id, Approval.SUSPENDED)
    assert (await stored(scene, actor)).approval is Approval.SUSPENDED


async def test_only_staff_members_have_an_approval(scene):
    """The approval of a customer or of an erased staff member raises NotFound."""
    gone = await newcomer(scene)
    await privacy.erase_person(scene.ports, gone.user_id)
    for number in (scene.customer.user_id, gone.user_id):
        with pytest.raises(NotFound):
            await approvals.set_approval(scene.ports, number, Approval.APPROVED)


# Hours ----------------------------------------------------------------------------------


async def test_hours_are_replaced(scene):
    """Timezone, weekly hours and overrides are stored as given."""
    days = (DateHours(date=date(2027, 3, 4), slots=(SlotHours(start="10:00", end="12:00"),)),)
    given = {"weekly": (weekly(0, "09:00", "17:30"), weekly(6, "00:00", "24:00"))}
    hours = await set_hours(scene, scene.staff, **given, overrides=days)
    slots = (WeeklySlot(0, Slot(540, 1050)), WeeklySlot(6, Slot(0, 1440)))
    override = DateOverride(date(2027, 3, 4), (Slot(600, 720),))
    assert hours == Calendar("Europe/Zurich", slots, (override,))
    assert (await stored(scene, scene.staff)).calendar == hours


@pytest.mark.parametrize("given", ["weekly", "overrides"])
async def test_hours_that_are_left_out_stay(scene, given):
    """Weekly hours and overrides change independently."""
    actor = await newcomer(scene)
    hours, days = (weekly(0, "09:00", "17:00"),), (DateHours(date=date(2027, 3, 4), slots=()),)
    before = await set_hours(scene, actor, weekly=hours, overrides=days)
    after = await set_hours(scene, actor, "Asia/Tokyo", **{given: ()})
    assert after == evolve(before, timezone="Asia/Tokyo", **{given: ()})


async def test_hours_can_come_before_the_profile(scene):
    """Setting hours first creates the companion."""
    actor = await newcomer(scene)
    hours = await set_hours(scene, actor, weekly=(weekly(0, "09:00", "17:00"),))
    made = await stored(scene, actor)
    assert (made.calendar, made.approval, len(missing_fields(made))) == (hours, Approval.PENDING, 4)
    assert (await change(scene, actor, **COMPLETE)).calendar == hours


async def test_hours_keep_the_rest_of_the_profile(scene):
    """Setting hours changes the calendar only."""
    before = await stored(scene, scene.staff)
    hours = await set_hours(scene, scene.staff)
    assert await stored(scene, scene.staff) == evolve(before, calendar=hours)


async def test_what_is_busy_elsewhere_stays(scene):
    """Neither hours nor timezone change busy times."""
    busy = (Interval(NOW, NOW + HOUR),)
    calendar = Calendar("UTC", busy=busy, busy_until=date(2029, 1, 1))
    member = (await with_another_companion(scene, calendar=calendar)).staff
    await set_hours(scene, member, weekly=(weekly(0, "09:00", "17:00"),))
    await change(scene, member, timezone="Asia/Tokyo")
    kept = (await stored(scene, member)).calendar
    assert (kept.busy, kept.busy_until) == (busy, date(2029, 1, 1))
    assert kept.weekly == (WeeklySlot(0, Slot(540, 1020)),)


async def test_every_bad_slot_is_told(scene):
    """Every invalid slot is reported by its path, and repeated dates."""
    backwards = SlotHours(start="12:00", end="12:00")
    day = DateHours(date=date(2027, 3, 4), slots=(SlotHours(start="09:00", end="10:00"), backwards))
    wrong = {"weekly": (weekly(0, "09:00", "17:00"), weekly(0, "23:00", "02:00"))}
    assert await faults(set_hours(scene, scene.staff, **wrong, overrides=(day, day))) == [
        "weekly.1.start",
        "overrides.0.slots.1.start",
        "overrides.1.slots.1.start",
        "overrides",
    ]
