"""The people of a run with their sessions, key, conversations and endpoints, in a file by which a
run can be resumed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen

from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.testing.builders import add_companion, add_subscriber, add_user
from staffbooking_adapters.testing.service import make_booking_request
from staffbooking_adapters.wiring import open_ports, upgrade_schema
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import (
    Role,
    Session,
    User,
    csrf_token,
    hash_session_token,
)
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.inputs import CreateApiKey, CreateWebhook
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import api_keys
from staffbooking_core.usecases.bookings import requests
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.webhooks import endpoints
from tests.kills.processes import service_environ
from tests.support.memory_deployment import actor_of


@frozen
class Person:
    """A signed-in user."""

    user_id: int
    email: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Cookie": f"connect.sid={self.token}", "X-CSRF-Token": csrf_token(self.token)}


@frozen
class Pair:
    """A customer and a staff member, who share a conversation."""

    customer: Person
    staff: Person
    conversation_id: int


@frozen
class People:
    pairs: Sequence[Pair]
    agency_key: str
    endpoints: dict[str, int]
    """Endpoint ids by the last part of their URL: `plain` and `ordered` are the agency's, `every`
    is an admin's and gets all events."""
    receiver_port: int
    """The port in the endpoints' URLs."""

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))


def load_people(path: Path) -> People:
    saved: dict[str, Any] = json.loads(path.read_text())
    pairs = [
        Pair(Person(**pair["customer"]), Person(**pair["staff"]), pair["conversation_id"])
        for pair in saved["pairs"]
    ]
    return evolve(People(**saved), pairs=pairs)


async def make_people(database_url: str, receiver_port: int, count: int) -> People:
    """Create the schema and `count` pairs, and endpoints at this port of loopback."""
    settings = load_settings(service_environ(database_url, "http://127.0.0.1"))
    await upgrade_schema(settings)
    async with open_ports(settings) as ports:
        agency, admin = (
            await add_subscriber(ports.store),
            await add_user(ports.store, role=Role.ADMIN),
        )
        key, _ = await api_keys.create(
            ports, agency, CreateApiKey(name="load", permissions=tuple(Permission))
        )

        async def register(owner: User, name: str, **given: Any) -> int:
            wanted = CreateWebhook(url=f"http://127.0.0.1:{receiver_port}/{name}", **given)
            return (await endpoints.register_endpoint(ports, owner, wanted))[0].id

        return People(
            pairs=[await _make_pair(ports) for _ in range(count)],
            agency_key=key,
            endpoints={
                "plain": await register(agency, "plain"),
                "ordered": await register(agency, "ordered", ordered=True),
                "every": await register(admin, "every", events=tuple(EventName)),
            },
            receiver_port=receiver_port,
        )


async def _make_pair(ports: Ports) -> Pair:
    customer = await add_user(ports.store)
    companion = await add_companion(ports.store)
    day = (ports.clock.wall() + timedelta(days=900)).date()
    request = make_booking_request(companion.id, event_date=day)
    await requests.request_booking(ports, actor_of(customer), request)
    found = await messages.list_conversations(ports, actor_of(customer), 1, 1)
    return Pair(
        await _sign_in(ports, customer.id, customer.email),
        await _sign_in(ports, companion.id, ""),
        found[0].conversation.id,
    )


async def _sign_in(ports: Ports, user_id: int, email: str) -> Person:
    token, now = ports.ids.token(), ports.clock.wall()
    session = Session(hash_session_token(token), user_id, created_at=now, seen_at=now)
    await ports.store.run_transaction(lambda tx: tx.accounts.add_session(session))
    return Person(user_id, email, token)
