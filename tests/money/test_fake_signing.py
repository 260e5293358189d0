"""The signature on the fake processor's events."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st

from staffbooking_adapters.fake.signing import (
    SIGNATURE_HEADER,
    SIGNATURE_TOLERANCE,
    FakeEvent,
    encode_body,
    parse_events,
    sign_headers,
    verify,
)
from staffbooking_adapters.testing.builders import NOW, SECOND
from staffbooking_core.domain.payments.processor import BadEventSignature, ProcessorEvent
from tests.money.processors import SIGNING_SECRET

EVENT = FakeEvent("fev_7_000001", NOW, 7)
BODY = encode_body(EVENT)
HEADER = sign_headers(BODY, SIGNING_SECRET, NOW)[SIGNATURE_HEADER]
STAMP, MAC = HEADER.split(",")


def test_a_signed_event_passes() -> None:
    """An event signed with our secret now is verified and names its intent."""
    verify({SIGNATURE_HEADER: HEADER}, BODY, SIGNING_SECRET, NOW)
    assert parse_events(BODY) == (ProcessorEvent("fev_7_000001", 7),)


def test_an_event_of_a_payee_names_it() -> None:
    """The event of a payee names the account and no intent."""
    event = FakeEvent("fev_p2_000001", NOW, payee_ref="fpa_2_x")
    assert (
        parse_events(encode_body(event))
        == (event.processor_event,)
        == (ProcessorEvent("fev_p2_000001", payee_ref="fpa_2_x"),)
    )


@pytest.mark.parametrize("seconds", [-300, 300])
def test_the_tolerance_is_exact(seconds: int) -> None:
    """A signature is valid at exactly 300 s before and after its time, and not a second further."""
    at = NOW + seconds * SECOND
    verify({SIGNATURE_HEADER: HEADER}, BODY, SIGNING_SECRET, at)
    with pytest.raises(BadEventSignature):
        verify(
            {SIGNATURE_HEADER: HEADER},
            BODY,
            SIGNING_SECRET,
            at + SECOND * (1 if seconds > 0 else -1),
        )
    assert abs(at - NOW) == SIGNATURE_TOLERANCE


def test_one_of_several_signatures_is_enough() -> None:
    """An event with two signatures is verified if one of them is ours."""
    verify({SIGNATURE_HEADER: f"{STAMP},v1={'0' * 64},{MAC}"}, BODY, SIGNING_SECRET, NOW)


def test_another_secret_does_not_pass() -> None:
    """An event signed with another secret is refused."""
    with pytest.raises(BadEventSignature):
        verify(sign_headers(BODY, b"another", NOW), BODY, SIGNING_SECRET, NOW)


def test_the_time_is_signed() -> None:
    """A header whose time was changed is refused."""
    later = NOW + 2 * SIGNATURE_TOLERANCE
    with pytest.raises(BadEventSignature):
        verify({SIGNATURE_HEADER: f"t={int(later.timestamp())},{MAC}"}, BODY, SIGNING_SECRET, later)


@pytest.mark.parametrize(
    "header",
    [
        "",
        MAC,
        STAMP,
        HEADER + " ",
        HEADER + "\n",
        HEADER.upper(),
        HEADER.replace("v1", "v0"),
        f"{STAMP},{STAMP},{MAC}",
        f"{STAMP},{MAC[:-1]}",
        f"{STAMP},{MAC[:-1]}é",
        f"t=١٢٣,{MAC}",
        f"t={'9' * 5000},{MAC}",
        f"t=-1,{MAC}",
    ],
)
def test_a_malformed_header_is_refused(header: str) -> None:
    """A header that differs from the exact form is refused."""
    with pytest.raises(BadEventSignature):
        verify({SIGNATURE_HEADER: header}, BODY, SIGNING_SECRET, NOW)


@given(st.text(max_size=100))
@example("t=1,v1=\udcff")
def test_no_header_breaks_the_check(header: str) -> None:
    """Any text as a header raises `BadEventSignature` and no other error."""
    with pytest.raises(BadEventSignature):
        verify({SIGNATURE_HEADER: header}, BODY, SIGNING_SECRET, NOW)


def test_two_headers_are_refused() -> None:
    """Two signature headers with different case are refused."""
    with pytest.raises(BadEventSignature):
        verify(
            {SIGNATURE_HEADER: HEADER, SIGNATURE_HEADER.lower(): HEADER}, BODY, SIGNING_SECRET, NOW
        )


def test_an_unknown_type_yields_no_event() -> None:
    """An event of an unknown type yields no processor event."""
    assert parse_events(b'{"id": "fev_1", "type": "balance.available", "intent_id": 7}') == ()
