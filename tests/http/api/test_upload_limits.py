"""Upload limits: concurrent files, and isolation of other users from slow senders."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest

from staffbooking_adapters.testing.builders import add_companion
from staffbooking_core.errors import InvalidField
from staffbooking_core.ports import ProcessedImage
from staffbooking_http.api import upload_limits
from tests.http.companions.test_image_errors import END, HEAD, MULTIPART, Live, are_free, staff
from tests.http.companions.test_images import PATH, form
from tests.http.deployment import HttpDeployment, error_body

__all__ = ["staff"]

pytestmark = pytest.mark.anyio


class BlockingProcessor:
    """Refuses every image, once `free` is set."""

    def __init__(self) -> None:
        self.entered = 0
        self.free = anyio.Event()

    async def process(self, _: bytes) -> ProcessedImage:
        self.entered += 1
        await self.free.wait()
        raise InvalidField([])

    async def wait_for(self, entered: int) -> None:
        while self.entered < entered:
            await anyio.lowlevel.checkpoint()


async def test_an_upload_without_a_free_slot_is_429(
    world: HttpDeployment, staff: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload is 429 with a Retry-After header if no slot becomes free in time."""
    monkeypatch.setattr(upload_limits, "SLOT_TIMEOUT_SECONDS", 0.05)
    slow = BlockingProcessor()
    world.restart(image_processor=slow)
    world.app.site.upload_limiters[PATH] = upload_limits.UploadLimiter(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: staff.post(PATH, **form(b"x")))
        await slow.wait_for(1)
        answer = await staff.post(PATH, **form(b"x"))
        error_body(answer, 429, "rate_limited")
        assert answer.headers["retry-after"] == "2"
        assert slow.entered == 1
        slow.free.set()
    error_body(await staff.post(PATH, **form(b"x")), 422, "invalid_field")


async def test_one_user_cannot_hold_all_slots(
    world: HttpDeployment, staff: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload beyond the user's slots is 429 before its body is read, and another user's is
    processed."""
    monkeypatch.setattr(upload_limits, "SLOT_TIMEOUT_SECONDS", 0.05)
    other = await world.signed_in_client((await add_companion(world.store)).id)
    slow = BlockingProcessor()
    world.restart(image_processor=slow)
    other._transport = Live(world)
    async with anyio.create_task_group() as tasks:
        for _ in range(upload_limits.MAX_UPLOADS_PER_USER):
            tasks.start_soon(lambda: staff.post(PATH, **form(b"x")))
        await slow.wait_for(upload_limits.MAX_UPLOADS_PER_USER)
        error_body(await staff.post(PATH, content=unread_body()), 429, "rate_limited")
        tasks.start_soon(lambda: other.post(PATH, **form(b"x")))
        await slow.wait_for(upload_limits.MAX_UPLOADS_PER_USER + 1)
        slow.free.set()
    assert are_free(world)


async def test_concurrent_uploads_of_one_user_are_all_processed(
    world: HttpDeployment, staff: httpx.AsyncClient
) -> None:
    """Every one of a user's concurrent uploads gets a response."""
    answers = []

    async def send() -> None:
        answers.append((await staff.post(PATH, **form(b"x"))).status_code)

    async with anyio.create_task_group() as tasks:
        for _ in range(3 * upload_limits.MAX_UPLOADS_PER_USER):
            tasks.start_soon(send)
    assert answers == [422] * 3 * upload_limits.MAX_UPLOADS_PER_USER
    assert are_free(world)


async def test_slow_senders_hold_no_work_slots(
    world: HttpDeployment, staff: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload is processed while as many slow senders as there are work slots are sending."""
    monkeypatch.setattr(upload_limits, "SLOT_TIMEOUT_SECONDS", 0.05)
    few = upload_limits.MAX_CONCURRENT_UPLOADS
    others = [
        await world.signed_in_client((await add_companion(world.store)).id) for _ in range(few)
    ]
    trickle = SlowBodies(few)
    async with anyio.create_task_group() as tasks:
        for other in others:
            tasks.start_soon(partial(other.post, PATH, **trickle.body()))
        await trickle.begun.wait()
        error_body(await staff.post(PATH, **form(b"x")), 422, "invalid_field")
        trickle.ended.set()
    assert are_free(world)


async def test_the_oldest_upload_is_aborted_when_the_buffer_is_full(
    world: HttpDeployment, staff: httpx.AsyncClient
) -> None:
    """The oldest unfinished upload is 429 when all bodies together exceed the buffer."""
    world.app.site.upload_limiters[PATH] = upload_limits.UploadLimiter(max_buffered_bytes=5_000)
    other = await world.signed_in_client((await add_companion(world.store)).id)
    trickle, answers = SlowBodies(1), []

    async def send() -> None:
        answers.append(await other.post(PATH, **trickle.body(4_000)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await trickle.begun.wait()
        error_body(await staff.post(PATH, **form(bytes(2_000))), 422, "invalid_field")
        trickle.ended.set()
    error_body(answers[0], 429, "rate_limited")
    assert are_free(world)


class SlowBodies:
    """Bodies that start at once and end when `ended` is set."""

    def __init__(self, number: int) -> None:
        self.begun = anyio.Event()
        self.ended = anyio.Event()
        self._missing = number

    def body(self, size: int = 1) -> dict[str, Any]:
        return {"content": self._pieces(size), "headers": MULTIPART}

    async def _pieces(self, size: int) -> AsyncIterator[bytes]:
        yield HEAD + bytes(size)
        self._missing -= 1
        if not self._missing:
            self.begun.set()
        await self.ended.wait()
        yield END


async def unread_body() -> AsyncIterator[bytes]:
    """A body that fails the test when it is read."""
    yield pytest.fail("the body was read")
