"""Executes one call to the fake processor in one transaction of its document store.

1. Lock the call's intent or payee. Concurrent calls with one key are thus executed once.
2. Consume a fault, if one applies; some faults end the call here.
3. Find the answer stored under the key, or execute the command and store its answer.
4. After the commit, apply the fault to the answer, then return or raise the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final, TypeAlias, TypeVar

import anyio
from attrs import frozen

from staffbooking_adapters.fake import documents
from staffbooking_adapters.fake.answers import (
    AnswerStatus,
    StoredAnswer,
    fingerprint,
    refused_answer,
    replay,
    succeeded_answer,
)
from staffbooking_adapters.fake.documents import FakeDocumentStore, FakeStoreTransaction
from staffbooking_adapters.fake.faults import NOT_EXECUTED_KINDS, FaultInjector, find_refusal_code
from staffbooking_adapters.fake.machine import FakeIntent
from staffbooking_core.domain.payments.processor import (
    OperationKey,
    OutcomeUnknown,
    ProcessorBusy,
    ProcessorRefused,
)
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Clock

A = TypeVar("A")

IntentCommand: TypeAlias = Callable[[FakeIntent, datetime, str], tuple[FakeIntent, A]]
"""Maps an intent, business time and the fault's kind to the next state and the answer."""

TransactionCommand: TypeAlias = Callable[[FakeStoreTransaction, datetime, str], Awaitable[A]]
"""The same with a transaction, for commands that need more than one intent. It must not raise
after a write."""

_SLOW_CALL_SECONDS: Final = 2.0
"""Duration of a call with the fault `slow`."""


@contextmanager
def store_errors_as_unknown() -> Iterator[None]:
    """Raise OutcomeUnknown in place of StoreUnavailable."""
    try:
        yield
    except StoreUnavailable as error:
        raise OutcomeUnknown(error.reason or "the store is unavailable") from error


@contextmanager
def call_deadline(timeout_seconds: float) -> Iterator[None]:
    """Cancel the body after `timeout_seconds`.

    Raises OutcomeUnknown on the timeout, and if the store is unavailable.
    """
    if timeout_seconds <= 0:
        raise OutcomeUnknown("no time for an answer")
    try:
        with store_errors_as_unknown(), anyio.fail_after(timeout_seconds):
            yield
    except TimeoutError:
        raise OutcomeUnknown("no answer in time") from None


@frozen
class CallExecutor:
    """Executes calls with faults and idempotency."""

    store: FakeDocumentStore
    clock: Clock
    injector: FaultInjector

    async def execute_on_intent(
        self,
        key: OperationKey,
        command: tuple[object, ...],
        answer_type: type[A],
        timeout_seconds: float,
        command_fn: IntentCommand[A],
    ) -> A:
        """Execute `command_fn` on the key's intent; otherwise as `execute`."""

        async def change_intent(tx: FakeStoreTransaction, now: datetime, fault: str) -> A:
            return await documents.change_intent(
                tx, key.intent_id, now, lambda intent: command_fn(intent, now, fault)
            )

        return await self.execute(key, command, answer_type, timeout_seconds, change_intent)

    async def execute(
        self,
        key: OperationKey,
        command: tuple[object, ...],
        answer_type: type[A],
        timeout_seconds: float,
        command_fn: TransactionCommand[A],
    ) -> A:
        """Execute `command_fn` once under this key; the key's fingerprint covers `command`.

        Raises ProcessorRefused, ProcessorBusy, OutcomeUnknown and OperationKeyReused."""
        with call_deadline(timeout_seconds):
            command_fingerprint = fingerprint(key, *command)
            now, wall_now = await self.clock.business(), self.clock.wall()

            async def unit(tx: FakeStoreTransaction) -> tuple[str, StoredAnswer | None]:
                await tx.lock(documents.lock_name(key))
                fault = await documents.consume_fault(tx, key.kind, self.injector)
                if fault in NOT_EXECUTED_KINDS:
                    return fault, None
                answer = await documents.find_stored_answer(tx, key.text, wall_now)
                if answer is None:
                    answer = await _execute(tx, now, fault, command_fingerprint, command_fn)
                    await documents.store_answer(tx, key.text, answer, wall_now)
                return fault, answer

            fault, stored = await self.store.transact(unit)
            await self._apply_fault(fault, timeout_seconds)
            assert stored is not None, "faults without execution raise"
            return replay(stored, command_fingerprint, answer_type)

    async def _apply_fault(self, fault: str, timeout_seconds: float) -> None:
        """Raise the fault's error, or delay the answer."""
        match fault:
            case "timeout_before" | "timeout_after":
                raise OutcomeUnknown("no answer in time")
            case "rate_limit":
                raise ProcessorBusy(1.0)
            case "conflict":
                raise ProcessorBusy
            case "slow":
                await self.clock.sleep(min(timeout_seconds, _SLOW_CALL_SECONDS))
                if timeout_seconds < _SLOW_CALL_SECONDS:
                    raise OutcomeUnknown("no answer in time")


async def _execute(
    tx: FakeStoreTransaction,
    now: datetime,
    fault: str,
    command_fingerprint: str,
    command_fn: TransactionCommand[A],
) -> StoredAnswer:
    """Execute the command unless the fault prevents it, and return the answer to store."""
    if fault == "error_500":
        return StoredAnswer(command_fingerprint, AnswerStatus.ERROR)
    try:
        if (code := find_refusal_code(fault)) is not None:
            raise ProcessorRefused(code)
        answer = succeeded_answer(command_fingerprint, await command_fn(tx, now, fault))
    except ProcessorRefused as error:
        answer = refused_answer(command_fingerprint, error)
    if fault == "error_500_after":
        return StoredAnswer(command_fingerprint, AnswerStatus.ERROR)
    return answer
