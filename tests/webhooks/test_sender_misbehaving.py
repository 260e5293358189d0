"""Real receivers that misbehave: each attempt ends in time with the right outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager

import pytest
import trustme
import uvloop

from staffbooking_adapters.testing.receivers import (
    Behaviour,
    HangingResolver,
    ReceiverServer,
    SingleAddressResolver,
    close_after_request,
    cut_body,
    drip_body,
    drip_head,
    endless_body,
    endless_continue,
    gzip_bomb,
    hang_in_head,
    long_header,
    many_headers,
    never_respond,
    reset_after_request,
    reset_connection,
    respond_raw,
    respond_with,
    unaccepting_port,
)
from staffbooking_adapters.webhook import dialing, sender
from staffbooking_adapters.webhook.dialing import MAX_RESPONSE_BYTES
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure
from tests.support.tls import client_tls_context, server_tls_context

SHORT = 0.2
"""Timeout in seconds of attempts that should time out."""
AMPLE = 600.0
"""Timeout in seconds of attempts that should not time out."""
NO_END = 30.0
"""Seconds after which an attempt counts as endless."""

AUTHORITY = trustme.CA()

Loop = Callable[[], asyncio.AbstractEventLoop]
Scene = Coroutine[None, None, int | DeliveryFailure]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Loop:
    made: Loop = request.param
    return made


def outcome(loop: Loop, scene: Scene) -> int | DeliveryFailure:
    """The outcome of an attempt on this kind of event loop."""

    async def bounded() -> int | DeliveryFailure:
        async with asyncio.timeout(NO_END):
            return await scene

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(bounded())


@pytest.fixture(autouse=True)
def short_body_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "BODY_DRAIN_TIMEOUT_SECONDS", 0.1)


async def attempt(
    url: str, seconds: float, names: SingleAddressResolver | HangingResolver | None = None
) -> int | DeliveryFailure:
    names = names or SingleAddressResolver("127.0.0.1")
    sends = sender.HttpSender(insecure=True, resolver=names, tls=client_tls_context(AUTHORITY))
    try:
        return await sends.send(url, {"X-Webhook-Id": "evt_1"}, b"{}", seconds)
    finally:
        await sends.close()


async def attempt_at(receiver: ReceiverServer, seconds: float) -> int | DeliveryFailure:
    async with receiver:
        return await attempt(receiver.url, seconds)


async def attempt_within(
    place: AbstractAsyncContextManager[str], seconds: float
) -> int | DeliveryFailure:
    async with place as url:
        return await attempt(url, seconds)


def deadline(expected: int | DeliveryFailure) -> float:
    return SHORT if expected is DeliveryFailure.TIMEOUT else AMPLE


ODD: dict[str, tuple[Behaviour, int | DeliveryFailure]] = {
    "says nothing": (never_respond, DeliveryFailure.TIMEOUT),
    "hangs at the head": (hang_in_head, DeliveryFailure.TIMEOUT),
    "drips its head": (drip_head, DeliveryFailure.TIMEOUT),
    "drips its body": (drip_body, 200),
    "cuts its body": (cut_body, 200),
    "never ends its body": (endless_body, 200),
    "a bomb of gzip": (gzip_bomb, 200),
    "a body that isn't chunked as it says": (
        respond_with(b"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        202,
    ),
    "100,000 headers": (many_headers, DeliveryFailure.MALFORMED_RESPONSE),
    "a header without end": (long_header, DeliveryFailure.MALFORMED_RESPONSE),
    "100 Continue without end": (endless_continue, DeliveryFailure.MALFORMED_RESPONSE),
    "not HTTP": (respond_with(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), DeliveryFailure.MALFORMED_RESPONSE),
    "HTTP/0.9": (respond_with(b"<html>hello</html>\r\n\r\n"), DeliveryFailure.MALFORMED_RESPONSE),
    "no status": (respond_with(b"HTTP/1.1 OK\r\n\r\n"), DeliveryFailure.MALFORMED_RESPONSE),
    "a status too long": (
        respond_with(b"HTTP/1.1 2000 OK\r\n\r\n"),
        DeliveryFailure.MALFORMED_RESPONSE,
    ),
    "a header without a colon": (
        respond_with(b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"),
        DeliveryFailure.MALFORMED_RESPONSE,
    ),
    "a length that is none": (
        respond_with(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"),
        DeliveryFailure.MALFORMED_RESPONSE,
    ),
    "a length below zero": (
        respond_with(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        DeliveryFailure.MALFORMED_RESPONSE,
    ),
    "NUL in a header": (
        respond_with(b"HTTP/1.1 200 OK\r\nX-Nul: a\x00b\r\n\r\n"),
        DeliveryFailure.MALFORMED_RESPONSE,
    ),
    "half a head": (
        respond_with(b"HTTP/1.1 200 OK\r\nX-Half", times=1),
        DeliveryFailure.CONNECTION_CLOSED,
    ),
    "bytes that aren't text": (
        respond_with(b"\x16\x03\x01" * 100),
        DeliveryFailure.MALFORMED_RESPONSE,
    ),
    "switches protocols": (
        respond_with(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        101,
    ),
    "resets at once": (reset_connection, DeliveryFailure.CONNECTION_CLOSED),
    "resets after the request": (reset_after_request, DeliveryFailure.CONNECTION_CLOSED),
    "closes after the request": (close_after_request, DeliveryFailure.CONNECTION_CLOSED),
    "continues, then answers": (
        respond_with(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 Done\r\n\r\n"),
        204,
    ),
    "sets a broken cookie": (
        respond_with(b"HTTP/1.1 204 Done\r\nSet-Cookie: \xff=;;=\r\n\r\n"),
        204,
    ),
    "headers in latin-1": (respond_with(b"HTTP/1.1 204 Done\r\nX-Name: \xe9\r\n\r\n"), 204),
    "a type that is none": (
        respond_with(b"HTTP/1.1 200 OK\r\nContent-Type: ///;;=\xff\r\nContent-Length: 0\r\n\r\n"),
        200,
    ),
    "two answers": (respond_with(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" * 2), 500),
    "a header of 60 KB": (
        respond_with(b"HTTP/1.1 204 Done\r\nX-Long: " + b"x" * 60_000 + b"\r\n\r\n"),
        204,
    ),
    "5,000 headers": (
        respond_with(b"HTTP/1.1 204 Done\r\n" + b"X-Many: x\r\n" * 5000 + b"\r\n"),
        204,
    ),
    "a reason of 60 KB": (respond_with(b"HTTP/1.1 204 " + b"x" * 60_000 + b"\r\n\r\n"), 204),
}


@pytest.mark.parametrize(("behaviour", "expected"), ODD.values(), ids=ODD)
def test_an_odd_receiver(loop: Loop, behaviour: Behaviour, expected: int | DeliveryFailure) -> None:
    """An attempt ends with the expected status or failure, whatever the receiver does."""
    assert outcome(loop, attempt_at(ReceiverServer(behaviour), deadline(expected))) == expected


TLS: dict[str, tuple[ReceiverServer, int | DeliveryFailure]] = {
    "a right certificate": (
        ReceiverServer(
            respond_with(), server_tls_context(AUTHORITY, "hooks.test"), name="hooks.test"
        ),
        204,
    ),
    "a right certificate for an address": (
        ReceiverServer(respond_with(), server_tls_context(AUTHORITY, "127.0.0.1")),
        204,
    ),
    "another name": (
        ReceiverServer(
            respond_with(), server_tls_context(AUTHORITY, "other.test"), name="hooks.test"
        ),
        DeliveryFailure.TLS_FAILED,
    ),
    "another authority": (
        ReceiverServer(
            respond_with(), server_tls_context(trustme.CA(), "hooks.test"), name="hooks.test"
        ),
        DeliveryFailure.TLS_FAILED,
    ),
    "drips its body": (
        ReceiverServer(drip_body, server_tls_context(AUTHORITY, "hooks.test"), name="hooks.test"),
        200,
    ),
    "hangs at the head": (
        ReceiverServer(
            hang_in_head, server_tls_context(AUTHORITY, "hooks.test"), name="hooks.test"
        ),
        DeliveryFailure.TIMEOUT,
    ),
}


@pytest.mark.parametrize("case", TLS)
def test_a_receiver_with_tls(loop: Loop, case: str) -> None:
    """The certificate must be from a trusted authority and for the URL's host."""
    receiver, expected = TLS[case]
    again = ReceiverServer(receiver.behaviour, receiver.tls, name=receiver.name)
    assert outcome(loop, attempt_at(again, deadline(expected))) == expected


PLAIN: dict[str, tuple[Behaviour, DeliveryFailure]] = {
    "says nothing": (never_respond, DeliveryFailure.TIMEOUT),
    "is a web server": (
        respond_raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        DeliveryFailure.TLS_FAILED,
    ),
    "resets": (reset_connection, DeliveryFailure.CONNECTION_CLOSED),
}


@pytest.mark.parametrize(("behaviour", "expected"), PLAIN.values(), ids=PLAIN)
def test_a_receiver_without_tls(
    loop: Loop, behaviour: Behaviour, expected: DeliveryFailure
) -> None:
    """An https URL of a receiver without TLS gets no request."""

    async def at_https() -> int | DeliveryFailure:
        async with ReceiverServer(behaviour) as receiver:
            ended = await attempt(receiver.url.replace("http://", "https://"), deadline(expected))
            assert receiver.requests == []
            return ended

    assert outcome(loop, at_https()) == expected


def test_a_connection_that_is_not_accepted(loop: Loop) -> None:
    """A connection that is not accepted ends at the timeout."""
    assert outcome(loop, attempt_within(unaccepting_port(), SHORT)) is DeliveryFailure.TIMEOUT


def test_a_hanging_lookup(loop: Loop) -> None:
    """A lookup that hangs ends at the timeout."""
    hanging = attempt("http://hooks.test/", SHORT, HangingResolver())
    assert outcome(loop, hanging) is DeliveryFailure.TIMEOUT


@pytest.mark.parametrize("behaviour", [endless_body, many_headers, long_header, endless_continue])
def test_the_bytes_read_are_limited(loop: Loop, behaviour: Behaviour) -> None:
    """No more than the limit and the data in transit is read from a receiver."""
    receiver = ReceiverServer(behaviour)
    outcome(loop, attempt_at(receiver, AMPLE))
    assert receiver.bytes_written <= 5 * MAX_RESPONSE_BYTES


def test_a_body_does_not_outlast_the_deadline(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeout while the body is discarded does not change the outcome."""
    monkeypatch.setattr(sender, "BODY_DRAIN_TIMEOUT_SECONDS", 10 * NO_END)
    assert outcome(loop, attempt_at(ReceiverServer(drip_body), 1.0)) == 200


def test_an_unreachable_address(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connecting to an address has its own timeout, so that the next one is tried."""
    monkeypatch.setattr(dialing, "CONNECT_TIMEOUT_SECONDS", SHORT)

    async def with_two_addresses() -> int | DeliveryFailure:
        async with unaccepting_port() as full:
            port = int(full.split(":")[2].split("/")[0])
            async with ReceiverServer(respond_with(), host="127.0.0.2", port=port):
                both = SingleAddressResolver("127.0.0.1", "127.0.0.2")
                return await attempt(f"http://hooks.test:{port}/", AMPLE, both)

    assert outcome(loop, with_two_addresses()) == 204
