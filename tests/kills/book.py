"""The book: responses to clients, received webhooks and faults, one JSON line each. A line is on
disk before its writer continues."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from staffbooking_adapters.batcher import Batcher

Entry: TypeAlias = dict[str, Any]
"""A line: its `kind`, the Unix time `at` in seconds, and fields of the kind."""

_MAX_LINES_PER_SYNC = 1_000


class Book:
    """An append-only file. Lines that are written at the same time share one fsync."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._batcher = Batcher(self._write_lines, max_batch_size=_MAX_LINES_PER_SYNC)
        self.acknowledged_count = 0

    async def write(self, kind: str, **facts: Any) -> None:
        """Write an entry; returns once it is on disk."""
        entry = {"kind": kind, "at": time.time(), **facts}
        await self._batcher.submit(json.dumps(entry).encode() + b"\n")
        self.acknowledged_count += kind == "ack"

    async def close(self) -> None:
        await self._batcher.close()
        os.close(self._descriptor)

    async def _write_lines(self, lines: Sequence[bytes]) -> Sequence[None]:
        await anyio.to_thread.run_sync(self._append, b"".join(lines))
        return [None] * len(lines)

    def _append(self, data: bytes) -> None:
        os.write(self._descriptor, data)
        os.fsync(self._descriptor)


def read_book(path: Path) -> list[Entry]:
    """The entries so far, without a last line that was cut off."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
