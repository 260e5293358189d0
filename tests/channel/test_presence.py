"""Presence of one process: connection counts after failures, and broadcasts of departures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import anyio
import pytest
from attrs import frozen

from staffbooking_adapters.testing.builders import POLICY, SECOND
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.messaging import messages
from staffbooking_http.channel.presence import Presence
from tests.channel.flaky_store import FlakyStore, PauseHook
from tests.support.memory_deployment import make_booking_scenario, memory_ports
from tests.support.message_doubles import RecordingSubscriber
from tests.support.virtual_loop import VirtualTimeLoop

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@frozen
class PresenceScene:
    """Two processes; Ada is connected elsewhere and gets the presence of Mia, who shares a
    conversation."""

    ports: Ports
    store: FlakyStore
    mia: int
    here: Presence
    elsewhere: Presence
    _subscriber: RecordingSubscriber

    def pass_time(self, by: timedelta) -> None:
        self.ports.clock.advance(by)  # type: ignore[attr-defined]

    @property
    def broadcasts_of_mia(self) -> list[bool]:
        """The `online` values of the presence broadcasts about Mia, oldest first."""
        shown = [broadcast.data for broadcast in self._subscriber.broadcasts]
        return [each["online"] for each in shown if each["user_id"] == self.mia]

    async def is_online(self) -> bool:
        async with self.ports.store.read_view() as view:
            [mia] = await view.presence.presence([self.mia], self.ports.clock.wall())
        return mia.online

    async def fail_to_remove(self) -> None:
        """Remove a connection of Mia while the store is unreachable."""
        self.store.fault = StoreUnavailable()
        await self.here.remove_connection(self.mia)
        self.store.fault = None

    async def fail_to_heartbeat(self) -> None:
        self.store.fault = StoreUnavailable()
        with pytest.raises(StoreUnavailable):
            await self.here.send_heartbeat()
        self.store.fault = None

    async def claim_departed_users(self) -> Sequence[int]:
        now = self.ports.clock.wall()
        return await self.store.run_transaction(
            lambda tx: tx.presence.claim_departed_users(now, 10)
        )

    async def fill_connections(self) -> int:
        """Add connections of Mia up to the limit; returns their number."""
        for count in range(POLICY.max_connections + 1):
            try:
                await self.elsewhere.add_connection(self.mia)
            except RateLimitExceeded:
                return count
        raise AssertionError("there is no end of it")


@pytest.fixture
async def case() -> AsyncIterator[PresenceScene]:
    store = FlakyStore()
    ports = memory_ports(store=store)
    scene = await make_booking_scenario(ports=ports)
    await scene.accepted()
    await messages.direct_conversation_with(ports, scene.customer, scene.staff.user_id)
    here, elsewhere, subscriber = Presence(ports), Presence(ports), RecordingSubscriber()
    for presence in (here, elsewhere):
        await presence.send_heartbeat()
    await elsewhere.add_connection(scene.customer.user_id)
    async with ports.pubsub.subscribe(subscriber):
        yield PresenceScene(ports, store, scene.staff.user_id, here, elsewhere, subscriber)


# Recounts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("failures", [0, 1, 2])
async def test_the_next_heartbeat_removes_lost_connections(
    case: PresenceScene, failures: int
) -> None:
    """A connection that could not be removed is not counted after the next successful heartbeat."""
    await case.here.add_connection(case.mia)
    await case.fail_to_remove()
    for _ in range(failures):
        await case.fail_to_heartbeat()
    await case.here.send_heartbeat()

    assert await case.fill_connections() == POLICY.max_connections


async def test_a_lost_connection_is_broadcast_as_offline(case: PresenceScene) -> None:
    """A user whose connection could not be removed is broadcast as offline after the next
    successful heartbeat."""
    await case.here.add_connection(case.mia)
    await case.fail_to_remove()
    case.pass_time(POLICY.presence_grace_period)
    await case.here.broadcast_departures()
    assert case.broadcasts_of_mia == [True]
    await case.fail_to_heartbeat()
    await case.here.send_heartbeat()
    await case.here.broadcast_departures()

    assert case.broadcasts_of_mia == [True, False]


async def test_a_lost_departure_is_seen_by_the_recount(case: PresenceScene) -> None:
    """A user whose connection could not be removed is claimed as departed after the next
    heartbeat."""
    await case.here.add_connection(case.mia)
    await case.fail_to_remove()
    await case.here.send_heartbeat()

    assert await case.claim_departed_users() == [case.mia]


async def test_a_departure_that_a_recount_overtakes_is_seen(case: PresenceScene) -> None:
    """A user whose connection is removed while a recount commits is claimed as departed."""
    await case.here.add_connection(case.mia)
    await case.here.add_connection(case.mia)
    await case.fail_to_remove()
    case.store.before = pause = PauseHook()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(case.here.remove_connection, case.mia)
        await pause.reached.wait()
        await case.here.send_heartbeat()
        pause.released.set()

    assert await case.claim_departed_users() == [case.mia]


async def test_a_failed_addition_is_not_counted(case: PresenceScene) -> None:
    """A connection whose addition failed after the commit is not counted after the next
    heartbeat."""

    async def lose() -> None:
        raise StoreUnavailable

    case.store.after = lose
    with pytest.raises(StoreUnavailable):
        await case.here.add_connection(case.mia)
    assert await case.is_online()
    await case.here.send_heartbeat()

    assert not await case.is_online()


@pytest.mark.parametrize("ends", ["within", "after"])
@pytest.mark.parametrize("begins", ["before", "within"])
@pytest.mark.parametrize("change", ["add_connection", "remove_connection"])
async def test_a_change_during_a_heartbeat_is_counted_by_the_next(
    case: PresenceScene, change: str, begins: str, ends: str
) -> None:
    """A change that overlaps a heartbeat is counted correctly after the next heartbeat."""
    await case.here.add_connection(case.mia)
    await case.here.add_connection(case.mia)
    await case.here.add_connection(case.mia)
    await case.fail_to_remove()
    pause, done = PauseHook(), anyio.Event()

    async def change_seats() -> None:
        await getattr(case.here, change)(case.mia)
        done.set()

    async def begin() -> None:
        # An added connection is not known in this process yet, a removed one not in the store.
        setattr(case.store, "after" if change == "add_connection" else "before", pause)
        tasks.start_soon(change_seats)
        await pause.reached.wait()

    async def end() -> None:
        pause.released.set()
        await done.wait()

    async with anyio.create_task_group() as tasks:
        if begins == "before":
            await begin()
        else:
            case.store.before = begin
        if ends == "within":
            case.store.after = end
        await case.here.send_heartbeat()
        await end()
    await case.here.send_heartbeat()

    assert POLICY.max_connections - await case.fill_connections() == (
        3 if change == "add_connection" else 1
    )


async def test_an_expired_process_broadcasts_its_users_as_online(
    case: PresenceScene,
) -> None:
    """A process whose lease expired broadcasts its users as online after its next heartbeat."""
    await case.here.add_connection(case.mia)
    case.pass_time(POLICY.presence_lease)
    await case.elsewhere.send_heartbeat()
    await case.elsewhere.broadcast_departures()
    assert case.broadcasts_of_mia == [False]
    await case.here.send_heartbeat()
    await case.here.broadcast_departures()

    assert case.broadcasts_of_mia == [False, True]


# Leaving --------------------------------------------------------------------------------------


async def test_a_heartbeat_after_leaving_changes_nothing(case: PresenceScene) -> None:
    """A heartbeat after `leave` does not prolong the presence beyond the grace period."""
    await case.here.add_connection(case.mia)
    await case.here.leave()
    await case.here.send_heartbeat()
    case.pass_time(POLICY.presence_grace_period)

    assert not await case.is_online()


async def test_leaving_waits_for_a_running_heartbeat(case: PresenceScene) -> None:
    """A `leave` during a heartbeat still ends the presence after the grace period."""
    await case.here.add_connection(case.mia)
    case.store.before = pause = PauseHook()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(case.here.send_heartbeat)
        await pause.reached.wait()
        tasks.start_soon(case.here.leave)
        await anyio.wait_all_tasks_blocked()
        pause.released.set()
    case.pass_time(POLICY.presence_grace_period)

    assert not await case.is_online()


async def test_leaving_frees_all_connections(case: PresenceScene) -> None:
    """`leave` frees all connections of the process at once."""
    for _ in range(POLICY.max_connections):
        await case.here.add_connection(case.mia)
    await case.here.leave()

    assert await case.fill_connections() == POLICY.max_connections


async def test_removals_after_leaving_free_nothing_more(case: PresenceScene) -> None:
    """Connections removed after `leave` do not raise the limit elsewhere."""
    await case.here.add_connection(case.mia)
    await case.here.add_connection(case.mia)
    await case.here.leave()
    await case.here.remove_connection(case.mia)
    await case.here.remove_connection(case.mia)

    assert await case.fill_connections() == POLICY.max_connections


async def test_users_stay_online_for_the_grace_after_leaving(case: PresenceScene) -> None:
    """Users of a process that left stay online until the end of the grace period."""
    await case.here.add_connection(case.mia)
    await case.here.leave()
    await case.here.remove_connection(case.mia)
    case.pass_time(POLICY.presence_grace_period - SECOND)
    assert await case.is_online()
    case.pass_time(SECOND)

    assert not await case.is_online()


# Broadcasts of departures ---------------------------------------------------------------------


async def test_a_second_connection_restarts_the_grace(case: PresenceScene) -> None:
    """A connection added and removed again restarts the grace period, after which one departure is
    broadcast."""
    await case.here.add_connection(case.mia)
    await case.here.remove_connection(case.mia)
    case.pass_time(POLICY.presence_grace_period - SECOND)
    await case.here.add_connection(case.mia)
    case.pass_time(SECOND)
    await case.here.broadcast_departures()
    await case.here.remove_connection(case.mia)
    case.pass_time(POLICY.presence_grace_period)
    await case.here.broadcast_departures()

    assert case.broadcasts_of_mia == [False]


async def test_a_delayed_departure_is_broadcast_once(case: PresenceScene) -> None:
    """A departure that a failing store delayed is broadcast once."""
    await case.here.add_connection(case.mia)
    await case.here.remove_connection(case.mia)
    case.pass_time(POLICY.presence_grace_period)
    case.store.fault = StoreUnavailable()
    with pytest.raises(StoreUnavailable):
        await case.here.broadcast_departures()
    case.store.fault = None
    await case.here.broadcast_departures()
    await case.here.broadcast_departures()

    assert case.broadcasts_of_mia == [False]
