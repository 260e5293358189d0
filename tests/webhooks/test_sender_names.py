"""The system resolver against a real DNS server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from staffbooking_adapters.testing.receivers import ReceiverServer, respond_with
from staffbooking_adapters.webhook.gate import SystemNameResolver
from staffbooking_adapters.webhook.sender import HttpSender
from tests.support.dns import DnsServer

pytestmark = pytest.mark.anyio

AMPLE = 10.0


@asynccontextmanager
async def system_names(server: DnsServer) -> AsyncIterator[SystemNameResolver]:
    names = SystemNameResolver([server.address])
    try:
        yield names
    finally:
        await names.close()


async def test_the_system_resolver_finds_both_ip_versions() -> None:
    """Real lookups return addresses of both IP versions."""
    addresses = {"hooks.test": ["192.0.2.1", "192.0.2.2", "2001:db8::1"]}
    async with DnsServer(addresses) as server, system_names(server) as names:
        assert sorted(await names.resolve("hooks.test")) == sorted(addresses["hooks.test"])


async def test_a_name_that_the_server_does_not_know() -> None:
    """An unknown, an invalid and an address-less name each raise OSError."""
    async with DnsServer({"empty.test": []}) as server, system_names(server) as names:
        for name in ("unknown.test", "empty.test", "a" * 64 + ".test"):
            with pytest.raises(OSError):
                await names.resolve(name)


async def test_search_domains_are_not_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's search domains are not applied."""
    monkeypatch.setenv("LOCALDOMAIN", "internal.test")
    async with DnsServer({}) as server, system_names(server) as names:
        with pytest.raises(OSError):
            await names.resolve("hooks")
        assert set(server.lookups) == {"hooks"}


async def test_localhost_needs_no_server() -> None:
    """localhost is resolved without a DNS server."""
    async with DnsServer({}) as server, system_names(server) as names:
        assert "127.0.0.1" in await names.resolve("localhost")


async def test_hanging_lookups_do_not_delay_others() -> None:
    """While a hundred lookups hang, others are answered; hanging ones end when they are
    cancelled."""
    addresses = {"hooks.test": ["127.0.0.1"]}
    async with DnsServer(addresses) as server, system_names(server) as names:
        hanging = [
            asyncio.create_task(names.resolve(f"{number}.hangs.test")) for number in range(100)
        ]
        assert await names.resolve("hooks.test") == ["127.0.0.1"]
        assert not any(task.done() for task in hanging)
        for task in hanging:
            task.cancel()
        ended = await asyncio.gather(*hanging, return_exceptions=True)
    assert {type(error) for error in ended} == {asyncio.CancelledError}


async def test_the_sender_uses_the_system_resolver() -> None:
    """A request reaches a receiver whose name the system resolver looks up."""
    async with DnsServer({"hooks.test": ["127.0.0.1"]}) as server:
        made = HttpSender(insecure=True, resolver=SystemNameResolver([server.address]))
        async with ReceiverServer(respond_with(), name="hooks.test") as receiver:
            assert await made.send(receiver.url, {}, b"{}", AMPLE) == 204
            await made.close()
