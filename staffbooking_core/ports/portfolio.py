"""Portfolio: what staff members publish of their work, their images and their calendar feed."""

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

__all__ = ["PortfolioReadPort", "PortfolioWritePort"]


class PortfolioReadPort(Protocol):
    """Queries on portfolio items, images and calendar feeds."""

    async def portfolio_items_of(self, companion_id: int) -> Sequence[PortfolioItem]:
        """All portfolio items of a companion in the order in which they are shown."""
        ...

    async def portfolio_item(self, item_id: int) -> PortfolioItem | None:
        """A portfolio item by id."""
        ...

    async def portfolio_items(
        self, status: PortfolioItemStatus | None, after_id: int, limit: int, offset: int = 0
    ) -> Sequence[PortfolioItem]:
        """Up to `limit` portfolio items of all companions above `after_id`, after the first
        `offset` of them, by id; with a status, those alone."""
        ...

    async def image(self, name: str) -> Image | None:
        """An image by name."""
        ...

    async def images_of(self, owner_id: int) -> Sequence[Image]:
        """All images of a user, the newest first."""
        ...

    async def orphaned_files(self, after_name: str, limit: int) -> Sequence[str]:
        """Up to `limit` names of deleted images above `after_name`, in order, whose files are not
        known to be removed."""
        ...

    async def calendar_feed_owner_id(self, digest: bytes) -> int | None:
        """The id of the companion whose calendar feed has the secret of this digest."""
        ...

    async def calendar_feed_created_at(self, companion_id: int) -> datetime | None:
        """Business time at which a companion's calendar feed was created; None where there is
        none."""
        ...


class PortfolioWritePort(PortfolioReadPort, Protocol):
    """Commands on portfolio items, images and calendar feeds. A caller that changes a portfolio
    locks the companion before and saves it after: its encoded detail includes the approved
    items."""

    async def add_portfolio_item(self, item: NewPortfolioItem) -> PortfolioItem:
        """Insert a portfolio item."""
        ...

    async def save_portfolio_item(self, item: PortfolioItem) -> None:
        """Update a portfolio item."""
        ...

    async def remove_portfolio_item(self, item_id: int) -> None:
        """Delete a portfolio item."""
        ...

    async def add_image(self, image: Image) -> None:
        """Insert an image."""
        ...

    async def delete_images(self, names: Sequence[str]) -> None:
        """Delete images that nothing shows; each stays among the `orphaned_files` until its file is
        removed."""
        ...

    async def delete_orphaned_file(self, name: str) -> None:
        """Record that the file of a deleted image is removed."""
        ...

    async def save_calendar_feed(
        self, companion_id: int, digest: bytes, created_at: datetime
    ) -> None:
        """Insert or replace a companion's calendar feed: the previous secret stops working."""
        ...

    async def remove_calendar_feed(self, companion_id: int) -> None:
        """Delete a companion's calendar feed."""
        ...
