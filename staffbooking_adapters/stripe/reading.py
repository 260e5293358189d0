"""Reading Stripe's documents, where anything may be missing, null, or expanded."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from stripe import ListObject, StripeObject

T = TypeVar("T", bound=StripeObject)


def get_path(document: Any, *path: str) -> Any:
    """What is found by following the names; None where one of them is missing."""
    for name in path:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


def metadata_dict(metadata: StripeObject | None) -> Mapping[str, Any]:
    return {} if metadata is None else metadata.to_dict()


def get_id(field: Any) -> str | None:
    """The reference in a field that may hold the object itself, as a document or not."""
    if isinstance(field, StripeObject):
        field = field.to_dict(recursive=False)
    found = field.get("id") if isinstance(field, dict) else field
    return found if isinstance(found, str) else None


def from_timestamp(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


async def list_all(page: ListObject[T]) -> list[T]:
    """This page and all that follow it."""
    return [each async for each in page.auto_paging_iter()]
