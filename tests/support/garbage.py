"""Work that makes many objects and no garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect no garbage for a while: to look for some among the nodes of syntax trees takes twice
    as long as to parse them."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
