"""A process whose clock is wrong reads and changes nothing (CONTRACT 10)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from staffbooking_adapters.guarded_store import GuardedStore
from staffbooking_adapters.testing.builders import DAY, HOUR, POLICY
from staffbooking_core.errors import ClockWrong
from staffbooking_core.usecases import due_work
from tests.http.deployment import TEST_PASSWORD, HttpDeployment, error_body, json_body

pytestmark = pytest.mark.anyio

MAX_SKEW = POLICY.max_clock_skew


@pytest.fixture
def guarded(world: HttpDeployment) -> HttpDeployment:
    """A deployment whose clock is nine days ahead of the store's."""
    world.restart(store=GuardedStore(world.store, world.clock, MAX_SKEW))
    world.clock.machine_skew = 9 * DAY
    return world


def body(world: HttpDeployment) -> dict[str, object]:
    return {"email": world.customer.email, "password": TEST_PASSWORD}


async def test_changes_are_refused(guarded: HttpDeployment) -> None:
    """What would change something is 503 `unavailable` with Retry-After, for a key, a session and
    a visitor."""
    customer = await guarded.signed_in_client(guarded.customer.id)
    for answer in (
        await guarded.client().post("/auth/login", json=body(guarded)),
        await guarded.client_with_key().post("/api/v1/bookings", json=guarded.request_body()),
        await customer.post("/auth/logout"),
        await guarded.client().post("/sandbox/clock", json={"advance_seconds": 60}),
        await guarded.client().post(
            "/sandbox/payments/faults", json={"op": "any", "kind": "refuse"}
        ),
    ):
        error_body(answer, 503, "unavailable")
        assert answer.headers["retry-after"]


async def test_reading_goes_on(guarded: HttpDeployment) -> None:
    """Search, lists and an old session are served: the session is only not extended."""
    customer = await guarded.signed_in_client(guarded.customer.id)
    guarded.clock.advance(HOUR)
    json_body(await guarded.client_with_key().get("/api/v1/companions"))
    json_body(await customer.get("/bookings"))
    json_body(await guarded.client().get("/healthz"))


async def test_readiness_names_the_clock(guarded: HttpDeployment) -> None:
    """/readyz is 503 and says how far the clock is off; it is ready once the clock is right."""
    answer = await guarded.client().get("/readyz")
    message = error_body(answer, 503, "unavailable")["error"]
    assert message == ("Not ready: this machine's clock is 777600.000 s ahead of the database's")
    assert answer.headers["retry-after"]
    guarded.clock.machine_skew = timedelta(seconds=-30)
    json_body(await guarded.client().get("/readyz"))
    json_body(await guarded.client().post("/auth/login", json=body(guarded)))


@pytest.mark.parametrize(("skew", "shown"), [(-1.5 * HOUR, [-5400.0]), (None, [])])
async def test_the_skew_is_a_metric(
    guarded: HttpDeployment, skew: timedelta | None, shown: list[float]
) -> None:
    """/metrics has the difference in seconds, and none where it is unknown."""
    guarded.clock.machine_skew = skew
    families = text_string_to_metric_families((await guarded.client().get("/metrics")).text)
    found = [
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "staffbooking_clock_skew_seconds"
    ]
    assert found == shown


async def test_no_due_work_is_done(guarded: HttpDeployment) -> None:
    """All due work in one call does nothing: a session that has ended by the wrong clock is still
    there once the clock is right."""
    session = await guarded.signed_in_client(guarded.customer.id)
    guarded.clock.advance(9 * DAY)
    with pytest.raises(ClockWrong, match="unavailable"):
        await due_work.run_all_due(guarded.ports)
    guarded.clock.advance(-9 * DAY)
    json_body(await session.get("/bookings"))
