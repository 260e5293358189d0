"""Who is away is told of new messages by mail: once, until they read again (CONTRACT 6).

Messages are gone through once, in the order of their ids, when they are old enough to have
been read by whoever was about to. How far that went is locked by whoever goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile

from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.domain.notifications.notifications import (
    Notification,
    new_message_notification,
)
from staffbooking_core.ports import Ports, Transaction, UnreadMessage

MESSAGE_BATCH_SIZE = 200


async def notify_of_unread_messages(ports: Ports, limit: int = MESSAGE_BATCH_SIZE) -> int:
    """Note down who is to be told of messages, never what they say; how many messages were gone
    through. Who is connected, has read them, or was told since they read last, is not."""
    created_before = await ports.clock.business() - ports.policy.unread_notification_delay
    now = ports.clock.wall()
    async with ports.store.read_view() as view:
        following = await view.messages.all_messages_after(
            await view.messages.last_notified_id(), 1
        )
    if not _old_enough(following, created_before):
        return 0

    async def unit(tx: Transaction) -> int:
        after = await tx.messages.lock_last_notified_id()
        message_ids = [
            each.id
            for each in _old_enough(
                await tx.messages.all_messages_after(after, limit), created_before
            )
        ]
        if not message_ids:  # Another worker was quicker.
            return 0
        unread = await tx.messages.unread_messages(message_ids, now)
        await tx.messages.mark_notified(unread)
        await tx.notifications.add_notifications(_notifications(unread), now)
        await tx.messages.set_last_notified_id(message_ids[-1])
        return len(message_ids)

    return await ports.store.run_transaction(unit)


def _old_enough(messages: Sequence[Message], created_before: datetime) -> list[Message]:
    """Those that lie long enough; none behind one that doesn't, so that none is passed over."""
    return list(takewhile(lambda message: message.created_at <= created_before, messages))


def _notifications(unread: Sequence[UnreadMessage]) -> list[Notification]:
    """One for each person and conversation, with all who wrote in it."""
    senders: dict[tuple[int, int], dict[str, None]] = {}
    for each in unread:
        place = senders.setdefault((each.conversation_id, each.user_id), {})
        place[each.sender_name] = None
    return [
        new_message_notification(user_id, number, list(names))
        for (number, user_id), names in senders.items()
    ]
