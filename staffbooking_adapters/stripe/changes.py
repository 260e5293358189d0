"""The events of a while, asked for: what heals webhooks that never came.

The cursor is the time of the newest event that was seen, by Stripe's own clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stripe import Event, V1Services

from staffbooking_adapters.stripe.events import OF_PAYEES, TYPES, nudges
from staffbooking_adapters.stripe.marks import Marks
from staffbooking_adapters.stripe.reading import every
from staffbooking_core.domain.payments.processor import Nudge

OVERLAP: Final = 10 * 60
"""Seconds before the cursor that are read again: events do not appear in order."""

FIRST_LOOK: Final = 24 * 60 * 60
KEPT: Final = 30 * 24 * 60 * 60
"""Seconds that Stripe keeps events for."""

SHORTEST: Final = 10 * 60
"""Seconds that are asked for at once where much happened; else ever more, by doubling."""

PAGE: Final = 100
ENOUGH: Final = 1000
"""After a long outage there is more than one call can read in its time: past so many events
it ends, and the cursor tells where the next one goes on."""

_TYPES: Final = [*TYPES, OF_PAYEES]


async def changes(api: V1Services, marks: Marks, cursor: str | None) -> tuple[Sequence[Nudge], str]:
    """The oldest first. Raises the SDK's errors."""
    newest = (await api.events.list_async({"types": _TYPES, "limit": 1})).data
    if not newest:
        return (), cursor or "0"
    end, window = newest[0].created, SHORTEST
    start = end - FIRST_LOOK if cursor is None else max(int(cursor) - OVERLAP, end - KEPT)
    found: list[Event] = []
    # What was seen before does not count: each call gets beyond its cursor.
    while start <= end and (len(found) < ENOUGH or start <= int(cursor or 0)):
        page = await api.events.list_async(
            {"types": _TYPES, "created": {"gte": start, "lt": start + window}, "limit": PAGE}
        )
        if page.has_more and window > SHORTEST:
            window = SHORTEST
            continue
        found += reversed(await every(page))
        start += window
        window *= 2
    told = tuple(nudge for event in found for nudge in nudges(event.to_dict(), marks))
    return told, str(min(start, end))
