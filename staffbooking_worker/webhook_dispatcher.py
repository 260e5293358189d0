"""Sends deliveries side by side: many endpoints at once, at most a few attempts at each.

An endpoint is served in turns, and its claim is renewed while one lasts. Those whose last
attempt failed or took long have slots of their own: however many of them hang, the others'
turns come at once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

import anyio
from anyio.abc import TaskGroup
from attrs import define, field

from staffbooking_core.errors import SealBroken, Unavailable
from staffbooking_core.ports import Claim, Hint, Parcel, Ports, Turn
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_core.usecases.webhooks.deliveries import Sent
from staffbooking_worker.race import first_of

logger = logging.getLogger("staffbooking.worker")

SLOTS = 64
"""Turns at a time, of sound endpoints and of troubled ones each."""

TURN_SECONDS = 0.1
"""After so long a turn starts no more attempts, so that others have theirs."""

POLL = 0.25
"""Seconds between looks where nobody hints. Polling is the truth."""

BUSY_PAUSE = 0.05
"""Seconds until the next try to claim what somebody else has locked."""

PAUSE = 1.0
"""Seconds to wait after a fault: of the store, or of ours."""

MOST = 250
"""Outcomes that are settled at a time."""


async def serve(ports: Ports, stop: anyio.Event) -> None:
    """Send what comes due until `stop` is set; what is in flight then is finished first."""
    await _Dispatcher(ports, stop).run()


async def drain(ports: Ports) -> int:
    """Send all that is due now; how many attempts were made. What keeps it from being claimed
    is raised, in a group."""
    dispatcher = _Dispatcher(ports, anyio.Event())
    await dispatcher.run(until_idle=True)
    return dispatcher.attempts


@define(eq=False)
class _Item:
    """An outcome, or a turn that is over, on its way to the store."""

    turn: Turn
    sent: Sent | None
    settled: anyio.Event = field(factory=anyio.Event)
    is_served: bool = False
    """Whether the endpoint may still be sent to, once settled."""
    failure: Exception | None = None


class _Settling:
    """Outcomes that wait at the same moment are settled together."""

    def __init__(self, ports: Ports, stop: anyio.Event) -> None:
        self._ports = ports
        self._stop = stop
        self._waiting: list[_Item] = []
        self._given = anyio.Event()

    async def put(self, turn: Turn, sent: Sent | None = None) -> bool:
        """Save an outcome, or without one the end of the turn; whether the endpoint may still
        be sent to by who holds the turn. Raises what kept it from being saved."""
        item = _Item(turn, sent)
        self._waiting.append(item)
        self._given.set()
        await item.settled.wait()
        if item.failure is not None:
            raise item.failure
        return item.is_served

    async def run(self) -> None:
        while True:
            await self._given.wait()
            self._given = anyio.Event()
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                await self._settle(batch)
                for item in batch:
                    item.settled.set()

    async def _settle(self, batch: Sequence[_Item]) -> None:
        """What can't be settled for one endpoint keeps no other's from being settled."""
        try:
            await self._persist(batch)
        except Exception as error:
            claims = {item.turn.claim for item in batch}
            for claim in claims if len(claims) > 1 else ():
                await self._settle([item for item in batch if item.turn.claim == claim])
            if len(claims) == 1:
                for item in batch:
                    item.failure = error

    async def _persist(self, batch: Sequence[_Item]) -> None:
        """What was sent is not sent again because the store is away for a while: to settle
        twice is safe, and the claims tell whether it is still ours to save."""
        sent = [item.sent for item in batch if item.sent is not None]
        over = [item.turn for item in batch if item.sent is None]
        while True:
            try:
                served = await deliveries.settle(self._ports, sent, over)
                break
            except Unavailable as error:
                if self._stop.is_set():
                    raise
                logger.warning("outcomes wait for the store: %s", error.reason)
                await anyio.sleep(PAUSE)
        for item in batch:
            item.is_served = item.turn.claim in served


class _Dispatcher:
    def __init__(self, ports: Ports, stop: anyio.Event) -> None:
        self.attempts = 0
        self._ports = ports
        self._stop = stop
        self._settling = _Settling(ports, stop)
        self._turns: dict[bool, dict[Claim, Turn]] = {False: {}, True: {}}
        """Those that run: of sound endpoints, of troubled ones."""
        self._is_idle = {False: False, True: False}
        """Whether nothing of a kind was due when it was last looked for."""
        self._ended = anyio.Event()

    async def run(self, *, until_idle: bool = False) -> None:
        async with anyio.create_task_group() as helpers:
            helpers.start_soon(self._settling.run)
            helpers.start_soon(self._renew)
            async with anyio.create_task_group() as group:
                for troubled in (False, True):
                    group.start_soon(self._serve, group, troubled, until_idle)
            helpers.cancel_scope.cancel()

    async def _serve(self, group: TaskGroup, troubled: bool, until_idle: bool) -> None:
        """Start turns of one kind. A fault is logged and waited out, since what was due is
        still; with `until_idle` it is raised."""
        while not self._stop.is_set():
            heard, ended = self._ports.hints.count(Hint.DELIVERIES), self._ended
            try:
                wait = await self._start_turns(group, troubled)
            except Exception as error:
                if until_idle:
                    raise
                _log_fault(error)
                wait = PAUSE
            if until_idle and self._is_idle[troubled] and not any(self._turns.values()):
                return
            if wait:
                hinted = partial(self._ports.hints.wait, Hint.DELIVERIES, heard, wait)
                await first_of(wait, hinted, ended.wait, self._stop.wait)

    async def _start_turns(self, group: TaskGroup, troubled: bool) -> float:
        """Start turns that are due, as far as slots are free; how long to wait for more."""
        running = self._turns[troubled]
        if len(running) >= SLOTS:
            return PAUSE
        now = self._ports.clock.wall()
        async with self._ports.store.reading() as view:
            due = await view.webhooks.next_turn(now, troubled=troubled)
        self._is_idle[troubled] = due is None or due > now
        if due is None or due > now:
            return POLL if due is None else min(POLL, (due - now).total_seconds())
        turns = await deliveries.claim(self._ports, SLOTS - len(running), troubled=troubled)
        for turn in turns:
            running[turn.claim] = turn
            group.start_soon(self._take, turn, troubled)
        # What is due and can't be had is just being changed by somebody.
        return 0.0 if turns else BUSY_PAUSE

    async def _take(self, turn: Turn, troubled: bool) -> None:
        """One turn of one endpoint."""
        try:
            run = _Run(self._ports, self._settling, self._stop, turn)
            await run.send_all()
            self.attempts += run.made
            await self._settling.put(turn)
        except SealBroken as error:
            # Nobody can sign for it until its key is back: its claim simply runs out.
            logger.error("webhook %d: %s", turn.endpoint.id, error)
        except Exception:
            # Its claim runs out too: what was sent is sent again, but not at once.
            logger.exception("webhook %d: an unexpected fault", turn.endpoint.id)
        finally:
            del self._turns[troubled][turn.claim]
            self._ended.set()
            self._ended = anyio.Event()

    async def _renew(self) -> None:
        while True:
            await anyio.sleep(self._ports.policy.lease.total_seconds() / 3)
            turns = [turn for running in self._turns.values() for turn in running.values()]
            try:
                await deliveries.renew(self._ports, turns)
            except Exception as error:
                _log_fault(error)


class _Run:
    """The attempts of one turn."""

    def __init__(self, ports: Ports, settling: _Settling, stop: anyio.Event, turn: Turn) -> None:
        self._ports, self._settling, self._stop, self._turn = ports, settling, stop, turn
        self._secrets = deliveries.unsealed(ports, turn.endpoint)
        self._left = iter(turn.parcels)
        self._until = anyio.current_time() + TURN_SECONDS
        self._is_over = False
        self.made = 0

    async def send_all(self) -> None:
        width = min(self._ports.policy.webhook_in_flight, len(self._turn.parcels))
        async with anyio.create_task_group() as senders:
            for _ in range(width):
                senders.start_soon(self._send)

    async def _send(self) -> None:
        while (parcel := self._next()) is not None:
            url = self._turn.endpoint.url
            outcome = await deliveries.attempt(self._ports, url, self._secrets, parcel)
            self.made += 1
            sent = Sent(self._turn, parcel.delivery, outcome)
            if not await self._settling.put(self._turn, sent):
                self._is_over = True

    def _next(self) -> Parcel | None:
        late = anyio.current_time() > self._until
        if self._is_over or late or self._stop.is_set():
            return None
        return next(self._left, None)


def _log_fault(error: Exception) -> None:
    if isinstance(error, Unavailable):
        logger.warning("deliveries: the store is out of reach: %s", error.reason)
    else:
        logger.error("deliveries: an unexpected fault", exc_info=error)
