"""The message batcher: messages that wait share a transaction, and every caller gets a result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from attrs import frozen

from staffbooking_adapters.testing.builders_messages import add_direct
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.errors import StaffbookingError, StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.messaging.messages import MessageDraft, ScreenedMessage
from staffbooking_http.channel.message_batcher import MESSAGE_BATCH_SIZE, MessageBatcher
from tests.channel.flaky_store import FlakyStore, PauseHook
from tests.support.memory_deployment import memory_ports
from tests.support.virtual_loop import VirtualTimeLoop

pytestmark = pytest.mark.anyio

RESULT_TIMEOUT_SECONDS = 20.0
"""Seconds after which a missing result fails the test."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


@frozen
class MessageSender:
    """A batcher, and a sender in one conversation."""

    store: FlakyStore
    batcher: MessageBatcher
    sender_id: int
    conversation_id: int

    def start_sending(self, *contents: str) -> list[asyncio.Task[Message]]:
        drafts = [MessageDraft(self.sender_id, self.conversation_id, text) for text in contents]
        return [asyncio.create_task(self.batcher.send(draft)) for draft in drafts]


@pytest.fixture
async def sender() -> MessageSender:
    store = FlakyStore()
    ports: Ports = memory_ports(store=store)
    talk = await add_direct(ports.store)
    store.write_count = 0
    return MessageSender(store, MessageBatcher(ports), talk.customer_id, talk.id)


async def results_of(tasks: Sequence[asyncio.Task[Message]]) -> list[object]:
    """The stored content of each, or the type of its error."""
    with anyio.fail_after(RESULT_TIMEOUT_SECONDS):
        results = await asyncio.gather(*tasks, return_exceptions=True)
    return [each.content if isinstance(each, Message) else type(each) for each in results]


async def test_waiting_messages_share_a_transaction(sender: MessageSender) -> None:
    """Messages sent during a transaction share the next one."""
    sender.store.before = pause = PauseHook()
    first = sender.start_sending("first")
    await pause.reached.wait()
    others = sender.start_sending(*"abcde")
    await anyio.wait_all_tasks_blocked()
    pause.released.set()
    assert await results_of(first + others) == ["first", *"abcde"]

    assert sender.store.write_count == 2


async def test_an_unreachable_store_fails_all_waiting_messages(sender: MessageSender) -> None:
    """All waiting messages, also beyond one batch, fail with StoreUnavailable."""
    many = [str(number) for number in range(3 * MESSAGE_BATCH_SIZE)]

    async def fail() -> None:
        raise StoreUnavailable

    sender.store.before = fail

    assert await results_of(sender.start_sending(*many)) == [StoreUnavailable] * len(many)


async def test_a_message_after_a_failing_transaction_began_is_stored(
    sender: MessageSender,
) -> None:
    """A message sent during a failing transaction is stored by the next one."""
    pause = PauseHook()

    async def fail() -> None:
        await pause()
        raise StoreUnavailable

    sender.store.before = fail
    early = sender.start_sending("early")
    await pause.reached.wait()
    late = sender.start_sending("late")
    await anyio.wait_all_tasks_blocked()
    pause.released.set()

    assert await results_of(early + late) == [StoreUnavailable, "late"]


async def test_an_unexpected_error_fails_one_message(
    sender: MessageSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error fails its own message, and the other messages of the batch are stored."""
    send_all = messages.send_messages

    async def send_or_fail(
        ports: Ports, drafts: Sequence[ScreenedMessage]
    ) -> Sequence[Message | StaffbookingError]:
        if any(each.draft.content == "stone" for each in drafts):
            raise ArithmeticError
        return await send_all(ports, drafts)

    monkeypatch.setattr(messages, "send_messages", send_or_fail)
    tasks = sender.start_sending("bread", "stone", "wine")

    assert await results_of(tasks) == ["bread", ArithmeticError, "wine"]


async def test_a_cancelled_batch_fails_all_waiting_messages(sender: MessageSender) -> None:
    """A cancelled batch fails its messages and those waiting with StoreUnavailable."""
    pause = PauseHook()
    sending: list[asyncio.Task[Any] | None] = []

    async def record_task() -> None:
        sending.append(asyncio.current_task())
        await pause()

    sender.store.before = record_task
    first = sender.start_sending("a", "b")
    await pause.reached.wait()
    later = sender.start_sending("c", "d")
    await anyio.wait_all_tasks_blocked()
    assert sending[0] is not None
    sending[0].cancel()

    assert await results_of(first + later) == [StoreUnavailable] * 4


async def test_sending_continues_after_a_cancelled_batch(sender: MessageSender) -> None:
    """Messages after a cancelled batch are stored."""

    async def cancel() -> None:
        raise asyncio.CancelledError

    sender.store.before = cancel
    await results_of(sender.start_sending("lost"))

    assert await results_of(sender.start_sending("next")) == ["next"]
