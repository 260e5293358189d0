"""Contract of the stores: messages, their order and their queries."""

from __future__ import annotations

import unicodedata
from datetime import timedelta

import pytest
from attrs import asdict, evolve

from staffbooking_adapters.testing.builders import NOW, SECOND, add_user
from staffbooking_adapters.testing.builders_messages import (
    add_direct,
    add_messages,
    add_messages_by,
    make_new_message,
    reload_conversation,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.messaging.conversations import MAX_MESSAGE_LENGTH, Message
from staffbooking_core.errors import ConstraintViolated, RuleBroken

FINE = NOW + timedelta(microseconds=123_456)
ALL = 1_000_000


async def newest(store, conversation, before=None, upto=ALL, limit=10):
    return list(
        await read_store(
            store, lambda view: view.messages.messages_before(conversation.id, before, upto, limit)
        )
    )


async def newer(store, conversation, after=0, upto=ALL, limit=10):
    return list(
        await read_store(
            store, lambda view: view.messages.messages_after(conversation.id, after, upto, limit)
        )
    )


async def tail(store, after=0, limit=10):
    return list(
        await read_store(store, lambda view: view.messages.all_messages_after(after, limit))
    )


async def inbox(store, user_id, after=0, limit=10):
    return list(
        await read_store(
            store, lambda view: view.messages.readable_messages_after(user_id, after, limit)
        )
    )


async def last_id(store, *user_id):
    return await read_store(store, lambda view: view.messages.last_message_id(*user_id))


async def find_by_client_id(store, *names):
    return dict(
        await store.run_transaction(lambda unit: unit.messages.messages_by_client_id(names))
    )


def ids(messages):
    return [message.id for message in messages]


def name(message):
    return message.conversation_id, message.sender_id, message.client_id


class MessagesContract(StoreContract):
    """Messages, their order and their queries."""

    # Storing ----------------------------------------------------------------------------------
    async def test_a_message_comes_back_as_it_was_added(self, store):
        """Every field is stored, times to the microsecond, under a new id."""
        conversation = await add_direct(store)
        new = make_new_message(
            conversation,
            conversation.companion_id,
            sender_name="Mía Lindqvist",
            content=' "See you"\n\tat nine \\ \N{GRINNING FACE} ',
            created_at=FINE,
            recipients=(conversation.companion_id, 404),
            client_id="1 \N{PILE OF POO}",
        )
        [message] = await add_messages(store, new)
        assert message == Message(id=message.id, **asdict(new, recurse=False))
        for again in (newest, newer):
            assert await again(store, conversation) == [message]
        assert await tail(store) == [message]
        assert await inbox(store, conversation.customer_id) == [message]
        assert await find_by_client_id(store, name(message)) == {name(message): message}

    async def test_a_message_needs_no_client_id(self, store):
        """Two messages of a conversation may have no client id."""
        conversation = await add_direct(store)
        sent = await add_messages_by(store, conversation, "Hello", "Hello")
        assert [message.client_id for message in sent] == [None, None]
        assert await newest(store, conversation) == sent

    @pytest.mark.parametrize(
        "text",
        [
            "\N{GRINNING FACE}",
            "\N{LATIN SMALL LETTER E}\N{COMBINING ACUTE ACCENT}\N{COMBINING DOT BELOW}",
            "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{ROCKET}\N{VARIATION SELECTOR-16}\r\n",
            "\N{ARABIC LETTER ALEF WITH HAMZA ABOVE}\N{RIGHT-TO-LEFT MARK}'%_\\x00",
        ],
        ids=["astral", "combining", "joined", "odd"],
    )
    async def test_a_text_is_stored_unchanged(self, store, text):
        """Texts are stored without normalization, up to the longest."""
        content = (text * MAX_MESSAGE_LENGTH)[:MAX_MESSAGE_LENGTH]
        texts = [content, unicodedata.normalize("NFD", content)[:MAX_MESSAGE_LENGTH]]
        conversation = await add_direct(store)
        sent = await add_messages_by(store, conversation, *texts)
        assert [message.content for message in sent] == texts
        assert await newest(store, conversation) == sent

    async def test_message_ids_ascend_in_the_order_of_sending(self, store):
        """Message ids ascend over all conversations, also within one transaction."""
        one, other = await add_direct(store), await add_direct(store)
        first = await add_messages_by(store, other, "first")
        new = [
            make_new_message(conversation, content=f"No. {n}")
            for n, conversation in enumerate((one, other, one, one, other))
        ]
        added = await add_messages(store, *new)
        assert [message.content for message in added] == [each.content for each in new]
        assert ids(first + added) == sorted(set(ids(first + added)))
        assert await tail(store) == first + added

    async def test_a_conversation_is_updated_by_its_messages(self, store):
        """A message sets its conversation's last id and update time, and no other's."""
        one, other = await add_direct(store), await add_direct(store)
        new = [make_new_message(one, created_at=NOW + n * SECOND) for n in range(3)]
        new.insert(1, make_new_message(other, created_at=FINE))
        added = await add_messages(store, *new)
        assert await reload_conversation(store, one) == evolve(
            one, last_id=added[3].id, updated_at=NOW + 2 * SECOND
        )
        assert await reload_conversation(store, other) == evolve(
            other, last_id=added[1].id, updated_at=FINE
        )
        await add_messages_by(store, one, "more")
        assert (await reload_conversation(store, other)).last_id == added[1].id

    async def test_adding_no_messages_does_nothing(self, store):
        """Adding no messages does nothing."""
        conversation = await add_direct(store)
        assert await add_messages(store) == []
        assert await tail(store) == []
        assert await reload_conversation(store, conversation) == conversation

    async def test_a_rolled_back_transaction_leaves_no_message(self, store):
        """A rolled-back transaction leaves no message, read mark or used client id."""
        conversation = await add_direct(store)
        reader = conversation.companion_id
        before = await add_messages_by(store, conversation, "before")

        async def unit(tx):
            await tx.messages.lock_conversations([conversation.id])
            [added] = await tx.messages.add_messages(
                [make_new_message(conversation, client_id="1")]
            )
            await tx.messages.mark_read(conversation.id, reader, added.id)
            assert list(await tx.messages.all_messages_after(0, 10)) == [*before, added]
            raise RuleBroken("any", "any")

        held = await reload_conversation(store, conversation)
        with pytest.raises(RuleBroken):
            await store.run_transaction(unit)
        assert await tail(store) == await inbox(store, reader) == before
        assert (
            await find_by_client_id(store, (conversation.id, conversation.customer_id, "1")) == {}
        )
        assert await reload_conversation(store, conversation) == held
        assert await last_id(store) == before[0].id
        after = await add_messages_by(store, conversation, "after", client_id="1")
        assert await tail(store) == before + after

    # Client ids -------------------------------------------------------------------------------
    async def test_a_message_is_found_by_its_client_id(self, store):
        """Messages are found by conversation, sender and client id; unknown ones are left out."""
        one, other = await add_direct(store), await add_direct(store)
        new = [
            make_new_message(one, client_id="1"),
            make_new_message(one, one.companion_id, client_id="1"),
            make_new_message(one, client_id="2"),
            make_new_message(other, client_id="1"),
            make_new_message(one),
        ]
        added = await add_messages(store, *new)
        names = [name(message) for message in added[:4]]
        assert await find_by_client_id(store, *names) == dict(zip(names, added[:4], strict=True))
        unknown = [
            (one.id, one.customer_id, "3"),
            (one.id, one.companion_id, "2"),
            (other.id, one.customer_id, "1"),
            (other.id, other.companion_id, "1"),
        ]
        assert await find_by_client_id(store, *unknown, names[2]) == {names[2]: added[2]}
        assert await find_by_client_id(store) == {}

    async def test_client_ids_are_compared_exactly(self, store):
        """Client ids are compared exactly, including case."""
        conversation = await add_direct(store)
        texts = [
            "a",
            "A",
            "a ",
            "\N{LATIN SMALL LETTER A WITH ACUTE}",
            "a\N{COMBINING ACUTE ACCENT}",
        ]
        for text in texts:
            await add_messages_by(store, conversation, text, client_id=text)
        names = [(conversation.id, conversation.customer_id, text) for text in texts]
        found = await find_by_client_id(store, *names)
        assert [found[each].content for each in names] == texts

    async def test_a_client_id_is_used_once(self, store):
        """A sender's second use of a client id in a conversation rolls its transaction back."""
        conversation, other = await add_direct(store), await add_direct(store)
        sent = await add_messages_by(store, conversation, "one", client_id="1")
        again = make_new_message(conversation, client_id="1")
        with pytest.raises(ConstraintViolated):
            await add_messages(store, make_new_message(other), again)
        fresh = make_new_message(conversation, client_id="2")
        with pytest.raises(ConstraintViolated):
            await add_messages(store, fresh, fresh)
        assert await tail(store) == sent
        await add_messages(
            store,
            make_new_message(conversation, conversation.companion_id, client_id="1"),
            make_new_message(other, client_id="1"),
            fresh,
        )
        assert len(await tail(store)) == 4

    # Reading ----------------------------------------------------------------------------------
    @pytest.fixture
    async def talk(self, store):
        """Nine messages of one conversation, interleaved with those of another."""
        conversation, other = await add_direct(store), await add_direct(store)
        sent = []
        for n in range(9):
            sent += await add_messages_by(store, conversation, f"No. {n}")
            await add_messages_by(store, other, "elsewhere")
        return conversation, sent

    async def test_the_newest_messages_come_oldest_first(self, store, talk):
        """The newest messages, up to the limit, come the oldest first."""
        conversation, sent = talk
        for limit in (1, 3, 9, 100):
            assert await newest(store, conversation, limit=limit) == sent[-limit:]

    async def test_the_newest_messages_are_below_one(self, store, talk):
        """The newest messages are below the given id, whether or not it exists."""
        conversation, sent = talk
        assert await newest(store, conversation, sent[4].id, limit=3) == sent[1:4]
        assert await newest(store, conversation, sent[4].id + 1, limit=3) == sent[2:5]
        assert await newest(store, conversation, sent[0].id) == []

    async def test_the_newest_messages_are_not_above_another(self, store, talk):
        """The upper bound is inclusive, and the lower of two bounds applies."""
        conversation, sent = talk
        assert await newest(store, conversation, upto=sent[4].id, limit=2) == sent[3:5]
        assert await newest(store, conversation, upto=sent[4].id - 1, limit=2) == sent[2:4]
        assert await newest(store, conversation, sent[2].id, sent[4].id) == sent[:2]
        assert await newest(store, conversation, sent[6].id, sent[4].id) == sent[:5]
        assert await newest(store, conversation, upto=0) == []

    async def test_newer_messages_come_oldest_first(self, store, talk):
        """The next messages above an id, up to the limit, come the oldest first."""
        conversation, sent = talk
        for limit in (1, 3, 9, 100):
            assert await newer(store, conversation, limit=limit) == sent[:limit]
        assert await newer(store, conversation, sent[2].id, limit=3) == sent[3:6]
        assert await newer(store, conversation, sent[2].id - 1, limit=3) == sent[2:5]
        assert await newer(store, conversation, sent[-1].id) == []

    async def test_newer_messages_are_not_above_another(self, store, talk):
        """The upper bound of newer messages is inclusive."""
        conversation, sent = talk
        assert await newer(store, conversation, sent[2].id, sent[5].id) == sent[3:6]
        assert await newer(store, conversation, sent[2].id, sent[5].id - 1) == sent[3:5]
        assert await newer(store, conversation, sent[2].id, sent[2].id) == []
        assert await newer(store, conversation, upto=0) == []

    async def test_an_unknown_conversation_has_no_messages(self, store, talk):
        """Every query of an unknown conversation returns no messages."""
        unknown = evolve(talk[0], id=404)
        assert await newest(store, unknown) == await newer(store, unknown) == []

    async def test_the_tail_has_all_conversations(self, store, talk):
        """All messages above an id come in id order, up to the limit."""
        conversation, sent = talk
        everything = await tail(store, limit=100)
        assert len(everything) == 18
        assert ids(everything) == sorted(ids(everything))
        assert [each for each in everything if each.conversation_id == conversation.id] == sent
        assert await tail(store, limit=5) == everything[:5]
        assert await tail(store, everything[4].id, limit=5) == everything[5:10]
        assert await tail(store, everything[-1].id) == await tail(store, ALL) == []

    async def test_an_inbox_has_all_conversations_of_a_user(self, store):
        """A user's readable messages above an id come in id order, up to the limit."""
        customer = (await add_user(store)).id
        conversations = [await add_direct(store, customer=customer) for _ in range(3)]
        stranger = await add_direct(store)
        sent = []
        for n in range(4):
            for conversation in reversed(conversations):
                sent += await add_messages_by(
                    store, conversation, f"No. {n}", by=conversation.companion_id
                )
            await add_messages_by(store, stranger, "elsewhere")
        assert await inbox(store, customer, limit=100) == sent
        pages, after = [], 0
        while page := await inbox(store, customer, after, limit=5):
            pages.append(page)
            after = page[-1].id
        assert pages == [sent[:5], sent[5:10], sent[10:]]
        assert await inbox(store, customer, sent[6].id - 1, limit=2) == sent[6:8]
        for before, message in zip([0, *ids(sent)], sent, strict=False):
            assert await inbox(store, customer, before, limit=1) == [message]
        own = [each for each in sent if each.conversation_id == conversations[0].id]
        assert await inbox(store, conversations[0].companion_id) == own
        assert await inbox(store, 404) == []

    async def test_the_last_message_id_is_of_all_or_of_one_user(self, store):
        """The last message id is that of all or one user's conversations; 0 without messages."""
        one = await add_direct(store)
        customer, two = one.customer_id, await add_direct(store, customer=one.customer_id)
        stranger = await add_direct(store)
        everybody = ((), (customer,), (one.companion_id,), (stranger.customer_id,), (404,))
        assert [await last_id(store, *each) for each in everybody] == [0, 0, 0, 0, 0]
        [first] = ids(await add_messages_by(store, one, "one"))
        [second] = ids(await add_messages_by(store, two, "two"))
        [last] = ids(await add_messages_by(store, stranger, "three"))
        assert [await last_id(store, *each) for each in everybody] == [last, second, first, last, 0]
