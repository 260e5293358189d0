"""Test doubles of message ports: a simple content filter, and a subscriber that records."""

from __future__ import annotations

from attrs import define, field

from staffbooking_core.domain.messaging.conversations import ContentFindings
from staffbooking_core.representations.channel import Broadcast

BLOCKED_TERM = "blast"
CONTACT_TEXT = "ada@example.org"


class SimpleContentFilter:
    """A content filter that finds one blocked term, and `@` as contact details."""

    async def scan(self, text: str) -> ContentFindings:
        return ContentFindings(has_blocked_term=BLOCKED_TERM in text, has_contact="@" in text)


@define
class RecordingSubscriber:
    """A subscriber that records what it receives."""

    stored_count: int = 0
    """The number of calls of `on_messages_stored`."""
    broadcasts: list[Broadcast] = field(factory=list)

    def on_messages_stored(self) -> None:
        self.stored_count += 1

    def on_broadcast(self, broadcast: Broadcast) -> None:
        self.broadcasts.append(broadcast)
