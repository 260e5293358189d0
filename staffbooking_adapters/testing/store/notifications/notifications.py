"""Contract of the stores: pending notifications and notification preferences."""

from __future__ import annotations

import asyncio

import pytest

from staffbooking_adapters.testing.builders import (
    DAY,
    NOW,
    POLICY,
    SECOND,
    add_booking,
    add_user,
    make_booking_write,
    make_lease,
    next_revision,
)
from staffbooking_adapters.testing.builders_notifications import add_notification, make_notification
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.notifications.inquiries import Inquiry, NewInquiry
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.ports import Backlog, DueNotification

LEASE = POLICY.lease_duration


async def add(store, *subjects):
    """Adds notifications with these subjects, one second apart."""
    return [
        await add_notification(store, make_notification(subject=subject), NOW + n * SECOND)
        for n, subject in enumerate(subjects)
    ]


async def claim(store, now=NOW + 60 * SECOND, lease=None, limit=10):
    lease = lease or make_lease(now)
    return list(
        await store.run_transaction(
            lambda tx: tx.notifications.claim_notifications(now, lease, limit)
        )
    )


async def finish(store, notification_ids, lease):
    await store.run_transaction(
        lambda tx: tx.notifications.finish_notifications(notification_ids, lease)
    )


async def release(store, notification_ids, lease):
    await store.run_transaction(
        lambda tx: tx.notifications.release_notifications(notification_ids, lease)
    )


async def mute(store, user_id, *kinds):
    async def unit(tx):
        for kind in kinds:
            await tx.notifications.mute(user_id, kind)

    await store.run_transaction(unit)


async def defer(store, notification_id, lease, until):
    await store.run_transaction(
        lambda tx: tx.notifications.defer_notification(notification_id, lease, until)
    )


async def subjects_of(store, now=NOW + 60 * SECOND, limit=10):
    return [due.notification.subject for due in await claim(store, now, limit=limit)]


class NotificationsContract(StoreContract):
    """Pending notifications and notification preferences."""

    async def test_a_notification_is_claimed_as_it_was_added(self, store):
        """A notification is claimed as stored, under its own id, once per lease."""
        notifications = [
            make_notification(),
            make_notification(
                None, kind=NotificationKind.INQUIRY, link="/", address="ada@example.com"
            ),
        ]
        await store.run_transaction(
            lambda tx: tx.notifications.add_notifications(notifications, NOW)
        )
        claimed = await claim(store, NOW)
        assert [due.notification for due in claimed] == notifications
        assert [due.attempts for due in claimed] == [0, 0]
        assert len({due.id for due in claimed}) == 2
        assert await claim(store, NOW + LEASE - SECOND) == []

    async def test_a_notification_is_not_claimed_before_its_due_time(self, store):
        """A notification is claimed from its due time on."""
        await add(store, "one", "two")
        assert await subjects_of(store, NOW + SECOND - SECOND / 2) == ["one"]
        assert await subjects_of(store, NOW + SECOND) == ["two"]

    async def test_due_notifications_are_in_the_backlog(self, store):
        """The backlog counts due notifications, with the age of the oldest by wall time."""
        await store.run_transaction(lambda tx: tx.sandbox.set_clock_offset(DAY))
        await add(store, "one", "two", "three")
        found = await read_store(store, lambda view: view.metrics.backlog(NOW + SECOND))
        assert found == [Backlog("notification", 2, 1.0)]

    async def test_the_longest_overdue_notifications_are_claimed_first(self, store):
        """The longest due notifications are claimed first, up to the limit."""
        await add_notification(store, make_notification(subject="three"), NOW + 30 * SECOND)
        await add(store, "one", "two")
        assert [await subjects_of(store, limit=2), await subjects_of(store)] == [
            ["one", "two"],
            ["three"],
        ]

    async def test_a_notification_can_be_claimed_when_the_lease_ends(self, store):
        """An expired claim returns the notification to its place without counting a try."""
        await add(store, "one", "two")
        [first] = await claim(store, NOW + SECOND, limit=1)
        again = await claim(store, NOW + SECOND + LEASE)
        assert [due.notification.subject for due in again] == ["one", "two"]
        assert again[0] == first

    async def test_finished_notifications_are_deleted(self, store):
        """Finished notifications are deleted, and no other with them."""
        await add(store, "one", "two", "three")
        lease = make_lease()
        first, _, third = await claim(store, lease=lease)
        await finish(store, [third.id, first.id], lease)
        assert await subjects_of(store, NOW + 60 * SECOND + LEASE) == ["two"]

    async def test_a_released_notification_keeps_its_place(self, store):
        """Released notifications can be claimed at once, in their place and without counting a
        try; the others stay claimed."""
        await add(store, "one", "two", "three", "four")
        lease, now = make_lease(NOW + 60 * SECOND), NOW + 60 * SECOND
        first, second, third = await claim(store, now, lease, limit=3)
        await release(store, [third.id, second.id], lease)
        again = await claim(store, now)
        assert again[:2] == [second, third]
        assert [due.notification.subject for due in again[2:]] == ["four"]
        assert await claim(store, lease.until) == [first, second, third, again[2]]

    async def test_a_deferred_notification_waits(self, store):
        """A deferred notification is due at its new time, whatever the lease; each deferral
        counts."""
        [notification] = await add(store, "one")
        lease, until = make_lease(NOW + SECOND), NOW + 10 * SECOND
        [due] = await claim(store, NOW + SECOND, lease)
        await defer(store, due.id, lease, until)
        assert await claim(store, until - SECOND) == []
        assert await claim(store, until) == [DueNotification(due.id, notification, 1)]

    async def test_a_lost_claim_changes_nothing(self, store):
        """A lost claim can neither finish, defer nor release the notification."""
        await add(store, "one")
        lost, later = make_lease(), NOW + 60 * SECOND + LEASE
        [due] = await claim(store, lease=lost)
        lease = make_lease(later)
        await claim(store, later, lease)
        await finish(store, [due.id], lost)
        await defer(store, due.id, lost, NOW)
        await release(store, [due.id], lost)
        assert await claim(store, later) == []
        assert await claim(store, later + LEASE) == [due]

    async def test_finishing_twice_does_nothing(self, store):
        """Finishing an unclaimed, unknown or finished notification does nothing."""
        await add(store, "one", "two")
        lease = make_lease()
        [due] = await claim(store, lease=lease, limit=1)
        for each in ([due.id], [due.id, due.id + 1, 404], []):
            await finish(store, each, lease)
        assert await subjects_of(store, NOW + 60 * SECOND + LEASE) == ["two"]

    async def test_a_claim_is_rolled_back_with_its_transaction(self, store):
        """A rolled-back transaction returns the notifications that it claimed."""
        await add(store, "one")

        async def unit(tx):
            assert len(await tx.notifications.claim_notifications(NOW, make_lease(), 10)) == 1
            raise LookupError

        with pytest.raises(LookupError):
            await store.run_transaction(unit)
        assert await subjects_of(store) == ["one"]

    async def test_workers_share_the_notifications(self, store):
        """Concurrent claims give each notification to one worker."""
        await add(store, *(f"No. {n:02}" for n in range(12)))
        batches = await asyncio.gather(*(subjects_of(store, limit=3) for _ in range(6)))
        batches.append(await subjects_of(store, limit=20))
        assert sorted(each for batch in batches for each in batch) == [
            f"No. {n:02}" for n in range(12)
        ]

    async def test_notifications_are_saved_with_their_booking(self, store):
        """Notifications of a new and of a saved booking are stored in order and due at once."""
        expected = [
            make_notification(subject="one", link="/a"),
            make_notification(2, subject="two"),
        ]
        booking = await add_booking(store, change={"notifications": expected[:1]})
        change = make_booking_write(next_revision(booking), notifications=tuple(expected))
        await store.run_transaction(lambda tx: tx.bookings.save_booking(change))
        assert [due.notification for due in await claim(store, NOW)] == [*expected[:1], *expected]

    async def test_a_failed_transition_stores_no_notification(self, store):
        """A rolled-back transition stores no notification."""
        booking = await add_booking(store)
        change = make_booking_write(booking, notifications=(make_notification(),))

        async def unit(tx):
            await tx.bookings.save_booking(
                make_booking_write(next_revision(booking), notifications=change.notifications)
            )
            raise LookupError

        with pytest.raises(LookupError):
            await store.run_transaction(unit)
        assert await claim(store) == []

    async def test_muted_kinds_are_read_for_many_users(self, store):
        """The muted kinds of many users are read at once, and of no others."""
        ada, sam, eve = [await add_user(store) for _ in range(3)]
        await mute(store, sam.id, NotificationKind.PAYOUT, NotificationKind.ACCEPTED)
        await mute(store, eve.id, NotificationKind.PAYOUT)
        async with store.read_view() as view:
            found = await view.notifications.muted_kinds_of_all([ada.id, sam.id])
            assert {number: kinds for number, kinds in found.items() if kinds} == {
                sam.id: {NotificationKind.PAYOUT, NotificationKind.ACCEPTED}
            }
            assert await view.notifications.muted_kinds_of_all([]) == {}

    async def test_a_kind_is_muted_for_one_user(self, store):
        """A kind is muted for one user until it is unmuted; repetition is no error."""
        ada, sam = await add_user(store), await add_user(store)

        async def unmute(tx):
            for _ in "ab":
                await tx.notifications.unmute(ada.id, NotificationKind.PAYOUT)

        kinds = NotificationKind.PAYOUT, NotificationKind.NEW_MESSAGE
        await mute(store, ada.id, *kinds, NotificationKind.PAYOUT)
        async with store.read_view() as view:
            assert await view.notifications.muted_kinds_of(ada.id) == {
                NotificationKind.PAYOUT,
                NotificationKind.NEW_MESSAGE,
            }
            assert await view.notifications.muted_kinds_of(sam.id) == frozenset()
        await store.run_transaction(unmute)
        async with store.read_view() as view:
            assert await view.notifications.muted_kinds_of(ada.id) == {NotificationKind.NEW_MESSAGE}

    async def test_an_unknown_muted_kind_hides_no_known_one(self, store):
        """An unknown muted kind does not hide a known one."""
        ada = await add_user(store)

        await mute(store, ada.id, NotificationKind.PAYOUT, "carrier_pigeon")
        async with store.read_view() as view:
            assert NotificationKind.PAYOUT in await view.notifications.muted_kinds_of(ada.id)
            found = await view.notifications.muted_kinds_of_all([ada.id])
            assert NotificationKind.PAYOUT in found[ada.id]

    async def test_inquiries_are_stored(self, store):
        """Inquiries are stored as received and listed in order from a given id."""
        texts = ["How much?", "Caf\N{LATIN SMALL LETTER E WITH ACUTE}\nat noon?", "Hello"]
        stored = []
        for text in texts:
            new = NewInquiry("Ada", "ada@example.com", "", text, NOW)
            stored.append(
                await store.run_transaction(lambda tx, new=new: tx.notifications.add_inquiry(new))
            )
        assert all(isinstance(each, Inquiry) for each in stored)
        async with store.read_view() as view:
            assert await view.notifications.inquiries(0, 2) == stored[:2]
            assert await view.notifications.inquiries(stored[0].id, 10) == stored[1:]
