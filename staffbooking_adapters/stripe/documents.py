"""Access to Stripe's documents, whose fields may be missing, null or expanded."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from stripe import ListObject, StripeObject

T = TypeVar("T", bound=StripeObject)


def get_path(document: Any, *path: str) -> Any:
    """The value at a path of field names; None if one is missing."""
    for name in path:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


def metadata_dict(metadata: StripeObject | None) -> Mapping[str, Any]:
    """The metadata as a dict; empty if there is none."""
    return {} if metadata is None else metadata.to_dict()


def get_id(field: Any) -> str | None:
    """The id in a field that holds an id, an expanded object or a dict of one."""
    if isinstance(field, StripeObject):
        field = field.to_dict(recursive=False)
    found = field.get("id") if isinstance(field, dict) else field
    return found if isinstance(found, str) else None


def from_timestamp(seconds: int) -> datetime:
    """The instant of Unix seconds, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


async def list_all(page: ListObject[T]) -> list[T]:
    """All items of this page and the following pages."""
    return [each async for each in page.auto_paging_iter()]
