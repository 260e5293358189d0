"""A pause of the garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Pauses the garbage collection. It would take twice as long as the parsing of syntax trees,
    which make many objects and no garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
