"""`doctor`: checks the deployment's configuration and health."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.commands.webhooks import iterate_endpoints
from staffbooking_cli.errors import error_line
from staffbooking_cli.options import AsJson
from staffbooking_cli.session import read_settings

if TYPE_CHECKING:
    from staffbooking_core.ports import Ports

Check = dict[str, Any]

_MAX_LISTED = 10_000
"""Maximum number of open payouts or failed refunds that are examined."""
_MAX_NAMED = 20
"""Maximum number of held payouts whose codes are printed."""
_MAX_MISSED_ROUNDS = 3
"""Event polling counts as stopped after this many missed poll intervals."""
PICKUP_TIMEOUT_SECONDS = 1.0
"""Seconds within which a running worker publishes an event."""
_MAX_DELIVERY_LAG = timedelta(minutes=1)
"""Deliveries overdue by more than this fail the check."""
_MAX_WORK_DELAY = timedelta(minutes=10)
"""Work overdue by more than this fails the check. Payouts have a check of their own, since a failed
one is overdue while it is retried."""


def doctor(as_json: AsJson = False) -> None:
    """Check settings, database, processor, clock and pending work; exit with 1 on a failure."""
    import anyio

    checks = anyio.run(_run_checks)
    if as_json:
        render.print_json({"checks": checks})
    else:
        render.print_table(("name", "ok", "detail"), checks)
    if wrong := [check["name"] for check in checks if not check["ok"]]:
        render.print_note(f"staffbooking: not in order: {', '.join(wrong)}")
        raise typer.Exit(1)


def _make_check(name: str, detail: str, ok: bool = True) -> Check:
    return {"name": name, "ok": ok, "detail": " ".join(detail.split())}


async def _run_checks() -> list[Check]:
    """All checks up to the first stage that fails: each stage depends on the one before."""
    checks: list[Check] = []
    for name, stage in (
        ("settings", _check_settings),
        ("schema", _check_schema),
        ("database", _check_ports),
    ):
        checks += [check async for check in _checks_with_error(name, stage())]
        if not all(check["ok"] for check in checks):
            break
    return checks


async def _checks_with_error(name: str, checks: AsyncIterator[Check]) -> AsyncIterator[Check]:
    """The checks; an exception becomes a last, failed check."""
    try:
        async for check in checks:
            yield check
    except Exception as error:
        yield _make_check(name, error_line(error) or repr(error), ok=False)


# Before anything is open ----------------------------------------------------------------


async def _check_settings() -> AsyncIterator[Check]:
    from staffbooking_adapters import wiring

    settings = read_settings()
    policy, kind = settings.policy, settings.database_url.partition("+")[0]
    yield _make_check("settings", f"{kind}, base URL {policy.base_url}, {policy.currency.code}")
    if settings.has_default_secret:
        detail = "the default, known to everybody: set STAFFBOOKING_SECRET_KEY for other than tests"
        yield _make_check("secret", detail)
    else:
        yield _make_check("secret", "is set")
    problem = wiring.find_files_problem(settings)
    yield _make_check(
        "files", "can be stored" if problem is None else problem.text, ok=problem is None
    )


async def _check_schema() -> AsyncIterator[Check]:
    from staffbooking_adapters import wiring

    mismatch = await wiring.find_schema_problem(read_settings())
    yield _make_check("schema", mismatch or "is this version's", ok=mismatch is None)


# With the ports open --------------------------------------------------------------------


async def _check_ports() -> AsyncIterator[Check]:
    from staffbooking_adapters import wiring

    settings = read_settings()
    async with wiring.open_ports(settings) as ports:
        for name, problem in (await wiring.find_server_problems(settings)).items():
            yield _make_check(name, problem or "answers", ok=problem is None)
        for name, look in _PORT_CHECKS.items():
            async for check in _checks_with_error(name, look(ports)):
                yield check


async def _check_database(ports: Ports) -> AsyncIterator[Check]:
    await ports.store.check_writable(ports.clock.wall())
    yield _make_check("database", "answers and takes changes")


async def _check_processor(ports: Ports) -> AsyncIterator[Check]:
    """The processor's name, and its findings about our account."""
    simulated = " (simulated: no money moves)" if ports.sandbox is not None else ""
    within = ports.policy.processor_timeout.total_seconds()
    findings = await ports.payments.checkup(within)
    yield _make_check("processor", f"{ports.payments.name}{simulated}")
    for finding in findings:
        yield _make_check(f"processor: {finding.name}", finding.detail, finding.ok)


async def _check_clock(ports: Ports) -> AsyncIterator[Check]:
    """Business time, and the difference between this machine's clock and the database's."""
    from staffbooking_core.domain.shared.clock_skew import find_clock_fault, format_skew
    from staffbooking_core.representations.json_types import format_instant

    skew = ports.clock.skew()
    fault = find_clock_fault(skew, ports.policy.max_clock_skew)
    business = (await ports.clock.business()).replace(microsecond=0)
    ahead = business - ports.clock.wall().replace(microsecond=0)
    text = f"{format_instant(business)}, {_format_span(ahead)} ahead of the real time"
    if skew is None or skew:  # With SQLite there is one clock.
        text += f"; {fault or format_skew(skew or timedelta())}"
    yield _make_check("clock", text, ok=fault is None)


async def _check_events(ports: Ports) -> AsyncIterator[Check]:
    """Whether a worker polls the processor for lost events."""
    async with ports.store.read_view() as view:
        cursor = await view.cursors.cursor(ports.payments.name)
    if cursor is None:
        yield _make_check("events", "not caught up with yet: a worker does it")
        return
    age = ports.clock.wall() - cursor[1]
    late = age > _MAX_MISSED_ROUNDS * ports.policy.processor_event_poll_interval
    hint = ": does a worker run?" if late else ""
    yield _make_check("events", f"caught up with {_format_span(age)} ago{hint}", ok=not late)


async def _check_payouts(ports: Ports) -> AsyncIterator[Check]:
    """Payouts past their deadline, or near it: past the time at which operators are alerted."""
    from staffbooking_core.domain.bookings.booking import PayoutStatus
    from staffbooking_core.domain.bookings.timers import payout_alarm_time, payout_deadline

    now = await ports.clock.business()
    async with ports.store.read_view() as view:
        pending_payouts = await view.bookings.open_payouts(_MAX_LISTED)
        frozen = [
            booking for booking in pending_payouts if booking.payout_status is PayoutStatus.FROZEN
        ]
        payees = {
            booking.companion_id: await view.accounts.user(booking.companion_id)
            for booking in frozen
        }
    disabled_ids = {
        user_id for user_id, user in payees.items() if user is not None and user.disabled_at
    }
    held = [booking.code for booking in frozen if booking.companion_id in disabled_ids]
    due = [
        booking.payout_due_at
        for booking in pending_payouts
        if booking.payout_status is not PayoutStatus.FROZEN and booking.payout_due_at is not None
    ]
    near = sum(now >= payout_alarm_time(at, ports.policy) for at in due)
    past = sum(now >= payout_deadline(at, ports.policy) for at in due)
    text = f"{len(due)} to be made, {len(frozen)} frozen"
    if held:
        more = f" and {len(held) - _MAX_NAMED} more" if len(held) > _MAX_NAMED else ""
        text += f", of disabled accounts: {', '.join(held[:_MAX_NAMED])}{more}"
        text += " (staffbooking payouts release)"
    if near:
        text += f"; {near - past} near their deadline, {past} past it: staffbooking payouts list"
    yield _make_check("payouts", text, ok=not near)


async def _check_refunds(ports: Ports) -> AsyncIterator[Check]:
    async with ports.store.read_view() as view:
        failed = len(await view.operations.failed_refunds(_MAX_LISTED))
    text = f"{failed} failed: staffbooking refunds list" if failed else "none failed"
    yield _make_check("refunds", text, ok=not failed)


async def _check_work(ports: Ports) -> AsyncIterator[Check]:
    """Whether a worker does what is due, mails too."""
    from staffbooking_core.usecases import health

    backlog = [row for row in await health.get_backlog(ports) if row.count]
    parts = [
        f"{row.count} {row.kind} (the oldest {_format_span(timedelta(seconds=row.oldest))} late)"
        for row in backlog
    ]
    # A tester who moves the sandbox's clock makes timers late, until the worker's next turn.
    ignored = {"payout", "timer"} if ports.policy.sandbox else {"payout"}
    is_late = any(
        row.kind not in ignored and row.oldest > _MAX_WORK_DELAY.total_seconds() for row in backlog
    )
    hint = ": does a worker run?" if is_late else ""
    async with ports.store.read_view() as view:
        alerts = await view.alerts.alerts(1)
    latest = f"; newest alert: {alerts[0].text}" if alerts else ""
    yield _make_check("work", f"due: {', '.join(parts) or 'nothing'}{hint}{latest}", ok=not is_late)


async def _check_webhooks(ports: Ports) -> AsyncIterator[Check]:
    """Whether a worker publishes events and sends deliveries."""
    from staffbooking_core.usecases import health

    figures = await health.get_webhook_stats(ports)
    endpoints = [each.endpoint async for each in iterate_endpoints(ports)]
    lag = timedelta(seconds=figures.lag)
    stuck = figures.unplaced > 0 and await _is_stuck(ports)
    disabled = sum(endpoint.disabled_at is not None for endpoint in endpoints)
    text = f"{len(endpoints)} endpoints, {disabled} disabled; "
    text += f"{figures.pending} deliveries pending, {figures.held} held"
    if lag > _MAX_DELIVERY_LAG:
        text += f"; the most overdue {_format_span(lag)} late: does a worker run?"
    if stuck:
        text += f"; {figures.unplaced} events not taken up: does a worker run?"
    yield _make_check("webhooks", text, ok=lag <= _MAX_DELIVERY_LAG and not stuck)


async def _is_stuck(ports: Ports) -> bool:
    """Whether the oldest unsequenced event stays the same for PICKUP_TIMEOUT_SECONDS. A busy
    service always has one, so one look is not enough."""

    async def next_event() -> str | None:
        async with ports.store.read_view() as view:
            waiting = await view.webhooks.unsequenced_events(1)
        return waiting[0].id if waiting else None

    first = await next_event()
    await ports.clock.sleep(PICKUP_TIMEOUT_SECONDS)
    return first is not None and await next_event() == first


def _format_span(time: timedelta) -> str:
    """A duration as a whole number of the largest unit that gives at least 2."""
    seconds = time.total_seconds()
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


_PORT_CHECKS: dict[str, Callable[[Ports], AsyncIterator[Check]]] = {
    "database": _check_database,
    "processor": _check_processor,
    "clock": _check_clock,
    "events": _check_events,
    "payouts": _check_payouts,
    "refunds": _check_refunds,
    "webhooks": _check_webhooks,
    "work": _check_work,
}
"""The checks that need open ports, in the order in which they run."""
