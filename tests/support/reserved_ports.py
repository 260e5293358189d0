"""Ports for processes that are restarted on the same port."""

from __future__ import annotations

import socket


def reserve_port() -> socket.socket:
    """A socket that keeps a free port of 127.0.0.1 from being assigned to others while it is open.
    It never listens, so that a server can listen on the port by its number."""
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    return reservation


def port_number(reservation: socket.socket) -> int:
    number: int = reservation.getsockname()[1]
    return number
