"""An in-process deployment: the application on ports that the test controls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from datetime import timedelta
from functools import cached_property
from typing import Any
from unittest import mock

import httpx
from attrs import evolve
from litestar import Litestar, Router
from litestar.events import SimpleEventEmitter

from staffbooking_adapters.chat.local import LocalChat
from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.ics.calendars import IcsCalendars
from staffbooking_adapters.images.processor import PillowImageProcessor
from staffbooking_adapters.memory.companions.calendar_fetcher import MemoryCalendarFetcher
from staffbooking_adapters.memory.doubles import (
    PermissiveContentFilter,
    PlainHasher,
    RecordingNotifier,
    SeededIds,
    VirtualClock,
)
from staffbooking_adapters.memory.files import MemoryFiles
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.memory.webhooks.receivers import MemorySender
from staffbooking_adapters.testing.builders import (
    HOUR,
    NOW,
    POLICY,
    add_api_key,
    add_companion,
    add_session,
    add_user,
    make_api_key_text,
)
from staffbooking_adapters.testing.store import OpenStore
from staffbooking_adapters.vault import KeyringVault
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role, Subscription, User, csrf_token
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_http.app import StaffbookingApp, create_app
from staffbooking_http.docs import openapi

TEST_PASSWORD = "correct horse"
BASE_URL = POLICY.base_url
REQUEST_DATABASE_TIME = timedelta(minutes=1)
"""How long requests wait for the database: longer than a busy machine stands still."""

_ROUTED: dict[object, dict[str, Any]] = {}
"""The attributes of an application that Litestar has made, by the handlers and base path."""

_DOCUMENTS: dict[object, Any] = {}
"""The OpenAPI document, by the families of endpoints and the policy."""


@contextmanager
def shared_routes() -> Iterator[None]:
    """Within it, applications with the same handlers share Litestar's routes, which take 60 ms to
    make, and those with the same policy the OpenAPI document, which takes 10 ms. The handlers find
    all else in the state of the application that was called."""
    make, build = Litestar.__init__, openapi.build_document

    def init(self: StaffbookingApp, handlers: Any, **options: Any) -> None:
        key = (*map(id, handlers), self.site.ports.policy.base_url)
        if key not in _ROUTED:
            make(self, handlers, **options)
            names = {*Litestar.__slots__, *Router.__slots__} - {"__weakref__"}
            _ROUTED[key] = {name: getattr(self, name) for name in names if hasattr(self, name)}
            return
        for name, made in _ROUTED[key].items():
            setattr(self, name, made)
        self.state = options["state"]
        self.asgi_router = copy(self.asgi_router)
        self.asgi_router.app = self
        self._lifespan_managers = options["lifespan"]
        self.event_emitter = SimpleEventEmitter([])  # Its task is of one lifespan.

    def build_document(families: Any, policy: Policy) -> Any:
        key = (*families, repr(policy))
        if key not in _DOCUMENTS:
            _DOCUMENTS[key] = build(families, policy)
        return _DOCUMENTS[key]

    with (
        mock.patch.object(Litestar, "__init__", init),
        mock.patch.object(openapi, "build_document", build_document),
    ):
        yield


class HttpDeployment:
    """The application, its ports and users: customer, companion, subscriber with an API key,
    admin and stranger."""

    def __init__(self, store: OpenStore, **options: Any) -> None:
        self.store = store
        self.clock = VirtualClock(NOW, store=store)
        self.processor = FakeProcessor(
            MemoryFakeDocumentStore(), self.clock, base_url=BASE_URL, secret=b"s" * 32
        )
        self.notifier = RecordingNotifier()
        self.sender = MemorySender()
        self.calendar_fetcher = MemoryCalendarFetcher()
        self.ports = Ports(
            store=store,
            admission=store.admission,
            payments=self.processor,
            clock=self.clock,
            ids=SeededIds(),
            hasher=PlainHasher(),
            vault=KeyringVault(["v" * 32]),
            notifier=self.notifier,
            hints=store.hints,
            webhook_sender=self.sender,
            pubsub=LocalChat(),
            content_filter=PermissiveContentFilter(),
            calendars=IcsCalendars(BASE_URL),
            calendar_fetcher=self.calendar_fetcher,
            files=MemoryFiles(),
            image_processor=PillowImageProcessor(),
            policy=POLICY,
            sandbox=self.processor.sandbox,
        )
        self.restart(**options)

    def restart(self, *, address: str = "203.0.113.9", proxies: Any = (), **ports: Any) -> None:
        """Rebuild the application on changed ports."""
        policy = evolve(
            ports.pop("policy", self.ports.policy), request_database_time=REQUEST_DATABASE_TIME
        )
        self.ports = evolve(self.ports, policy=policy, **ports)
        self.client_address, self._proxies = address, proxies
        self.__dict__.pop("app", None)

    @cached_property
    def app(self) -> StaffbookingApp:
        """The application on these ports, built at first use."""
        with shared_routes():
            return create_app(self.ports, trusted_proxies=self._proxies)

    def require_payout_accounts(self) -> None:
        """Let the processor pay only into accounts whose page was completed."""
        self.processor = FakeProcessor(
            MemoryFakeDocumentStore(),
            self.clock,
            base_url=BASE_URL,
            secret=b"s" * 32,
            manual_payees=True,
        )
        self.restart(payments=self.processor, sandbox=self.processor.sandbox)

    def raise_limits(self, **rules: RateLimit) -> None:
        """Raise all rate limits out of reach of tests, except those given."""
        known = ("general", "bookings", "webhooks", "contact")
        free = {name: RateLimit(name, 100_000, HOUR) for name in known}
        limits = evolve(POLICY.limits, **{**free, **rules})
        self.restart(policy=evolve(POLICY, limits=limits))

    async def add_people(self) -> None:
        """Add the users."""
        hashed = f"plain:{TEST_PASSWORD}"
        self.companion = await add_companion(self.store)
        self.customer = await add_user(
            self.store, email="ada@example.com", password_hash=hashed, first_name="Ada"
        )
        self.stranger = await add_user(self.store, email="sam@example.com", password_hash=hashed)
        self.subscriber = await add_user(
            self.store, email="ops@agency.example", subscription=Subscription.ENTERPRISE
        )
        self.outsider = await add_user(
            self.store, email="it@elsewhere.example", subscription=Subscription.ENTERPRISE
        )
        self.admin = await add_user(self.store, email="root@example.com", role=Role.ADMIN)
        self.api_key = await self.add_api_key(self.subscriber)

    async def add_api_key(self, owner: User, *permissions: Permission, **given: Any) -> str:
        """Add an API key of a user, by default with both permissions."""
        text = make_api_key_text()
        granted = frozenset(permissions or Permission)
        await add_api_key(self.store, owner.id, text, permissions=granted, **given)
        return text

    def client(self, address: str | None = None, **headers: str) -> httpx.AsyncClient:
        """A signed-out client."""
        transport = httpx.ASGITransport(
            self.app,
            raise_app_exceptions=True,
            client=(address or self.client_address, 50_000),
        )
        return httpx.AsyncClient(transport=transport, base_url=BASE_URL, headers=headers)

    def client_with_key(self, key: str | None = None) -> httpx.AsyncClient:
        """A client with an API key, by default the subscriber's."""
        return self.client(authorization=f"Bearer {key or self.api_key}")

    async def signed_in_client(self, user_id: int) -> httpx.AsyncClient:
        """A signed-in client that sends its CSRF token."""
        token = self.ports.ids.token()
        await add_session(self.store, user_id, token=token, seen_at=self.clock.now)
        return self.client(cookie=f"connect.sid={token}", **{"x-csrf-token": csrf_token(token)})

    def request_body(self, **given: Any) -> dict[str, Any]:
        """A valid booking request by API key: in two days, for four hours."""
        body = {
            "companion_id": self.companion.id,
            "event_date": "2027-03-03",
            "start_time": "18:00",
            "duration_hours": 4,
            "service_type": "Gala dinner",
            "location": "Rua Augusta 1, Lisbon",
            "customer_email": self.customer.email,
        }
        return {**body, **given}


def json_body(answer: httpx.Response, status: int = 200) -> Any:
    """The JSON body of a response, which must have this status."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text}"
    return answer.json()


def error_body(answer: httpx.Response, status: int, code: str) -> Any:
    """The body of an error response, which must have this status, code and schema."""
    body = json_body(answer, status)
    assert body["code"] == code, body
    assert isinstance(body["error"], str)
    assert answer.headers["content-type"] == "application/json"
    return body


def error_fields(answer: httpx.Response) -> set[str]:
    """The field names of an error."""
    return {fault["field"] for fault in answer.json()["errors"]}
