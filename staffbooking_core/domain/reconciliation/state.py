"""The state of one reconciliation: what the facts of a snapshot are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_core.domain.bookings.booking import Booking, TransitionResult
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.ledger import Account, Posting
from staffbooking_core.domain.payments.operations import (
    Operation,
    OperationStatus,
    SettlementStatus,
)
from staffbooking_core.domain.payments.processor import (
    Checkout,
    OperationKind,
    PayoutState,
    RefundPayment,
    RefundState,
    ReversalState,
    Snapshot,
)
from staffbooking_core.policy import Policy


@frozen
class ReconciledFact:
    """One new fact: the transition it causes, and the operation it finishes, if any."""

    result: TransitionResult
    operation: Operation | None = None


@frozen
class ReconciliationState:
    """The data that facts are compared with; each new fact is added to it."""

    operations: dict[int, Operation]
    posting_keys: set[str]
    """The keys of the booking's postings, which identify facts without an operation."""
    payment_ref_by_posting_key: Mapping[str, str]
    """The payment of each posting that writes off a loss, or returns a part of it."""
    losses_by_payment_ref: Counter[str]
    """The amount that the bank took of each payment beyond the escrow."""
    balance_by_chargeback_ref: Counter[str]
    """What each chargeback changed the platform's balance at the processor by, as it is booked."""
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
        """Build the state from a booking's stored data and the snapshot."""
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
            Counter(
                {
                    one.ref: ledger.chargeback_balance_change(one.ref, postings)
                    for one in snapshot.chargebacks
                }
            ),
            now,
            policy,
        )
        for posting in postings:
            state.count_loss(posting)
        return state

    def find_operation(self, op_id: int | None, kind: OperationKind) -> Operation | None:
        """The booking's operation with this id and kind; None if there is none."""
        found = None if op_id is None else self.operations.get(op_id)
        return found if found is not None and found.kind is kind else None

    def finish_operation(
        self, operation: Operation, ref: str, settlement: SettlementStatus
    ) -> Operation:
        """The finished operation; it replaces the stored one in this state."""
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
        """Add a posting's amount to the losses of its payment."""
        if (payment_ref := self.payment_ref_by_posting_key.get(posting.key)) is not None:
            for leg in posting.legs:
                if leg.account is Account.CHARGEBACK_LOSSES:
                    self.losses_by_payment_ref[payment_ref] += leg.amount

    def claim_keys(self, *keys: str) -> bool:
        """Whether none of these keys was used; they are used from now on."""
        is_known = not self.posting_keys.isdisjoint(keys)
        self.posting_keys.update(keys)
        return not is_known


def record_fact(booking: Booking, **fields: object) -> TransitionResult:
    """A fact without a change of status: the next revision of the booking with these fields."""
    return TransitionResult(booking).with_changes(revision=booking.revision + 1, **fields)


def find_result_ref(operation: Operation, snapshot: Snapshot) -> str | None:
    """The processor's reference of the operation's result; None if the snapshot has none."""
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
