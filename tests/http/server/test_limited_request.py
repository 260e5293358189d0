"""Responses under the load limiter: the same bytes as uvicorn's, written at once where they are
usual."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from staffbooking_http.server.limited_request import LimitedRequest

pytestmark = pytest.mark.anyio

LENGTH = (b"content-length", b"2")
TYPE = (b"content-type", b"text/plain")


class Transport:
    """A transport that records what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.is_closed = True


def cycle_of(transport: Transport, method: str, *, keep_alive: bool) -> RequestResponseCycle:
    anything: Any = transport
    return RequestResponseCycle(
        scope=cast("Any", {"type": "http", "method": method}),
        transport=anything,
        flow=FlowControl(anything),
        logger=logging.getLogger("test"),
        access_logger=logging.getLogger("test"),
        access_log=False,
        default_headers=[(b"date", b"today")],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: transport.written.append(b"<complete>"),
    )


def response(*headers: tuple[bytes, bytes], bodies: Sequence[bytes] = (b"ok",)) -> list[Any]:
    start = {"type": "http.response.start", "status": 200, "headers": [*headers]}
    parts = [{"type": "http.response.body", "body": body, "more_body": True} for body in bodies]
    parts[-1]["more_body"] = False
    return [start, *parts]


async def sent(
    messages: Sequence[Any], *, method: str, keep_alive: bool, is_limited: bool
) -> tuple[list[bytes], bool, str]:
    """What is written and whether the connection is closed, and the error of the application."""
    transport, error = Transport(), ""
    cycle = cycle_of(transport, method, keep_alive=keep_alive)
    anything: Any = None
    limited = LimitedRequest(anything, cycle, anything, anything, anything)
    send = limited._send if is_limited else cycle.send
    try:
        for message in messages:
            await send(message)
    except RuntimeError as raised:
        error = str(raised)
    return transport.written, transport.is_closed, error


RESPONSES = {
    "usual": response(LENGTH, TYPE),
    "without headers": [{"type": "http.response.start", "status": 200}, response()[1]],
    "empty": response((b"content-length", b"0"), bodies=[b""]),
    "without a length": response(TYPE),
    "in parts": response(LENGTH, TYPE, bodies=[b"o", b"k"]),
    "in chunks": response(TYPE, bodies=[b"o", b"k"]),
    "the last of the connection": response(LENGTH, (b"connection", b"close")),
    "a header of an extension": response(LENGTH, (b"x-extension", b"1")),
    "a header in capitals": response((b"Content-Length", b"2")),
    "too long": response((b"content-length", b"1")),
    "too short": response((b"content-length", b"3")),
    "a line end in a value": response(LENGTH, (b"location", b"/\r\nset-cookie: a=b")),
    "a line feed in a value": response(LENGTH, (b"location", b"/\nset-cookie: a=b")),
    "a NUL in a value": response(LENGTH, (b"location", b"/\0")),
    "a tab in a value": response(LENGTH, (b"location", b"/\t")),
    "an invalid name": response(LENGTH, (b"x y", b"1")),
    "no start": response(LENGTH)[1:],
    "two starts": response(LENGTH)[:1] * 2,
    "two ends": [*response(LENGTH), response(LENGTH)[1]],
}


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("messages", RESPONSES.values(), ids=RESPONSES)
async def test_a_response_is_that_of_uvicorn(
    messages: Sequence[Any], method: str, *, keep_alive: bool
) -> None:
    """Every response, and every error of an application, is as uvicorn alone would send it."""
    alone = await sent(messages, method=method, keep_alive=keep_alive, is_limited=False)
    limited = await sent(messages, method=method, keep_alive=keep_alive, is_limited=True)
    assert b"".join(limited[0]) == b"".join(alone[0])
    assert limited[1:] == alone[1:]


async def test_a_usual_response_is_one_write() -> None:
    """Head and body of a usual response are written at once."""
    written, _, _ = await sent(RESPONSES["usual"], method="GET", keep_alive=True, is_limited=True)
    assert len(written) == 2  # The response, and the call at its end.


async def test_a_client_that_reads_nothing_does_not_delay_a_stop() -> None:
    """A request that is cut off gets no response while its client leaves earlier ones unread."""

    async def cancelled(*_: object) -> None:
        raise asyncio.CancelledError

    async def cut_off(_: object, send: Any) -> None:
        for message in RESPONSES["usual"]:
            await send(message)

    transport = Transport()
    cycle = cycle_of(transport, "GET", keep_alive=True)
    cycle.flow.pause_writing()
    limiter: Any = SimpleNamespace(finish=lambda _: None)
    overload: Any = SimpleNamespace(refusals=SimpleNamespace(cut_off=cut_off))
    limited = LimitedRequest(cast("Any", None), cycle, cancelled, limiter, overload)
    with anyio.fail_after(1):
        await limited._run(cycle.scope, cycle.receive, cycle.send)
    assert transport.written == []
