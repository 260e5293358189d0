"""Verification of Stripe's webhooks, and the processor events in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from stripe import WebhookSignature

from staffbooking_adapters.stripe.events import (
    ACCOUNT_UPDATED_TYPE,
    EVENT_TYPES,
    MAX_EVENT_BYTES,
    THIN_EVENT_TYPES,
)
from staffbooking_adapters.stripe.processor import StripeProcessor
from staffbooking_adapters.testing.builders import NOW
from staffbooking_core.domain.payments.processor import BadEventSignature, ProcessorEvent

FIRST, SECOND = "whsec_of_the_account", "whsec_of_the_payees"
OURS = {"sb_env": "test", "intent_id": "12", "booking_id": "12", "op_id": "5"}


def _processor(key: str = "sk_test_1") -> StripeProcessor:
    return StripeProcessor(key, (FIRST, SECOND), "test", base_url="http://test", currency="usd")


def _signature(body: bytes, secret: str = FIRST, after: float = 0) -> str:
    timestamp = int(NOW.timestamp() + after)
    return str(
        WebhookSignature.generate_signature_header(body.decode(), secret, timestamp=timestamp)
    )


def _read(body: bytes, header: str | None = None, **given: Any) -> Sequence[ProcessorEvent]:
    """The processor events in a body with a signature header."""
    headers = {"Stripe-Signature": _signature(body) if header is None else header}
    return _processor(**given).parse_webhook(headers, body, NOW)


def _event(kind: str = "payment_intent.succeeded", **given: Any) -> dict[str, Any]:
    """An event of ours; `subject` changes its object."""
    subject = {"id": "pi_1", "object": "payment_intent", "metadata": OURS}
    subject |= given.pop("subject", {})
    return {
        "id": "evt_1",
        "object": "event",
        "livemode": False,
        "type": kind,
        "data": {"object": subject},
        **given,
    }


def _thin(kind: str = THIN_EVENT_TYPES[0], **given: Any) -> dict[str, Any]:
    return {
        "id": "evt_2",
        "object": "v2.core.event",
        "livemode": False,
        "type": kind,
        "related_object": {"id": "acct_1", "type": "v2.core.account", "url": "/v2/core/accounts/1"},
        **given,
    }


def _parsed(event: Any, **given: Any) -> Sequence[ProcessorEvent]:
    return _read(json.dumps(event).encode(), **given)


BODY = json.dumps(_event()).encode()
INTENT_EVENT = ProcessorEvent("evt_1", intent_id=12)


# Signatures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", [FIRST, SECOND])
def test_either_secret_is_accepted(secret: str) -> None:
    """Signatures with either of the two configured secrets are accepted."""
    assert _read(BODY, _signature(BODY, secret)) == (INTENT_EVENT,)


def test_one_of_several_signatures_is_enough() -> None:
    """One valid `v1` signature among several is enough, and other schemes are ignored."""
    good = _signature(BODY).partition(",v1=")
    header = f"{good[0]},v0={'1' * 64},v1={'0' * 64},v1={good[2]}"
    assert _read(BODY, header) == (INTENT_EVENT,)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "t=1",
        "v1=00",
        "t=,v1=00",
        "t=soon,v1=00",
        "nonsense",
        "t=1803902400,v1=é",
        "t=١٢٣,v1=00",
        "t=1803902400,v1=" + "a" * 10_000,
        "t=99999999999999999999,v1=00",
        _signature(BODY, "whsec_of_somebody_else"),
        _signature(BODY).replace("v1=", "v0="),
        _signature(BODY).replace(",v1=", ",v1=00"),
        _signature(BODY) + " ",
        "t=1," + _signature(BODY),
    ],
)
def test_a_forged_signature_is_refused(header: str) -> None:
    """A missing, malformed or wrong signature is refused."""
    with pytest.raises(BadEventSignature):
        _read(BODY, header)


def test_a_signature_covers_the_body() -> None:
    """The signature of one event is invalid for another."""
    with pytest.raises(BadEventSignature):
        _read(BODY.replace(b"12", b"13"), _signature(BODY))


def test_a_signature_covers_the_time() -> None:
    """An old event with a changed timestamp is refused."""
    now = _signature(BODY).partition(",")[0]
    old = _signature(BODY, after=-3600).partition(",")[2]
    with pytest.raises(BadEventSignature):
        _read(BODY, f"{now},{old}")


@pytest.mark.parametrize("after", [-301, 301, 10**9, -(10**9)])
def test_a_replayed_event_is_refused(after: float) -> None:
    """A signature more than 300 s old or in the future is refused."""
    with pytest.raises(BadEventSignature):
        _read(BODY, _signature(BODY, after=after))


@pytest.mark.parametrize("after", [-300, 0, 300])
def test_clocks_may_differ(after: float) -> None:
    """A timestamp within five minutes either way is accepted."""
    assert _read(BODY, _signature(BODY, after=after)) == (INTENT_EVENT,)


def test_a_duplicate_header_is_refused() -> None:
    """Two signature headers that differ only in case are refused."""
    headers = {"Stripe-Signature": _signature(BODY), "stripe-signature": _signature(BODY)}
    with pytest.raises(BadEventSignature):
        _processor().parse_webhook(headers, BODY, NOW)


def test_without_a_secret_no_event_is_accepted() -> None:
    """A deployment without a secret refuses every event."""
    processor = StripeProcessor("sk_test_1", (), "test", base_url="http://x", currency="usd")
    with pytest.raises(BadEventSignature):
        processor.parse_webhook({"Stripe-Signature": _signature(BODY, "")}, BODY, NOW)


def test_a_body_that_is_no_text_is_refused() -> None:
    """A body that is no UTF-8 is refused."""
    with pytest.raises(BadEventSignature):
        _read(b"\xff", _signature(b"x"))


def test_too_large_a_body_is_refused() -> None:
    """A body of more than `MAX_EVENT_BYTES` is refused despite a valid signature."""
    body = b" " * (MAX_EVENT_BYTES - len(BODY)) + BODY
    assert _read(body) == (INTENT_EVENT,)
    with pytest.raises(BadEventSignature):
        _read(b" " + body)


@pytest.mark.parametrize("text", ["", "no json", "[]", '"evt_1"', "null", "7", "{}"])
def test_a_body_without_an_event_yields_none(text: str) -> None:
    """A signed body that is no event yields no processor event and no error."""
    assert _read(text.encode()) == ()


# Targets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_our_metadata_yields_the_intent(kind: str) -> None:
    """An event of each type with our metadata yields its intent."""
    assert _parsed(_event(kind)) == (INTENT_EVENT,)


def test_a_transfer_group_yields_the_intent() -> None:
    """A transfer without metadata yields the intent of its transfer group."""
    subject = {"object": "transfer", "metadata": {}, "transfer_group": "sb_test_intent_34"}
    assert _parsed(_event("transfer.created", subject=subject)) == (
        ProcessorEvent("evt_1", intent_id=34),
    )


@pytest.mark.parametrize("field", ["pi_7", {"id": "pi_7", "object": "payment_intent"}])
def test_missing_metadata_yields_the_payment(field: Any) -> None:
    """An object without metadata yields its payment, given as an id or an object."""
    subject = {"object": "dispute", "metadata": {}, "payment_intent": field}
    parsed = _parsed(_event("charge.dispute.created", subject=subject))
    assert parsed == (ProcessorEvent("evt_1", payment_ref="pi_7"),)


def test_a_payment_by_hand_yields_itself() -> None:
    """A payment intent without metadata yields the payment itself."""
    assert _parsed(_event(subject={"metadata": {}})) == (
        ProcessorEvent("evt_1", payment_ref="pi_1"),
    )


def test_a_refund_without_a_payment_yields_none() -> None:
    """A refund without a payment yields no processor event."""
    subject: dict[str, Any] = {"object": "refund", "metadata": {}, "payment_intent": None}
    assert _parsed(_event("refund.created", subject=subject)) == ()


@pytest.mark.parametrize("kind", THIN_EVENT_TYPES)
def test_a_thin_event_yields_its_payee(kind: str) -> None:
    """A thin event yields its payee."""
    assert _parsed(_thin(kind)) == (ProcessorEvent("evt_2", payee_ref="acct_1"),)


def test_an_account_yields_its_payee() -> None:
    """An event with an account object yields its payee."""
    subject = {"id": "acct_1", "object": "account", "metadata": {}}
    parsed = _parsed(_event(ACCOUNT_UPDATED_TYPE, subject=subject, account="acct_1"))
    assert parsed == (ProcessorEvent("evt_1", payee_ref="acct_1"),)


def test_all_types_fit_into_one_list_call() -> None:
    """There are at most 20 event types, which is Stripe's limit for one list call."""
    assert len({*EVENT_TYPES, ACCOUNT_UPDATED_TYPE}) <= 20


# Not ours -----------------------------------------------------------------------------------

NOT_OURS = {
    "another deployment's": _event(subject={"metadata": {**OURS, "sb_env": "other"}}),
    "another deployment's payee": _event(
        ACCOUNT_UPDATED_TYPE, subject={"id": "acct_1", "metadata": {"sb_env": "other"}}
    ),
    "of real money": _event(livemode=True),
    "of no mode": _event(livemode=None),
    "of real money, thin": _thin(livemode=True),
    "of an unknown kind": _event("payout.paid"),
    "of an unknown kind, thin": _thin("v2.core.account.created"),
    "a payee's own": _event(account="acct_1"),
    "without an id": _event(id=None),
    "without an object": {**_event(), "data": {}},
    "with a strange object": {**_event(), "data": {"object": "pi_1"}},
    "without an account, thin": _thin(related_object=None),
}


@pytest.mark.parametrize("event", NOT_OURS.values(), ids=NOT_OURS.keys())
def test_a_foreign_event_yields_none(event: dict[str, Any]) -> None:
    """An event that is not ours yields no processor event and no error."""
    assert _parsed(event) == ()


@pytest.mark.parametrize("key", ["sk_live_1", "rk_live_1"])
def test_the_key_decides_the_mode(key: str) -> None:
    """With a live key live events are ours, and events of the test mode are not."""
    assert _parsed(_event(livemode=True), key=key) == (INTENT_EVENT,)
    assert _parsed(_event(), key=key) == ()
