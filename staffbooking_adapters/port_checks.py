"""Checks that an object given as a port has its methods, before anything calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, get_args, get_type_hints

from staffbooking_core.ports import Ports

_AWAITABLES = ("Awaitable", "Coroutine", "Future", "Task", "Any")
"""A plain function whose return type contains one of these words may be a coroutine's caller."""

_OF_THE_STORE = ("admission", "hints")


def check_adapters(adapters: Mapping[str, Any], excluded: Collection[str] = ()) -> None:
    """Check adapters by the names of their ports.

    Raises TypeError, which lists every fault: a name that is no port or `excluded`, a
    missing method, parameters that it does not take, a coroutine function in place of a plain one
    or the reverse.
    """
    if not adapters:
        return
    ports = get_type_hints(Ports)
    if unknown := adapters.keys() - (ports.keys() - set(excluded)):
        raise TypeError(f"no ports that can be replaced: {', '.join(sorted(unknown))}")
    faults = [
        f"{name}: {fault}"
        for name, adapter in adapters.items()
        for fault in _faults(adapter, ports[name])
    ]
    store = adapters.get("store")
    if store and not all(name in adapters or hasattr(store, name) for name in _OF_THE_STORE):
        faults.append(f"store: {_name_of(store)} lacks attributes: give admission and hints too")
    if faults:
        raise TypeError("; ".join(faults))


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
    faults = [
        fault
        for name, member in _members(port).items()
        if (fault := _fault_of_member(adapter, name, member)) is not None
    ]
    if faults:
        promised = f"staffbooking_core.ports.{port.__name__}"
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
        return None
    method = getattr(adapter, name)
    if not callable(method):
        return f"its {name} is no method"
    if not inspect.isroutine(method):
        return None  # A callable object, such as a mock: what it takes is not known.
    return _fault_of_kind(method, name, promised) or _fault_of_parameters(method, name, promised)


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
    try:
        inspect.signature(method).bind(*positional, **named)
    except (TypeError, ValueError):
        return f"its {name} must take ({', '.join([*positional, *named])})"
    return None
