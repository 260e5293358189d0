"""Sends deliveries side by side: many endpoints at once, at most a few attempts at each.

An endpoint is served in turns, and its claim is renewed while one lasts. Those whose last
attempt failed or took long have slots of their own: however many of them hang, the others'
turns come at once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup

from staffbooking_adapters.batcher import Batcher
from staffbooking_core.errors import SealBroken, StoreUnavailable
from staffbooking_core.ports import DueDelivery, EndpointBatch, EndpointClaim, Hint, Ports
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_core.usecases.webhooks.deliveries import DeliveryResult
from staffbooking_worker.race import wait_for_first

logger = logging.getLogger("staffbooking.worker")

MAX_CONCURRENT_BATCHES = 64
"""Turns at a time, of sound endpoints and of troubled ones each."""

MAX_BATCH_SECONDS = 0.1
"""After so long a turn starts no more attempts, so that others have theirs."""

POLL_INTERVAL_SECONDS = 0.25
"""Seconds between looks where nobody hints. Polling is the truth."""

_CONTENTION_DELAY_SECONDS = 0.05
"""Seconds until the next try to claim what somebody else has locked."""

ERROR_DELAY_SECONDS = 1.0
"""Seconds to wait after a fault: of the store, or of ours."""

_SETTLE_BATCH_SIZE = 250
"""Outcomes in one transaction."""


async def run_dispatcher(ports: Ports, stop: anyio.Event) -> None:
    """Send what comes due until `stop` is set; what is in flight then is finished first."""
    await _Dispatcher(ports, stop).run()


async def drain(ports: Ports) -> int:
    """Send all that is due now; how many attempts were made. What keeps it from being claimed
    is raised, in a group."""
    dispatcher = _Dispatcher(ports, anyio.Event())
    await dispatcher.run(until_idle=True)
    return dispatcher.attempt_count


_Settlement: TypeAlias = tuple[EndpointBatch, DeliveryResult | None]
"""The outcome of an attempt, or without one the end of an endpoint's batch."""


class _OutcomeSettler:
    """Settles what waits at the same moment together. An outcome that cannot be settled keeps
    no other from being settled."""

    def __init__(self, ports: Ports, stop: anyio.Event) -> None:
        self._ports = ports
        self._stop = stop
        self._batcher = Batcher(self._settle_batch, max_batch_size=_SETTLE_BATCH_SIZE)

    async def settle(
        self, endpoint_batch: EndpointBatch, outcome: DeliveryResult | None = None
    ) -> bool:
        """Save an outcome, or without one the end of the batch; whether the endpoint may still
        be sent to by the holder of the batch. Raises what kept it from being saved.

        While the store is unavailable the outcome waits for it, unless the worker stops, so that
        what was sent is not sent again. Settling twice is safe, and the claims tell whether the
        outcome is still ours to save.
        """
        while True:
            try:
                return await self._batcher.submit((endpoint_batch, outcome))
            except StoreUnavailable:
                if self._stop.is_set():
                    raise
                await anyio.sleep(ERROR_DELAY_SECONDS)

    async def close(self) -> None:
        """Wait for the transaction that runs, even when cancelled."""
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
            logger.warning("outcomes wait for the store: %s", error.reason)
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
        """Those that run: of sound endpoints, of troubled ones."""
        self._is_idle = {False: False, True: False}
        """Whether nothing of a kind was due when it was last looked for."""
        self._batch_ended = anyio.Event()

    async def run(self, *, until_idle: bool = False) -> None:
        try:
            async with anyio.create_task_group() as helpers:
                helpers.start_soon(self._renew_leases)
                async with anyio.create_task_group() as group:
                    for troubled in (False, True):
                        group.start_soon(self._run_class, group, troubled, until_idle)
                helpers.cancel_scope.cancel()
        finally:
            await self._settler.close()

    async def _run_class(self, group: TaskGroup, degraded: bool, until_idle: bool) -> None:
        """Start turns of one kind. A fault is logged and waited out, since what was due is
        still; with `until_idle` it is raised."""
        while not self._stop.is_set():
            hint_count, ended = self._ports.hints.count(Hint.DELIVERIES), self._batch_ended
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
                await wait_for_first(delay, hinted, ended.wait, self._stop.wait)

    async def _start_batches(self, group: TaskGroup, degraded: bool) -> float:
        """Start turns that are due, as far as slots are free; how long to wait for more."""
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
        # What is due and can't be had is just being changed by somebody.
        return 0.0 if batches else _CONTENTION_DELAY_SECONDS

    async def _run_batch(self, endpoint_batch: EndpointBatch, degraded: bool) -> None:
        """One turn of one endpoint."""
        try:
            run = _BatchRun(self._ports, self._settler, self._stop, endpoint_batch)
            await run.send_all()
            self.attempt_count += run.attempt_count
            await self._settler.settle(endpoint_batch)
        except SealBroken as error:
            # Nobody can sign for it until its key is back: its claim simply runs out.
            logger.error("webhook %d: %s", endpoint_batch.endpoint.id, error)
        except Exception:
            # Its claim runs out too: what was sent is sent again, but not at once.
            logger.exception("webhook %d: an unexpected fault", endpoint_batch.endpoint.id)
        finally:
            del self._running_batches[degraded][endpoint_batch.claim]
            self._batch_ended.set()
            self._batch_ended = anyio.Event()

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
    """The attempts of one turn."""

    def __init__(
        self,
        ports: Ports,
        settler: _OutcomeSettler,
        stop: anyio.Event,
        endpoint_batch: EndpointBatch,
    ) -> None:
        self._ports, self._settler, self._stop, self._batch = ports, settler, stop, endpoint_batch
        self._secrets = deliveries.unseal_secrets(ports, endpoint_batch.endpoint)
        self._unsent = iter(endpoint_batch.due_deliveries)
        self._deadline = anyio.current_time() + MAX_BATCH_SECONDS
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
            sent = DeliveryResult(self._batch, due_delivery.delivery, outcome)
            if not await self._settler.settle(self._batch, sent):
                self._is_stopped = True

    def _next_delivery(self) -> DueDelivery | None:
        late = anyio.current_time() > self._deadline
        if self._is_stopped or late or self._stop.is_set():
            return None
        return next(self._unsent, None)


def _log_fault(error: Exception) -> None:
    if isinstance(error, StoreUnavailable):
        logger.warning("deliveries: the store is out of reach: %s", error.reason)
    else:
        logger.error("deliveries: an unexpected fault", exc_info=error)
