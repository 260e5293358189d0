"""The payee accounts of the fake processor in its document store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from attrs import frozen

from staffbooking_adapters.fake import documents
from staffbooking_adapters.fake.documents import (
    FakeDocumentStore,
    FakeStoreReader,
    FakeStoreTransaction,
)
from staffbooking_adapters.fake.payees import FakePayee


@frozen
class PayeeAccounts:
    """Finds and changes payee accounts.

    Without `is_manual` a companion can be paid without an account; with it only after the
    account was opened and completed.
    """

    store: FakeDocumentStore
    is_manual: bool

    async def get(self, view: FakeStoreReader, companion_id: int) -> FakePayee:
        """The companion's payee; its reference is empty if no account was opened."""
        found = await documents.find_payee(view, companion_id)
        return found or FakePayee(companion_id, ready=not self.is_manual)

    async def find(self, ref: str) -> FakePayee | None:
        """The payee with this reference; None if there is none."""

        async def look(view: FakeStoreReader) -> FakePayee | None:
            companion_id = await documents.find_companion_by_payee_ref(view, ref)
            return None if companion_id is None else await self.get(view, companion_id)

        return await self.store.read(look)

    async def change(
        self, companion_id: int, now: datetime, change: Callable[[FakePayee], FakePayee]
    ) -> FakePayee:
        """Change a companion's payee in its own transaction and return the changed payee."""

        async def unit(tx: FakeStoreTransaction) -> FakePayee:
            await tx.lock(documents.payee_lock_name(companion_id))
            before = await self.get(tx, companion_id)
            changed = change(before)
            await documents.save_payee(tx, before, changed, now)
            return changed

        return await self.store.transact(unit)

    async def change_by_ref(
        self, ref: str, now: datetime, change: Callable[[FakePayee], FakePayee]
    ) -> FakePayee | None:
        """Change the payee with this reference; None if there is none."""
        found = await self.store.read(lambda view: documents.find_companion_by_payee_ref(view, ref))
        return None if found is None else await self.change(found, now, change)
