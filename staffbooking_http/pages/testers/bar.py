"""The bar on every page of a sandbox with sample data: who one is, as whom one can sign in with one
click, the time of the service's clock, and the way to the pages for testers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import quote

from attrs import frozen

from staffbooking_core.domain.accounts.users import Role, Subscription, User
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import sandbox

BAR_COOKIE = "demo-bar"
HIDDEN = "hidden"

_ACCOUNTS_PERIOD = timedelta(seconds=20)
_PATHS_WITHOUT_STORE = ("/static/", "/docs")
_PATHS_OF_TESTERS = "/sandbox/"
_BOOKING_PATH = re.compile(r"/bookings/[0-9]+/")


@frozen
class TesterAccount:
    """An account of the sample, as the bar names it."""

    id: int
    name: str
    kind: str
    """One of `_KIND_LABELS`."""


@frozen
class DemoBar:
    """What the bar shows."""

    accounts: Sequence[TesterAccount]
    now: datetime | None
    """The time of the service's clock; None on pages that do not ask the store."""
    is_hidden: bool
    way: str
    """Where a sign-in leads: to the booking that is looked at, else home."""


class DemoBars:
    """Makes the bars of a sandbox. The accounts are read every few seconds, the clock for each page
    of a sandbox that has a sample."""

    __slots__ = ("_accounts", "_ports", "_read_at")

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._accounts: Sequence[TesterAccount] = ()
        self._read_at: datetime | None = None

    async def make(self, path: str, cookies: bytes) -> DemoBar | None:
        """The bar of a page; None without a sample, and where the store fails."""
        asks_store = not path.startswith(_PATHS_WITHOUT_STORE)
        now = None
        try:
            if asks_store:
                await self._read_accounts()
                now = await self._ports.clock.business() if self._accounts else None
        except StoreUnavailable:  # The page itself meets the error, and tells of it.
            return None
        if not self._accounts:
            return None
        is_hidden = f"{BAR_COOKIE}={HIDDEN}".encode() in cookies
        return DemoBar(
            accounts=self._accounts,
            now=now,
            is_hidden=is_hidden and not path.startswith(_PATHS_OF_TESTERS),
            way=quote(f"{found[0]}return") if (found := _BOOKING_PATH.match(path)) else "",
        )

    async def _read_accounts(self) -> None:
        now = self._ports.clock.wall()
        if self._read_at is None or abs(now - self._read_at) >= _ACCOUNTS_PERIOD:
            users = await sandbox.list_sample_accounts(self._ports)
            accounts = [TesterAccount(user.id, user.name, _kind(user)) for user in users]
            self._accounts = sorted(accounts, key=lambda account: _KIND_LABELS.index(account.kind))
            self._read_at = now


def _kind(user: User) -> str:
    if user.subscription is not Subscription.NONE:
        return "subscriber"
    return _KINDS[user.role]


_KIND_LABELS = ("customer", "staff", "subscriber", "operator")
"""What the accounts are, in their order, as message ids."""
_KINDS = {Role.CUSTOMER: "customer", Role.STAFF: "staff", Role.ADMIN: "operator"}
