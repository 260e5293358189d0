"""`staffbooking payments reconcile`: the ledger against the processor's own book."""

from __future__ import annotations

import json
from typing import Any

import pytest

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_core.domain.payments.processor import OpKey, OpKind, Refund, Unknown
from staffbooking_core.usecases.bookings import actions
from tests.cli.deployment import Deployment, completed, paid
from tests.support.builders import make_posting, moved, save

FOREIGN = 99_999
"""The number of an operation that the service never ordered."""


@pytest.fixture
def code(deployment: Deployment) -> str:
    """Of a paid booking of 400.00."""
    return deployment.run(paid).booking.code


def refund_by_hand(deployment: Deployment, code: str) -> None:
    """Give 50.00 back at the processor, behind the service's back."""

    async def refund(ports):
        booking = await actions.by_code(ports, code)
        assert booking.intent is not None
        assert booking.intent.payment_ref is not None
        command = Refund(booking.intent.payment_ref, 5_000, "usd")
        key = OpKey(booking.id, FOREIGN, OpKind.REFUND, 1)
        await ports.payments.refund(command, key, 1)

    deployment.run(refund)


def reconciled(deployment: Deployment, *options: str) -> tuple[int, dict[str, Any]]:
    result = deployment.staffbooking("payments", "reconcile", *options, "--json")
    return result.exit_code, json.loads(result.stdout)


def test_equal_books_have_no_differences(deployment: Deployment) -> None:
    """After payments and a payout both sides agree on every movement."""
    deployment.run(completed)
    deployment.json("sandbox", "clock", "advance", "25h")
    deployment.json("worker", "--drain")
    equal = {"checked": 1, "in_flight": 0, "applied": 0, "differences": []}
    assert deployment.json("payments", "reconcile") == equal
    assert "differences" in deployment.table("payments", "reconcile")


def test_what_was_done_by_hand_is_a_difference(deployment: Deployment, code: str) -> None:
    """A refund that nobody ordered is named with its booking, and the exit code is 1."""
    refund_by_hand(deployment, code)
    status, outcome = reconciled(deployment)
    [difference] = outcome["differences"]
    assert (status, difference["booking_code"]) == (1, code)
    assert "the processor has refund " in difference["text"]
    table = deployment.staffbooking("payments", "reconcile")
    assert table.exit_code == 1
    assert difference["text"] in table.stdout
    assert table.stderr == "staffbooking: 1 differences in 1 bookings\n"


def test_what_the_processor_says_can_be_taken_up(deployment: Deployment, code: str) -> None:
    """With --apply a lost event does no harm: its movement is booked, and nothing differs."""
    refund_by_hand(deployment, code)
    status, outcome = reconciled(deployment, "--apply")
    assert (status, outcome["applied"], outcome["differences"]) == (0, 1, [])
    assert reconciled(deployment)[0] == 0
    assert deployment.json("ledger", "show", code)["ledger"]["balances"]["suspense"] == 50


def test_what_only_the_ledger_has_is_a_difference(deployment: Deployment, code: str) -> None:
    """A posting of money that the processor never saw stays a difference, applied or not."""

    async def cheat(ports):
        booking = await actions.by_code(ports, code)
        await save(
            ports.store, moved(booking), postings=(make_posting(booking.id, at=booking.created_at),)
        )

    deployment.run(cheat)
    status, outcome = reconciled(deployment, "--apply")
    assert status == 1
    assert "the ledger has payment " in outcome["differences"][0]["text"]


class Nothing:
    """A statement that never comes."""

    def __aiter__(self):
        return self

    async def __anext__(self):
        raise Unknown("no answer")


def test_a_processor_that_is_away_is_one_line(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the processor's statement there is nothing to compare with."""
    monkeypatch.setattr(FakeProcessor, "statement", lambda _: Nothing())
    line = deployment.refusal("payments", "reconcile")
    assert line.startswith("staffbooking: The payment processor is out of reach")
