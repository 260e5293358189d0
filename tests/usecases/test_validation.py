"""Use-cases check their arguments, whoever calls them (CONTRACT 1)."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

import attrs
import pytest
from attrs import evolve

import staffbooking_core
from staffbooking_core import usecases
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Actor, Role, Subscription, User
from staffbooking_core.errors import InvalidField, StaffbookingError
from staffbooking_core.inputs import (
    ChangeProfile,
    CreateApiKey,
    DateHours,
    Login,
    QueryPresence,
    Register,
    RegistrationRole,
    RequestBooking,
    SetAvailability,
    SlotHours,
    SubmitReview,
    WeeklyHours,
)
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import administration, api_keys, people, sessions
from staffbooking_core.usecases.bookings import actions, requests
from staffbooking_core.usecases.companions import hours
from staffbooking_core.usecases.payments import payees
from staffbooking_core.validation import INPUT_MODULES, validate_input
from tests.support.memory_deployment import BookingScenario

pytestmark = pytest.mark.anyio

NONSENSE: list[Any] = [
    *(0, -1, 2**63, True, 1.5, float("nan"), None),
    *("7", "", "\0", "\ud800", "a\nb", "x" * 200_000),
    *(b"x", [], {}, object()),
]
VALUES: dict[Any, Callable[[BookingScenario, User], Any]] = {
    Actor: lambda scene, _: scene.customer,
    User: lambda _, user: user,
    int: lambda scene, _: scene.staff.user_id,
    str: lambda *_: "x",
    bool: lambda *_: True,
}


def usecases_with_plain_arguments() -> Iterator[tuple[str, Callable[..., Awaitable[Any]]]]:
    """The public use-cases whose required arguments have a value in `VALUES`."""
    for found in pkgutil.walk_packages(usecases.__path__, "staffbooking_core.usecases."):
        module = importlib.import_module(found.name)
        for name, function in vars(module).items():
            is_own = getattr(function, "__module__", "") == module.__name__
            if name.startswith("_") or not is_own or not inspect.iscoroutinefunction(function):
                continue
            hints, parameters = get_type_hints(function), inspect.signature(function).parameters
            first, *rest = parameters.values()
            required = [hints[one.name] for one in rest if one.default is one.empty]
            if hints[first.name] is Ports and all(hint in VALUES for hint in required):
                yield f"{found.name.split('.', 2)[2]}.{name}", function


PLAIN = dict(usecases_with_plain_arguments())


@pytest.mark.parametrize("name", PLAIN)
async def test_nonsense_raises_the_cores_errors_only(scene: BookingScenario, name: str) -> None:
    """Every plain argument of a use-case may be nonsense: nothing but the core's errors escapes."""
    usecase = PLAIN[name]
    hints = get_type_hints(usecase)
    driven = {hint for kind in VALUES for hint in (kind, kind | None)}
    parameters = [name for name, hint in hints.items() if hint in driven and name != "return"]
    async with scene.ports.store.read_view() as view:
        user = await view.accounts.user(scene.customer.user_id)
    assert user is not None
    required = [
        one.name
        for one in list(inspect.signature(usecase).parameters.values())[1:]
        if one.default is one.empty
    ]
    good = {one: VALUES[hints[one]](scene, user) for one in required}
    for parameter in parameters:
        for value in NONSENSE:
            with suppress(StaffbookingError):
                await usecase(scene.ports, **{**good, parameter: value})


def test_the_corpus_drives_most_use_cases() -> None:
    """At least 70 use-cases are driven."""
    assert len(PLAIN) >= 70


# Input records ----------------------------------------------------------------------------

REQUEST: Any = RequestBooking(
    companion_id=2,
    event_date=date(2027, 3, 20),
    start_time="18:00",
    duration_hours=5,
    service_type="bartender",
    location="12 Savile Row",
)
REGISTER: Any = Register(
    email="ada@example.com",
    password="correct horse battery",
    first_name="Ada",
    last_name="Okoro",
    role=RegistrationRole.CUSTOMER,
)
HOURS: Any = WeeklyHours(weekday=0, start="09:00", end="17:00")


def fields_of(caught: pytest.ExceptionInfo[InvalidField]) -> list[str]:
    return [fault.field for fault in caught.value.field_errors]


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        (evolve(REGISTER, email="ada@example.com\nBcc: x@example.com"), ["email"]),
        (evolve(REGISTER, email=7, first_name="", role="admin"), ["email", "first_name", "role"]),
        (evolve(REGISTER, password="short"), ["password"]),
        (evolve(REQUEST, duration_hours=5.3), ["duration_hours"]),
        (evolve(REQUEST, duration_hours=True), ["duration_hours"]),
        (evolve(REQUEST, duration_hours=25, start_time="9:00"), ["start_time", "duration_hours"]),
        (evolve(REQUEST, event_date=datetime(2027, 3, 20)), ["event_date"]),
        (evolve(REQUEST, event_date="2027-03-20"), ["event_date"]),
        (evolve(REQUEST, event_date=date(9999, 12, 31)), ["event_date"]),
        (evolve(REQUEST, companion_id=2**63), ["companion_id"]),
        (evolve(REQUEST, location="\0"), ["location"]),
        (evolve(REQUEST, service_type="\ud800"), ["service_type"]),
        (evolve(REQUEST, event_ref=""), ["event_ref"]),
        (evolve(REQUEST, cancellation_insurance=1), ["cancellation_insurance"]),
        (
            ChangeProfile(hourly_rate=cast("Any", 40.5), daily_rate=Decimal("NaN")),
            ["hourly_rate", "daily_rate"],
        ),
        (ChangeProfile(languages=("en", "EN")), ["languages"]),
        (ChangeProfile(languages=cast("Any", "en")), ["languages"]),
        (SetAvailability(timezone="Mars", weekly=(HOURS,)), ["timezone"]),
        (
            SetAvailability(timezone="UTC", weekly=(HOURS, evolve(HOURS, weekday=7, end="25:00"))),
            ["weekly.1.start", "weekly.1.end", "weekly.1.weekday"][1:],
        ),
        (
            SetAvailability(
                timezone="UTC",
                overrides=(
                    DateHours(date=date(2027, 1, 1), slots=(SlotHours(start="x", end=""),)),
                ),
            ),
            ["overrides.0.slots.0.start", "overrides.0.slots.0.end"],
        ),
        (SubmitReview(rating=6, punctuality=0), ["rating", "punctuality"]),
        (CreateApiKey(name="one", permissions=()), ["permissions"]),
        (CreateApiKey(name="one", permissions=cast("Any", ("read",))), ["permissions.0"]),
        (QueryPresence(user_ids=cast("Any", (1, "2"))), ["user_ids.1"]),
    ],
)
def test_every_invalid_field_of_a_record_is_named(record: Any, fields: list[str]) -> None:
    """A record that breaks its bounds raises InvalidField with each field at once."""
    with pytest.raises(InvalidField) as caught:
        validate_input(record)
    assert fields_of(caught) == fields


@pytest.mark.parametrize(
    "record", [REQUEST, REGISTER, ChangeProfile(), Login(email="", password="")]
)
def test_a_valid_record_is_accepted(record: Any) -> None:
    """Absent and valid fields raise nothing."""
    validate_input(record)


async def test_an_invalid_record_stores_nothing(scene: BookingScenario) -> None:
    """A use-case with an invalid record raises before anything is stored."""
    with pytest.raises(InvalidField) as caught:
        await sessions.register_user(scene.ports, evolve(REGISTER, email="ada@example.com\n"))
    assert fields_of(caught) == ["email"]
    with pytest.raises(InvalidField) as caught:
        await requests.request_booking(
            scene.ports, scene.customer, evolve(REQUEST, duration_hours=5.3)
        )
    assert fields_of(caught) == ["duration_hours"]
    async with scene.ports.store.read_view() as view:
        assert await view.accounts.user_by_email(REGISTER.email) is None
    pages = await actions.list_bookings(
        scene.ports, scene.customer, role=None, status=None, page=1, limit=10
    )
    assert list(pages) == []


async def test_records_beside_their_use_case_are_checked_too(scene: BookingScenario) -> None:
    """Each field of a record that a use-case's own module declares is checked."""
    day = date(2027, 3, 20)
    night = hours.WeeklyShiftHours(weekday=7, start="18:00", end="24:00")
    week = hours.SetWeek(timezone="Mars", shifts=(night,))
    days = hours.SetDays(first=cast("Any", "2027-03-20"), last=day)
    wanted = people.PeopleFilter(text=cast("Any", 5), role=cast("Any", "king"))
    for call, fields in (
        (
            hours.set_week(scene.ports, scene.staff, week),
            ["timezone", "shifts.0.end", "shifts.0.weekday"],
        ),
        (hours.set_days(scene.ports, scene.staff, days), ["first"]),
        (people.find_people(scene.ports, wanted, None, 5), ["text", "role"]),
    ):
        with pytest.raises(InvalidField) as caught:
            await call
        assert fields_of(caught) == fields


def test_each_record_with_bounds_is_checked() -> None:
    """A module whose records declare bounds is in the list of those that are checked."""
    found = {
        record.__module__
        for module in pkgutil.walk_packages(staffbooking_core.__path__, "staffbooking_core.")
        for record in vars(importlib.import_module(module.name)).values()
        if inspect.isclass(record) and attrs.has(record)
        if any(map(has_bounds, get_type_hints(record, include_extras=True).values()))
    }
    assert found <= INPUT_MODULES


def has_bounds(hint: Any) -> bool:
    """Whether a type, or a part of it, has declared bounds."""
    return get_origin(hint) is Annotated or any(map(has_bounds, get_args(hint)))


async def test_arguments_of_another_type_are_named(scene: BookingScenario) -> None:
    """Plain arguments and records of another type are named by their parameter."""
    with pytest.raises(InvalidField) as caught:
        await actions.accept(scene.ports, "me", "seven")  # type: ignore[arg-type]
    assert fields_of(caught) == ["actor", "booking_id"]
    with pytest.raises(InvalidField) as caught:
        await sessions.register_user(scene.ports, {"email": "x"})  # type: ignore[arg-type]
    assert fields_of(caught) == ["command"]


# Plain values -----------------------------------------------------------------------------


@pytest.mark.parametrize("by_name", [False, True])
async def test_a_record_may_have_the_value_of_a_member(
    scene: BookingScenario, by_name: bool
) -> None:
    """A use-case takes a record in which a member of an enumeration is given by its value."""
    plain = evolve(REGISTER, role="staff")
    call = {"command": plain} if by_name else {}
    user = await sessions.register_user(scene.ports, *(() if by_name else (plain,)), **call)
    assert user.role is Role.STAFF


async def test_a_list_may_have_the_values_of_members(scene: BookingScenario) -> None:
    """A use-case stores the members whose values a list of a record has."""
    async with scene.ports.store.read_view() as view:
        user = await view.accounts.user(scene.customer.user_id)
    assert user is not None
    await administration.set_subscription(scene.ports, user.email, cast("Any", "enterprise"), None)
    wanted = CreateApiKey(name="one", permissions=cast("Any", ["read", "book"]))
    _, key = await api_keys.create(
        scene.ports, evolve(user, subscription=Subscription.ENTERPRISE), wanted
    )
    assert {type(each) for each in key.permissions} == {Permission}


async def test_a_plain_argument_may_be_the_value_of_a_member(scene: BookingScenario) -> None:
    """A use-case takes the value of a member for the member; nobody is changed by another value."""
    user_id = scene.customer.user_id
    async with scene.ports.store.read_view() as view:
        user = await view.accounts.user(user_id)
    assert user is not None
    await administration.set_subscription(scene.ports, user.email, cast("Any", "basic"), None)
    with pytest.raises(InvalidField) as caught:
        await administration.set_subscription(scene.ports, user.email, cast("Any", "gold"), None)
    assert fields_of(caught) == ["tier"]
    async with scene.ports.store.read_view() as view:
        changed = await view.accounts.user(user_id)
    assert changed is not None
    assert changed.subscription is Subscription.BASIC


@pytest.mark.parametrize("versions", [3, "3", [3]])
async def test_a_set_of_another_type_is_named(scene: BookingScenario, versions: Any) -> None:
    """An argument that must be a set is named where it is none."""
    with pytest.raises(InvalidField, match="allowed_versions: must be a set"):
        await actions.accept(scene.ports, scene.staff, 7, versions)


async def test_an_element_of_another_type_is_named(scene: BookingScenario) -> None:
    """An element of a collection of integers is named where it is none."""
    with pytest.raises(InvalidField) as caught:
        await administration.emails_of(scene.ports, cast("Any", [1, "2"]))
    assert fields_of(caught) == ["user_ids.1"]


async def test_a_value_of_another_class_is_named(scene: BookingScenario) -> None:
    """An argument that must be of a class of the core is told which."""
    with pytest.raises(InvalidField, match="actor: must be of type Actor"):
        await actions.accept(scene.ports, cast("Any", 7), 7)


async def test_a_duration_of_another_type_is_named(scene: BookingScenario) -> None:
    """An argument that must be a duration is named where it is none."""
    with pytest.raises(InvalidField, match="time_limit: must be a duration"):
        await payees.sync_payee(scene.ports, "x", time_limit=cast("Any", 3))


def test_an_actor_takes_the_value_of_a_role() -> None:
    """An actor whose role is given by its value has the role itself."""
    assert Actor(7, "admin").is_admin


@pytest.mark.parametrize(
    ("user_id", "role", "field"),
    [("7", "staff", "user_id"), (True, "staff", "user_id"), (7, "chef", "role"), (7, None, "role")],
)
def test_an_actor_of_another_kind_is_refused(user_id: Any, role: Any, field: str) -> None:
    """An actor has an integer as its id and a role that exists."""
    with pytest.raises(InvalidField) as caught:
        Actor(user_id, role)
    assert fields_of(caught) == [field]
