"""An in-memory deployment that CLI commands run on, with bookings created through use-cases."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import anyio
from attrs import frozen
from click.testing import CliRunner, Result
from typer.main import get_command

from staffbooking_adapters import memory_ports
from staffbooking_adapters.settings import Settings
from staffbooking_adapters.system import SystemIds
from staffbooking_adapters.testing.builders import DAY, add_companion, add_user
from staffbooking_cli.app import app
from staffbooking_core.domain.accounts.users import Actor, Role, User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.inputs import DisputeBooking, RequestBooking
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import due_work, sandbox
from staffbooking_core.usecases.bookings import actions, disputes, requests

T = TypeVar("T")


def make_cli_ports(policy: Policy) -> Ports:
    """A whole deployment in memory, on the system's clock."""
    return memory_ports(policy, ids=SystemIds())


@cache
def parsed_app() -> Any:
    """The command line with all its commands: to make it takes ten times as long as to run a short
    one."""
    return get_command(app)


class CliDeployment:
    """A deployment under test: its ports, and the command line."""

    def __init__(self) -> None:
        self.ports = make_cli_ports(Policy())
        self.missing_schema: str | None = None
        """The simulated schema problem; None if the schema is current."""

    @asynccontextmanager
    async def open_ports(
        self, _: Settings, *, is_long_running: bool = False
    ) -> AsyncIterator[Ports]:
        yield self.ports

    async def find_schema_problem(self, _: Settings) -> str | None:
        return self.missing_schema

    async def upgrade_schema(self, _: Settings) -> None:
        self.missing_schema = None

    def run_on_ports(self, work: Callable[[Ports], Awaitable[T]]) -> T:
        """Run a use-case directly on the ports."""
        return anyio.run(work, self.ports)

    def run_command(self, *arguments: object, stdin: str | None = None) -> Result:
        """Run a command: `.stdout`, `.stderr`, `.exit_code`."""
        return CliRunner().invoke(parsed_app(), [str(each) for each in arguments], input=stdin)

    def run_json(self, *arguments: object, stdin: str | None = None) -> Any:
        """The JSON document that a successful command prints."""
        result = self.run_command(*arguments, "--json", stdin=stdin)
        assert result.exit_code == 0, result.stderr
        assert result.stdout.count("\n") == 1
        return json.loads(result.stdout)

    def run_table(self, *arguments: object) -> str:
        """The table that a successful command prints."""
        result = self.run_command(*arguments)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def run_refused(self, *arguments: object) -> str:
        """The one error line of a command that fails."""
        result = self.run_command(*arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        line, _, rest = result.stderr.partition("\n")
        assert rest == ""
        return line


# Bookings -------------------------------------------------------------------------------


@frozen
class BookedParties:
    """A customer and a companion with one booking of 400.00."""

    customer: User
    companion_id: int
    booking: Booking


async def add_requested_booking(ports: Ports) -> BookedParties:
    customer = await add_user(ports.store, email="ada@example.com")
    companion = await add_companion(ports.store)
    day = (await ports.clock.business()).date() + 14 * DAY
    wanted = RequestBooking(
        companion_id=companion.id,
        event_date=day,
        start_time="18:00",
        duration_hours=4,
        service_type="Gala dinner",
        location="Rua Augusta 1, Lisbon",
    )
    booking = await requests.request_booking(ports, Actor(customer.id, Role.CUSTOMER), wanted)
    return BookedParties(customer, companion.id, booking)


async def add_paid_booking(ports: Ports) -> BookedParties:
    party = await add_requested_booking(ports)
    booking_id = party.booking.id
    await actions.accept(ports, Actor(party.companion_id, Role.STAFF), booking_id)
    _, url, _ = await actions.open_checkout(
        ports, Actor(party.customer.id, Role.CUSTOMER), booking_id
    )
    assert ports.sandbox is not None
    await ports.sandbox.simulate_checkout(url.rpartition("/")[2], "succeed")
    await due_work.run_all_due(ports)
    return party


async def add_disputed_booking(ports: Ports) -> BookedParties:
    party = await add_paid_booking(ports)
    await sandbox.set_clock(ports, party.booking.starts_at + timedelta(hours=1))
    staff = Actor(party.companion_id, Role.STAFF)
    await actions.apply_trigger(ports, staff, party.booking.id, Trigger.CHECK_IN)
    customer = Actor(party.customer.id, Role.CUSTOMER)
    reason = DisputeBooking(reason="Came two hours late")
    await disputes.open_dispute(ports, customer, party.booking.id, reason)
    return party


async def add_completed_booking(ports: Ports) -> BookedParties:
    party = await add_paid_booking(ports)
    await sandbox.set_clock(ports, party.booking.ends_at)
    customer = Actor(party.customer.id, Role.CUSTOMER)
    await actions.apply_trigger(ports, customer, party.booking.id, Trigger.CONFIRM)
    return party
