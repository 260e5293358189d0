"""The stub as a test holds it: where it is, and what the world around it does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from attrs import evolve

from tests.stripe_stub import accounts, checkout, disputes, refunds
from tests.stripe_stub.events import SNAPSHOT_SECRET, THIN_SECRET, Delivery
from tests.stripe_stub.faults import REFUND_FATES, Break, Fault
from tests.stripe_stub.pipeline import API_KEY, RESTRICTED_KEY, Gate, Seen
from tests.stripe_stub.server import Server, serve
from tests.stripe_stub.state import Books, Doc, Terms


class Stub:
    """A Stripe of its own; nothing is shared between two of them."""

    api_key = API_KEY
    restricted_key = RESTRICTED_KEY
    """A key that may do nothing: 403."""
    secrets = (SNAPSHOT_SECRET, THIN_SECRET)
    """Of the account's own events, and of the thin events of connected accounts."""

    def __init__(self, server: Server, gate: Gate) -> None:
        self.url = server.url
        self._server = server
        self._gate = gate
        self._books = gate.books

    # The client and the bank ----------------------------------------------------------------

    def pay(self, session_id: str, amount: int | None = None) -> None:
        """The client pays; nothing happens on a page that is not open.

        `amount` is for the strange fact of another amount than was asked for.
        """
        checkout.pay(self._now(), session_id, amount)

    def decline(self, session_id: str) -> None:
        """The client's card is declined, the page stays open."""
        checkout.decline(self._now(), session_id)

    def charge_back(self, payment: str | int, outcome: str) -> Doc:
        """The bank takes a payment back or decides, see `disputes.charge_back`."""
        return disputes.charge_back(self._now(), payment, outcome)

    # Our people in the Dashboard --------------------------------------------------------------

    def refund_by_hand(self, payment_intent: str, amount: int | None = None) -> Doc:
        """A refund that bears none of our metadata; without an amount, of all that is left."""
        given: dict[str, Any] = {"payment_intent": payment_intent}
        return refunds.refund(self._now(), given | ({} if amount is None else {"amount": amount}))

    def set_settings(self, **changes: Any) -> None:
        """Set the account up in another way, see `Settings`."""
        self._books.settings = evolve(self._books.settings, **changes)

    # The payees ---------------------------------------------------------------------------------

    def set_payee_ready(self, account: str, ready: bool = True) -> None:
        """The payee can (not) receive transfers from now on."""
        accounts.set_ready(self._now(), account, ready)

    def drain_connected_balance(self, account: str) -> None:
        """The payee's money goes to the payee's bank, so nothing can be taken back."""
        for each in [*self._books.connected]:
            if each[0] == account:
                self._books.connected[each] = 0

    # The network --------------------------------------------------------------------------------

    def break_next(self, op: str, kind: str, times: int = 1, seconds: float = 0.05) -> None:
        """The next calls go wrong.

        `op`: open_checkout, close_checkout, refund, pay_out, reverse_payout, open_payee, look
        (any GET) or any. `kind`: a `Fault`, "refuse:<Stripe's code>", or for refunds
        pending_then_settled and pending_then_failed, which end a minute later. `seconds` is
        the real time that `slow` takes, if nobody says `hurry`.
        """
        if kind in REFUND_FATES:
            self._books.refund_fates += [kind] * times
            return
        fault, _, code = kind.partition(":")
        self._gate.faults.order(op, Break(Fault(fault), code, seconds), times)

    def hurry(self) -> None:
        """Send all slow answers now."""
        self._server.hurry()

    def fault_rate(self, seed: int, rate: float) -> None:
        """From now on so many of the POSTs go wrong, by chance but the same for a seed."""
        self._gate.faults.by_chance(seed, rate)

    def deliver(self, how: Delivery, delay: timedelta = timedelta(minutes=10)) -> None:
        """How events that are made from now on come in."""
        self._books.mail.delivery = how
        self._books.mail.delay = delay

    def events(self) -> list[tuple[dict[str, str], bytes]]:
        """The headers and bodies of the events that came in since this was asked last."""
        return self._now().mail.due()

    # Looking into the books -----------------------------------------------------------------------

    def balance(self, currency: str = "usd") -> int:
        """The platform's money in minor units, pending or not."""
        return self._now().balance[currency]

    def connected_balance(self, account: str, currency: str = "usd") -> int:
        return self._now().connected[account, currency]

    def objects(self, kind: str) -> list[Doc]:
        """All objects of a kind ("refund", "checkout.session", …), the oldest first."""
        return self._now().all(kind)[::-1]

    @property
    def seen(self) -> list[Seen]:
        """The requests that came to an endpoint, the oldest first."""
        return self._gate.seen

    def _now(self) -> Books:
        """The books as they are at this time."""
        self._books.catch_up()
        return self._books


@asynccontextmanager
async def open_stub(
    now: Callable[[], datetime], *, terms: Terms | None = None, seed: int = 0
) -> AsyncIterator[Stub]:
    """A stub on a free port of loopback until the block ends.

    Raises what the stub itself did wrong meanwhile, such as an answer that the SDK's types
    do not allow.
    """
    gate = Gate(Books(now, terms or Terms(), seed))
    async with serve(gate.answer) as server:
        yield Stub(server, gate)
    if gate.bugs:
        raise ExceptionGroup("the stub of Stripe is wrong", gate.bugs)
