"""The HTTP interface: translates requests into use-case calls and results into responses.

`create_app(ports, ...)` returns the application. It is imported on first use, and needs the extra
`http`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staffbooking_http.app import create_app

__all__ = ["create_app"]


def __getattr__(name: str) -> Any:
    if name != "create_app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from staffbooking_adapters.extras import check_extra

    check_extra("http")
    from staffbooking_http import app

    return app.create_app
