"""For other ASGI servers: `staffbooking_http.main:create_app` is an application factory that
reads the environment. The application's ports are open during the server's lifespan."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from staffbooking_adapters.extras import check_extra
from staffbooking_adapters.settings import Settings, load_settings
from staffbooking_adapters.wiring import open_ports

if TYPE_CHECKING:
    from litestar import Litestar

    from staffbooking_http.api.endpoint import Receive, Scope, Send
    from staffbooking_http.app import StaffbookingApp


class StandaloneApp:
    """An application that opens its own ports."""

    def __init__(self, settings: Settings) -> None:
        from litestar import Litestar

        self._settings = settings
        self._application: StaffbookingApp | None = None
        self._lifespan_app = Litestar(
            lifespan=[self._lifespan], openapi_config=None, logging_config=None
        )

    @asynccontextmanager
    async def _lifespan(self, _: Litestar) -> AsyncIterator[None]:
        from staffbooking_http.app import create_app as create_application

        async with open_ports(self._settings) as ports:
            application = create_application(
                ports,
                trusted_proxies=self._settings.trusted_proxies,
                allowed_origins=self._settings.allowed_origins,
            )
            async with application.lifespan():
                self._application = application
                yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._application is None:
            await self._lifespan_app(scope, receive, send)  # type: ignore[arg-type]
        else:
            await self._application(scope, receive, send)


def create_app() -> StandaloneApp:
    """The application, with settings from the environment. Raises SettingsError and
    MissingExtra."""
    check_extra("http")
    return StandaloneApp(load_settings(os.environ))
