"""The stub as a test holds it: where it is, and what the world around it does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from attrs import evolve

from tests.stripe_stub import accounts, checkout, disputes, refunds
from tests.stripe_stub.events import SNAPSHOT_SECRET, THIN_SECRET, EventDeliveryMode
from tests.stripe_stub.faults import REFUND_FATES, InjectedStubFault, StubFault
from tests.stripe_stub.pipeline import API_KEY, RESTRICTED_KEY, ReceivedCall, RequestPipeline
from tests.stripe_stub.server import StubServer, run_server
from tests.stripe_stub.state import PricingTerms, StripeObjectData, StripeState


class StripeStub:
    """A Stripe of its own; nothing is shared between two of them."""

    api_key = API_KEY
    restricted_key = RESTRICTED_KEY
    """A key that may do nothing: 403."""
    secrets = (SNAPSHOT_SECRET, THIN_SECRET)
    """Of the account's own events, and of the thin events of connected accounts."""

    def __init__(self, server: StubServer, gate: RequestPipeline) -> None:
        self.url = server.url
        self._server = server
        self._pipeline = gate
        self._state = gate.state

    # The client and the bank ----------------------------------------------------------------

    def pay(self, session_id: str, amount: int | None = None) -> None:
        """The client pays; nothing happens on a page that is not open.

        `amount` is for the strange fact of another amount than was asked for.
        """
        checkout.pay_session(self._current_state(), session_id, amount)

    def decline(self, session_id: str) -> None:
        """The client's card is declined, the page stays open."""
        checkout.decline_session(self._current_state(), session_id)

    def charge_back(self, payment: str | int, outcome: str) -> StripeObjectData:
        """The bank takes a payment back or decides, see `disputes.charge_back`."""
        return disputes.open_or_decide_dispute(self._current_state(), payment, outcome)

    # Our people in the Dashboard --------------------------------------------------------------

    def refund_by_hand(self, payment_intent: str, amount: int | None = None) -> StripeObjectData:
        """A refund that bears none of our metadata; without an amount, of all that is left."""
        given: dict[str, Any] = {"payment_intent": payment_intent}
        return refunds.make_refund(
            self._current_state(), given | ({} if amount is None else {"amount": amount})
        )

    def set_settings(self, **changes: Any) -> None:
        """Set the account up in another way, see `Settings`."""
        self._state.settings = evolve(self._state.settings, **changes)

    # The payees ---------------------------------------------------------------------------------

    def set_payee_ready(self, account: str, ready: bool = True) -> None:
        """The payee can (not) receive transfers from now on."""
        accounts.set_ready(self._current_state(), account, ready)

    def drain_connected_balance(self, account: str) -> None:
        """The payee's money goes to the payee's bank, so nothing can be taken back."""
        for each in [*self._state.connected_balances]:
            if each[0] == account:
                self._state.connected_balances[each] = 0

    # The network --------------------------------------------------------------------------------

    def inject_fault(self, op: str, kind: str, times: int = 1, seconds: float = 0.05) -> None:
        """The next calls go wrong.

        `op`: open_checkout, close_checkout, refund, pay_out, reverse_payout, open_payee, look
        (any GET) or any. `kind`: a `Fault`, "refuse:<Stripe's code>", or for refunds
        pending_then_settled and pending_then_failed, which end a minute later. `seconds` is
        the real time that `slow` takes, if nobody says `hurry`.
        """
        if kind in REFUND_FATES:
            self._state.next_refund_outcomes += [kind] * times
            return
        fault, _, code = kind.partition(":")
        self._pipeline.faults.inject(op, InjectedStubFault(StubFault(fault), code, seconds), times)

    def flush_delayed_responses(self) -> None:
        """Send all slow answers now."""
        self._server.flush_delayed()

    def set_fault_rate(self, seed: int, rate: float) -> None:
        """From now on so many of the POSTs go wrong, by chance but the same for a seed."""
        self._pipeline.faults.inject_randomly(seed, rate)

    def set_event_delivery(
        self, how: EventDeliveryMode, delay: timedelta = timedelta(minutes=10)
    ) -> None:
        """How events that are made from now on come in."""
        self._state.events.delivery = how
        self._state.events.delay = delay

    def events(self) -> list[tuple[dict[str, str], bytes]]:
        """The headers and bodies of the events that came in since this was asked last."""
        return self._current_state().events.take_due()

    # Looking into the books -----------------------------------------------------------------------

    def balance(self, currency: str = "usd") -> int:
        """The platform's money in minor units, pending or not."""
        return self._current_state().balance[currency]

    def connected_balance(self, account: str, currency: str = "usd") -> int:
        return self._current_state().connected_balances[account, currency]

    def objects(self, kind: str) -> list[StripeObjectData]:
        """All objects of a kind ("refund", "checkout.session", …), the oldest first."""
        return self._current_state().list_objects(kind)[::-1]

    @property
    def received_calls(self) -> list[ReceivedCall]:
        """The requests that came to an endpoint, the oldest first."""
        return self._pipeline.received_calls

    def _current_state(self) -> StripeState:
        """The books as they are at this time."""
        self._state.run_due()
        return self._state


@asynccontextmanager
async def open_stub(
    now: Callable[[], datetime], *, terms: PricingTerms | None = None, seed: int = 0
) -> AsyncIterator[StripeStub]:
    """A stub on a free port of loopback until the block ends.

    Raises what the stub itself did wrong meanwhile, such as an answer that the SDK's types
    do not allow.
    """
    gate = RequestPipeline(StripeState(now, terms or PricingTerms(), seed))
    async with run_server(gate.handle) as server:
        yield StripeStub(server, gate)
    if gate.bugs:
        raise ExceptionGroup("the stub of Stripe is wrong", gate.bugs)
