"""Stored responses of refused calls: the first one counts."""

from __future__ import annotations

import pytest

from staffbooking_core.errors import RuleBroken
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.idempotency import AlreadyAnswered, IdempotencyRequest
from tests.support.builders import DAY, SECOND

pytestmark = pytest.mark.anyio


def keep(fingerprint=b"same"):
    return IdempotencyRequest("key:1", "call", fingerprint, lambda booking: (201, b"{}"))


async def test_a_refusal_is_kept(scene):
    """A repeated call gets the stored refusal."""
    kept = await idempotency.store_failure(scene.ports, keep(), 400, b"no")
    assert (kept.status, kept.body) == (400, b"no")
    with pytest.raises(AlreadyAnswered) as caught:
        await scene.request(keep())
    assert caught.value.response == kept


async def test_the_first_answer_counts(scene):
    """A second response of a concurrent call is discarded."""
    first = await idempotency.store_failure(scene.ports, keep(), 400, b"first")
    assert await idempotency.store_failure(scene.ports, keep(), 422, b"second") == first


async def test_a_kept_success_is_not_overwritten(scene):
    """A failure behind a stored success returns the success."""
    await scene.request(keep())
    assert (await idempotency.store_failure(scene.ports, keep(), 400, b"no")).status == 201


async def test_another_request_under_the_key_is_refused(scene):
    """Another request under a key raises, also where a refusal is stored."""
    await idempotency.store_failure(scene.ports, keep(), 400, b"no")
    with pytest.raises(RuleBroken) as caught:
        await idempotency.store_failure(scene.ports, keep(b"other"), 400, b"no")
    assert caught.value.code == "idempotency_mismatch"


async def test_a_lapsed_answer_makes_room(scene):
    """A key is free after a day of wall time."""
    await idempotency.store_failure(scene.ports, keep(), 400, b"old")
    scene.pass_time(DAY - SECOND)
    assert (await idempotency.store_failure(scene.ports, keep(), 400, b"new")).body == b"old"
    scene.pass_time(SECOND)
    assert (await idempotency.store_failure(scene.ports, keep(), 400, b"new")).body == b"new"


async def test_the_sandbox_clock_keeps_answers(scene):
    """The sandbox clock does not expire stored responses."""
    await idempotency.store_failure(scene.ports, keep(), 400, b"old")
    await scene.jump_to(await scene.now() + 3 * DAY)
    assert await idempotency.find_response(scene.ports, keep()) is not None
