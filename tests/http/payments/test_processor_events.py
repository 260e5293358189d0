"""Events of the payment processor, received over HTTP (CONTRACT 9)."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from staffbooking_adapters.fake import signing
from staffbooking_adapters.testing.builders import MINUTE
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.usecases.payments import reconciliation
from staffbooking_http.routes.payments import MAX_PROCESSOR_EVENT_BYTES
from tests.http.api.test_errors import Failing
from tests.http.bookings.test_booking_flow import accepted
from tests.http.deployment import HttpDeployment, error_body, json_body

pytestmark = pytest.mark.anyio

PATH = "/processor/fake/webhook"
SIGNATURE = signing.SIGNATURE_HEADER


async def paid_without_events(world: HttpDeployment) -> tuple[str, httpx.AsyncClient]:
    """A booking that is paid at the processor; its events are not received yet."""
    path, customer, _ = await accepted(world)
    url = json_body(await customer.post(f"{path}/checkout"))["checkout_url"]
    await world.processor.sandbox.simulate_checkout(url.rpartition("/")[2], "succeed")
    return path, customer


async def event(world: HttpDeployment) -> tuple[Mapping[str, str], bytes]:
    """A signed event that has not been received."""
    await paid_without_events(world)
    first, *_ = await world.processor.sandbox.take_due_events(10)
    return first


async def test_an_event_is_stored_and_then_processed(each_world: HttpDeployment) -> None:
    """An event is counted as received, and processing it makes the booking paid."""
    path, customer = await paid_without_events(each_world)
    for headers, body in await each_world.processor.sandbox.take_due_events(10):
        answer = await each_world.client().post(PATH, headers=headers, content=body)
        assert json_body(answer) == {"received": 1}
    assert json_body(await customer.get(path))["booking"]["status"] == "accepted"
    await reconciliation.process_event(each_world.ports)
    assert json_body(await customer.get(path))["booking"]["status"] == "paid"


async def test_a_repeated_event_is_stored_once(each_world: HttpDeployment) -> None:
    """A repeated event is 200 each time and stored once."""
    headers, body = await event(each_world)
    news = [
        json_body(await each_world.client().post(PATH, headers=headers, content=body))["received"]
        for _ in range(3)
    ]
    assert news == [1, 0, 0]
    assert await reconciliation.process_event(each_world.ports) == 1


@pytest.mark.parametrize(
    "shown",
    [
        [],
        [b""],
        [b"t=1,v1="],
        [b"t=1,v1=" + b"0" * 64],
        [b"\xff\xfe\x00\xe9"],
        ["t=١٢٣,v1=ﬀ".encode()],
        [b"t=" + b"9" * 5000 + b",v1=" + b"0" * 64],
        [b"v1=" + b"0" * 64],
    ],
    ids=["missing", "empty", "cut", "wrong", "bytes", "not ascii", "endless", "no time"],
)
async def test_a_forged_event_is_refused(world: HttpDeployment, shown: list[bytes]) -> None:
    """An event with a missing or invalid signature is 400 and not stored."""
    _, body = await event(world)
    headers = [(SIGNATURE.lower().encode(), value) for value in shown]
    error_body(await world.client().post(PATH, headers=headers, content=body), 400, "bad_signature")
    assert await reconciliation.process_event(world.ports) == 0


async def test_a_signature_covers_the_exact_body(world: HttpDeployment) -> None:
    """A changed body, a wrong secret and a repeated signature header are 400, and nothing is
    stored."""
    headers, body = await event(world)
    client = world.client()
    forged = signing.sign_headers(body, b"guess", world.clock.now)
    twice = [(SIGNATURE, headers[SIGNATURE])] * 2
    for shown, sent in ((headers, body + b" "), (forged, body), (twice, body)):
        answer = await client.post(PATH, headers=shown, content=sent)
        error_body(answer, 400, "bad_signature")
    assert await reconciliation.process_event(world.ports) == 0


@pytest.mark.parametrize("off", [-6 * MINUTE, 6 * MINUTE], ids=["past", "future"])
async def test_an_event_of_another_time_is_refused(world: HttpDeployment, off) -> None:
    """An event signed six minutes in the past or the future is 400."""
    _, body = await event(world)
    headers = signing.sign_headers(body, b"s" * 32, world.clock.now + off)
    error_body(await world.client().post(PATH, headers=headers, content=body), 400, "bad_signature")


async def test_credentials_and_types_are_ignored(world: HttpDeployment) -> None:
    """Credentials, origin and content type are ignored, and the response has no rate limit
    headers."""
    headers, body = await event(world)
    world.raise_limits()
    more = {
        "authorization": "Bearer nonsense",
        "cookie": "connect.sid=nonsense",
        "origin": "https://elsewhere.example",
        "content-type": "text/plain; charset=utf-16",
    }
    answer = await world.client(**more).post(PATH, headers=headers, content=body)
    assert json_body(answer) == {"received": 1}
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


async def test_the_body_has_a_bound_of_its_own(world: HttpDeployment) -> None:
    """A body of 256 KiB is read, and one more byte is 413."""
    client = world.client()
    error_body(
        await client.post(PATH, content=b"x" * MAX_PROCESSOR_EVENT_BYTES), 400, "bad_signature"
    )
    error_body(
        await client.post(PATH, content=b"x" * (MAX_PROCESSOR_EVENT_BYTES + 1)),
        413,
        "body_too_large",
    )
    assert MAX_PROCESSOR_EVENT_BYTES == 256 * 1024


@pytest.mark.parametrize("name", ["stripe", "Fake", "%00", "fake%20", "é"])
async def test_another_processor_is_unknown(world: HttpDeployment, name: str) -> None:
    """The name of another processor is 404 before the body is checked."""
    headers, body = await event(world)
    path = f"/processor/{name}/webhook"
    for sent in (body, b"x" * (MAX_PROCESSOR_EVENT_BYTES + 1)):
        error_body(await world.client().post(path, headers=headers, content=sent), 404, "not_found")


async def test_an_unstored_event_is_not_acknowledged(world: HttpDeployment) -> None:
    """An event is 503 while the store is unavailable, and new when it is sent again."""
    headers, body = await event(world)
    store = world.ports.store
    world.restart(store=Failing(StoreUnavailable("gone")))
    answer = await world.client().post(PATH, headers=headers, content=body)
    error_body(answer, 503, "unavailable")
    world.restart(store=store)
    assert json_body(await world.client().post(PATH, headers=headers, content=body)) == {
        "received": 1
    }
