"""The pull feed: the events of a user's bookings, from the oldest on and from the newest back
(CONTRACT 7)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field, frozen

from staffbooking_core.bounds import MAX_ID
from staffbooking_core.domain.accounts.users import Role, User
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import DEFAULT_WEBHOOK_EVENTS
from staffbooking_core.errors import RuleBroken
from staffbooking_core.ports import Ports, ReadView
from staffbooking_core.validation import validated

__all__ = ["FeedPage", "read_feed", "read_latest_events"]


@frozen
class FeedPage:
    """Events of a user's feed, the newest first."""

    events: Sequence[bytes] = field(repr=False)
    """Encoded envelopes."""
    names: frozenset[EventName]
    """The events that are in the feed at all."""
    next_before: int | None
    """Where the next page begins; None on the last one."""


@validated
async def read_feed(
    ports: Ports, user: User, after_event_id: str | None, limit: int
) -> tuple[Sequence[bytes], bool]:
    """The user's events after a given one, the oldest first, as encoded envelopes, and whether more
    follow (CONTRACT 7): the five default events, and those that one of the user's endpoints names
    now. Admins read those of all bookings.

    Raises RuleBroken `unknown_event` where `after_event_id` is no event of the user's bookings.
    """
    reader_id = _reader_id(user)
    async with ports.store.read_view() as view:
        position = (
            0
            if after_event_id is None
            else await view.webhooks.feed_position(after_event_id, reader_id)
        )
        if position is None:
            raise RuleBroken("unknown_event", "There is no such event in your feed")
        names = await _event_names(view, user)
        found = await view.webhooks.feed_events_after(reader_id, position, names, limit + 1)
    return found[:limit], len(found) > limit


@validated
async def read_latest_events(
    ports: Ports, user: User, before: int | None, name: EventName | None, limit: int
) -> FeedPage:
    """The newest events of the feed that `read_feed` reads, below the position `before` and of one
    name where given."""
    async with ports.store.read_view() as view:
        names = await _event_names(view, user)
        wanted = names if name is None else names & {name}
        found = await view.webhooks.feed_events_before(
            _reader_id(user), MAX_ID if before is None else before, wanted, limit + 1
        )
    page = found[:limit]
    return FeedPage(
        [body for _, body in page],
        names,
        page[-1][0] if len(found) > limit else None,
    )


def _reader_id(user: User) -> int | None:
    """The party whose bookings are in the feed; None for all bookings."""
    return None if user.role is Role.ADMIN else user.id


async def _event_names(view: ReadView, user: User) -> frozenset[EventName]:
    """The events in the feed: the default ones, and those that an endpoint of the user names."""
    own = await view.webhooks.endpoints_of(user.id)
    return DEFAULT_WEBHOOK_EVENTS.union(*(endpoint.events for endpoint in own))
