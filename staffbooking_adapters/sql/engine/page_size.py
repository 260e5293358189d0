"""Page sizes. A LIMIT is part of a statement's text, so there must be few of them."""

from __future__ import annotations

from sqlalchemy import bindparam

from staffbooking_adapters.sql.engine.types import BigInt

OFFSET_PARAM = bindparam("offset", type_=BigInt)
"""The number of rows before a page."""

PAGE_SIZES = (1, 13, 51, 101, 501, 1_001, 5_001)


def page_size(limit: int) -> int:
    """The smallest page size that is at least this limit. The caller cuts the surplus rows off."""
    return next((size for size in PAGE_SIZES if size >= limit), limit)
