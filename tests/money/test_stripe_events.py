"""Verification of Stripe's webhooks and the objects they refer to."""

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
from staffbooking_core.domain.payments.processor import BadEventSignature, ProcessorEvent
from tests.support.builders import NOW

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
    """What a processor makes of a body under a header."""
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


def _told(event: Any, **given: Any) -> Sequence[ProcessorEvent]:
    return _read(json.dumps(event).encode(), **given)


BODY = json.dumps(_event()).encode()
NUDGE = ProcessorEvent("evt_1", intent_id=12)


# Signatures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", [FIRST, SECOND])
def test_either_secret_is_believed(secret: str) -> None:
    """Each endpoint signs with its own, and while one is rotated both hold."""
    assert _read(BODY, _signature(BODY, secret)) == (NUDGE,)


def test_any_of_several_signatures_may_fit() -> None:
    """Stripe signs with the old and the new secret at once; other schemes are passed over."""
    good = _signature(BODY).partition(",v1=")
    header = f"{good[0]},v0={'1' * 64},v1={'0' * 64},v1={good[2]}"
    assert _read(BODY, header) == (NUDGE,)


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
    """Missing, malformed, not ASCII, by another secret or another scheme: not believed."""
    with pytest.raises(BadEventSignature):
        _read(BODY, header)


def test_a_signature_is_of_its_bytes() -> None:
    """The signature of one event is invalid for another."""
    with pytest.raises(BadEventSignature):
        _read(BODY.replace(b"12", b"13"), _signature(BODY))


def test_a_signature_is_of_its_time() -> None:
    """An old event with a changed timestamp is refused."""
    now = _signature(BODY).partition(",")[0]
    old = _signature(BODY, after=-3600).partition(",")[2]
    with pytest.raises(BadEventSignature):
        _read(BODY, f"{now},{old}")


@pytest.mark.parametrize("after", [-301, 301, 10**9, -(10**9)])
def test_a_replayed_event_is_refused(after: float) -> None:
    """Past five minutes, or from the future, even a good signature is not believed."""
    with pytest.raises(BadEventSignature):
        _read(BODY, _signature(BODY, after=after))


@pytest.mark.parametrize("after", [-300, 0, 300])
def test_clocks_may_differ(after: float) -> None:
    """A timestamp within five minutes either way is accepted."""
    assert _read(BODY, _signature(BODY, after=after)) == (NUDGE,)


def test_a_header_that_comes_twice_is_refused() -> None:
    """Two signature headers that differ only in case are refused."""
    headers = {"Stripe-Signature": _signature(BODY), "stripe-signature": _signature(BODY)}
    with pytest.raises(BadEventSignature):
        _processor().parse_webhook(headers, BODY, NOW)


def test_without_a_secret_nothing_is_believed() -> None:
    """A deployment without a secret refuses every event."""
    processor = StripeProcessor("sk_test_1", (), "test", base_url="http://x", currency="usd")
    with pytest.raises(BadEventSignature):
        processor.parse_webhook({"Stripe-Signature": _signature(BODY, "")}, BODY, NOW)


def test_a_body_that_is_no_text_is_refused() -> None:
    """Bytes that are no UTF-8 were never signed by Stripe."""
    with pytest.raises(BadEventSignature):
        _read(b"\xff", _signature(b"x"))


def test_too_large_a_body_is_refused() -> None:
    """Beyond 256 KiB nothing is read, not even to check who signed it."""
    body = b" " * (MAX_EVENT_BYTES - len(BODY)) + BODY
    assert _read(body) == (NUDGE,)
    with pytest.raises(BadEventSignature):
        _read(b" " + body)


@pytest.mark.parametrize("text", ["", "no json", "[]", '"evt_1"', "null", "7", "{}"])
def test_what_is_no_event_leads_nowhere(text: str) -> None:
    """Signed bytes that are no event of Stripe's are no error either."""
    assert _read(text.encode()) == ()


# Where they lead ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_what_bears_our_marks_leads_to_its_intent(kind: str) -> None:
    """Each kind of event says to look at the intent, and nothing more."""
    assert _told(_event(kind)) == (NUDGE,)


def test_a_group_leads_to_its_intent() -> None:
    """A payout by hand within the intent's transfer group is the intent's."""
    subject = {"object": "transfer", "metadata": {}, "transfer_group": "sb_test_intent_34"}
    assert _told(_event("transfer.created", subject=subject)) == (
        ProcessorEvent("evt_1", intent_id=34),
    )


@pytest.mark.parametrize("field", ["pi_7", {"id": "pi_7", "object": "payment_intent"}])
def test_what_bears_none_leads_to_its_payment(field: Any) -> None:
    """A dispute, or a refund by hand, names its payment, whose intent is asked for."""
    subject = {"object": "dispute", "metadata": {}, "payment_intent": field}
    told = _told(_event("charge.dispute.created", subject=subject))
    assert told == (ProcessorEvent("evt_1", payment_ref="pi_7"),)


def test_a_payment_by_hand_is_asked_for() -> None:
    """A payment intent without marks is a payment to ask for."""
    assert _told(_event(subject={"metadata": {}})) == (ProcessorEvent("evt_1", payment_ref="pi_1"),)


def test_what_names_nothing_leads_nowhere() -> None:
    """A refund of no payment is of no booking."""
    subject: dict[str, Any] = {"object": "refund", "metadata": {}, "payment_intent": None}
    assert _told(_event("refund.created", subject=subject)) == ()


@pytest.mark.parametrize("kind", THIN_EVENT_TYPES)
def test_a_thin_event_leads_to_its_payee(kind: str) -> None:
    """An event that only names an account says to look at the payee."""
    assert _told(_thin(kind)) == (ProcessorEvent("evt_2", payee_ref="acct_1"),)


def test_an_account_leads_to_its_payee() -> None:
    """The older kind of event carries the account, and says the same."""
    subject = {"id": "acct_1", "object": "account", "metadata": {}}
    told = _told(_event(ACCOUNT_UPDATED_TYPE, subject=subject, account="acct_1"))
    assert told == (ProcessorEvent("evt_1", payee_ref="acct_1"),)


def test_all_kinds_fit_into_one_question() -> None:
    """Stripe lists events of at most twenty kinds at once."""
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
def test_what_is_not_ours_leads_nowhere(event: dict[str, Any]) -> None:
    """It is taken, so that Stripe does not send it again, and nothing is done."""
    assert _told(event) == ()


@pytest.mark.parametrize("key", ["sk_live_1", "rk_live_1"])
def test_the_key_tells_the_mode(key: str) -> None:
    """Under a live key real money's events are ours, and the test mode's are not."""
    assert _told(_event(livemode=True), key=key) == (NUDGE,)
    assert _told(_event(), key=key) == ()
