"""What a look at the processor finds, and what it is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_core.domain.bookings.booking import Booking, Step
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.ledger import Account, Posting
from staffbooking_core.domain.payments.processor import (
    Operation,
    OpKind,
    OpStatus,
    Refund,
    Settlement,
    Snapshot,
)
from staffbooking_core.policy import Policy


@frozen
class Found:
    """One fact that was new: the step it makes, and the operation it finishes, if any."""

    step: Step
    operation: Operation | None = None


@frozen
class Known:
    """What a fact is compared with; it grows with each that is found."""

    operations: dict[int, Operation]
    posted: set[str]
    """The keys of the booking's postings: how facts are known that belong to no operation."""
    about: Mapping[str, str]
    """The payment of each posting that writes a loss off, or gives a part of it back."""
    losses: Counter[str]
    """What the bank took of each payment beyond the money held for it."""
    now: datetime
    policy: Policy

    @classmethod
    def made(
        cls,
        operations: Sequence[Operation],
        postings: Collection[Posting],
        snapshot: Snapshot,
        now: datetime,
        policy: Policy,
    ) -> Known:
        """From what is stored of a booking, for a look at this snapshot."""
        about = {
            ledger.chargeback_key(one.ref, "lost"): one.payment_ref for one in snapshot.chargebacks
        }
        for operation in operations:
            if isinstance(operation.command, Refund):
                about[ledger.bank_key(operation.id)] = operation.command.payment_ref
        known = cls(
            {operation.id: operation for operation in operations},
            {posting.key for posting in postings},
            about,
            Counter(),
            now,
            policy,
        )
        for posting in postings:
            known.write_off(posting)
        return known

    def operation(self, op_id: int | None, kind: OpKind) -> Operation | None:
        found = None if op_id is None else self.operations.get(op_id)
        return found if found is not None and found.kind is kind else None

    def finish(self, operation: Operation, ref: str, settlement: Settlement) -> Operation:
        """The operation as it is now that the processor has done it."""
        done = evolve(
            operation,
            status=OpStatus.DONE,
            result_ref=ref,
            settlement=settlement,
            last_error=None,
        )
        self.operations[done.id] = done
        return done

    def write_off(self, posting: Posting) -> None:
        """Count what a posting changes of a payment's losses."""
        if (payment_ref := self.about.get(posting.key)) is not None:
            for leg in posting.legs:
                if leg.account is Account.CHARGEBACK_LOSSES:
                    self.losses[payment_ref] += leg.amount

    def is_new(self, *keys: str) -> bool:
        """Whether none of these postings was made; from now on they all were."""
        known = not self.posted.isdisjoint(keys)
        self.posted.update(keys)
        return not known


def noted(booking: Booking, **fields: object) -> Step:
    """A fact that changes no status: the next version of the booking with these fields."""
    return Step(booking).changing(version=booking.version + 1, **fields)
