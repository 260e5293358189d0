"""What staff members show of their work, and the images in it (CONTRACT 3)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from attrs import frozen


class ItemStatus(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


@frozen
class NewItem:
    """A piece of work about to be shown; business time."""

    companion_id: int
    title: str
    image: str
    """A relative path."""
    description: str
    created_at: datetime
    status: ItemStatus = ItemStatus.PENDING
    """Only an approved one is seen by others."""


@frozen
class PortfolioItem(NewItem):
    id: int = 0


class ImageKind(StrEnum):
    JPEG = "jpeg"
    PNG = "png"
    WEBP = "webp"

    @property
    def media(self) -> str:
        """Its media type."""
        return f"image/{self}"


@frozen
class Image:
    """An uploaded image: its name in the storage, unguessable, and whose it is."""

    name: str
    owner_id: int
    size: int
    """In bytes, as it is stored."""
    created_at: datetime
