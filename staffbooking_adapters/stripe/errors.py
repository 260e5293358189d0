"""From Stripe's errors to the core's: by status, not by class.

An answer of 4xx with an error in it is definite: nothing moved. No answer, one of 5xx, or
one that nobody can read (something in between wrote it) is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio
from stripe import StripeError

from staffbooking_core.domain.payments.processor import (
    Busy,
    KeyReused,
    Misconfigured,
    PaymentsError,
    RefusalCode,
    Refused,
    Unknown,
)

REFUSALS: Final = {
    "account_invalid": RefusalCode.PAYEE_NOT_READY,
    "insufficient_capabilities_for_transfer": RefusalCode.PAYEE_NOT_READY,
    "balance_insufficient": RefusalCode.INSUFFICIENT_FUNDS,
    "insufficient_funds": RefusalCode.INSUFFICIENT_FUNDS,
    "charge_already_refunded": RefusalCode.NOTHING_LEFT,
    "amount_too_large": RefusalCode.EXCEEDS_REMAINING,
    "amount_too_small": RefusalCode.AMOUNT_TOO_SMALL,
    "charge_disputed": RefusalCode.DISPUTED,
    "resource_missing": RefusalCode.MISSING,
}

WORDINGS: Final = {
    "must not exceed the source amount": RefusalCode.EXCEEDS_REMAINING,
    "already fully reversed": RefusalCode.NOTHING_LEFT,
}
"""Refusals of transfers that Stripe gives no code."""

NOT_EXECUTED: Final = frozenset({"idempotency_key_in_use", "lock_timeout", "rate_limit"})

LONGEST_WAIT: Final = 3600.0
"""Seconds: what is asked for beyond it is not believed."""

_SECRETS: Final = re.compile(r"\b(sk|rk|whsec)_\w+", re.ASCII)


def judged(error: StripeError) -> PaymentsError:
    """What an error of the SDK means for us."""
    status, said = error.http_status, error.error
    if status is None or status >= 500 or said is None:
        return Unknown(_text(error))
    code = getattr(said, "code", None) or ""
    if status in (409, 429) or code in NOT_EXECUTED:
        return Busy(_retry_after(error))
    if getattr(said, "type", None) == "idempotency_error":
        return KeyReused(_text(error))
    param = getattr(said, "param", None)
    if code == "resource_missing" and param == "destination":  # The payee may yet get another.
        return Refused(RefusalCode.PAYEE_NOT_READY, _text(error))
    if code in REFUSALS:
        return Refused(REFUSALS[code], _text(error))
    if status in (401, 403):
        return Misconfigured(_text(error))
    return Refused(_by_words(error, param), _text(error))


def _by_words(error: StripeError, param: str | None) -> RefusalCode:
    """Why, where there is no code for it."""
    for words, reason in WORDINGS.items():
        if words in str(error):
            return reason
    # Of a refund, or a reversal, of more than is left Stripe only points at the amount.
    return RefusalCode.EXCEEDS_REMAINING if param == "amount" else RefusalCode.INVALID


def _text(error: StripeError) -> str:
    return _SECRETS.sub(r"\1_***", str(error))


def _retry_after(error: StripeError) -> float | None:
    said = (error.headers or {}).get("retry-after", "")
    return min(float(said), LONGEST_WAIT) if said.isascii() and said.isdigit() else None


@contextmanager
def answering(within: float) -> Iterator[None]:
    """What is inside ends within so many seconds, and raises only the core's errors."""
    try:
        with anyio.fail_after(within):
            yield
    except TimeoutError:
        raise Unknown("no answer in time") from None
    except StripeError as error:
        # The SDK's own error carries the whole answer along: it is not for the logs.
        raise judged(error) from None


@contextmanager
def preparing(within: float) -> Iterator[None]:
    """As `answering`, for what is looked up before a movement: if it fails nothing was sent,
    so it is definite."""
    try:
        with answering(within):
            yield
    except Unknown:
        raise Busy from None
