"""`staffbooking payments reconcile`: the ledger against the processor's statement."""

from __future__ import annotations

import json
from typing import Any

import pytest

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.testing.builders import make_posting, next_revision, save_booking
from staffbooking_core.domain.payments.processor import (
    OperationKey,
    OperationKind,
    OutcomeUnknown,
    RefundPayment,
)
from staffbooking_core.usecases.bookings import actions
from tests.cli.deployment import CliDeployment, add_completed_booking, add_paid_booking

FOREIGN = 99_999
"""The id of an operation that the service did not create."""


@pytest.fixture
def code(deployment: CliDeployment) -> str:
    """The code of a paid booking of 400.00."""
    return deployment.run_on_ports(add_paid_booking).booking.code


def refund_by_hand(deployment: CliDeployment, code: str) -> None:
    """Refund 50.00 directly at the processor."""

    async def refund(ports):
        booking = await actions.get_by_code(ports, code)
        assert booking.intent is not None
        assert booking.intent.payment_ref is not None
        command = RefundPayment(booking.intent.payment_ref, 5_000, "usd")
        key = OperationKey(booking.id, FOREIGN, OperationKind.REFUND, 1)
        await ports.payments.refund(command, key, 1)

    deployment.run_on_ports(refund)


def reconciled(deployment: CliDeployment, *options: str) -> tuple[int, dict[str, Any]]:
    result = deployment.run_command("payments", "reconcile", *options, "--json")
    return result.exit_code, json.loads(result.stdout)


def test_equal_books_have_no_differences(deployment: CliDeployment) -> None:
    """After payments and a payout both sides have the same movements."""
    deployment.run_on_ports(add_completed_booking)
    deployment.run_json("sandbox", "clock", "advance", "25h")
    deployment.run_json("worker", "--drain")
    equal = {"checked": 1, "in_flight": 0, "applied": 0, "differences": []}
    assert deployment.run_json("payments", "reconcile") == equal
    assert "differences" in deployment.run_table("payments", "reconcile")


def test_what_was_done_by_hand_is_a_difference(deployment: CliDeployment, code: str) -> None:
    """A refund made by hand is reported with its booking, and the exit code is 1."""
    refund_by_hand(deployment, code)
    status, outcome = reconciled(deployment)
    [difference] = outcome["differences"]
    assert (status, difference["booking_code"]) == (1, code)
    assert "the processor has refund " in difference["text"]
    table = deployment.run_command("payments", "reconcile")
    assert table.exit_code == 1
    assert difference["text"] in table.stdout
    assert table.stderr == "staffbooking: 1 differences in 1 bookings\n"


def test_a_movement_of_the_processor_can_be_applied(deployment: CliDeployment, code: str) -> None:
    """With --apply a movement whose event was lost is booked, and no difference remains."""
    refund_by_hand(deployment, code)
    status, outcome = reconciled(deployment, "--apply")
    assert (status, outcome["applied"], outcome["differences"]) == (0, 1, [])
    assert reconciled(deployment)[0] == 0
    assert deployment.run_json("ledger", "show", code)["ledger"]["balances"]["suspense"] == 50


def test_what_only_the_ledger_has_is_a_difference(deployment: CliDeployment, code: str) -> None:
    """A posting that the processor does not have stays a difference, with or without --apply."""

    async def cheat(ports):
        booking = await actions.get_by_code(ports, code)
        await save_booking(
            ports.store,
            next_revision(booking),
            postings=(make_posting(booking.id, at=booking.created_at),),
        )

    deployment.run_on_ports(cheat)
    status, outcome = reconciled(deployment, "--apply")
    assert status == 1
    assert "the ledger has payment " in outcome["differences"][0]["text"]


class Nothing:
    """A statement that is unavailable."""

    def __aiter__(self):
        return self

    async def __anext__(self):
        raise OutcomeUnknown("no answer")


def test_an_unavailable_statement_is_one_line(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unavailable statement gives one error line."""
    monkeypatch.setattr(FakeProcessor, "statement", lambda _: Nothing())
    line = deployment.run_refused("payments", "reconcile")
    assert line.startswith("staffbooking: The payment processor is temporarily unavailable")
