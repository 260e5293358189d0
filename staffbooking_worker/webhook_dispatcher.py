"""Sends webhook deliveries: many endpoints concurrently, a few attempts at a time for each.

1. The dispatcher claims batches of due deliveries, one batch per endpoint.
2. Each batch sends its deliveries until it is done or its time is over; its claim is renewed
   meanwhile.
3. Outcomes are settled in shared transactions.

Degraded endpoints, whose last attempt failed or was slow, have separate slots, so they do not
delay the others however many of them hang. A batch that takes long gives up its slot, since it
only waits for its receiver: so endpoints that have just begun to hang delay no others either.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import anyio
from anyio.abc import TaskGroup

from staffbooking_core.errors import ClockWrong, SealBroken, StoreUnavailable
from staffbooking_core.ports import EndpointBatch, EndpointClaim, Hint, Ports
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_worker.waits import Waits
from staffbooking_worker.webhook_batch import BatchRun, OutcomeSettler

logger = logging.getLogger("staffbooking.worker")

MAX_SLOTS = 64
"""Batches of healthy endpoints that may send at the same time, and the same of degraded ones."""

SLOT_SECONDS = 0.5
"""A batch gives up its slot after this time. While slots are wanted it starts no attempts after a
fifth of it, so it is waiting for its receiver."""

MAX_BATCHES = 240
"""Batches of both classes, without a slot too. Each has up to four connections, and a process may
have only 1,024 open files."""

MAX_CLASS_BATCHES = 208
"""Batches of one class, so that some are left for the other."""

POLL_INTERVAL_SECONDS = 0.25
"""Seconds between polls without a hint. Polling is authoritative; hints only shorten it."""

_CONTENTION_DELAY_SECONDS = 0.05
"""Seconds before claiming again when due endpoints are locked by another process, or nothing is
free. An end of a batch shortens it."""

ERROR_DELAY_SECONDS = 1.0
"""Seconds to wait after an error before the next try."""


async def run_dispatcher(ports: Ports, stop: anyio.Event) -> None:
    """Send due deliveries until `stop` is set; attempts in flight are finished first."""
    await _Dispatcher(ports, stop).run()


async def drain(ports: Ports) -> int:
    """Send all deliveries due now and return the number of attempts. Errors while claiming are
    raised in an exception group."""
    dispatcher = _Dispatcher(ports, anyio.Event())
    await dispatcher.run(until_idle=True)
    return dispatcher.attempt_count


class _Dispatcher:
    def __init__(self, ports: Ports, stop: anyio.Event) -> None:
        self.attempt_count = 0
        self._ports = ports
        self._stop = stop
        self._settler = OutcomeSettler(ports, stop)
        self._running_batches: dict[bool, dict[EndpointClaim, EndpointBatch]] = {
            False: {},
            True: {},
        }
        """Running batches by claim, of healthy (False) and degraded (True) endpoints."""
        self._slots: dict[bool, set[EndpointClaim]] = {False: set(), True: set()}
        """Running batches that have a slot."""
        self._reserved_count = 0
        """Batches that are being claimed, at most."""
        self._is_idle = {False: False, True: False}
        """Whether the last poll found nothing due, by class of endpoints."""
        self._waits = Waits()
        """Waits for due deliveries, which end when a batch does."""

    async def run(self, *, until_idle: bool = False) -> None:
        try:
            async with anyio.create_task_group() as helpers:
                helpers.start_soon(self._renew_leases)
                helpers.start_soon(self._waits.end_all_after, self._stop)
                async with anyio.create_task_group() as group:
                    for degraded in (False, True):
                        group.start_soon(self._run_class, group, degraded, until_idle)
                helpers.cancel_scope.cancel()
        finally:
            await self._settler.close()

    async def _run_class(self, group: TaskGroup, degraded: bool, until_idle: bool) -> None:
        """Start batches of healthy or degraded endpoints. An error is logged and followed by a
        delay, since the deliveries stay due; with `until_idle` it is raised."""
        while not self._stop.is_set():
            hint_count = self._ports.hints.count(Hint.DELIVERIES)
            end_count = self._waits.end_count
            try:
                delay = await self._start_batches(group, degraded)
            except Exception as error:
                if until_idle:
                    raise
                _log_fault(error)
                delay = ERROR_DELAY_SECONDS
            if until_idle and self._is_idle[degraded] and not any(self._running_batches.values()):
                return
            if delay:
                hinted = partial(self._ports.hints.wait, Hint.DELIVERIES, hint_count, delay)
                await self._waits.wait(delay, end_count, hinted)

    async def _start_batches(self, group: TaskGroup, degraded: bool) -> float:
        """Start due batches in the free slots; returns the seconds to wait before the next call."""
        if self._count_free_slots(degraded) <= 0:
            return _CONTENTION_DELAY_SECONDS
        now = self._ports.clock.wall()
        async with self._ports.store.read_view() as view:
            due = await view.webhooks.next_batch_due_at(now, degraded=degraded)
        self._is_idle[degraded] = due is None or due > now
        if due is None or due > now:
            return (
                POLL_INTERVAL_SECONDS
                if due is None
                else min(POLL_INTERVAL_SECONDS, (due - now).total_seconds())
            )
        free_count = self._count_free_slots(degraded)  # The other class may have claimed meanwhile.
        if free_count <= 0:
            return _CONTENTION_DELAY_SECONDS
        self._reserved_count += free_count
        try:
            batches = await deliveries.claim_batches(self._ports, free_count, degraded=degraded)
        finally:
            self._reserved_count -= free_count
        for endpoint_batch in batches:
            self._running_batches[degraded][endpoint_batch.claim] = endpoint_batch
            self._slots[degraded].add(endpoint_batch.claim)
            group.start_soon(self._run_batch, endpoint_batch, degraded)
        # Endpoints that are due but could not be claimed are locked by another transaction.
        return 0.0 if batches else _CONTENTION_DELAY_SECONDS

    def _count_free_slots(self, degraded: bool) -> int:
        return min(
            MAX_SLOTS - len(self._slots[degraded]),
            MAX_CLASS_BATCHES - len(self._running_batches[degraded]),
            MAX_BATCHES - sum(map(len, self._running_batches.values())) - self._reserved_count,
        )

    async def _run_batch(self, endpoint_batch: EndpointBatch, degraded: bool) -> None:
        """Run one batch of one endpoint."""
        claim, slots = endpoint_batch.claim, self._slots[degraded]
        timer = asyncio.get_running_loop().call_later(SLOT_SECONDS, slots.discard, claim)
        try:
            run = BatchRun(
                self._ports,
                self._settler,
                self._stop,
                endpoint_batch,
                is_slot_wanted=partial(self._is_slot_wanted, degraded),
            )
            await run.run()
            self.attempt_count += run.attempt_count
        # In each case the claim expires, and unsettled deliveries are sent again after a delay.
        except* SealBroken as errors:
            # Its deliveries can't be signed until the key is restored.
            logger.error("webhook %d: %s", endpoint_batch.endpoint.id, errors.exceptions[0])
        except* StoreUnavailable:
            logger.warning(
                "webhook %d: stopped before its outcomes were saved", endpoint_batch.endpoint.id
            )
        except* Exception:
            logger.exception("webhook %d: unexpected error", endpoint_batch.endpoint.id)
        finally:
            timer.cancel()
            slots.discard(claim)
            del self._running_batches[degraded][claim]
            self._waits.end_all()

    def _is_slot_wanted(self, degraded: bool) -> bool:
        return degraded or self._count_free_slots(degraded) <= 0

    async def _renew_leases(self) -> None:
        while True:
            await anyio.sleep(self._ports.policy.lease_duration.total_seconds() / 3)
            batches = [
                endpoint_batch
                for running in self._running_batches.values()
                for endpoint_batch in running.values()
            ]
            try:
                await deliveries.renew_claims(self._ports, batches)
            except Exception as error:
                _log_fault(error)


def _log_fault(error: Exception) -> None:
    if isinstance(error, ClockWrong):
        return  # The clock logs it.
    if isinstance(error, StoreUnavailable):
        logger.warning("deliveries: store unavailable: %s", error.reason)
    else:
        logger.error("deliveries: unexpected error", exc_info=error)
