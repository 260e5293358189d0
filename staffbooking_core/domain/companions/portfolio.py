"""Portfolio items of staff members, and uploaded images (CONTRACT 3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

from attrs import evolve, frozen

__all__ = ["Image", "ImageKind", "NewPortfolioItem", "PortfolioItem", "PortfolioItemStatus"]

MEDIA_PATH_PREFIX = "media/"
"""Prefix of the paths of uploaded images."""


def validate_image_path(path: str) -> None:
    """Raise ValueError unless the path is relative and in normal form. Empty means no image."""
    plain = path.isprintable() and path.strip() == path and not set(path) & set("\\:?#%")
    if path and not (plain and all(part.strip(".") for part in path.split("/"))):
        raise ValueError("must be a relative path such as photos/me.jpg")


class PortfolioItemStatus(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


@frozen
class NewPortfolioItem:
    """A portfolio item before it is stored; `created_at` is business time."""

    companion_id: int
    title: str
    image: str
    """A relative path."""
    description: str
    created_at: datetime
    status: PortfolioItemStatus = PortfolioItemStatus.PENDING
    """Only approved items are shown to others."""
    position: int = 0
    """The place in the portfolio, ascending; of one place, the newest is first."""
    rejection: str = ""
    """Why it was rejected, for its owner."""


@frozen
class PortfolioItem(NewPortfolioItem):
    id: int = 0


def in_shown_order(items: Iterable[PortfolioItem]) -> list[PortfolioItem]:
    """The items of one portfolio as they are shown."""
    return sorted(items, key=lambda item: (item.position, -item.id))


def move_item(
    items: Sequence[PortfolioItem], item_id: int, *, earlier: bool
) -> Sequence[PortfolioItem]:
    """The items that change where one of them trades its place with its neighbour; `items` are in
    the order in which they are shown. None changes at either end."""
    here = next(place for place, item in enumerate(items) if item.id == item_id)
    there = here - 1 if earlier else here + 1
    if not 0 <= there < len(items):
        return []
    moved = list(items)
    moved[here], moved[there] = moved[there], moved[here]
    placed = [evolve(item, position=place) for place, item in enumerate(moved, 1)]
    return [new for new, old in zip(placed, moved, strict=True) if new != old]


class ImageKind(StrEnum):
    JPEG = "jpeg"
    PNG = "png"
    WEBP = "webp"

    @property
    def media_type(self) -> str:
        """The media type."""
        return f"image/{self}"

    @property
    def suffix(self) -> str:
        """The file name extension."""
        return "jpg" if self is ImageKind.JPEG else self.value

    def accepts_media_type(self, media_type: str) -> bool:
        """Whether a media type names this kind, also by an obsolete name, or is unspecific."""
        return media_type in (
            "",
            "application/octet-stream",
            self.media_type,
        ) or media_type in _LEGACY_MEDIA_TYPES.get(self, ())


_LEGACY_MEDIA_TYPES = {
    ImageKind.JPEG: ("image/jpg", "image/pjpeg"),
    ImageKind.PNG: ("image/x-png",),
}


@frozen
class Image:
    """An uploaded image: its unguessable name in the storage, and its owner."""

    name: str
    owner_id: int
    size: int
    """Stored size in bytes."""
    created_at: datetime

    @property
    def path(self) -> str:
        """The relative path at which the image is published."""
        return MEDIA_PATH_PREFIX + self.name


_IMAGE_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}\.(jpg|png|webp)")


def image_name(token: str, kind: ImageKind) -> str:
    """The storage name of an image of this kind."""
    return f"{token}.{kind.suffix}"


def image_kind_of(name: str) -> ImageKind | None:
    """The kind of image by its storage name; None for an invalid name."""
    formed = _IMAGE_NAME_PATTERN.fullmatch(name)
    return None if formed is None else next(k for k in ImageKind if k.suffix == formed[1])
