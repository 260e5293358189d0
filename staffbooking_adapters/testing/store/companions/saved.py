"""Contract of the stores: saved people."""

from __future__ import annotations

from datetime import timedelta

from attrs import evolve

from staffbooking_adapters.testing.builders import NOW, add_companion, add_user
from staffbooking_adapters.testing.store.base import StoreContract, read_store

LATER = NOW + timedelta(microseconds=1)


async def save(store, customer, companion, at=NOW):
    await store.run_transaction(lambda tx: tx.saved.save_person(customer.id, companion.id, at))


async def unsave(store, customer, companion):
    await store.run_transaction(lambda tx: tx.saved.unsave_person(customer.id, companion.id))


async def listed(store, customer, limit=10, offset=0):
    return list(
        await read_store(store, lambda view: view.saved.saved_people(customer.id, limit, offset))
    )


class SavedContract(StoreContract):
    """Saved people."""

    async def test_saved_people_are_listed_newest_first(self, store) -> None:
        """The list is of one customer alone, newest first, in pages; its rows have the summary."""
        ada, bea = await add_user(store), await add_user(store)
        people = [await add_companion(store) for _ in range(3)]
        for companion, at in zip(people, (NOW, LATER, NOW), strict=True):
            await save(store, ada, companion, at)
        await save(store, bea, people[0])
        ids = [people[1].id, people[2].id, people[0].id]
        found = await listed(store, ada)
        assert [each.companion_id for each in found] == ids
        assert [each.saved_at for each in found] == [LATER, NOW, NOW]
        assert all(each.summary for each in found)
        assert [each.companion_id for each in await listed(store, ada, 1, 1)] == ids[1:2]
        assert [each.companion_id for each in await listed(store, bea)] == ids[2:]

    async def test_a_person_is_saved_once(self, store) -> None:
        """Saving again keeps the first time; unsaving takes the person off the list, and again
        changes nothing."""
        ada, companion = await add_user(store), await add_companion(store)
        await save(store, ada, companion)
        await save(store, ada, companion, LATER)
        [found] = await listed(store, ada)
        assert found.saved_at == NOW
        for _ in range(2):
            assert await read_store(
                store, lambda view: view.saved.has_saved(ada.id, companion.id)
            ) == (bool(await listed(store, ada)))
            await unsave(store, ada, companion)
        assert await listed(store, ada) == []

    async def test_who_is_not_listed_has_no_summary(self, store) -> None:
        """Saved people who are not listed any more stay on the list, without their profile."""
        ada, companion = await add_user(store), await add_companion(store)
        await save(store, ada, companion)
        await store.run_transaction(
            lambda tx: tx.companions.save_companion(evolve(companion, active=False))
        )
        [found] = await listed(store, ada)
        assert (found.companion_id, found.summary) == (companion.id, None)
