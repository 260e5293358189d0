"""Imports, on every store alike: progress, and staff members many at a time."""

from __future__ import annotations

import json
from datetime import date, timedelta
from itertools import count
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings, strategies as st

from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_core.domain.accounts.users import Role, Session
from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Slot,
    WeeklySlot,
)
from staffbooking_core.domain.companions.companion import Approval, CompanionQuery
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import EMAIL_TAKEN, ImportProgress, SkippedRow
from tests.contract.companions.booked_days import add_accepted_booking
from tests.contract.stores import read_store
from tests.support.builders import (
    DAY,
    HOUR,
    NOW,
    POLICY,
    add_booking,
    add_companion,
    add_user,
    make_calendar,
    make_companion,
    make_new_user,
)
from tests.support.portfolio import add_portfolio_item
from tests.support.reviews import add_review

pytestmark = pytest.mark.anyio

FINE = NOW + timedelta(microseconds=123_456)
PROGRESS = ImportProgress("ab" * 32, 2**40, 1, 2, 3, FINE)
SKIPPED = [
    SkippedRow(line, None if line % 2 else "é@x.org", f"reason {line}") for line in (1, 2, 9)
]


# Progress -------------------------------------------------------------------------------


async def of_file(store, fingerprint=PROGRESS.fingerprint):
    kept = await store.run_transaction(lambda unit: unit.imports.lock_progress(fingerprint))
    return kept, list(
        await read_store(store, lambda view: view.imports.skipped_rows(fingerprint, 0, 100))
    )


async def save(store, progress, skipped=()):
    await store.run_transaction(lambda unit: unit.imports.save_progress(progress, skipped))


async def test_progress_comes_back_as_it_was_saved(store):
    """With the rows that stayed out, by lines; another file has none."""
    await save(store, PROGRESS, SKIPPED[::-1])
    assert await of_file(store) == (PROGRESS, SKIPPED)
    assert await of_file(store, "cd" * 32) == (None, [])


async def test_progress_goes_on(store):
    """Saving it again replaces it; more rows that stayed out come to those before."""
    await save(store, PROGRESS, SKIPPED[:2])
    later = evolve(PROGRESS, line=9, imported=7, updated=8, skipped=9, at=NOW)
    await save(store, later, SKIPPED[2:])
    assert await of_file(store) == (later, SKIPPED)


async def test_skipped_rows_have_pages(store):
    """Each begins above a line, and has a limit."""
    await save(store, PROGRESS, SKIPPED)
    page = read_store(store, lambda view: view.imports.skipped_rows(PROGRESS.fingerprint, 1, 1))
    assert list(await page) == SKIPPED[1:2]


async def test_a_forgotten_file_leaves_nothing(store):
    """Others stay as they are."""
    other = evolve(PROGRESS, fingerprint="cd" * 32)
    for progress in (PROGRESS, other):
        await save(store, progress, SKIPPED)
    await store.run_transaction(lambda unit: unit.imports.delete_progress(PROGRESS.fingerprint))
    assert await of_file(store) == (None, [])
    assert await of_file(store, other.fingerprint) == (other, SKIPPED)


async def test_a_sweep_forgets_what_was_given_up(store):
    """Files that nobody went on with for 30 days, with their rows, and no others."""
    old, recent = (
        evolve(PROGRESS, fingerprint=name * 32, at=at)
        for name, at in (("cd", NOW), ("ef", NOW + timedelta(seconds=1)))
    )
    for progress in (old, recent):
        await save(store, progress, SKIPPED)
    assert [await store.delete_expired(NOW + 30 * DAY, POLICY) for _ in range(2)] == [
        1 + len(SKIPPED),
        0,
    ]
    assert await of_file(store, old.fingerprint) == (None, [])
    assert await of_file(store, recent.fingerprint) == (recent, SKIPPED)


# People ---------------------------------------------------------------------------------


def newcomer(email, **given):
    """A staff member with a companion, in step."""
    companion = make_companion(id=0, **given)
    names = {"first_name": companion.first_name, "last_name": companion.last_name}
    return make_new_user(email=email, role=Role.STAFF, **names), companion


async def people(store, *emails):
    return list(await store.run_transaction(lambda unit: unit.imports.lock_users_by_email(emails)))


async def test_people_are_found_by_email(store):
    """In any case and of any role, each once, in the order of ids, with their companions."""
    customer = await add_user(store, email="Ada@x.org")
    staff = await add_user(store, email="Bo@x.org", role=Role.STAFF)
    await store.run_transaction(lambda unit: unit.imports.add_staff_members([newcomer("cy@x.org")]))
    ada, bo, cy = await people(store, "CY@x.org", "bo@x.org", "BO@x.org", "ada@x.org", "no@x.org")
    assert (ada, bo) == ((customer, None), (staff, None))
    assert (cy[0].email, cy[1]) == ("cy@x.org", make_companion(id=cy[0].id))
    assert await people(store) == []


async def test_added_people_have_ids_in_their_order(store):
    """Users and companions the same."""
    names = ["c@x.org", "a@x.org", "b@x.org"]
    await store.run_transaction(
        lambda unit: unit.imports.add_staff_members([newcomer(each) for each in names])
    )
    found = await people(store, *names)
    assert [user.email for user, _ in found] == names
    assert [companion.id for _, companion in found] == [user.id for user, _ in found]


async def test_a_taken_email_refuses_all(store):
    """Nobody of the batch is added."""
    await add_user(store, email="Bo@x.org")
    batch = [newcomer("a@x.org"), newcomer("bo@X.org")]
    with pytest.raises(ConstraintViolated, match=EMAIL_TAKEN):
        await store.run_transaction(lambda unit: unit.imports.add_staff_members(batch))
    assert await people(store, "a@x.org") == []


async def test_nobody_is_no_work(store):
    """Neither to add nor to save."""
    await store.run_transaction(lambda unit: unit.imports.add_staff_members([]))
    await store.run_transaction(lambda unit: unit.imports.save_staff_members([]))


async def test_saved_users_are_as_given(store):
    """Every field, and of these users alone."""
    ada, bo = await add_user(store, role=Role.STAFF), await add_user(store)
    changed = evolve(
        ada,
        first_name="Åse",
        last_name="Ng",
        email="ase@x.org",
        password_hash="hash",
        disabled_at=FINE,
        email_verified_at=NOW,
    )
    companion = make_companion(id=ada.id, first_name="Åse", last_name="Ng", active=False)
    await store.run_transaction(
        lambda unit: unit.imports.save_staff_members([(changed, companion)])
    )
    assert await people(store, "ase@x.org", bo.email) == [(changed, companion), (bo, None)]


async def test_sessions_of_many_end_at_once(store):
    """All of theirs, and of nobody else."""
    ada, bo, cy = [await add_user(store) for _ in range(3)]
    for number, user in enumerate((ada, ada, bo, cy)):
        session = Session(bytes([number]) * 32, user.id, NOW, NOW)
        await store.run_transaction(
            lambda unit, session=session: unit.accounts.add_session(session)
        )
    await store.run_transaction(lambda unit: unit.imports.end_sessions_of_users([]))
    await store.run_transaction(lambda unit: unit.imports.end_sessions_of_users([ada.id, cy.id]))
    async with store.read_view() as view:
        left = [len(await view.accounts.sessions_of(user.id)) for user in (ada, bo, cy)]
    assert left == [0, 1, 0]


# Many as one by one -----------------------------------------------------------------------

MONDAY = NOW.date()
HOURS = [
    Calendar("UTC"),
    make_calendar(days=range(5)),
    make_calendar("Europe/Berlin", days=(6,), start=2, end=3),
    make_calendar(
        days=(0, 6), overrides=(DateOverride(MONDAY), DateOverride(MONDAY + DAY, (Slot(0, 60),)))
    ),
    Calendar("Asia/Tokyo", (WeeklySlot(2, Slot(0, 59)),), (DateOverride(date(2027, 3, 6)),)),
]
NAMES = ["gala", "Gala", "Übersetzen", "ÜBERSETZEN", "Fair"]
COMPANIONS = st.fixed_dictionaries(
    {
        "first_name": st.sampled_from(["Mia", "Ada"]),
        "hourly_rate": st.sampled_from([1_000, 5_000, 9_900]),
        "daily_rate": st.sampled_from([None, 30_000]),
        "location_city": st.sampled_from(["Lisbon", "LISBON", "São Paulo"]),
        "calendar": st.sampled_from(HOURS),
        "service_types": st.lists(st.sampled_from(NAMES), unique=True, max_size=4).map(tuple),
        "approval": st.sampled_from([Approval.APPROVED, *Approval]),
        "active": st.sampled_from([True, True, True, False]),
        "rating_sum": st.integers(0, 15),
        "total_reviews": st.sampled_from([0, 3]),
        "tagline": st.sampled_from(["", "On time"]),
    }
)
KNOWN = 4
BATCHES = st.tuples(
    st.dictionaries(st.integers(0, KNOWN - 1), COMPANIONS, max_size=KNOWN),
    st.lists(COMPANIONS, max_size=4),
)
QUERIES: list[dict[str, Any]] = [
    {},
    {"service": "gala"},
    {"service": "übersetzen", "min_price": 2_000},
    {"max_price": 5_000},
    *({"date": MONDAY + number * DAY} for number in range(7)),
    {"date": date(2027, 3, 28)},
]

runs = count(1)


async def known_people(store, run):
    """Staff members who were there before: with bookings, reviews and items, suspended, disabled,
    without a profile."""
    customer = await add_user(store, email=f"client{run}@x.org")
    everybody = []
    for number in range(KNOWN):
        companion = await add_companion(
            store,
            location_country=f"land{run}",
            calendar=HOURS[number],
            approval=Approval.SUSPENDED if number == 2 else Approval.APPROVED,
            active=number != 3,
        )
        everybody.append(companion)
        await add_accepted_booking(
            store, companion, customer.id, starts_at=NOW - 12 * HOUR, duration_hours=24
        )
    for rating in range(1, 12):
        booking = await add_booking(store, everybody[0], customer)
        await add_review(store, booking, rating=1 + rating % 5)
    for status in PortfolioItemStatus:
        await add_portfolio_item(store, everybody[1].id, status=status)
    return everybody


async def one_by_one(store, saved, added):
    """What a batch has to come to."""

    async def unit(tx):
        for user, companion in saved:
            await tx.accounts.save_user(user)
            await tx.companions.save_companion(companion)
        for new, companion in added:
            user = await tx.accounts.add_user(new)
            await tx.companions.save_companion(evolve(companion, id=user.id))

    await store.run_transaction(unit)


async def at_once(store, saved, added):
    async def unit(tx):
        await tx.imports.save_staff_members(saved)
        await tx.imports.add_staff_members(added)

    await store.run_transaction(unit)


async def put(store, put_people, run, changed, new):
    """Let known people change, and new ones come."""
    known = await known_people(store, run)
    saved = []
    async with store.read_view() as view:
        for number, fields in changed.items():
            companion = evolve(known[number], **fields)
            user = evolve(
                await view.accounts.user(companion.id),
                first_name=companion.first_name,
                disabled_at=None if companion.active else NOW,
            )
            saved.append((user, companion))
    added = [
        newcomer(f"new{number}of{run}@x.org", **fields, location_country=f"land{run}")
        for number, fields in enumerate(new)
    ]
    await put_people(store, saved, added)
    emails = [person.email for person, _ in added]
    return [companion.id for companion in known], emails


async def seen(store, run, ids, emails):
    """All that the store shows of them."""
    new = await people(store, *emails)
    async with store.read_view() as view:
        found = [
            [json.loads(one)["id"] for one in await view.companions.search(query)]
            for given in QUERIES
            for query in [CompanionQuery(f"land{run}", limit=50, **given)]
        ]
        everybody = [*ids, *(user.id for user, _ in new)]
        return (
            new,
            found,
            [await view.companions.companion(number) for number in everybody],
            [await view.companions.detail(number) for number in everybody],
            await view.companions.service_type_counts(),
        )


@given(BATCHES)
@settings(
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_a_batch_is_as_its_people_one_by_one(store, reference, batch):
    """Whoever comes or changes: what searches find, profiles, days that are taken, reviews and
    items are as if each had been saved alone, which the memory store does."""
    run = next(runs)
    expected = await seen(reference, run, *await put(reference, one_by_one, run, *batch))
    assert await seen(store, run, *await put(store, at_once, run, *batch)) == expected


@pytest.fixture
def reference():
    return MemoryStore(POLICY)
