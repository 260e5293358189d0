"""The Idempotency-Key header at every endpoint of the table (CONTRACT 4)."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from typing import Any

import pytest
from attrs import fields

from staffbooking_adapters.memory.bookings import store as bookings
from staffbooking_adapters.memory.idempotency import IdempotencyWriter
from staffbooking_adapters.memory.state import MemoryState
from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import StoredResponse
from staffbooking_http.api.endpoint import Endpoint
from tests.http.api.idempotent_calls import CALLS, SECRETS
from tests.http.api.test_route_table import (
    MATRIX,
    PRINCIPALS,
    ROWS,
    call as call_row,
    client_of,
)
from tests.http.deployment import HttpDeployment, error_body, json_body

pytestmark = pytest.mark.anyio

POSTS = [row for row in ROWS if row.method == "POST"]
WITHOUT_HEADER = [row for row in POSTS if not row.takes_idempotency_key]
EXEMPT = {
    "/contact",
    "/api/v1/quotes",
    "/quotes",
    "/staff/images",
    "/staff/busy-times",
    "/bookings/{id}/dispute/files",
    "/processor/{provider}/webhook",
    "/sandbox/clock",
    "/sandbox/chargebacks",
    "/sandbox/payments/faults",
}
"""POSTs of nobody, POSTs that change nothing, and uploads."""

each_call = pytest.mark.parametrize("path", CALLS)
each_secret = pytest.mark.parametrize("path", SECRETS)


def memory_store(world: HttpDeployment) -> MemoryStore:
    assert isinstance(world.store, MemoryStore)
    return world.store


def rows_of(world: HttpDeployment) -> dict[str, Any]:
    """The committed rows of the memory store, without those of sessions."""
    state = memory_store(world)._committed.state
    tables = [field.name for field in fields(MemoryState) if field.name != "sessions"]
    found = {name: getattr(state, name) for name in tables}
    return {
        name: dict(rows.items()) if hasattr(rows, "items") else rows for name, rows in found.items()
    }


def test_every_post_but_the_exempt_takes_the_header() -> None:
    """Every POST takes the header but for uploads, accounts, what has no caller, and what changes
    nothing."""
    assert {row.path for row in POSTS if row.takes_idempotency_key} == set(CALLS)
    others = {row.path for row in WITHOUT_HEADER}
    accounts = {path for path in others if path.startswith(("/auth/", "/account/"))}
    assert others - accounts == EXEMPT


@each_call
async def test_a_repeated_call_changes_nothing(world: HttpDeployment, path: str) -> None:
    """A repeated call gets the same status and body, marked as a replay, and changes no row."""
    prepared = await CALLS[path](world)
    first = await prepared.send("call-1")
    assert first.is_success, first.text
    before = rows_of(world)
    again = await prepared.send("call-1")
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert (first.headers.get("idempotent-replay"), again.headers["idempotent-replay"]) == (
        None,
        "true",
    )
    assert rows_of(world) == before


@each_call
async def test_another_body_is_a_mismatch_everywhere(world: HttpDeployment, path: str) -> None:
    """A used key with another body is 400 `idempotency_mismatch`, also where no body is needed."""
    prepared = await CALLS[path](world)
    assert (await prepared.send("call-1")).is_success
    before = rows_of(world)
    answer = await prepared.send("call-1", other=1)
    error_body(answer, 400, "idempotency_mismatch")
    assert rows_of(world) == before


@each_call
async def test_concurrent_calls_are_done_once(world: HttpDeployment, path: str) -> None:
    """Concurrent calls with one key get the same response, which one of them has made."""
    prepared = await CALLS[path](world)
    answers = await asyncio.gather(*(prepared.send("call-1") for _ in range(3)))
    assert {(one.status_code, one.content) for one in answers} == {
        (answers[0].status_code, answers[0].content)
    }
    assert answers[0].is_success
    assert sum("idempotent-replay" not in one.headers for one in answers) == 1


RETRIES = {"/api/admin/payouts/{code}/retry", "/api/admin/refunds/{code}/retry"}
"""Once a retry had its effect, there is nothing to retry."""


@pytest.mark.parametrize("path", [path for path in CALLS if path not in RETRIES])
async def test_a_call_that_is_ended_before_its_commit_can_be_repeated(
    world: HttpDeployment, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call whose response cannot be stored is 503, and its repetition succeeds as the first."""
    prepared = await CALLS[path](world)

    async def fail(*_: Any) -> None:
        raise StoreUnavailable

    with monkeypatch.context() as patch:
        patch.setattr(IdempotencyWriter, "save_response", fail)
        patch.setattr(IdempotencyWriter, "finish_call", fail)
        patch.setattr(bookings, "store_response", fail_at_once)
        error_body(await prepared.send("call-1"), 503, "unavailable")
    again = await prepared.send("call-1")
    assert again.is_success, again.text
    assert "idempotent-replay" not in again.headers


def fail_at_once(*_: Any) -> None:
    raise StoreUnavailable


class OutsideTransactions:
    """A service whose calls must not be made while a transaction of the memory store is open."""

    def __init__(self, service: Any, world: HttpDeployment) -> None:
        self._service, self._world = service, world

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._service, name)
        if not inspect.iscoroutinefunction(found):
            return found

        def call(*args: Any) -> Any:
            assert not memory_store(self._world)._write_lock.locked(), f"{name} in a transaction"
            return found(*args)

        return call


@each_call
async def test_no_service_is_called_in_a_transaction(world: HttpDeployment, path: str) -> None:
    """The processor and webhook receivers are called outside of transactions."""
    prepared = await CALLS[path](world)
    world.restart(
        payments=OutsideTransactions(world.ports.payments, world),
        webhook_sender=OutsideTransactions(world.ports.webhook_sender, world),
    )
    prepared.client._transport.app = world.app  # type: ignore[attr-defined]
    answer = await prepared.send("call-1")
    assert answer.is_success, answer.text


@each_secret
async def test_no_secret_is_stored(each_world: HttpDeployment, path: str) -> None:
    """A response that shows a secret is stored sealed, and its replay shows the secret."""
    prepared = await CALLS[path](each_world)
    secret = json_body(first := await prepared.send("call-1"), first.status_code)[SECRETS[path]]
    again = await prepared.send("call-1")
    assert again.json()[SECRETS[path]] == secret
    [stored] = await stored_responses(each_world, "call-1")
    assert stored.is_sealed
    assert secret.encode() not in stored.body


async def stored_responses(world: HttpDeployment, key: str) -> list[StoredResponse]:
    """The responses that are stored for a key, of every user and API key."""
    people = (world.companion.id, world.customer.id, world.subscriber.id)
    scopes = [f"user:{number}" for number in people] + [f"key:{number}" for number in range(1, 9)]
    digest = hashlib.sha256(key.encode()).hexdigest()
    async with world.store.read_view() as view:
        read = view.idempotency.stored_response
        found = [await read(scope, digest, world.clock.now) for scope in scopes]
    return [row for row in found if row is not None]


def test_every_secret_is_sealed() -> None:
    """Exactly the endpoints whose responses show secrets seal them."""
    assert {row.path for row in POSTS if row.shows_secret} == set(SECRETS)


@pytest.mark.parametrize("row", WITHOUT_HEADER, ids=[row.path for row in WITHOUT_HEADER])
async def test_the_exempt_ignore_the_header(world: HttpDeployment, row: Endpoint) -> None:
    """An exempt endpoint takes no notice of the header, not even of a malformed one."""
    world.raise_limits()
    granted = [who for who, status in MATRIX[f"POST {row.path}"].items() if status in (200, 415)]
    client = await client_of(world, granted[0])
    client.headers["idempotency-key"] = ""
    answer = await call_row(world, row, client)
    assert "idempotency" not in answer.text


@each_call
async def test_a_malformed_key_is_400_after_the_target(world: HttpDeployment, path: str) -> None:
    """A malformed key is 400 for whoever has access; for others the path's 401, 403 and 404 go
    before it."""
    world.raise_limits()
    [row] = [row for row in POSTS if row.path == path]
    met = {}
    for who in PRINCIPALS:
        client = await client_of(world, who)
        client.headers["idempotency-key"] = "x" * 256
        answer = await call_row(world, row, client)
        met[who] = 200 if answer.status_code == 400 else answer.status_code
        assert answer.status_code != 400 or answer.json()["code"] == "idempotency_key_invalid"
    assert met == MATRIX[f"POST {path}"]


async def test_another_path_is_a_mismatch(world: HttpDeployment) -> None:
    """A used key at another path is 400 `idempotency_mismatch`, and changes nothing."""
    first = await CALLS["/bookings/{id}/accept"](world)
    second = await CALLS["/bookings/{id}/decline"](world)
    json_body(await first.send("call-1"))
    before = rows_of(world)
    error_body(await second.send("call-1"), 400, "idempotency_mismatch")
    assert rows_of(world) == before


async def test_a_missing_right_is_not_kept(world: HttpDeployment) -> None:
    """A 403 is not stored: with the right the same call succeeds."""
    prepared = await CALLS["/bookings/{id}/accept"](world)
    customer = await world.signed_in_client(world.customer.id)
    headers = {"idempotency-key": "call-1"}
    error_body(await customer.post(prepared.path, headers=headers), 403, "wrong_party")
    assert rows_of(world)["stored_responses"] == {}


async def test_a_version_mismatch_is_not_kept_and_not_looked_at(world: HttpDeployment) -> None:
    """A 412 is not stored, and a replay does not look at If-Match."""
    prepared = await CALLS["/bookings/{id}/accept"](world)
    headers = {"idempotency-key": "call-1", "if-match": '"99"'}
    client = prepared.client
    error_body(await client.post(prepared.path, headers=headers), 412, "version_mismatch")
    first = await prepared.send("call-1")
    again = await client.post(prepared.path, headers=headers)
    assert (json_body(first), again.content) == (json_body(again), first.content)
