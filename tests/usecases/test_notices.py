"""People are told at least once, whatever happens to whom tells them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest
from attrs import define, evolve, field

from staffbooking_adapters.memory.doubles import RecordingNotifier, VirtualClock
from staffbooking_core.ports import Notice, Ports
from staffbooking_core.usecases import notices, timers
from tests.support.builders import make_lease
from tests.support.ports import memory_ports

pytestmark = pytest.mark.anyio


@define
class Mouth(RecordingNotifier):
    """A notifier that may do something first, and so fail, or be stopped."""

    before: Callable[[Notice], Awaitable[object]] | None = None
    notices: list[Notice] = field(factory=list)

    async def tell(self, notice: Notice) -> None:
        if self.before is not None:
            await self.before(notice)
        self.notices.append(notice)

    @property
    def told(self) -> list[str]:
        return [notice.subject for notice in self.notices]


@pytest.fixture
def mouth() -> Mouth:
    return Mouth()


@pytest.fixture
async def ports(mouth: Mouth) -> Ports:
    """A deployment with three notices."""
    made = memory_ports(notifier=mouth)
    for subject in ("one", "two", "three"):
        await add(made, subject)
    return made


async def add(ports: Ports, subject: str) -> None:
    notice = Notice(7, "webhook_disabled", subject, "It failed.")
    await ports.store.write(lambda tx: tx.accounts.add_notice(notice, ports.clock.wall()))


def let_the_lease_run_out(ports: Ports) -> None:
    assert isinstance(ports.clock, VirtualClock)
    ports.clock.advance(ports.policy.lease)


async def test_everybody_is_told_once(ports: Ports, mouth: Mouth) -> None:
    """The oldest notice first, and never again."""
    assert await notices.tell_notices(ports, 2) == 2
    assert await notices.tell_notices(ports) == 1
    let_the_lease_run_out(ports)
    assert await notices.tell_notices(ports) == 0
    assert mouth.told == ["one", "two", "three"]


async def test_draining_tells_everybody(ports: Ports, mouth: Mouth) -> None:
    """It is work that is due."""
    assert await timers.drain(ports) == 3
    assert mouth.told == ["one", "two", "three"]


async def test_a_fault_loses_nothing(ports: Ports, mouth: Mouth) -> None:
    """All others are told, then every fault is raised; what failed is told later."""

    async def fail(notice: Notice) -> None:
        if notice.subject != "two":
            raise OSError(notice.subject)

    mouth.before = fail
    with pytest.raises(ExceptionGroup) as raised:
        await notices.tell_notices(ports)
    assert list(map(str, raised.value.exceptions)) == ["one", "three"]
    assert mouth.told == ["two"]

    mouth.before = None
    assert await notices.tell_notices(ports) == 0
    let_the_lease_run_out(ports)
    assert await notices.tell_notices(ports) == 2
    assert mouth.told == ["two", "one", "three"]


async def test_what_always_fails_holds_up_nobody(ports: Ports, mouth: Mouth) -> None:
    """While it waits for another try, those behind it have theirs."""

    async def fail(notice: Notice) -> None:
        if notice.subject != "three":
            raise OSError

    mouth.before = fail
    with pytest.raises(ExceptionGroup):
        await notices.tell_notices(ports, 2)
    assert await notices.tell_notices(ports, 2) == 1
    assert mouth.told == ["three"]


async def test_who_is_killed_leaves_it_to_others(ports: Ports, mouth: Mouth) -> None:
    """What was claimed and not yet told is told when the lease has run out."""
    with anyio.CancelScope() as scope:

        async def die(notice: Notice) -> None:
            if notice.subject == "two":
                scope.cancel()
                await anyio.lowlevel.checkpoint()

        mouth.before = die
        await notices.tell_notices(ports)
    assert mouth.told == ["one"]

    mouth.before = None
    let_the_lease_run_out(ports)
    assert await notices.tell_notices(ports) == 2
    assert mouth.told == ["one", "two", "three"]


async def test_what_another_is_about_to_tell_is_left_alone(ports: Ports, mouth: Mouth) -> None:
    """Until that one's lease has run out."""
    now = ports.clock.wall()
    await ports.store.write(lambda tx: tx.accounts.claim_notices(now, make_lease(now), 2))
    assert await notices.tell_notices(ports) == 1
    assert mouth.told == ["three"]
    let_the_lease_run_out(ports)
    assert await notices.tell_notices(ports) == 2


async def test_what_took_too_long_is_told_twice(ports: Ports, mouth: Mouth) -> None:
    """By another who had every reason to think that it never was; no notice is lost by it."""
    slow, quick = mouth, Mouth()

    async def be_late(_: Notice) -> None:
        slow.before = None
        let_the_lease_run_out(ports)
        assert await notices.tell_notices(evolve(ports, notifier=quick)) == 3

    slow.before = be_late
    assert await notices.tell_notices(ports) == 3
    assert slow.told == quick.told == ["one", "two", "three"]
    let_the_lease_run_out(ports)
    assert await notices.tell_notices(ports) == 0


async def test_no_one_is_told_inside_a_transaction(ports: Ports, mouth: Mouth) -> None:
    """Others may write while somebody is being told."""

    async def write(_: Notice) -> None:
        mouth.before = None
        with anyio.fail_after(1):
            await add(ports, "four")

    mouth.before = write
    assert await notices.tell_notices(ports) == 3
    assert await notices.tell_notices(ports) == 1
