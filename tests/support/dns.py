"""A real DNS server on loopback."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Self


class DnsServer(asyncio.DatagramProtocol):
    """Answers queries over UDP from fixed records: other names do not exist, and names under
    `hangs.test` get no answer."""

    def __init__(self, addresses: Mapping[str, Sequence[str]]) -> None:
        self._addresses = addresses
        self.lookups: list[str] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=("127.0.0.1", 0)
        )
        self.address = "{}:{}".format(*self._transport.get_extra_info("sockname"))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        name, end = _parse_question_name(data)
        kind = struct.unpack_from(">H", data, end)[0]
        self.lookups.append(name)
        if name.endswith("hangs.test"):
            return
        version = 4 if kind == 1 else 6
        found = [a for a in map(ip_address, self._addresses.get(name, ())) if a.version == version]
        code = 0 if name in self._addresses else 3
        head = data[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(found), 0, 0)
        records = b"".join(
            b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(a.packed)) + a.packed for a in found
        )
        self._transport.sendto(head + data[12 : end + 4] + records, addr)


def _parse_question_name(question: bytes) -> tuple[str, int]:
    """The queried name, and the offset of its end."""
    labels, at = [], 12
    while size := question[at]:
        labels.append(question[at + 1 : at + 1 + size].decode().lower())
        at += 1 + size
    return ".".join(labels), at + 1


def has_ipv6_loopback() -> bool:
    """Whether this machine has an IPv6 loopback address."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False
