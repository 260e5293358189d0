"""Contract of the stores: progress of imports, and staff members saved in batches."""

from __future__ import annotations

import json
from datetime import date, timedelta
from itertools import count
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings, strategies as st

from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.testing.builders import (
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
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_adapters.testing.store.companions.booked_days import add_accepted_booking
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
from staffbooking_core.usecases.companions.imports import begin_import
from tests.support.memory_deployment import memory_ports

pytestmark = pytest.mark.anyio

FINE = NOW + timedelta(microseconds=123_456)
PROGRESS = ImportProgress("ab" * 32, 2**40, 1, 2, 3, FINE)
SKIPPED = [
    SkippedRow(line, None if line % 2 else "é@x.org", f"reason {line}") for line in (1, 2, 9)
]


# Progress -------------------------------------------------------------------------------


async def stored_progress(store, fingerprint=PROGRESS.fingerprint):
    kept = await store.run_transaction(lambda unit: unit.imports.lock_progress(fingerprint))
    return kept, list(
        await read_store(store, lambda view: view.imports.skipped_rows(fingerprint, 0, 100))
    )


async def save(store, progress, skipped=()):
    await store.run_transaction(lambda unit: unit.imports.save_progress(progress, skipped))


async def test_progress_is_stored_as_saved(store):
    """Progress is stored with its skipped rows by line, and another file has none."""
    await save(store, PROGRESS, SKIPPED[::-1])
    assert await stored_progress(store) == (PROGRESS, SKIPPED)
    assert await stored_progress(store, "cd" * 32) == (None, [])


async def test_progress_is_replaced(store):
    """Saving progress again replaces it, and adds the given skipped rows."""
    await save(store, PROGRESS, SKIPPED[:2])
    later = evolve(PROGRESS, line=9, imported=7, updated=8, skipped=9, at=NOW)
    await save(store, later, SKIPPED[2:])
    assert await stored_progress(store) == (later, SKIPPED)


async def test_skipped_rows_have_pages(store):
    """A page of skipped rows begins above a line, and has a limit."""
    await save(store, PROGRESS, SKIPPED)
    page = read_store(store, lambda view: view.imports.skipped_rows(PROGRESS.fingerprint, 1, 1))
    assert list(await page) == SKIPPED[1:2]


async def test_deleted_progress_leaves_nothing(store):
    """Deleting progress deletes it with its skipped rows, and no progress of another file."""
    other = evolve(PROGRESS, fingerprint="cd" * 32)
    for progress in (PROGRESS, other):
        await save(store, progress, SKIPPED)
    await store.run_transaction(lambda unit: unit.imports.delete_progress(PROGRESS.fingerprint))
    assert await stored_progress(store) == (None, [])
    assert await stored_progress(store, other.fingerprint) == (other, SKIPPED)


async def test_abandoned_progress_expires(store):
    """Progress last saved 30 days ago is deleted with its rows, and newer progress is not."""
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
    assert await stored_progress(store, old.fingerprint) == (None, [])
    assert await stored_progress(store, recent.fingerprint) == (recent, SKIPPED)


async def test_an_import_that_is_being_deleted_begins_anew(store):
    """An import of which a first batch of skipped rows is deleted begins at line 0, and skipped no
    row yet."""
    skipped = [SkippedRow(line, None, "is odd") for line in range(1, 1_202)]
    await save(store, evolve(PROGRESS, line=1_201, skipped=1_201, at=NOW), skipped)
    await store.delete_expired(NOW + 30 * DAY, POLICY)
    begun = await begin_import(memory_ports(store=store), PROGRESS.fingerprint)
    assert (begun.line, begun.row_count) == (0, 0)
    assert await stored_progress(store) == (begun, [])


# Users ----------------------------------------------------------------------------------


def new_staff_member(email, **given):
    """A new staff user, and a companion with the same names."""
    companion = make_companion(id=0, **given)
    names = {"first_name": companion.first_name, "last_name": companion.last_name}
    return make_new_user(email=email, role=Role.STAFF, **names), companion


async def users_by_email(store, *emails):
    return list(await store.run_transaction(lambda unit: unit.imports.lock_users_by_email(emails)))


async def test_users_are_found_by_email(store):
    """Users of any role are found by e-mail in any case, once each, by id, with companions."""
    customer = await add_user(store, email="Ada@x.org")
    staff = await add_user(store, email="Bo@x.org", role=Role.STAFF)
    await store.run_transaction(
        lambda unit: unit.imports.add_staff_members([new_staff_member("cy@x.org")])
    )
    ada, bo, cy = await users_by_email(
        store, "CY@x.org", "bo@x.org", "BO@x.org", "ada@x.org", "no@x.org"
    )
    assert (ada, bo) == ((customer, None), (staff, None))
    assert (cy[0].email, cy[1]) == ("cy@x.org", make_companion(id=cy[0].id))
    assert await users_by_email(store) == []


async def test_added_users_have_ids_in_their_order(store):
    """Added users get ids in the order of the batch, and companions the ids of their users."""
    names = ["c@x.org", "a@x.org", "b@x.org"]
    await store.run_transaction(
        lambda unit: unit.imports.add_staff_members([new_staff_member(each) for each in names])
    )
    found = await users_by_email(store, *names)
    assert [user.email for user, _ in found] == names
    assert [companion.id for _, companion in found] == [user.id for user, _ in found]


async def test_a_taken_email_refuses_all(store):
    """A taken e-mail raises ConstraintViolated(EMAIL_TAKEN), and adds nothing of the batch."""
    await add_user(store, email="Bo@x.org")
    batch = [new_staff_member("a@x.org"), new_staff_member("bo@X.org")]
    with pytest.raises(ConstraintViolated, match=EMAIL_TAKEN):
        await store.run_transaction(lambda unit: unit.imports.add_staff_members(batch))
    assert await users_by_email(store, "a@x.org") == []


async def test_an_empty_batch_is_accepted(store):
    """Adding and saving an empty batch raises nothing."""
    await store.run_transaction(lambda unit: unit.imports.add_staff_members([]))
    await store.run_transaction(lambda unit: unit.imports.save_staff_members([]))


async def test_users_are_stored_as_saved(store):
    """Saving a staff member stores every field of the user, and changes no other user."""
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
    assert await users_by_email(store, "ase@x.org", bo.email) == [(changed, companion), (bo, None)]


async def test_sessions_of_several_users_end(store):
    """`end_sessions_of_users` deletes all sessions of the given users, and no others."""
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


# Batches and single saves ------------------------------------------------------------------

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


async def add_known_staff(store, run):
    """Add `KNOWN` staff members with bookings: one with reviews, one with portfolio items, one
    suspended, one disabled."""
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
    """Save each user and companion alone, as the reference for a batch."""

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


async def save_staff(store, save_batch, run, changed, new):
    """Save changed and new staff members; gives the known ids and the new e-mails."""
    known = await add_known_staff(store, run)
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
        new_staff_member(f"new{number}of{run}@x.org", **fields, location_country=f"land{run}")
        for number, fields in enumerate(new)
    ]
    await save_batch(store, saved, added)
    emails = [person.email for person, _ in added]
    return [companion.id for companion in known], emails


async def seen(store, run, ids, emails):
    """Everything that the queries of the store give for these staff members."""
    new = await users_by_email(store, *emails)
    async with store.read_view() as view:
        found = [
            [json.loads(one)["id"] for one in (await view.companions.search(query)).summaries]
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
async def test_a_batch_equals_single_saves(store, reference, batch):
    """A batch gives the same users, searches, companions, details and service counts as saving each
    staff member alone in the memory store."""
    run = next(runs)
    expected = await seen(reference, run, *await save_staff(reference, one_by_one, run, *batch))
    assert await seen(store, run, *await save_staff(store, at_once, run, *batch)) == expected


@pytest.fixture
def reference():
    return MemoryStore(POLICY)
