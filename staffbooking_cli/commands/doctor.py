"""`doctor`: is this deployment as it should be?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import typer

from staffbooking_cli import render
from staffbooking_cli.errors import refusal
from staffbooking_cli.options import AsJson
from staffbooking_cli.session import settings

if TYPE_CHECKING:
    from staffbooking_adapters.settings import Settings
    from staffbooking_core.ports import Ports

Check = dict[str, Any]

NAMES = ("settings", "secret", "schema", "database", "processor", "clock", "work")
"""In their order."""


def doctor(as_json: AsJson = False) -> None:
    """Look at settings, database, processor, clock and pending work; exit 1 on a fault."""
    import anyio

    checks = anyio.run(_all)
    if as_json:
        render.print_json({"checks": checks})
    else:
        render.print_table(("name", "ok", "detail"), checks)
    if wrong := [check["name"] for check in checks if not check["ok"]]:
        render.note(f"staffbooking: not in order: {', '.join(wrong)}")
        raise typer.Exit(1)


async def _all() -> list[Check]:
    """As many checks as can be made: each needs what the ones before it found."""
    checks: list[Check] = []
    try:
        async for check in _examine():
            checks.append(check)  # noqa: PERF401  (those before a fault are to be kept)
    except Exception as error:
        checks.append(_check(NAMES[len(checks)], refusal(error) or repr(error), ok=False))
    return checks


def _check(name: str, detail: str, ok: bool = True) -> Check:
    return {"name": name, "ok": ok, "detail": detail}


async def _examine() -> AsyncIterator[Check]:
    from staffbooking_adapters import wiring

    wanted = settings()
    yield _check("settings", f"base URL {wanted.policy.base_url}, {wanted.policy.currency.code}")
    yield _secret(wanted)
    lacking = await wiring.check_schema(wanted)
    schema = "is this version's" if lacking is None else lacking
    yield _check("schema", schema, ok=lacking is None)
    if lacking is not None:
        return
    async with wiring.open_ports(wanted) as ports:
        async for check in _examine_ports(ports, wanted):
            yield check


def _secret(wanted: Settings) -> Check:
    if wanted.has_default_secret:
        detail = "the default, known to everybody: set STAFFBOOKING_SECRET_KEY for other than tests"
        return _check("secret", detail)
    return _check("secret", "is set")


async def _examine_ports(ports: Ports, wanted: Settings) -> AsyncIterator[Check]:
    from staffbooking_core.domain.records import instant
    from staffbooking_core.usecases import health

    kind = wanted.database_url.partition("+")[0]
    ready = await health.ready(ports)
    yield _check("database", f"{kind} {'answers' if ready else 'does not answer'}", ok=ready)
    pretended = " (pretended: no money moves)" if ports.sandbox is not None else ""
    yield _check("processor", f"{ports.payments.name}{pretended}")
    business = await ports.clock.business()
    ahead = int((business - ports.clock.wall()).total_seconds())
    detail = f"{instant(business)}, {ahead} s ahead of the real time"
    yield _check("clock", detail)
    async with ports.store.reading() as view:
        due = await view.money.pending(ports.clock.wall())
        alerts = await view.money.alerts(5)
    latest = f"; newest alert: {alerts[0][2]}" if alerts else ""
    yield _check("work", f"{due} due{latest}")
