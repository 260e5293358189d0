"""Portfolio items, images and calendar feed addresses of staff members."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import asdict, fields, frozen
from sqlalchemy import bindparam, delete, insert, select, update

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import in_array, upsert
from staffbooking_adapters.sql.engine.page_size import OFFSET_PARAM, page_size
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.companions import (
    calendar_feeds,
    dropped_images,
    images,
    portfolio_items,
)
from staffbooking_core.domain.companions.portfolio import (
    Image,
    NewPortfolioItem,
    PortfolioItem,
    PortfolioItemStatus,
)

PORTFOLIO_ITEM_COLUMNS = tuple(portfolio_items.c)
to_portfolio_item = RowMapper(PortfolioItem, PORTFOLIO_ITEM_COLUMNS, status=PortfolioItemStatus)
IMAGE_COLUMNS = tuple(images.c)
to_image = RowMapper(Image, IMAGE_COLUMNS)

_ITEM_FIELDS = {
    column.name: bindparam(column.name, type_=column.type) for column in PORTFOLIO_ITEM_COLUMNS
}
_IS_ITEM = portfolio_items.c.id == bindparam("item_id")
_IS_ITEM_OF_COMPANION = portfolio_items.c.companion_id == bindparam("companion_id")

PORTFOLIO_ITEMS_OF = Statement(
    select(*PORTFOLIO_ITEM_COLUMNS)
    .where(_IS_ITEM_OF_COMPANION)
    .order_by(portfolio_items.c.position, portfolio_items.c.id.desc())
)
GET_PORTFOLIO_ITEM = Statement(select(*PORTFOLIO_ITEM_COLUMNS).where(_IS_ITEM))
ADD_PORTFOLIO_ITEM = Statement(
    insert(portfolio_items)
    .values({field.name: _ITEM_FIELDS[field.name] for field in fields(NewPortfolioItem)})
    .returning(portfolio_items.c.id)
)
SAVE_PORTFOLIO_ITEM = Statement(
    update(portfolio_items)
    .values({field.name: _ITEM_FIELDS[field.name] for field in fields(NewPortfolioItem)})
    .where(_IS_ITEM)
)
DELETE_PORTFOLIO_ITEM = Statement(delete(portfolio_items).where(_IS_ITEM))

GET_IMAGE = Statement(select(*IMAGE_COLUMNS).where(images.c.name == bindparam("image")))
IMAGES_OF = Statement(
    select(*IMAGE_COLUMNS)
    .where(images.c.owner_id == bindparam("owner"))
    .order_by(images.c.created_at.desc(), images.c.name)
)
ADD_IMAGE = Statement(
    insert(images).values({c.name: bindparam(c.name, type_=c.type) for c in IMAGE_COLUMNS})
)
_IS_NAMED_IMAGE = in_array(images.c.name, "names")
ADD_DROPPED_IMAGES = Statement(
    insert(dropped_images).from_select(["name"], select(images.c.name).where(_IS_NAMED_IMAGE))
)
DELETE_IMAGES = Statement(delete(images).where(_IS_NAMED_IMAGE))
DELETE_DROPPED_IMAGE = Statement(
    delete(dropped_images).where(dropped_images.c.name == bindparam("image"))
)

_UPSERT_CALENDAR_FEED = upsert(calendar_feeds).values(
    {c.name: bindparam(c.name, type_=c.type) for c in calendar_feeds.c}
)
FIND_CALENDAR_FEED = Statement(
    select(calendar_feeds.c.companion_id).where(calendar_feeds.c.digest == bindparam("feed"))
)
GET_CALENDAR_FEED_CREATION = Statement(
    select(calendar_feeds.c.created_at).where(
        calendar_feeds.c.companion_id == bindparam("companion")
    )
)
SAVE_CALENDAR_FEED = Statement(
    _UPSERT_CALENDAR_FEED.on_conflict_do_update(
        index_elements=["companion_id"],
        set_={name: _UPSERT_CALENDAR_FEED.excluded[name] for name in ("digest", "created_at")},
    )
)
DELETE_CALENDAR_FEED = Statement(
    delete(calendar_feeds).where(calendar_feeds.c.companion_id == bindparam("companion"))
)


@cache
def orphaned_files_after(size: int) -> Statement:
    left = select(dropped_images.c.name).where(dropped_images.c.name > bindparam("after"))
    return Statement(left.order_by(dropped_images.c.name).limit(size))


@cache
def portfolio_items_after(size: int, status: PortfolioItemStatus | None) -> Statement:
    """Items of all companions by id, optionally of one status."""
    items = select(*PORTFOLIO_ITEM_COLUMNS).where(portfolio_items.c.id > bindparam("after_id"))
    if status is not None:  # Part of the statement: the pending ones have an index.
        items = items.where(portfolio_items.c.status == status)
    return Statement(items.order_by(portfolio_items.c.id).limit(size).offset(OFFSET_PARAM))


@frozen
class PortfolioReader:
    """Reads portfolio items, images, orphaned files and calendar feeds."""

    connection: Connection

    async def portfolio_items_of(self, companion_id: int) -> Sequence[PortfolioItem]:
        rows = await self.connection.fetch_all(PORTFOLIO_ITEMS_OF, companion_id=companion_id)
        return [to_portfolio_item(row) for row in rows]

    async def portfolio_item(self, item_id: int) -> PortfolioItem | None:
        return to_portfolio_item.map_optional(
            await self.connection.fetch_one(GET_PORTFOLIO_ITEM, item_id=item_id)
        )

    async def portfolio_items(
        self, status: PortfolioItemStatus | None, after_id: int, limit: int, offset: int = 0
    ) -> Sequence[PortfolioItem]:
        statement = portfolio_items_after(page_size(limit), status)
        rows = await self.connection.fetch_all(statement, after_id=after_id, offset=offset)
        return [to_portfolio_item(row) for row in rows[:limit]]

    async def image(self, name: str) -> Image | None:
        return to_image.map_optional(await self.connection.fetch_one(GET_IMAGE, image=name))

    async def images_of(self, owner_id: int) -> Sequence[Image]:
        return [to_image(row) for row in await self.connection.fetch_all(IMAGES_OF, owner=owner_id)]

    async def orphaned_files(self, after_name: str, limit: int) -> Sequence[str]:
        rows = await self.connection.fetch_all(
            orphaned_files_after(page_size(limit)), after=after_name
        )
        return [name for (name,) in rows[:limit]]

    async def calendar_feed_owner_id(self, digest: bytes) -> int | None:
        found: int | None = await self.connection.fetch_value(FIND_CALENDAR_FEED, feed=digest.hex())
        return found

    async def calendar_feed_created_at(self, companion_id: int) -> datetime | None:
        since: datetime | None = await self.connection.fetch_value(
            GET_CALENDAR_FEED_CREATION, companion=companion_id
        )
        return since


@frozen
class PortfolioWriter(PortfolioReader):
    """Writes portfolio items, images and calendar feeds."""

    async def add_portfolio_item(self, item: NewPortfolioItem) -> PortfolioItem:
        fields_by_name = asdict(item, recurse=False)
        return PortfolioItem(
            id=await self.connection.fetch_value(ADD_PORTFOLIO_ITEM, **fields_by_name),
            **fields_by_name,
        )

    async def save_portfolio_item(self, item: PortfolioItem) -> None:
        given = asdict(item, recurse=False)
        await self.connection.execute(SAVE_PORTFOLIO_ITEM, item_id=given.pop("id"), **given)

    async def remove_portfolio_item(self, item_id: int) -> None:
        await self.connection.execute(DELETE_PORTFOLIO_ITEM, item_id=item_id)

    async def add_image(self, image: Image) -> None:
        await self.connection.execute(ADD_IMAGE, **asdict(image))

    async def delete_images(self, names: Sequence[str]) -> None:
        await self.connection.execute(ADD_DROPPED_IMAGES, names=names)
        await self.connection.execute(DELETE_IMAGES, names=names)

    async def delete_orphaned_file(self, name: str) -> None:
        await self.connection.execute(DELETE_DROPPED_IMAGE, image=name)

    async def save_calendar_feed(
        self, companion_id: int, digest: bytes, created_at: datetime
    ) -> None:
        given = {"companion_id": companion_id, "digest": digest.hex(), "created_at": created_at}
        await self.connection.execute(SAVE_CALENDAR_FEED, **given)

    async def remove_calendar_feed(self, companion_id: int) -> None:
        await self.connection.execute(DELETE_CALENDAR_FEED, companion=companion_id)
