"""The webhook receiver: the requests that it accepts and refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks
from hypothesis import example, given, strategies as st

from staffbooking_core import webhook_receiver
from staffbooking_core.domain.webhooks import deliveries
from staffbooking_core.webhook_receiver import (
    RefusalReason,
    WebhookReceiver,
    WebhookRefused,
    hex_signature,
    standard_signature,
)

VECTORS = json.loads(
    (Path(__file__).parents[3] / "docs/webhooks-vectors.json").read_text(encoding="utf-8")
)
OLD, NEW = (
    "whsec_l1Omyw7kgmGmmKDkDnVe/Bkj0tP0nBEv5xOqpn5+4D0=",
    "whsec_fcTK64nuG5c+d8ixJyRL6dJQrtJpFV2A6u+b8IdgqpM=",
)
AT = 1_803_902_400
CODE = "BK7Q2M4X9C1DTR"

numbers = st.integers(0, 10_000)


def envelope(event_id: str = "evt_1", sequence: int = 1, code: str = CODE) -> dict[str, Any]:
    return {
        "id": event_id,
        "event": "booking.created",
        "sequence": sequence,
        "data": {"booking": {"booking_code": code, "location": "Praça 1"}},
    }


BODY = json.dumps(envelope(), ensure_ascii=False).encode()


def signed(body: bytes = BODY, *secrets: str, at: float = AT) -> dict[str, str]:
    """The headers that the service sends with a body."""
    now = datetime.fromtimestamp(at, UTC)
    return deliveries.delivery_headers(secrets or [OLD], "evt_1", "booking.created", 1, body, now)


def without(headers: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in names}


OURS = ("X-Webhook-Signature", "X-Webhook-Id", "X-Webhook-Event")
STANDARD = ("webhook-id", "webhook-timestamp", "webhook-signature")
PUBLISHED_ALONE = without(signed(), *STANDARD)
STANDARD_ALONE = without(signed(), *OURS)


def refusal(
    headers: Mapping[Any, Any], body: bytes = BODY, now: float = AT
) -> RefusalReason | None:
    """Why a request is refused; None if it is accepted."""
    try:
        WebhookReceiver([OLD]).receive(headers, body, now)
    except WebhookRefused as refused:
        return refused.reason
    return None


# Signatures -------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["about"])
def test_the_golden_vectors_hold(vector):
    """Both signatures equal those that another program computed."""
    body, first = vector["body"].encode(), vector["secrets"][0]
    rest = (vector["id"], vector["timestamp"], body)
    assert hex_signature(first, body) == vector["x-webhook-signature"]
    assert [standard_signature(secret, *rest) for secret in vector["secrets"]] == (
        vector["webhook-signature"].split()
    )


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["about"])
def test_the_kit_takes_the_golden_vectors(vector):
    """A receiver with a vector's secrets accepts it."""
    headers = {
        "x-webhook-signature": vector["x-webhook-signature"],
        "webhook-signature": vector["webhook-signature"],
        "webhook-id": vector["id"],
        "webhook-timestamp": str(vector["timestamp"]),
    }
    receiver = WebhookReceiver(vector["secrets"])
    received = receiver.receive(headers, vector["body"].encode(), vector["timestamp"])
    assert received.envelope["id"] == vector["id"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["about"])
def test_the_public_library_signs_alike(vector):
    """The package of Standard Webhooks computes the same signatures."""
    at = datetime.fromtimestamp(vector["timestamp"], UTC)
    made = [
        standardwebhooks.Webhook(secret).sign(vector["id"], at, vector["body"])
        for secret in vector["secrets"]
    ]
    assert " ".join(made) == vector["webhook-signature"]


@pytest.mark.parametrize("secret", [OLD, NEW])
def test_the_public_library_verifies_what_is_sent(secret):
    """The package of Standard Webhooks verifies the service's headers, also during a rotation."""
    headers = signed(BODY, OLD, NEW, at=datetime.now(UTC).timestamp())
    assert standardwebhooks.Webhook(secret).verify(BODY, headers) == envelope()


@pytest.mark.parametrize(
    "headers",
    [signed(), PUBLISHED_ALONE, STANDARD_ALONE],
    ids=["both", "published alone", "standard alone"],
)
def test_either_signature_suffices(headers):
    """One of the two signature headers may be missing."""
    assert WebhookReceiver([OLD]).receive(headers, BODY, AT).envelope == envelope()


def test_a_request_without_a_signature_is_refused():
    """A request without signature is refused, whatever its other headers are."""
    headers = without(signed(), "X-Webhook-Signature", "webhook-signature")
    assert refusal(headers) is RefusalReason.UNSIGNED


@pytest.mark.parametrize("headers", [signed(), PUBLISHED_ALONE, STANDARD_ALONE])
@given(place=numbers, other=st.integers(1, 255))
def test_one_changed_byte_of_the_body_is_noticed(headers, place, other):
    """Each signature alone detects a changed byte of the body."""
    changed = bytearray(BODY)
    changed[place % len(BODY)] ^= other
    assert refusal(headers, bytes(changed)) is RefusalReason.WRONG_SIGNATURE


@pytest.mark.parametrize(
    "headers, name",
    [
        *((signed(), name) for name in OURS + STANDARD),
        *((PUBLISHED_ALONE, name) for name in OURS),
        *((STANDARD_ALONE, name) for name in STANDARD),
    ],
)
@given(place=numbers, other=st.characters(codec=None, exclude_categories=()))
def test_one_changed_character_of_a_header_is_noticed(headers, name, place, other):
    """A changed character of a signature or a signed header is detected."""
    value = headers[name]
    place %= len(value)
    changed = value[:place] + other + value[place + 1 :]
    assert (refusal(headers | {name: changed}) is None) == (changed == value)


@pytest.mark.parametrize("name", OURS + STANDARD)
@given(value=st.text(st.characters(codec=None, exclude_categories=())))
@example("\ud800")
def test_any_header_may_come(name, value):
    """The receiver raises its own error only, whatever the headers are."""
    headers = signed()
    assert (refusal(headers | {name: value}) is None) == (value == headers[name])


def test_names_of_headers_are_read_in_any_case():
    """The case of header names does not matter."""
    assert refusal({name.upper(): value for name, value in signed().items()}) is None


@pytest.mark.parametrize("name", OURS + STANDARD)
def test_a_header_that_is_there_twice_is_refused(name):
    """A repeated header is refused."""
    assert refusal(signed() | {name.upper(): signed()[name]}) is RefusalReason.BAD_HEADER


@pytest.mark.parametrize("name", OURS + STANDARD)
@pytest.mark.parametrize("value", [["abc"], (), 1, 1.5, {}], ids=repr)
def test_a_header_that_is_no_text_is_refused(name, value):
    """A header value that is not a text, such as a list, is refused."""
    assert refusal(signed() | {name: value}) is RefusalReason.BAD_HEADER


@pytest.mark.parametrize("name", OURS + STANDARD)
def test_a_header_that_is_none_is_not_there(name):
    """A header with the value None counts as missing."""
    assert refusal(signed() | {name: None}) is refusal(without(signed(), name))


def test_headers_may_be_bytes():
    """Headers may be bytes, as in ASGI; values that are not ASCII are refused."""
    raw = {name.lower().encode(): value.encode() for name, value in signed().items()}
    assert refusal(raw) is None
    assert refusal(raw | {b"x-webhook-signature": b"\xff"}) is RefusalReason.WRONG_SIGNATURE
    assert refusal(raw | {b"X-Webhook-Signature": b"a"}) is RefusalReason.BAD_HEADER


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp"])
def test_the_standard_signature_needs_what_it_covers(missing):
    """The standard signature is refused without id or timestamp."""
    assert refusal(without(signed(), missing)) is RefusalReason.BAD_HEADER


@pytest.mark.parametrize(
    "spelled", [f"0{AT}", f"+{AT}", f" {AT}", f"{AT}\n", f"{AT}.0", "1_803_902_400", "9" * 5000, ""]
)
def test_a_time_has_one_spelling(spelled):
    """A timestamp in other digits than the signed ones is refused."""
    assert refusal(signed() | {"webhook-timestamp": spelled}) is RefusalReason.BAD_HEADER


def test_signatures_of_other_versions_are_passed_over():
    """Signatures of unknown versions are ignored if one is valid."""
    good = signed()["webhook-signature"]
    assert refusal(signed() | {"webhook-signature": f"v1a,abc {good} v2,=="}) is None


def test_the_comparison_takes_the_same_time_for_all(monkeypatch):
    """Signatures are compared by the library's constant-time function only."""
    monkeypatch.setattr(
        "staffbooking_core.webhook_receiver.hmac.compare_digest", lambda a, b: False
    )
    assert refusal(PUBLISHED_ALONE) is refusal(STANDARD_ALONE) is RefusalReason.WRONG_SIGNATURE


# Time -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "off, reason",
    [
        (300, None),
        (300.001, RefusalReason.OUT_OF_TIME),
        (-300, None),
        (-300.001, RefusalReason.OUT_OF_TIME),
        (float("nan"), RefusalReason.OUT_OF_TIME),
    ],
)
def test_the_window_is_five_minutes_both_ways(off, reason):
    """Timestamps within five minutes, inclusive, are accepted."""
    assert refusal(signed(), now=AT + off) is reason


def test_the_window_can_be_another():
    """The tolerance can be set, in seconds."""
    receiver = WebhookReceiver([OLD], tolerance_seconds=1)
    receiver.verify(signed(), BODY, AT + 1)
    with pytest.raises(WebhookRefused, match="out_of_time"):
        receiver.verify(signed(), BODY, AT + 2)


def test_the_published_signature_alone_has_no_time():
    """A request with the published signature only has no time limit; its id identifies a repeat."""
    receiver = WebhookReceiver([OLD])
    receiver.mark_processed(receiver.receive(PUBLISHED_ALONE, BODY, AT))
    assert receiver.receive(PUBLISHED_ALONE, BODY, AT + 10**6).is_duplicate


# Secrets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [[OLD], [NEW], [OLD, NEW], [NEW, OLD]])
def test_a_rotation_shuts_nobody_out(known):
    """During a rotation a receiver may have the old secret, the new one or both."""
    assert WebhookReceiver(known).verify(signed(BODY, OLD, NEW), BODY, AT) == envelope()


@pytest.mark.parametrize("left_out", [(), OURS, STANDARD])
def test_another_secret_is_refused(left_out):
    """The old secret is refused after a rotation."""
    assert refusal(without(signed(BODY, NEW), *left_out)) is RefusalReason.WRONG_SIGNATURE


@pytest.mark.parametrize("used", [OLD, NEW])
@pytest.mark.parametrize("left_out", [(), OURS, STANDARD])
def test_a_receiver_may_be_ready_before_and_after(used, left_out):
    """A receiver with both secrets accepts a signature by either."""
    headers = without(signed(BODY, used), *left_out)
    assert WebhookReceiver([OLD, NEW]).verify(headers, BODY, AT) == envelope()


def test_a_stranger_is_refused_amid_a_rotation():
    """Several invalid signatures are refused."""
    stranger = "whsec_" + "A" * 43 + "="
    with pytest.raises(WebhookRefused, match="wrong_signature"):
        WebhookReceiver([stranger]).verify(signed(BODY, OLD, NEW), BODY, AT)


def test_each_signature_that_is_there_must_hold():
    """A valid signature header does not compensate for an invalid one."""
    bad = signed(BODY, NEW)
    for name in ("X-Webhook-Signature", "webhook-signature"):
        assert refusal(signed() | {name: bad[name]}) is RefusalReason.WRONG_SIGNATURE


@pytest.mark.parametrize(
    "secrets",
    [[], OLD, [OLD, ""], ["whsec_"], [OLD[6:]], ["whsec_a"], ["whsec_AAAA-"], ["whsec_é==="]],
)
def test_what_is_no_secret_is_noticed_at_once(secrets):
    """An invalid secret raises at construction, and the message does not contain it."""
    with pytest.raises(ValueError, match=r"^a list of secrets is needed, each whsec_ and base64$"):
        WebhookReceiver(secrets)


# Bodies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"{}",
        b"[" * 100_000,
        b'{"id":1,"event":"e","sequence":1,"data":{}}',
        b'{"id":"evt_1","event":null,"sequence":1,"data":{}}',
        b'{"id":"evt_1","event":"e","sequence":"1","data":{}}',
        b'{"id":"evt_1","event":"e","sequence":1,"data":[]}',
        b'{"id":"evt_1","event":"e","sequence":1,"data":{"n":1.0e99999999999999999999}}',
    ],
    ids=lambda body: repr(body[:60]),
)
def test_a_signed_body_that_is_no_event_is_refused(body):
    """A signed body that is not an event is refused."""
    assert refusal(signed(body), body) is RefusalReason.BAD_BODY


@pytest.mark.parametrize(
    "data",
    [
        {"booking": "BK1"},
        {"booking": ["BK1"]},
        {"booking": {"booking_code": ["BK1"]}},
        {"booking": {"booking_code": 1}},
        {"booking": None, "booking_code": {}},
        {"booking_code": None},
    ],
    ids=repr,
)
def test_a_booking_of_another_form_is_none(data):
    """An event without a valid booking is accepted and never stale."""
    body = json.dumps(envelope() | {"data": data}).encode()
    receiver = WebhookReceiver([OLD])
    for _ in range(2):
        received = receiver.receive(signed(body), body, AT)
        receiver.mark_processed(received)
    assert webhook_receiver.booking_code(received.envelope) is None
    assert (received.is_duplicate, received.is_stale) == (True, False)


@pytest.mark.parametrize("left_out", [OURS, STANDARD])
def test_headers_name_the_event_of_the_body(left_out):
    """An id header that differs from the body's id is refused."""
    other = json.dumps(envelope("evt_2")).encode()
    assert refusal(without(signed(other), *left_out), other) is RefusalReason.CONTRADICTION


def test_money_is_exact():
    """Numbers with a fraction are parsed exactly."""
    body = BODY.replace(b'"Pra\xc3\xa7a 1"', b"0.10")
    got = WebhookReceiver([OLD]).verify(signed(body), body, AT)
    assert repr(got["data"]["booking"]["location"]) == repr(Decimal("0.10"))


# Repeats ----------------------------------------------------------------------------------


def test_a_repeat_is_known_by_its_id():
    """A repeated id is recognized, also in a request with other headers."""
    receiver = WebhookReceiver([OLD])
    receiver.mark_processed(receiver.receive(signed(), BODY, AT))
    assert receiver.receive_unsigned(envelope()).is_duplicate


def test_only_what_is_done_is_remembered():
    """An event whose handling failed is not a repeat when it is sent again."""
    receiver = WebhookReceiver([OLD])
    assert not receiver.receive(signed(), BODY, AT).is_duplicate
    assert not receiver.receive(signed(), BODY, AT).is_duplicate


# The file ---------------------------------------------------------------------------------


def test_the_file_can_be_copied(tmp_path):
    """The file works alone, without packages and with assertions disabled."""
    shutil.copy(webhook_receiver.__file__, tmp_path / "webhooks_kit.py")
    program = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "from webhooks_kit import WebhookReceiver, WebhookRefused\n"
        "secret, headers, body = json.load(sys.stdin)\n"
        "for text in (body, body + ' '):\n"
        "    try: print(WebhookReceiver([secret]).receive("
        "headers, text.encode(), 1803902400).is_duplicate)\n"
        "    except WebhookRefused as refused: print(refused.reason)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-O", "-c", program, tmp_path],
        input=json.dumps([OLD, signed(), BODY.decode()]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("False\nwrong_signature\n", "")
