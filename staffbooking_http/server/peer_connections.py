"""Open connections of each TCP peer (CONTRACT 10)."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from staffbooking_adapters.settings import IpNetwork
from staffbooking_http.api.addresses import address_key, is_trusted_proxy, parse_address


class PeerConnections:
    """Counts the connections of this process by address, so that no address can hold all of them.

    Connections of trusted proxies are not counted: they carry the requests of many clients.
    """

    def __init__(self, max_per_address: int, trusted_proxies: Sequence[IpNetwork] = ()) -> None:
        self._max_per_address = max_per_address
        self._trusted_proxies = trusted_proxies
        self._keys: dict[asyncio.BaseTransport, str] = {}
        self._counts = Counter[str]()

    def add(self, transport: asyncio.BaseTransport) -> bool:
        """Count a connection until `remove`. False if its address has too many."""
        peer = transport.get_extra_info("peername")
        address = parse_address(peer[0]) if isinstance(peer, tuple) else None
        if address is None or is_trusted_proxy(address, self._trusted_proxies):
            return True
        key = address_key(address)
        if self._counts[key] >= self._max_per_address:
            return False
        self._counts[key] += 1
        self._keys[transport] = key
        return True

    def remove(self, transport: asyncio.BaseTransport) -> None:
        """Stop counting a connection, if it was counted."""
        if (key := self._keys.pop(transport, None)) is not None:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
