"""Maps Stripe's errors to the core's, by status instead of class.

A 4xx response with an error object is definite: no money moved. No response, a 5xx response or an
unreadable one (written by a proxy) leaves the outcome unknown.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio
from stripe import StripeError

from staffbooking_core.domain.payments.processor import (
    OperationKeyReused,
    OutcomeUnknown,
    ProcessorBusy,
    ProcessorError,
    ProcessorMisconfigured,
    ProcessorRefused,
    RefusalCode,
)

_STRIPE_REFUSAL_CODES: Final = {
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

_REFUSAL_CODES_BY_TEXT: Final = {
    "must not exceed the source amount": RefusalCode.EXCEEDS_REMAINING,
    "already fully reversed": RefusalCode.NOTHING_LEFT,
}
"""Refusals of transfers and reversals that have no error code, by their message."""

_NOT_EXECUTED_CODES: Final = frozenset({"idempotency_key_in_use", "lock_timeout", "rate_limit"})

_MAX_RETRY_AFTER_SECONDS: Final = 3600.0
"""Maximum seconds accepted from a Retry-After header."""

_SECRET_PATTERN: Final = re.compile(r"\b(sk|rk|whsec)_\w+", re.ASCII)
_ADDRESS_PATTERN: Final = re.compile(r"[^\s@]+@[^\s@]+")

_log = logging.getLogger("staffbooking.stripe")


def to_processor_error(error: StripeError) -> ProcessorError:
    """The core's error for an error of the SDK."""
    status, details = error.http_status, error.error
    _log.debug("%s answered %s: %s", error.request_id, status, _redacted_text(error))
    if status is None or status >= 500 or details is None:
        return OutcomeUnknown(_redacted_text(error))
    code = getattr(details, "code", None) or ""
    if status in (409, 429) or code in _NOT_EXECUTED_CODES:
        return ProcessorBusy(_retry_after(error))
    if getattr(details, "type", None) == "idempotency_error":
        return OperationKeyReused(_redacted_text(error))
    param = getattr(details, "param", None)
    if code == "resource_missing" and param == "destination":  # The payee may get another account.
        return ProcessorRefused(RefusalCode.PAYEE_NOT_READY, _redacted_text(error))
    if code in _STRIPE_REFUSAL_CODES:
        return ProcessorRefused(_STRIPE_REFUSAL_CODES[code], _redacted_text(error))
    if status in (401, 403):
        return ProcessorMisconfigured(_redacted_text(error))
    return ProcessorRefused(_refusal_code_by_text(error, param), _redacted_text(error))


def _refusal_code_by_text(error: StripeError, param: str | None) -> RefusalCode:
    """The refusal code for an error without a known Stripe code."""
    for words, reason in _REFUSAL_CODES_BY_TEXT.items():
        if words in str(error):
            return reason
    # For a refund or reversal above the remaining amount, Stripe only names the `amount` parameter.
    return RefusalCode.EXCEEDS_REMAINING if param == "amount" else RefusalCode.INVALID


def _redacted_text(error: StripeError) -> str:
    """Stripe's message without keys and e-mail addresses, which would outlive an erasure in alerts
    and logs, and without the request id of `str(error)`: the core knows a repeated failure by its
    text."""
    text = _SECRET_PATTERN.sub(r"\1_***", error.user_message or "<empty message>")
    return _ADDRESS_PATTERN.sub("***", text)


def _retry_after(error: StripeError) -> float | None:
    header = (error.headers or {}).get("retry-after", "")
    if not (header.isascii() and header.isdigit()):
        return None
    return min(float(header), _MAX_RETRY_AFTER_SECONDS)


@contextmanager
def translate_errors(timeout_seconds: float) -> Iterator[None]:
    """Limit the block to `timeout_seconds` and raise only the core's errors; a timeout is
    OutcomeUnknown."""
    try:
        with anyio.fail_after(timeout_seconds):
            yield
    except TimeoutError:
        raise OutcomeUnknown("no answer in time") from None
    except StripeError as error:
        # The SDK's error contains the whole response, which must not reach the logs.
        raise to_processor_error(error) from None


@contextmanager
def translate_lookup_errors(timeout_seconds: float) -> Iterator[None]:
    """As `translate_errors`, for a read before a movement: OutcomeUnknown becomes ProcessorBusy,
    since nothing was sent yet."""
    try:
        with translate_errors(timeout_seconds):
            yield
    except OutcomeUnknown:
        raise ProcessorBusy from None
