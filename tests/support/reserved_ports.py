"""Ports for processes that are started again at the same one."""

from __future__ import annotations

import socket


def reserved_port() -> socket.socket:
    """A socket that keeps a free port of 127.0.0.1 from everybody else's choice while it is open.
    It never listens, so that a server, which asks for the port by its number, may."""
    keeping = socket.socket()
    keeping.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeping.bind(("127.0.0.1", 0))
    return keeping


def number_of(keeping: socket.socket) -> int:
    number: int = keeping.getsockname()[1]
    return number
