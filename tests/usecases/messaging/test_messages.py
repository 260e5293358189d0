"""Messages are stored once, in batches; conversations open on demand; read marks."""

from __future__ import annotations

from contextlib import suppress

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import SECOND, add_booking
from staffbooking_adapters.testing.builders_messages import (
    add_direct,
    add_messages_by,
    add_pair,
    save_group_members,
)
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.messaging.conversations import ContentBlocked, Message
from staffbooking_core.errors import Forbidden, NotFound, RuleBroken, StoreUnavailable
from staffbooking_core.representations.channel import Broadcast, ServerEvent
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.messaging.messages import MessageDraft
from tests.support.memory_deployment import (
    make_booking_scenario,
    memory_ports,
    with_another_companion,
    with_another_customer,
)
from tests.support.message_doubles import (
    BLOCKED_TERM,
    CONTACT_TEXT,
    RecordingSubscriber,
    SimpleContentFilter,
)

pytestmark = pytest.mark.anyio

STRANGER = Actor(999, Role.CUSTOMER)


@pytest.fixture
async def scene():
    """A customer and a companion with a shared booking, and a content filter."""
    scene = await make_booking_scenario(ports=memory_ports(content_filter=SimpleContentFilter()))
    await add_booking(scene.ports.store, scene.staff.user_id, scene.customer.user_id)
    return scene


@pytest.fixture
async def number(scene):
    """The id of their conversation."""
    return await messages.direct_conversation_with(scene.ports, scene.customer, scene.staff.user_id)


def letter(scene, number, content="Hello", client_id=None, by=None):
    return MessageDraft((by or scene.customer).user_id, number, content, client_id)


async def send_all(ports, letters):
    """The results of messages sent as one batch."""
    return await messages.send_messages(
        ports, [await messages.screen_message(ports, each) for each in letters]
    )


async def found_by(scene, number):
    """The conversation as a user sees it."""
    return (await messages.get_conversation(scene.ports, scene.customer, number)).conversation


async def said(scene):
    """All stored messages, the oldest first."""
    async with scene.ports.store.read_view() as view:
        return [message.content for message in await view.messages.all_messages_after(0, 1000)]


def kinds(results):
    """The results as stored contents or error types."""
    return [one.content if isinstance(one, Message) else type(one) for one in results]


class Noting:
    """A store that records commits, and may be unavailable when they are due."""

    def __init__(self, store, trail, *, gone=False):
        self.store, self.trail, self.gone = store, trail, gone

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def run_transaction(self, work):
        async def unit(tx):
            result = await work(tx)
            if self.gone:
                raise StoreUnavailable("gone")
            return result

        result = await self.store.run_transaction(unit)
        self.trail.append("kept")
        return result


# Sending --------------------------------------------------------------------------------


async def test_a_message_goes_to_all_members(scene, number):
    """A message has the sender's name, business time and an ascending id."""
    await scene.jump_to(await scene.now() + SECOND)
    one = await messages.send_message(scene.ports, letter(scene, number, "One", "mine"))
    two = await messages.send_message(scene.ports, letter(scene, number, "Two", by=scene.staff))
    assert one.recipients == two.recipients == (scene.staff.user_id, scene.customer.user_id)
    assert (one.sender_name, two.sender_name) == ("Ada Okoro", "Mia Lindqvist")
    assert (one.created_at, one.client_id) == (await scene.now(), "mine")
    assert one.id < two.id
    assert await said(scene) == ["One", "Two"]


async def test_a_batch_is_one_unit_of_work(scene, number):
    """A batch is one transaction, with results in order."""
    other = await add_direct(scene.ports.store)
    trail: list[str] = []
    ports = evolve(scene.ports, store=Noting(scene.ports.store, trail))
    letters = [
        letter(scene, number, "One"),
        MessageDraft(other.customer_id, other.id, "Two"),
        letter(scene, number, "Three", by=scene.staff),
    ]
    results = await send_all(ports, letters)
    assert kinds(results) == ["One", "Two", "Three"]
    kept = [one for one in results if isinstance(one, Message)]
    assert [one.conversation_id for one in kept] == [number, other.id, number]
    assert kept == sorted(kept, key=lambda one: one.id)
    assert trail == ["kept"]


async def test_a_refused_message_does_not_affect_others(scene, number):
    """A refused message does not affect the others of its batch."""
    group = await save_group_members(scene.ports.store, scene.customer.user_id, [], opens=True)
    await save_group_members(scene.ports.store, scene.customer.user_id, [scene.staff.user_id])
    await save_group_members(scene.ports.store, scene.customer.user_id, [])
    results = await send_all(
        scene.ports,
        [
            letter(scene, number, "One"),
            letter(scene, number, BLOCKED_TERM),
            letter(scene, number, "Two", by=STRANGER),
            letter(scene, 999, "Three"),
            letter(scene, number, CONTACT_TEXT, "mine"),
            letter(scene, group.id, "Four", by=scene.staff),
            letter(scene, number, "Five", "mine"),
        ],
    )
    refused = [ContentBlocked, NotFound, NotFound, ContentBlocked, Forbidden]
    assert kinds(results) == ["One", *refused, "Five"]
    assert await said(scene) == ["One", "Five"]


async def test_a_batch_of_refused_messages_takes_no_ids(scene, number):
    """A batch of refused messages takes no ids."""
    results = await send_all(scene.ports, [letter(scene, number, BLOCKED_TERM)] * 2)
    assert kinds(results) == [ContentBlocked] * 2
    assert await said(scene) == []
    assert (await messages.send_message(scene.ports, letter(scene, number))).id == 1


async def test_equal_client_ids_in_a_batch_store_one_message(scene, number):
    """Equal client ids in a batch store one message; with other content they are refused."""
    twins = [letter(scene, number, text, "mine") for text in ("Once", "Once", "Otherwise")]
    results = await send_all(scene.ports, twins)
    assert kinds(results) == ["Once", "Once", RuleBroken]
    assert results[1] == results[0]
    assert await said(scene) == ["Once"]
    await send_all(scene.ports, [letter(scene, number, "Twice")] * 2)
    assert await said(scene) == ["Once", "Twice", "Twice"]


async def test_a_corrected_message_gets_its_own_result(scene, number):
    """A corrected message under the same client id gets its own result."""
    texts = (BLOCKED_TERM, "Mended", CONTACT_TEXT, "Too late")
    mended = [letter(scene, number, text, "mine") for text in texts]
    results = await send_all(scene.ports, mended)
    assert kinds(results) == [ContentBlocked, "Mended", RuleBroken, RuleBroken]
    faults = await send_all(
        scene.ports, [letter(scene, number, text, "other") for text in (BLOCKED_TERM, CONTACT_TEXT)]
    )
    assert len({str(fault) for fault in faults}) == 2
    assert await said(scene) == ["Mended"]


async def test_a_known_client_id_returns_the_stored_message(scene, number):
    """A known client id returns the stored message, also to who left; with another content it is
    refused."""
    once = letter(scene, number, "Once", "mine")
    first = await messages.send_message(scene.ports, once)
    assert await messages.send_message(scene.ports, once) == first
    for content in ("once", "Otherwise", BLOCKED_TERM):
        with pytest.raises(RuleBroken) as caught:
            await messages.send_message(scene.ports, letter(scene, number, content, "mine"))
        assert caught.value.code == "idempotency_mismatch"
    store, staff_id = scene.ports.store, scene.staff.user_id
    group = await save_group_members(store, scene.customer.user_id, [staff_id], opens=True)
    before = letter(scene, group.id, "Before", "mine", by=scene.staff)
    kept = await messages.send_message(scene.ports, before)
    await save_group_members(store, scene.customer.user_id, [])
    assert await messages.send_message(scene.ports, before) == kept
    assert await said(scene) == ["Once", "Before"]


async def test_client_ids_are_separate_by_sender_and_conversation(scene, number):
    """Client ids are separate by sender and conversation."""
    second = await with_another_companion(scene)
    await add_booking(scene.ports.store, second.staff.user_id, scene.customer.user_id)
    other = await messages.direct_conversation_with(
        scene.ports, scene.customer, second.staff.user_id
    )
    letters = [
        letter(scene, number, "One", "same"),
        letter(scene, number, "Two", "same", by=scene.staff),
        letter(scene, other, "Three", "same"),
    ]
    assert kinds(await send_all(scene.ports, letters)) == ["One", "Two", "Three"]


async def test_concurrent_equal_client_ids_store_one_message(scene, number):
    """Concurrent batches with one client id store one message."""
    twin, results = letter(scene, number, "Once", "mine"), []

    async def send():
        results.append(await messages.send_message(scene.ports, twin))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(send)
    assert results == [results[0]] * 5
    assert await said(scene) == ["Once"]


async def test_subscribers_are_notified_after_the_commit(scene, number):
    """Subscribers are notified after the commit only."""
    trail = []

    class Ears(RecordingSubscriber):
        def on_messages_stored(self):
            trail.append("told")

    async with scene.ports.pubsub.subscribe(Ears()):
        for gone in (False, True):
            store = Noting(scene.ports.store, trail, gone=gone)
            with suppress(StoreUnavailable):
                await messages.send_message(evolve(scene.ports, store=store), letter(scene, number))
    assert trail == ["kept", "told"]


def test_representations_have_no_message_contents():
    """Message contents do not appear in representations for logs."""
    assert "Hello" not in repr(MessageDraft(1, 1, "Hello"))


# Conversations --------------------------------------------------------------------------


async def test_conversations_open_in_portions(scene, monkeypatch):
    """Missing conversations open in batches; existing ones stay unchanged."""
    store = scene.ports.store
    for _ in range(4):
        await add_pair(store, scene.staff.user_id)
    monkeypatch.setattr(messages, "CONVERSATION_BATCH_SIZE", 2)
    first = await messages.list_conversations(scene.ports, scene.staff, 1, 100)
    assert len(first) == 5
    assert await messages.list_conversations(scene.ports, scene.staff, 1, 100) == first


async def test_opened_at_the_same_time_it_is_one(scene):
    """Concurrent opening creates one conversation."""
    numbers = []

    async def open_by(user, other):
        numbers.append(await messages.direct_conversation_with(scene.ports, user, other.user_id))
        listed = await messages.list_conversations(scene.ports, user, 1, 9)
        numbers.extend(one.conversation.id for one in listed)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(open_by, scene.customer, scene.staff)
            tasks.start_soon(open_by, scene.staff, scene.customer)
    assert (len(numbers), len(set(numbers))) == (12, 1)


async def test_a_list_has_one_more_than_asked_for(scene):
    """A page has one more row when another page follows."""
    for _ in range(3):
        await add_pair(scene.ports.store, scene.staff.user_id)
    sizes = [
        len(await messages.list_conversations(scene.ports, scene.staff, page, limit))
        for page, limit in ((1, 3), (1, 4), (2, 3), (2, 4))
    ]
    assert sizes == [4, 4, 1, 0]


async def test_with_whom_one_may_talk(scene):
    """The direct conversation with oneself is None; unknown users and strangers raise."""
    assert (
        await messages.direct_conversation_with(scene.ports, scene.customer, scene.customer.user_id)
        is None
    )
    with pytest.raises(NotFound):
        await messages.direct_conversation_with(scene.ports, scene.customer, 999)
    for other in (scene.admin, (await with_another_customer(scene)).customer):
        with pytest.raises(Forbidden) as caught:
            await messages.direct_conversation_with(scene.ports, scene.customer, other.user_id)
        assert caught.value.code == "no_shared_booking"
    with pytest.raises(RuleBroken):
        await messages.send_to_user(
            scene.ports, scene.customer, scene.customer.user_id, BLOCKED_TERM
        )
    one = await messages.send_to_user(scene.ports, scene.customer, scene.staff.user_id, "Hello")
    two = await messages.send_to_user(scene.ports, scene.staff, scene.customer.user_id, "Hello")
    assert one.conversation_id == two.conversation_id


async def test_who_may_write(scene, number):
    """A stranger gets NotFound, an admin too, and a former member Forbidden."""
    group = await save_group_members(
        scene.ports.store, scene.customer.user_id, [scene.staff.user_id], opens=True
    )
    for conversation_id in (number, group.id):
        await messages.authorize(scene.ports, scene.staff, conversation_id)
        with pytest.raises(NotFound):
            await messages.authorize(scene.ports, scene.admin, conversation_id)
        with pytest.raises(NotFound):
            await messages.get_conversation(scene.ports, scene.admin, conversation_id)
    await save_group_members(scene.ports.store, scene.customer.user_id, [])
    with pytest.raises(Forbidden) as caught:
        await messages.authorize(scene.ports, scene.staff, group.id)
    assert caught.value.code == "conversation_left"
    assert (await messages.get_conversation(scene.ports, scene.staff, group.id)).unread == 0


# Reading --------------------------------------------------------------------------------


async def test_a_mark_never_goes_back(scene, number):
    """The stored mark is broadcast to all members and never goes back."""
    talk, heard = await found_by(scene, number), RecordingSubscriber()
    trail: list[str] = []
    one, two = await add_messages_by(scene.ports.store, talk, "One", "Two")
    ports = evolve(scene.ports, store=Noting(scene.ports.store, trail))
    async with scene.ports.pubsub.subscribe(heard):
        for message in (two, one, two):
            await messages.mark_read(ports, scene.staff.user_id, number, message.id)
    data = {"conversation_id": number, "message_id": two.id, "user_id": scene.staff.user_id}
    assert heard.broadcasts == [Broadcast(talk.recipient_ids, ServerEvent.READ, data)] * 3
    assert trail == ["kept"]
    assert (await messages.get_conversation(scene.ports, scene.staff, number)).unread == 0


async def test_what_is_marked_must_be_there_to_read(scene, number):
    """Only a readable message of the conversation can be marked."""
    store, staff_id = scene.ports.store, scene.staff.user_id
    [elsewhere] = await add_messages_by(store, await add_direct(store), "Elsewhere")
    group = await save_group_members(store, scene.customer.user_id, [staff_id], opens=True)
    [before] = await add_messages_by(store, group, "Before")
    await save_group_members(store, scene.customer.user_id, [])
    [after] = await add_messages_by(store, group, "After")
    for user_id, conversation_id, message_id in (
        (staff_id, number, elsewhere.id),
        (staff_id, number, 999),
        (staff_id, group.id, after.id),
        (scene.admin.user_id, group.id, before.id),
        (staff_id, 999, before.id),
    ):
        with pytest.raises(NotFound):
            await messages.mark_read(scene.ports, user_id, conversation_id, message_id)
    await messages.mark_read(scene.ports, staff_id, group.id, before.id)
    assert (await messages.get_conversation(scene.ports, scene.staff, group.id)).unread == 0


async def test_history_ends_where_one_left(scene):
    """A former member reads up to the point of leaving, in both directions."""
    store, staff_id = scene.ports.store, scene.staff.user_id
    group = await save_group_members(store, scene.customer.user_id, [staff_id], opens=True)
    kept = await add_messages_by(store, group, "One", "Two", "Three")
    await save_group_members(store, scene.customer.user_id, [])
    await add_messages_by(store, group, "Four", "Five")

    async def read(before=None, after=None, limit=10):
        given = {"before": before, "after": after, "limit": limit}
        shown, more = await messages.list_messages(scene.ports, scene.staff, group.id, **given)
        return [message.content for message in shown], more

    assert await read() == (["One", "Two", "Three"], False)
    assert await read(limit=2) == (["Two", "Three"], True)
    assert await read(before=999, limit=1) == (["Three"], True)
    assert await read(after=kept[0].id, limit=2) == (["Two", "Three"], False)
    assert await read(after=kept[0].id, before=999, limit=1) == (["Two"], True)
    assert await read(after=kept[2].id) == ([], False)
