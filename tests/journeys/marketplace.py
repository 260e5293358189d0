"""A running marketplace: real server and worker, the demo's sample, bookings in every state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx
from attrs import define, field

from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.wiring import upgrade_schema
from staffbooking_cli.sample.companions import PASSWORD, STAFF_EMAIL
from staffbooking_cli.sample.participants import ADMIN_EMAIL, CUSTOMER_EMAIL, ENTERPRISE_EMAIL
from staffbooking_cli.sample.seed import fill_database
from staffbooking_cli.session import ready_ports
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.accounts.administration import CreateUser
from tests.e2e.deployment import ProcessDeployment, json_body
from tests.support.service_processes import start_command

EMAILS = {
    "customer": CUSTOMER_EMAIL,
    "staff": STAFF_EMAIL,
    "enterprise": ENTERPRISE_EMAIL,
    "admin": ADMIN_EMAIL,
    "newcomer": "newcomer@demo.test",
    "beginner": "beginner@demo.test",
}
"""E-mail addresses by name: the sample's accounts, a customer who has no booking yet (newcomer),
and a staff member whose profile is empty (beginner)."""
_NEWCOMER = CreateUser(
    email=EMAILS["newcomer"],
    first_name="Nora",
    last_name="Lind",
    role=Role.CUSTOMER,
    password=PASSWORD,
)
_BEGINNER = CreateUser(
    email=EMAILS["beginner"],
    first_name="Bela",
    last_name="Horn",
    role=Role.STAFF,
    password=PASSWORD,
)
SERVICE = "Bartender"
LOCATION = "Rua do Alecrim 12, Lisbon"
START_TIME, HOURS = "18:00", 4
_FIRST_DAY_AHEAD = 8


@define
class Marketplace:
    """The running processes, and helpers that read and change their data by the API."""

    deployment: ProcessDeployment
    _clients: dict[str, httpx.Client] = field(factory=dict)
    _days_used: int = 0
    names: dict[str, str] = field(factory=dict)
    """Ids of users and of bookings by state, which paths of pages are filled in with.
    `fill_states` sets them."""

    @property
    def url(self) -> str:
        return self.deployment.url

    def client(self, role: str) -> httpx.Client:
        """An API client with the session of a role."""
        if role not in self._clients:
            self._clients[role] = self.deployment.sign_in(EMAILS[role], PASSWORD)
        return self._clients[role]

    def user_id(self, role: str) -> int:
        user_id: int = json_body(self.client(role).get("/auth/session"))["user"]["id"]
        return user_id

    def path(self, template: str) -> str:
        """A page's path with its names filled in."""
        return template.format_map(self.names)

    # Time ---------------------------------------------------------------------------

    def now(self) -> datetime:
        """The service's business time."""
        return self.advance_clock(timedelta())

    def advance_clock(self, by: timedelta) -> datetime:
        given = {"advance_seconds": int(by.total_seconds())}
        answer = httpx.post(f"{self.url}/sandbox/clock", json=given)
        return datetime.fromisoformat(json_body(answer)["now"])

    def move_clock(self, to: datetime) -> None:
        """Move the clock ahead to an instant; nothing if it is past."""
        self.advance_clock(max(timedelta(), to - self.now() + timedelta(seconds=1)))

    def unused_day(self) -> date:
        """A day on which no test has booked the staff member yet."""
        self._days_used += 1
        return self.now().date() + timedelta(days=_FIRST_DAY_AHEAD + self._days_used)

    def available_day(self) -> date:
        """An unused day on which the staff member can be booked."""
        day = self.unused_day()
        while not self.is_available(day):
            day = self.unused_day()
        return day

    def is_available(self, day: date) -> bool:
        """Whether the customer can book the staff member on a day, by a quote."""
        wanted = {
            "companion_id": self.user_id("staff"),
            "event_date": day.isoformat(),
            "start_time": START_TIME,
            "duration_hours": HOURS,
            "service_type": SERVICE,
        }
        answer = self.client("customer").post("/quotes", json=wanted)
        available: bool = json_body(answer)["quote"]["available"]
        return available

    # Bookings -----------------------------------------------------------------------

    def booking(self, booking_id: int, role: str = "customer") -> dict[str, Any]:
        found: dict[str, Any] = json_body(self.client(role).get(f"/bookings/{booking_id}"))
        booking: dict[str, Any] = found["booking"]
        return booking

    def request_booking(self, **changes: Any) -> dict[str, Any]:
        """A request of the customer to the staff member, on the next free day."""
        wanted = {
            "companion_id": self.user_id("staff"),
            "start_time": START_TIME,
            "duration_hours": HOURS,
            "service_type": SERVICE,
            "location": LOCATION,
        }
        for _ in range(20):
            given = {**wanted, "event_date": self.unused_day().isoformat(), **changes}
            answer = self.client("customer").post("/bookings", json=given)
            if answer.json().get("code") != "companion_unavailable":
                break
        booking: dict[str, Any] = json_body(answer, 201)["booking"]
        return booking

    def act(self, role: str, booking_id: int, step: str, **given: Any) -> dict[str, Any]:
        """Do a step of a booking by the API; returns the answer."""
        answer = self.client(role).post(f"/bookings/{booking_id}/{step}", json=given)
        done: dict[str, Any] = json_body(answer)
        return done

    def wait_for_status(self, booking_id: int, status: str) -> None:
        def look() -> bool | None:
            return True if self.booking(booking_id)["status"] == status else None

        self.deployment.wait_for(look, f"booking {booking_id} becomes {status}")

    def pay(self, booking_id: int) -> str:
        """Pay a booking; returns the address of its checkout page."""
        page: str = self.act("customer", booking_id, "checkout")["checkout_url"]
        json_body(httpx.post(page, json={"outcome": "succeed"}))
        self.wait_for_status(booking_id, "paid")
        return page

    def paid_booking(self, **changes: Any) -> dict[str, Any]:
        made = self.request_booking(**changes)
        self.act("staff", made["id"], "accept")
        self.pay(made["id"])
        return made


@contextmanager
def run_marketplace(folder: Path) -> Iterator[Marketplace]:
    """Server and worker on a new SQLite file with the demo's sample."""
    deployment = ProcessDeployment(folder, f"sqlite+aiosqlite:///{folder}/staffbooking.db")
    deployment.start = start_command  # As people start it, so that it loads modules in their order.
    deployment.environ |= {
        "STAFFBOOKING_LIMITS": "general=1000000/1h,bookings=1000000/1h,webhooks=1000000/1h",
        "STAFFBOOKING_WEBHOOK_ALLOW_INSECURE": "1",
        "STAFFBOOKING_FILES_DIR": str(folder),
    }
    try:
        _fill(deployment.environ)
        deployment.start_server()
        deployment.start_worker()
        yield Marketplace(deployment)
    finally:
        deployment.close()


def _fill(environ: Mapping[str, str]) -> None:
    """Fill the database in a thread of its own: Playwright's loop may run in this one."""

    async def work() -> None:
        settings = load_settings(environ)
        await upgrade_schema(settings)
        async with ready_ports(settings) as ports:
            await fill_database(ports)
            for newcomer in (_NEWCOMER, _BEGINNER):
                await administration.create_user(ports, newcomer)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(anyio.run, work).result()
