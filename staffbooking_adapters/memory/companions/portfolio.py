"""What staff members keep of themselves, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import asdict, frozen

from staffbooking_adapters.memory.state import Place, State
from staffbooking_core.domain.companions.portfolio import Image, ItemStatus, NewItem, PortfolioItem


@frozen
class StaffReader:
    place: Place

    async def portfolio_of(self, companion_id: int) -> Sequence[PortfolioItem]:
        return items_of(self.place.state, companion_id)

    async def portfolio_item(self, item_id: int) -> PortfolioItem | None:
        return self.place.state.portfolio.get(item_id)

    async def portfolio(
        self, status: ItemStatus | None, after_id: int, limit: int
    ) -> Sequence[PortfolioItem]:
        portfolio = self.place.state.portfolio
        found = (portfolio[number] for number in sorted(portfolio) if number > after_id)
        return [item for item in found if status in (None, item.status)][:limit]

    async def image(self, name: str) -> Image | None:
        return self.place.state.images.get(name)

    async def images_of(self, owner_id: int) -> Sequence[Image]:
        mine = [one for one in self.place.state.images.values() if one.owner_id == owner_id]
        by_name = sorted(mine, key=lambda image: image.name)
        return sorted(by_name, key=lambda image: image.created_at, reverse=True)

    async def files_left(self, after: str, limit: int) -> Sequence[str]:
        return [name for name in sorted(self.place.state.dropped_images) if name > after][:limit]

    async def feed(self, digest: bytes) -> int | None:
        feeds = self.place.state.feeds.items()
        return next((number for number, (secret, _) in feeds if secret == digest), None)

    async def feed_since(self, companion_id: int) -> datetime | None:
        feed = self.place.state.feeds.get(companion_id)
        return None if feed is None else feed[1]


@frozen
class StaffWriter(StaffReader):
    async def add_item(self, item: NewItem) -> PortfolioItem:
        added = PortfolioItem(
            id=next(self.place.shared.portfolio_ids), **asdict(item, recurse=False)
        )
        self.place.state.portfolio[added.id] = added
        return added

    async def save_item(self, item: PortfolioItem) -> None:
        if item.id in self.place.state.portfolio:
            self.place.state.portfolio[item.id] = item

    async def remove_item(self, item_id: int) -> None:
        self.place.state.portfolio.discard(item_id)

    async def add_image(self, image: Image) -> None:
        self.place.state.images[image.name] = image

    async def drop_images(self, names: Sequence[str]) -> None:
        state = self.place.state
        for name in names:
            if (image := state.images.get(name)) is not None:
                state.dropped_images[name] = image
                state.images.discard(name)

    async def forget_file(self, name: str) -> None:
        self.place.state.dropped_images.discard(name)

    async def save_feed(self, companion_id: int, digest: bytes, at: datetime) -> None:
        self.place.state.feeds[companion_id] = (digest, at)

    async def remove_feed(self, companion_id: int) -> None:
        self.place.state.feeds.discard(companion_id)


def items_of(state: State, companion_id: int) -> list[PortfolioItem]:
    """The portfolio of a companion, the newest first."""
    mine = (item for item in state.portfolio.values() if item.companion_id == companion_id)
    return sorted(mine, key=lambda item: item.id, reverse=True)
