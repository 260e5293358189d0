"""Stored responses of calls with an idempotency key in memory."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from staffbooking_adapters.memory.state import (
    MemoryTransaction,
    StoredResponseRow,
    holds_lease,
    is_lease_active,
)
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import IDEMPOTENCY_KEY_TAKEN, IN_PROGRESS, Lease, StoredResponse


def store_response(tx: MemoryTransaction, response: StoredResponse) -> None:
    """Store a response. Raises ConstraintViolated if its key has an unexpired response."""
    rows, name = tx.state.stored_responses, (response.scope, response.key)
    made_at = response.expires_at - tx.policy.idempotency_lifetime
    if (stored := rows.get(name)) and made_at < stored.response.expires_at:
        raise ConstraintViolated(IDEMPOTENCY_KEY_TAKEN)
    rows[name] = StoredResponseRow(response)


@frozen
class IdempotencyReader:
    """Reads stored responses."""

    tx: MemoryTransaction

    async def stored_response(self, scope: str, key: str, now: datetime) -> StoredResponse | None:
        row = self.tx.state.stored_responses.get((scope, key))
        return row.response if row is not None and now < row.response.expires_at else None


@frozen
class IdempotencyWriter(IdempotencyReader):
    """Reads and writes stored responses."""

    async def save_response(self, response: StoredResponse) -> None:
        store_response(self.tx, response)

    async def claim_key(self, claim: StoredResponse, lease: Lease, now: datetime) -> bool:
        name, rows = (claim.scope, claim.key), self.tx.state.stored_responses
        row = rows.get(name)
        if row is not None and now < row.response.expires_at:
            is_abandoned = row.response.status == IN_PROGRESS and not is_lease_active(
                row.lease, now
            )
            if not is_abandoned or row.response.fingerprint != claim.fingerprint:
                return False
        rows[name] = StoredResponseRow(claim, lease)
        return True

    async def finish_call(self, response: StoredResponse, lease: Lease) -> bool:
        if not self._is_held(response.scope, response.key, lease):
            return False
        self.tx.state.stored_responses[response.scope, response.key] = StoredResponseRow(response)
        return True

    async def release_key(self, scope: str, key: str, lease: Lease) -> None:
        if self._is_held(scope, key, lease):
            self.tx.state.stored_responses.discard((scope, key))

    def _is_held(self, scope: str, key: str, lease: Lease) -> bool:
        row = self.tx.state.stored_responses.get((scope, key))
        return row is not None and holds_lease(row.lease, lease)
