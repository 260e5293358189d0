"""Sends webhook deliveries: many endpoints concurrently, a few attempts at a time for each.

1. The dispatcher claims batches of due deliveries, one batch per endpoint.
2. Each batch sends its deliveries until it is done or its time is over; its claim is renewed
   meanwhile.
3. Outcomes are settled in shared transactions.

Degraded endpoints, whose last attempt failed or was slow, have separate slots, so they do not
delay the others however many of them hang.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup

from staffbooking_adapters.batcher import Batcher
from staffbooking_core.errors import ClockWrong, SealBroken, StoreUnavailable
from staffbooking_core.ports import DueDelivery, EndpointBatch, EndpointClaim, Hint, Ports
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_core.usecases.webhooks.deliveries import DeliveryResult
from staffbooking_worker.waits import Waits

logger = logging.getLogger("staffbooking.worker")

MAX_CONCURRENT_BATCHES = 64
"""Concurrent batches of healthy endpoints, and the same number of degraded ones."""

MAX_BATCH_SECONDS = 0.1
"""A batch starts no more attempts after this time, so that other endpoints get a slot, and retries
are found when they are due."""

MAX_LONE_BATCH_SECONDS = 1.0
"""The same while slots are free, and the endpoint is healthy and no attempt of the batch failed:
claiming the rest of it again would only cost."""

POLL_INTERVAL_SECONDS = 0.25
"""Seconds between polls without a hint. Polling is authoritative; hints only shorten it."""

_CONTENTION_DELAY_SECONDS = 0.05
"""Seconds before claiming again when due endpoints are locked by another process."""

ERROR_DELAY_SECONDS = 1.0
"""Seconds to wait after an error before the next try."""

_SETTLE_BATCH_SIZE = 250
"""Maximum outcomes per transaction."""


async def run_dispatcher(ports: Ports, stop: anyio.Event) -> None:
    """Send due deliveries until `stop` is set; attempts in flight are finished first."""
    await _Dispatcher(ports, stop).run()


async def drain(ports: Ports) -> int:
    """Send all deliveries due now and return the number of attempts. Errors while claiming are
    raised in an exception group."""
    dispatcher = _Dispatcher(ports, anyio.Event())
    await dispatcher.run(until_idle=True)
    return dispatcher.attempt_count


_Settlement: TypeAlias = tuple[EndpointBatch, DeliveryResult | None]
"""The outcome of an attempt; None ends the endpoint's batch."""


class _OutcomeSettler:
    """Settles outcomes that are pending at the same time in one transaction. An outcome that
    can't be settled does not prevent others from being settled."""

    def __init__(self, ports: Ports, stop: anyio.Event) -> None:
        self._ports = ports
        self._stop = stop
        self._batcher = Batcher(self._settle_batch, max_batch_size=_SETTLE_BATCH_SIZE)

    async def settle(
        self, endpoint_batch: EndpointBatch, outcome: DeliveryResult | None = None
    ) -> bool:
        """Save an outcome, or the end of the batch if there is none. Returns whether the batch's
        claim still holds, so that its holder may continue sending.

        While the store is unavailable the save is retried until the worker stops, so that
        deliveries are not sent twice. Settling twice is safe: an outcome is saved only if its
        claim still holds. Raises the error that prevented the save.
        """
        while True:
            try:
                return await self._batcher.submit((endpoint_batch, outcome))
            except StoreUnavailable:
                if self._stop.is_set():
                    raise
                await anyio.sleep(ERROR_DELAY_SECONDS)

    async def close(self) -> None:
        """Wait for the running transaction, even when cancelled."""
        with anyio.CancelScope(shield=True):
            await self._batcher.close()

    async def _settle_batch(self, settlements: Sequence[_Settlement]) -> Sequence[bool]:
        outcomes = [outcome for _, outcome in settlements if outcome is not None]
        finished_batches = [batch for batch, outcome in settlements if outcome is None]
        try:
            continued_claims = await deliveries.settle_results(
                self._ports, outcomes, finished_batches
            )
        except StoreUnavailable as error:
            logger.warning("outcomes not saved, store unavailable: %s", error.reason)
            raise
        return [batch.claim in continued_claims for batch, _ in settlements]


class _Dispatcher:
    def __init__(self, ports: Ports, stop: anyio.Event) -> None:
        self.attempt_count = 0
        self._ports = ports
        self._stop = stop
        self._settler = _OutcomeSettler(ports, stop)
        self._running_batches: dict[bool, dict[EndpointClaim, EndpointBatch]] = {
            False: {},
            True: {},
        }
        """Running batches by claim, of healthy (False) and degraded (True) endpoints."""
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
                    for troubled in (False, True):
                        group.start_soon(self._run_class, group, troubled, until_idle)
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
        running = self._running_batches[degraded]
        if len(running) >= MAX_CONCURRENT_BATCHES:
            return ERROR_DELAY_SECONDS
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
        batches = await deliveries.claim_batches(
            self._ports, MAX_CONCURRENT_BATCHES - len(running), degraded=degraded
        )
        for endpoint_batch in batches:
            running[endpoint_batch.claim] = endpoint_batch
            group.start_soon(self._run_batch, endpoint_batch, degraded)
        # Endpoints that are due but could not be claimed are locked by another transaction.
        return 0.0 if batches else _CONTENTION_DELAY_SECONDS

    async def _run_batch(self, endpoint_batch: EndpointBatch, degraded: bool) -> None:
        """Run one batch of one endpoint."""
        try:
            run = _BatchRun(
                *(self._ports, self._settler, self._stop, endpoint_batch),
                is_slot_wanted=partial(self._is_slot_wanted, degraded),
            )
            await run.send_all()
            self.attempt_count += run.attempt_count
            await self._settler.settle(endpoint_batch)
        except SealBroken as error:
            # Its deliveries can't be signed until the key is restored: let the claim expire.
            logger.error("webhook %d: %s", endpoint_batch.endpoint.id, error)
        except Exception:
            # The claim expires too: unsettled deliveries are sent again, after a delay.
            logger.exception("webhook %d: unexpected error", endpoint_batch.endpoint.id)
        finally:
            del self._running_batches[degraded][endpoint_batch.claim]
            self._waits.end_all()

    def _is_slot_wanted(self, degraded: bool) -> bool:
        return degraded or len(self._running_batches[degraded]) >= MAX_CONCURRENT_BATCHES

    async def _renew_leases(self) -> None:
        while True:
            await anyio.sleep(self._ports.policy.lease_duration.total_seconds() / 3)
            batches = [
                turn for running in self._running_batches.values() for turn in running.values()
            ]
            try:
                await deliveries.renew_claims(self._ports, batches)
            except Exception as error:
                _log_fault(error)


class _BatchRun:
    """The attempts of one batch."""

    def __init__(
        self,
        ports: Ports,
        settler: _OutcomeSettler,
        stop: anyio.Event,
        endpoint_batch: EndpointBatch,
        *,
        is_slot_wanted: Callable[[], bool],
    ) -> None:
        self._ports, self._settler, self._stop, self._batch = ports, settler, stop, endpoint_batch
        self._is_slot_wanted = is_slot_wanted
        self._secrets = deliveries.unseal_secrets(ports, endpoint_batch.endpoint)
        self._unsent = iter(endpoint_batch.due_deliveries)
        self._began_at = anyio.current_time()
        self._has_retries = any(due.delivery.tries for due in endpoint_batch.due_deliveries)
        self._is_stopped = False
        self.attempt_count = 0

    async def send_all(self) -> None:
        concurrency = min(
            self._ports.policy.max_webhook_attempts_in_flight, len(self._batch.due_deliveries)
        )
        async with anyio.create_task_group() as senders:
            for _ in range(concurrency):
                senders.start_soon(self._send_until_done)

    async def _send_until_done(self) -> None:
        while (due_delivery := self._next_delivery()) is not None:
            url = self._batch.endpoint.url
            outcome = await deliveries.attempt_delivery(
                self._ports, url, self._secrets, due_delivery
            )
            self.attempt_count += 1
            self._has_retries |= outcome.error is not None
            sent = DeliveryResult(self._batch, due_delivery.delivery, outcome)
            if not await self._settler.settle(self._batch, sent):
                self._is_stopped = True

    def _next_delivery(self) -> DueDelivery | None:
        is_short = self._has_retries or self._is_slot_wanted()
        max_seconds = MAX_BATCH_SECONDS if is_short else MAX_LONE_BATCH_SECONDS
        is_late = anyio.current_time() > self._began_at + max_seconds
        if self._is_stopped or is_late or self._stop.is_set():
            return None
        return next(self._unsent, None)


def _log_fault(error: Exception) -> None:
    if isinstance(error, ClockWrong):
        return  # The clock logs it.
    if isinstance(error, StoreUnavailable):
        logger.warning("deliveries: store unavailable: %s", error.reason)
    else:
        logger.error("deliveries: unexpected error", exc_info=error)
