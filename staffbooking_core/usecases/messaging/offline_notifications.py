"""Who is away is told of new messages by mail: once, until they read again (CONTRACT 6).

Messages are gone through once, in the order of their ids, when they are old enough to have
been read by whoever was about to. How far that went is locked by whoever goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile

from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.domain.notifications.notifications import Notice, new_message
from staffbooking_core.ports import Ports, Unseen, Writing

BATCH = 200


async def tell_of_messages(ports: Ports, limit: int = BATCH) -> int:
    """Note down who is to be told of messages, never what they say; how many messages were gone
    through. Who is connected, has read them, or was told since they read last, is not."""
    before = await ports.clock.business() - ports.policy.away_after
    now = ports.clock.wall()
    async with ports.store.reading() as view:
        following = await view.messages.tail(await view.messages.told_upto(), 1)
    if not _lain(following, before):
        return 0

    async def unit(tx: Writing) -> int:
        after = await tx.messages.lock_told()
        numbers = [each.id for each in _lain(await tx.messages.tail(after, limit), before)]
        if not numbers:  # Another worker was quicker.
            return 0
        unseen = await tx.messages.unseen(numbers, now)
        await tx.messages.note_told(unseen)
        await tx.notices.add(_notices(unseen), now)
        await tx.messages.set_told(numbers[-1])
        return len(numbers)

    return await ports.store.write(unit)


def _lain(messages: Sequence[Message], before: datetime) -> list[Message]:
    """Those that lie long enough; none behind one that doesn't, so that none is passed over."""
    return list(takewhile(lambda message: message.created_at <= before, messages))


def _notices(unseen: Sequence[Unseen]) -> list[Notice]:
    """One for each person and conversation, with all who wrote in it."""
    senders: dict[tuple[int, int], dict[str, None]] = {}
    for each in unseen:
        place = senders.setdefault((each.conversation_id, each.user_id), {})
        place[each.sender_name] = None
    return [
        new_message(user_id, number, list(names)) for (number, user_id), names in senders.items()
    ]
