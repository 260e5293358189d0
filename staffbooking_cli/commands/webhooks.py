"""`webhooks`: lists endpoints and deliveries, redelivers, and follows delivery attempts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from staffbooking_cli import options, render
from staffbooking_cli.listing import PAGE_SIZE
from staffbooking_cli.operators import run_operator_command
from staffbooking_cli.options import AsJson, By, Id, Limit, Page, Reason
from staffbooking_cli.session import run_command

if TYPE_CHECKING:
    from staffbooking_core.domain.webhooks.deliveries import (
        Delivery,
        DeliveryAttempt,
        EndpointSubscription,
        WebhookEndpoint,
    )
    from staffbooking_core.ports import Ports
    from staffbooking_core.representations.webhooks import DeliveryRecord
    from staffbooking_core.usecases.webhooks.delivery_log import DeliveryLog

app = typer.Typer(help="Webhooks: endpoints, deliveries, attempts.", no_args_is_help=True)

COLUMNS = (
    "id",
    "owner=owner_email",
    "url",
    "state",
    "ordered",
    "failures=consecutive_failures",
    "created_at",
    "reason=disabled_reason",
)
_DELIVERY_COLUMNS = (
    "id",
    "event",
    "event_id",
    "status",
    "tries",
    "last",
    "next_attempt_at",
    "created_at",
)
_ATTEMPT_COLUMNS = ("number", "at", "response_status", "error", "ms=duration_ms")

POLL_INTERVAL_SECONDS = 0.5
"""Seconds between polls for new attempts."""
LOG_DELAY_TOLERANCE = timedelta(seconds=10)
"""An attempt is logged when it has ended, at most this long after its timeout unless the store
was unavailable. The clocks of several machines may differ by as much."""


async def iterate_endpoints(ports: Ports) -> AsyncIterator[EndpointSubscription]:
    """All endpoints of all owners, ordered by id."""
    from staffbooking_core.usecases.webhooks import endpoints

    last = 0
    while page := await endpoints.list_endpoints_after(ports, last, PAGE_SIZE):
        for each in page:
            yield each
        last = page[-1].endpoint.id


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List all endpoints that are not deleted, ordered by id."""

    async def work(ports: Ports) -> None:
        async def records() -> AsyncIterator[dict[str, Any]]:
            async for each in iterate_endpoints(ports):
                owner = {"owner_id": each.owner.id, "owner_email": each.owner.email}
                yield {**_endpoint_record(each.endpoint), **owner}

        await render.print_list("webhooks", COLUMNS, records(), as_json)

    run_command(work)


def _endpoint_record(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """The published record with its state: `active`, `paused` or `disabled`."""
    from staffbooking_core.representations.webhooks import webhook_record

    state = "paused" if endpoint.disabled_at is None else "disabled"
    return {**webhook_record(endpoint), "state": "active" if endpoint.active else state}


@app.command()
def deliveries(endpoint_id: Id, limit: Limit = 50, page: Page = 1, as_json: AsJson = False) -> None:
    """List a page of an endpoint's deliveries, newest first."""
    from staffbooking_core.usecases.webhooks import delivery_log

    found, has_more = run_command(
        lambda ports: delivery_log.list_deliveries(ports, None, endpoint_id, page, limit)
    )
    records = [_delivery_record(logged) for logged in found]
    if as_json:
        render.print_json({"deliveries": records, "has_more": has_more})
        return
    render.print_table(
        _DELIVERY_COLUMNS, [{**record, **_delivery_summary(record)} for record in records]
    )
    if has_more:
        render.print_note(f"There are more: --page {page + 1}")


def _delivery_record(logged: DeliveryLog) -> DeliveryRecord:
    from staffbooking_core.representations.webhooks import delivery_record

    return delivery_record(logged.delivery, logged.attempts)


def _delivery_summary(record: DeliveryRecord) -> dict[str, Any]:
    """The number of attempts and the outcome of the last one."""
    attempts = record["attempts"]
    return {"tries": len(attempts), "last": _attempt_outcome(attempts[-1]) if attempts else None}


def _attempt_outcome(attempt: Mapping[str, Any]) -> object:
    """The response's status, or the error if there was no response."""
    return attempt["response_status"] or attempt["error"]


@app.command()
def redeliver(
    delivery_id: Annotated[int, typer.Argument(metavar="DELIVERY_ID", min=1, max=options.MAX_ID)],
    reason: Reason = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Send an event again, with the same id and bytes; the worker sends it as soon as the
    endpoint is active."""
    from staffbooking_core.usecases.webhooks import delivery_log

    logged = run_operator_command(
        lambda ports: delivery_log.redeliver(ports, None, delivery_id),
        "redeliver",
        "delivery",
        delivery_id,
        reason=reason,
        by=by,
    )
    record = _delivery_record(logged)
    render.print_result("delivery", record, as_json)
    if not as_json:
        render.print_table(_ATTEMPT_COLUMNS, record["attempts"], title="attempts so far")


@app.command()
def enable(endpoint_id: Id, reason: Reason = None, by: By = None, as_json: AsJson = False) -> None:
    """Enable a paused or disabled endpoint; its held deliveries are sent."""
    from staffbooking_core.usecases.webhooks import endpoints

    endpoint = run_operator_command(
        lambda ports: endpoints.enable_endpoint(ports, None, endpoint_id),
        "enable",
        "webhook",
        endpoint_id,
        reason=reason,
        by=by,
    )
    render.print_result("webhook", _endpoint_record(endpoint), as_json)


# Watching ---------------------------------------------------------------------------------


@app.command()
def tail(
    endpoint_id: Annotated[
        int | None,
        typer.Argument(metavar="[ID]", min=1, max=options.MAX_ID, help="Only this endpoint."),
    ] = None,
    since: Annotated[str, typer.Option(metavar="DURATION", help="How far back to begin.")] = "10m",
    follow: Annotated[bool, typer.Option(help="Wait for more, until Ctrl-C.")] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON document per line.")
    ] = False,
) -> None:
    """Print delivery attempts, one per line, as they are made."""
    import anyio

    ago = options.duration(since)

    async def work(ports: Ports) -> None:
        from staffbooking_cli.running import stop_on_signal
        from staffbooking_core.usecases.webhooks import endpoints

        if endpoint_id is not None:
            await endpoints.authorize(ports, None, endpoint_id)
        log = AttemptLog(ports, ports.clock.wall() - ago, endpoint_id)
        async with stop_on_signal() as stop:
            while not stop.is_set():
                async for delivery, attempt in log.new_attempts():
                    _print_line(_attempt_record(delivery, attempt), as_json)
                if not follow:
                    return
                with anyio.move_on_after(POLL_INTERVAL_SECONDS):
                    await stop.wait()

    run_command(work)


class AttemptLog:
    """Yields each attempt once. Attempts are logged when they end, slightly out of order, so
    each poll overlaps the one before."""

    def __init__(self, ports: Ports, since: datetime, endpoint_id: int | None = None) -> None:
        self._ports, self._since, self._endpoint_id = ports, since, endpoint_id
        self._seen: dict[tuple[int, int], datetime] = {}
        """Start times of the attempts that a later poll may return again, by delivery id and
        attempt number."""

    async def new_attempts(self) -> AsyncIterator[tuple[Delivery, DeliveryAttempt]]:
        """The attempts not yielded before, oldest first."""
        next_since = (
            self._ports.clock.wall()
            - self._ports.policy.webhook_attempt_timeout
            - LOG_DELAY_TOLERANCE
        )
        since, limit = self._since, PAGE_SIZE
        while True:
            page = await self._page(since, limit)
            for delivery, attempt in page:
                if self._is_new(delivery, attempt):
                    yield delivery, attempt
            if len(page) < limit:
                break
            last = page[-1][1].at
            limit = PAGE_SIZE if last > since else 2 * limit  # A full page began at one instant.
            since = last
            self._forget(min(since, next_since))
        self._since = max(self._since, next_since)
        self._forget(self._since)

    async def _page(
        self, since: datetime, limit: int
    ) -> Sequence[tuple[Delivery, DeliveryAttempt]]:
        async with self._ports.store.read_view() as view:
            return await view.webhooks.attempts_since(since, limit)

    def _is_new(self, delivery: Delivery, attempt: DeliveryAttempt) -> bool:
        name = delivery.id, attempt.number
        is_new = name not in self._seen
        self._seen[name] = attempt.at
        return is_new and self._endpoint_id in (None, delivery.endpoint_id)

    def _forget(self, before: datetime) -> None:
        self._seen = {name: at for name, at in self._seen.items() if at >= before}


def _attempt_record(delivery: Delivery, attempt: DeliveryAttempt) -> dict[str, Any]:
    from staffbooking_core.representations.webhooks import attempt_record

    return {
        "webhook_id": delivery.endpoint_id,
        "delivery_id": delivery.id,
        "event": delivery.event,
        "event_id": delivery.event_id,
        **attempt_record(attempt),
    }


def _print_line(record: dict[str, Any], as_json: bool) -> None:
    if as_json:
        render.print_json(record)
        return
    words = (
        render.format_cell(record["at"]),
        f"webhook {record['webhook_id']}",
        f"{record['event']:<17}",
        record["event_id"],
        f"attempt {record['number']}",
        _attempt_outcome(record),
        f"{record['duration_ms']} ms",
    )
    typer.echo("  ".join(map(str, words)))
