"""For other ASGI servers: `staffbooking_http.main:create_app` is an application factory that
reads the environment. The application's ports are open during the server's lifespan."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar

from staffbooking_adapters.settings import Settings, load_settings
from staffbooking_adapters.wiring import open_ports
from staffbooking_http import app
from staffbooking_http.api.endpoint import Receive, Scope, Send


class StandaloneApp:
    """An application that opens its own ports."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._application: app.StaffbookingApp | None = None
        self._lifespan_app = Litestar(
            lifespan=[self._lifespan], openapi_config=None, logging_config=None
        )

    @asynccontextmanager
    async def _lifespan(self, _: Litestar) -> AsyncIterator[None]:
        async with open_ports(self._settings) as ports:
            application = app.create_app(
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
    """The application, with settings from the environment. Raises SettingsError."""
    return StandaloneApp(load_settings(os.environ))
