"""Bookings in a FastAPI application that signs people in by itself: python fastapi_app.py 8000

The database is bookings.db in the working directory. /docs shows the calls; sign in by the header
Authorization: Bearer grace (a customer) or Bearer ada (who is booked).
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import anyio
import bookings
import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse
from people import CUSTOMER, STAFF, add_people, find_actor

from staffbooking_adapters import sql_ports
from staffbooking_core import Actor, Ports, StaffbookingError, error_response
from staffbooking_worker.main import run_worker

EMAIL_BY_TOKEN = {"Bearer grace": CUSTOMER, "Bearer ada": STAFF}
URL = "sqlite+aiosqlite:///bookings.db"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the ports, and do the worker's part beside the requests."""
    stop = anyio.Event()
    async with (
        sql_ports(URL, secret_keys=["change me"], migrate=True) as ports,
        anyio.create_task_group() as tasks,
    ):
        await add_people(ports)
        app.state.ports = ports
        tasks.start_soon(run_worker, ports, stop)
        yield
        stop.set()


app = FastAPI(title="Bookings", lifespan=lifespan)


@app.exception_handler(StaffbookingError)
async def answer_error(_: Request, error: StaffbookingError) -> JSONResponse:
    if (found := error_response(error)) is None:
        raise error
    status, body = found
    return JSONResponse(body, status)


def get_ports(request: Request) -> Ports:
    return request.app.state.ports


OpenPorts = Annotated[Ports, Depends(get_ports)]


async def get_actor(ports: OpenPorts, authorization: Annotated[str, Header()] = "") -> Actor:
    """Who acts is the application's to say: staffbooking keeps no session of these people."""
    if authorization not in EMAIL_BY_TOKEN:
        raise HTTPException(401, "Say who you are: Authorization: Bearer grace")
    return await find_actor(ports, EMAIL_BY_TOKEN[authorization])


Caller = Annotated[Actor, Depends(get_actor)]


@app.post("/bookings", status_code=201)
async def request_booking(ports: OpenPorts, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
    return await bookings.request(ports, caller, body)


@app.get("/bookings/{booking_id}")
async def read_booking(ports: OpenPorts, caller: Caller, booking_id: int) -> dict[str, Any]:
    return await bookings.read(ports, caller, booking_id)


@app.post("/bookings/{booking_id}/accept")
async def accept_booking(ports: OpenPorts, caller: Caller, booking_id: int) -> dict[str, Any]:
    return await bookings.accept(ports, caller, booking_id)


@app.post("/bookings/{booking_id}/pay")
async def pay_booking(ports: OpenPorts, caller: Caller, booking_id: int) -> dict[str, Any]:
    return await bookings.pay(ports, caller, booking_id)


@app.post("/clock/{days}")
async def move_clock(ports: OpenPorts, caller: Caller, days: int) -> dict[str, Any]:
    return await bookings.move_clock(ports, caller, days)


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), lifespan="on")
