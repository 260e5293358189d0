"""`staffbooking bookings` and `ledger`: lists, records and the ledger check."""

from __future__ import annotations

from attrs import evolve

from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.testing.builders import (
    add_booking,
    make_posting,
    next_revision,
    save_booking,
)
from staffbooking_core.domain.payments.ledger import Account, Leg
from staffbooking_core.usecases.payments import ledger_check as ledger_use
from tests.cli.deployment import (
    CliDeployment,
    add_completed_booking,
    add_paid_booking,
    add_requested_booking,
)


def test_bookings_are_listed(deployment: CliDeployment) -> None:
    """A page contains its number and whether more pages follow."""

    async def three(ports):
        return [await add_booking(ports.store) for _ in range(3)]

    made = deployment.run_on_ports(three)
    page = deployment.run_json("bookings", "list", "--limit", 2)
    assert (page["page"], page["limit"], page["has_more"]) == (1, 2, True)
    rest = deployment.run_json("bookings", "list", "--limit", 2, "--page", 2)
    assert rest["has_more"] is False
    codes = {one["booking_code"] for one in page["bookings"] + rest["bookings"]}
    assert codes == {booking.code for booking in made}


def test_a_table_notes_further_pages(deployment: CliDeployment) -> None:
    """The note about further pages goes to standard error."""

    async def two(ports):
        return [await add_booking(ports.store) for _ in range(2)]

    first, _ = deployment.run_on_ports(two)
    result = deployment.run_command("bookings", "list", "--limit", 1)
    assert result.stderr == "There are more: --page 2\n"
    assert "400.00" in result.stdout
    assert first.code in deployment.run_table("bookings", "list")


def test_bookings_are_filtered_by_status(deployment: CliDeployment) -> None:
    """Only bookings with the given status are listed."""
    deployment.run_on_ports(add_requested_booking)
    assert len(deployment.run_json("bookings", "list", "--status", "pending")["bookings"]) == 1
    assert deployment.run_json("bookings", "list", "--status", "paid")["bookings"] == []


def test_a_booking_is_shown_as_to_an_admin(deployment: CliDeployment) -> None:
    """The record contains the fee, the payout and the timeline."""
    party = deployment.run_on_ports(add_paid_booking)
    booking = deployment.run_json("bookings", "show", party.booking.code)["booking"]
    assert (booking["status"], booking["platform_fee"], booking["payout_amount"]) == (
        "paid",
        60,
        340,
    )
    assert [entry["to"] for entry in booking["timeline"]] == ["pending", "accepted", "paid"]
    table = deployment.run_table("bookings", "show", party.booking.code)
    assert "payment_succeeded" in table
    assert booking["starts_at"] in table


def test_an_unknown_booking_is_refused(deployment: CliDeployment) -> None:
    """Every command refuses an unknown booking code."""
    for command in (("bookings", "show"), ("ledger", "show"), ("disputes", "show")):
        line = deployment.run_refused(*command, "BK000000000000")
        assert line == "staffbooking: Booking not found"


def test_a_clean_ledger_has_no_faults(deployment: CliDeployment) -> None:
    """The ledger check prints the number of bookings that it checked."""
    deployment.run_on_ports(add_completed_booking)
    assert deployment.run_json("ledger", "check") == {"faults": [], "checked": 1}
    assert deployment.run_table("ledger", "check") == "1 bookings checked, no faults\n"


def test_a_fault_is_found(deployment: CliDeployment) -> None:
    """An inconsistent posting is reported with its booking, and the exit code is 1."""
    party = deployment.run_on_ports(add_paid_booking)
    # The check looks again for seconds before it reports.
    clock = VirtualClock(deployment.ports.clock.wall(), store=deployment.ports.store)
    deployment.ports = evolve(deployment.ports, clock=clock)

    async def cheat(ports):
        booking = (await ledger_use.get_booking_ledger(ports, party.booking.code)).booking
        await save_booking(
            ports.store, next_revision(booking), postings=(make_posting(booking.id),)
        )

    deployment.run_on_ports(cheat)
    result = deployment.run_command("ledger", "check", "--json")
    assert result.exit_code == 1
    assert party.booking.code in result.stdout
    assert result.stderr.endswith("faults in 1 bookings\n")
    table = deployment.run_command("ledger", "check")
    assert (table.exit_code, "escrow is 80000, should be 40000" in table.stdout) == (1, True)


def test_a_book_is_shown(deployment: CliDeployment) -> None:
    """The ledger of a booking contains the legs of each posting, the balances and the
    operations."""
    party = deployment.run_on_ports(add_paid_booking)
    book = deployment.run_json("ledger", "show", party.booking.code)["ledger"]
    assert (book["booking_code"], book["currency"]) == (party.booking.code, "usd")
    [posting] = book["postings"]
    assert posting["legs"] == [
        {"account": "processor_balance", "amount": 400},
        {"account": "escrow", "amount": -400},
    ]
    assert book["balances"] == {"processor_balance": 400, "escrow": -400}
    assert [one["kind"] for one in book["operations"]] == ["open_checkout"]


def test_a_book_has_running_balances(deployment: CliDeployment) -> None:
    """The table has a row for each leg with its account's running balance; the last running balance
    equals the account's balance."""
    party = deployment.run_on_ports(add_paid_booking)

    async def more(ports):
        booking = (await ledger_use.get_booking_ledger(ports, party.booking.code)).booking
        legs = (Leg(Account.ESCROW, 15_000), Leg(Account.STAFF_PAYABLE, -15_000))
        posting = evolve(make_posting(booking.id), key="settle:1:1", legs=legs)
        await save_booking(ports.store, next_revision(booking), postings=(posting,))

    deployment.run_on_ports(more)
    table = deployment.run_table("ledger", "show", party.booking.code)
    legs, _, rest = table.partition("operations")
    lines = [line.split() for line in legs.splitlines() if "escrow" in line]
    assert lines == [
        ["escrow", "400.00", "-400.00"],
        [lines[1][0], "settle:1:1", "escrow", "150.00", "-250.00"],
    ]
    _, _, balances = rest.partition("balances")
    assert [line.split() for line in balances.splitlines() if "." in line] == [
        ["processor_balance", "400.00", "0.00", "400.00"],
        ["escrow", "150.00", "400.00", "-250.00"],
        ["staff_payable", "0.00", "150.00", "-150.00"],
    ]


def test_amounts_stand_under_each_other(deployment: CliDeployment) -> None:
    """Numeric columns are right-aligned, text columns left-aligned."""
    code = deployment.run_on_ports(add_paid_booking).booking.code
    legs, _, _ = deployment.run_table("ledger", "show", code).partition("operations")
    lines = [line for line in legs.splitlines() if "400.00" in line]
    assert [line.split()[-1] for line in lines] == ["400.00", "-400.00"]
    assert len({len(line.rstrip()) for line in lines}) == 1
    assert lines[0].index("processor_balance") == lines[1].index("escrow")
