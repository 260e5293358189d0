"""What a look at the processor finds, and what it is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_core.domain.bookings.booking import Booking, TransitionResult
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.ledger import Account, Posting
from staffbooking_core.domain.payments.processor import (
    Checkout,
    Operation,
    OperationKind,
    OperationStatus,
    PayoutState,
    RefundPayment,
    RefundState,
    ReversalState,
    SettlementStatus,
    Snapshot,
)
from staffbooking_core.policy import Policy


@frozen
class ReconciledFact:
    """One fact that was new: the step it makes, and the operation it finishes, if any."""

    result: TransitionResult
    operation: Operation | None = None


@frozen
class ReconciliationState:
    """What a fact is compared with; it grows with each that is found."""

    operations: dict[int, Operation]
    posting_keys: set[str]
    """The keys of the booking's postings: how facts are known that belong to no operation."""
    payment_ref_by_posting_key: Mapping[str, str]
    """The payment of each posting that writes a loss off, or gives a part of it back."""
    losses_by_payment_ref: Counter[str]
    """What the bank took of each payment beyond the money held for it."""
    now: datetime
    policy: Policy

    @classmethod
    def build(
        cls,
        operations: Sequence[Operation],
        postings: Collection[Posting],
        snapshot: Snapshot,
        now: datetime,
        policy: Policy,
    ) -> ReconciliationState:
        """From what is stored of a booking, for a look at this snapshot."""
        payment_ref_by_posting_key = {
            ledger.chargeback_key(one.ref, "lost"): one.payment_ref for one in snapshot.chargebacks
        }
        for operation in operations:
            if isinstance(operation.command, RefundPayment):
                payment_ref_by_posting_key[ledger.bank_refund_key(operation.id)] = (
                    operation.command.payment_ref
                )
        state = cls(
            {operation.id: operation for operation in operations},
            {posting.key for posting in postings},
            payment_ref_by_posting_key,
            Counter(),
            now,
            policy,
        )
        for posting in postings:
            state.count_loss(posting)
        return state

    def find_operation(self, op_id: int | None, kind: OperationKind) -> Operation | None:
        found = None if op_id is None else self.operations.get(op_id)
        return found if found is not None and found.kind is kind else None

    def finish_operation(
        self, operation: Operation, ref: str, settlement: SettlementStatus
    ) -> Operation:
        """The operation as it is now that the processor has done it."""
        finished = evolve(
            operation,
            status=OperationStatus.DONE,
            result_ref=ref,
            settlement=settlement,
            last_error=None,
        )
        self.operations[finished.id] = finished
        return finished

    def count_loss(self, posting: Posting) -> None:
        """Count what a posting changes of a payment's losses."""
        if (payment_ref := self.payment_ref_by_posting_key.get(posting.key)) is not None:
            for leg in posting.legs:
                if leg.account is Account.CHARGEBACK_LOSSES:
                    self.losses_by_payment_ref[payment_ref] += leg.amount

    def claim_keys(self, *keys: str) -> bool:
        """Whether none of these postings was made; from now on they all were."""
        is_known = not self.posting_keys.isdisjoint(keys)
        self.posting_keys.update(keys)
        return not is_known


def record_fact(booking: Booking, **fields: object) -> TransitionResult:
    """A fact that changes no status: the next version of the booking with these fields."""
    return TransitionResult(booking).with_changes(version=booking.version + 1, **fields)


def find_result_ref(operation: Operation, snapshot: Snapshot) -> str | None:
    """The reference of what this operation made, if the processor has it."""
    states: Sequence[Checkout | RefundState | PayoutState | ReversalState]
    match operation.kind:
        case OperationKind.OPEN_CHECKOUT:
            states = snapshot.checkouts
        case OperationKind.REFUND:
            states = snapshot.refunds
        case OperationKind.PAY_OUT:
            states = snapshot.payouts
        case OperationKind.REVERSE_PAYOUT:
            states = snapshot.reversals
        case _:
            states = ()
    return next((state.ref for state in states if state.op_id == operation.id), None)
