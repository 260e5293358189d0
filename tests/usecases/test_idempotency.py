"""Idempotent calls: the first response counts, and is stored with the changes of its call."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, POLICY, SECOND
from staffbooking_core.errors import Conflict, Forbidden, NotFound, RuleBroken, StoreUnavailable
from staffbooking_core.inputs import AddPortfolioItem
from staffbooking_core.ports import IN_PROGRESS
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.companions import profiles
from staffbooking_core.usecases.idempotency import IdempotentCall, Response
from tests.support.memory_deployment import make_booking_scenario

pytestmark = pytest.mark.anyio

CALL = IdempotentCall("key:1", "call", b"same")
OTHER = evolve(CALL, fingerprint=b"other")
LEASE = POLICY.lease_duration


class Killed(BaseException):
    """The process ends."""


def status_of(error):
    """The response to a refusal; None for an error of the service."""
    statuses = {RuleBroken: 400, NotFound: 404, Forbidden: 403}
    return Response(statuses[type(error)], b"no") if type(error) in statuses else None


def answering(body=b"first"):
    async def work(ports):
        return Response(201, body, (("etag", '"1"'), ("x-note", "a: b")))

    return work


def failing(error):
    async def work(ports):
        raise error

    return work


def adding(scene, title="The spring ball", then=None):
    """A call that adds a portfolio item, and raises `then` after its transaction. Concurrent calls
    have all looked for a response before one of them adds."""

    async def work(ports):
        await asyncio.sleep(0)
        wanted = AddPortfolioItem(title=title, image="photos/ball.jpg")
        await profiles.add_portfolio_item(ports, scene.staff, wanted)
        if then is not None:
            raise then
        items = await profiles.list_portfolio_items(ports, scene.staff)
        return Response(201, str(len(items)).encode())

    return work


async def run(scene, work, call=CALL):
    return await idempotency.run(scene.ports, call, work, status_of)


async def run_repeatable(scene, work, call=CALL):
    return await idempotency.run_repeatable(scene.ports, call, work, status_of)


async def titles(scene):
    items = await profiles.list_portfolio_items(scene.ports, scene.staff)
    return [item.title for item in items]


async def stored_row(scene, call=CALL):
    async with scene.ports.store.read_view() as view:
        return await view.idempotency.stored_response(
            call.scope, call.key_digest, scene.ports.clock.wall()
        )


each_way = pytest.mark.parametrize("way", [run, run_repeatable])


# Responses --------------------------------------------------------------------------------


@each_way
async def test_a_repeated_call_gets_the_first_response(scene, way):
    """A repeated call gets the status, body and headers of the first, marked as a replay."""
    first = await way(scene, answering())
    again = await way(scene, answering(b"second"))
    assert again == evolve(first, is_replay=True)


@each_way
async def test_a_refusal_is_kept(scene, way):
    """A refusal is replayed although the call would succeed now."""
    refused = await way(scene, failing(NotFound("Booking")))
    assert refused == Response(404, b"no")
    assert await way(scene, answering()) == evolve(refused, is_replay=True)


@each_way
@pytest.mark.parametrize("error", [Forbidden(), Conflict(), ValueError()])
async def test_what_may_pass_is_not_kept(scene, way, error):
    """A missing right and an error of the service are raised, and the key stays free."""
    with pytest.raises(type(error)):
        await way(scene, failing(error))
    assert await stored_row(scene) is None
    assert not (await way(scene, answering())).is_replay


@each_way
async def test_another_request_under_the_key_is_refused(scene, way):
    """Another request under a key is `idempotency_mismatch`, also where a refusal is stored."""
    await way(scene, failing(NotFound("Booking")))
    with pytest.raises(RuleBroken) as caught:
        await way(scene, answering(), OTHER)
    assert caught.value.code == "idempotency_mismatch"


@each_way
async def test_a_lapsed_answer_makes_room(scene, way):
    """A key is free after a day of wall time."""
    await way(scene, answering(b"old"))
    scene.pass_time(DAY - SECOND)
    assert (await way(scene, answering(b"new"))).body == b"old"
    scene.pass_time(SECOND)
    assert (await way(scene, answering(b"new"))).body == b"new"


async def test_the_sandbox_clock_keeps_answers(scene):
    """The sandbox clock does not expire stored responses."""
    await run(scene, answering())
    await scene.jump_to(await scene.now() + 3 * DAY)
    assert await idempotency.find_response(scene.ports, CALL) is not None


async def test_only_a_digest_of_the_key_is_stored(scene):
    """The stored row has the SHA-256 of the key, not the key."""
    await run(scene, answering())
    row = await stored_row(scene)
    assert (len(row.key), "call" in repr(row)) == (64, False)


@each_way
async def test_a_secret_is_sealed_under_the_key(scene, way):
    """A response that shows a secret is stored sealed, and replayed in the clear."""
    call = evolve(CALL, shows_secret=True)
    await way(scene, answering(b"whsec_1"), call)
    row = await stored_row(scene)
    assert row.is_sealed
    assert b"whsec_1" not in row.body
    assert (await way(scene, answering(), call)).body == b"whsec_1"


async def test_a_seal_opens_with_its_key_alone(scene):
    """The vault does not open a sealed response without the idempotency key."""
    call = evolve(CALL, shows_secret=True)
    await run(scene, answering(b"whsec_1"), call)
    row, vault = await stored_row(scene), scene.ports.vault
    assert vault.open(call.seal_purpose, row.body, 0) == b"whsec_1"
    for purpose in (evolve(call, key="other").seal_purpose, f"{call.scope}:{row.key}"):
        with pytest.raises(Exception, match="can't be opened"):
            vault.open(purpose, row.body, 0)


# One transaction --------------------------------------------------------------------------


async def test_a_call_sees_its_own_changes(scene):
    """What a call reads after its unit of work contains what it wrote."""
    assert (await run(scene, adding(scene))).body == b"1"
    assert await titles(scene) == ["The spring ball"]


@pytest.mark.parametrize("end", [Killed(), ValueError()])
async def test_nothing_is_committed_without_the_response(scene, end):
    """A call that ends after its unit of work, and before its response, has changed nothing."""
    with pytest.raises(type(end)):
        await run(scene, adding(scene, then=end))
    assert await titles(scene) == []


async def test_a_refusal_undoes_what_was_done_before_it(scene):
    """A call that is refused after its unit of work has changed nothing."""
    assert (await run(scene, adding(scene, then=NotFound("Booking")))).status == 404
    assert await titles(scene) == []


async def test_an_ended_call_can_be_repeated(scene):
    """The key of a call that was ended is free, and the repeated call does its work once."""
    with pytest.raises(Killed):
        await run(scene, adding(scene, then=Killed()))
    for _ in range(2):
        await run(scene, adding(scene))
    assert await titles(scene) == ["The spring ball"]


class EndingStore:
    """A store of a process that ends at the commit: before it, or after it."""

    def __init__(self, store, *, is_committed):
        self._store, self._is_committed = store, is_committed

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def add_booking(self, booking_write):
        await self._store.add_booking(booking_write)
        raise Killed

    @asynccontextmanager
    async def open_transaction(self, work):
        async with self._store.open_transaction(work) as opened:
            yield opened
            if not self._is_committed:
                raise StoreUnavailable


def ending_scene(scene, *, is_committed):
    store = EndingStore(scene.ports.store, is_committed=is_committed)
    return evolve(scene, ports=evolve(scene.ports, store=store))


async def test_a_booking_is_committed_with_its_response(scene):
    """A process that ends right after the commit of a booking has stored its response too."""
    call = evolve(CALL, booking_response=lambda booking: Response(201, booking.code.encode()))
    ending = ending_scene(scene, is_committed=True)
    with pytest.raises(Killed):
        await ending.request_once(call)
    assert (await stored_row(scene, call)).status == 201


async def test_a_call_that_is_not_committed_is_not_answered(scene):
    """A call whose commit fails raises, although its response was made."""
    ending = ending_scene(scene, is_committed=False)
    with pytest.raises(StoreUnavailable):
        await run(ending, adding(scene))
    assert await titles(scene) == []


async def test_of_concurrent_calls_one_is_done(scene):
    """Concurrent calls with one key do the work once, and get the same response."""
    first, second = await asyncio.gather(run(scene, adding(scene)), run(scene, adding(scene)))
    assert first.body == second.body
    assert {first.is_replay, second.is_replay} == {False, True}
    assert await titles(scene) == ["The spring ball"]


async def test_of_unequal_concurrent_calls_one_is_done(scene):
    """Of concurrent different calls with one key the slower is refused and changes nothing."""
    results = await asyncio.gather(
        run(scene, adding(scene)),
        run(scene, adding(scene, "The autumn ball"), OTHER),
        return_exceptions=True,
    )
    [refused] = [each for each in results if isinstance(each, RuleBroken)]
    assert (refused.code, len(await titles(scene))) == ("idempotency_mismatch", 1)


async def test_the_first_response_goes_before_a_refusal():
    """A concurrent call that the first one's changes forbid gets the first one's response."""
    scene = await make_booking_scenario(evolve(POLICY, max_portfolio_items=1))
    found = await asyncio.gather(*(run(scene, adding(scene)) for _ in range(3)))
    assert {each.body for each in found} == {b"1"}


async def test_a_failure_that_is_swallowed_commits_nothing(scene):
    """A call that swallows the failure of its second unit of work is not committed."""

    async def fail(tx):
        raise NotFound("Booking")

    async def work(ports):
        await adding(scene)(ports)
        with pytest.raises(NotFound):
            await ports.store.run_transaction(fail)
        return Response(201)

    assert (await run(scene, work)).status == 404
    assert await titles(scene) == []


class Listener:
    """A subscriber that notes how many responses are committed when it is called."""

    def __init__(self, scene):
        self.scene, self.heard = scene, []

    def on_messages_stored(self):
        self.heard.append(len(self.scene.ports.store._committed.state.stored_responses))

    def on_broadcast(self, broadcast):
        """Nothing is broadcast here."""


@pytest.mark.parametrize(("error", "heard"), [(None, [1]), (NotFound("Booking"), [])])
async def test_broadcasts_follow_the_commit(scene, error, heard):
    """What a call publishes is published after its commit, and not if it fails."""

    async def publish(ports):
        await adding(scene)(ports)
        ports.pubsub.publish_messages_stored()
        if error is not None:
            raise error
        return Response(201)

    listener = Listener(scene)
    async with scene.ports.pubsub.subscribe(listener):
        listener.heard.clear()
        await run(scene, publish)
    assert listener.heard == heard


# Claims -----------------------------------------------------------------------------------


class Slow:
    """Work that calls a service, and ends when it is told."""

    def __init__(self, body=b"slow"):
        self.body, self.done = body, anyio.Event()

    async def __call__(self, ports):
        await self.done.wait()
        return Response(200, self.body)


async def test_a_concurrent_call_waits_for_the_response(scene):
    """A call that another one holds waits, and gets its response."""
    calls = []

    async def work(ports):
        calls.append(1)
        for _ in range(20):
            await asyncio.sleep(0)
        return Response(200, b"once")

    found = await asyncio.gather(*(run_repeatable(scene, work) for _ in range(2)))
    assert (len(calls), [each.body for each in found]) == (1, [b"once"] * 2)


async def test_another_call_in_progress_is_a_mismatch(scene):
    """Another request under the key of a call in progress is refused at once."""
    slow = Slow()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_repeatable, scene, slow)
        await anyio.wait_all_tasks_blocked()
        for way in (run, run_repeatable):
            with pytest.raises(RuleBroken):
                await way(scene, answering(), OTHER)
        slow.done.set()


async def test_an_abandoned_call_is_taken_over(scene):
    """The call of a process that was ended is run again when its lease is over, not before."""
    started = scene.ports.clock.wall()
    with pytest.raises(Killed):
        await run_repeatable(scene, failing(Killed()))
    assert (await stored_row(scene)).status == IN_PROGRESS
    assert (await run_repeatable(scene, answering())).body == b"first"
    assert scene.ports.clock.wall() >= started + LEASE


async def test_a_call_that_was_taken_over_answers_as_its_successor(scene):
    """A call whose lease was over stores nothing, and returns the response of its successor."""
    slow = Slow()
    async with anyio.create_task_group() as tasks:
        results = []

        async def call():
            results.append(await run_repeatable(scene, slow))

        tasks.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        scene.pass_time(LEASE)
        await run_repeatable(scene, answering(b"successor"))
        slow.done.set()
    assert results == [await idempotency.find_response(scene.ports, CALL)]


async def test_a_call_that_was_taken_over_waits_for_its_successor(scene):
    """A call whose lease was over waits while its successor works, and returns its response."""
    slow, successor = Slow(), Slow(b"successor")
    async with anyio.create_task_group() as tasks:
        results = []

        async def call(work):
            results.append((await run_repeatable(scene, work)).body)

        tasks.start_soon(call, slow)
        await anyio.wait_all_tasks_blocked()
        scene.pass_time(LEASE)
        tasks.start_soon(call, successor)
        await anyio.wait_all_tasks_blocked()
        slow.done.set()
        for _ in range(20):
            await asyncio.sleep(0)
        successor.done.set()
    assert results == [b"successor"] * 2


async def test_a_call_that_was_taken_over_long_ago_answers_as_its_successor(scene):
    """A call that has lost its lease returns the response that its successor has stored, also after
    the time that it would wait for another call."""
    slow = Slow()
    async with anyio.create_task_group() as tasks:
        results = []

        async def call():
            results.append((await run_repeatable(scene, slow)).body)

        tasks.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        scene.pass_time(3 * LEASE)
        await run_repeatable(scene, answering(b"successor"))
        slow.done.set()
    assert results == [b"successor"]


async def test_a_call_that_is_held_too_long_can_be_retried(scene, monkeypatch):
    """A call that others hold for two leases raises Conflict, which may be retried."""

    async def never(ports, call):
        return None

    monkeypatch.setattr(idempotency, "_claim", never)
    with pytest.raises(Conflict):
        await run_repeatable(scene, answering())
