"""The whole service below /booking of another Litestar application: python litestar_app.py 8000

The other application has its own routes and plugins; the service's pages, interface and real-time
channel are at http://127.0.0.1:8000/booking/. The database is bookings.db in the working directory.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import uvicorn
from attrs import evolve
from litestar import Litestar, asgi, get
from litestar.config.app import AppConfig
from litestar.datastructures import ResponseHeader
from litestar.plugins import InitPlugin
from litestar.types import Receive, Scope, Send
from people import add_people

from staffbooking_adapters import sql_ports
from staffbooking_core import Policy, Ports
from staffbooking_http import create_app
from staffbooking_worker.main import run_worker

URL = "sqlite+aiosqlite:///bookings.db"


@get("/", sync_to_thread=False)
def home() -> dict[str, str]:
    return {"bookings": "/booking/"}


class Greeting(InitPlugin):
    """A plugin of the outer application; the service does not see it."""

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        header = ResponseHeader(name="x-agency", value="Ada & Grace")
        app_config.response_headers = [*app_config.response_headers, header]
        return app_config


def mount(ports: Ports) -> Litestar:
    """The outer application; it enters the service's lifespan, which opens the channel."""
    service = create_app(ports)

    @asgi("/booking", is_mount=True, copy_scope=True)
    async def booking(scope: Scope, receive: Receive, send: Send) -> None:
        await service(scope, receive, send)

    return Litestar([home, booking], lifespan=[lambda _: service.lifespan()], plugins=[Greeting()])


@asynccontextmanager
async def open_ports(base_url: str) -> AsyncIterator[Ports]:
    """The ports, with the worker's part beside them. The links of the service begin with its base
    URL, so that it ends in the prefix."""
    stop = anyio.Event()
    policy = evolve(Policy(), base_url=base_url, sandbox=True)
    async with (
        sql_ports(URL, secret_keys=["change me"], policy=policy, migrate=True) as ports,
        anyio.create_task_group() as tasks,
    ):
        await add_people(ports)
        tasks.start_soon(run_worker, ports, stop)
        yield ports
        stop.set()


async def main(port: int) -> None:
    async with open_ports(f"http://127.0.0.1:{port}/booking") as ports:
        await uvicorn.Server(uvicorn.Config(mount(ports), port=port)).serve()


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]))
