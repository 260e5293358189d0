"""The event feed with a position that outlives the process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from staffbooking_http.client.exchange import Call, Listing
from staffbooking_http.client.shapes import Event


class Cursor(Protocol):
    """Where the position in the feed is kept: the id of the last event that was processed."""

    def load(self) -> str | None:
        """The stored id, or None to begin with the first event."""

    def save(self, event_id: str) -> None:
        """Store the id; called after each event."""


@dataclass(frozen=True, slots=True)
class FileCursor:
    """A position in a file, which is replaced as a whole: a crash leaves the old or the new one."""

    path: str | Path

    def load(self) -> str | None:
        try:
            return Path(self.path).read_text(encoding="ascii").strip() or None
        except FileNotFoundError:
            return None

    def save(self, event_id: str) -> None:
        target = Path(self.path)
        draft = target.with_name(target.name + ".new")
        with draft.open("w", encoding="ascii") as file:
            file.write(event_id + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)


@dataclass(frozen=True, slots=True)
class Feed(Listing[Event]):
    """The events after a cursor; it moves past an event when the next one is asked for."""

    cursor: Cursor | None = None

    def first_call(self) -> Call[Any]:
        after = self.cursor.load() if self.cursor else None
        return replace(self.first, query={**self.first.query, "after": after})

    def mark_processed(self, item: Event) -> None:
        if self.cursor:
            self.cursor.save(item["id"])

    def _position(self, call: Call[Any], items: Sequence[Any]) -> dict[str, object]:
        return {"after": items[-1]["id"]}
