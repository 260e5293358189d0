"""An object that is no port is refused with a message that names the port and what is missing."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, get_type_hints
from unittest.mock import AsyncMock

import pytest
from attrs import evolve, fields

from staffbooking_adapters import memory_ports, open_ports, sql_ports
from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.companions.saved import SavedReader
from staffbooking_adapters.memory.doubles import RecordingNotifier
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.port_checks import (
    Adapters,
    MemoryAdapters,
    check_adapters,
    check_store,
)
from staffbooking_adapters.settings import Settings
from staffbooking_adapters.system import SystemClock
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Email, Ports

pytestmark = pytest.mark.anyio


class NoMails:
    async def alert_operators(self, booking_id: int, text: str) -> None: ...


class Plain(NoMails):
    def send_email(self, email: Email) -> None: ...


class NoParameter(NoMails):
    async def send_email(self) -> None: ...


class NoMethod(NoMails):
    send_email = "ada@example.com"


class Renamed(NoMails):
    async def send_email(self, mail: Email) -> None: ...


class Delegating(NoMails):
    def send_email(self, email: Email) -> Awaitable[None]:
        return RecordingNotifier().send_email(email)


class AsyncChat:
    async def publish(self, broadcast: Any) -> None: ...

    def publish_messages_stored(self) -> None: ...

    async def subscribe(self, subscriber: Any) -> Any:
        yield


PORT = "staffbooking_core.ports.Notifier"
WRONG: dict[str, tuple[Any, str]] = {
    "a missing method": (NoMails(), f"notifier: NoMails is no {PORT}: it has no method send_email"),
    "a plain method": (Plain(), "its send_email must be a coroutine function (async def)"),
    "a missing parameter": (NoParameter(), "its send_email must take (email)"),
    "a value": (NoMethod(), "its send_email is no method"),
    "a class": (RecordingNotifier, "RecordingNotifier is a class; an object of it is needed"),
    "nothing": (None, f"None is no {PORT}: it has none of its methods"),
    "a text": ("mail", f"str is no {PORT}: it has none of its methods"),
    "a renamed parameter": (Renamed(), "must take (email), by these names, not mail"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_wrong_notifier_is_refused(case: str) -> None:
    """Each opening refuses an object that is no port, by its name and what is missing."""
    notifier, message = WRONG[case]
    url = "sqlite+aiosqlite:///nowhere.db"
    with pytest.raises(TypeError) as in_memory:
        memory_ports(notifier=notifier)
    with pytest.raises(TypeError) as on_a_database:
        async with sql_ports(url, secret_keys=["key"], notifier=notifier):
            pass
    with pytest.raises(TypeError) as by_settings:
        async with open_ports(Settings(url, ("key",), Policy()), notifier=notifier):
            pass
    for refused in (in_memory, on_a_database, by_settings):
        assert message in str(refused.value)


def test_type_checkers_know_all_adapters() -> None:
    """The types of adapters are those of the fields of `Ports`, but for the policy, which has a
    parameter of its own."""
    ports = {name: kind for name, kind in get_type_hints(Ports).items() if name != "policy"}
    assert get_type_hints(MemoryAdapters) == ports


def test_type_checkers_know_what_a_database_gives() -> None:
    """On a database the same adapters can be given, but for the store and what belongs to it."""
    of_the_database = MemoryAdapters.__annotations__.keys() - Adapters.__annotations__.keys()
    assert of_the_database == {"store", "admission", "hints"}


def test_all_faults_are_listed() -> None:
    """One message lists the faults of all adapters."""
    with pytest.raises(TypeError) as refused:
        check_adapters({"notifier": Plain(), "pubsub": AsyncChat(), "policy": 7})
    assert str(refused.value).split("; ") == [
        f"notifier: Plain is no {PORT}: its send_email must be a coroutine function (async def)",
        "pubsub: AsyncChat is no staffbooking_core.ports.PubSub: its publish must be a plain "
        "function (def) that returns None, its subscribe must be decorated with "
        "contextlib.asynccontextmanager",
        "policy: int is no Policy",
    ]


def test_a_store_needs_its_companions() -> None:
    """A store without admission and hints is refused by their names."""
    ports = memory_ports()

    class BareStore:
        def __getattr__(self, name: str) -> Any:
            if name in ("admission", "hints"):
                raise AttributeError(name)
            return getattr(ports.store, name)

    with pytest.raises(TypeError, match="BareStore has no admission and hints: give admission and"):
        memory_ports(store=BareStore())
    with pytest.raises(TypeError, match="BareStore has no hints: give hints too"):
        memory_ports(store=BareStore(), admission=ports.admission)
    given = memory_ports(store=BareStore(), admission=ports.admission, hints=ports.hints)
    assert given.hints is ports.hints


@pytest.mark.parametrize("notifier", [Delegating(), AsyncMock()], ids=["delegating", "mock"])
def test_what_may_be_awaited_is_accepted(notifier: Any) -> None:
    """A plain method that is declared to return an awaitable, and a mock, are accepted."""
    check_adapters({"notifier": notifier})


def test_our_own_adapters_are_accepted() -> None:
    """All ports in memory pass the check by their names."""
    ports = memory_ports()
    check_adapters({field.name: getattr(ports, field.name) for field in fields(Ports)})


def test_an_unknown_name_is_refused() -> None:
    """A name that is no port is refused."""
    with pytest.raises(TypeError, match="no ports that can be replaced: notifer"):
        memory_ports(notifer=RecordingNotifier())  # type: ignore[call-arg]


def test_a_name_that_is_no_text_is_refused() -> None:
    """An attribute of a processor that must be a text is refused by its value."""

    class Nameless(FakeProcessor):
        name: Any = 5

    wrong = Nameless(MemoryFakeDocumentStore(), SystemClock(), base_url="", secret=b"")
    with pytest.raises(TypeError, match="its name must be a str, and is 5"):
        memory_ports(payments=wrong)


async def test_a_policy_is_a_policy() -> None:
    """A dict is refused as policy, an empty one too."""
    wrong: Any = {}
    with pytest.raises(TypeError, match="policy: dict is no Policy"):
        memory_ports(wrong)
    with pytest.raises(TypeError, match="policy: dict is no Policy"):
        async with sql_ports("sqlite+aiosqlite:///nowhere.db", secret_keys=["key"], policy=wrong):
            pass


def test_a_naive_time_is_refused() -> None:
    """A time without a timezone is refused by the name of its parameter."""
    with pytest.raises(ValueError, match="now must be aware"):
        memory_ports(now=datetime(2027, 3, 1))


async def test_the_families_of_a_store_are_checked() -> None:
    """A family without methods, and one with a plain method, are refused by their names."""

    class PlainSaved(SavedReader):
        has_saved: Any = lambda self, customer_id, companion_id: False

    class Wrong(MemoryStore):
        @asynccontextmanager
        async def read_view(self) -> Any:
            async with super().read_view() as view:
                wrong: Any = {"payees": object(), "saved": PlainSaved(self._committed)}
                yield evolve(view, **wrong)

    with pytest.raises(TypeError) as refused:
        await check_store(Wrong(Policy()))
    assert str(refused.value).split("; ") == [
        "ReadView.payees: object is no staffbooking_core.ports.PayeesReadPort: "
        "it has none of its methods",
        "ReadView.saved: PlainSaved is no staffbooking_core.ports.SavedReadPort: "
        "its has_saved must be a coroutine function (async def)",
    ]
    await check_store(MemoryStore(Policy()))
