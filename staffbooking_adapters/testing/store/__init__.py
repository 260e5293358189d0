"""The contract of a store as pytest classes.

    @asynccontextmanager
    async def open_my_store(request):
        yield MyStore(POLICY)

    globals().update(store_suites(open_my_store))

in a test module runs the whole contract. One suite alone is a subclass of its class in a module
of this package, with `open_store` as its method.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import pytest

from staffbooking_adapters.testing.store.base import OpenStore, StoreContract
from staffbooking_adapters.testing.suites import make_suites

__all__ = ["OpenStore", "StoreContract", "StoreOpener", "base", "store_suites"]

StoreOpener: TypeAlias = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[OpenStore]]


def store_suites(open_store: StoreOpener, name: str = "") -> dict[str, type[StoreContract]]:
    """All suites on the stores that `open_store` opens, by the names of their test classes."""
    return make_suites(StoreContract, "open_store", open_store, name)
