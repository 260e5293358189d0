"""What a promised name speaks of is promised too."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import staffbooking_core
from staffbooking_core import Booking
from tests.docs.reference_pages import promised_modules


def promised_objects() -> dict[str, Any]:
    """The promised classes and functions of the core by their dotted names."""
    found: dict[str, Any] = {}
    for module in promised_modules():
        loaded = importlib.import_module(f"staffbooking_core.{module.name}")
        found |= {f"{module.name}.{name}": getattr(loaded, name) for name in loaded.__all__}
    return found


def annotated_types(promised: Any) -> Iterator[Any]:
    """The types of the arguments and the result of a function, or of the fields, properties and
    public methods of a class."""
    if not isinstance(promised, type):
        yield from get_type_hints(promised).values() if inspect.isfunction(promised) else ()
        return
    yield from get_type_hints(promised).values()
    for name, member in vars(promised).items():
        function = getattr(member, "fget", getattr(member, "__func__", member))
        if name[0] != "_" and inspect.isfunction(function):
            yield from get_type_hints(function).values()


def classes_in(hint: Any) -> Iterator[type]:
    """The classes of the core in a type. A record may be private where a promised one has it."""
    for member in hint if isinstance(hint, list) else get_args(hint):
        yield from classes_in(member)
    is_own = isinstance(hint, type) and hint.__module__.startswith("staffbooking_core.")
    if is_own and hint.__name__[0] != "_":
        yield hint


def test_promised_names_speak_of_promised_types() -> None:
    """Each class of the core in the signature or a field of a promised name is promised."""
    objects = promised_objects()
    promised = {each for each in objects.values() if isinstance(each, type)}
    missing = {
        f"{name}: {found.__name__}"
        for name, each in objects.items()
        for hint in annotated_types(each)
        for found in classes_in(hint)
        if found not in promised
    }
    assert missing == set()


def test_a_type_that_is_not_promised_is_found() -> None:
    """A class within the types of a function is found."""

    def planted(_: dict[str, list[Booking] | None]) -> None: ...

    assert [found for hint in annotated_types(planted) for found in classes_in(hint)] == [Booking]


def test_promised_values_are_names_of_the_core() -> None:
    """Each promised class of the domain is a name of `staffbooking_core`."""
    missing = [
        name
        for name, each in promised_objects().items()
        if name.startswith("domain.") and isinstance(each, type)
        if getattr(staffbooking_core, each.__name__, None) is not each
    ]
    assert missing == []
