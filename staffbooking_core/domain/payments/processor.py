"""The payment processor without vendor terms: commands, states and errors. A call ends in one of
three ways:

1. It returns a state: done.
2. It raises `ProcessorRefused` or `ProcessorBusy`: not executed.
3. It raises `OutcomeUnknown`: possibly executed. `operations` says how the outcome is looked up.

Amounts are minor units of the deployment's currency.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from attrs import frozen

from staffbooking_core.errors import StaffbookingError

__all__ = [
    "BadEventSignature",
    "Chargeback",
    "ChargebackStatus",
    "Checkout",
    "CheckoutStatus",
    "CloseCheckout",
    "IntentRefs",
    "OpenCheckout",
    "OperationKey",
    "OperationKeyReused",
    "OperationKind",
    "OutcomeUnknown",
    "PayOut",
    "Payment",
    "PayoutState",
    "ProcessorBusy",
    "ProcessorError",
    "ProcessorEvent",
    "ProcessorFee",
    "ProcessorMisconfigured",
    "ProcessorRefused",
    "RefundPayment",
    "RefundState",
    "RefundStatus",
    "RefusalCode",
    "ReversalState",
    "ReversePayout",
    "Snapshot",
]

# Errors ------------------------------------------------------------------------------


class ProcessorError(StaffbookingError):
    """Base of the errors of a call to the processor; adapters raise no others."""

    code = "payments"


class RefusalCode(StrEnum):
    """Why a processor refused. The first two are tried again; the others end the operation."""

    PAYEE_NOT_READY = "payee_not_ready"
    INSUFFICIENT_FUNDS = "insufficient_funds"
    NOTHING_LEFT = "nothing_left"
    EXCEEDS_REMAINING = "exceeds_remaining"
    DISPUTED = "disputed"
    CHECKOUT_NOT_OPEN = "checkout_not_open"
    AMOUNT_TOO_SMALL = "amount_too_small"
    MISSING = "missing"
    INVALID = "invalid"


_RETRYABLE_REFUSALS = frozenset({RefusalCode.PAYEE_NOT_READY, RefusalCode.INSUFFICIENT_FUNDS})
"""Refusals whose cause may go away. The next attempt needs a new generation of the key, because the
processor replays a stored refusal under the old one."""


class ProcessorRefused(ProcessorError):
    """The processor refused: nothing was executed. Raises ValueError for an unknown `reason`."""

    def __init__(self, reason: RefusalCode | str, message: str = "") -> None:
        self.reason = RefusalCode(reason)
        super().__init__(message or self.reason.value)

    @property
    def is_retryable(self) -> bool:
        return self.reason in _RETRYABLE_REFUSALS


class ProcessorBusy(ProcessorError):
    """Not executed, or the first request still runs: retry later under the same key."""

    def __init__(self, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__("the processor is busy")


class OutcomeUnknown(ProcessorError):
    """Possibly executed: a timeout, a broken connection or a 5xx answer."""


class ProcessorMisconfigured(ProcessorError):
    """Credentials or account settings are wrong: an operator must act."""


class OperationKeyReused(ProcessorError):
    """The key was sent before with other parameters: a defect of this program, never retried."""


class BadEventSignature(ProcessorError):
    """The signature of an incoming event is wrong, too old or from the future."""


# Commands ---------------------------------------------------------------------------


class OperationKind(StrEnum):
    OPEN_CHECKOUT = "open_checkout"
    CLOSE_CHECKOUT = "close_checkout"
    REFUND = "refund"
    PAY_OUT = "pay_out"
    REVERSE_PAYOUT = "reverse_payout"
    OPEN_PAYEE = "open_payee"


@frozen
class OpenCheckout:
    amount: int
    currency: str
    booking_code: str
    customer_email: str
    description: str
    success_url: str
    cancel_url: str
    expires_at: datetime


@frozen
class CloseCheckout:
    n: int
    """The number of the order that opened the page."""


@frozen
class RefundPayment:
    payment_ref: str
    amount: int
    currency: str
    replaces: int | None = None
    """The number of the refused or failed order that this one replaces."""


@frozen
class PayOut:
    payment_ref: str
    companion_id: int
    amount: int
    currency: str
    payee_ref: str = ""
    """The processor's reference of the payee, set when the key is first used and then frozen. Empty
    while there is no account; a processor that needs one refuses with PAYEE_NOT_READY."""


@frozen
class ReversePayout:
    payout_n: int
    """The number of the order that sent the payout."""
    amount: int
    currency: str


OperationCommand = OpenCheckout | CloseCheckout | RefundPayment | PayOut | ReversePayout

OPERATION_KIND_BY_COMMAND: dict[type[OperationCommand], OperationKind] = {
    OpenCheckout: OperationKind.OPEN_CHECKOUT,
    CloseCheckout: OperationKind.CLOSE_CHECKOUT,
    RefundPayment: OperationKind.REFUND,
    PayOut: OperationKind.PAY_OUT,
    ReversePayout: OperationKind.REVERSE_PAYOUT,
}


@frozen
class OperationKey:
    """The idempotency key of a call: the same key never moves money twice.

    For the opening of a payee `op_id` is the companion's id, and `intent_id` is 0. An adapter
    prepends the deployment's name to `text` where deployments share a processor account.
    """

    intent_id: int
    op_id: int
    kind: OperationKind
    generation: int

    @property
    def text(self) -> str:
        return f"{self.kind}_{self.op_id}_g{self.generation}"


# States -------------------------------------------------------------------------------


class CheckoutStatus(StrEnum):
    OPEN = "open"
    PAID = "paid"
    EXPIRED = "expired"


class RefundStatus(StrEnum):
    PENDING = "pending"
    SETTLED = "settled"
    FAILED = "failed"


class ChargebackStatus(StrEnum):
    OPEN = "open"
    WON = "won"
    LOST = "lost"


@frozen
class Checkout:
    """A hosted payment page. `op_id` is the operation that opened it."""

    ref: str
    url: str
    status: CheckoutStatus
    expires_at: datetime
    op_id: int


@frozen
class Payment:
    """A successful payment, with the amount that was charged."""

    ref: str
    amount: int
    currency: str
    paid_at: datetime


@frozen
class RefundState:
    ref: str
    status: RefundStatus
    amount: int
    op_id: int | None
    """None: made by hand at the processor."""


@frozen
class PayoutState:
    ref: str
    amount: int
    reversed: int
    """The amount reversed so far."""
    op_id: int | None


@frozen
class ReversalState:
    ref: str
    payout_ref: str
    amount: int
    op_id: int | None


@frozen
class Chargeback:
    """A payment that the customer's bank took back; an inquiry that moves no money is not one."""

    ref: str
    amount: int
    status: ChargebackStatus
    payment_ref: str


@frozen
class ProcessorFee:
    """The processor's fee for a payment or a chargeback."""

    ref: str
    amount: int


@frozen
class IntentRefs:
    """References of an intent's objects, for processors that cannot search by the intent's id."""

    intent_id: int
    checkouts: tuple[tuple[str, int], ...] = ()
    """Reference and op_id of each opened page."""
    payments: tuple[str, ...] = ()


@frozen
class Snapshot:
    """The processor's state of one intent: the only source of facts about its money."""

    intent_id: int
    checkouts: tuple[Checkout, ...] = ()
    payments: tuple[Payment, ...] = ()
    refunds: tuple[RefundState, ...] = ()
    payouts: tuple[PayoutState, ...] = ()
    reversals: tuple[ReversalState, ...] = ()
    chargebacks: tuple[Chargeback, ...] = ()
    """The oldest first."""
    fees: tuple[ProcessorFee, ...] = ()


@frozen
class ProcessorEvent:
    """An event of the processor. It says which state to read, not what the state is.

    One of the three references is set: an intent, a payment whose intent must be looked up, or a
    payee.
    """

    event_id: str
    intent_id: int | None = None
    payment_ref: str | None = None
    payee_ref: str | None = None
