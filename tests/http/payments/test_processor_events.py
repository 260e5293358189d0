"""Events of the payment processor, as they come in over HTTP (CONTRACT 9)."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from staffbooking_adapters.fake import signing
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.usecases.payments import reconciliation
from staffbooking_http.routes.payments import MAX_PROCESSOR_EVENT_BYTES
from tests.http.api.test_errors import Failing
from tests.http.bookings.test_booking_flow import accepted
from tests.http.deployment import HttpDeployment, error_body, json_body
from tests.support.builders import MINUTE

pytestmark = pytest.mark.anyio

PATH = "/processor/fake/webhook"
SIGNATURE = signing.SIGNATURE_HEADER


async def paid_unseen(world: HttpDeployment) -> tuple[str, httpx.AsyncClient]:
    """A booking that is paid at the processor; its events are still to be brought."""
    path, customer, _ = await accepted(world)
    url = json_body(await customer.post(f"{path}/checkout"))["checkout_url"]
    await world.processor.sandbox.simulate_checkout(url.rpartition("/")[2], "succeed")
    return path, customer


async def event(world: HttpDeployment) -> tuple[Mapping[str, str], bytes]:
    """A signed event that tells of something new."""
    await paid_unseen(world)
    first, *_ = await world.processor.sandbox.take_due_events(10)
    return first


async def test_an_event_is_stored_and_then_followed(each_world: HttpDeployment) -> None:
    """The answer says what was new; the look that follows finds the payment."""
    path, customer = await paid_unseen(each_world)
    for headers, body in await each_world.processor.sandbox.take_due_events(10):
        answer = await each_world.client().post(PATH, headers=headers, content=body)
        assert json_body(answer) == {"received": 1}
    assert json_body(await customer.get(path))["booking"]["status"] == "accepted"
    await reconciliation.process_event(each_world.ports)
    assert json_body(await customer.get(path))["booking"]["status"] == "paid"


async def test_a_replay_is_taken_and_is_no_news(each_world: HttpDeployment) -> None:
    """200 each time, so that the processor stops; the inbox has it once."""
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
    """Whatever the header holds: 400, and nothing is stored."""
    _, body = await event(world)
    headers = [(SIGNATURE.lower().encode(), value) for value in shown]
    error_body(await world.client().post(PATH, headers=headers, content=body), 400, "bad_signature")
    assert await reconciliation.process_event(world.ports) == 0


async def test_a_signature_fits_its_very_bytes(world: HttpDeployment) -> None:
    """One byte more, a wrong secret and a header that came twice are all refused."""
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
    """Old ones are replays, and future ones are kept for later by nobody honest."""
    _, body = await event(world)
    headers = signing.sign_headers(body, b"s" * 32, world.clock.now + off)
    error_body(await world.client().post(PATH, headers=headers, content=body), 400, "bad_signature")


async def test_credentials_and_types_are_not_looked_at(world: HttpDeployment) -> None:
    """The signature alone counts; no window is spent, and no answer tells of one."""
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
    """256 KiB are read and judged, one byte more is 413."""
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
    """Only the one that the deployment pays by; its 404 goes before what is wrong besides."""
    headers, body = await event(world)
    path = f"/processor/{name}/webhook"
    for sent in (body, b"x" * (MAX_PROCESSOR_EVENT_BYTES + 1)):
        error_body(await world.client().post(path, headers=headers, content=sent), 404, "not_found")


async def test_what_could_not_be_stored_is_not_acknowledged(world: HttpDeployment) -> None:
    """503 while the store is away; the same event is news once it is back."""
    headers, body = await event(world)
    store = world.ports.store
    world.restart(store=Failing(StoreUnavailable("gone")))
    answer = await world.client().post(PATH, headers=headers, content=body)
    error_body(answer, 503, "unavailable")
    world.restart(store=store)
    assert json_body(await world.client().post(PATH, headers=headers, content=body)) == {
        "received": 1
    }
