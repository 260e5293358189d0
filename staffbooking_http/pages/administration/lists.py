"""Lists of operators' pages whose next page begins behind the last row of this one."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")

ROWS_OF_A_PAGE = 20


def rows_before(
    found: Sequence[T], before: int | None, id_of: Callable[[T], int] = attrgetter("id")
) -> dict[str, Any]:
    """The template context of a page of rows with ids below `before`.

    `found` has more than `ROWS_OF_A_PAGE` rows where another page follows.
    """
    rows = found[:ROWS_OF_A_PAGE]
    return {
        "rows": rows,
        "next_before": id_of(rows[-1]) if len(found) > ROWS_OF_A_PAGE else None,
        "is_first": before is None,
    }
