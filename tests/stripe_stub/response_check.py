"""Checks of the stub's answers against the SDK's types.

An unknown field, a field of another type, and a missing field that Stripe always sends are
errors of the stub. A check returns None, or the path of the field with the error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin

from stripe import ListObject, StripeObject
from stripe._object_classes import get_object_class
from stripe._stripe_object import UntypedStripeObject
from stripe.v2 import ListObject as ListObjectV2

from tests.stripe_stub.contract import StripeOperation

FieldCheck = Callable[[Any], str | None]

LIST_FIELDS: dict[Any, dict[str, Any]] = {
    ListObject: {"object": Literal["list"]},
    ListObjectV2: {"previous_page_url": str | None},
}
"""Fields of the SDK's two kinds of lists that its types lack."""


class InvalidStubResponse(AssertionError):
    """An answer that does not fit the SDK's types."""


def check_response(operation: StripeOperation, document: dict[str, Any]) -> None:
    """Raise InvalidStubResponse if a document does not fit the result type of an operation."""
    error = _response_check(operation)(document)
    if error is not None:
        raise InvalidStubResponse(f"{operation.name}: {error}")


def find_object_error(document: dict[str, Any]) -> str | None:
    """The first error of an object of v1 by the class that its `object` names; None if it fits."""
    kind: Any = get_object_class("V1", document["object"])
    return _object_check(kind)(document)


@cache
def _response_check(operation: StripeOperation) -> FieldCheck:
    result: Any = operation.result.load()
    if not operation.is_list:
        return _check(result)
    return _check((ListObjectV2 if operation.is_v2 else ListObject)[result])


def _check(hint: Any) -> FieldCheck:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _union_check(inner)
    if origin is Literal:
        return lambda value: None if value in inner else _unexpected_value(value)
    if origin is list:
        return _list_check(_check(inner[0]))
    if origin is UntypedStripeObject:
        return _mapping_check(_check(inner[0]))
    if origin in LIST_FIELDS:
        return _ObjectCheck({**_field_hints(origin), "data": list[inner[0]]})  # type: ignore[valid-type]
    if isinstance(hint, ForwardRef):
        return _reference_check(hint.__forward_arg__)
    if hint is Any:
        return lambda value: None
    return _object_check(hint) if issubclass(hint, StripeObject) else _type_check(hint)


def _unexpected_value(value: Any) -> str:
    return f" cannot be {value!r:.80}"


def _type_check(kind: Any) -> FieldCheck:
    def check(value: Any) -> str | None:
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        return None if fits else _unexpected_value(value)

    return check


def _union_check(options: tuple[Any, ...]) -> FieldCheck:
    """A check for one of several types. Enumerations are closed, though the SDK's type is open."""
    if any(get_origin(each) is Literal for each in options):
        options = tuple(each for each in options if each is not str)
    checks = [_check(each) for each in options if each is not NoneType]
    may_be_none = NoneType in options

    def check(value: Any) -> str | None:
        if value is None and may_be_none:
            return None
        errors = []
        for each in checks:
            error = each(value)
            if error is None:
                return None
            errors.append(error)
        return max(errors, key=lambda error: len(error.partition(" ")[0]))

    return check


def _list_check(inner: FieldCheck) -> FieldCheck:
    def check(value: Any) -> str | None:
        if not isinstance(value, list):
            return _unexpected_value(value)
        errors = (f"[{i}]{error}" for i, each in enumerate(value) if (error := inner(each)))
        return next(errors, None)

    return check


def _mapping_check(inner: FieldCheck) -> FieldCheck:
    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return _unexpected_value(value)
        errors = (f".{key}{error}" for key, v in value.items() if (error := inner(v)))
        return next(errors, None)

    return check


def _reference_check(name: str) -> FieldCheck:
    """A check for an expanded object, by the class that its `object` names.

    The SDK's modules import some classes under another name: `Dispute as DisputeResource`.
    """
    wanted = name.removesuffix("Resource")

    def check(value: Any) -> str | None:
        named = value.get("object", "") if isinstance(value, dict) else ""
        found: Any = get_object_class("V1", named)
        if found.__name__ != wanted:
            return _unexpected_value(value)
        return _object_check(found)(value)

    return check


@cache
def _object_check(kind: Any) -> FieldCheck:
    return _ObjectCheck(_field_hints(kind))


def _field_hints(kind: Any) -> dict[str, Any]:
    """The field types of a class of the SDK."""
    own = {
        name: hint
        for name, hint in kind.__annotations__.items()
        if name not in ("OBJECT_NAME", "_inner_class_types")
    }
    return own | LIST_FIELDS.get(kind, {})


class _ObjectCheck:
    """The check of an object; the check of a field is made at its first use."""

    def __init__(self, hints: dict[str, Any]) -> None:
        self._hints = hints
        self._checks: dict[str, FieldCheck] = {}
        self._required_fields = {
            name for name, hint in hints.items() if NoneType not in get_args(hint)
        }

    def __call__(self, value: Any) -> str | None:
        if not isinstance(value, dict):
            return _unexpected_value(value)
        for key in self._required_fields - value.keys():
            return f".{key} is missing"
        for key, each in value.items():
            check = self._checks.get(key) or self._make_check(key)
            error = check(each)
            if error is not None:
                return f".{key}{error}"
        return None

    def _make_check(self, key: str) -> FieldCheck:
        if key not in self._hints:
            return lambda value: " is unknown"
        self._checks[key] = made = _check(self._hints[key])
        return made
