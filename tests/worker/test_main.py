"""The worker's jobs: each continues independently of the others, and stops on demand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint
from attrs import evolve

from staffbooking_adapters.memory.doubles import RecordingNotifier
from staffbooking_adapters.testing.builders import MINUTE, POLICY, add_user
from staffbooking_adapters.testing.builders_notifications import add_notification, make_notification
from staffbooking_adapters.testing.builders_webhooks import add_event
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus, WebhookEndpoint
from staffbooking_core.errors import Conflict, NotificationsGivenUp, StoreUnavailable
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Email, Hint, PaymentProcessor, Ports, UndeliverableEmail
from staffbooking_core.usecases.payments import reconciliation
from staffbooking_worker import main
from staffbooking_worker.jobs import JOBS, Job
from tests.support.memory_deployment import (
    BookingScenario,
    make_booking_scenario,
    memory_ports,
)
from tests.support.webhook_deployment import WebhookScenario, make_webhook_scenario

pytestmark = pytest.mark.anyio

PORTS = cast("Ports", None)


class Work:
    """A job that returns the given results, one per call, and then stops the worker."""

    def __init__(self, stop: anyio.Event, *script: int | Exception) -> None:
        self.stop, self.script, self.calls = stop, list(script), 0

    async def __call__(self, _: Ports) -> int:
        self.calls += 1
        if not self.script:
            self.stop.set()
            return 0
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the delay after errors to zero."""
    monkeypatch.setattr(main, "ERROR_DELAY_SECONDS", 0)


async def test_a_job_runs_until_it_is_stopped() -> None:
    """A job with due work runs again without a wait."""
    stop = anyio.Event()
    work = Work(stop, 1, 1, 3)

    with anyio.fail_after(5):
        await main.run_jobs(PORTS, stop, [Job("busy", work, idle_seconds=60)])

    assert work.calls == 4


async def test_an_unavailable_store_does_not_end_a_job() -> None:
    """A job continues after the store was unavailable."""
    stop = anyio.Event()
    work = Work(stop, StoreUnavailable("gone"), 1)

    with anyio.fail_after(5):
        await main.run_jobs(PORTS, stop, [Job("store", work, idle_seconds=60)])

    assert work.calls == 3


async def test_an_unexpected_error_is_logged_and_does_not_end_a_job(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An unexpected error in a job is logged with its traceback, and the job continues."""
    stop = anyio.Event()
    work = Work(stop, RuntimeError("a bug"), 1)

    with anyio.fail_after(5):
        await main.run_jobs(PORTS, stop, [Job("buggy", work, idle_seconds=60)])

    assert work.calls == 3
    assert "a bug" in caplog.text


async def test_a_lost_lease_is_no_unexpected_error(caplog: pytest.LogCaptureFixture) -> None:
    """A job whose slow call outlasted its lease continues, with a warning and no traceback."""
    stop = anyio.Event()
    work = Work(stop, Conflict("operation"), 1)

    with anyio.fail_after(5):
        await main.run_jobs(PORTS, stop, [Job("slow", work, idle_seconds=60)])

    assert work.calls == 3
    assert [(record.levelname, record.exc_info) for record in caplog.records] == [("WARNING", None)]


async def test_stopping_does_not_wait_for_an_idle_job() -> None:
    """Stopping ends an idle job's wait at once."""
    stop = anyio.Event()
    ends_it = Work(stop)

    async def nothing_due(_: Ports) -> int:
        return 0

    with anyio.fail_after(5):
        await main.run_jobs(
            PORTS,
            stop,
            [Job("idle", nothing_due, idle_seconds=3600), Job("ends", ends_it, idle_seconds=1)],
        )

    assert ends_it.calls == 1


async def test_a_running_call_is_finished() -> None:
    """A running call is finished when the worker is stopped."""
    stop, finished = anyio.Event(), []

    async def slow(_: Ports) -> int:
        stop.set()
        await anyio.lowlevel.checkpoint()
        finished.append(True)
        return 1

    with anyio.fail_after(5):
        await main.run_jobs(PORTS, stop, [Job("slow", slow, idle_seconds=1)])

    assert finished == [True]


# Hints ----------------------------------------------------------------------------------


async def test_a_hint_ends_the_wait_of_its_job() -> None:
    """A hint ends an idle job's wait at once."""
    stop, ports = anyio.Event(), memory_ports()
    work = Work(stop, 0)
    job = Job("hinted", work, idle_seconds=3600, hint=Hint.EVENTS)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(main.run_jobs, ports, stop, [job])
            while work.calls == 0:
                await checkpoint()
            await add_event(ports.store)

    assert work.calls == 2


async def test_a_hint_while_a_job_runs_is_not_missed() -> None:
    """A hint given while the job runs makes it run again without a wait."""
    stop, ports = anyio.Event(), memory_ports()
    calls = []

    async def look(_: Ports) -> int:
        calls.append(True)
        if len(calls) == 1:
            await add_event(ports.store)
        else:
            stop.set()
        return 0

    with anyio.fail_after(5):
        await main.run_jobs(ports, stop, [Job("hinted", look, idle_seconds=3600, hint=Hint.EVENTS)])

    assert len(calls) == 2


# The whole worker -----------------------------------------------------------------------


async def add_event_to_publish(post: WebhookScenario) -> tuple[WebhookEndpoint, str]:
    """An endpoint of an admin, and the id of an unpublished event."""
    boss = await add_user(post.ports.store, role=Role.ADMIN)
    endpoint = await post.add_endpoint(owner=boss)
    post.set_response(endpoint, 200)
    return endpoint, (await add_event(post.ports.store)).id


async def test_drain_does_all_that_is_due() -> None:
    """Draining publishes and delivers an event, and a second call finds nothing."""
    post = make_webhook_scenario()
    endpoint, event_id = await add_event_to_publish(post)

    assert await main.drain(post.ports) == 2
    assert await main.drain(post.ports) == 0

    [sent] = post.sent
    assert (sent.url, sent.headers["X-Webhook-Id"]) == (endpoint.url, event_id)


async def test_drain_does_not_wait_for_retries() -> None:
    """A failed delivery is left for its retry."""
    post = make_webhook_scenario()
    endpoint, _ = await add_event_to_publish(post)
    post.set_response(endpoint, 500)

    with anyio.fail_after(5):
        assert await main.drain(post.ports) == 2

    assert await post.delivery_statuses(endpoint) == [DeliveryStatus.PENDING]


class Refusing(RecordingNotifier):
    """A notifier whose mails are undeliverable."""

    async def send_email(self, email: Email) -> None:
        raise UndeliverableEmail("no such user")


async def test_drain_continues_after_undeliverable_mails(caplog: pytest.LogCaptureFixture) -> None:
    """Notifications that are given up are logged and raised after all other work is done."""
    made = make_webhook_scenario()
    post = evolve(made, ports=evolve(made.ports, notifier=Refusing()))
    endpoint, _ = await add_event_to_publish(post)
    for _ in range(20):  # More than one batch.
        await add_notification(post.ports.store, make_notification(endpoint.owner_id))

    with pytest.raises(NotificationsGivenUp) as raised:
        await main.drain(post.ports)

    assert str(raised.value) == "20 notices were given up"
    assert len(post.sent) == 1
    assert caplog.text.count("UndeliverableEmail: no such user") == 20
    assert "notice 1 (webhook_disabled) was given up" in caplog.text
    assert await main.drain(post.ports) == 0


async def test_no_mail_is_started_after_a_stop() -> None:
    """After a stop the mail in flight is finished and no other is sent."""
    stop, mails = anyio.Event(), list[Email]()

    class Stopping(RecordingNotifier):
        async def send_email(self, email: Email) -> None:
            mails.append(email)
            if email.subject == "two":
                stop.set()

    ports = memory_ports(notifier=Stopping())
    user = await add_user(ports.store)
    for subject in ("one", "two", "three"):
        await add_notification(ports.store, make_notification(user.id, subject=subject))

    with anyio.fail_after(5):
        await main.run_jobs(ports, stop, [job for job in JOBS if job.name == "notices"])

    assert [mail.subject for mail in mails] == ["one", "two"]


async def test_the_worker_publishes_and_sends() -> None:
    """A running worker publishes an event and delivers it."""
    post, stop = make_webhook_scenario(), anyio.Event()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(main.run_worker, post.ports, stop)
            endpoint, _ = await add_event_to_publish(post)
            while await post.delivery_statuses(endpoint) != [DeliveryStatus.SUCCEEDED]:
                await checkpoint()
            stop.set()

    assert len(post.sent) == 1


# The first poll -------------------------------------------------------------------------


class SlowList:
    """A processor whose event list is slow."""

    def __init__(self, inner: PaymentProcessor, seconds: float) -> None:
        self.inner, self.seconds = inner, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def list_events(self, cursor: str | None, timeout_seconds: float) -> Any:
        await anyio.sleep(self.seconds)
        return await self.inner.list_events(cursor, timeout_seconds)


async def due_after_outage(policy: Policy) -> tuple[BookingScenario, Booking]:
    """A booking that was paid in time, and whose event was lost, after its due time."""
    scene = await make_booking_scenario(policy)
    booking = await scene.accepted()
    await scene.drain()
    await scene.simulate_checkout(booking)
    await scene.fault("event", "drop", 1)
    assert await reconciliation.deliver_sandbox_events(scene.ports) == 0
    scene.pass_time(booking.starts_at - await scene.now() + MINUTE)
    return scene, booking


async def run_until_decided(
    scene: BookingScenario, booking: Booking, list_seconds: float
) -> Booking:
    """Run a worker until the booking is paid or expired; returns it then."""
    stop, slow = anyio.Event(), SlowList(scene.ports.payments, list_seconds)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(main.run_worker, evolve(scene.ports, payments=slow), stop)
            while (found := await scene.booking(booking)).status is BookingStatus.ACCEPTED:
                await checkpoint()
            stop.set()
    return found


async def test_a_starting_worker_polls_before_a_booking_expires() -> None:
    """A booking that was paid in time during an outage is paid, not expired, by the worker that
    starts after its due time."""
    scene, booking = await due_after_outage(POLICY)
    assert (await run_until_decided(scene, booking, 0.05)).status is BookingStatus.PAID


async def test_timers_wait_no_longer_than_for_any_answer() -> None:
    """The timers of a starting worker begin after the processor's timeout, though its event list
    has not answered."""
    policy = evolve(POLICY, processor_timeout=timedelta(seconds=0.05))
    scene, booking = await due_after_outage(policy)
    assert (await run_until_decided(scene, booking, 1)).cancel_reason == "expired"
