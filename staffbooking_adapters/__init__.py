"""The adapters implement the core's ports; `wiring` composes them.

`memory_ports`, `sql_ports` and `open_ports` give complete ports. They are imported on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staffbooking_adapters.wiring import memory_ports, open_ports, sql_ports

__all__ = ["memory_ports", "open_ports", "sql_ports"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from staffbooking_adapters import wiring

    return getattr(wiring, name)
