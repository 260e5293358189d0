"""What tests of messages put in the place of ports: a filter that can be read at a glance, and
ears that note what they hear."""

from __future__ import annotations

from attrs import define, field

from staffbooking_core.domain.messaging.conversations import ContentFindings
from staffbooking_core.representations.channel import Broadcast

BLOCKED_TERM = "blast"
CONTACT_TEXT = "ada@example.org"


class SimpleContentFilter:
    """A content filter that knows one word and one sign."""

    async def scan(self, text: str) -> ContentFindings:
        return ContentFindings(has_blocked_term=BLOCKED_TERM in text, has_contact="@" in text)


@define
class RecordingSubscriber:
    """Ears that note what they were told."""

    stored_count: int = 0
    """Word of stored messages."""
    broadcasts: list[Broadcast] = field(factory=list)

    def on_messages_stored(self) -> None:
        self.stored_count += 1

    def on_broadcast(self, broadcast: Broadcast) -> None:
        self.broadcasts.append(broadcast)
