"""The page for developers: each call with curl and Python, and what can be tried."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
from html import unescape

import pytest

from staffbooking_core.policy import Policy
from staffbooking_http.client import Client, calls as client_calls
from staffbooking_http.docs.openapi import ServedDocument
from staffbooking_http.docs.snippets import CLIENT_METHODS, CallSnippets, start_snippets
from staffbooking_http.routes import ENDPOINTS_BY_TAG, SANDBOX_ENDPOINTS_BY_TAG
from tests.http.deployment import HttpDeployment

pytestmark = pytest.mark.anyio

SERVED = ServedDocument({**ENDPOINTS_BY_TAG, **SANDBOX_ENDPOINTS_BY_TAG}, Policy())
CALLS = [call for listed in SERVED.calls.values() for call in listed]
BY_ID = {call.operation["operationId"]: call for call in CALLS}


def id_of(call: CallSnippets) -> str:
    return str(call.operation["operationId"])


@pytest.mark.parametrize("call", CALLS, ids=id_of)
def test_a_line_of_curl_is_the_call(call: CallSnippets) -> None:
    """A shell reads the line of curl as this method, path, and a body of JSON."""
    words = shlex.split(call.curl.replace("\\\n", " "))
    method = words[words.index("-X") + 1] if "-X" in words else "GET"
    [address] = [word for word in words if word.startswith("$BASE")]
    pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(call.path))
    assert method == call.method
    assert re.fullmatch(pattern, address.removeprefix("$BASE").partition("?")[0])
    if call.body:
        assert json.loads(words[words.index("-d") + 1]) == json.loads(call.body)


@pytest.mark.parametrize("call", CALLS, ids=id_of)
def test_a_piece_of_python_compiles(call: CallSnippets) -> None:
    """The Python of a call compiles."""
    ast.parse(call.python)


def names_in(source: str, context: type[ast.expr_context]) -> set[str]:
    """The names that a program reads or sets."""
    return {
        node.id
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and isinstance(node.ctx, context)
    }


def test_the_start_has_what_the_calls_use() -> None:
    """The lines before the first call set all variables of the pieces of curl and Python."""
    start = start_snippets("https://staff.example")
    known = names_in(start["python"], ast.Store) | {"each", "httpx", "print", "open"}
    shell = set(re.findall(r"(\w+)=", start["curl"]))

    for call in CALLS:
        assert names_in(call.python, ast.Load) <= known, call.path
        assert set(re.findall(r"\$(\w+)", call.curl)) <= shell, call.path


def test_the_client_is_shown_where_it_has_the_call() -> None:
    """Each method of the client that makes one call is shown for that call."""
    methods = {name for name in dir(Client) if name[0] != "_" and hasattr(client_calls, name)}
    assert methods - {"wait_for"} == set(CLIENT_METHODS.values())


@pytest.mark.parametrize(("operation_id", "method"), CLIENT_METHODS.items())
def test_the_client_takes_what_is_shown(operation_id: str, method: str) -> None:
    """The arguments that are shown for a call fit the client's method."""
    [shown] = [
        node
        for node in ast.walk(ast.parse(BY_ID[operation_id].python))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"client.{method}"
    ]
    named = {word.arg: word.value for word in shown.keywords if word.arg}
    inspect.signature(getattr(client_calls, method)).bind(*shown.args, **named)


async def test_the_page_shows_both_for_every_call(world: HttpDeployment) -> None:
    """The page has the curl, the Python and the answer of each call at its own anchor."""
    page = unescape((await world.client().get("/docs")).text)
    for call in CALLS:
        assert f'<div id="{id_of(call)}"' in page
        assert call.curl in page
        assert call.python in page
        assert call.answer in page


async def test_calls_are_tried_in_a_sandbox_alone(world: HttpDeployment) -> None:
    """Calls by key can be tried on the page of a sandbox, and nowhere else."""
    page = (await world.client().get("/docs")).text
    assert 'data-path="/api/v1/companions"' in page
    assert 'data-path="/auth/login"' not in page
    world.restart(sandbox=None)
    assert "docs-try" not in (await world.client().get("/docs")).text
