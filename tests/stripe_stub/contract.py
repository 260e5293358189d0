"""Stripe's operations with their parameter and result types, from the installed SDK's source.

The SDK's services are generated from Stripe's own specification: each method names a verb, a
path, the type of its parameters and the type of its result. Modules are read on demand.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import stripe
from attrs import frozen


@frozen
class SdkTypeName:
    """A class of the SDK, imported by `load`."""

    module: str
    name: str

    def load(self) -> Any:
        return getattr(import_module(self.module), self.name)


@frozen
class StripeOperation:
    """One operation of the API.

    `name` is its name in the SDK's client, such as "v1.checkout.sessions.create". `path` is as
    in Stripe's documentation, such as "/v1/checkout/sessions/{session}".
    """

    name: str
    verb: str
    path: str
    params: SdkTypeName
    result: SdkTypeName
    is_list: bool

    @property
    def is_v2(self) -> bool:
        return self.path.startswith("/v2/")


@cache
def stripe_operation(name: str) -> StripeOperation:
    """The operation that `client.<name>_async` performs."""
    *services, method = name.split(".")
    service: Any = _sdk_client()
    for each in services:
        service = getattr(service, each)
    module = type(service).__module__
    imports, methods = _read_module(module, type(service).__name__)
    verb, path = _request_call(methods[method])
    returned = _returned_type(methods[method])
    result = returned.removeprefix("ListObject[").removesuffix("]")
    params = imports[_params_type(methods[method])]
    return StripeOperation(name, verb, path, params, imports[result], returned != result)


@cache
def _sdk_client() -> stripe.StripeClient:
    return stripe.StripeClient("sk_test_of_nobody", http_client=stripe.HTTPXClient())


@cache
def _read_module(
    module: str, service: str
) -> tuple[dict[str, SdkTypeName], dict[str, ast.FunctionDef]]:
    """The imported names of a generated module, and the methods of its service."""
    source = Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8")
    imports: dict[str, SdkTypeName] = {}
    methods: dict[str, ast.FunctionDef] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            imports |= {each.name: SdkTypeName(node.module, each.name) for each in node.names}
        elif isinstance(node, ast.ClassDef) and node.name == service:
            methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
    return imports, methods


def _request_call(method: ast.FunctionDef) -> tuple[str, str]:
    """The verb and the path of a method's request. Raises LookupError if there is none."""
    for node in ast.walk(method):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="_request"),
                args=[ast.Constant(value=verb), ast.Constant(value=path), *_],
            ):
                return str(verb), str(path)
            case ast.Call(
                func=ast.Attribute(attr="_request"),
                args=[
                    ast.Constant(value=verb),
                    ast.Call(func=ast.Attribute(value=ast.Constant(value=path))),
                    *_,
                ],
            ):
                return str(verb), str(path)
    raise LookupError(f"{method.name} makes no request")


def _params_type(method: ast.FunctionDef) -> str:
    [annotation] = [each.annotation for each in method.args.args if each.arg == "params"]
    return re.findall(r"\w+Params", ast.unparse(annotation))[0] if annotation else ""


def _returned_type(method: ast.FunctionDef) -> str:
    return str(ast.literal_eval(method.returns)) if method.returns else ""
