"""Stored responses of calls with an idempotency key in memory."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from staffbooking_adapters.memory.state import MemoryTransaction
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import IDEMPOTENCY_KEY_TAKEN, StoredResponse


def store_response(tx: MemoryTransaction, response: StoredResponse) -> None:
    """Store a response. Raises ConstraintViolated if its key has an unexpired response."""
    answers, name = tx.state.stored_responses, (response.scope, response.key)
    made_at = response.expires_at - tx.policy.idempotency_lifetime
    if (stored := answers.get(name)) and made_at < stored.expires_at:
        raise ConstraintViolated(IDEMPOTENCY_KEY_TAKEN)
    answers[name] = response


@frozen
class IdempotencyReader:
    """Reads stored responses."""

    tx: MemoryTransaction

    async def stored_response(self, scope: str, key: str, now: datetime) -> StoredResponse | None:
        kept = self.tx.state.stored_responses.get((scope, key))
        return kept if kept is not None and now < kept.expires_at else None


@frozen
class IdempotencyWriter(IdempotencyReader):
    """Reads and writes stored responses."""

    async def save_response(self, response: StoredResponse) -> None:
        store_response(self.tx, response)
