"""Contract of the stores: portfolios of companions."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from attrs import asdict, evolve

from staffbooking_adapters.testing.builders import NOW, add_companion
from staffbooking_adapters.testing.builders_portfolio import (
    add_portfolio_item,
    make_new_portfolio_item,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItem, PortfolioItemStatus

FINE = NOW + timedelta(microseconds=123_456)
APPROVED, REJECTED = PortfolioItemStatus.APPROVED, PortfolioItemStatus.REJECTED


async def add(store, companion, **given):
    return await add_portfolio_item(store, companion.id, **given)


async def find(store, item_id):
    return await read_store(store, lambda view: view.portfolio.portfolio_item(item_id))


async def of(store, companion):
    return list(
        await read_store(store, lambda view: view.portfolio.portfolio_items_of(companion.id))
    )


async def page(store, status=None, after=0, limit=10):
    return list(
        await read_store(store, lambda view: view.portfolio.portfolio_items(status, after, limit))
    )


async def save(store, item):
    """Save an item as the port requires: lock its companion before, and save it after."""

    async def unit(tx):
        companion = await tx.companions.lock_companion(item.companion_id)
        await tx.portfolio.save_portfolio_item(item)
        await tx.companions.save_companion(companion)

    await store.run_transaction(unit)


async def remove(store, item):
    async def unit(tx):
        companion = await tx.companions.lock_companion(item.companion_id)
        await tx.portfolio.remove_portfolio_item(item.id)
        await tx.companions.save_companion(companion)

    await store.run_transaction(unit)


async def detail(store, companion):
    """The titles of the items in the stored detail."""
    found = json.loads(await read_store(store, lambda view: view.companions.detail(companion.id)))
    return [item["title"] for item in found["companion"]["portfolio"]]


class PortfolioContract(StoreContract):
    """Portfolios of companions."""

    async def test_an_item_is_stored_as_added(self, store):
        """An item is stored with every field, times to the microsecond."""
        companion = await add_companion(store)
        new = make_new_portfolio_item(
            companion.id,
            title="Bälle & \N{GRINNING FACE}",
            image="photos/1.webp",
            description="One\n\ttwo 'three' \"four\"",
            created_at=FINE,
            status=REJECTED,
        )
        added = await add_portfolio_item(store, **asdict(new, recurse=False))
        assert added == PortfolioItem(id=added.id, **asdict(new, recurse=False))
        assert await find(store, added.id) == added

    async def test_an_unknown_item_is_none(self, store):
        """An unknown item is None, and saving or removing it does nothing."""
        item = await add(store, await add_companion(store))
        unknown = evolve(item, id=item.id + 1)
        await save(store, unknown)
        await remove(store, unknown)
        assert await find(store, unknown.id) is None
        assert await find(store, item.id) == item

    async def test_a_portfolio_lists_one_companions_items_newest_first(self, store):
        """A portfolio lists its companion's items by descending insertion order."""
        first, second = await add_companion(store), await add_companion(store)
        old = await add(store, first, created_at=NOW)
        await add(store, second)
        new = await add(store, first, created_at=NOW - timedelta(days=1))
        assert await of(store, first) == [new, old]
        assert [item.companion_id for item in await of(store, second)] == [second.id]
        assert await of(store, evolve(first, id=999)) == []

    async def test_items_are_paged_by_id_and_status(self, store):
        """Items are paged by id and status, up to the limit."""
        companion = await add_companion(store)
        items = [
            await add(store, companion, status=status)
            for status in (*PortfolioItemStatus, APPROVED)
        ]
        assert await page(store) == items
        assert await page(store, after=items[0].id, limit=2) == items[1:3]
        assert await page(store, APPROVED) == [items[1], items[3]]
        assert await page(store, APPROVED, after=items[1].id) == [items[3]]
        assert await page(store, APPROVED, limit=1) == [items[1]]
        assert await page(store, after=items[3].id) == []

    async def test_saving_replaces_an_item(self, store):
        """Saving an item changes all of its fields and no other item."""
        companion = await add_companion(store)
        item, other = await add(store, companion), await add(store, companion)
        changed = evolve(
            item,
            title="A fair",
            image="photos/2.png",
            description="",
            status=APPROVED,
            created_at=FINE,
        )
        await save(store, changed)
        assert await of(store, companion) == [other, changed]

    async def test_a_removed_item_is_gone(self, store):
        """Removing an item removes it alone, and its id is not reused."""
        companion = await add_companion(store)
        kept, gone = await add(store, companion), await add(store, companion)
        await remove(store, gone)
        assert await of(store, companion) == [kept]
        assert (await add(store, companion)).id != gone.id

    async def test_the_detail_shows_only_approved_items(self, store):
        """The detail shows only approved items, newest first, after each save of the companion."""
        companion = await add_companion(store)
        items = [await add(store, companion, title=title) for title in ("a", "b", "c")]
        assert await detail(store, companion) == []
        for item in items:
            await save(store, evolve(item, status=APPROVED))
        assert await detail(store, companion) == ["c", "b", "a"]
        await save(store, evolve(items[1], status=REJECTED))
        await remove(store, items[2])
        assert await detail(store, companion) == ["a"]

    async def test_the_detail_keeps_its_items(self, store):
        """The detail keeps its items when the companion changes."""
        companion = await add_companion(store)
        await add(store, companion, title="a", status=APPROVED)
        for approval in (Approval.SUSPENDED, Approval.APPROVED):
            changed = evolve(companion, approval=approval, tagline="Calm")
            await store.run_transaction(
                lambda tx, saved=changed: tx.companions.save_companion(saved)
            )
        assert await detail(store, companion) == ["a"]

    async def test_a_rollback_changes_no_portfolio(self, store):
        """A rolled-back transaction changes no portfolio."""
        companion = await add_companion(store)
        item, other = await add(store, companion), await add(store, companion)

        async def unit(tx):
            await tx.portfolio.add_portfolio_item(make_new_portfolio_item(companion.id))
            await tx.portfolio.save_portfolio_item(evolve(item, status=APPROVED))
            await tx.portfolio.remove_portfolio_item(other.id)
            raise LookupError

        with pytest.raises(LookupError):
            await store.run_transaction(unit)
        assert await of(store, companion) == [other, item]

    async def test_items_are_in_their_order(self, store):
        """Items are listed by position, then the newest first; the public detail has the same
        order."""
        companion = await add_companion(store, approval=Approval.APPROVED)
        made = [await add(store, companion, status=APPROVED) for _ in range(3)]
        await save(store, evolve(made[2], position=2))
        await save(store, evolve(made[0], position=1, rejection="Blurred"))
        assert [item.id for item in await of(store, companion)] == [
            *(made[1].id, made[0].id, made[2].id)
        ]
        assert (await find(store, made[0].id)).rejection == "Blurred"
        detail = await read_store(store, lambda view: view.companions.detail(companion.id))
        shown = [item["id"] for item in json.loads(detail)["companion"]["portfolio"]]
        assert shown == [made[1].id, made[0].id, made[2].id]
