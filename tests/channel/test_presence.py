"""The seats of a process: they are counted right in the end, and who left is told of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import anyio
import pytest
from attrs import frozen

from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.messaging import messages
from staffbooking_http.channel.presence import Presence
from tests.channel.flaky_store import FlakyStore, PauseHook
from tests.support.builders import POLICY, SECOND
from tests.support.memory_deployment import make_booking_scenario, memory_ports
from tests.support.message_doubles import RecordingSubscriber
from tests.support.virtual_loop import VirtualTimeLoop

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@frozen
class Desk:
    """Two processes; Ada is connected elsewhere, and hears of Mia, with whom she talks."""

    ports: Ports
    store: FlakyStore
    mia: int
    here: Presence
    elsewhere: Presence
    _heard: RecordingSubscriber

    def pass_time(self, by: timedelta) -> None:
        self.ports.clock.advance(by)  # type: ignore[attr-defined]

    @property
    def told(self) -> list[bool]:
        """What was told of Mia, each time whether she is there."""
        shown = [tell.data for tell in self._heard.broadcasts]
        return [each["online"] for each in shown if each["user_id"] == self.mia]

    async def is_online(self) -> bool:
        async with self.ports.store.read_view() as view:
            [mia] = await view.presence.presence([self.mia], self.ports.clock.wall())
        return mia.online

    async def give_back_in_vain(self) -> None:
        """Mia's connection ends while the store is out of reach."""
        self.store.fault = StoreUnavailable()
        await self.here.remove_connection(self.mia)
        self.store.fault = None

    async def fail_to_beat(self) -> None:
        self.store.fault = StoreUnavailable()
        with pytest.raises(StoreUnavailable):
            await self.here.send_heartbeat()
        self.store.fault = None

    async def free(self) -> int:
        """How many more connections Mia may have; she has them then."""
        for taken in range(POLICY.max_connections + 1):
            try:
                await self.elsewhere.add_connection(self.mia)
            except RateLimitExceeded:
                return taken
        raise AssertionError("there is no end of it")


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    store = FlakyStore()
    ports = memory_ports(store=store)
    scene = await make_booking_scenario(ports=ports)
    await scene.accepted()
    await messages.direct_conversation_with(ports, scene.customer, scene.staff.user_id)
    here, elsewhere, heard = Presence(ports), Presence(ports), RecordingSubscriber()
    for seats in (here, elsewhere):
        await seats.send_heartbeat()
    await elsewhere.add_connection(scene.customer.user_id)
    async with ports.pubsub.subscribe(heard):
        yield Desk(ports, store, scene.staff.user_id, here, elsewhere, heard)


# Counting anew --------------------------------------------------------------------------------


@pytest.mark.parametrize("failures", [0, 1, 2])
async def test_what_could_not_be_given_back_is_by_the_next_beat(desk: Desk, failures: int) -> None:
    """By the first one that succeeds, however many fail before."""
    await desk.here.add_connection(desk.mia)
    await desk.give_back_in_vain()
    for _ in range(failures):
        await desk.fail_to_beat()
    await desk.here.send_heartbeat()

    assert await desk.free() == POLICY.max_connections


async def test_who_could_not_give_back_is_told_of_as_gone(desk: Desk) -> None:
    """Also where others were told meanwhile, wrongly, that they are there."""
    await desk.here.add_connection(desk.mia)
    await desk.give_back_in_vain()
    desk.pass_time(POLICY.presence_grace_period)
    await desk.here.broadcast_departures()
    assert desk.told == [True]
    await desk.fail_to_beat()
    await desk.here.send_heartbeat()
    await desk.here.broadcast_departures()

    assert desk.told == [True, False]


async def test_who_could_not_take_a_seat_has_none(desk: Desk) -> None:
    """Where the store has counted it, and its answer was lost, the next beat counts anew."""

    async def lose() -> None:
        raise StoreUnavailable

    desk.store.after = lose
    with pytest.raises(StoreUnavailable):
        await desk.here.add_connection(desk.mia)
    assert await desk.is_online()
    await desk.here.send_heartbeat()

    assert not await desk.is_online()


@pytest.mark.parametrize("ends", ["within", "after"])
@pytest.mark.parametrize("begins", ["before", "within"])
@pytest.mark.parametrize("change", ["add_connection", "remove_connection"])
async def test_a_recount_that_meets_a_change_is_repeated(
    desk: Desk, change: str, begins: str, ends: str
) -> None:
    """Whoever comes or goes while it runs is counted right by the next beat."""
    await desk.here.add_connection(desk.mia)
    await desk.here.add_connection(desk.mia)
    await desk.here.add_connection(desk.mia)
    await desk.give_back_in_vain()
    pause, done = PauseHook(), anyio.Event()

    async def change_seats() -> None:
        await getattr(desk.here, change)(desk.mia)
        done.set()

    async def begin() -> None:
        # What is taken is not known here yet, what is given back is not known there.
        setattr(desk.store, "after" if change == "add_connection" else "before", pause)
        tasks.start_soon(change_seats)
        await pause.reached.wait()

    async def end() -> None:
        pause.released.set()
        await done.wait()

    async with anyio.create_task_group() as tasks:
        if begins == "before":
            await begin()
        else:
            desk.store.before = begin
        if ends == "within":
            desk.store.after = end
        await desk.here.send_heartbeat()
        await end()
    await desk.here.send_heartbeat()

    assert POLICY.max_connections - await desk.free() == (3 if change == "add_connection" else 1)


async def test_a_process_that_was_taken_for_dead_tells_that_its_users_are_there(
    desk: Desk,
) -> None:
    """Another process has told of them as gone, once the lease had ended."""
    await desk.here.add_connection(desk.mia)
    desk.pass_time(POLICY.presence_lease)
    await desk.elsewhere.send_heartbeat()
    await desk.elsewhere.broadcast_departures()
    assert desk.told == [False]
    await desk.here.send_heartbeat()
    await desk.here.broadcast_departures()

    assert desk.told == [False, True]


# The end of a process -------------------------------------------------------------------------


async def test_no_beat_prolongs_a_lease_that_was_ended(desk: Desk) -> None:
    """A beat that comes late changes nothing: the users are gone after their grace."""
    await desk.here.add_connection(desk.mia)
    await desk.here.leave()
    await desk.here.send_heartbeat()
    desk.pass_time(POLICY.presence_grace_period)

    assert not await desk.is_online()


async def test_the_end_waits_for_a_beat_that_is_under_way(desk: Desk) -> None:
    """So the beat can't prolong the lease after the end has shortened it."""
    await desk.here.add_connection(desk.mia)
    desk.store.before = pause = PauseHook()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.here.send_heartbeat)
        await pause.reached.wait()
        tasks.start_soon(desk.here.leave)
        await anyio.wait_all_tasks_blocked()
        pause.released.set()
    desk.pass_time(POLICY.presence_grace_period)

    assert not await desk.is_online()


async def test_the_seats_of_a_process_that_ends_are_free_at_once(desk: Desk) -> None:
    """Its users may sit down elsewhere before their connections are over here."""
    for _ in range(POLICY.max_connections):
        await desk.here.add_connection(desk.mia)
    await desk.here.leave()

    assert await desk.free() == POLICY.max_connections


async def test_what_is_given_back_after_the_end_is_not_counted_again(desk: Desk) -> None:
    """All seats were freed with the process: nobody has more elsewhere for it."""
    await desk.here.add_connection(desk.mia)
    await desk.here.add_connection(desk.mia)
    await desk.here.leave()
    await desk.here.remove_connection(desk.mia)
    await desk.here.remove_connection(desk.mia)

    assert await desk.free() == POLICY.max_connections


async def test_the_users_of_a_process_that_ends_have_their_grace(desk: Desk) -> None:
    """Until its end they are there, also once their connections are over."""
    await desk.here.add_connection(desk.mia)
    await desk.here.leave()
    await desk.here.remove_connection(desk.mia)
    desk.pass_time(POLICY.presence_grace_period - SECOND)
    assert await desk.is_online()
    desk.pass_time(SECOND)

    assert not await desk.is_online()


# Telling --------------------------------------------------------------------------------------


async def test_who_took_a_seat_and_never_sat_down_is_told_of_as_gone(desk: Desk) -> None:
    """A seat that was taken within the grace, and given back, begins the grace anew."""
    await desk.here.add_connection(desk.mia)
    await desk.here.remove_connection(desk.mia)
    desk.pass_time(POLICY.presence_grace_period - SECOND)
    await desk.here.add_connection(desk.mia)
    desk.pass_time(SECOND)
    await desk.here.broadcast_departures()
    await desk.here.remove_connection(desk.mia)
    desk.pass_time(POLICY.presence_grace_period)
    await desk.here.broadcast_departures()

    assert desk.told == [False]


async def test_who_left_is_told_of_although_a_look_has_failed(desk: Desk) -> None:
    """What could not be found out is looked for again, and told once."""
    await desk.here.add_connection(desk.mia)
    await desk.here.remove_connection(desk.mia)
    desk.pass_time(POLICY.presence_grace_period)
    desk.store.fault = StoreUnavailable()
    with pytest.raises(StoreUnavailable):
        await desk.here.broadcast_departures()
    desk.store.fault = None
    await desk.here.broadcast_departures()
    await desk.here.broadcast_departures()

    assert desk.told == [False]
