"""Contract of the stores: the sample's accounts, kept mails, and what comes next in a sandbox."""

from __future__ import annotations

import pytest
from attrs import asdict, evolve

from staffbooking_adapters.testing.builders import DAY, NOW, POLICY, SECOND, add_booking, add_user
from staffbooking_adapters.testing.store import OpenStore
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_core.domain.bookings.timers import next_timer
from staffbooking_core.ports import MAX_SENT_MAILS, NewSentMail, SandboxMark, SentMail, Transaction
from staffbooking_core.usecases import privacy
from tests.support.memory_deployment import memory_ports

pytestmark = pytest.mark.anyio


def make_mail(subject: str) -> NewSentMail:
    return NewSentMail(
        sent_at=NOW,
        recipient="ada@example.com",
        subject=subject,
        text="Hello\nAda",
        action="See more",
        url=None,
        unsubscribe_url="https://staffbooking.test/notifications/unsubscribe/x",
    )


async def add_mails(store: OpenStore, *subjects: str) -> None:
    mails = [make_mail(subject) for subject in subjects]
    await store.run_transaction(lambda tx: tx.sandbox.add_sent_mails(mails))


async def test_only_marked_accounts_are_the_samples(store: OpenStore) -> None:
    """The sample's accounts are those that were marked, by id; marking one again changes
    nothing."""
    users = [await add_user(store) for _ in range(3)]

    async def unit(tx: Transaction) -> None:
        for user in (users[2], users[0], users[2]):
            await tx.accounts.mark_sample_account(user.id)

    await store.run_transaction(unit)
    found = await read_store(store, lambda view: view.accounts.sample_accounts())
    assert [user.id for user in found] == [users[0].id, users[2].id]
    assert found[0] == users[0]


async def test_nobody_signs_in_to_a_closed_account_of_the_sample(store: OpenStore) -> None:
    """Disabled and erased accounts are not among the sample's."""
    users = [await add_user(store) for _ in range(2)]

    async def close(tx: Transaction) -> None:
        await tx.accounts.save_user(evolve(users[0], disabled_at=NOW))
        await tx.accounts.save_user(evolve(users[1], erased_at=NOW))
        for user in users:
            await tx.accounts.mark_sample_account(user.id)

    await store.run_transaction(close)
    assert list(await read_store(store, lambda view: view.accounts.sample_accounts())) == []


async def test_the_newest_mails_come_first(store: OpenStore) -> None:
    """Kept mails are listed in pages, the newest first."""
    await add_mails(store, "one", "two", "three")
    found = await read_store(store, lambda view: view.sandbox.sent_mails(2))
    assert [mail.subject for mail in found] == ["three", "two"]
    assert found[0] == SentMail(**asdict(make_mail("three"), recurse=False), id=found[0].id)
    rest = await read_store(store, lambda view: view.sandbox.sent_mails(2, found[-1].id))
    assert [mail.subject for mail in rest] == ["one"]
    later = await read_store(store, lambda view: view.sandbox.sent_mails_after(rest[0].id, 1))
    assert [mail.subject for mail in later] == ["two"]


async def test_a_bounded_number_of_mails_is_kept(store: OpenStore) -> None:
    """Beyond the limit the oldest mails are deleted, and ids are not used again."""
    await add_mails(store, *map(str, range(MAX_SENT_MAILS + 2)))
    found = await read_store(store, lambda view: view.sandbox.sent_mails(MAX_SENT_MAILS + 9))
    assert (len(found), found[-1].subject) == (MAX_SENT_MAILS, "2")
    await store.run_transaction(lambda tx: tx.sandbox.delete_sent_mails())
    assert list(await read_store(store, lambda view: view.sandbox.sent_mails(9))) == []
    await add_mails(store, "new")
    [new] = await read_store(store, lambda view: view.sandbox.sent_mails(9))
    assert new.id > found[0].id


async def test_the_mark_is_the_last_of_everything(store: OpenStore) -> None:
    """The mark has the id of the last mail and the last position in the feed; zero at first."""
    assert await read_store(store, lambda view: view.sandbox.mark()) == SandboxMark(0, 0)
    await add_mails(store, "one", "two")
    await add_booking(store)
    events = await read_store(store, lambda view: view.webhooks.unsequenced_events(9))

    async def place(tx: Transaction) -> None:
        await tx.webhooks.save_feed_positions([(event, 7) for event in events[:1]])

    await store.run_transaction(place)
    mails = await read_store(store, lambda view: view.sandbox.sent_mails(1))
    expected = SandboxMark(7 if events else 0, mails[0].id)
    assert await read_store(store, lambda view: view.sandbox.mark()) == expected


async def test_the_next_timer_is_the_first_after_now(store: OpenStore) -> None:
    """The next timer is the first that is due after an instant; none where all are past."""
    booking = await add_booking(store)
    due = next_timer(booking, POLICY)
    assert due is not None
    before = await read_store(store, lambda view: view.sandbox.next_timer(due.at - SECOND))
    assert (before.booking_id, before.booking_code) == (booking.id, booking.code)
    assert (before.kind, before.due_at) == (due.kind, due.at)
    after = await read_store(store, lambda view: view.sandbox.next_timer(due.at + 9 * DAY))
    assert after is None


async def test_erasure_deletes_the_kept_mails(store: OpenStore) -> None:
    """Erasing anybody deletes all kept mails: those to others may name the person."""
    await add_mails(store, "one", "two")
    user = await add_user(store)
    await privacy.erase_person(memory_ports(store=store), user.id)
    assert list(await read_store(store, lambda view: view.sandbox.sent_mails(9))) == []
