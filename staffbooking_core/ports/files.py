"""Files, and what becomes of the images among them."""

from __future__ import annotations

import re
from typing import Protocol

from attrs import frozen

from staffbooking_core.domain.companions.portfolio import ImageKind

_FILE_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,100}\.[a-z0-9]{1,8}")


def check_file_name(name: str) -> str:
    """The name, if it is of the kind that files get here: it leads nowhere else, is not hidden,
    and no file system finds it too long. Raises ValueError."""
    if not _FILE_NAME_PATTERN.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a file of ours")
    return name


class FileStorage(Protocol):
    """Small files by name, kept once `put` returns. Names are ours, never text of a caller:
    ValueError for what `check_name` refuses. Raises Unavailable."""

    async def put(self, name: str, content: bytes) -> None:
        """Insert or replace, whole or not at all."""
        ...

    async def get(self, name: str) -> bytes | None: ...
    async def remove(self, name: str) -> None:
        """Nothing happens where there is no such file."""
        ...


@frozen
class ProcessedImage:
    """An image made anew from what was uploaded: nothing of it but the pixels is left."""

    content: bytes
    kind: ImageKind


class ImageProcessor(Protocol):
    async def process(self, upload: bytes) -> ProcessedImage:
        """Upright, of bounded size, without metadata. Raises InvalidField on `file` for what is
        no image of a known kind, has too many pixels, or is broken."""
        ...
