"""The machine's own look-ups, against a real server of names on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from staffbooking_adapters.webhook.gate import SystemNames
from staffbooking_adapters.webhook.sender import HttpSender
from tests.support.dns import NameServer
from tests.support.receivers import Receiver, answering

pytestmark = pytest.mark.anyio

AMPLE = 10.0


@asynccontextmanager
async def system_names(server: NameServer) -> AsyncIterator[SystemNames]:
    names = SystemNames([server.address])
    try:
        yield names
    finally:
        await names.close()


async def test_names_of_the_machine() -> None:
    """Real look-ups give the addresses of both versions."""
    told = {"hooks.test": ["192.0.2.1", "192.0.2.2", "2001:db8::1"]}
    async with NameServer(told) as server, system_names(server) as names:
        assert sorted(await names.look_up("hooks.test")) == sorted(told["hooks.test"])


async def test_a_name_that_the_server_does_not_know() -> None:
    """No such name, and a name without an address, are the same failure."""
    async with NameServer({"empty.test": []}) as server, system_names(server) as names:
        for name in ("unknown.test", "empty.test", "a" * 64 + ".test"):
            with pytest.raises(OSError):
                await names.look_up(name)


async def test_names_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name is looked up below a domain of the machine's own."""
    monkeypatch.setenv("LOCALDOMAIN", "internal.test")
    async with NameServer({}) as server, system_names(server) as names:
        with pytest.raises(OSError):
            await names.look_up("hooks")
        assert set(server.asked) == {"hooks"}


async def test_localhost_needs_no_server() -> None:
    """The machine knows what localhost stands for."""
    async with NameServer({}) as server, system_names(server) as names:
        assert "127.0.0.1" in await names.look_up("localhost")


async def test_hanging_names_keep_nobody_waiting() -> None:
    """While a hundred look-ups hang, others are answered; and the hanging ones end when nobody
    waits any more."""
    told = {"hooks.test": ["127.0.0.1"]}
    async with NameServer(told) as server, system_names(server) as names:
        hanging = [
            asyncio.create_task(names.look_up(f"{number}.hangs.test")) for number in range(100)
        ]
        assert await names.look_up("hooks.test") == ["127.0.0.1"]
        assert not any(task.done() for task in hanging)
        for task in hanging:
            task.cancel()
        ended = await asyncio.gather(*hanging, return_exceptions=True)
    assert {type(error) for error in ended} == {asyncio.CancelledError}


async def test_the_machine_s_names_serve_the_sender() -> None:
    """A request reaches a receiver whose name the machine looks up."""
    async with NameServer({"hooks.test": ["127.0.0.1"]}) as server:
        made = HttpSender(insecure=True, names=SystemNames([server.address]))
        async with Receiver(answering(), name="hooks.test") as receiver:
            assert await made.send(receiver.url, {}, b"{}", AMPLE) == 204
            await made.close()
