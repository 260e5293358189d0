"""Parsing of parameters by the SDK's types, with errors like Stripe's.

The SDK types an enumeration as `Literal[...] | str`, so that older clients accept newer values.
Here enumerations are closed, so that tests find misspelled values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

from stripe import RequestOptions
from stripe._stripe_object import UntypedStripeObject
from typing_extensions import is_typeddict

from tests.stripe_stub.errors import InvalidRequestError


def decode_form(text: str) -> dict[str, Any]:
    """`a[b][0][c]=1` as nested dictionaries; `parse_params` makes lists of them by type."""
    tree: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text)):
        *outer, last = re.findall(r"[^\[\]]+", name)
        branch = tree
        for part in outer:
            branch = branch.setdefault(part, {})
            if not isinstance(branch, dict):
                raise InvalidRequestError(f"Invalid object: {name}", param=name)
        branch[last] = value
    return tree


def decode_json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        raise InvalidRequestError("The request body is no JSON") from None
    if not isinstance(found, dict):
        raise InvalidRequestError("The request body is no JSON object")
    return found


def parse_params(hint: Any, value: Any, name: str, textual: bool) -> Any:
    """`value` parsed as the type `hint`. Set `textual` if all values are text, as in a form. Raises
    InvalidRequestError."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _one_of(get_args(hint), value, name, textual)
    if origin is Literal:
        return _enum(get_args(hint), value, name)
    if origin is list:
        return _list(get_args(hint)[0], value, name, textual)
    if origin in (dict, UntypedStripeObject):
        inner = get_args(hint)[-1]
        return {
            key: parse_params(inner, each, _param_path(name, key), textual)
            for key, each in _mapping(value, name).items()
        }
    if is_typeddict(hint):
        return _structure(hint, value, name, textual)
    return SCALAR_PARSERS[hint](value, name, textual)


def _structure(hint: Any, value: Any, name: str, textual: bool) -> dict[str, Any]:
    known = param_types(hint)
    given = _mapping(value, name)
    for key in given:
        if key not in known:
            where = _param_path(name, key)
            raise InvalidRequestError(
                f"Received unknown parameter: {where}", code="parameter_unknown", param=where
            )
    for key in sorted(hint.__required_keys__ - given.keys()):
        where = _param_path(name, key)
        raise InvalidRequestError(
            f"Missing required param: {where}.", code="parameter_missing", param=where
        )
    return {
        key: parse_params(known[key], each, _param_path(name, key), textual)
        for key, each in given.items()
    }


REQUEST_OPTION_NAMES: dict[str, Any] = {"Mapping": Mapping, "StripeContext": object}
"""Names that the annotations of request options need; each parameter class inherits them."""


@cache
def param_types(structure: Any) -> dict[str, Any]:
    """The types of a parameter class of the SDK, without its request options."""
    hints = get_type_hints(structure, localns=REQUEST_OPTION_NAMES)
    return {
        name: hint for name, hint in hints.items() if name not in RequestOptions.__annotations__
    }


def _one_of(options: tuple[Any, ...], value: Any, name: str, textual: bool) -> Any:
    if value is None and NoneType in options:
        return None
    if any(get_origin(each) is Literal and get_args(each) != ("",) for each in options):
        options = tuple(each for each in options if each is not str)
    failures: list[InvalidRequestError] = []
    for each in options:
        try:
            return parse_params(each, value, name, textual)
        except InvalidRequestError as unfit:
            failures.append(unfit)
    raise max(failures, key=lambda unfit: len(unfit.param or ""))


def _enum(values: tuple[Any, ...], value: Any, name: str) -> Any:
    if value in values:
        return value
    *others, last = [str(each) for each in values]
    listed = f"{', '.join(others)}, or {last}" if others else last
    raise InvalidRequestError(f"Invalid {name}: must be one of {listed}", param=name)


def _list(inner: Any, value: Any, name: str, textual: bool) -> list[Any]:
    if textual and isinstance(value, dict) and [*value] == [str(i) for i in range(len(value))]:
        value = [*value.values()]
    if not isinstance(value, list):
        raise InvalidRequestError("Invalid array", param=name)
    return [
        parse_params(inner, each, _param_path(name, str(i)), textual)
        for i, each in enumerate(value)
    ]


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequestError("Invalid object", param=name)
    return value


def _text(value: Any, name: str, textual: bool) -> str:
    if not isinstance(value, str):
        raise InvalidRequestError(f"Invalid string: {value}", param=name)
    if value == "" and textual:
        raise InvalidRequestError(
            f"You passed an empty string for '{name}'.", code="parameter_invalid_empty", param=name
        )
    return value


def _integer(value: Any, name: str, textual: bool) -> int:
    if textual and isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and not textual:
        return value
    raise InvalidRequestError(
        f"Invalid integer: {value}", code="parameter_invalid_integer", param=name
    )


def _boolean(value: Any, name: str, textual: bool) -> bool:
    if textual and value in ("true", "false"):
        return bool(value == "true")
    if isinstance(value, bool) and not textual:
        return value
    raise InvalidRequestError(f"Invalid boolean: {value}", param=name)


SCALAR_PARSERS: dict[Any, Callable[[Any, str, bool], Any]] = {
    str: _text,
    int: _integer,
    bool: _boolean,
}


def _param_path(name: str, key: str) -> str:
    return f"{name}[{key}]" if name else key
