"""Offline users get one e-mail about new messages, without their content."""

from __future__ import annotations

import pytest

from staffbooking_adapters.memory.doubles import RecordingNotifier
from staffbooking_adapters.testing.builders import HOUR, NOW, POLICY, SECOND
from staffbooking_adapters.testing.builders_messages import add_direct, add_group, add_messages_by
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.ports import Email, Ports, Transaction
from staffbooking_core.usecases import due_work
from staffbooking_core.usecases.messaging import offline_notifications
from staffbooking_core.usecases.notifications import notifications
from tests.support.memory_deployment import memory_ports

pytestmark = pytest.mark.anyio

LONG_AGO = NOW - POLICY.unread_notification_delay


@pytest.fixture
def ports() -> Ports:
    return memory_ports()


async def letters(ports: Ports) -> list[Email]:
    """The sent e-mails about messages."""
    await notifications.send_notifications(ports)
    assert isinstance(ports.notifier, RecordingNotifier)
    return [each for each in ports.notifier.emails if each.kind is NotificationKind.NEW_MESSAGE]


async def test_who_has_not_read_is_told(ports: Ports) -> None:
    """An unread message sends one e-mail with the sender's name and an unsubscribe link."""
    talk = await add_direct(ports.store)
    await add_messages_by(
        ports.store, talk, "the code of the door is 1234", "really", created_at=LONG_AGO
    )
    assert await offline_notifications.notify_of_unread_messages(ports) == 2
    assert await offline_notifications.notify_of_unread_messages(ports) == 0
    [letter] = await letters(ports)
    assert letter.user_id == talk.companion_id
    assert letter.text.startswith("Ada Okoro wrote to you while you were away.")
    assert "1234" not in letter.text + letter.subject
    assert letter.unsubscribe_url is not None


async def test_a_message_waits_for_its_readers(ports: Ports) -> None:
    """A message is notified after the policy's delay of business time, and later ones after it."""
    talk = await add_direct(ports.store)
    await add_messages_by(ports.store, talk, "hello", created_at=LONG_AGO)
    await add_messages_by(ports.store, talk, "hello", created_at=LONG_AGO + SECOND)
    await add_messages_by(ports.store, talk, "hello", created_at=LONG_AGO)
    assert await offline_notifications.notify_of_unread_messages(ports) == 1
    ports.clock.advance(SECOND)  # type: ignore[attr-defined]
    assert await offline_notifications.notify_of_unread_messages(ports) == 2
    assert len(await letters(ports)) == 1


async def test_a_conversation_is_told_of_once(ports: Ports) -> None:
    """One e-mail per conversation has the names of all senders."""
    group, talk = await add_group(ports.store), await add_direct(ports.store)
    for user_id in group.recipient_ids:
        await add_messages_by(ports.store, group, "hello", by=user_id, created_at=LONG_AGO)
    await add_messages_by(ports.store, talk, "hello", created_at=LONG_AGO)
    assert await due_work.run_all_due(ports) > 0
    told = {letter.user_id: letter.text.partition(" wrote")[0] for letter in await letters(ports)}
    customer, mia, noa = (member.name for member in group.members)
    assert told == {
        group.customer_id: f"{mia} and {noa}",
        group.members[1].user_id: f"{customer} and {noa}",
        group.members[2].user_id: f"{customer} and {mia}",
        talk.companion_id: "Ada Okoro",
    }


async def test_a_batch_goes_on_where_the_last_one_ended(ports: Ports) -> None:
    """Small batches notify everybody once."""
    talk, other = await add_direct(ports.store), await add_direct(ports.store)
    for each in (talk, other, talk, other):
        await add_messages_by(ports.store, each, "hello", created_at=LONG_AGO)
    assert [await offline_notifications.notify_of_unread_messages(ports, 1) for _ in range(5)] == [
        1,
        1,
        1,
        1,
        0,
    ]
    assert [letter.user_id for letter in await letters(ports)] == [
        talk.companion_id,
        other.companion_id,
    ]


async def test_who_reads_is_told_of_what_comes_later(ports: Ports) -> None:
    """A user who has read is notified of later messages."""
    talk = await add_direct(ports.store)
    [one] = await add_messages_by(ports.store, talk, "hello", created_at=LONG_AGO)
    await offline_notifications.notify_of_unread_messages(ports)
    await ports.store.run_transaction(
        lambda tx: tx.messages.mark_read(talk.id, talk.companion_id or 0, one.id)
    )
    await add_messages_by(ports.store, talk, "hello", created_at=NOW)
    ports.clock.advance(HOUR)  # type: ignore[attr-defined]
    await offline_notifications.notify_of_unread_messages(ports)
    assert len(await letters(ports)) == 2


async def test_what_comes_after_unmuting_is_told(ports: Ports) -> None:
    """A message that its reader got no e-mail about does not prevent the e-mail about a later one,
    once the reader wants these e-mails again."""
    talk = await add_direct(ports.store)
    reader = talk.companion_id or 0
    for is_wanted in (False, True):
        await notifications.set_preferences(
            ports, reader, {NotificationKind.NEW_MESSAGE: is_wanted}
        )
        await add_messages_by(ports.store, talk, "hello", created_at=LONG_AGO)
        assert await offline_notifications.notify_of_unread_messages(ports) == 1
        assert len(await letters(ports)) == int(is_wanted)


async def test_who_left_without_reading_is_told(ports: Ports) -> None:
    """A message that arrived while its reader was connected is notified some time after the reader
    left, once, unless the reader is back."""
    talk = await add_direct(ports.store)
    reader = talk.companion_id or 0

    async def connect(tx: Transaction) -> None:
        await tx.presence.renew_node_lease("a", NOW + 9 * HOUR)
        await tx.presence.add_connection(reader, "a", ports.clock.wall(), 10)

    async def leave(tx: Transaction) -> None:
        await tx.presence.remove_connection(reader, "a", ports.clock.wall())

    await ports.store.run_transaction(connect)
    await add_messages_by(ports.store, talk, "hello", created_at=LONG_AGO)
    assert await offline_notifications.notify_of_unread_messages(ports) == 1
    await ports.store.run_transaction(leave)
    assert await offline_notifications.notify_departed_users(ports) == 0
    await ports.store.run_transaction(connect)
    ports.clock.advance(HOUR)  # type: ignore[attr-defined]
    assert await offline_notifications.notify_departed_users(ports) == 1
    assert await letters(ports) == []
    await ports.store.run_transaction(leave)
    ports.clock.advance(HOUR)  # type: ignore[attr-defined]
    assert await due_work.run_all_due(ports) > 0
    assert await offline_notifications.notify_departed_users(ports) == 0
    [letter] = await letters(ports)
    assert letter.text.startswith("Ada Okoro wrote to you while you were away.")
