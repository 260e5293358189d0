"""The load: bookings from request to payout by session and by API key, messages over HTTP and over
WebSockets, contact forms, and a clock on which twenty minutes pass in a second."""

from __future__ import annotations

import asyncio
import json
import random
import time
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import anyio
from attrs import Factory, define
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from tests.kills.checker import LOCATION_PREFIX
from tests.kills.clients import CALL_TIMEOUT_SECONDS, RETRY_DELAY_SECONDS, Client, message_facts
from tests.kills.people import Pair, Person

BUSINESS_SECONDS_PER_SECOND = 1_200
MESSAGE_INTERVAL_SECONDS = 0.03
CONTACT_INTERVAL_SECONDS = 0.1
CLOCK_INTERVAL_SECONDS = 0.5
SERVICE = "gala dinner"


@define(eq=False)
class BusinessClock:
    """The service's clock, which this program moves."""

    start: datetime
    started: float = Factory(time.time)

    def now(self) -> datetime:
        passed = (time.time() - self.started) * BUSINESS_SECONDS_PER_SECOND
        return self.start + timedelta(seconds=passed)

    async def run(self, client: Client, stop: anyio.Event) -> None:
        """Move the service's clock until `stop`."""
        while not stop.is_set():
            wanted = self.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")
            await client.post("clock", "/sandbox/clock", {}, {"set_to": wanted})
            await anyio.sleep(CLOCK_INTERVAL_SECONDS)


@define(eq=False)
class BookingActor:
    """Books a pair's staff member repeatedly, and brings each booking to one of its ends."""

    name: str
    """Unique over all runs of the same folder."""
    pair: Pair
    client: Client
    clock: BusinessClock
    chance: random.Random
    agency_key: str | None
    """Bookings are made by this API key if it is given, else by session."""
    used_hours: set[datetime] = Factory(set)
    ended_later: list[tuple[datetime, int]] = Factory(list)
    """Ends and ids of paid bookings to confirm."""
    count: int = 0

    async def run(self, stop: anyio.Event) -> None:
        scenarios = (
            (self._pay_and_keep, 40),
            (self._pay_and_cancel, 20),
            (self._cancel_against_payment, 10),
            (self._abandon, 10),
            (self._decline, 5),
            (self._rival_requests, 15),
        )
        chosen, weights = zip(*scenarios, strict=True)
        while not stop.is_set():
            await self.chance.choices(chosen, weights)[0]()
            await self._confirm_ended()

    async def _pay_and_keep(self) -> None:
        booking = await self._request(self._free_hour())
        if booking is None or not await self._accept(booking):
            return
        await self._pay(booking)
        with anyio.move_on_after(CALL_TIMEOUT_SECONDS):
            while True:
                if await self._read(booking) != "accepted":
                    break
                await anyio.sleep(RETRY_DELAY_SECONDS)
        if self.chance.random() < 0.5:
            self.ended_later.append((datetime.fromisoformat(booking["ends_at"]), booking["id"]))

    async def _pay_and_cancel(self) -> None:
        booking = await self._request(self._free_hour())
        if booking is None or not await self._accept(booking):
            return
        await self._pay(booking)
        person = self.chance.choice((self.pair.customer, self.pair.staff))
        await self._act("cancel", booking, person)

    async def _cancel_against_payment(self) -> None:
        booking = await self._request(self._free_hour())
        if booking is None or not await self._accept(booking):
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._pay, booking)
            group.start_soon(self._act, "cancel", booking, self.pair.customer)

    async def _abandon(self) -> None:
        if (booking := await self._request(self._free_hour())) is not None:
            await self._accept(booking)

    async def _decline(self) -> None:
        if (booking := await self._request(self._free_hour())) is not None:
            await self._act("decline", booking, self.pair.staff)

    async def _rival_requests(self) -> None:
        """Request one hour twice, and accept both at the same time, of which one succeeds."""
        hour = self._free_hour()
        rivals = [await self._request(hour), await self._request(hour)]
        async with anyio.create_task_group() as group:
            for booking in rivals:
                if booking is not None:
                    group.start_soon(self._accept, booking)

    async def _confirm_ended(self) -> None:
        now = self.clock.now() - timedelta(hours=1)
        due = [id_ for end, id_ in self.ended_later if end < now]
        self.ended_later = [(end, id_) for end, id_ in self.ended_later if end >= now]
        for booking_id in due:
            await self._act("confirm", {"id": booking_id}, self.pair.customer)

    async def _request(self, hour: datetime) -> Any:
        """A new request's record; None if it was refused."""
        key = self._new_key()
        body = {
            "companion_id": self.pair.staff.user_id,
            "event_date": hour.date().isoformat(),
            "start_time": f"{hour:%H:%M}",
            "duration_hours": 1,
            "service_type": SERVICE,
            "location": LOCATION_PREFIX + key,
        }
        if self.agency_key is None:
            headers, path = self.pair.customer.headers, "/bookings"
        else:
            headers, path = {"Authorization": f"Bearer {self.agency_key}"}, "/api/v1/bookings"
            body["customer_email"] = self.pair.customer.email
        answer = await self.client.post("request", path, headers, body, key)
        return answer.get("booking")

    async def _accept(self, booking: Any) -> bool:
        answer = await self._act("accept", booking, self.pair.staff)
        return "booking" in answer

    async def _pay(self, booking: Any) -> None:
        opened = await self._act("checkout", booking, self.pair.customer)
        if (url := opened.get("checkout_url")) is None:
            return
        path, outcome = urlsplit(url).path, {"outcome": "succeed"}
        await self.client.post("pay", path, {}, outcome, paid=booking["id"])

    async def _act(self, op: str, booking: Any, person: Person) -> Any:
        path = f"/bookings/{booking['id']}/{op}"
        return await self.client.post(
            op, path, person.headers, None, self._new_key(), wanted=booking["id"]
        )

    async def _read(self, booking: Any) -> str:
        return await self.client.read_status(self.pair.customer.headers, booking["id"])

    def _free_hour(self) -> datetime:
        """An unused hour of the staff member: in half of the cases a near one, whose booking ends
        during the run, if any is left; otherwise a later one."""
        start = self.clock.now().replace(minute=0, second=0, microsecond=0)
        ahead = range(3, 48) if self.chance.random() < 0.5 else range(48, 2_000)
        hours = {start + timedelta(hours=hour) for hour in ahead} - self.used_hours
        if not hours:
            hours = {start + timedelta(hours=hour) for hour in range(48, 2_000)} - self.used_hours
        hour = self.chance.choice(sorted(hours))
        self.used_hours.add(hour)
        return hour

    def _new_key(self) -> str:
        self.count += 1
        return f"{self.name}-{self.count}"


@define(eq=False)
class HttpWriter:
    """Sends messages over HTTP."""

    name: str
    person: Person
    conversation_id: int
    client: Client

    async def run(self, stop: anyio.Event) -> None:
        count = 0
        while not stop.is_set():
            count += 1
            name = f"{self.name}-{count}"
            body = {"content": message_text(name), "client_message_id": name}
            path = f"/messages/conversation/{self.conversation_id}"
            await self.client.post("message", path, self.person.headers, body, client_id=name)
            await anyio.sleep(MESSAGE_INTERVAL_SECONDS * 4)


@define(eq=False)
class SocketWriter:
    """Sends messages over a WebSocket, and writes the messages that it receives into the book."""

    name: str
    person: Person
    conversation_id: int
    client: Client
    url: str
    origin: str
    last_id: int = 0
    count: int = 0
    started: float = 0.0
    """The Unix time of the first attempt of the message that waits for its ack."""
    is_reading_only: bool = False
    """Whether it sends no more messages, because the load has ended."""
    is_sending: bool = False
    """Whether a message waits for its ack."""

    async def run(self) -> None:
        """Send and read until cancelled; reconnects after each failure."""
        while True:
            try:
                async with connect(
                    f"{self.url.replace('http', 'ws', 1)}/ws?after={self.last_id}",
                    origin=self.origin,  # type: ignore[arg-type]
                    additional_headers=self.person.headers,
                    open_timeout=CALL_TIMEOUT_SECONDS,
                    close_timeout=0.1,
                    compression=None,
                ) as connection:
                    await self._send_messages(connection)
            except* (OSError, WebSocketException, EOFError, TimeoutError):
                pass
            await anyio.sleep(RETRY_DELAY_SECONDS)

    async def _send_messages(self, connection: ClientConnection) -> None:
        async with anyio.create_task_group() as group:
            answers: asyncio.Queue[Any] = asyncio.Queue()
            group.start_soon(self._read, connection, answers)
            while True:
                if self.is_reading_only and not self.is_sending:
                    await anyio.sleep(RETRY_DELAY_SECONDS)
                    continue
                await self._send_next(connection, answers)
                await anyio.sleep(MESSAGE_INTERVAL_SECONDS)

    async def _read(self, connection: ClientConnection, answers: asyncio.Queue[Any]) -> None:
        async for text in connection:
            frame = json.loads(text)
            if frame["event"] == "new_message":
                message = frame["data"]
                # At once: a reader that is cancelled while it writes has seen the message.
                self.last_id = max(self.last_id, message["id"])
                await self.client.book.write(
                    "shown",
                    reader=self.person.user_id,
                    conversation=message["conversation_id"],
                    id=message["id"],
                )
            elif frame["event"] in ("ack", "error"):
                answers.put_nowait(frame)
        raise EOFError

    async def _send_next(self, connection: ClientConnection, answers: asyncio.Queue[Any]) -> None:
        """Send the next message, or repeat one that got no ack over the last connection."""
        if not self.is_sending:
            self.is_sending, self.started = True, time.time()
            self.count += 1
        name = f"{self.name}-{self.count}"
        message = await self._send_until_stored(connection, answers, name)
        # At once: a writer that is cancelled while it writes into the book has its ack.
        self.is_sending = False
        await self.client.book.write(
            "ack",
            op="message",
            server=self.client.server,
            status=201,
            started=self.started,
            client_id=name,
            **message_facts(message),
        )

    async def _send_until_stored(
        self, connection: ClientConnection, answers: asyncio.Queue[Any], name: str
    ) -> Any:
        data = {
            "conversation_id": self.conversation_id,
            "content": message_text(name),
            "client_message_id": name,
        }
        while True:
            frame = {"event": "send_message", "data": data, "ref": name}
            await connection.send(json.dumps(frame))
            with anyio.fail_after(CALL_TIMEOUT_SECONDS):
                answer = await answers.get()
            if answer["event"] == "ack":
                return answer["data"]["message"]
            if answer["data"]["code"] not in ("unavailable", "rate_limited"):
                await self.client.book.write("wrong", path="/ws", status=0, text=str(answer))
            await anyio.sleep(RETRY_DELAY_SECONDS)


async def send_inquiries(name: str, client: Client, stop: anyio.Event) -> None:
    """Send more contact forms than are admitted. None is repeated: an answer may be lost."""
    count = 0
    while not stop.is_set():
        count += 1
        text = message_text(f"{name}-{count}")
        body = {"name": "Ada", "email": "ada@example.com", "message": text}
        started = time.time()
        response = await client.send_once("/contact", body)
        if response is not None and response.status_code == 201:
            await client.book.write(
                "ack",
                op="contact",
                server=client.server,
                status=201,
                started=started,
                text=text,
                window=int(response.headers["x-ratelimit-reset"]),
            )
        await anyio.sleep(CONTACT_INTERVAL_SECONDS)


def message_text(name: str) -> str:
    """A text for a name of numbers: in syllables, since the content filter could take digits for a
    phone number."""
    return " ".join(_in_syllables(int(number)) for number in name.split("-"))


def _in_syllables(number: int) -> str:
    more, last = divmod(number, 4)
    return (_in_syllables(more) if more else "") + ("la", "li", "lo", "lu")[last]
