"""The suites of a contract as test classes of an adapter's own test module."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

__all__: list[str] = []


def make_suites(base: type, opener: str, opens: Callable[..., Any], name: str) -> dict[str, type]:
    """Test classes for all subclasses of `base` in its package, by their names. Their method
    `opener` is `opens`, without the class as its first argument."""
    package = importlib.import_module(base.__module__.rpartition(".")[0])
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    suites: list[type] = type.__subclasses__(base)
    methods = {opener: staticmethod(opens)}
    return {
        (title := f"Test{name}{suite.__name__}"): type(
            title, (suite,), {**methods, "__doc__": suite.__doc__}
        )
        for suite in suites
        if suite.__module__.startswith(f"{package.__name__}.")
    }
