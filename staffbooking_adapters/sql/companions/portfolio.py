"""What staff members keep of themselves: portfolio, images, the address of their feed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import asdict, fields, frozen
from sqlalchemy import bindparam, delete, insert, select, update

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import in_array, upsert
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import Reader
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.accounts import (
    calendar_feeds,
    dropped_images,
    images,
    portfolio_items,
)
from staffbooking_core.domain.companions.portfolio import Image, ItemStatus, NewItem, PortfolioItem

ITEM = tuple(portfolio_items.c)
to_item = Reader(PortfolioItem, ITEM, status=ItemStatus)
IMAGE = tuple(images.c)
to_image = Reader(Image, IMAGE)

_ITEM_FIELDS = {column.name: bindparam(column.name, type_=column.type) for column in ITEM}
_IS_ITEM = portfolio_items.c.id == bindparam("item_id")
_OF_COMPANION = portfolio_items.c.companion_id == bindparam("companion_id")

OF_COMPANION = Statement(select(*ITEM).where(_OF_COMPANION).order_by(portfolio_items.c.id.desc()))
GET_ITEM = Statement(select(*ITEM).where(_IS_ITEM))
ADD_ITEM = Statement(
    insert(portfolio_items)
    .values({field.name: _ITEM_FIELDS[field.name] for field in fields(NewItem)})
    .returning(portfolio_items.c.id)
)
SAVE_ITEM = Statement(
    update(portfolio_items)
    .values({field.name: _ITEM_FIELDS[field.name] for field in fields(NewItem)})
    .where(_IS_ITEM)
)
REMOVE_ITEM = Statement(delete(portfolio_items).where(_IS_ITEM))

GET_IMAGE = Statement(select(*IMAGE).where(images.c.name == bindparam("image")))
IMAGES_OF = Statement(
    select(*IMAGE)
    .where(images.c.owner_id == bindparam("owner"))
    .order_by(images.c.created_at.desc(), images.c.name)
)
ADD_IMAGE = Statement(
    insert(images).values({c.name: bindparam(c.name, type_=c.type) for c in IMAGE})
)
_IS_DROPPED = in_array(images.c.name, "names")
NOTE_FILES = Statement(
    insert(dropped_images).from_select(["name"], select(images.c.name).where(_IS_DROPPED))
)
DROP_IMAGES = Statement(delete(images).where(_IS_DROPPED))
FORGET_FILE = Statement(delete(dropped_images).where(dropped_images.c.name == bindparam("image")))

_NEW_FEED = upsert(calendar_feeds).values(
    {c.name: bindparam(c.name, type_=c.type) for c in calendar_feeds.c}
)
FIND_FEED = Statement(
    select(calendar_feeds.c.companion_id).where(calendar_feeds.c.digest == bindparam("feed"))
)
FEED_SINCE = Statement(
    select(calendar_feeds.c.created_at).where(
        calendar_feeds.c.companion_id == bindparam("companion")
    )
)
SAVE_FEED = Statement(
    _NEW_FEED.on_conflict_do_update(
        index_elements=["companion_id"],
        set_={name: _NEW_FEED.excluded[name] for name in ("digest", "created_at")},
    )
)
REMOVE_FEED = Statement(
    delete(calendar_feeds).where(calendar_feeds.c.companion_id == bindparam("companion"))
)


@cache
def files_left(size: int) -> Statement:
    left = select(dropped_images.c.name).where(dropped_images.c.name > bindparam("after"))
    return Statement(left.order_by(dropped_images.c.name).limit(size))


@cache
def items_after(size: int, chosen: bool) -> Statement:
    """Items of all companions, or those of one status."""
    items = select(*ITEM).where(portfolio_items.c.id > bindparam("after_id"))
    if chosen:
        items = items.where(portfolio_items.c.status == bindparam("status"))
    return Statement(items.order_by(portfolio_items.c.id).limit(size))


@frozen
class StaffReader:
    connection: Connection

    async def portfolio_of(self, companion_id: int) -> Sequence[PortfolioItem]:
        rows = await self.connection.all(OF_COMPANION, companion_id=companion_id)
        return [to_item(row) for row in rows]

    async def portfolio_item(self, item_id: int) -> PortfolioItem | None:
        return to_item.optional(await self.connection.one(GET_ITEM, item_id=item_id))

    async def portfolio(
        self, status: ItemStatus | None, after_id: int, limit: int
    ) -> Sequence[PortfolioItem]:
        chosen = {} if status is None else {"status": status}
        statement = items_after(page_size(limit), bool(chosen))
        rows = await self.connection.all(statement, after_id=after_id, **chosen)
        return [to_item(row) for row in rows[:limit]]

    async def image(self, name: str) -> Image | None:
        return to_image.optional(await self.connection.one(GET_IMAGE, image=name))

    async def images_of(self, owner_id: int) -> Sequence[Image]:
        return [to_image(row) for row in await self.connection.all(IMAGES_OF, owner=owner_id)]

    async def files_left(self, after: str, limit: int) -> Sequence[str]:
        rows = await self.connection.all(files_left(page_size(limit)), after=after)
        return [name for (name,) in rows[:limit]]

    async def feed(self, digest: bytes) -> int | None:
        found: int | None = await self.connection.value(FIND_FEED, feed=digest.hex())
        return found

    async def feed_since(self, companion_id: int) -> datetime | None:
        since: datetime | None = await self.connection.value(FEED_SINCE, companion=companion_id)
        return since


@frozen
class StaffWriter(StaffReader):
    async def add_item(self, item: NewItem) -> PortfolioItem:
        given = asdict(item, recurse=False)
        return PortfolioItem(id=await self.connection.value(ADD_ITEM, **given), **given)

    async def save_item(self, item: PortfolioItem) -> None:
        given = asdict(item, recurse=False)
        await self.connection.run(SAVE_ITEM, item_id=given.pop("id"), **given)

    async def remove_item(self, item_id: int) -> None:
        await self.connection.run(REMOVE_ITEM, item_id=item_id)

    async def add_image(self, image: Image) -> None:
        await self.connection.run(ADD_IMAGE, **asdict(image))

    async def drop_images(self, names: Sequence[str]) -> None:
        await self.connection.run(NOTE_FILES, names=names)
        await self.connection.run(DROP_IMAGES, names=names)

    async def forget_file(self, name: str) -> None:
        await self.connection.run(FORGET_FILE, image=name)

    async def save_feed(self, companion_id: int, digest: bytes, at: datetime) -> None:
        given = {"companion_id": companion_id, "digest": digest.hex(), "created_at": at}
        await self.connection.run(SAVE_FEED, **given)

    async def remove_feed(self, companion_id: int) -> None:
        await self.connection.run(REMOVE_FEED, companion=companion_id)
