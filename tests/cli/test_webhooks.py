"""`staffbooking webhooks`: endpoints, deliveries, and following attempts."""

from __future__ import annotations

import json
import signal
from datetime import timedelta
from typing import Any

import anyio
import pytest

from staffbooking_adapters import wiring
from staffbooking_adapters.memory.webhooks.receivers import MemorySender
from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.testing.builders import MINUTE, SECOND, add_subscriber
from staffbooking_adapters.testing.builders_webhooks import (
    add_delivery,
    add_endpoint,
    add_event,
    make_attempt,
)
from staffbooking_cli.commands import webhooks
from staffbooking_cli.commands.webhooks import AttemptLog
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.webhooks.deliveries import WebhookEndpoint
from staffbooking_core.ports import Ports
from tests.cli.deployment import CliDeployment
from tests.cli.processes import (
    STOP_TIMEOUT_SECONDS,
    read_until,
    run_in_background,
    stop_process,
)
from tests.support.memory_deployment import memory_ports

URL = "https://crm.example.com/in"
OWNER = "agency@example.com"
DAY_AGO = ("--since", "24h", "--no-follow")


async def registered(ports: Ports, **given: Any) -> WebhookEndpoint:
    """An admin's endpoint, which is subscribed to all events."""
    owner = await add_subscriber(ports.store, role=Role.ADMIN, email=OWNER)
    return await add_endpoint(ports.store, owner, vault=ports.vault, url=URL, **given)


@pytest.fixture
def endpoint(deployment: CliDeployment) -> WebhookEndpoint:
    return deployment.run_on_ports(registered)


def sender_of(deployment: CliDeployment) -> MemorySender:
    assert isinstance(deployment.ports.webhook_sender, MemorySender)
    return deployment.ports.webhook_sender


def deliver(deployment: CliDeployment, status: int | None) -> str:
    """Publish an event and attempt its delivery to a receiver with the given answer; returns the
    event."""
    sender = sender_of(deployment)
    sender.receivers = {} if status is None else {URL: lambda _, body: status}
    event = deployment.run_on_ports(lambda ports: add_event(ports.store))
    deployment.run_json("worker", "--drain")
    return event.id


def deliveries(deployment: CliDeployment, endpoint: WebhookEndpoint, *options: object) -> list[Any]:
    found = deployment.run_json("webhooks", "deliveries", endpoint.id, *options)["deliveries"]
    assert isinstance(found, list)
    return found


# Endpoints --------------------------------------------------------------------------------


def test_without_endpoints_the_list_is_empty(deployment: CliDeployment) -> None:
    """Without endpoints the list is empty."""
    assert deployment.run_json("webhooks", "list") == {"webhooks": []}


def test_endpoints_are_listed_with_their_owners(
    deployment: CliDeployment, endpoint: WebhookEndpoint
) -> None:
    """The list has the published record and the owner, without a secret."""
    [listed] = deployment.run_json("webhooks", "list")["webhooks"]
    assert (listed["id"], listed["url"], listed["state"]) == (endpoint.id, URL, "active")
    assert (listed["owner_id"], listed["owner_email"]) == (endpoint.owner_id, OWNER)
    assert (listed["consecutive_failures"], listed["ordered"]) == (0, False)
    assert "secret" not in json.dumps(listed)
    table = deployment.run_table("webhooks", "list")
    assert (URL in table, OWNER in table, "active" in table) == (True, True, True)


def test_lists_are_read_in_pages(
    deployment: CliDeployment, endpoint: WebhookEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of several pages contains every endpoint once."""
    monkeypatch.setattr(webhooks, "PAGE_SIZE", 2)
    others = [deployment.run_on_ports(lambda ports: add_endpoint(ports.store)) for _ in range(4)]
    listed = deployment.run_json("webhooks", "list")["webhooks"]
    assert [one["id"] for one in listed] == [endpoint.id, *(one.id for one in others)]


@pytest.mark.parametrize(
    ("disabled", "state"), [(False, "paused"), (True, "disabled")], ids=["paused", "disabled"]
)
def test_the_state_tells_paused_from_disabled(
    deployment: CliDeployment, disabled: bool, state: str
) -> None:
    """The state tells a paused endpoint from a disabled one."""
    at = deployment.ports.clock.wall() if disabled else None
    deployment.run_on_ports(lambda ports: registered(ports, active=False, disabled_at=at))
    [listed] = deployment.run_json("webhooks", "list")["webhooks"]
    assert (listed["state"], listed["active"]) == (state, False)


def test_an_endpoint_is_enabled(deployment: CliDeployment) -> None:
    """Enabling sends the held deliveries and resets the failure record."""
    endpoint = deployment.run_on_ports(
        lambda ports: registered(ports, active=False, consecutive_failures=7)
    )
    deliver(deployment, 200)
    assert deliveries(deployment, endpoint)[0]["status"] == "held"
    enabled = deployment.run_json("webhooks", "enable", endpoint.id)["webhook"]
    assert (enabled["active"], enabled["consecutive_failures"]) == (True, 0)
    deployment.run_json("worker", "--drain")
    assert deliveries(deployment, endpoint)[0]["status"] == "succeeded"
    assert "active" in deployment.run_table("webhooks", "enable", endpoint.id)


# Deliveries -------------------------------------------------------------------------------


def test_a_delivery_has_its_attempts(deployment: CliDeployment, endpoint: WebhookEndpoint) -> None:
    """The document has the contract's record; the table has the outcome of the last attempt."""
    event_id = deliver(deployment, 204)
    [delivery] = deliveries(deployment, endpoint)
    assert (delivery["event_id"], delivery["event"]) == (event_id, "booking.created")
    assert (delivery["status"], delivery["next_attempt_at"]) == ("succeeded", None)
    [attempt] = delivery["attempts"]
    assert (attempt["number"], attempt["response_status"], attempt["error"]) == (1, 204, None)
    table = deployment.run_table("webhooks", "deliveries", endpoint.id)
    assert (event_id in table, "204" in table, "succeeded" in table) == (True, True, True)


def test_a_failed_attempt_says_why(deployment: CliDeployment, endpoint: WebhookEndpoint) -> None:
    """An attempt without a response has a reason, and the table shows the next retry."""
    deliver(deployment, None)
    [delivery] = deliveries(deployment, endpoint)
    assert delivery["status"] == "pending"
    assert delivery["next_attempt_at"] > delivery["attempts"][0]["at"]
    assert "connection_failed" in deployment.run_table("webhooks", "deliveries", endpoint.id)


def test_deliveries_come_in_pages(deployment: CliDeployment, endpoint: WebhookEndpoint) -> None:
    """The newest deliveries come first, and a note says that there are more."""
    first, second = deliver(deployment, 200), deliver(deployment, 200)
    page = deployment.run_json("webhooks", "deliveries", endpoint.id, "--limit", 1)
    assert ([one["event_id"] for one in page["deliveries"]], page["has_more"]) == ([second], True)
    [older] = deliveries(deployment, endpoint, "--limit", 1, "--page", 2)
    assert older["event_id"] == first
    result = deployment.run_command("webhooks", "deliveries", endpoint.id, "--limit", 1)
    assert "There are more: --page 2" in result.stderr


def test_a_delivery_is_sent_again(deployment: CliDeployment, endpoint: WebhookEndpoint) -> None:
    """The receiver gets the same event with the same bytes again."""
    event_id = deliver(deployment, 200)
    [delivery] = deliveries(deployment, endpoint)
    again = deployment.run_json("webhooks", "redeliver", delivery["id"])["delivery"]
    assert (again["status"], len(again["attempts"])) == ("pending", 1)
    deployment.run_json("worker", "--drain")
    first, second = sender_of(deployment).sent
    assert (first.body, first.headers["webhook-id"]) == (second.body, event_id)
    assert second.headers["webhook-id"] == event_id
    assert "attempts so far" in deployment.run_table("webhooks", "redeliver", delivery["id"])


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("deliveries", 77), "Webhook not found"),
        (("enable", 77), "Webhook not found"),
        (("tail", 77), "Webhook not found"),
        (("redeliver", 77), "Delivery not found"),
    ],
)
def test_an_unknown_endpoint_or_delivery_is_refused(
    deployment: CliDeployment, command: tuple[object, ...], line: str
) -> None:
    """One line names what was not found."""
    assert deployment.run_refused("webhooks", *command) == f"staffbooking: {line}"


# Watching ---------------------------------------------------------------------------------


def lines(deployment: CliDeployment, *options: object) -> list[Any]:
    result = deployment.run_command("webhooks", "tail", *options, "--json")
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_attempts_are_printed_one_a_line(
    deployment: CliDeployment, endpoint: WebhookEndpoint
) -> None:
    """Each line has the event, the endpoint and the outcome."""
    event_id = deliver(deployment, 503)
    [line] = lines(deployment, *DAY_AGO)
    assert (line["webhook_id"], line["event_id"]) == (endpoint.id, event_id)
    assert (line["event"], line["number"]) == ("booking.created", 1)
    assert (line["response_status"], line["error"]) == (503, "http_status")
    assert line["duration_ms"] >= 0
    told = deployment.run_table("webhooks", "tail", *DAY_AGO)
    assert told.count("\n") == 1
    for word in (f"webhook {endpoint.id}", "booking.created", event_id, "attempt 1", "503", " ms"):
        assert word in told


def test_where_there_was_no_response_the_line_says_why(
    deployment: CliDeployment, endpoint: WebhookEndpoint
) -> None:
    """An attempt without a response shows the reason instead of a status."""
    deliver(deployment, None)
    assert "connection_failed" in deployment.run_table("webhooks", "tail", endpoint.id, *DAY_AGO)


def test_attempts_of_one_endpoint_are_watched(
    deployment: CliDeployment, endpoint: WebhookEndpoint
) -> None:
    """With an endpoint's id only its attempts are printed."""
    deliver(deployment, 200)
    other = deployment.run_on_ports(lambda ports: add_endpoint(ports.store))
    assert len(lines(deployment, endpoint.id, *DAY_AGO)) == 1
    assert lines(deployment, other.id, *DAY_AGO) == []


def test_attempts_of_long_ago_are_left_out(
    deployment: CliDeployment, endpoint: WebhookEndpoint
) -> None:
    """Only attempts since the requested time are printed."""

    async def long_ago(ports: Ports) -> None:
        await log(ports, endpoint, ports.clock.wall() - 11 * MINUTE)

    deployment.run_on_ports(long_ago)
    assert lines(deployment, "--no-follow") == []
    assert len(lines(deployment, "--no-follow", "--since", "12m")) == 1


def test_a_length_of_time_is_checked(deployment: CliDeployment) -> None:
    """An invalid duration is a usage error."""
    result = deployment.run_command("webhooks", "tail", "--since", "soon")
    assert result.exit_code == 2
    assert "'soon' is not a duration" in result.stderr


async def log(ports: Ports, endpoint: WebhookEndpoint, *begun: Any) -> list[int]:
    """Logs attempts that began at these times, each of a separate delivery; returns the
    deliveries."""
    made = []
    for at in begun:
        delivery = await add_delivery(ports.store, endpoint)
        attempt = make_attempt(at=at)

        async def unit(tx: Any, made: Any = (delivery.id, attempt)) -> None:
            await tx.webhooks.add_attempts([made])

        await ports.store.run_transaction(unit)
        made.append(delivery.id)
    return made


async def new(log: AttemptLog) -> list[int]:
    return [delivery.id async for delivery, _ in log.new_attempts()]


@pytest.fixture
def ports() -> Ports:
    return memory_ports()


@pytest.mark.anyio
async def test_an_attempt_logged_late_is_printed(ports: Ports) -> None:
    """An attempt that is logged after later ones is printed, and none is printed twice."""
    endpoint, now = await add_endpoint(ports.store), ports.clock.wall()
    watched = AttemptLog(ports, now)
    later = await log(ports, endpoint, now + 9 * SECOND)
    ports.clock.advance(10 * SECOND)  # type: ignore[attr-defined]
    assert await new(watched) == later
    earlier = await log(ports, endpoint, now + SECOND)
    assert await new(watched) == earlier
    assert await new(watched) == []


@pytest.mark.anyio
async def test_no_attempt_is_printed_twice(ports: Ports) -> None:
    """Polls overlap, and repeated attempts are dropped until no poll returns them."""
    endpoint, now = await add_endpoint(ports.store), ports.clock.wall()
    watched, told = AttemptLog(ports, now), []
    made = await log(ports, endpoint, *(now + n * SECOND for n in range(40)))
    for _ in range(40):
        ports.clock.advance(timedelta(seconds=3))  # type: ignore[attr-defined]
        told += await new(watched)
    assert told == made


@pytest.mark.anyio
@pytest.mark.parametrize("at_once", [1, 2, 5, 12])
async def test_the_past_is_printed_in_order(
    ports: Ports, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """The past is read page by page, each attempt once, even if a page began at one instant."""
    monkeypatch.setattr(webhooks, "PAGE_SIZE", 3)
    endpoint, now = await add_endpoint(ports.store), ports.clock.wall()
    made = await log(ports, endpoint, *(now + n // at_once * SECOND for n in range(12)))
    ports.clock.advance(10 * MINUTE)  # type: ignore[attr-defined]
    assert await new(AttemptLog(ports, now)) == made


@pytest.mark.anyio
async def test_only_recent_attempts_are_remembered(ports: Ports) -> None:
    """After reading the past only the attempts that the next poll may return are remembered."""
    endpoint, now = await add_endpoint(ports.store), ports.clock.wall()
    await log(ports, endpoint, *(now + n * SECOND for n in range(100)))
    ports.clock.advance(99 * SECOND)  # type: ignore[attr-defined]
    watched = AttemptLog(ports, now)
    assert len(await new(watched)) == 100
    overlap = ports.policy.webhook_attempt_timeout + webhooks.LOG_DELAY_TOLERANCE
    assert len(watched._seen) == overlap / SECOND + 1


# A process ----------------------------------------------------------------------------------


async def attempted(env: dict[str, str]) -> str:
    """Makes an attempt in a new database; returns its event."""
    async with wiring.open_ports(load_settings(env)) as ports:
        endpoint = await registered(ports)
        [delivery_id] = await log(ports, endpoint, ports.clock.wall())
        async with ports.store.read_view() as view:
            delivery = await view.webhooks.delivery(delivery_id)
    assert delivery is not None
    return delivery.event_id


def test_attempts_are_printed_as_they_are_made(env: dict[str, str]) -> None:
    """The command follows attempts until it is interrupted, and exits without an error."""
    with run_in_background("webhooks", "tail", "--json", env=env) as watching:
        event_id = anyio.run(attempted, env)
        line = json.loads(read_until(watching.stdout, event_id))
        assert (line["number"], line["response_status"]) == (1, 200)
        assert stop_process(watching, signal.SIGINT) == 0


def test_a_closed_pipe_ends_the_watch(env: dict[str, str]) -> None:
    """A reader that closes the pipe early causes no traceback."""
    with run_in_background("webhooks", "tail", env=env) as watching:
        assert watching.stdout is not None
        watching.stdout.close()
        anyio.run(attempted, env)
        assert watching.wait(STOP_TIMEOUT_SECONDS) == 1
        assert watching.stderr is not None
        assert watching.stderr.read() == ""
