"""Mapping of Stripe's errors to the core's: refused, busy, unknown, reused, misconfigured."""

from __future__ import annotations

from typing import Any

import pytest
from stripe import APIError, InvalidRequestError

from staffbooking_adapters.stripe.errors import to_processor_error
from staffbooking_adapters.testing.processor.base import (
    CALL_TIMEOUT_SECONDS,
    COMPANION_ID,
    ProcessorBench,
    make_checkout_command,
    make_operation_key,
)
from staffbooking_core.domain.payments.processor import (
    CheckoutStatus,
    IntentRefs,
    OperationKeyReused,
    OperationKind,
    OutcomeUnknown,
    PayOut,
    ProcessorBusy,
    ProcessorError,
    ProcessorMisconfigured,
    ProcessorRefused,
    RefundPayment,
    RefusalCode,
)
from tests.money.processors import make_stripe_processor, stub_of

pytestmark = pytest.mark.anyio


def _error(status: int | None, **fields: Any) -> APIError:
    """The SDK's error for an answer with this status and these error fields."""
    document = {"error": fields} if fields else None
    return APIError(fields.get("message", "no"), None, status, document, {})


def _refund(payment_ref: str) -> RefundPayment:
    return RefundPayment(payment_ref, 5_000, "usd")


# By status ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (_error(None), OutcomeUnknown),
        (_error(500, type="api_error"), OutcomeUnknown),
        (_error(503, type="api_error"), OutcomeUnknown),
        (_error(400), OutcomeUnknown),
        (_error(403), OutcomeUnknown),
        (_error(409, code="idempotency_key_in_use", type="idempotency_error"), ProcessorBusy),
        (_error(409, message="still running"), ProcessorBusy),
        (_error(429, message="too many requests"), ProcessorBusy),
        (_error(400, code="lock_timeout"), ProcessorBusy),
        (_error(400, code="rate_limit"), ProcessorBusy),
        (_error(400, type="idempotency_error"), OperationKeyReused),
        (_error(401, type="invalid_request_error"), ProcessorMisconfigured),
        (_error(403, type="invalid_request_error"), ProcessorMisconfigured),
        (_error(402, type="card_error"), ProcessorRefused),
        (_error(404, code="resource_missing"), ProcessorRefused),
    ],
)
def test_the_status_decides(error: APIError, meaning: type[ProcessorError]) -> None:
    """A 4xx answer with an error object is definite, and any other error is unknown."""
    assert type(to_processor_error(error)) is meaning


REASONS = {
    "account_invalid": RefusalCode.PAYEE_NOT_READY,
    "insufficient_capabilities_for_transfer": RefusalCode.PAYEE_NOT_READY,
    "balance_insufficient": RefusalCode.INSUFFICIENT_FUNDS,
    "charge_already_refunded": RefusalCode.NOTHING_LEFT,
    "charge_disputed": RefusalCode.DISPUTED,
    "amount_too_large": RefusalCode.EXCEEDS_REMAINING,
    "amount_too_small": RefusalCode.AMOUNT_TOO_SMALL,
    "resource_missing": RefusalCode.MISSING,
    "parameter_unknown": RefusalCode.INVALID,
}


@pytest.mark.parametrize("code", REASONS)
@pytest.mark.parametrize("status", [400, 403])
def test_a_refusal_has_a_reason(code: str, status: int) -> None:
    """Each code of Stripe is mapped to a refusal code, for 400 and for 403."""
    error = to_processor_error(_error(status, code=code, message="no"))
    if code == "parameter_unknown" and status == 403:
        assert isinstance(error, ProcessorMisconfigured)
    else:
        assert isinstance(error, ProcessorRefused)
        assert error.reason is REASONS[code]


def test_a_refusal_without_a_code_is_invalid() -> None:
    """An error without a code is refused as invalid with Stripe's message."""
    error = InvalidRequestError(
        "Something else", None, None, None, 400, {"error": {}}, {"request-id": "req_1"}
    )
    error.error = _error(400, message="Something else").error
    meaning = to_processor_error(error)
    assert isinstance(meaning, ProcessorRefused)
    assert meaning.reason is RefusalCode.INVALID
    assert str(meaning) == "Something else"


def test_the_request_id_is_in_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    """The debug log has the request id, by which Stripe's support finds a call."""
    caplog.set_level("DEBUG", "staffbooking.stripe")
    to_processor_error(InvalidRequestError("no", None, headers={"request-id": "req_1"}))
    assert "req_1" in caplog.text


def test_secrets_stay_out_of_messages() -> None:
    """Secrets in a message of Stripe are masked."""
    text = "bad key sk_live_abc123 or rk_test_x9 or whsec_Zz0"
    assert (
        str(to_processor_error(_error(401, message=text)))
        == "bad key sk_*** or rk_*** or whsec_***"
    )


def test_addresses_stay_out_of_messages() -> None:
    """An e-mail address in a message of Stripe is masked."""
    text = "Invalid email address: \u00e9.mia@example.com"
    assert str(to_processor_error(_error(400, message=text))) == "Invalid email address: ***"


@pytest.mark.parametrize(
    ("header", "wait"), [("2", 2.0), ("86400", 3600.0), ("soon", None), ("", None), ("²", None)]
)
def test_the_retry_after_header_is_used(header: str, wait: float | None) -> None:
    """A Retry-After header is used if it is ASCII digits, up to an hour."""
    document = {"error": {"code": "rate_limit"}}
    error = to_processor_error(APIError("no", None, 429, document, {"retry-after": header}))
    assert isinstance(error, ProcessorBusy)
    assert error.retry_after == wait


# On the wire --------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["html", "truncated", "reset_before", "error_500"])
async def test_an_unreadable_answer_is_unknown(stripe: ProcessorBench, fault: str) -> None:
    """An HTML answer, a cut-off answer, a reset and a 500 raise `OutcomeUnknown`."""
    stub_of(stripe).inject_fault("open_checkout", fault)
    with pytest.raises(OutcomeUnknown):
        await stripe.open_checkout()


async def test_a_busy_processor_has_a_retry_after(stripe: ProcessorBench) -> None:
    """A rate-limited call raises `ProcessorBusy` with Stripe's Retry-After."""
    stub_of(stripe).inject_fault("open_checkout", "rate_limit")
    with pytest.raises(ProcessorBusy) as busy:
        await stripe.open_checkout()
    assert busy.value.retry_after == 1.0


@pytest.mark.parametrize("key", ["sk_test_wrong", "restricted"])
async def test_a_key_without_access_is_misconfigured(stripe: ProcessorBench, key: str) -> None:
    """A wrong key and a key without permissions raise `ProcessorMisconfigured`."""
    stub = stub_of(stripe)
    processor = make_stripe_processor(
        stub, secret_key=stub.restricted_key if key == "restricted" else key
    )
    with pytest.raises(ProcessorMisconfigured):
        await processor.open_checkout(
            make_checkout_command(),
            make_operation_key(OperationKind.OPEN_CHECKOUT),
            CALL_TIMEOUT_SECONDS,
        )
    await processor.close()


async def test_a_slow_answer_is_unknown(stripe: ProcessorBench) -> None:
    """A call past its timeout raises `OutcomeUnknown`, though the refund was made."""
    stub_of(stripe).inject_fault("refund", "slow", seconds=10)
    payment = await stripe.make_payment()
    command = _refund(payment.ref)
    with pytest.raises(OutcomeUnknown):
        await stripe.payments.refund(command, make_operation_key(OperationKind.REFUND), 0.2)
    assert len((await stripe.snapshot()).refunds) == 1


@pytest.mark.parametrize("within", [0, -1])
async def test_without_time_nothing_is_sent(stripe: ProcessorBench, within: float) -> None:
    """A call without time raises `OutcomeUnknown` and sends nothing, even on an open connection."""
    payment = await stripe.make_payment()
    with pytest.raises(OutcomeUnknown):
        await stripe.payments.refund(
            _refund(payment.ref), make_operation_key(OperationKind.REFUND), within
        )
    assert stub_of(stripe).objects("refund") == []


async def test_the_sdk_repeats_no_call(stripe: ProcessorBench) -> None:
    """A call whose connection was reset is not repeated by the SDK."""
    payment = await stripe.make_payment()
    stub_of(stripe).inject_fault("refund", "reset_before")
    with pytest.raises(OutcomeUnknown):
        await stripe.refund(payment, 5_000)
    assert stub_of(stripe).objects("refund") == []


# Reads before a movement --------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["reset_before", "html", "error_500", "rate_limit"])
async def test_a_failed_read_is_busy(stripe: ProcessorBench, fault: str) -> None:
    """A failed read before a payout raises `ProcessorBusy`, and no transfer is made."""
    payment, payee = await stripe.make_payment(), await stripe.open_payee()
    stub_of(stripe).inject_fault("read", fault)
    with pytest.raises(ProcessorBusy):
        await stripe.pay_out(payment, 17_000, payee=payee)
    assert stub_of(stripe).objects("transfer") == []


async def test_a_slow_read_is_busy(stripe: ProcessorBench) -> None:
    """A read before a payout past the timeout raises `ProcessorBusy`, and no transfer is made."""
    payment, payee = await stripe.make_payment(), await stripe.open_payee()
    stub_of(stripe).inject_fault("read", "slow", seconds=10)
    command = PayOut(payment.ref, COMPANION_ID, 17_000, "usd", payee.ref)
    with pytest.raises(ProcessorBusy):
        await stripe.payments.pay_out(command, make_operation_key(OperationKind.PAY_OUT), 0.2)
    assert stub_of(stripe).objects("transfer") == []


async def test_a_lost_payout_is_unknown(stripe: ProcessorBench) -> None:
    """A payout whose answer is lost raises `OutcomeUnknown`, though it was made."""
    payment, payee = await stripe.make_payment(), await stripe.open_payee()
    stub_of(stripe).inject_fault("pay_out", "reset_after")
    with pytest.raises(OutcomeUnknown):
        await stripe.pay_out(payment, 17_000, payee=payee)
    assert len((await stripe.snapshot()).payouts) == 1


async def test_a_failed_snapshot_is_unknown(stripe: ProcessorBench) -> None:
    """A snapshot with one failed read raises `OutcomeUnknown`."""
    await stripe.make_payment()
    stub_of(stripe).inject_fault("read", "error_500")
    with pytest.raises(OutcomeUnknown):
        await stripe.snapshot()


async def test_a_page_of_another_account_is_missing(stripe: ProcessorBench) -> None:
    """A snapshot of an unknown session is refused as missing instead of being empty."""
    with pytest.raises(ProcessorRefused) as refused:
        await stripe.payments.snapshot(
            IntentRefs(12, (("cs_test_other", 1),)), CALL_TIMEOUT_SECONDS
        )
    assert refused.value.reason is RefusalCode.MISSING


# Closing a page -----------------------------------------------------------------------------


async def test_an_unknown_page_is_missing(stripe: ProcessorBench) -> None:
    """Closing an unknown session is refused as missing, without a read of it."""
    with pytest.raises(ProcessorRefused) as refused:
        await stripe.payments.close_checkout(
            "cs_none", make_operation_key(OperationKind.CLOSE_CHECKOUT), CALL_TIMEOUT_SECONDS
        )
    assert refused.value.reason is RefusalCode.MISSING
    assert [each.operation for each in stub_of(stripe).received_calls] == [
        "v1.checkout.sessions.expire"
    ]


async def test_a_refused_closing_of_an_open_page_stays_refused(stripe: ProcessorBench) -> None:
    """A refusal to close a session that is still open is raised with its reason."""
    checkout = await stripe.open_checkout()
    stub_of(stripe).inject_fault("close_checkout", "refuse:parameter_unknown")
    with pytest.raises(ProcessorRefused) as refused:
        await stripe.payments.close_checkout(
            checkout.ref, make_operation_key(OperationKind.CLOSE_CHECKOUT), CALL_TIMEOUT_SECONDS
        )
    assert refused.value.reason is RefusalCode.INVALID


async def test_a_failed_read_after_a_refused_closing_is_busy(stripe: ProcessorBench) -> None:
    """A failed read after a refused closing raises `ProcessorBusy`; a repeat returns the
    session."""
    checkout, key = await stripe.open_checkout(), make_operation_key(OperationKind.CLOSE_CHECKOUT)
    await stripe.outside_world.pay(checkout)
    stub_of(stripe).inject_fault("read", "error_500")
    with pytest.raises(ProcessorBusy):
        await stripe.payments.close_checkout(checkout.ref, key, CALL_TIMEOUT_SECONDS)
    closed = await stripe.payments.close_checkout(checkout.ref, key, CALL_TIMEOUT_SECONDS)
    assert closed.status is CheckoutStatus.PAID
