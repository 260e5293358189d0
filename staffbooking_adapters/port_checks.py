"""The adapters that a program may give: their types, and checks that they have the methods of
their ports before anything calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, TypedDict, get_args, get_type_hints

from staffbooking_core.ports import (
    Admission,
    CalendarFetcher,
    Calendars,
    Clock,
    ContentFilter,
    FileStorage,
    Hasher,
    Hints,
    IdGenerator,
    ImageProcessor,
    Notifier,
    PaymentProcessor,
    Ports,
    PubSub,
    ReadView,
    SandboxProcessor,
    Store,
    Transaction,
    Vault,
    WebhookSender,
)


class Adapters(TypedDict, total=False):
    """The adapters that may replace those on a database, by their names in `Ports`."""

    payments: PaymentProcessor
    clock: Clock
    ids: IdGenerator
    hasher: Hasher
    vault: Vault
    notifier: Notifier
    webhook_sender: WebhookSender
    pubsub: PubSub
    content_filter: ContentFilter
    calendars: Calendars
    calendar_fetcher: CalendarFetcher
    files: FileStorage
    image_processor: ImageProcessor
    sandbox: SandboxProcessor | None


class MemoryAdapters(Adapters, total=False):
    """The adapters that may replace those in memory: the store and what belongs to it too."""

    store: Store
    admission: Admission
    hints: Hints


_AWAITABLES = ("Awaitable", "Coroutine", "Future", "Task", "Any")
"""A plain function whose return type contains one of these words may be a coroutine's caller."""

_STORE_PORTS = ("admission", "hints")
"""Ports that a store has as attributes, unless they are given."""


def check_adapters(
    adapters: Mapping[str, Any], database_ports: Collection[str] = (), now: datetime | None = None
) -> None:
    """Check adapters by the names of their ports, and the time at which a clock shall stand.

    Raises TypeError, which lists every fault: a name that is no port or one of
    `database_ports`, a missing method, parameters that it does not take, a coroutine function in
    place of a plain one or the reverse. Raises ValueError for a naive `now`.
    """
    if now is not None and now.tzinfo is None:
        raise ValueError("now must be aware: give it a timezone, such as datetime.UTC")
    ports = get_type_hints(Ports)
    if unknown := adapters.keys() - ports.keys():
        raise TypeError(f"no ports that can be replaced: {', '.join(sorted(unknown))}")
    if fixed := adapters.keys() & set(database_ports):
        raise TypeError(f"can't be replaced on a database: {', '.join(sorted(fixed))}")
    faults = [
        f"{name}: {fault}"
        for name, adapter in adapters.items()
        for fault in _faults(adapter, ports[name])
    ]
    store = adapters.get("store")
    absent = [name for name in _STORE_PORTS if name not in adapters and not hasattr(store, name)]
    if store and absent:
        names = " and ".join(absent)
        faults.append(f"store: {_name_of(store)} has no {names}: give {names} too")
    if faults:
        raise TypeError("; ".join(faults))


async def check_store(store: Store) -> None:
    """Check a store and each family of it, in a view and in a transaction that is rolled back.

    Raises TypeError, which lists every fault as `check_adapters` does.
    """
    faults = [f"store: {fault}" for fault in _faults(store, Store)]
    if not faults:
        async with store.read_view() as view:
            faults += _faults_of_families(view, ReadView)

        async def work(transaction: Transaction) -> None:
            faults.extend(_faults_of_families(transaction, Transaction))
            raise _RolledBack

        with suppress(_RolledBack):
            await store.run_transaction(work)
    if faults:
        raise TypeError("; ".join(faults))


class _RolledBack(Exception):
    """Ends the transaction of a check."""


def _faults_of_families(families: object, bundle: type) -> list[str]:
    return [
        f"{bundle.__name__}.{name}: {fault}"
        for name, port in get_type_hints(bundle).items()
        for fault in _faults(getattr(families, name, None), port)
    ]


def _faults(adapter: object, port: Any) -> Iterator[str]:
    kinds = get_args(port) or (port,)
    port = kinds[0]
    if adapter is None and type(None) in kinds:
        return
    if not getattr(port, "_is_protocol", False):
        if not isinstance(adapter, port):
            yield f"{_name_of(adapter)} is no {port.__name__}"
        return
    if isinstance(adapter, type):
        yield f"{adapter.__name__} is a class; an object of it is needed"
        return
    promised, members = f"staffbooking_core.ports.{port.__name__}", _members(port)
    if not any(hasattr(adapter, name) for name in members):
        yield f"{_name_of(adapter)} is no {promised}: it has none of its methods"
        return
    faults = [
        fault
        for name, member in members.items()
        if (fault := _fault_of_member(adapter, name, member)) is not None
    ]
    if faults:
        yield f"{_name_of(adapter)} is no {promised}: {', '.join(faults)}"


def _name_of(adapter: object) -> str:
    return "None" if adapter is None else type(adapter).__name__


def _members(port: type) -> dict[str, Any]:
    """The methods and properties of a protocol, by name."""
    protocols = [base for base in reversed(port.__mro__) if base.__module__ == port.__module__]
    return {
        name: member
        for base in protocols
        for name, member in vars(base).items()
        if not name.startswith("_")
    }


def _fault_of_member(adapter: object, name: str, promised: Any) -> str | None:
    if not hasattr(adapter, name):
        return f"it has no {'method' if callable(promised) else 'attribute'} {name}"
    if not callable(promised):
        return _fault_of_value(getattr(adapter, name), name, promised)
    method = getattr(adapter, name)
    if not callable(method):
        return f"its {name} is no method"
    if not inspect.isroutine(method):
        return None  # A callable object, such as a mock: what it takes is not known.
    return _fault_of_kind(method, name, promised) or _fault_of_parameters(method, name, promised)


def _fault_of_value(value: object, name: str, promised: Any) -> str | None:
    returns = getattr(getattr(promised, "fget", None), "__annotations__", {}).get("return")
    if returns != "str" or isinstance(value, str) or callable(value):  # A mock is callable.
        return None
    return f"its {name} must be a str, and is {value!r}"


def _fault_of_kind(
    method: Callable[..., Any], name: str, promised: Callable[..., Any]
) -> str | None:
    returns = str(getattr(inspect.unwrap(promised), "__annotations__", {}).get("return", ""))
    if inspect.iscoroutinefunction(promised):
        given = str(getattr(method, "__annotations__", {}).get("return", ""))
        may_await = any(word in given for word in _AWAITABLES)
        if inspect.iscoroutinefunction(method) or may_await:
            return None
        return f"its {name} must be a coroutine function (async def)"
    if inspect.iscoroutinefunction(method):
        return f"its {name} must be a plain function (def) that returns {returns}"
    if inspect.isasyncgenfunction(method) and "ContextManager" in returns:
        return f"its {name} must be decorated with contextlib.asynccontextmanager"
    return None


def _fault_of_parameters(
    method: Callable[..., Any], name: str, promised: Callable[..., Any]
) -> str | None:
    _, *parameters = inspect.signature(promised).parameters.values()
    positional = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
    named = {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
    promise = f"its {name} must take ({', '.join([*positional, *named])})"
    try:
        given = inspect.signature(method)
        given.bind(*positional, **named)
    except (TypeError, ValueError):
        return promise
    taken = [each for each in given.parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    renamed = [
        each.name
        for each, wanted in zip(taken, positional, strict=False)
        # An unused one may be underlined.
        if each.name != wanted and not each.name.startswith("_")
    ]
    return f"{promise}, by these names, not {', '.join(renamed)}" if renamed else None
