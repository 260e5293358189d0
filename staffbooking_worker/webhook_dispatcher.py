"""Sends webhook deliveries: many endpoints concurrently, a few attempts at a time for each.

1. The dispatcher claims batches of due deliveries, one batch per endpoint.
2. Each batch sends its deliveries until it is done or its time is over; its claim is renewed
   meanwhile.
3. Outcomes are settled in shared transactions.

Degraded endpoints, whose last attempt failed or was slow, have separate slots, so they do not
delay the others however many of them hang.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial

import anyio
from anyio.abc import TaskGroup
from attrs import frozen

from staffbooking_adapters.batcher import Batcher
from staffbooking_core.domain.webhooks.deliveries import AttemptOutcome, Delivery
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

MAX_UNSETTLED = 24
"""Outcomes of a batch that are not settled yet while further attempts are sent. A crash repeats
these, and what is in flight."""

_SETTLE_SIZE = MAX_UNSETTLED // 2
_SETTLE_DELAY_SECONDS = 0.01
"""How many outcomes of a batch are settled at once, and how long one waits for the others, unless
an attempt waits for it."""

_QUICK_ATTEMPT = timedelta(seconds=0.1)
"""After a longer attempt its settlement is awaited: the endpoint may be paused meanwhile."""

_MAX_SETTLED_BATCHES = 64
"""Batches whose outcomes are saved in one transaction, each with `MAX_UNSETTLED` outcomes, and
those of the attempts in flight."""


async def run_dispatcher(ports: Ports, stop: anyio.Event) -> None:
    """Send due deliveries until `stop` is set; attempts in flight are finished first."""
    await _Dispatcher(ports, stop).run()


async def drain(ports: Ports) -> int:
    """Send all deliveries due now and return the number of attempts. Errors while claiming are
    raised in an exception group."""
    dispatcher = _Dispatcher(ports, anyio.Event())
    await dispatcher.run(until_idle=True)
    return dispatcher.attempt_count


@frozen
class _Settlement:
    """Outcomes of a batch that are to be saved."""

    batch: EndpointBatch
    results: Sequence[DeliveryResult]
    is_last: bool
    """Whether the batch ends with them."""
    last_delivery: Delivery | None = None
    """After which the batch wants further deliveries, if it does."""


class _OutcomeSettler:
    """Settles outcomes that are pending at the same time in one transaction. An outcome that
    can't be settled does not prevent others from being settled."""

    def __init__(self, ports: Ports, stop: anyio.Event) -> None:
        self._ports = ports
        self._stop = stop
        self._batcher = Batcher(self._settle_together, max_batch_size=_MAX_SETTLED_BATCHES)

    async def settle(self, settlement: _Settlement) -> Sequence[DueDelivery] | None:
        """Save outcomes of a batch. Returns its next deliveries, or None if its claim is lost or
        was released, so that its holder may not continue sending.

        While the store is unavailable the save is retried until the worker stops, so that
        deliveries are not sent twice. Settling twice is safe: an outcome is saved only if its
        claim still holds. Raises the error that prevented the save.
        """
        while True:
            try:
                return await self._batcher.submit(settlement)
            except StoreUnavailable:
                if self._stop.is_set():
                    raise
                await anyio.sleep(ERROR_DELAY_SECONDS)
            except Exception:
                await self._settle_singly(settlement)
                raise

    async def close(self) -> None:
        """Wait for the running transaction, even when cancelled."""
        with anyio.CancelScope(shield=True):
            await self._batcher.close()

    async def _settle_singly(self, settlement: _Settlement) -> None:
        """Save all outcomes that can be saved of a batch that can't be settled as a whole."""
        if len(settlement.results) > 1:
            for result in settlement.results:
                single = _Settlement(settlement.batch, [result], is_last=False)
                with suppress(Exception):
                    await self._batcher.submit(single)

    async def _settle_together(
        self, settlements: Sequence[_Settlement]
    ) -> Sequence[Sequence[DueDelivery] | None]:
        try:
            continued = await deliveries.settle_results(
                self._ports,
                [result for each in settlements for result in each.results],
                [each.batch for each in settlements if each.is_last],
                {
                    each.batch.claim: each.last_delivery
                    for each in settlements
                    if each.last_delivery is not None
                },
            )
        except StoreUnavailable as error:
            logger.warning("outcomes not saved, store unavailable: %s", error.reason)
            raise
        return [continued.get(each.batch.claim) for each in settlements]


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
            await run.run()
            self.attempt_count += run.attempt_count
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
    """The attempts of one batch, which goes on with further deliveries while it may.

    Attempts that succeed quickly are sent ahead of the settlement of earlier ones, so that outcomes
    are settled many at a time. After any other attempt its settlement is awaited.
    """

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
        self._loop = asyncio.get_running_loop()
        self._began_at = self._loop.time()
        self._unsent = deque(endpoint_batch.due_deliveries)
        self._last_delivery: Delivery | None = None
        """The last of a full batch: more may follow."""
        self._has_retries = False
        self._note_deliveries(endpoint_batch.due_deliveries)
        self._results: list[DeliveryResult] = []
        """Outcomes that wait for the next settlement."""
        self._sender_count = min(
            ports.policy.max_webhook_attempts_in_flight, len(endpoint_batch.due_deliveries)
        )
        self._progress = asyncio.Event()
        """Set when there is something to settle."""
        self._settled = asyncio.Event()
        self._unsettled_count = 0
        self._settle_at = 0.0
        self._is_stopped = False
        self.attempt_count = 0

    async def run(self) -> None:
        try:
            async with anyio.create_task_group() as senders:
                for _ in range(self._sender_count):
                    senders.start_soon(self._send_until_done)
                await self._settle_until_done()
        except Exception:
            # The batch is broken off, but what was sent is not sent again.
            await self._settle()
            raise

    async def _send_until_done(self) -> None:
        url = self._batch.endpoint.url
        while (due := await self._next_delivery()) is not None:
            outcome = await deliveries.attempt_delivery(self._ports, url, self._secrets, due)
            self.attempt_count += 1
            self._has_retries |= outcome.error is not None
            self._results.append(DeliveryResult(self._batch, due.delivery, outcome))
            self._unsettled_count += 1
            if self._may_send_ahead(outcome):
                await self._let_settle()
            else:
                await self._settle()
        self._sender_count -= 1
        self._progress.set()

    async def _next_delivery(self) -> DueDelivery | None:
        while not self._unsent and self._may_continue():
            await self._next_settlement()
        if not self._unsent or self._is_stopped or self._is_late() or self._stop.is_set():
            return None
        return self._unsent.popleft()

    def _is_late(self) -> bool:
        is_short = self._has_retries or self._is_slot_wanted()
        max_seconds = MAX_BATCH_SECONDS if is_short else MAX_LONE_BATCH_SECONDS
        return self._loop.time() > self._began_at + max_seconds

    def _may_continue(self) -> bool:
        """Whether the batch goes on with further deliveries."""
        is_held_up = self._has_retries or self._is_slot_wanted()
        is_over = self._is_stopped or self._stop.is_set() or self._is_late()
        return self._last_delivery is not None and not is_held_up and not is_over

    def _may_send_ahead(self, outcome: AttemptOutcome) -> bool:
        """Whether further attempts are sent before the outcome is settled."""
        is_quick = outcome.ended_at - outcome.at <= _QUICK_ATTEMPT
        return is_quick and outcome.error is None and not self._batch.endpoint.troubled

    async def _let_settle(self) -> None:
        """Have an outcome settled soon, and wait while too many are not settled."""
        if len(self._results) == 1:
            self._settle_at = self._loop.time() + _SETTLE_DELAY_SECONDS
            self._loop.call_at(self._settle_at, self._progress.set)
        elif len(self._results) >= _SETTLE_SIZE:
            self._progress.set()
        while self._unsettled_count > MAX_UNSETTLED:
            await self._next_settlement()

    async def _next_settlement(self) -> None:
        self._progress.set()
        await self._settled.wait()

    async def _settle_until_done(self) -> None:
        is_last = False
        while not is_last:
            while not self._is_settlement_due():
                self._progress.clear()
                await self._progress.wait()
            is_last = not self._sender_count
            wants_more = len(self._unsent) <= deliveries.DELIVERY_BATCH_SIZE
            last = self._last_delivery if wants_more and self._may_continue() else None
            more = await self._settle(is_last=is_last, last_delivery=last)
            if last is not None:
                self._unsent.extend(more)
                self._note_deliveries(more)

    async def _settle(
        self, *, is_last: bool = False, last_delivery: Delivery | None = None
    ) -> Sequence[DueDelivery]:
        """Settle the outcomes that wait; returns the batch's next deliveries."""
        results, self._results = self._results, []
        settlement = _Settlement(self._batch, results, is_last, last_delivery)
        more = await self._settler.settle(settlement)
        self._unsettled_count -= len(results)
        self._is_stopped |= more is None
        self._settled.set()
        self._settled = asyncio.Event()
        return more or ()

    def _is_settlement_due(self) -> bool:
        """Whether something waits for the settlement, or it has waited for further outcomes."""
        is_out = not self._unsent and self._may_continue()
        if is_out or not self._sender_count or not self._results:
            return is_out or not self._sender_count
        is_awaited = self._unsettled_count > MAX_UNSETTLED
        is_full = len(self._results) >= _SETTLE_SIZE
        return is_awaited or is_full or self._loop.time() >= self._settle_at

    def _note_deliveries(self, added: Sequence[DueDelivery]) -> None:
        self._has_retries |= any(due.delivery.tries for due in added)
        is_full = len(added) >= deliveries.DELIVERY_BATCH_SIZE
        # Of an ordered endpoint, deliveries that waited come before the last one.
        may_extend = is_full and not self._batch.endpoint.ordered
        self._last_delivery = added[-1].delivery if may_extend else None


def _log_fault(error: Exception) -> None:
    if isinstance(error, ClockWrong):
        return  # The clock logs it.
    if isinstance(error, StoreUnavailable):
        logger.warning("deliveries: store unavailable: %s", error.reason)
    else:
        logger.error("deliveries: unexpected error", exc_info=error)
