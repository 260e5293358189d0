"""The stub's interface for tests: its address, and the actions of the outside world."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from attrs import evolve

from tests.stripe_stub import accounts, checkout, disputes, refunds
from tests.stripe_stub.events import SNAPSHOT_SECRET, THIN_SECRET, EventDeliveryMode
from tests.stripe_stub.faults import REFUND_OUTCOMES, InjectedStubFault, StubFault
from tests.stripe_stub.pipeline import API_KEY, RESTRICTED_KEY, ReceivedCall, RequestPipeline
from tests.stripe_stub.server import StubServer, run_server
from tests.stripe_stub.state import PricingTerms, StripeObjectData, StripeState


class StripeStub:
    """One stub with its own state."""

    api_key = API_KEY
    restricted_key = RESTRICTED_KEY
    """A key without permissions; every call with it is answered 403."""
    secrets = (SNAPSHOT_SECRET, THIN_SECRET)
    """The signing secrets of the account's own events and of thin events."""

    def __init__(self, server: StubServer, pipeline: RequestPipeline) -> None:
        self.url = server.url
        self._server = server
        self._pipeline = pipeline
        self._state = pipeline.state

    # The client and the bank ----------------------------------------------------------------

    def pay(self, session_id: str, amount: int | None = None) -> None:
        """Pay a session; a session that is not open is unchanged.

        `amount` replaces the requested amount.
        """
        checkout.pay_session(self._current_state(), session_id, amount)

    def decline(self, session_id: str) -> None:
        """Decline the client's card; the session stays open."""
        checkout.decline_session(self._current_state(), session_id)

    def charge_back(self, payment: str | int, outcome: str) -> StripeObjectData:
        """Open or decide a dispute, see `disputes.open_or_decide_dispute`."""
        return disputes.open_or_decide_dispute(self._current_state(), payment, outcome)

    # Operators in the Dashboard --------------------------------------------------------------

    def refund_by_hand(self, payment_intent: str, amount: int | None = None) -> StripeObjectData:
        """Refund without our metadata; without an amount, all that is left."""
        given: dict[str, Any] = {"payment_intent": payment_intent}
        return refunds.make_refund(
            self._current_state(), given | ({} if amount is None else {"amount": amount})
        )

    def set_settings(self, **changes: Any) -> None:
        """Change the platform's account, see `AccountSettings`."""
        self._state.settings = evolve(self._state.settings, **changes)

    # The payees ---------------------------------------------------------------------------------

    def set_payee_ready(self, account: str, ready: bool = True) -> None:
        """Set whether the payee can receive transfers from now on."""
        accounts.set_ready(self._current_state(), account, ready)

    def drain_connected_balance(self, account: str) -> None:
        """Move the payee's balances to the payee's bank, so that no transfer can be reversed."""
        for each in [*self._state.connected_balances]:
            if each[0] == account:
                self._state.connected_balances[each] = 0

    # The network --------------------------------------------------------------------------------

    def inject_fault(self, op: str, kind: str, times: int = 1, seconds: float = 0.05) -> None:
        """Add a fault to the next calls.

        `op`: open_checkout, close_checkout, refund, pay_out, reverse_payout, open_payee, read
        (any GET) or any. `kind`: a `StubFault`, "refuse:<Stripe's code>", or for refunds
        pending_then_settled and pending_then_failed, which end a minute later. `seconds` is
        the real time that `slow` takes without `flush_delayed_responses`.
        """
        if kind in REFUND_OUTCOMES:
            self._state.next_refund_outcomes += [kind] * times
            return
        fault, _, code = kind.partition(":")
        self._pipeline.faults.inject(op, InjectedStubFault(StubFault(fault), code, seconds), times)

    def flush_delayed_responses(self) -> None:
        """Send all slow answers now."""
        self._server.flush_delayed()

    def set_fault_rate(self, seed: int, rate: float) -> None:
        """Add random faults to this share of the POSTs from now on; the seed determines them."""
        self._pipeline.faults.inject_randomly(seed, rate)

    def set_event_delivery(
        self, how: EventDeliveryMode, delay: timedelta = timedelta(minutes=10)
    ) -> None:
        """Set how events created from now on are delivered."""
        self._state.events.delivery = how
        self._state.events.delay = delay

    def events(self) -> list[tuple[dict[str, str], bytes]]:
        """Take the headers and bodies of the events that are due."""
        return self._current_state().events.take_due()

    # The state ------------------------------------------------------------------------------------

    def balance(self, currency: str = "usd") -> int:
        """The platform's balance in minor units, pending amounts included."""
        return self._current_state().balance[currency]

    def connected_balance(self, account: str, currency: str = "usd") -> int:
        return self._current_state().connected_balances[account, currency]

    def objects(self, kind: str) -> list[StripeObjectData]:
        """All objects of a kind ("refund", "checkout.session", …), oldest first."""
        return self._current_state().list_objects(kind)[::-1]

    @property
    def received_calls(self) -> list[ReceivedCall]:
        """The received requests to known endpoints, oldest first."""
        return self._pipeline.received_calls

    def _current_state(self) -> StripeState:
        """The state after all due changes."""
        self._state.run_due()
        return self._state


@asynccontextmanager
async def open_stub(
    now: Callable[[], datetime], *, terms: PricingTerms | None = None, seed: int = 0
) -> AsyncIterator[StripeStub]:
    """Run a stub on a free port of loopback until the block ends.

    The end of the block raises the errors of the stub itself, such as an answer that does not
    fit the SDK's types.
    """
    pipeline = RequestPipeline(StripeState(now, terms or PricingTerms(), seed))
    async with run_server(pipeline.handle) as server:
        yield StripeStub(server, pipeline)
    if pipeline.bugs:
        raise ExceptionGroup("the stub of Stripe is wrong", pipeline.bugs)
