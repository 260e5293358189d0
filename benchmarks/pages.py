"""`python -m benchmarks.pages`: the server time of each page beside the JSON calls of its data.

The application runs in this process on a temporary PostgreSQL with the sample data of `demo`; each
page and its JSON calls are asked for in turn, so that both see the same machine. A page may take
three times as long as the JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from attrs import evolve, frozen

from benchmarks.measure import PostgresCluster, run_cluster
from staffbooking_adapters import wiring
from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.sql.schema.upgrade import run_migrations
from staffbooking_cli.sample import seed
from staffbooking_cli.sample.companions import PASSWORD, STAFF_EMAIL
from staffbooking_cli.sample.participants import CUSTOMER_EMAIL
from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.inputs import Login
from staffbooking_core.ports import Ports
from staffbooking_core.representations.messaging import conversation_record
from staffbooking_core.usecases.accounts import administration, sessions
from staffbooking_core.usecases.bookings import actions
from staffbooking_core.usecases.messaging import messages
from staffbooking_http.app import StaffbookingApp, create_app

MAX_RATIO = 3.0


@frozen
class PageCase:
    """A page, and the JSON calls with the data that it shows."""

    name: str
    path: str
    json_paths: tuple[str, ...]
    role: str = "customer"


@frozen
class PageTime:
    """The median times of a page and of its JSON calls, in microseconds."""

    case: PageCase
    page: float
    json: float
    page_bytes: int

    @property
    def ratio(self) -> float:
        return self.page / self.json


class Caller:
    """Calls an application without a network, as one user."""

    def __init__(self, app: StaffbookingApp, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self._app, self._headers = app, headers

    async def get(self, target: str) -> tuple[int, int]:
        """The status and the length of the response."""
        path, _, query = target.partition("?")
        status = length = 0

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status, length
            status = message.get("status", status)
            length += len(message.get("body", b""))

        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"localhost"), *self._headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        await self._app(scope, receive, send)
        return status, length


async def measure(ports: Ports, sample: seed.DemoSample, rounds: int) -> list[PageTime]:
    """The times of all pages, on a store with the sample data."""
    app = create_app(_without_page_limit(ports))
    customer = await _sign_in(app, ports, CUSTOMER_EMAIL)
    staff = await _sign_in(app, ports, STAFF_EMAIL)
    key = [(b"authorization", f"Bearer {sample.key}".encode())]
    program = Caller(app, key)
    users = {"customer": customer, "staff": staff, "nobody": Caller(app, [])}
    cases = _cases(*await _find_targets(ports), sample.staff.id)
    return [await _measure_case(case, users[case.role], program, rounds) for case in cases]


def _without_page_limit(ports: Ports) -> Ports:
    """The ports with a limit of public pages that no measurement reaches. No setting has it."""
    limits = evolve(ports.policy.limits, pages=RateLimit("pages", 10**9, timedelta(hours=1)))
    return evolve(ports, policy=evolve(ports.policy, limits=limits))


def _cases(booking: int, talk: int, companion: int) -> Sequence[PageCase]:
    month = "start_date=2027-01-01&end_date=2027-01-31"
    detail = f"/api/v1/companions/{companion}"
    free_days = f"{detail}/availability?{month}"
    return (
        PageCase("home, customer", "/", ("/bookings?limit=50", "/messages?limit=4")),
        PageCase("home, staff", "/", ("/bookings?limit=50", "/messages?limit=4"), "staff"),
        PageCase("all bookings", "/history", ("/bookings?limit=20",)),
        PageCase("booking", f"/bookings/{booking}/return", (f"/bookings/{booking}",)),
        PageCase("search", "/find?location=lisbon", ("/api/v1/companions?location=lisbon",)),
        PageCase("profile", f"/companions/{companion}", (detail, free_days)),
        PageCase("profile, signed out", f"/companions/{companion}", (detail, free_days), "nobody"),
        PageCase("request", f"/companions/{companion}/request", (detail, free_days)),
        PageCase("messages", "/conversations", ("/messages?limit=20",)),
        PageCase(
            "conversation",
            f"/conversations/{talk}",
            (f"/messages/conversation/{talk}", "/messages?limit=20"),
        ),
    )


async def _measure_case(case: PageCase, user: Caller, program: Caller, rounds: int) -> PageTime:
    page, answers, size = [], [], 0
    for number in range(-5, rounds):
        start = perf_counter()
        status, size = await user.get(case.path)
        middle = perf_counter()
        for path in case.json_paths:
            caller = program if path.startswith("/api/") else user
            json_status, _ = await caller.get(path)
            assert json_status == 200, (path, json_status)
        end = perf_counter()
        assert status == 200, (case.path, status)
        if number >= 0:
            page.append(middle - start)
            answers.append(end - middle)
    micro = 1_000_000
    return PageTime(case, statistics.median(page) * micro, statistics.median(answers) * micro, size)


async def _sign_in(app: StaffbookingApp, ports: Ports, email: str) -> Caller:
    _, token = await sessions.login(ports, Login(email=email, password=PASSWORD), "127.0.0.1")
    cookie = f"connect.sid={token}".encode()
    return Caller(app, [(b"cookie", cookie), (b"accept", b"text/html")])


async def _find_targets(ports: Ports) -> tuple[int, int]:
    """A booking and a conversation of the customer."""
    customer = await administration.get_user(ports, CUSTOMER_EMAIL)
    actor = Actor(customer.id, customer.role)
    [booking, *_] = await actions.list_bookings(
        ports, actor, role=None, status=BookingStatus.COMPLETED, page=1, limit=1
    )
    [talk, *_] = await messages.list_conversations(ports, actor, 1, 1)
    return booking.id, conversation_record(talk, customer.id)["id"]


def print_report(times: Sequence[PageTime]) -> None:
    """Print a table of all pages."""
    print(f"{'page':24}{'page µs':>10}{'JSON µs':>10}{'ratio':>8}{'KiB':>8}")
    for each in times:
        mark = "" if each.ratio <= MAX_RATIO else "  over"
        print(
            f"{each.case.name:24}{each.page:10.0f}{each.json:10.0f}{each.ratio:8.2f}"
            f"{each.page_bytes / 1024:8.1f}{mark}"
        )


async def _run(rounds: int, cluster: PostgresCluster, folder: Path) -> list[PageTime]:
    url = await cluster.server.create_database("pages")
    await run_migrations(url)
    environ = {
        "STAFFBOOKING_DATABASE_URL": url,
        "STAFFBOOKING_LIMITS": "general=1000000000/1h",
        "STAFFBOOKING_FILES_DIR": str(folder / "media"),
    }
    async with _open_ports(environ, sandbox="1") as ports:
        await seed.fill_database(ports)
        sample = await seed.load_sample(ports, folder)
    # The sandbox reads its clock from the store for a page; the service itself does not.
    async with _open_ports(environ, sandbox="0") as ports:
        return await measure(ports, sample, rounds)


def _open_ports(environ: Mapping[str, str], *, sandbox: str) -> AbstractAsyncContextManager[Ports]:
    settings = load_settings({**environ, "STAFFBOOKING_SANDBOX": sandbox})
    return wiring.open_ports(settings, is_long_running=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="of each page")
    rounds = parser.parse_args().rounds
    with run_cluster() as cluster, TemporaryDirectory(prefix="bench-") as folder:
        print_report(asyncio.run(_run(rounds, cluster, Path(folder))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
