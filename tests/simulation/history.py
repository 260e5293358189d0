"""Runs one history: adds people, begins the actions at their times, ends the faults, and compares
what was acknowledged with what is stored."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import secrets
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from unittest import mock

from anyio._backends._asyncio import CancelScope
from anyio._core import _eventloop as anyio_loop
from attrs import frozen
from litestar._asgi import asgi_router

from staffbooking_adapters.testing import builders
from staffbooking_adapters.testing.builders import (
    MINUTE,
    SECOND,
    add_api_key,
    add_companion,
    add_subscriber,
    add_user,
    make_api_key_text,
)
from staffbooking_adapters.testing.builders_messages import add_direct
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Hint, Ports
from staffbooking_http.channel import catch_up, hub
from staffbooking_worker import webhook_dispatcher
from tests.simulation.actors import Actors
from tests.simulation.checks import InvariantChecks
from tests.simulation.clients import ChatClient, Client
from tests.simulation.cluster import Cluster, make_cluster
from tests.simulation.deployment import (
    LONG_RETENTION,
    SimulatedScenario,
    SimulatedScenarios,
    watch_payouts,
)
from tests.simulation.environment import Environment
from tests.simulation.history_end import finish_bookings, heal_processor, sync_bookings
from tests.simulation.initial_bookings import INITIAL_STAGES, make_initial_booking
from tests.simulation.plan import Plan, make_plan
from tests.simulation.promises import find_missing_notifications
from tests.simulation.stores import SharedStore, open_shared_store
from tests.simulation.webhook_endpoints import add_webhook_endpoints
from tests.simulation.world import SimulatedLoop, Stuck, World
from tests.support.memory_deployment import actor_of

CHECK_INTERVAL_SECONDS = 0.5
RESPONSE_TIMEOUT_SECONDS = 60.0
"""Virtual seconds after the last action in which each client gets its responses."""
HOURLY_RATES = (5_030, 4_997)
"""Rates in cents whose fee or half is not a whole number of cents."""
CALM_SECONDS = 6.0
"""Virtual seconds without faults in which all connected clients catch up."""
LIVENESS_WAITS = (6 * MINUTE, 15 * MINUTE, 38 * MINUTE, *(10 * [SECOND]))
"""Jumps of the clock that add up to the hour within which all due work is done."""
RESTART_SECONDS = 5
"""Virtual seconds in which workers start and do the due work. Workers that are stopped may have
claimed a batch, which they release unsent."""
PAYEE_READINESS = ("at once", "completed", "to be completed")
"""When companions can be paid at the processor."""


@frozen
class Outcome:
    """How a history ended."""

    trace_hash: str
    violations: Sequence[str]
    log_lines: Sequence[str]
    fired: Sequence[str]
    """The names of the decisions that brought a fault."""


def run_history(plan: Plan, store: str = "memory") -> Outcome:
    """Run a history on a loop of its own."""
    with _garbage_collected_at_the_end():
        return _run_on_loop(plan, store)


def _run_on_loop(plan: Plan, store: str) -> Outcome:
    loop = SimulatedLoop(plan)
    errors = _Errors()
    logger = logging.getLogger("staffbooking")
    logger.addHandler(errors)
    try:
        with (
            _deterministic(plan.seed),
            open_shared_store(store, LONG_RETENTION) as storage,
            watch_payouts() as payout_faults,
        ):
            return loop.run_until_complete(_run(plan, storage, payout_faults, errors))
    except Stuck as error:
        return Outcome("", [str(error)], [], [])
    finally:
        logger.removeHandler(errors)
        loop.close()


@contextmanager
def _garbage_collected_at_the_end() -> Iterator[None]:
    """Collects garbage once, since the collection would take a fifth of a history's time. Objects
    that existed before are left out."""
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.enable()


def find_failing_seed(seeds: Sequence[int], store: str) -> int:
    """The first of the seeds whose history has a violation, or 0."""
    logging.disable(logging.WARNING)
    # anyio drops the coroutine of a task that is cancelled before its first step, as in a process
    # that dies.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    return next((seed for seed in seeds if run_history(make_plan(seed), store).violations), 0)


def _hash_of_any(_: object) -> int:
    """One hash for all objects, so that sets of them keep the order of insertion."""
    return 0


def _name_of_asyncio() -> str:
    return "asyncio"


@contextmanager
def _deterministic(seed: int) -> Iterator[None]:
    """Makes each run of a history equal: random values come from the seed, and hashes do not depend
    on addresses in memory. Also shortens polls, and removes calls that are slow."""
    chance = random.Random(seed)
    with (
        mock.patch.object(secrets, "token_hex", lambda size: chance.randbytes(size).hex()),
        mock.patch.object(builders, "_sequence", count(1)),
        mock.patch.object(webhook_dispatcher, "POLL_INTERVAL_SECONDS", 1.5),
        mock.patch.object(hub, "TICK_INTERVAL", timedelta(seconds=1)),
        mock.patch.object(catch_up, "TICK_INTERVAL", timedelta(seconds=1)),
        mock.patch.object(CancelScope, "__hash__", _hash_of_any),
        mock.patch.object(Hint, "__hash__", _hash_of_any),
        mock.patch.object(anyio_loop, "current_async_library", _name_of_asyncio),
        mock.patch.object(asgi_router, "format_exc", str),  # Tracebacks of dying servers are slow.
    ):
        yield


class _Errors(logging.Handler):
    """Collects the unexpected errors that the service logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and not _is_simulated(record.exc_info[1]):
            raised = "".join(traceback.format_exception(*record.exc_info)[-6:])
            self.found.append(f"{record.getMessage()}\n{raised}")


def _is_simulated(error: BaseException | None) -> bool:
    """Whether an error comes from a fault of the history."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_simulated(each) for each in error.exceptions)
    return isinstance(error, StoreUnavailable) or "simulated" in str(error)


async def _run(
    plan: Plan, storage: SharedStore, payout_faults: Mapping[int, str], errors: _Errors
) -> Outcome:
    world = World(plan)
    chance = random.Random(plan.seed)
    payees, fee_ppm = chance.choice(PAYEE_READINESS), chance.choice((0, 29_000))
    verdict = chance.choice(("won", "lost"))
    cluster = await make_cluster(
        *(world, storage, payout_faults), manual_payees=payees != "at once", fee_ppm=fee_ppm
    )
    actors, scenarios = await _add_people(cluster)
    if payees == "completed":
        for companion in scenarios.companions:
            await companion.onboard_payee()
    for number, stage in enumerate(chance.choices(INITIAL_STAGES, k=chance.randint(1, 4))):
        made = await make_initial_booking(scenarios.by_pair[number], number, stage)
        actors.environment.booking_ids.append(made.id)
    if chance.random() < 0.3:  # The admin's receiver, whose endpoint is close to being disabled.
        scenarios.webhooks.set_behaviour(-1, "not at all")
    # The conversation has a booking too.
    actors.initial_booking_count = len(actors.environment.booking_ids) + 1
    background: list[asyncio.Future[None]] = []
    try:
        cluster.start()
        background.append(asyncio.ensure_future(cluster.watch()))
        listeners = (*actors.chats, actors.tab)
        background += [asyncio.ensure_future(chat.listen()) for chat in listeners]
        await asyncio.sleep(1)
        await _act(plan, world, actors, InvariantChecks(scenarios))
        await _finish_due_work(actors, scenarios)
        await _check_messages(actors)
        _check_tab(actors)
        await _end(cluster, background)
        by_hand = actors.environment.manually_moved
        if actors.environment.has_lost_events:
            await sync_bookings(scenarios.scene, by_hand)
        for fault in await finish_bookings(scenarios, verdict, by_hand):
            world.report_violation(fault)
        await _check_bookings(actors)
        await _check_verdicts(actors, scenarios)
        notified = [
            booking
            for booking in await _stored_bookings(actors)
            if not {booking.customer_id, booking.companion_id} & actors.once_disabled
        ]
        for text in await find_missing_notifications(cluster.shared, notified):
            world.report_violation(text)
    except Exception:
        world.report_violation(traceback.format_exc())
    finally:
        await _end(cluster, background)
    for text in errors.found:
        world.report_violation(f"unexpected error: {text}")
    return Outcome(world.trace_hash, world.violations, world.log_lines, world.fired)


async def _end(cluster: Cluster, background: list[asyncio.Future[None]]) -> None:
    for task in background:
        task.cancel()
    await asyncio.gather(*background, return_exceptions=True)
    background.clear()
    await cluster.close()


async def _add_people(cluster: Cluster) -> tuple[Actors, SimulatedScenarios]:
    shared, store = cluster.shared, cluster.shared.store
    people = [await add_subscriber(store), await add_user(store), await add_user(store)]
    companions = [
        await add_companion(store, payout_account=None, hourly_rate=rate) for rate in HOURLY_RATES
    ]
    boss = await add_user(store, role=Role.ADMIN)
    customers = [
        await _sign_in(cluster, f"customer {number + 1}", person.id, person.email)
        for number, person in enumerate(people)
    ]
    staff = []
    for number, companion in enumerate(companions):
        async with store.read_view() as view:
            user = await view.accounts.user(companion.id)
        assert user is not None
        staff.append(await _sign_in(cluster, f"staff {number + 1}", user.id, user.email))
    admin = await _sign_in(cluster, "admin", boss.id)
    key = make_api_key_text()
    await add_api_key(store, people[0].id, key)
    enterprise = Client(cluster, "enterprise", people[0].id, api_key=key)
    conversation = await add_direct(store, companion=companions[0], customer=people[0])
    chats = [ChatClient(client, conversation.id) for client in (customers[0], staff[0])]
    webhooks = await add_webhook_endpoints(
        shared, actor_of(people[0]), actor_of(people[1]), actor_of(boss)
    )
    by_pair = tuple(
        SimulatedScenario(shared, actor_of(person), actor_of(companion), actor_of(boss))
        for companion in companions
        for person in people
    )
    scenarios = SimulatedScenarios(by_pair, cluster.fake_store, webhooks)
    tab = ChatClient(await _sign_in(cluster, "tab", people[0].id), conversation.id)
    environment = Environment(cluster, (*customers, *staff, admin), staff, webhooks)
    actors = Actors(cluster, customers, staff, enterprise, admin, chats, tab, environment)
    return actors, scenarios


async def _sign_in(cluster: Cluster, name: str, user_id: int, email: str = "") -> Client:
    client = Client(cluster, name, user_id, email=email)
    await client.sign_in()
    return client


async def _act(plan: Plan, world: World, actors: Actors, checks: InvariantChecks) -> None:
    """Begin each action at its time, check the invariants meanwhile, then end the faults."""
    world.is_calm = False
    running: list[asyncio.Future[None]] = []
    try:
        await _begin_actions(plan, actors, checks, running)
        actors.cluster.heal()
        if running:
            await asyncio.wait(running, timeout=RESPONSE_TIMEOUT_SECONDS)
    finally:
        for task in running:
            task.cancel()
        ended = await asyncio.gather(*running, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error


async def _begin_actions(
    plan: Plan, actors: Actors, checks: InvariantChecks, running: list[asyncio.Future[None]]
) -> None:
    world = actors.cluster.world
    waiting, began = list(plan.actions), world.loop.time()
    end = waiting[-1].at + CHECK_INTERVAL_SECONDS if waiting else 0.0
    while (passed := world.loop.time() - began) < end and not world.violations:
        while waiting and waiting[0].at <= passed:
            running.append(asyncio.ensure_future(actors.act(waiting.pop(0))))
        for fault in await checks.find_faults():
            world.report_violation(fault)
        due = waiting[0].at if waiting else end
        await asyncio.sleep(min(max(due - passed, 0.001), CHECK_INTERVAL_SECONDS))


async def _finish_due_work(actors: Actors, scenarios: SimulatedScenarios) -> None:
    """Check that the workers do all due work within an hour after the end of the faults."""
    world, shared = actors.cluster.world, actors.cluster.shared
    await heal_processor(scenarios)
    await actors.environment.webhooks.heal()
    await asyncio.sleep(max(world.slow_until - world.loop.time(), 0) + CALM_SECONDS)
    for wait in LIVENESS_WAITS:
        world.advance(wait)
        actors.cluster.restart_workers()
        for _ in range(RESTART_SECONDS):
            await asyncio.sleep(1)
            if not (left := await _undone_work(shared)):
                break
        if wait < MINUTE and not left:
            return
    for kind in await _undone_work(shared):
        world.report_violation(f"work is left after an hour: {kind}")


async def _undone_work(shared: Ports) -> list[str]:
    """The kinds of due work that is not done. Payouts are left out: they are due until they are
    made, even if their next attempt is not due."""
    now = shared.clock.wall()
    async with shared.store.read_view() as view:
        left = [str(one.kind) for one in await view.metrics.backlog(now) if one.kind != "payout"]
        for degraded in (False, True):
            due = await view.webhooks.next_batch_due_at(now, degraded=degraded)
            if due is not None and due <= now:
                left.append("webhooks")
    return left


async def _check_messages(actors: Actors) -> None:
    """I5: acknowledged messages are stored once, and everybody who is connected has them, in their
    order, without gaps."""
    world = actors.cluster.world
    async with actors.cluster.shared.store.read_view() as view:
        stored = await view.messages.all_messages_after(0, 10_000)
    contents = [one.content for one in stored]
    ids = {one.content: one.id for one in stored}
    for content in sorted({each for each in contents if contents.count(each) > 1}):
        world.report_violation(f"the message {content!r} is stored {contents.count(content)} times")
    for content, number in actors.messages.items():
        if ids.get(content) != number:
            world.report_violation(f"the acknowledged message {content!r} is lost")
    for each in actors.chats:
        if missed := [one.id for one in stored if one.id not in each.received]:
            world.report_violation(f"{each.client.name} never got the messages {missed}")


def _check_tab(actors: Actors) -> None:
    """I8: no connection outlives its session."""
    opened_at, ended = actors.tab.opened_at, actors.tab.client.credentials_end
    if ended is not None and opened_at is not None and opened_at < ended:
        actors.cluster.world.report_violation("a connection outlives its session")


async def _stored_bookings(actors: Actors) -> list[Booking]:
    async with actors.cluster.shared.store.read_view() as view:
        return [one.booking for one in await view.ledger.audited_bookings(0, 10_000)]


async def _check_verdicts(actors: Actors, scenarios: SimulatedScenarios) -> None:
    """Check that no verdict of a bank was booked as changed more often than the bank changed it."""
    for one in await scenarios.scene.audited_bookings():
        keys = [posting.key.rpartition(":") for posting in one.postings]
        changes = Counter(ref for ref, _, end in keys if ref.startswith("cb:") and end.isdigit())
        made = actors.environment.overturned[one.booking.id]
        booked = max(changes.values(), default=0)
        if booked > made:
            text = f"booking {one.booking.id}: {booked} changes of a verdict are booked, not {made}"
            actors.cluster.world.report_violation(text)


async def _check_bookings(actors: Actors) -> None:
    """Check that acknowledged bookings and changes are stored, and no key made two bookings."""
    world = actors.cluster.world
    bookings = {booking.id: booking for booking in await _stored_bookings(actors)}
    made = len(bookings) - actors.initial_booking_count
    if made > len(actors.booking_keys):
        world.report_violation(f"{len(actors.booking_keys)} keys made {made} bookings")
    for number in actors.environment.booking_ids:
        if number not in bookings:
            world.report_violation(f"the acknowledged booking {number} is lost")
    for number, record in actors.acknowledged:
        booking = bookings[number]
        statuses = {"pending", *(str(entry.to) for entry in booking.timeline)}
        if record["version"] > booking.version or record["status"] not in statuses:
            world.report_violation(f"booking {number}: version {record['version']} is lost")
