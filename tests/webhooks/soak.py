"""Many events to endpoints of which half misbehave, while workers are killed; then a judge.

Real processes of the worker, real sockets, a real database. The judge believes nobody: it
compares the deliveries' rows with the events, and with what the receivers got.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import standardwebhooks
from attrs import frozen

from staffbooking_adapters.settings import Settings, load_settings
from staffbooking_adapters.wiring import open_ports, upgrade_schema
from staffbooking_core.domain.accounts.users import Role, Subscription, User
from staffbooking_core.domain.webhooks.deliveries import Delivery, DeliveryStatus, Endpoint
from staffbooking_core.inputs import CreateWebhook
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.webhooks import endpoints
from staffbooking_core.webhook_receiver import hex_signature, standard_signature
from tests.support.builders import add_companion, add_user
from tests.support.memory_deployment import Scene, actor_of
from tests.support.receivers import Request

WORKERS = 2


@frozen
class Plan:
    """How much, and how long one waits for what. Times in seconds."""

    events: int
    kills: int
    over: float
    """So long events are made, and workers killed."""
    attempt: float
    lease: float
    patience: float
    seed: int = 1


@frozen
class Target:
    """A receiver, and whether it is a good one."""

    url: str
    got: Sequence[Request]
    is_sound: bool


@frozen
class Result:
    """What came of one pair of event and endpoint, and all that the judge compares."""

    endpoint: Endpoint
    target: Target
    secret: str
    deliveries: Mapping[str, Delivery]
    """By event."""


class Workers:
    """Processes that are killed, and started anew."""

    def __init__(self, environ: Mapping[str, str], plan: Plan, log: Path) -> None:
        self._environ, self._plan, self._log = environ, plan, log
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        words = [str(self._plan.attempt), str(self._plan.lease)]
        with self._log.open("ab") as log:
            self._running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.webhooks.worker_process", *words],
                    env={**os.environ, **self._environ},
                    stdout=log,
                    stderr=log,
                )
            )

    def kill_one(self, chance: random.Random) -> None:
        process = self._running.pop(chance.randrange(len(self._running)))
        process.kill()
        process.wait()

    def stop(self) -> list[int]:
        """Ask all politely: their exit codes."""
        for process in self._running:
            process.terminate()
        codes = [process.wait(20) for process in self._running]
        self._running.clear()
        return codes

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


@asynccontextmanager
async def deployment(database_url: str, roots: Path) -> AsyncIterator[tuple[Settings, dict]]:
    """Settings, and the environment that makes them in another process."""
    environ = {
        "STAFFBOOKING_DATABASE_URL": database_url,
        "STAFFBOOKING_WEBHOOK_ALLOW_INSECURE": "1",
        "SSL_CERT_FILE": str(roots),
    }
    settings = load_settings(environ)
    await upgrade_schema(settings)
    yield settings, environ


async def soak(
    database_url: str, plan: Plan, targets: Sequence[Target], roots: Path, folder: Path
) -> list[Result]:
    """Run the plan: what there is when all is done."""
    chance = random.Random(plan.seed)
    async with (
        deployment(database_url, roots) as (settings, environ),
        open_ports(settings) as ports,
    ):
        scene, registered = await _register(ports, targets)
        workers = Workers(environ, plan, folder / "workers.log")
        try:
            for _ in range(WORKERS):
                workers.start()
            async with anyio.create_task_group() as group:
                group.start_soon(_make_events, scene, plan)
                group.start_soon(_kill, workers, plan, chance)
            with anyio.fail_after(plan.patience):
                await _until_done(ports)
            codes = await anyio.to_thread.run_sync(workers.stop)
        finally:
            workers.close()
        assert codes == [0] * WORKERS
        return [
            Result(endpoint, target, secret, await _deliveries(ports, endpoint.id))
            for target, (endpoint, secret) in zip(targets, registered, strict=True)
        ]


async def _register(
    ports: Ports, targets: Sequence[Target]
) -> tuple[Scene, list[tuple[Endpoint, str]]]:
    """People and endpoints: those of a customer, and those of an admin, who gets all."""
    companion = await add_companion(ports.store)
    customer = await add_user(ports.store, subscription=Subscription.ENTERPRISE)
    admin = await add_user(ports.store, role=Role.ADMIN)
    scene = Scene(ports, actor_of(customer), actor_of(companion), actor_of(admin))
    owners: list[User] = [customer, admin]
    registered = []
    for number, target in enumerate(targets):
        wanted = CreateWebhook(url=target.url)
        registered.append(await endpoints.register(ports, owners[number % 2], wanted))
    return scene, registered


async def _make_events(scene: Scene, plan: Plan) -> None:
    day = (datetime.now(UTC) + timedelta(days=30)).date()
    for _ in range(plan.events):
        await scene.request(event_date=day)
        await anyio.sleep(plan.over / plan.events)


async def _kill(workers: Workers, plan: Plan, chance: random.Random) -> None:
    for _ in range(plan.kills):
        await anyio.sleep(plan.over / plan.kills * chance.uniform(0.5, 1.0))
        await anyio.to_thread.run_sync(workers.kill_one, chance)
        workers.start()


async def _until_done(ports: Ports) -> None:
    while True:
        async with ports.store.reading() as view:
            figures = await view.webhooks.figures(ports.clock.wall())
        if not figures.unplaced and not figures.pending:
            return
        await anyio.sleep(0.25)


async def _deliveries(ports: Ports, endpoint_id: int) -> dict[str, Delivery]:
    found: dict[str, Delivery] = {}
    page = 1
    while True:
        logged, has_more = await endpoints.deliveries_of(ports, None, endpoint_id, page, 50)
        found |= {each.delivery.event_id: each.delivery for each in logged}
        if not has_more:
            return found
        page += 1


# The judge --------------------------------------------------------------------------------


def judge(results: Sequence[Result], plan: Plan) -> dict[str, float]:
    """Assert everything that is promised; figures to be told."""
    pairs = plan.events * len(results)
    bodies: dict[str, bytes] = {}
    repeats = 0
    for result in results:
        assert len(result.deliveries) == plan.events, result.endpoint.url
        statuses = Counter(each.status for each in result.deliveries.values())
        _judge_endpoint(result, statuses, plan)
        repeats += _judge_received(result, bodies)
    return {"pairs": pairs, "repeats": repeats}


def _judge_endpoint(result: Result, statuses: Counter[DeliveryStatus], plan: Plan) -> None:
    endpoint, target = result.endpoint, result.target
    if target.is_sound:
        assert statuses == {DeliveryStatus.SUCCEEDED: plan.events}, (endpoint.url, statuses)
        assert {each.headers["x-webhook-id"] for each in target.got} == set(result.deliveries)
        return
    done = {DeliveryStatus.SUCCEEDED, DeliveryStatus.FAILED, DeliveryStatus.HELD}
    assert set(statuses) <= done, (endpoint.url, statuses)
    for delivery in result.deliveries.values():
        if delivery.status is DeliveryStatus.FAILED:
            assert delivery.attempts == 4


def _judge_received(result: Result, bodies: dict[str, bytes]) -> int:
    """Every signature holds in both schemes, and an event has the same bytes wherever and
    however often it came; how many successes came more than once."""
    for each in result.target.got:
        event_id, sent_at = each.headers["webhook-id"], int(each.headers["webhook-timestamp"])
        signed = standard_signature(result.secret, event_id, sent_at, each.body)
        assert each.headers["webhook-signature"] == signed
        assert each.headers["x-webhook-signature"] == hex_signature(result.secret, each.body)
        assert bodies.setdefault(event_id, each.body) == each.body
    for each in result.target.got[-1:]:  # The others may be older than it accepts.
        standardwebhooks.Webhook(result.secret).verify(each.body, each.headers)
    if not result.target.is_sound:
        return 0
    return len(result.target.got) - len(result.deliveries)
