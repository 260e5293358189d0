"""The worker inside an asyncio service that has work of its own: python worker.py

The service ends on SIGTERM or SIGINT: what is under way is finished first. The database is
bookings.db in the working directory, which other processes may share.
"""

import asyncio
import signal

import anyio
from people import add_people

from staffbooking_adapters import sql_ports
from staffbooking_worker.main import run_worker

URL = "sqlite+aiosqlite:///bookings.db"


async def count_sheep(stop: anyio.Event) -> None:
    """The service's own work."""
    count = 0
    while not stop.is_set():
        count += 1
        with anyio.move_on_after(1):
            await stop.wait()
    print(f"counted {count} sheep", flush=True)


async def main() -> None:
    stop = anyio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with sql_ports(URL, secret_keys=["change me"], migrate=True) as ports:
        await add_people(ports)
        print("working", flush=True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run_worker(ports, stop))
            tasks.create_task(count_sheep(stop))
    print("stopped", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
