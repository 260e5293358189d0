"""Idempotent calls: the first response to a key is stored, and a repeated call gets it again, byte
for byte (CONTRACT 4).

A call is run in one of two ways:

- `run` commits its changes and its response in one transaction, which stays open from the
  use-case's unit of work until the response is built. A process that ends in between has done
  nothing.
- `run_repeatable` is for use-cases that call other services between their transactions, and that
  may be repeated safely. The key is claimed by a lease first, and the response is stored at the
  end. A process that ends in between leaves a claim, which a repeated call takes over when its
  lease is over.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from attrs import evolve, field, frozen

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.errors import (
    Conflict,
    ConstraintViolated,
    RuleBroken,
    StaffbookingError,
    StoreUnavailable,
)
from staffbooking_core.policy import Policy
from staffbooking_core.ports import (
    IDEMPOTENCY_KEY_TAKEN,
    IN_PROGRESS,
    BookingWrite,
    Lease,
    OpenTransaction,
    Ports,
    PubSub,
    ReadView,
    Store,
    StoredResponse,
    Subscriber,
    Transaction,
)
from staffbooking_core.representations.channel import Broadcast

__all__ = [
    "IdempotentCall",
    "Response",
    "find_response",
    "run",
    "run_repeatable",
    "scope_of_api_key",
    "scope_of_user",
    "to_stored_response",
]

T = TypeVar("T")

_WAIT_SECONDS = 0.1
"""Interval between looks for the response of a concurrent call."""

_UNKEPT_STATUSES = frozenset({401, 403, 412, 429})


@frozen
class Response:
    """A response to an idempotent call, as HTTP has it."""

    status: int
    body: bytes = field(default=b"", repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    is_replay: bool = False
    """Whether it was stored by an earlier or a concurrent call."""

    @property
    def is_kept(self) -> bool:
        """Whether a repeated call gets it again. Errors of the server and refusals that the caller
        can end are not kept."""
        return self.status < 500 and self.status not in _UNKEPT_STATUSES


@frozen
class IdempotentCall:
    """A call with an idempotency key."""

    scope: str
    """The caller: the API key or the user."""
    key: str = field(repr=False)
    """The key as the caller chose it; only its digest is stored."""
    fingerprint: bytes
    """Digest of the path and body."""
    shows_secret: bool = False
    """Whether the response shows a secret, and is sealed under the key."""
    booking_response: Callable[[Booking], Response] | None = None
    """The response to the request of a booking, so that it is stored with the booking in the same
    statement."""

    @property
    def key_digest(self) -> str:
        """SHA-256 of the key in hexadecimal digits, under which the response is stored."""
        return hashlib.sha256(self.key.encode()).hexdigest()

    @property
    def seal_purpose(self) -> str:
        """The purpose from which the vault derives the sealing key: it has the idempotency key, so
        that nothing that is stored opens the seal."""
        return f"idempotent-response:{self.scope}:{self.key}"


Work: TypeAlias = Callable[[Ports], Awaitable[Response]]
"""Handles the call with the given ports."""
ErrorResponse: TypeAlias = Callable[[Exception], Response | None]
"""The response to an error; None for one that is no answer to the call."""


def scope_of_user(user_id: int) -> str:
    """The scope of the keys of a signed-in user."""
    return f"user:{user_id}"


def scope_of_api_key(key_id: int) -> str:
    """The scope of the idempotency keys that come with an API key."""
    return f"key:{key_id}"


async def find_response(ports: Ports, call: IdempotentCall) -> Response | None:
    """The response stored for a call; None without one, and while the call is in progress.

    Raises RuleBroken `idempotency_mismatch` where the key was used for another call.
    """
    async with ports.store.read_view() as view:
        stored = await view.idempotency.stored_response(
            call.scope, call.key_digest, ports.clock.wall()
        )
    if stored is None:
        return None
    if stored.fingerprint != call.fingerprint:
        raise RuleBroken("idempotency_mismatch", "The key was used for another request")
    return None if stored.status == IN_PROGRESS else _to_response(ports, call, stored)


async def run(
    ports: Ports, call: IdempotentCall, work: Work, error_response: ErrorResponse
) -> Response:
    """Run a call once, or return the response that is stored for it.

    `work` gets ports whose store keeps the transaction of the call open until its response is saved
    in it. Broadcasts are published after the commit. Of concurrent calls one commits; the others
    are rolled back and return its response. The response to an error is stored too, where it
    `is_kept`; other errors are raised.

    Raises RuleBroken `idempotency_mismatch`.
    """
    if (stored := await find_response(ports, call)) is not None:
        return stored
    pubsub = _DeferredPubSub(ports.pubsub)
    try:
        async with AsyncExitStack() as stack:
            store = _JoiningStore(ports, call, stack)
            response = await work(evolve(ports, store=store, pubsub=pubsub))
            await store.save_response(response)
    except Exception as error:
        return await _settle_error(ports, call, error, error_response)
    pubsub.publish_deferred()
    return response


async def run_repeatable(
    ports: Ports, call: IdempotentCall, work: Work, error_response: ErrorResponse
) -> Response:
    """Run a call whose `work` may be repeated safely, or return the response that is stored for it.

    While another process runs the same call this waits, and takes the call over where that process
    has ended. A call that was taken over itself waits too, and runs again where its successor gave
    the key back. Errors are treated as by `run`: one that is not kept gives the key back.

    Raises RuleBroken `idempotency_mismatch`, and Conflict where the other call takes too long.
    """
    deadline = ports.clock.wall() + 2 * ports.policy.lease_duration
    while True:
        if (stored := await find_response(ports, call)) is not None:
            return stored
        if (lease := await _claim(ports, call)) is not None:
            response = await _run_claimed(ports, call, lease, work, error_response)
            if response is not None:
                return response
        elif ports.clock.wall() >= deadline:
            raise Conflict("idempotent call")
        else:
            await ports.clock.sleep(_WAIT_SECONDS)


async def _run_claimed(
    ports: Ports, call: IdempotentCall, lease: Lease, work: Work, error_response: ErrorResponse
) -> Response | None:
    """Run a claimed call and store its response. None where another process has taken the call
    over, whose response is the one that counts."""
    try:
        response = await work(ports)
    except Exception as error:
        answer = error_response(error)
        if answer is None or not answer.is_kept:
            await _release(ports, call, lease)
            raise
        response = answer
    finished = to_stored_response(ports, call, response)
    is_stored = await ports.store.run_transaction(
        lambda tx: tx.idempotency.finish_call(finished, lease)
    )
    return response if is_stored else None


def to_stored_response(ports: Ports, call: IdempotentCall, response: Response) -> StoredResponse:
    """The row of a response. A body that shows a secret is sealed."""
    body = response.body
    if call.shows_secret:
        body = ports.vault.seal(call.seal_purpose, body, 0)
    return _to_row(
        ports, call, response.status, _format_headers(response.headers), body, call.shows_secret
    )


# Storing ----------------------------------------------------------------------------------


async def _settle_error(
    ports: Ports, call: IdempotentCall, error: Exception, error_response: ErrorResponse
) -> Response:
    """The response to an error of a call that was rolled back. Where a concurrent call has stored
    its response, it is that one. Raises an error that is not kept."""
    answer = None if _is_key_taken(error) else error_response(error)
    if answer is not None and answer.is_kept:
        row = to_stored_response(ports, call, answer)
        try:
            await ports.store.run_transaction(lambda tx: tx.idempotency.save_response(row))
        except ConstraintViolated as conflict:
            if not _is_key_taken(conflict):
                raise
        else:
            return answer
    is_known = answer is not None or isinstance(error, StaffbookingError)
    if not is_known or isinstance(error, StoreUnavailable):
        raise error
    first = await find_response(ports, call)
    if first is not None:
        return first
    raise Conflict("idempotent call") if _is_key_taken(error) else error


def _is_key_taken(error: Exception) -> bool:
    return isinstance(error, ConstraintViolated) and error.constraint == IDEMPOTENCY_KEY_TAKEN


async def _claim(ports: Ports, call: IdempotentCall) -> Lease | None:
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + ports.policy.lease_duration)
    claim = _to_row(ports, call, IN_PROGRESS, "", b"", is_sealed=False)
    is_claimed = await ports.store.run_transaction(
        lambda tx: tx.idempotency.claim_key(claim, lease, now)
    )
    return lease if is_claimed else None


async def _release(ports: Ports, call: IdempotentCall, lease: Lease) -> None:
    await ports.store.run_transaction(
        lambda tx: tx.idempotency.release_key(call.scope, call.key_digest, lease)
    )


def _to_row(
    ports: Ports, call: IdempotentCall, status: int, headers: str, body: bytes, is_sealed: bool
) -> StoredResponse:
    return StoredResponse(
        scope=call.scope,
        key=call.key_digest,
        fingerprint=call.fingerprint,
        status=status,
        headers=headers,
        body=body,
        is_sealed=is_sealed,
        expires_at=ports.clock.wall() + ports.policy.idempotency_lifetime,
    )


def _to_response(ports: Ports, call: IdempotentCall, stored: StoredResponse) -> Response:
    body = stored.body
    if stored.is_sealed:
        body = ports.vault.open(call.seal_purpose, body, 0)
    return Response(stored.status, body, _parse_headers(stored.headers), is_replay=True)


def _format_headers(headers: tuple[tuple[str, str], ...]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in headers)


def _parse_headers(text: str) -> tuple[tuple[str, str], ...]:
    parts = (line.partition(": ") for line in text.splitlines())
    return tuple((name, value) for name, _, value in parts)


# The ports of a call ------------------------------------------------------------------------


class _JoiningStore:
    """The store of one call. Its transactions are one, which `save_response` completes, and which
    is committed when `stack` is closed."""

    def __init__(self, ports: Ports, call: IdempotentCall, stack: AsyncExitStack) -> None:
        self._ports, self._call, self._stack = ports, call, stack
        self._store: Store = ports.store
        self._open: OpenTransaction[Any] | None = None
        self._failure: Exception | None = None
        self._is_saved = False

    def read_view(self) -> AbstractAsyncContextManager[ReadView]:
        return self._store.read_view() if self._open is None else nullcontext(self._open.view)

    async def run_transaction(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        if self._open is None:
            opened = await self._stack.enter_async_context(self._store.open_transaction(work))
            self._open = opened
            return opened.result
        try:
            return await work(self._open.transaction)
        except Exception as error:
            self._failure = error  # What it has written can't be undone alone.
            raise

    @asynccontextmanager
    async def open_transaction(
        self, work: Callable[[Transaction], Awaitable[T]]
    ) -> AsyncIterator[OpenTransaction[T]]:
        result = await self.run_transaction(work)
        assert self._open is not None
        yield evolve(self._open, result=result)

    async def add_booking(self, booking_write: BookingWrite) -> None:
        if self._call.booking_response is None or self._open is not None:
            await self.run_transaction(lambda tx: tx.bookings.add_booking(booking_write))
            return
        response = self._call.booking_response(booking_write.booking)
        stored = to_stored_response(self._ports, self._call, response)
        await self._store.add_booking(evolve(booking_write, response=stored))
        self._is_saved = True

    async def check_writable(self, now: datetime) -> None:
        await self._store.check_writable(now)

    async def delete_expired(self, now: datetime, policy: Policy) -> int:
        return await self._store.delete_expired(now, policy)

    async def save_response(self, response: Response) -> None:
        """Save the response in the call's transaction, or in one of its own if there is none."""
        if self._failure is not None:
            raise self._failure
        if not self._is_saved:
            row = to_stored_response(self._ports, self._call, response)
            await self.run_transaction(lambda tx: tx.idempotency.save_response(row))


class _DeferredPubSub:
    """Publishes after the commit of a call what the call published."""

    def __init__(self, pubsub: PubSub) -> None:
        self._pubsub = pubsub
        self._deferred: list[Callable[[], None]] = []

    def publish_messages_stored(self) -> None:
        self._deferred.append(self._pubsub.publish_messages_stored)

    def publish(self, broadcast: Broadcast) -> None:
        self._deferred.append(lambda: self._pubsub.publish(broadcast))

    def subscribe(self, subscriber: Subscriber) -> AbstractAsyncContextManager[None]:
        return self._pubsub.subscribe(subscriber)

    def publish_deferred(self) -> None:
        for publish in self._deferred:
            publish()
