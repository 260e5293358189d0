"""Loads the channel over Socket.IO when its first request comes: python-socketio imports clients of
HTTP and Redis too, which take 20 MB and a third of a second."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import anyio.to_thread

from staffbooking_http.api.endpoint import AppContext, Receive, Scope, Send
from staffbooking_http.channel.hub import ChannelHub

if TYPE_CHECKING:
    from staffbooking_http.channel.socketio import SocketIoApp

_MODULE_NAME = "staffbooking_http.channel.socketio"


class SocketIoLoader:
    """The application of Socket.IO, which is imported on demand."""

    def __init__(self, site: AppContext, hub: ChannelHub, origins: Collection[str]) -> None:
        self._arguments = (site, hub, origins)
        self._app: SocketIoApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _MODULE_NAME not in sys.modules:  # In a thread, since others wait for the event loop.
            await anyio.to_thread.run_sync(import_module, _MODULE_NAME)
        if self._app is None:
            self._app = sys.modules[_MODULE_NAME].SocketIoApp(*self._arguments)
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve connections until the context ends; then close them."""
        try:
            yield
        finally:
            if self._app is not None:
                await self._app.close()

    def retire(self) -> None:
        """Close the open connections, for a restart."""
        if self._app is not None:
            self._app.retire()
