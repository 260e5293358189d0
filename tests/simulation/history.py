"""Runs one history: people are added, actions begin at their times, the faults end, and what was
acknowledged is compared with what is there."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Sequence

from attrs import frozen

from staffbooking_adapters.testing.builders import (
    add_api_key,
    add_companion,
    add_subscriber,
    add_user,
    make_api_key_text,
)
from staffbooking_adapters.testing.builders_messages import add_direct
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.booking import Booking
from tests.simulation.actors import Actors
from tests.simulation.checks import InvariantChecks
from tests.simulation.clients import ChatClient, Client
from tests.simulation.cluster import Cluster, make_cluster
from tests.simulation.deployment import CrashPlan, SimulatedScenario, SimulationWorld
from tests.simulation.history_end import finish_history
from tests.simulation.plan import DURATION_SECONDS, Plan
from tests.simulation.promises import find_untold
from tests.simulation.webhook_endpoints import add_webhook_endpoints
from tests.simulation.world import SimulatedLoop, World
from tests.support.memory_deployment import actor_of

CHECK_INTERVAL_SECONDS = 0.5
PATIENCE_SECONDS = 60.0
"""Virtual seconds after the last action in which all clients get their answers."""
HOURLY_RATES = (5_030, 4_997)
"""Cents whose fee or half is not whole."""
CALM_SECONDS = 6.0
"""Virtual seconds without faults in which all connected clients catch up."""


@frozen
class Outcome:
    """How a history ended."""

    trace_hash: str
    violations: Sequence[str]
    story: Sequence[str]
    fired: Sequence[int]
    """The numbers of the decisions that brought a fault."""


def run_history(plan: Plan) -> Outcome:
    """Run a history on a loop of its own."""
    loop = SimulatedLoop()
    errors = _Errors()
    logger = logging.getLogger("staffbooking")
    logger.addHandler(errors)
    try:
        return loop.run_until_complete(_run(plan, errors))
    finally:
        logger.removeHandler(errors)
        loop.close()


class _Errors(logging.Handler):
    """Collects the errors that the service logs as unexpected."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and "simulated" not in str(record.exc_info[1]):
            raised = "".join(traceback.format_exception(*record.exc_info)[-6:])
            self.found.append(f"{record.getMessage()}\n{raised}")


async def _run(plan: Plan, errors: _Errors) -> Outcome:
    world = World(plan)
    chance = random.Random(plan.seed)
    manual_payees, fee_ppm = chance.random() < 0.3, chance.choice((0, 29_000))
    cluster = make_cluster(world, manual_payees=manual_payees, fee_ppm=fee_ppm)
    actors, known = await _add_people(cluster)
    checks = InvariantChecks(known)
    cluster.start()
    background = [asyncio.ensure_future(cluster.watch())]
    listeners = (*actors.chats, actors.tab)
    background += [asyncio.ensure_future(chat.listen()) for chat in listeners]
    await asyncio.sleep(1)
    for number in range(chance.randint(1, 3)):
        await actors.request(number, chance.randrange(1000))
        for _ in range(chance.randrange(4)):
            await actors.advance(number, 0)
            await asyncio.sleep(3)
    try:
        await _act(plan, world, actors, checks)
        cluster.heal()
        await asyncio.sleep(max(world.slow_until - world.loop.time(), 0) + CALM_SECONDS)
        await _judge_messages(actors)
        _judge_tab(actors)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await cluster.close()
        verdict = chance.choice(("won", "lost"))
        await finish_history(known, verdict, actors.manually_moved)
        await _judge_bookings(actors)
        for text in await find_untold(cluster.shared, await _stored_bookings(actors)):
            world.accuse(text)
    except Exception:
        world.accuse(traceback.format_exc())
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await cluster.close()
    for text in errors.found:
        world.accuse(f"unexpected error: {text}")
    return Outcome(world.trace_hash, world.violations, world.story, sorted(world.fired))


async def _add_people(cluster: Cluster) -> tuple[Actors, SimulationWorld]:
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
    staff = [
        await _sign_in(cluster, f"staff {number + 1}", companion.id)
        for number, companion in enumerate(companions)
    ]
    admin = await _sign_in(cluster, "admin", boss.id)
    key = make_api_key_text()
    await add_api_key(store, people[0].id, key)
    enterprise = Client(cluster, "enterprise", people[0].id, api_key=key)
    conversation = await add_direct(store, companion=companions[0], customer=people[0])
    chats = [ChatClient(client, conversation.id) for client in (customers[0], staff[0])]
    webhooks = await add_webhook_endpoints(
        shared, actor_of(people[0]), actor_of(people[1]), actor_of(boss)
    )
    scenes = tuple(
        SimulatedScenario(shared, actor_of(person), actor_of(companion), actor_of(boss))
        for companion in companions
        for person in people
    )
    known = SimulationWorld(scenes, CrashPlan(), cluster.book, webhooks)
    browser = await _sign_in(cluster, "tab", people[0].id)
    tab = ChatClient(browser, conversation.id)
    return Actors(cluster, customers, staff, enterprise, admin, chats, tab, webhooks), known


async def _sign_in(cluster: Cluster, name: str, user_id: int, email: str = "") -> Client:
    client = Client(cluster, name, user_id, email=email)
    await client.sign_in()
    return client


async def _act(plan: Plan, world: World, actors: Actors, checks: InvariantChecks) -> None:
    """Begin each action at its time, and check the invariants meanwhile."""
    world.is_calm = False
    began = world.loop.time()
    running: list[asyncio.Future[None]] = []
    waiting = list(plan.actions)
    while waiting or world.loop.time() - began < DURATION_SECONDS + CHECK_INTERVAL_SECONDS:
        due = began + (waiting[0].at if waiting else DURATION_SECONDS)
        pause = min(max(due - world.loop.time(), 0), CHECK_INTERVAL_SECONDS)
        await asyncio.sleep(pause if waiting else CHECK_INTERVAL_SECONDS)
        while waiting and began + waiting[0].at <= world.loop.time():
            running.append(asyncio.ensure_future(actors.act(waiting.pop(0))))
        for fault in await checks.find_faults():
            world.accuse(fault)
        if world.violations:
            break
    actors.cluster.heal()
    done, late = await asyncio.wait(running, timeout=PATIENCE_SECONDS)
    for task in late:
        task.cancel()
    for task in done:
        task.result()


async def _judge_messages(actors: Actors) -> None:
    """I5: acknowledged messages are stored once, and everybody who is connected has them, in their
    order, without gaps."""
    world = actors.cluster.world
    async with actors.cluster.shared.store.read_view() as view:
        stored = await view.messages.all_messages_after(0, 10_000)
    contents = [one.content for one in stored]
    ids = {one.content: one.id for one in stored}
    for content in sorted({each for each in contents if contents.count(each) > 1}):
        world.accuse(f"the message {content!r} is stored {contents.count(content)} times")
    for content, number in actors.messages.items():
        if ids.get(content) != number:
            world.accuse(f"the acknowledged message {content!r} is lost")
    for each in actors.chats:
        if missed := [one.id for one in stored if one.id not in each.received]:
            world.accuse(f"{each.client.name} never got the messages {missed}")


def _judge_tab(actors: Actors) -> None:
    """I8: no connection outlives its session."""
    opened_at, ended = actors.tab.opened_at, actors.tab.client.credentials_end
    if ended is not None and opened_at is not None and opened_at < ended:
        actors.cluster.world.accuse("a connection outlives its session")


async def _stored_bookings(actors: Actors) -> list[Booking]:
    async with actors.cluster.shared.store.read_view() as view:
        return [one.booking for one in await view.ledger.audited_bookings(0, 10_000)]


async def _judge_bookings(actors: Actors) -> None:
    """Acknowledged bookings and changes are there; no key made two bookings."""
    world = actors.cluster.world
    bookings = {booking.id: booking for booking in await _stored_bookings(actors)}
    made = len(bookings) - 1  # One has the conversation.
    if made > len(actors.booking_keys):
        world.accuse(f"{len(actors.booking_keys)} keys made {made} bookings")
    for number in actors.booking_ids:
        if number not in bookings:
            world.accuse(f"the acknowledged booking {number} is lost")
    for number, record in actors.acknowledged:
        booking = bookings[number]
        statuses = {"pending", *(str(entry.to) for entry in booking.timeline)}
        if record["version"] > booking.version or record["status"] not in statuses:
            world.accuse(f"booking {number}: version {record['version']} is lost")
