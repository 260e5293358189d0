"""The contract of a store as pytest classes.

    @asynccontextmanager
    async def open_my_store(request):
        yield MyStore(POLICY)

    globals().update(store_suites(open_my_store))

in a test module runs the whole contract. One suite alone is a subclass of its class in a module
of this package, with `open_store` as its method.
"""

import importlib
import pkgutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import pytest

from staffbooking_adapters.testing.store.base import OpenStore, StoreContract

__all__ = ["OpenStore", "StoreContract", "StoreOpener", "base", "store_suites"]

StoreOpener: TypeAlias = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[OpenStore]]


def store_suites(open_store: StoreOpener, name: str = "") -> dict[str, type[StoreContract]]:
    """All suites on the stores that `open_store` opens, by the names of their test classes."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return {
        (title := f"Test{name}{suite.__name__}"): type(
            title, (suite,), {"open_store": staticmethod(open_store), "__doc__": suite.__doc__}
        )
        for suite in StoreContract.__subclasses__()
        if suite.__module__.startswith(f"{__name__}.")
    }
