"""Portfolio items and images of staff members for tests."""

from __future__ import annotations

from typing import Any

from staffbooking_adapters.testing.builders import NOW
from staffbooking_core.domain.companions.portfolio import Image, NewPortfolioItem, PortfolioItem
from staffbooking_core.ports import Store, Transaction


def make_new_portfolio_item(companion_id: int = 2, **given: Any) -> NewPortfolioItem:
    """An item that waits for approval."""
    defaults: dict[str, Any] = {
        "companion_id": companion_id,
        "title": "The spring ball",
        "image": "photos/ball.jpg",
        "description": "Two bars, 300 guests.",
        "created_at": NOW,
    }
    return NewPortfolioItem(**{**defaults, **given})


async def add_portfolio_item(store: Store, companion_id: int, **given: Any) -> PortfolioItem:
    """An item in the store; the companion is saved with it."""
    new = make_new_portfolio_item(companion_id, **given)

    async def unit(tx: Transaction) -> PortfolioItem:
        companion = await tx.companions.lock_companion(companion_id)
        assert companion is not None
        added = await tx.portfolio.add_portfolio_item(new)
        await tx.companions.save_companion(companion)
        return added

    return await store.run_transaction(unit)


async def add_uploaded_image(store: Store, owner_id: int, name: str, **given: Any) -> Image:
    """A stored image record without a file."""
    image = Image(**{"name": name, "owner_id": owner_id, "size": 9, "created_at": NOW, **given})
    await store.run_transaction(lambda tx: tx.portfolio.add_image(image))
    return image
