"""The post: letters go together, and nobody waits in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from attrs import frozen

from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.errors import StaffbookingError, StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.messaging.messages import MessageDraft, ScreenedMessage
from staffbooking_http.channel.message_batcher import MESSAGE_BATCH_SIZE, MessageBatcher
from tests.channel.flaky_store import FlakyStore, PauseHook
from tests.support.memory_deployment import memory_ports
from tests.support.messages import add_direct
from tests.support.virtual_loop import VirtualTimeLoop

pytestmark = pytest.mark.anyio

PATIENCE = 20.0
"""Seconds after which an answer that doesn't come never will."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@frozen
class Office:
    """A post, and what somebody says in one conversation."""

    store: FlakyStore
    post: MessageBatcher
    sender_id: int
    conversation_id: int

    def hand_in(self, *contents: str) -> list[asyncio.Task[Message]]:
        letters = [MessageDraft(self.sender_id, self.conversation_id, text) for text in contents]
        return [asyncio.create_task(self.post.send(letter)) for letter in letters]


@pytest.fixture
async def office() -> Office:
    store = FlakyStore()
    ports: Ports = memory_ports(store=store)
    talk = await add_direct(ports.store)
    store.write_count = 0
    return Office(store, MessageBatcher(ports), talk.customer_id, talk.id)


async def answers(tasks: Sequence[asyncio.Task[Message]]) -> list[object]:
    """What was stored of each, or the kind of its error."""
    with anyio.fail_after(PATIENCE):
        results = await asyncio.gather(*tasks, return_exceptions=True)
    return [each.content if isinstance(each, Message) else type(each) for each in results]


async def test_letters_that_wait_together_go_in_one_unit_of_work(office: Office) -> None:
    """Those that come while one is written share the next unit."""
    office.store.before = pause = PauseHook()
    first = office.hand_in("first")
    await pause.reached.wait()
    others = office.hand_in(*"abcde")
    await anyio.wait_all_tasks_blocked()
    pause.released.set()
    assert await answers(first + others) == ["first", *"abcde"]

    assert office.store.write_count == 2


async def test_all_that_wait_for_a_store_out_of_reach_are_refused_at_once(office: Office) -> None:
    """Also those beyond one unit of work, which is not tried again for each of them."""
    many = [str(number) for number in range(3 * MESSAGE_BATCH_SIZE)]

    async def fail() -> None:
        raise StoreUnavailable

    office.store.before = fail

    assert await answers(office.hand_in(*many)) == [StoreUnavailable] * len(many)


async def test_who_came_after_a_unit_began_is_not_refused_with_it(office: Office) -> None:
    """They have a try of their own."""
    pause = PauseHook()

    async def fail() -> None:
        await pause()
        raise StoreUnavailable

    office.store.before = fail
    early = office.hand_in("early")
    await pause.reached.wait()
    late = office.hand_in("late")
    await anyio.wait_all_tasks_blocked()
    pause.released.set()

    assert await answers(early + late) == [StoreUnavailable, "late"]


async def test_a_letter_that_cannot_be_kept_harms_no_other(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error is told to its sender alone."""
    send_all = messages.send_messages

    async def choke(
        ports: Ports, letters: Sequence[ScreenedMessage]
    ) -> Sequence[Message | StaffbookingError]:
        if any(each.draft.content == "stone" for each in letters):
            raise ArithmeticError
        return await send_all(ports, letters)

    monkeypatch.setattr(messages, "send_messages", choke)
    tasks = office.hand_in("bread", "stone", "wine")

    assert await answers(tasks) == ["bread", ArithmeticError, "wine"]


async def test_nobody_waits_for_a_sending_that_was_cancelled(office: Office) -> None:
    """Neither those whose letters were on their way nor those who were next."""
    pause = PauseHook()
    sending: list[asyncio.Task[Any] | None] = []

    async def note() -> None:
        sending.append(asyncio.current_task())
        await pause()

    office.store.before = note
    first = office.hand_in("a", "b")
    await pause.reached.wait()
    later = office.hand_in("c", "d")
    await anyio.wait_all_tasks_blocked()
    assert sending[0] is not None
    sending[0].cancel()

    assert await answers(first + later) == [StoreUnavailable] * 4


async def test_the_post_goes_on_after_a_sending_that_was_cancelled(office: Office) -> None:
    """What is handed in later is sent as ever."""

    async def cancel() -> None:
        raise asyncio.CancelledError

    office.store.before = cancel
    await answers(office.hand_in("lost"))

    assert await answers(office.hand_in("next")) == ["next"]
