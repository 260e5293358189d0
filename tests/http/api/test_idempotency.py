"""The Idempotency-Key header: a repeated call gets the first response again (CONTRACT 4)."""

from __future__ import annotations

import asyncio
import json

import pytest

from staffbooking_adapters.testing.builders import DAY
from staffbooking_core.ports import BookingQuery
from tests.http.api.idempotent_calls import CALLS
from tests.http.deployment import HttpDeployment, error_body, json_body

pytestmark = pytest.mark.anyio

BOOKINGS = "/api/v1/bookings"


def keyed(key: str = "call-1") -> dict[str, str]:
    return {"idempotency-key": key, "content-type": "application/json"}


def raw(world: HttpDeployment, **given: object) -> bytes:
    return json.dumps(world.request_body(**given)).encode()


async def made(world: HttpDeployment) -> int:
    async with world.store.read_view() as view:
        return len(await view.bookings.bookings(BookingQuery(user_id=None, limit=50)))


async def test_a_repeated_call_gets_the_same_response(each_world: HttpDeployment) -> None:
    """A repeated call gets the same bytes, marked as a replay, and creates no second booking."""
    program, body = each_world.client_with_key(), raw(each_world)
    first = await program.post(BOOKINGS, content=body, headers=keyed())
    again = await program.post(BOOKINGS, content=body, headers=keyed())
    assert (again.status_code, again.content) == (201, first.content)
    assert "idempotent-replay" not in first.headers
    assert again.headers["idempotent-replay"] == "true"
    assert await made(each_world) == 1


async def test_another_body_is_a_mismatch(each_world: HttpDeployment) -> None:
    """A used key with another body, even a malformed one, is 400 `idempotency_mismatch`."""
    program = each_world.client_with_key()
    json_body(await program.post(BOOKINGS, content=raw(each_world), headers=keyed()), 201)
    for body in (raw(each_world, duration_hours=5), raw(each_world, duration_hours=99), b"{"):
        answer = await program.post(BOOKINGS, content=body, headers=keyed())
        error_body(answer, 400, "idempotency_mismatch")
    assert await made(each_world) == 1


async def test_concurrent_calls_create_one_booking(each_world: HttpDeployment) -> None:
    """Concurrent calls with one key get the same response and create one booking."""
    program, body = each_world.client_with_key(), raw(each_world)
    calls = [program.post(BOOKINGS, content=body, headers=keyed()) for _ in range(5)]
    answers = await asyncio.gather(*calls)
    assert {(one.status_code, one.content) for one in answers} == {(201, answers[0].content)}
    assert await made(each_world) == 1


async def test_a_refusal_is_kept(each_world: HttpDeployment) -> None:
    """A refusal is replayed although the same call with another key succeeds now."""
    program = each_world.client_with_key()
    body = raw(each_world, customer_email="late@example.com")
    first = await program.post(BOOKINGS, content=body, headers=keyed())
    error_body(first, 422, "invalid_field")
    sign_up = {
        "email": "late@example.com",
        "password": "hunter2hunter2",
        "first_name": "Late",
        "last_name": "Comer",
        "role": "customer",
    }
    json_body(await each_world.client().post("/auth/register", json=sign_up), 201)
    again = await program.post(BOOKINGS, content=body, headers=keyed())
    assert (again.status_code, again.content) == (422, first.content)
    json_body(await program.post(BOOKINGS, content=body, headers=keyed("call-2")), 201)


async def test_a_rate_limit_refusal_is_not_kept(world: HttpDeployment) -> None:
    """A 429 is not stored for its key: the call succeeds once the window has reset."""
    program, body = world.client_with_key(), raw(world)
    for _ in range(10):
        await program.post(BOOKINGS, json={})
    error_body(await program.post(BOOKINGS, content=body, headers=keyed()), 429, "rate_limited")
    world.clock.advance(DAY / 2)
    json_body(await program.post(BOOKINGS, content=body, headers=keyed()), 201)


async def test_replays_count_as_calls(world: HttpDeployment) -> None:
    """A replay spends both windows like any other call."""
    program, body = world.client_with_key(), raw(world)
    calls = [await program.post(BOOKINGS, content=body, headers=keyed()) for _ in range(3)]
    assert [one.headers["x-ratelimit-remaining"] for one in calls] == ["9", "8", "7"]


async def test_an_answer_is_kept_for_a_day(world: HttpDeployment) -> None:
    """A key can be used for a new booking after 24 hours."""
    program, body = world.client_with_key(), raw(world)
    json_body(await program.post(BOOKINGS, content=body, headers=keyed()), 201)
    world.clock.advance(DAY)
    json_body(await program.post(BOOKINGS, content=body, headers=keyed()), 201)
    assert await made(world) == 2


async def test_callers_do_not_share_keys(world: HttpDeployment) -> None:
    """The same idempotency key of two API keys and of a session creates three bookings."""
    other = world.client_with_key(await world.add_api_key(world.subscriber))
    for program in (world.client_with_key(), other):
        json_body(await program.post(BOOKINGS, content=raw(world), headers=keyed()), 201)
    customer = await world.signed_in_client(world.customer.id)
    body = world.request_body()
    del body["customer_email"]
    text = json.dumps(body)
    first = await customer.post("/bookings", content=text, headers=keyed())
    again = await customer.post("/bookings", content=text, headers=keyed())
    assert json_body(first, 201)["booking"]["booked_by"] is None
    assert again.content == first.content
    assert await made(world) == 3


@pytest.mark.parametrize("key", [b"", b"x" * 256, "é".encode(), b"a\tb", b"\x7f"])
async def test_a_malformed_key_is_400(world: HttpDeployment, key: bytes) -> None:
    """A key that is not 1 to 255 printable ASCII characters is 400."""
    headers = [(b"idempotency-key", key), (b"content-type", b"application/json")]
    answer = await world.client_with_key().post(BOOKINGS, content=raw(world), headers=headers)
    error_body(answer, 400, "idempotency_key_invalid")


@pytest.mark.parametrize("key", ["x" * 255, "a b~!", "1"])
async def test_a_well_formed_key_passes(world: HttpDeployment, key: str) -> None:
    """A key of 1 to 255 printable ASCII characters is accepted."""
    json_body(
        await world.client_with_key().post(BOOKINGS, content=raw(world), headers=keyed(key)), 201
    )


@pytest.mark.parametrize("path", ["/api/keys", "/bookings/{id}/accept", "/api/webhooks"])
async def test_concurrent_calls_are_done_once_on_every_store(
    each_world: HttpDeployment, path: str
) -> None:
    """Concurrent calls with one key get the same response on every store."""
    prepared = await CALLS[path](each_world)
    answers = await asyncio.gather(*(prepared.send("call-1") for _ in range(4)))
    assert {(one.is_success, one.content) for one in answers} == {(True, answers[0].content)}
    assert sum("idempotent-replay" not in one.headers for one in answers) == 1


async def test_of_concurrent_calls_on_two_bookings_one_is_done(each_world: HttpDeployment) -> None:
    """Of concurrent calls with one key at two paths one is done, and the other is a mismatch."""
    calls = [await CALLS["/bookings/{id}/decline"](each_world) for _ in range(2)]
    answers = await asyncio.gather(*(each.send("call-1") for each in calls))
    assert sorted(each.status_code for each in answers) == [200, 400]
    statuses = [(await each.client.get(_parent(each.path))).json()["booking"] for each in calls]
    assert sorted(each["status"] == "pending" for each in statuses) == [False, True]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
