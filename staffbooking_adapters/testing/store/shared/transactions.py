"""Contract of the stores: transactions are atomic, serial and isolated."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    POLICY,
    add_booking,
    add_companion,
    add_user,
    make_booking,
    make_booking_write,
    make_companion,
    make_event,
    make_new_api_key,
    make_new_user,
    make_posting,
    make_processor_event,
    make_rebooking_credit,
    make_refund_order,
    make_session,
    make_stored_response,
    next_booking_id,
    next_revision,
)
from staffbooking_adapters.testing.store.base import StoreContract, count_due_work, read_store
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.alerts import Alert
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.ports import (
    BOOKING_OVERLAP,
    IDEMPOTENCY_KEY_TAKEN,
    PARTY_DISABLED,
    POSTING_KEY_TAKEN,
)


class _Stop(Exception):
    """The error that units of work in these tests raise."""


async def add_everything(tx, booking):
    """Add a row of each kind in the transaction; the booking exists before."""
    user = await tx.accounts.add_user(make_new_user(email="new@example.com"))
    await tx.accounts.add_session(make_session(user.id, "secret"))
    await tx.accounts.add_api_key(make_new_api_key(user.id))
    await tx.companions.save_companion(make_companion(id=user.id))
    change = make_booking_write(
        next_revision(booking, status=BookingStatus.CANCELLED),
        event=make_event(booking),
        postings=(make_posting(booking.id),),
        orders=(make_refund_order(),),
        alerts=(Alert("look"),),
        rebooking_credit=make_rebooking_credit(booking),
        response=make_stored_response(key="call"),
    )
    await tx.bookings.save_booking(change)
    await tx.inbox.add_event("fake", make_processor_event(event_id="pevt"), NOW)
    await tx.sandbox.set_clock_offset(HOUR)


async def contents(store, booking):
    """The number of rows of each kind, and the other values that `add_everything` changes."""
    async with store.read_view() as view:
        users = await view.accounts.users(0, 100)
        return {
            "users": len(users),
            "sessions": await view.accounts.session(make_session(1, "secret").digest) is not None,
            "keys": sum([len(await view.accounts.api_keys_of(user.id)) for user in users]),
            "companions": len(await view.companions.companions(0, 100)),
            "booking": await view.bookings.booking(booking.id),
            "events": len(await view.bookings.events_of(booking.id)),
            "postings": len(await view.ledger.postings_of(booking.id)),
            "operations": len(await view.operations.operations_of(booking.id)),
            "alerts": len(await view.alerts.alerts(100)),
            "credit": await view.bookings.rebooking_credit(booking.id),
            "answer": await view.idempotency.stored_response("key:1", "call", NOW),
            "due": await count_due_work(store, NOW + 100 * DAY),
            "offset": await view.sandbox.clock_offset(),
        }


class TransactionsContract(StoreContract):
    """Transactions are atomic, serial and isolated."""

    # All or nothing ---------------------------------------------------------------------------
    async def test_a_transaction_returns_its_result(self, store):
        """`run_transaction` returns the result of the unit of work, and all its changes are
        stored."""
        booking = await add_booking(store)
        before = await contents(store, booking)

        async def unit(tx):
            await add_everything(tx, booking)
            return "done"

        assert await store.run_transaction(unit) == "done"
        after = await contents(store, booking)
        assert [name for name in after if after[name] == before[name]] == []

    async def test_a_failed_transaction_leaves_nothing(self, store):
        """A transaction that raises leaves no change, and the error reaches the caller."""
        booking = await add_booking(store)
        before = await contents(store, booking)

        async def unit(tx):
            await add_everything(tx, booking)
            raise _Stop

        with pytest.raises(_Stop):
            await store.run_transaction(unit)
        assert await contents(store, booking) == before

    async def test_a_violation_rolls_back_the_transaction(self, store):
        """A constraint violation undoes the changes made before it."""
        booking = await add_booking(store)
        before = await contents(store, booking)

        async def unit(tx):
            await add_everything(tx, booking)
            await tx.accounts.add_user(make_new_user(email="NEW@example.com"))

        with pytest.raises(ConstraintViolated):
            await store.run_transaction(unit)
        assert await contents(store, booking) == before

    async def test_a_cancelled_transaction_leaves_nothing(self, store):
        """A cancelled transaction is rolled back, and the next transaction succeeds."""
        booking, half_way = await add_booking(store), asyncio.Event()
        before = await contents(store, booking)

        async def unit(tx):
            await add_everything(tx, booking)
            half_way.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(store.run_transaction(unit))
        await half_way.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await contents(store, booking) == before
        await store.run_transaction(lambda tx: add_everything(tx, booking))
        assert (await contents(store, booking))["users"] == before["users"] + 1

    async def test_a_waiting_transaction_can_be_cancelled(self, store):
        """A transaction cancelled while it waits for a lock changes nothing."""
        entered, leave = asyncio.Event(), asyncio.Event()

        async def slow(tx):
            await tx.sandbox.lock_clock()
            entered.set()
            await leave.wait()
            await tx.sandbox.set_clock_offset(HOUR)

        async def other(tx):
            await tx.sandbox.lock_clock()
            await tx.sandbox.set_clock_offset(DAY)

        first = asyncio.create_task(store.run_transaction(slow))
        await entered.wait()
        second = asyncio.create_task(store.run_transaction(other))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        leave.set()
        await first
        assert await read_store(store, lambda view: view.sandbox.clock_offset()) == HOUR

    async def test_a_new_booking_comes_with_all_its_rows(self, store):
        """`add_booking` stores every part of the write."""
        companion, customer = await add_companion(store), await add_user(store)
        ids = {"id": await next_booking_id(store), "companion_id": companion.id}
        booking = make_booking(**ids, customer_id=customer.id)
        await store.add_booking(
            make_booking_write(
                booking,
                event=make_event(booking),
                postings=(make_posting(booking.id),),
                orders=(make_refund_order(),),
                alerts=(Alert("look"),),
                response=make_stored_response(key="call"),
            )
        )
        added = await contents(store, booking)
        assert added["booking"] == booking
        parts = ("events", "postings", "operations", "alerts", "due")
        assert [added[part] for part in parts] == [1, 1, 1, 1, 2]
        assert added["answer"] is not None

    @pytest.mark.parametrize(
        "constraint", [POSTING_KEY_TAKEN, IDEMPOTENCY_KEY_TAKEN, BOOKING_OVERLAP]
    )
    async def test_a_refused_booking_leaves_nothing(self, store, constraint):
        """When one part of an added booking violates a constraint, no part is stored."""
        companion, customer = await add_companion(store), await add_user(store)
        posting, answer = make_posting(1, key="pay:1"), make_stored_response(key="taken")
        first = await add_booking(store, companion, customer, starts_at=NOW + 9 * DAY)
        paid = next_revision(first, status=BookingStatus.PAID)
        posted = evolve(posting, booking_id=first.id)
        change = make_booking_write(paid, postings=(posted,), response=answer)
        await store.run_transaction(lambda unit: unit.bookings.save_booking(change))

        ids = {"id": await next_booking_id(store), "companion_id": companion.id}
        taken = (
            {"starts_at": first.starts_at, "status": BookingStatus.PAID}
            if constraint == BOOKING_OVERLAP
            else {}
        )
        booking = make_booking(**ids, customer_id=customer.id, **taken)
        before = await contents(store, booking)
        with pytest.raises(ConstraintViolated) as caught:
            await store.add_booking(
                make_booking_write(
                    booking,
                    event=make_event(booking),
                    orders=(make_refund_order(),),
                    alerts=(Alert("look"),),
                    postings=(evolve(posting, booking_id=booking.id),)
                    if constraint == POSTING_KEY_TAKEN
                    else (),
                    response=answer
                    if constraint == IDEMPOTENCY_KEY_TAKEN
                    else make_stored_response(key="call"),
                )
            )
        assert caught.value.constraint == constraint
        assert await contents(store, booking) == before

    # Repeating --------------------------------------------------------------------------------
    async def test_a_conflict_is_retried(self, store):
        """A unit of work that raises Conflict runs again, and its failed attempts are rolled
        back."""
        attempts = []

        async def unit(tx):
            attempts.append(await tx.sandbox.lock_clock())
            await tx.sandbox.set_clock_offset(HOUR)
            if len(attempts) < 3:
                raise Conflict

        await store.run_transaction(unit)
        assert attempts == [timedelta()] * 3
        assert await read_store(store, lambda view: view.sandbox.clock_offset()) == HOUR

    async def test_retries_of_a_conflict_are_limited(self, store):
        """A unit of work that always raises Conflict runs five times."""
        attempts = []

        async def unit(_):
            attempts.append(1)
            raise Conflict

        with pytest.raises(Conflict):
            await store.run_transaction(unit)
        assert len(attempts) == 5

    @pytest.mark.parametrize(
        "error", [_Stop(), ConstraintViolated(BOOKING_OVERLAP)], ids=["any", "constraint"]
    )
    async def test_other_errors_are_not_retried(self, store, error):
        """A unit of work that raises any other error runs once."""
        attempts = []

        async def unit(_):
            attempts.append(1)
            raise error

        with pytest.raises(type(error)):
            await store.run_transaction(unit)
        assert len(attempts) == 1

    async def test_a_stale_booking_is_retried(self, store):
        """Concurrent transactions that read and save one booking all take effect."""
        booking = await add_booking(store)

        async def unit(tx):
            before = await tx.bookings.lock_booking(booking.id)
            await tx.bookings.save_booking(make_booking_write(next_revision(before)))

        await asyncio.gather(*(store.run_transaction(unit) for _ in range(8)))
        assert (
            await read_store(store, lambda view: view.bookings.booking(booking.id))
        ).revision == 9

    # Side by side -----------------------------------------------------------------------------
    async def test_readers_see_what_is_committed(self, store):
        """A transaction sees its own writes at once, and others see them after the commit."""
        entered, leave = asyncio.Event(), asyncio.Event()

        async def unit(tx):
            user = await tx.accounts.add_user(make_new_user(email="new@example.com"))
            seen = await tx.accounts.user_by_email("new@example.com")
            entered.set()
            await leave.wait()
            return user, seen

        task = asyncio.create_task(store.run_transaction(unit))
        await entered.wait()
        early = await read_store(store, lambda view: view.accounts.user_by_email("new@example.com"))
        leave.set()
        user, seen = await task
        late = await read_store(store, lambda view: view.accounts.user_by_email("new@example.com"))
        assert (early, seen, late) == (None, user, user)

    async def test_a_lock_is_held_until_the_commit(self, store):
        """Concurrent transactions that count under a lock and then add stay within the limit."""
        user = await add_user(store)

        async def unit(tx):
            await tx.accounts.lock_user(user.id)
            if len(await tx.accounts.api_keys_of(user.id)) < POLICY.max_active_keys:
                await asyncio.sleep(0)
                await tx.accounts.add_api_key(make_new_api_key(user.id))

        await asyncio.gather(*(store.run_transaction(unit) for _ in range(12)))
        keys = await read_store(store, lambda view: view.accounts.api_keys_of(user.id))
        assert len(keys) == POLICY.max_active_keys

    @pytest.mark.parametrize(
        ("party", "changes"),
        [
            ("customer_id", {"disabled_at": NOW}),
            ("companion_id", {"disabled_at": NOW}),
            ("booked_by", {"disabled_at": NOW}),
            ("customer_id", {"role": Role.ADMIN}),
        ],
    )
    async def test_a_lost_party_cannot_be_booked(self, store, party, changes):
        """A booking added while a party is being disabled, or its customer gets another role,
        raises PARTY_DISABLED."""
        users = [await add_user(store), await add_user(store)]
        companion = await add_companion(store)
        parties = {
            "customer_id": users[0].id,
            "companion_id": companion.id,
            "booked_by": users[1].id,
        }
        booking = make_booking(id=await next_booking_id(store), **parties)
        tasks = []

        async def change(tx):
            user = await tx.accounts.lock_user(parties[party])
            await tx.accounts.save_user(evolve(user, **changes))
            tasks.append(asyncio.create_task(store.add_booking(make_booking_write(booking))))
            for _ in range(200):  # Time for a booking that does not wait for the lock.
                await tx.accounts.user(user.id)
                await asyncio.sleep(0)

        await store.run_transaction(change)
        with pytest.raises(ConstraintViolated) as caught:
            await tasks[0]
        assert caught.value.constraint == PARTY_DISABLED
        assert await read_store(store, lambda view: view.bookings.booking(booking.id)) is None

    @pytest.mark.parametrize("role", Role)
    async def test_who_books_for_a_customer_has_any_role(self, store, role):
        """A booking is stored whatever the role of who booked it for the customer."""
        booker = await add_user(store, role=role)
        booking = await add_booking(store, booked_by=booker.id)
        assert await read_store(store, lambda view: view.bookings.booking(booking.id)) == booking

    async def test_concurrent_bookings_of_a_slot_store_one(self, store):
        """Of ten concurrent overlapping bookings one is stored, and nine raise BOOKING_OVERLAP."""
        companion, customer = await add_companion(store), await add_user(store)

        async def book(hours):
            starts_at = NOW + DAY + hours * HOUR
            given = {"status": BookingStatus.ACCEPTED, "starts_at": starts_at, "duration_hours": 12}
            return await add_booking(store, companion, customer, **given)

        results = await asyncio.gather(*(book(n) for n in range(10)), return_exceptions=True)
        others = [repr(each) for each in results if not isinstance(each, Booking)]
        assert others == 9 * [repr(ConstraintViolated(BOOKING_OVERLAP))]

    async def test_concurrent_equal_calls_store_one(self, store):
        """Of concurrent bookings with the same idempotency key one is stored."""
        companion, customer, answer = (
            await add_companion(store),
            await add_user(store),
            make_stored_response(),
        )
        calls = [
            add_booking(store, companion, customer, change={"response": answer}) for _ in range(8)
        ]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(each, ConstraintViolated) for each in results) == 7

    async def test_concurrent_uses_of_a_credit_succeed_once(self, store):
        """Of concurrent uses of a rebooking credit one succeeds."""
        bookings = [await add_booking(store) for _ in range(6)]
        credit = make_rebooking_credit(bookings[0])
        change = make_booking_write(
            next_revision(bookings[0], status=BookingStatus.CANCELLED), rebooking_credit=credit
        )
        await store.run_transaction(lambda unit: unit.bookings.save_booking(change))
        uses = [
            store.run_transaction(
                lambda unit, n=booking.id: unit.bookings.use_rebooking_credit(credit, n)
            )
            for booking in bookings[1:]
        ]
        assert sorted(await asyncio.gather(*uses)) == [False] * 4 + [True]
