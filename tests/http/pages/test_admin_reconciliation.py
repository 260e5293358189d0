"""Operators ask for a comparison with the processor's statement, and read how it ended."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from staffbooking_adapters.testing.builders import MINUTE
from staffbooking_core.domain.payments.processor import OutcomeUnknown
from staffbooking_core.usecases.payments import reconciliation_runs, statement
from tests.http.deployment import HttpDeployment
from tests.http.pages.test_admin_disputes import PEOPLE, operator, scene_of
from tests.support.html_pages import page_forms, page_text

pytestmark = pytest.mark.anyio

PATH = "/admin/reconciliation"


async def compare(world: HttpDeployment) -> str:
    """Ask on the page, let the worker do it, and read the page."""
    client = await operator(world)
    [form] = page_forms((await client.get(PATH)).text)
    answer = await client.post(form.action, data=form.fields)
    assert (answer.status_code, answer.headers["location"]) == (303, PATH)
    assert "A comparison is being made" in (await client.get(PATH)).text
    assert await reconciliation_runs.make_asked_run(world.ports) == 1
    return page_text((await client.get(PATH)).text)


async def test_both_sides_agree(each_world: HttpDeployment) -> None:
    """The page says that both sides agree, how many bookings were compared, and who asked."""
    await scene_of(each_world).paid_out()
    client = await operator(each_world)
    assert "Nothing was compared yet" in (await client.get(PATH)).text
    text = await compare(each_world)
    assert "Both sides agree 1 booking compared" in text
    assert f"asked for by {each_world.admin.email} Agreed" in text
    assert await reconciliation_runs.make_asked_run(each_world.ports) == 0


async def test_differences_lead_to_their_booking(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each difference is told, with the way to the booking."""
    booking = await scene_of(world).paid()
    monkeypatch.setattr(statement, "find_differences", lambda *_: ["the <b>ledger</b> lacks it"])
    text = await compare(world)
    assert "1 difference 1 booking compared" in text
    assert "the <b>ledger</b> lacks it" in text
    assert f"Money and ledger of {booking.code}" in text


async def test_a_processor_out_of_reach_is_told(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that can't be finished says so, and the next one may be asked for."""
    await scene_of(world).paid()

    async def fail(*_: object) -> None:
        raise OutcomeUnknown

    monkeypatch.setattr(statement._StatementReader, "up_to", fail)
    assert "could not be finished" in await compare(world)
    monkeypatch.undo()
    assert "Both sides agree" in await compare(world)


async def test_one_run_is_asked_for_at_a_time(world: HttpDeployment) -> None:
    """Asking twice makes one run."""
    for _ in range(2):
        await reconciliation_runs.ask_for_run(world.ports, "ana@example.com")
    assert len(await reconciliation_runs.list_runs(world.ports)) == 1


async def test_the_page_is_for_operators(world: HttpDeployment) -> None:
    """Others find nothing, and forged forms ask for nothing."""
    customer = await world.signed_in_client(world.customer.id)
    assert (await customer.get(PATH, headers=PEOPLE)).status_code == 404
    assert (await customer.post(PATH)).status_code == 404
    assert (await (await operator(world)).post(PATH)).status_code == 403
    assert await reconciliation_runs.list_runs(world.ports) == []


async def test_a_long_run_is_made_by_one_worker(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose batches take hours together stays with the worker that has begun it."""
    others: list[int] = []

    async def slow(_: object) -> AsyncIterator[statement.ReconciliationProgress]:
        for batch in range(30):
            world.clock.advance(5 * MINUTE)
            others.append(await reconciliation_runs.make_asked_run(world.ports))
            yield statement.ReconciliationProgress(checked=batch)

    monkeypatch.setattr(reconciliation_runs, "reconcile_statement", slow)
    await reconciliation_runs.ask_for_run(world.ports, None)
    assert await reconciliation_runs.make_asked_run(world.ports) == 1
    assert others == [0] * 30
