"""One batch of a webhook endpoint: its attempts, and the settlement of their outcomes.

Attempts that succeed quickly are sent ahead of the settlement of earlier ones, so that outcomes are
settled many at a time. After any other attempt its settlement is awaited.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta

import anyio
from anyio.abc import TaskGroup
from attrs import frozen

from staffbooking_adapters.batcher import Batcher
from staffbooking_core.domain.webhooks.deliveries import AttemptOutcome, Delivery
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import DueDelivery, EndpointBatch, Ports
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_core.usecases.webhooks.deliveries import DeliveryResult

logger = logging.getLogger("staffbooking.worker")

MAX_BATCH_SECONDS = 0.1
"""A batch starts no more attempts after this time, so that other endpoints get a slot, and retries
are found when they are due."""

MAX_LONE_BATCH_SECONDS = 1.0
"""The same while slots are free, and the endpoint is healthy and no attempt of the batch failed:
claiming the rest of it again would only cost."""

MAX_UNSETTLED = 24
"""Outcomes of a batch that may wait for their settlement while further attempts are sent. A crash
repeats these, and what is in flight."""

_SETTLE_SIZE = MAX_UNSETTLED // 2
"""Outcomes of a batch that are settled without waiting for more."""

_SETTLE_DELAY_SECONDS = 0.01
"""How long fewer outcomes wait for more, unless an attempt waits for their settlement."""

_SETTLE_RETRY_SECONDS = 1.0
"""Seconds until a settlement is tried again while the store is unavailable."""

_QUICK_ATTEMPT = timedelta(seconds=0.1)
"""After a longer attempt its settlement is awaited: the endpoint may be paused meanwhile."""

_MAX_SETTLEMENTS = 32
"""Settlements that are saved in one transaction. Each has at most `MAX_UNSETTLED` outcomes, and
those of the attempts in flight."""


@frozen
class _Settlement:
    """Outcomes of a batch that are to be saved."""

    batch: EndpointBatch
    results: Sequence[DeliveryResult]
    is_last: bool = False
    """Whether the batch ends with them."""
    last_delivery: Delivery | None = None
    """After which the batch wants further deliveries, if it does."""


class OutcomeSettler:
    """Settles outcomes that are pending at the same time in one transaction. An outcome that
    can't be settled does not prevent others from being settled."""

    def __init__(self, ports: Ports, stop: anyio.Event) -> None:
        self._ports = ports
        self._stop = stop
        self._batcher = Batcher(self._settle_together, max_batch_size=_MAX_SETTLEMENTS)

    async def settle(self, settlement: _Settlement) -> Sequence[DueDelivery] | None:
        """Save outcomes of a batch. Returns its next deliveries; None if no more may be sent, since
        its claim is lost or its endpoint was paused or disabled.

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
                await anyio.sleep(_SETTLE_RETRY_SECONDS)
            except Exception:
                await self.settle_singly(settlement.batch, settlement.results)
                raise

    async def settle_singly(self, batch: EndpointBatch, results: Sequence[DeliveryResult]) -> None:
        """Save all outcomes that can be saved now. The others are sent again when the claim has
        expired."""
        single = (self._batcher.submit(_Settlement(batch, [result])) for result in results)
        await asyncio.gather(*single, return_exceptions=True)

    async def close(self) -> None:
        """Wait for the running transaction, even when cancelled."""
        with anyio.CancelScope(shield=True):
            await self._batcher.close()

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


class BatchRun:
    """The attempts of one batch, which goes on with further deliveries while it may."""

    def __init__(
        self,
        ports: Ports,
        settler: OutcomeSettler,
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
        self._unsent: deque[DueDelivery] = deque()
        self._last_delivery: Delivery | None = None
        """The last of a full batch: more may follow."""
        self._has_failures = False
        """Whether a delivery of the batch has failed before, or an attempt of it now."""
        self._sender_count = 0
        self._results: list[DeliveryResult] = []
        """Outcomes that wait for the next settlement."""
        self._unsettled_count = 0
        """These, and those of the running settlements."""
        self._waiting_sender_count = 0
        """Senders that wait for the next settlement."""
        self._is_delay_over = False
        """Whether the outcomes have waited long enough for more."""
        self._settlement_wanted = asyncio.Event()
        self._settled = asyncio.Event()
        self._is_stopped = False
        self.attempt_count = 0

    async def run(self) -> None:
        """Send and settle until the batch ends. Outcomes are saved also if it is broken off."""
        try:
            async with anyio.create_task_group() as senders:
                self._add_deliveries(self._batch.due_deliveries, senders)
                await self._settle_until_done(senders)
        finally:
            with anyio.CancelScope(shield=True):
                await self._settler.settle_singly(self._batch, self._results)

    # Sending --------------------------------------------------------------------------------

    def _add_deliveries(self, added: Sequence[DueDelivery], senders: TaskGroup) -> None:
        self._unsent.extend(added)
        self._has_failures |= any(due.delivery.tries for due in added)
        is_full = len(added) >= deliveries.DELIVERY_BATCH_SIZE
        # Of an ordered endpoint, deliveries that waited come before the last one.
        may_extend = is_full and not self._batch.endpoint.ordered
        self._last_delivery = added[-1].delivery if may_extend else None
        max_senders = self._ports.policy.max_webhook_attempts_in_flight
        while self._sender_count < min(max_senders, len(self._unsent)):
            self._sender_count += 1
            senders.start_soon(self._send_until_done)

    async def _send_until_done(self) -> None:
        url = self._batch.endpoint.url
        while (due := await self._next_delivery()) is not None:
            outcome = await deliveries.attempt_delivery(self._ports, url, self._secrets, due)
            self.attempt_count += 1
            self._has_failures |= outcome.error is not None
            self._results.append(DeliveryResult(self._batch, due.delivery, outcome))
            self._unsettled_count += 1
            if self._may_send_ahead(outcome):
                await self._wait_while_too_many_are_unsettled()
            else:
                await self._settle()
        self._sender_count -= 1
        self._settlement_wanted.set()

    async def _next_delivery(self) -> DueDelivery | None:
        while not self._unsent and self._may_continue():
            await self._next_settlement()
        if not self._unsent or self._is_over():
            return None
        return self._unsent.popleft()

    def _is_over(self) -> bool:
        """Whether the batch starts no more attempts."""
        is_short = self._has_failures or self._is_slot_wanted()
        max_seconds = MAX_BATCH_SECONDS if is_short else MAX_LONE_BATCH_SECONDS
        is_late = self._loop.time() > self._began_at + max_seconds
        return is_late or self._is_stopped or self._stop.is_set()

    def _may_continue(self) -> bool:
        """Whether the batch goes on with further deliveries."""
        is_healthy = self._last_delivery is not None and not self._has_failures
        return is_healthy and not self._is_slot_wanted() and not self._is_over()

    def _may_send_ahead(self, outcome: AttemptOutcome) -> bool:
        """Whether further attempts are sent before the outcome is settled."""
        is_quick = outcome.ended_at - outcome.at <= _QUICK_ATTEMPT
        return is_quick and outcome.error is None and not self._batch.endpoint.degraded

    # Settling -------------------------------------------------------------------------------

    async def _wait_while_too_many_are_unsettled(self) -> None:
        if len(self._results) == 1:
            self._loop.call_later(_SETTLE_DELAY_SECONDS, self._end_delay)
        elif len(self._results) >= _SETTLE_SIZE:
            self._settlement_wanted.set()
        while self._unsettled_count > MAX_UNSETTLED:
            await self._next_settlement()

    def _end_delay(self) -> None:
        # A flag: by the loop's rounded times the delay may not be quite over yet.
        self._is_delay_over = True
        self._settlement_wanted.set()

    async def _next_settlement(self) -> None:
        """Wait for the end of a settlement; without one in progress, for one without outcomes."""
        self._waiting_sender_count += 1
        self._settlement_wanted.set()
        await self._settled.wait()

    async def _settle_until_done(self, senders: TaskGroup) -> None:
        is_last = False
        while not is_last:
            while not self._is_settlement_due():
                self._settlement_wanted.clear()
                await self._settlement_wanted.wait()
            is_last = not self._sender_count
            wants_more = not is_last and len(self._unsent) <= deliveries.DELIVERY_BATCH_SIZE
            last = self._last_delivery if wants_more and self._may_continue() else None
            more = await self._settle(is_last=is_last, last_delivery=last)
            if last is not None:
                self._add_deliveries(more, senders)

    def _is_settlement_due(self) -> bool:
        """Whether somebody waits for it, or the outcomes have waited for more."""
        is_ripe = self._is_delay_over or len(self._results) >= _SETTLE_SIZE
        is_wanted = bool(self._results) and is_ripe
        return is_wanted or self._waiting_sender_count > 0 or self._sender_count == 0

    async def _settle(
        self, *, is_last: bool = False, last_delivery: Delivery | None = None
    ) -> Sequence[DueDelivery]:
        """Settle the outcomes that wait; returns the batch's next deliveries."""
        results, self._results = self._results, []
        self._is_delay_over = False
        settlement = _Settlement(self._batch, results, is_last, last_delivery)
        more = await self._settler.settle(settlement)
        self._unsettled_count -= len(results)
        self._is_stopped |= more is None
        self._waiting_sender_count = 0
        self._settled.set()
        self._settled = asyncio.Event()
        return more or ()
