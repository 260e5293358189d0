"""Runs a webhook soak test: many events, half of the endpoints misbehave, workers are killed.

Worker processes, sockets and the database are real. Afterwards the stored deliveries are compared
with the events and with the requests that the receivers got.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import standardwebhooks
from attrs import frozen

from staffbooking_adapters.settings import Settings, load_settings
from staffbooking_adapters.testing.builders import add_companion, add_user
from staffbooking_adapters.testing.receivers import ReceivedRequest
from staffbooking_adapters.wiring import open_ports, upgrade_schema
from staffbooking_core.domain.accounts.users import Role, Subscription, User
from staffbooking_core.domain.webhooks.deliveries import Delivery, DeliveryStatus, WebhookEndpoint
from staffbooking_core.inputs import CreateWebhook
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.webhooks import delivery_log, endpoints
from staffbooking_core.webhook_receiver import hex_signature, standard_signature
from tests.support.memory_deployment import BookingScenario, actor_of
from tests.support.service_processes import ServiceProcess, start_copy
from tests.webhooks import worker_process

WORKER_COUNT = 2


@frozen
class WebhookSoakPlan:
    """The size of a run and its timeouts, in seconds."""

    events: int
    kills: int
    duration_seconds: float
    """The time in which events are published and workers are killed."""
    attempt_timeout_seconds: float
    lease_seconds: float
    timeout_seconds: float
    seed: int = 1


@frozen
class SoakReceiver:
    """A receiver, and whether it is healthy."""

    url: str
    received: Sequence[ReceivedRequest]
    is_reliable: bool


@frozen
class EndpointResult:
    """The results of one endpoint, for comparison with the events."""

    endpoint: WebhookEndpoint
    target: SoakReceiver
    secret: str
    deliveries: Mapping[str, Delivery]
    """Deliveries by event id."""


class WorkerProcesses:
    """Worker processes that are killed and restarted."""

    def __init__(self, environ: Mapping[str, str], plan: WebhookSoakPlan, log: Path) -> None:
        self._environ, self._plan, self._log = environ, plan, log
        self._running: list[ServiceProcess] = []

    def start(self) -> None:
        seconds = [str(self._plan.attempt_timeout_seconds), str(self._plan.lease_seconds)]
        environ = {**os.environ, **self._environ}
        self._running.append(
            start_copy(seconds, environ, self._log.parent, self._log, worker_process.main)
        )

    def kill_one(self, chance: random.Random) -> None:
        _kill(self._running.pop(chance.randrange(len(self._running))))

    def stop(self) -> list[int]:
        """Stops all processes gracefully; returns their exit codes."""
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(20) for process in self._running]
        self._running.clear()
        return codes

    def close(self) -> None:
        for process in self._running:
            _kill(process)


def _kill(process: ServiceProcess) -> None:
    process.kill()
    process.wait(20)


@asynccontextmanager
async def soak_deployment(database_url: str, roots: Path) -> AsyncIterator[tuple[Settings, dict]]:
    """The settings, and the environment that gives them to another process."""
    environ = {
        "STAFFBOOKING_DATABASE_URL": database_url,
        "STAFFBOOKING_WEBHOOK_ALLOW_INSECURE": "1",
        "SSL_CERT_FILE": str(roots),
    }
    settings = load_settings(environ)
    await upgrade_schema(settings)
    yield settings, environ


async def run_soak(
    database_url: str,
    plan: WebhookSoakPlan,
    targets: Sequence[SoakReceiver],
    roots: Path,
    folder: Path,
) -> list[EndpointResult]:
    """Runs the plan; returns the results."""
    chance = random.Random(plan.seed)
    async with (
        soak_deployment(database_url, roots) as (settings, environ),
        open_ports(settings) as ports,
    ):
        scene, registered = await _register_endpoints(ports, targets)
        workers = WorkerProcesses(environ, plan, folder / "workers.log")
        try:
            for _ in range(WORKER_COUNT):
                workers.start()
            async with anyio.create_task_group() as group:
                group.start_soon(_create_events, scene, plan)
                group.start_soon(_kill_workers, workers, plan, chance)
            with anyio.fail_after(plan.timeout_seconds):
                await _wait_until_done(ports)
            codes = await anyio.to_thread.run_sync(workers.stop)
        finally:
            workers.close()
        assert codes == [0] * WORKER_COUNT
        return [
            EndpointResult(endpoint, target, secret, await _all_deliveries(ports, endpoint.id))
            for target, (endpoint, secret) in zip(targets, registered, strict=True)
        ]


async def _register_endpoints(
    ports: Ports, targets: Sequence[SoakReceiver]
) -> tuple[BookingScenario, list[tuple[WebhookEndpoint, str]]]:
    """Registers users and endpoints of a customer and of an admin, who gets all events."""
    companion = await add_companion(ports.store)
    customer = await add_user(ports.store, subscription=Subscription.ENTERPRISE)
    admin = await add_user(ports.store, role=Role.ADMIN)
    scene = BookingScenario(ports, actor_of(customer), actor_of(companion), actor_of(admin))
    owners: list[User] = [customer, admin]
    registered = []
    for number, target in enumerate(targets):
        wanted = CreateWebhook(url=target.url)
        registered.append(await endpoints.register_endpoint(ports, owners[number % 2], wanted))
    return scene, registered


async def _create_events(scene: BookingScenario, plan: WebhookSoakPlan) -> None:
    day = (datetime.now(UTC) + timedelta(days=30)).date()
    for _ in range(plan.events):
        await scene.request(event_date=day)
        await anyio.sleep(plan.duration_seconds / plan.events)


async def _kill_workers(
    workers: WorkerProcesses, plan: WebhookSoakPlan, chance: random.Random
) -> None:
    for _ in range(plan.kills):
        await anyio.sleep(plan.duration_seconds / plan.kills * chance.uniform(0.5, 1.0))
        await anyio.to_thread.run_sync(workers.kill_one, chance)
        workers.start()


async def _wait_until_done(ports: Ports) -> None:
    while True:
        async with ports.store.read_view() as view:
            figures = await view.webhooks.stats(ports.clock.wall())
        if not figures.unplaced and not figures.pending:
            return
        await anyio.sleep(0.25)


async def _all_deliveries(ports: Ports, endpoint_id: int) -> dict[str, Delivery]:
    found: dict[str, Delivery] = {}
    page = 1
    while True:
        logged, has_more = await delivery_log.list_deliveries(ports, None, endpoint_id, page, 50)
        found |= {each.delivery.event_id: each.delivery for each in logged}
        if not has_more:
            return found
        page += 1


# Assertions -------------------------------------------------------------------------------


def assert_delivered(results: Sequence[EndpointResult], plan: WebhookSoakPlan) -> dict[str, float]:
    """Asserts every delivery guarantee; returns figures for the report."""
    pairs = plan.events * len(results)
    bodies: dict[str, bytes] = {}
    repeats = 0
    for result in results:
        assert len(result.deliveries) == plan.events, result.endpoint.url
        statuses = Counter(each.status for each in result.deliveries.values())
        _assert_endpoint(result, statuses, plan)
        repeats += _assert_received(result, bodies)
    return {"pairs": pairs, "repeats": repeats}


def _assert_endpoint(
    result: EndpointResult, statuses: Counter[DeliveryStatus], plan: WebhookSoakPlan
) -> None:
    endpoint, target = result.endpoint, result.target
    if target.is_reliable:
        assert statuses == {DeliveryStatus.SUCCEEDED: plan.events}, (endpoint.url, statuses)
        assert {each.headers["x-webhook-id"] for each in target.received} == set(result.deliveries)
        return
    done = {DeliveryStatus.SUCCEEDED, DeliveryStatus.FAILED, DeliveryStatus.HELD}
    assert set(statuses) <= done, (endpoint.url, statuses)
    for delivery in result.deliveries.values():
        if delivery.status is DeliveryStatus.FAILED:
            assert delivery.attempts == 4


def _assert_received(result: EndpointResult, bodies: dict[str, bytes]) -> int:
    """Asserts that both signatures of every request are valid and that an event always has the same
    bytes; returns the number of repeated successes."""
    for each in result.target.received:
        event_id, sent_at = each.headers["webhook-id"], int(each.headers["webhook-timestamp"])
        signed = standard_signature(result.secret, event_id, sent_at, each.body)
        assert each.headers["webhook-signature"] == signed
        assert each.headers["x-webhook-signature"] == hex_signature(result.secret, each.body)
        assert bodies.setdefault(event_id, each.body) == each.body
    for each in result.target.received[-1:]:  # `verify` accepts recent ones only.
        standardwebhooks.Webhook(result.secret).verify(each.body, each.headers)
    if not result.target.is_reliable:
        return 0
    return len(result.target.received) - len(result.deliveries)
