"""Notifications are sent in batches, which delay and fail no others."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.memory.accounts.store import AccountsReader
from staffbooking_adapters.memory.notifications.store import NotificationsWriter
from staffbooking_adapters.testing.builders import NOW, POLICY, SECOND, add_user
from staffbooking_adapters.testing.builders_notifications import add_notification, make_notification
from staffbooking_core.ports import Email, Lease, Ports
from staffbooking_core.usecases.notifications import notifications
from tests.usecases.notifications.notifiers import CallbackNotifier, add, failing, pass_time

pytestmark = pytest.mark.anyio


@pytest.fixture
async def crowd(ports: Ports) -> Ports:
    """A deployment with ten notifications for Ada."""
    for number in range(4, 11):
        await add(ports, f"No. {number}")
    return ports


async def test_batches_grow_while_emails_are_quick(
    crowd: Ports, notifier: CallbackNotifier
) -> None:
    """The first batch has one notification, the next ones a multiple of the last, within the
    limit."""
    claimed: list[int] = []
    claim = NotificationsWriter.claim_notifications

    async def count(self: Any, now: datetime, lease: Lease, limit: int) -> Any:
        claimed.append(limit)
        return await claim(self, now, lease, limit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NotificationsWriter, "claim_notifications", count)
        assert await notifications.send_notifications(crowd, 9) == 9
    growth = notifications.BATCH_GROWTH
    assert claimed == [1, growth, 9 - 1 - growth]
    assert len(notifier.letters) == 9


async def test_a_slow_email_ends_its_batch(crowd: Ports, notifier: CallbackNotifier) -> None:
    """When a batch has taken too long, the notifications that it did not start are released, and
    the next batch has one."""
    held_up: list[list[str]] = []

    async def be_slow(letter: Email) -> None:
        if letter.subject in ("three", "No. 4"):
            pass_time(crowd, crowd.clock.wall() + notifications.MAX_BATCH_DURATION + SECOND)
        if letter.subject in ("No. 4", "No. 5"):
            other = CallbackNotifier()
            await notifications.send_notifications(evolve(crowd, notifier=other), 1)
            held_up.append(other.told)

    notifier.before = be_slow
    await notifications.send_notifications(crowd, 5)
    assert notifier.told == ["one", "two", "three", "No. 4", "No. 6"]
    assert held_up == [["No. 5"]]


async def send_with_slow_database(crowd: Ports, delay: timedelta) -> list[int]:
    """Send notifications while the database takes so long to claim them and to read recipients;
    returns the sizes of the batches."""
    claimed: list[int] = []
    claim, read = NotificationsWriter.claim_notifications, AccountsReader.find_users

    async def claim_slowly(self: Any, now: datetime, lease: Lease, limit: int) -> Any:
        claimed.append(limit)
        pass_time(crowd, crowd.clock.wall() + delay)
        return await claim(self, now, lease, limit)

    async def read_slowly(self: Any, user_ids: Collection[int], emails: Collection[str]) -> Any:
        pass_time(crowd, crowd.clock.wall() + delay)
        return await read(self, user_ids, emails)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NotificationsWriter, "claim_notifications", claim_slowly)
        patch.setattr(AccountsReader, "find_users", read_slowly)
        await notifications.send_notifications(crowd, 1_000, lambda: len(claimed) == 10)
    return claimed


async def test_a_slow_database_ends_no_batch(crowd: Ports, notifier: CallbackNotifier) -> None:
    """The time that claims and recipients take leaves a batch its own for e-mails."""
    sizes = await send_with_slow_database(crowd, 2 * notifications.MAX_BATCH_DURATION)
    growth = notifications.BATCH_GROWTH
    assert (sizes, len(notifier.told)) == ([growth**n for n in range(4)], 10)


async def test_a_batch_whose_lease_is_short_has_one_email(
    crowd: Ports, notifier: CallbackNotifier
) -> None:
    """Where the database takes longer than a lease, a batch starts its first e-mail and releases
    the others."""
    sizes = await send_with_slow_database(crowd, POLICY.lease_duration)
    assert sizes == [1, notifications.BATCH_GROWTH] * 5
    assert len(set(notifier.told)) == len(notifier.told) == 9


async def test_a_failed_email_leaves_its_batch(crowd: Ports, notifier: CallbackNotifier) -> None:
    """The failed notifications of a batch are deferred, the others are finished."""
    notifier.before = failing("three", "No. 5")
    assert await notifications.send_notifications(crowd) == 10
    pass_time(crowd, NOW + POLICY.notification_retry_delays[0])
    notifier.before = None
    notifier.letters.clear()
    assert await notifications.send_notifications(crowd) == 2
    assert notifier.told == ["three", "No. 5"]


async def test_a_recipient_who_cannot_be_read_fails_alone(
    crowd: Ports, notifier: CallbackNotifier
) -> None:
    """A recipient who can't be read prevents no e-mail to others; their own is deferred."""
    unreadable = await add_user(crowd.store)
    await add_notification(
        crowd.store, make_notification(unreadable.id, subject="lost"), NOW - SECOND
    )
    read = AccountsReader.find_users

    async def fail(self: Any, user_ids: Collection[int], emails: Collection[str]) -> Any:
        if unreadable.id in user_ids:
            raise ValueError("not a role")
        return await read(self, user_ids, emails)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AccountsReader, "find_users", fail)
        assert await notifications.send_notifications(crowd) == 11
    assert len(notifier.told) == 10
    pass_time(crowd, NOW + POLICY.notification_retry_delays[0])
    assert await notifications.send_notifications(crowd) == 1
    assert notifier.told[-1] == "lost"


async def test_no_email_is_started_once_it_should_stop(
    crowd: Ports, notifier: CallbackNotifier
) -> None:
    """Once it should stop, the e-mail in flight is finished; the others of its batch can be sent by
    another worker at once."""
    assert (
        await notifications.send_notifications(
            crowd, should_stop=lambda: notifier.told[-1:] == ["three"]
        )
        == 3
    )
    assert notifier.told == ["one", "two", "three"]
    other = CallbackNotifier()
    assert await notifications.send_notifications(evolve(crowd, notifier=other)) == 7
