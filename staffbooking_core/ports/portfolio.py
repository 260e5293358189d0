"""The store's family of what staff members keep of themselves: portfolio, images, feed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from staffbooking_core.domain.companions.portfolio import (
    Image,
    NewPortfolioItem,
    PortfolioItem,
    PortfolioItemStatus,
)


class PortfolioReadPort(Protocol):
    async def portfolio_items_of(self, companion_id: int) -> Sequence[PortfolioItem]:
        """All of a companion, the newest first."""
        ...

    async def portfolio_item(self, item_id: int) -> PortfolioItem | None: ...
    async def portfolio_items(
        self, status: PortfolioItemStatus | None, after_id: int, limit: int
    ) -> Sequence[PortfolioItem]:
        """Of all companions, in the order of ids, from the first above `after_id`."""
        ...

    async def image(self, name: str) -> Image | None: ...
    async def images_of(self, owner_id: int) -> Sequence[Image]:
        """The newest first."""
        ...

    async def orphaned_files(self, after_name: str, limit: int) -> Sequence[str]:
        """The names of images that were dropped, in their order, from the first above `after`:
        their files are still to be removed, or not known to be gone."""
        ...

    async def calendar_feed_owner_id(self, digest: bytes) -> int | None:
        """The companion whose calendar feed has the secret of this digest."""
        ...

    async def calendar_feed_created_at(self, companion_id: int) -> datetime | None:
        """When the companion's feed was made (business time); None where there is none."""
        ...


class PortfolioWritePort(PortfolioReadPort, Protocol):
    """Who changes a portfolio holds the companion before and saves it after: what is shown of
    it tells of its approved items."""

    async def add_portfolio_item(self, item: NewPortfolioItem) -> PortfolioItem: ...
    async def save_portfolio_item(self, item: PortfolioItem) -> None: ...
    async def remove_portfolio_item(self, item_id: int) -> None: ...
    async def add_image(self, image: Image) -> None: ...
    async def delete_images(self, names: Sequence[str]) -> None:
        """They are nobody's any more, and nothing shows them; each is among the `files_left`
        until its file is known to be gone."""
        ...

    async def delete_orphaned_file(self, name: str) -> None:
        """The file of a dropped image is gone."""
        ...

    async def save_calendar_feed(
        self, companion_id: int, digest: bytes, created_at: datetime
    ) -> None:
        """Insert or replace: the secret before opens nothing any more."""
        ...

    async def remove_calendar_feed(self, companion_id: int) -> None: ...
