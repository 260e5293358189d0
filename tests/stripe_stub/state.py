"""The state of the stub: objects, balances, scheduled changes and queued events."""

from __future__ import annotations

import random
import string
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Any

from attrs import frozen

from tests.stripe_stub.errors import StripeApiError, resource_missing_error
from tests.stripe_stub.events import EventQueue
from tests.stripe_stub.settings import AccountSettings

StripeObjectData = dict[str, Any]


@frozen
class PricingTerms:
    """Stripe's fees in basis points and minor units, and its settlement periods."""

    fee_rate: int = 290
    fee_fixed: int = 30
    dispute_fee: int = 1_500
    funds_available_after: timedelta = timedelta(days=2)
    refunds_settle_after: timedelta = timedelta(seconds=60)

    def fee(self, amount: int) -> int:
        return (amount * self.fee_rate + 5_000) // 10_000 + self.fee_fixed


class StripeState:
    """Objects are stored as JSON documents, with ids as references to other objects."""

    def __init__(self, now: Callable[[], datetime], terms: PricingTerms, seed: int = 0) -> None:
        self.now = now
        self.terms = terms
        self.events = EventQueue(now)
        self.balance: defaultdict[str, int] = defaultdict(int)
        """The platform's balance, pending amounts included, by currency."""
        self.connected_balances: defaultdict[tuple[str, str], int] = defaultdict(int)
        """The payees' balances by account and currency."""
        self.settings = AccountSettings()
        self.intent_data: dict[str, StripeObjectData] = {}
        """Parameters of the future payment intent of a session, by the session's id."""
        self.next_refund_outcomes: list[str] = []
        """Outcomes of the next refunds; without one a refund succeeds at once."""
        self._objects: defaultdict[str, dict[str, StripeObjectData]] = defaultdict(dict)
        self._scheduled: list[tuple[datetime, int, Callable[[], None]]] = []
        self._sequence = count()
        self._random = random.Random(seed)

    # Time -------------------------------------------------------------------------------

    def timestamp(self) -> int:
        return int(self.now().timestamp())

    def schedule(self, at: datetime, act: Callable[[], None]) -> None:
        """Call `act` in the first `run_due` at or after `at`."""
        heappush(self._scheduled, (at, next(self._sequence), act))

    def run_due(self) -> None:
        """Make the scheduled changes that are due."""
        while self._scheduled and self._scheduled[0][0] <= self.now():
            heappop(self._scheduled)[2]()

    # Objects ----------------------------------------------------------------------------

    def new_id(self, prefix: str, length: int = 24) -> str:
        letters = string.ascii_letters + string.digits
        return prefix + "".join(self._random.choices(letters, k=length))

    def add(self, document: StripeObjectData) -> StripeObjectData:
        self._objects[document["object"]][document["id"]] = document
        return document

    def find(
        self, kind: str, reference: str, param: str = "id", status: int = 400
    ) -> StripeObjectData:
        """The object with an id. Raises StripeApiError (`resource_missing`)."""
        found = self._objects[kind].get(reference)
        if found is None:
            raise resource_missing_error(kind, reference, param, status)
        return found

    def find_by_path(self, kind: str, reference: str) -> StripeObjectData:
        """The object with an id from a path. Raises StripeApiError with status 404."""
        return self.find(kind, reference, status=404)

    def list_objects(self, kind: str) -> list[StripeObjectData]:
        """All objects of a kind, newest first."""
        return [*reversed(self._objects[kind].values())]

    def find_any(self, reference: str) -> StripeObjectData | None:
        """The object of any kind with an id."""
        for objects in self._objects.values():
            if reference in objects:
                return objects[reference]
        return None

    def emit_event(self, kind: str, document: StripeObjectData) -> None:
        """Store and queue an event with the object's current fields."""
        event = self.events.send_snapshot_event(
            kind, document, self.new_id("evt_"), self.timestamp()
        )
        self.add(event)

    # Money ------------------------------------------------------------------------------

    def add_balance_transaction(
        self,
        kind: str,
        source: StripeObjectData,
        amount: int,
        *,
        fee: int = 0,
        category: str | None = None,
    ) -> StripeObjectData:
        """Change the platform's balance and store the balance transaction.

        The money of a charge is pending for `funds_available_after`.
        """
        after = self.terms.funds_available_after if kind == "charge" else timedelta()
        available = self.now() + after
        moved = self.add(
            {
                "id": self.new_id("txn_"),
                "object": "balance_transaction",
                "amount": amount,
                "available_on": int(available.timestamp()),
                "balance_type": "payments",
                "created": self.timestamp(),
                "currency": source["currency"],
                "description": source.get("description"),
                "exchange_rate": None,
                "fee": fee,
                "fee_details": self._fee_details(fee, source["currency"]),
                "net": amount - fee,
                "reporting_category": category or kind,
                "source": source["id"],
                "status": "pending" if after else "available",
                "type": kind,
            }
        )
        self.balance[source["currency"]] += amount - fee
        if after:
            self.schedule(available, lambda: moved.update(status="available"))
        return moved

    def available_balance(self, currency: str) -> int:
        """The platform's balance without pending amounts."""
        return sum(
            each["net"]
            for each in self.list_objects("balance_transaction")
            if each["currency"] == currency and each["status"] == "available"
        )

    @staticmethod
    def _fee_details(fee: int, currency: str) -> list[StripeObjectData]:
        if not fee:
            return []
        detail = {"amount": fee, "currency": currency, "type": "stripe_fee"}
        return [{**detail, "application": None, "description": "Stripe processing fees"}]


def check_metadata(metadata: dict[str, str]) -> dict[str, str]:
    """Validate metadata: at most 50 keys of up to 40 characters with values of up to 500."""
    if len(metadata) > 50:
        raise StripeApiError("Metadata can have up to 50 keys", param="metadata")
    for key, value in metadata.items():
        if len(key) > 40 or len(value) > 500:
            raise StripeApiError(
                "Metadata keys have up to 40 characters, values up to 500",
                param=f"metadata[{key}]",
            )
    return metadata


def check_amount(amount: int) -> int:
    if amount < 1:
        raise StripeApiError(
            "This value must be greater than or equal to 1.",
            code="parameter_invalid_integer",
            param="amount",
        )
    return amount
