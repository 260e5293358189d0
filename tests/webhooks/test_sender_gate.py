"""The addresses that the sender tries, and those that are the machine's own."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

import pytest

from staffbooking_adapters.testing.receivers import SingleAddressResolver
from staffbooking_adapters.webhook import gate
from staffbooking_adapters.webhook.gate import AddressGuard, ConnectionNotMade, is_own_address
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure

pytestmark = pytest.mark.anyio


def refusing(code: int) -> type[socket.socket]:
    """A socket class whose constructor fails with this error."""

    class Refused(socket.socket):
        def __init__(self, *_: object) -> None:
            raise OSError(code, "none")

    return Refused


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::127.0.0.1", "64:ff9b::7f00:1"],
)
def test_own_addresses(address: str) -> None:
    """An address of this machine is recognized in every form."""
    assert is_own_address(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "::ffff:808:808", "2606:4700:4700::1111"])
def test_addresses_of_others(address: str) -> None:
    """Public addresses of others are not the machine's own, in every form."""
    assert not is_own_address(address)


def test_an_address_that_cannot_be_checked_is_not_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If no socket is available for the check, the address is not connected to."""
    monkeypatch.setattr(socket, "socket", refusing(errno.EMFILE))
    with pytest.raises(ConnectionNotMade) as raised:
        is_own_address("8.8.8.8")
    assert raised.value.failure is DeliveryFailure.CONNECTION_FAILED


def test_a_machine_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without IPv6 has no IPv6 address of its own."""
    monkeypatch.setattr(socket, "socket", refusing(errno.EAFNOSUPPORT))
    assert not is_own_address("2606:4700:4700::1111")


async def test_own_addresses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own addresses are unsafe, also public ones."""
    monkeypatch.setattr(gate, "is_own_address", lambda address: address == "8.8.4.4")
    with pytest.raises(ConnectionNotMade) as raised:
        await AddressGuard(
            SingleAddressResolver("8.8.8.8", "8.8.4.4"), allow_loopback=False
        ).resolve_safe_addresses("hooks.test")
    assert raised.value.failure is DeliveryFailure.UNSAFE_ADDRESS


@pytest.mark.parametrize(
    ("found", "tried"),
    [
        (["2600::1", "2600::2", "2600::3", "8.8.8.8"], ["2600::1", "8.8.8.8", "2600::2"]),
        (["8.8.8.8", "8.8.4.4", "2600::1", "2600::2"], ["8.8.8.8", "2600::1", "8.8.4.4"]),
        (["8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1"], ["8.8.8.8", "8.8.4.4", "1.1.1.1"]),
        (["2600::1", "8.8.8.8"], ["2600::1", "8.8.8.8"]),
    ],
)
async def test_ip_versions_alternate(
    monkeypatch: pytest.MonkeyPatch, found: Sequence[str], tried: Sequence[str]
) -> None:
    """A few addresses are tried, alternating between IP versions from the first one's, in order
    within a version."""
    monkeypatch.setattr(gate, "is_own_address", lambda _: False)
    assert (
        await AddressGuard(
            SingleAddressResolver(*found), allow_loopback=False
        ).resolve_safe_addresses("hooks.test")
        == tried
    )
