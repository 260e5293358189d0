"""A notifier with callbacks, and the notifications that it sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from attrs import define, field

from staffbooking_adapters.memory.doubles import RecordingNotifier, VirtualClock
from staffbooking_adapters.testing.builders_notifications import add_notification, make_notification
from staffbooking_core.ports import Email, Ports


@define
class CallbackNotifier(RecordingNotifier):
    """A notifier that runs a callback first, which may fail or block."""

    before: Callable[[Email], Awaitable[object]] | None = None
    letters: list[Email] = field(factory=list)

    async def send_email(self, email: Email) -> None:
        if self.before is not None:
            await self.before(email)
        self.letters.append(email)

    @property
    def told(self) -> list[str]:
        return [letter.subject for letter in self.letters]


def failing(*subjects: str, fault: type[Exception] = OSError) -> Callable[[Email], Awaitable[None]]:
    """A callback that fails for some subjects."""

    async def fail(letter: Email) -> None:
        if letter.subject in subjects:
            raise fault(letter.subject)

    return fail


async def add(ports: Ports, subject: str) -> None:
    await add_notification(ports.store, make_notification(subject=subject), ports.clock.wall())


def pass_time(ports: Ports, until: datetime) -> None:
    assert isinstance(ports.clock, VirtualClock)
    ports.clock.advance(until - ports.clock.now)
