"""Portfolios, images and calendar feeds in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import asdict, frozen

from staffbooking_adapters.memory.state import MemoryState, MemoryTransaction
from staffbooking_core.domain.companions.portfolio import (
    Image,
    NewPortfolioItem,
    PortfolioItem,
    PortfolioItemStatus,
    in_shown_order,
)


@frozen
class PortfolioReader:
    """Reads portfolio items, images and calendar feeds."""

    tx: MemoryTransaction

    async def portfolio_items_of(self, companion_id: int) -> Sequence[PortfolioItem]:
        return portfolio_items_of(self.tx.state, companion_id)

    async def portfolio_item(self, item_id: int) -> PortfolioItem | None:
        return self.tx.state.portfolio.get(item_id)

    async def portfolio_items(
        self, status: PortfolioItemStatus | None, after_id: int, limit: int, offset: int = 0
    ) -> Sequence[PortfolioItem]:
        portfolio = self.tx.state.portfolio
        found = (portfolio[known_id] for known_id in sorted(portfolio) if known_id > after_id)
        chosen = [item for item in found if status in (None, item.status)]
        return chosen[offset : offset + limit]

    async def image(self, name: str) -> Image | None:
        return self.tx.state.images.get(name)

    async def images_of(self, owner_id: int) -> Sequence[Image]:
        mine = [one for one in self.tx.state.images.values() if one.owner_id == owner_id]
        by_name = sorted(mine, key=lambda image: image.name)
        return sorted(by_name, key=lambda image: image.created_at, reverse=True)

    async def orphaned_files(self, after_name: str, limit: int) -> Sequence[str]:
        return [name for name in sorted(self.tx.state.orphaned_files) if name > after_name][:limit]

    async def calendar_feed_owner_id(self, digest: bytes) -> int | None:
        feeds = self.tx.state.calendar_feeds.items()
        return next((owner_id for owner_id, (secret, _) in feeds if secret == digest), None)

    async def calendar_feed_created_at(self, companion_id: int) -> datetime | None:
        feed = self.tx.state.calendar_feeds.get(companion_id)
        return None if feed is None else feed[1]


@frozen
class PortfolioWriter(PortfolioReader):
    """Reads and writes portfolio items, images and calendar feeds."""

    async def add_portfolio_item(self, item: NewPortfolioItem) -> PortfolioItem:
        added = PortfolioItem(id=next(self.tx.shared.portfolio_ids), **asdict(item, recurse=False))
        self.tx.state.portfolio[added.id] = added
        return added

    async def save_portfolio_item(self, item: PortfolioItem) -> None:
        if item.id in self.tx.state.portfolio:
            self.tx.state.portfolio[item.id] = item

    async def remove_portfolio_item(self, item_id: int) -> None:
        self.tx.state.portfolio.discard(item_id)

    async def add_image(self, image: Image) -> None:
        self.tx.state.images[image.name] = image

    async def delete_images(self, names: Sequence[str]) -> None:
        state = self.tx.state
        for name in names:
            if name in state.images:
                state.orphaned_files[name] = None
                state.images.discard(name)

    async def delete_orphaned_file(self, name: str) -> None:
        self.tx.state.orphaned_files.discard(name)

    async def save_calendar_feed(
        self, companion_id: int, digest: bytes, created_at: datetime
    ) -> None:
        self.tx.state.calendar_feeds[companion_id] = (digest, created_at)

    async def remove_calendar_feed(self, companion_id: int) -> None:
        self.tx.state.calendar_feeds.discard(companion_id)


def portfolio_items_of(state: MemoryState, companion_id: int) -> list[PortfolioItem]:
    """The portfolio of a companion in the order in which it is shown."""
    return in_shown_order(
        item for item in state.portfolio.values() if item.companion_id == companion_id
    )
