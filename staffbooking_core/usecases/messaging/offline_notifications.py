"""E-mail notifications of unread messages for offline users: one per conversation, until its reader
reads again (CONTRACT 6).

1. The cursor of the last processed message is locked, so that one worker proceeds at a time.
2. The next messages are read by id, as far as they are old enough to count as unread.
3. Recipients who are online, have read them, or were notified since they last read are left out.
   So are those who get no such e-mails at present, who would count as notified without one.
4. Notifications and the new cursor are saved in the same transaction.
5. Recipients who were online are looked at again some time after their last connection ended.
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
from staffbooking_core.validation import validated

_MESSAGE_BATCH_SIZE = 200
_DEPARTED_USER_BATCH_SIZE = 20


@validated
async def notify_of_unread_messages(ports: Ports, limit: int = _MESSAGE_BATCH_SIZE) -> int:
    """Store notifications of unread messages, without their content; returns the number of messages
    processed. Locks the cursor."""
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
        if not message_ids:  # Another worker processed them.
            return 0
        unread = await tx.messages.unread_messages(message_ids, now)
        await tx.messages.mark_notified(unread)
        await tx.notifications.add_notifications(_notifications(unread), now)
        await tx.messages.set_last_notified_id(message_ids[-1])
        return len(message_ids)

    return await ports.store.run_transaction(unit)


@validated
async def notify_departed_users(ports: Ports, limit: int = _DEPARTED_USER_BATCH_SIZE) -> int:
    """Store notifications of messages that arrived while their readers were connected, and that
    were not read; returns the number of users who were looked at. Locks the cursor."""
    now = ports.clock.wall()
    seen_before = now - ports.policy.unread_notification_delay

    async def unit(tx: Transaction) -> int:
        # Locked first, as by `notify_of_unread_messages`, which notifies of later messages.
        max_id = await tx.messages.lock_last_notified_id()
        user_ids = await tx.presence.claim_departed_users(seen_before, limit)
        if user_ids:
            missed = await tx.messages.missed_messages(user_ids, max_id, now)
            await tx.messages.mark_notified(missed)
            await tx.notifications.add_notifications(_notifications(missed), now)
        return len(user_ids)

    return await ports.store.run_transaction(unit)


def _old_enough(messages: Sequence[Message], created_before: datetime) -> list[Message]:
    """The messages up to the first that is too recent, so that none is skipped."""
    return list(takewhile(lambda message: message.created_at <= created_before, messages))


def _notifications(unread: Sequence[UnreadMessage]) -> list[Notification]:
    """One notification per user and conversation, with the names of all senders."""
    senders: dict[tuple[int, int], dict[str, None]] = {}
    for each in unread:
        place = senders.setdefault((each.conversation_id, each.user_id), {})
        place[each.sender_name] = None
    return [
        new_message_notification(user_id, number, list(names))
        for (number, user_id), names in senders.items()
    ]
