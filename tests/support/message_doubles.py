"""What tests of messages put in the place of ports: a filter that can be read at a glance, and
ears that note what they hear."""

from __future__ import annotations

from attrs import define, field

from staffbooking_core.domain.messaging.conversations import Findings
from staffbooking_core.representations.channel import Tell

CURSE = "blast"
CONTACT = "ada@example.org"


class Sieve:
    """A content filter that knows one word and one sign."""

    async def find(self, text: str) -> Findings:
        return Findings(has_blocked_term=CURSE in text, has_contact="@" in text)


@define
class Heard:
    """Ears that note what they were told."""

    times: int = 0
    """Word of stored messages."""
    tells: list[Tell] = field(factory=list)

    def stored(self) -> None:
        self.times += 1

    def told(self, tell: Tell) -> None:
        self.tells.append(tell)
