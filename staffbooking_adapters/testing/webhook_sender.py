"""The contract of `WebhookSender`, against receivers on loopback (CONTRACT 7)."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AbstractAsyncContextManager

import pytest

from staffbooking_adapters.testing.receivers import (
    Behaviour,
    FakeResolver,
    ReceiverConnection,
    ReceiverServer,
    close_after_request,
    closed_port,
    cut_body,
    endless_body,
    hang_in_head,
    never_respond,
    reset_after_request,
    respond_redirect,
    respond_status,
    respond_with,
)
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure
from staffbooking_core.ports import WebhookSender

__all__ = ["WebhookSenderContract"]

_HEADERS = {"Content-Type": "application/json", "X-Webhook-Id": "evt_1"}
_BODY = '{"id": "evt_1", "name": "Zoë"}'.encode()
_AMPLE_SECONDS = 10.0
_SHORT_SECONDS = 0.2
_GIVE_UP_SECONDS = 8.0
"""An attempt that was given `_SHORT_SECONDS` and lasts longer than this has no timeout."""

_NO_ANSWERS: dict[str, tuple[Behaviour, DeliveryFailure]] = {
    "never answers": (never_respond, DeliveryFailure.TIMEOUT),
    "hangs after the request": (hang_in_head, DeliveryFailure.TIMEOUT),
    "closes after the request": (close_after_request, DeliveryFailure.CONNECTION_CLOSED),
    "resets after the request": (reset_after_request, DeliveryFailure.CONNECTION_CLOSED),
    "speaks another protocol": (
        respond_with(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
        DeliveryFailure.MALFORMED_RESPONSE,
    ),
}
_UNSAFE_ADDRESSES = [
    *("127.0.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254"),
    *("100.64.0.1", "224.0.0.1", "::1", "::", "fe80::1", "fc00::1", "::ffff:10.0.0.1"),
]


class WebhookSenderContract:
    """What every webhook sender promises. A subclass names its sender: `open_sender`.

    class TestMySender(WebhookSenderContract):
        @asynccontextmanager
        async def open_sender(self, names, *, allow_loopback):
            async with MySender(resolve=names.resolve, sandbox=allow_loopback) as sender:
                yield sender
    """

    pytestmark = pytest.mark.anyio

    def open_sender(
        self, names: FakeResolver, *, allow_loopback: bool
    ) -> AbstractAsyncContextManager[WebhookSender]:
        """A sender for which `await names.resolve(host)` gives the addresses of a host, in the
        place of DNS: an OSError where it has none. `allow_loopback` is the sandbox's choice: http
        and the addresses of this machine are allowed then."""
        pytest.fail(f"{type(self).__name__} does not override WebhookSenderContract.open_sender")

    async def _send(self, url: str, seconds: float = _AMPLE_SECONDS) -> int | DeliveryFailure:
        """The outcome of one attempt where loopback is allowed."""
        async with (
            self.open_sender(FakeResolver({}), allow_loopback=True) as sender,
            asyncio.timeout(seconds + _GIVE_UP_SECONDS),
        ):
            return await sender.send(url, _HEADERS, _BODY, seconds)

    # The request --------------------------------------------------------------------------------

    async def test_a_webhook_arrives_unchanged(self) -> None:
        """A receiver gets one POST of the URL as it is written, with each header and exactly the
        bytes of the body: the signature is over these bytes."""
        async with ReceiverServer(respond_with()) as receiver:
            await self._send(f"http://127.0.0.1:{receiver.port}/a%2Fb/%7e;x?q=%20+&q=[1]")
        [request] = receiver.requests
        assert request.line == "POST /a%2Fb/%7e;x?q=%20+&q=[1] HTTP/1.1"
        assert request.body == _BODY
        sent = {name.lower(): value for name, value in _HEADERS.items()}
        assert sent.items() <= request.headers.items()

    @pytest.mark.parametrize("status", [200, 204, 400, 401, 404, 410, 429, 500, 503])
    async def test_the_status_is_returned(self, status: int) -> None:
        """Any status of a response is returned: what it means is not the sender's to decide."""
        async with ReceiverServer(respond_status(status)) as receiver:
            assert await self._send(receiver.url) == status
        assert len(receiver.requests) == 1

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    async def test_redirects_are_not_followed(self, status: int) -> None:
        """A redirect is returned as its status, and its target gets no request."""
        async with (
            ReceiverServer(respond_with()) as target,
            ReceiverServer(respond_redirect(status, target.url)) as receiver,
        ):
            assert await self._send(receiver.url) == status
        assert target.connections == 0

    async def test_webhooks_are_sent_concurrently(self) -> None:
        """Fifty attempts at once succeed, though no receiver answers until all were reached."""
        arrived, everybody = [0], asyncio.Event()

        async def answer_all_at_once(connection: ReceiverConnection) -> None:
            await connection.request()
            arrived[0] += 1
            if arrived[0] == 50:
                everybody.set()
            await everybody.wait()
            await connection.write(b"HTTP/1.1 204 No Content\r\n\r\n")

        async with (
            ReceiverServer(answer_all_at_once) as receiver,
            self.open_sender(FakeResolver({}), allow_loopback=True) as sender,
        ):
            found = await asyncio.gather(
                *(
                    sender.send(f"{receiver.url}/{number}", _HEADERS, _BODY, _AMPLE_SECONDS)
                    for number in range(50)
                )
            )
        assert found == [204] * 50

    # Receivers that misbehave -------------------------------------------------------------------

    @pytest.mark.parametrize("case", _NO_ANSWERS)
    async def test_a_missing_response_is_a_result(self, case: str) -> None:
        """A receiver without a response is a `DeliveryFailure`, never an error: TIMEOUT,
        CONNECTION_CLOSED or MALFORMED_RESPONSE."""
        behaviour, failure = _NO_ANSWERS[case]
        seconds = _SHORT_SECONDS if failure is DeliveryFailure.TIMEOUT else _AMPLE_SECONDS
        async with ReceiverServer(behaviour) as receiver:
            assert await self._send(receiver.url, seconds) is failure

    async def test_a_refused_connection_is_a_result(self) -> None:
        """A connection that is refused is CONNECTION_FAILED."""
        async with closed_port() as url:
            assert await self._send(url) is DeliveryFailure.CONNECTION_FAILED

    async def test_a_name_that_does_not_resolve_is_a_result(self) -> None:
        """A host without an address is NAME_NOT_RESOLVED."""
        assert await self._send("http://hooks.test/") is DeliveryFailure.NAME_NOT_RESOLVED

    @pytest.mark.parametrize("behaviour", [cut_body, endless_body], ids=["cut", "endless"])
    async def test_the_body_of_a_response_changes_nothing(self, behaviour: Behaviour) -> None:
        """The status counts from the head of a response on: a body that is cut off, or that never
        ends, neither changes it nor holds the attempt up beyond its time."""
        async with ReceiverServer(behaviour) as receiver:
            assert await self._send(receiver.url, 2.0) == 200

    async def test_a_cancelled_attempt_ends(self) -> None:
        """Cancelling an attempt cancels it, and closes its connection."""
        arrived, gone = asyncio.Event(), asyncio.Event()

        async def wait_for_the_end(connection: ReceiverConnection) -> None:
            await connection.request()
            arrived.set()
            await connection.request()
            gone.set()

        async with (
            ReceiverServer(wait_for_the_end) as receiver,
            self.open_sender(FakeResolver({}), allow_loopback=True) as sender,
            asyncio.timeout(_AMPLE_SECONDS),
        ):
            sent = asyncio.create_task(sender.send(receiver.url, _HEADERS, _BODY, _AMPLE_SECONDS))
            await arrived.wait()
            sent.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sent
            await gone.wait()

    # Addresses ----------------------------------------------------------------------------------

    @pytest.mark.parametrize("url", ["http://hooks.test/", "https://localhost/", "no url"])
    async def test_a_url_that_may_not_be_registered_is_refused(self, url: str) -> None:
        """Only https URLs of public hosts are sent to; another URL is UNSAFE_ADDRESS before
        its host is resolved, also if it was allowed when it was registered."""
        names = FakeResolver({"hooks.test": [["8.8.8.8"]], "localhost": [["8.8.8.8"]]})
        async with self.open_sender(names, allow_loopback=False) as sender:
            outcome = await sender.send(url, _HEADERS, _BODY, _AMPLE_SECONDS)
            assert names.lookups == []
        assert outcome is DeliveryFailure.UNSAFE_ADDRESS

    @pytest.mark.parametrize("address", _UNSAFE_ADDRESSES)
    async def test_an_unsafe_address_is_refused(self, address: str) -> None:
        """An address of this machine, of a private network or of no single host is
        UNSAFE_ADDRESS, as the host of a URL and as an answer of DNS."""
        literal = f"[{address}]" if ":" in address else address
        names = FakeResolver({"hooks.test": [[address]]})
        async with self.open_sender(names, allow_loopback=False) as sender:
            for host in (literal, "hooks.test"):
                url = f"https://{host}:9/"
                outcome = await sender.send(url, _HEADERS, _BODY, _AMPLE_SECONDS)
                assert outcome is DeliveryFailure.UNSAFE_ADDRESS, host

    @pytest.mark.parametrize("answer", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"]])
    async def test_the_address_is_checked_when_it_is_connected_to(self, answer: list[str]) -> None:
        """A name that was safe and then resolves to this machine is UNSAFE_ADDRESS, and no
        connection is made: what counts are all addresses of the connection's own lookup."""
        names = FakeResolver({"hooks.test": [["8.8.8.8"], answer]})
        with socket.create_server(("127.0.0.1", 0)) as sentinel:
            sentinel.setblocking(False)
            port = sentinel.getsockname()[1]
            async with self.open_sender(names, allow_loopback=False) as sender:
                assert not await sender.resolves_to_unsafe("hooks.test")
                url = f"https://hooks.test:{port}/"
                outcome = await sender.send(url, _HEADERS, _BODY, _AMPLE_SECONDS)
            assert outcome is DeliveryFailure.UNSAFE_ADDRESS
            with pytest.raises(BlockingIOError):
                sentinel.accept()

    @pytest.mark.parametrize(
        ("answer", "unsafe"),
        [
            (["8.8.8.8"], False),
            (["8.8.8.8", "10.0.0.1"], True),
            (["127.0.0.1"], True),
            ([], False),
        ],
        ids=["public", "one private", "this machine", "none"],
    )
    async def test_unsafe_names_are_found(self, answer: list[str], unsafe: bool) -> None:
        """`resolves_to_unsafe` is true where any address of a name is unsafe, and false where it
        has none."""
        names = FakeResolver({"hooks.test": [answer]})
        async with self.open_sender(names, allow_loopback=False) as sender:
            assert await sender.resolves_to_unsafe("hooks.test") is unsafe

    @pytest.mark.parametrize(("address", "unsafe"), [("127.0.0.1", False), ("10.0.0.1", True)])
    async def test_a_sandbox_may_send_to_this_machine(self, address: str, unsafe: bool) -> None:
        """Where loopback is allowed it is not unsafe; private addresses still are."""
        names = FakeResolver({"hooks.test": [[address]]})
        async with self.open_sender(names, allow_loopback=True) as sender:
            assert await sender.resolves_to_unsafe("hooks.test") is unsafe
