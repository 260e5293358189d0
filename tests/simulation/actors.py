"""Actions of people in a history."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from attrs import define, evolve, field

from staffbooking_adapters.fake import documents
from staffbooking_adapters.fake.machine import FakeIntent
from staffbooking_adapters.testing.builders import DAY, HOUR, SECOND
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.operator_inputs import BookingsOfDisabled
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.bookings import disabling
from tests.simulation.clients import ChatClient, Client
from tests.simulation.cluster import Cluster
from tests.simulation.environment import REFUSALS, Environment
from tests.simulation.plan import Action
from tests.simulation.processes import Answer, ConnectionLost
from tests.simulation.promises import MAX_ACTIVE_KEYS

MAX_BOOKINGS = 6
MAX_INQUIRIES = 5
MAX_BURST = 10
"""Maximum number of messages that one member writes while the other reconnects."""
KEPT_REFUSALS = (400, 404, 409, 422)
"""Statuses of refusals that are stored under the key: a repeated call gets the same response."""


_S = BookingStatus
_USUAL_STATUSES = {
    "cancel": (_S.ACCEPTED, _S.PAID),
    "let_down": (_S.ACCEPTED, _S.PAID),
    "act_on_time": (_S.PENDING, _S.ACCEPTED, _S.PAID),
    "pay": (_S.ACCEPTED,),
    "pay_less": (_S.PENDING, _S.ACCEPTED),
    "dispute": (_S.PAID, _S.COMPLETED),
    "report_no_show": (_S.PAID,),
    "resolve": (_S.PAID, _S.DISPUTED, _S.COMPLETED),
    "withdraw": (_S.DISPUTED,),
    "charge_back": (_S.PAID, _S.DISPUTED, _S.COMPLETED),
    "appeal": (_S.PAID, _S.DISPUTED, _S.COMPLETED),
    "move_money": (_S.PAID, _S.DISPUTED, _S.COMPLETED),
    "lose_response": (_S.PENDING, _S.PAID, _S.DISPUTED, _S.COMPLETED),
}
"""The statuses of the bookings that most actions of a name pick."""


@define(eq=False)
class Actors:
    """The people of a history, and the responses that were acknowledged to them."""

    cluster: Cluster
    customers: Sequence[Client]
    staff: Sequence[Client]
    enterprise: Client
    admin: Client
    chats: Sequence[ChatClient]
    tab: ChatClient
    """A second browser of the first customer, which may sign out."""
    environment: Environment
    acknowledged: list[tuple[int, Mapping[str, Any]]] = field(factory=list)
    """The booking's id and record of each response to a change."""
    booking_keys: set[str] = field(factory=set)
    """The idempotency keys of booking requests that may have made a booking."""
    messages: dict[str, int] = field(factory=dict)
    """The ids of the acknowledged messages, by content."""
    once_disabled: set[int] = field(factory=set)
    """The people whose accounts were disabled for some time, who need not get all mails."""
    initial_booking_count: int = 0
    """The number of bookings before the history began."""

    async def act(self, action: Action) -> None:
        self.cluster.world.log(f"action: {action.name} {action.first} {action.second}")
        owner = self if hasattr(self, action.name) else self.environment
        first = await self.environment.aim(action.first, _USUAL_STATUSES.get(action.name, ()))
        await getattr(owner, action.name)(first, action.second)

    # Bookings -------------------------------------------------------------------------------

    async def request(self, first: int, second: int) -> None:
        client = self.customers[first % len(self.customers)]
        await self._make_booking(client, "/bookings", await self._wanted(first, second))

    async def book_by_key(self, first: int, second: int) -> None:
        wanted = await self._wanted(first, second)
        wanted["customer_email"] = self.customers[first % len(self.customers)].email
        await self._make_booking(self.enterprise, "/api/v1/bookings", wanted)

    async def _wanted(self, first: int, second: int) -> dict[str, Any]:
        now = await self.cluster.shared.clock.business()
        return {
            "companion_id": self.staff[second % len(self.staff)].user_id,
            "event_date": (now.date() + DAY * (1 + second % 4)).isoformat(),
            "start_time": f"{(8, 10, 12, 22)[first % 4]:02}:00",
            "duration_hours": (1, 3, 24)[second % 3],
            "service_type": "Gala dinner",
            "location": "Rua Augusta 1, Lisbon",
            "cancellation_insurance": first % 3 == 0,
        }

    async def _make_booking(
        self, client: Client, path: str, wanted: Mapping[str, Any]
    ) -> int | None:
        if len(self.environment.booking_ids) >= MAX_BOOKINGS:
            return None
        key, began = client.next_key(), self.cluster.world.now()
        self.booking_keys.add(key)
        answer = await client.call("POST", path, wanted, key)
        # The service keeps a key for a day: a repetition after that makes a second booking.
        if self.cluster.world.now() - began >= DAY:
            self.booking_keys.add(f"{key} after a day")
        if answer is None or answer.status != 201:
            if answer is not None and answer.status in KEPT_REFUSALS:
                self.booking_keys.remove(key)
            return None
        number: int = answer.body["booking"]["id"]
        if number in self.environment.booking_ids:
            self.cluster.world.report_violation(f"booking {number} was made by two keys")
        self.environment.booking_ids.append(number)
        return number

    async def let_down(self, first: int, second: int) -> None:
        """A staff member cancels, and the customer asks twice for the priority rebooking."""
        if (booking := await self.environment.pick(first)) is None:
            return
        await self._move_as_staff(first, "cancel", {"reason": "ill"})
        client = next(one for one in self.customers if one.user_id == booking.customer_id)
        wanted = [
            {**await self._wanted(first + number, second), "rebooking_of": booking.code}
            for number in range(2)
        ]
        made = await asyncio.gather(
            *(self._make_booking(client, "/bookings", each) for each in wanted)
        )
        if None not in made:
            self.cluster.world.report_violation(
                f"the credit of booking {booking.id} was used twice"
            )

    async def act_on_time(self, first: int, second: int) -> None:
        """Act exactly at a deadline, or too early."""
        if (booking := await self.environment.pick(first)) is None:
            return
        match booking.status:
            case BookingStatus.PENDING:
                await self.environment.jump_to(booking.starts_at)
                await self.accept(first, second)
            case BookingStatus.ACCEPTED:
                page_ends = booking.intent.checkout_expires_at - timedelta(minutes=2)
                await self.environment.jump_to((page_ends, booking.starts_at)[second % 2])
                await self.pay(first, 1 - second % 2)
            case BookingStatus.PAID:
                at = booking.starts_at - (24, 48, 72, 0)[second % 4] * HOUR
                await self.environment.jump_to(at)
                move = (self.cancel, self.cancel, self.dispute, self.confirm)[second % 4]
                await move(first, 1)

    async def accept(self, first: int, _: int) -> None:
        await self._move_as_staff(first, "accept")

    async def decline(self, first: int, _: int) -> None:
        await self._move_as_staff(first, "decline")

    async def check_in(self, first: int, _: int) -> None:
        await self._move_as_staff(first, "check-in")

    async def confirm(self, first: int, second: int) -> None:
        await self._move_as_customer(first, "confirm")

    async def report_no_show(self, first: int, _: int) -> None:
        await self._move_as_customer(first, "no-show")

    async def cancel(self, first: int, second: int) -> None:
        if second % 4 == 0:
            await self._move_as_staff(first, "cancel", {"reason": "ill"})
        else:
            await self._move_as_customer(first, "cancel", {"reason": "rain"})

    async def dispute(self, first: int, _: int) -> None:
        await self._move_as_customer(first, "dispute", {"reason": "nobody came"})

    async def withdraw(self, first: int, _: int) -> None:
        await self._move_as_customer(first, "dispute/withdraw", records=False)

    async def pay(self, first: int, second: int) -> None:
        """Open the hosted page and complete it, at once or later; that call never fails."""
        answer = await self._move_as_customer(first, "checkout", records=False)
        if answer is not None and answer.status < 300:
            page = answer.body["checkout_url"].rpartition("/")[2]
            await asyncio.sleep(second % 2)
            outcome = ("succeed", "succeed", "succeed", "decline", "expire")[second % 5]
            await self.cluster.fake.sandbox.simulate_checkout(page, outcome)

    async def resolve(self, first: int, second: int) -> None:
        """An admin decides a dispute, once or twice. Each time the customer first opens one if none
        is open."""
        for number in (second, second // 4)[: 1 + second % 2]:
            if (booking := await self.environment.pick(first)) is None:
                return
            if booking.status is not BookingStatus.DISPUTED:
                await self.environment.jump_to(booking.starts_at)
                await self.dispute(first, second)
            outcome = ("release", "refund", "split", "split")[number % 4]
            body: dict[str, Any] = {"outcome": outcome, "reason": "heard both"}
            if outcome == "split":  # Up to a fifth above the total, which is refused.
                body["amount"] = 1 + booking.total_amount * (second % 120) // 10_000
            await self.admin.call("POST", f"/api/admin/disputes/{booking.code}/resolve", body)

    async def _move_as_staff(self, first: int, move: str, body: Any = None) -> None:
        if (booking := await self.environment.pick(first)) is not None:
            client = next(one for one in self.staff if one.user_id == booking.companion_id)
            await self._move(client, booking.id, move, body)

    async def _move_as_customer(
        self, first: int, move: str, body: Any = None, *, records: bool = True
    ) -> Answer | None:
        if (booking := await self.environment.pick(first)) is None:
            return None
        client = next(one for one in self.customers if one.user_id == booking.customer_id)
        return await self._move(client, booking.id, move, body, records=records)

    async def _move(
        self, client: Client, number: int, move: str, body: Any, *, records: bool = True
    ) -> Answer | None:
        """Call an action of a booking. Some callers send the version that they know as If-Match."""
        known = [record["version"] for at, record in self.acknowledged if at == number]
        version = self.cluster.world.pick("has read", (None, None, *known[-1:]))
        answer = await client.call("POST", f"/bookings/{number}/{move}", body, version=version)
        if records and answer is not None and "booking" in answer.body:
            record = answer.body["booking"]
            self.acknowledged.append((number, record))
            if version is not None and record["version"] > version + 1:
                text = f"booking {number}: a change of version {version} made {record['version']}"
                self.cluster.world.report_violation(text)
        return answer

    # Messages -------------------------------------------------------------------------------

    async def send_message(self, first: int, _: int) -> None:
        chat = self.chats[first % len(self.chats)]
        client, key = chat.client, chat.client.next_key()
        content = f"by HTTP {key}"
        body = {"content": content, "client_message_id": key}
        path = f"/messages/conversation/{chat.conversation_id}"
        answer = await client.call("POST", path, body)
        if answer is not None and answer.status == 201:
            self.messages[content] = answer.body["message"]["id"]

    async def send_by_channel(self, first: int, _: int) -> None:
        chat = self.chats[first % len(self.chats)]
        content = f"by channel {chat.client.next_key()}"
        if (number := await chat.send(content)) is not None:
            self.messages[content] = number

    async def reconnect(self, first: int, second: int) -> None:
        """A member of the chat loses the connection, and the other member writes meanwhile."""
        self.chats[first % 2].disconnect()
        for _ in range(1 + second % MAX_BURST):
            await self.send_by_channel(first + 1, 0)

    # Credentials ----------------------------------------------------------------------------

    async def revoke_session(self, first: int, _: int) -> None:
        """The last customer signs out, who has no part in the chat."""
        if not self.customers[-1].is_leaving:
            await self.customers[-1].sign_out()

    async def revoke_key(self, first: int, second: int) -> None:
        if second % 3 or self.enterprise.credentials_end is not None:
            return
        owner = self.customers[0]
        listed = await owner.call("GET", "/api/keys")
        if listed is None or listed.status != 200 or not listed.body["keys"]:
            return
        answer = await owner.call("DELETE", f"/api/keys/{listed.body['keys'][-1]['id']}")
        if answer is not None and answer.status < 300:
            self.enterprise.note_end(self.enterprise.headers()[0])

    async def close_tab(self, _: int, __: int) -> None:
        if not self.tab.client.is_leaving:
            await self.tab.client.sign_out()

    async def make_keys(self, _: int, __: int) -> None:
        """The subscriber makes as many keys as an account may have, at the same time (I9)."""
        owner = self.customers[0]
        body = {"name": "crm", "permissions": ["read"]}
        await asyncio.gather(
            *(owner.call("POST", "/api/keys", body) for _ in range(MAX_ACTIVE_KEYS))
        )
        async with self.cluster.shared.store.read_view() as view:
            keys = await view.accounts.api_keys_of(owner.user_id)
        active = sum(key.is_active(self.cluster.shared.clock.wall()) for key in keys)
        if active > MAX_ACTIVE_KEYS:
            self.cluster.world.report_violation(f"an account has {active} active keys")

    async def flood(self, first: int, second: int) -> None:
        """A stranger sends more inquiries than an address may (I9)."""
        world, began = self.cluster.world, self.cluster.shared.clock.wall()
        address = f"198.51.{first % 256}.{second % 256}"
        body = {"name": "Eve", "email": "eve@example.org", "message": "Hello!"}
        admitted = 0
        for server in [*self.cluster.servers()] * MAX_INQUIRIES:
            with suppress(ConnectionLost):
                answer = await server.request("POST", "/contact", [], body, address)
                admitted += answer.status == 201
        is_one_window = self.cluster.shared.clock.wall() - began < HOUR / 2
        if admitted > MAX_INQUIRIES and is_one_window:
            world.report_violation(f"{admitted} inquiries of one address were admitted")

    async def disable(self, first: int, second: int) -> None:
        """Disable an account and mostly enable it again, always for members of the chat."""
        people = (*self.customers[1:], *self.staff)
        client = people[first % len(people)]
        decision = (None, *BookingsOfDisabled)[second % (1 + len(BookingsOfDisabled))]
        self.once_disabled.add(client.user_id)
        with suppress(*REFUSALS):
            await disabling.disable_user(self.cluster.shared, client.email, decision)
        await asyncio.sleep(second % 3)
        if second % 2 or client in [chat.client for chat in self.chats]:
            with suppress(*REFUSALS):
                await administration.enable_user(self.cluster.shared, client.email)
            await client.sign_in()

    async def pay_less(self, first: int, second: int) -> None:
        """The processor charges less than was ordered, as a fault of its own."""
        booking = await self.environment.pick(first)
        if booking is not None and booking.status is BookingStatus.PENDING:
            await self.accept(first, second)
        answer = await self._move_as_customer(first, "checkout", records=False)
        if booking is None or answer is None or answer.status >= 300:
            return
        fake, now = self.cluster.fake, await self.cluster.shared.clock.business()
        self.environment.manually_moved.add(booking.id)
        await documents.lock_and_change_intent(fake.sandbox.store, booking.id, now, _order_less)
        page = answer.body["checkout_url"].rpartition("/")[2]
        await fake.sandbox.simulate_checkout(page, "succeed")

    async def lose_response(self, first: int, second: int) -> None:
        """Money moves, but the response and its event are lost, for up to 25 hours."""
        if (booking := await self.environment.pick(first)) is None:
            return
        kind = ("timeout_before", "timeout_after", "error_500_after")[second % 3]
        sandbox = self.cluster.fake.sandbox
        await sandbox.add_fault("any", kind, 1)
        if second % 2:
            await sandbox.add_fault("any", "conflict", 1)
        await sandbox.add_fault("event", "drop", 1)
        match booking.status:
            case BookingStatus.PENDING:
                await self.accept(first, second)
            case BookingStatus.PAID:
                await self._move_as_customer(first, "cancel", {"reason": "rain"})
            case BookingStatus.DISPUTED:
                await self.resolve(first, second)
            case _ if booking.payout_due_at is not None:
                await self.environment.jump_to(booking.payout_due_at)
        await asyncio.sleep(3)
        await self.environment.advance_wall((SECOND, HOUR, 25 * HOUR)[second % 3])

    async def onboard(self, first: int, _: int) -> None:
        client = self.staff[first % len(self.staff)]
        answer = await client.call("POST", "/staff/payout-account", {})
        if answer is not None and answer.status < 300:
            page = answer.body["onboarding_url"].rpartition("/")[2]
            await self.cluster.fake.sandbox.complete_payee(page)

    async def advance(self, first: int, second: int) -> None:
        """Take the next step of a booking towards its payout."""
        if (booking := await self.environment.pick(first)) is None:
            return
        match booking.status:
            case BookingStatus.PENDING:
                await self.accept(first, second)
            case BookingStatus.ACCEPTED:
                await self.pay(first, 0)
            case BookingStatus.PAID:
                await self.environment.jump_to(booking.ends_at)
                await self.confirm(first, second)
            case _ if booking.payout_due_at is not None:
                await self.environment.jump_to(booking.payout_due_at)


def _order_less(intent: FakeIntent) -> tuple[FakeIntent, None]:
    pages = [
        evolve(page, command=evolve(page.command, amount=page.command.amount - 1))
        for page in intent.pages
    ]
    return evolve(intent, pages=tuple(pages)), None
