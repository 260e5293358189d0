"""The socket that a server listens on; opened before anything that takes long to load."""

import socket

_LISTEN_BACKLOG_SIZE = 2048


def open_listening_socket(host: str, port: int) -> socket.socket:
    """A listening socket; clients wait in its backlog until it is served. Port 0 selects a free
    port; `::` means IPv4 too, where the system can. Raises OSError if the port is not
    available."""
    listening = socket.create_server(
        (host, port),
        family=_address_family(host),
        backlog=_LISTEN_BACKLOG_SIZE,
        dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
    )
    # Connections inherit TCP_NODELAY. asyncio sets it for some sockets only; without it, a
    # response's body waits 40 ms for the client to acknowledge the head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _address_family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
