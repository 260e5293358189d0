"""The two clients: they carry out the flows of `exchange`, with threads or with an event loop."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import wraps
from random import random as random_number
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

import anyio
import httpx

from staffbooking_http.client import calls
from staffbooking_http.client.exchange import (
    RETRIED_ERRORS,
    Call,
    Flow,
    Listing,
    Retries,
    SansIoClient,
)

P = ParamSpec("P")
T = TypeVar("T")

_TIMEOUT = httpx.Timeout(30, connect=5)


class Items(Generic[T]):
    """A list that `Client` reads page by page while it is iterated over."""

    def __init__(self, client: Client, listing: Listing[T]) -> None:
        self._client, self._listing = client, listing

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            for item in page:
                yield item
                self._listing.mark_processed(item)

    def pages(self) -> Iterator[list[T]]:
        """The items page by page. A cursor does not move."""
        call: Call[Mapping[str, Any]] | None = self._listing.first_call()
        while call is not None:
            page = self._client.run(call)
            yield page[self._listing.items_field]
            call = self._listing.next_call(call, page)


class AsyncItems(Generic[T]):
    """A list that `AsyncClient` reads page by page while it is iterated over."""

    def __init__(self, client: AsyncClient, listing: Listing[T]) -> None:
        self._client, self._listing = client, listing

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page:
                yield item
                self._listing.mark_processed(item)

    async def pages(self) -> AsyncIterator[list[T]]:
        """The items page by page. A cursor does not move."""
        call: Call[Mapping[str, Any]] | None = self._listing.first_call()
        while call is not None:
            page = await self._client.run(call)
            yield page[self._listing.items_field]
            call = self._listing.next_call(call, page)


class _Method(Generic[P, T]):
    """A call as a method of both clients."""

    def __init__(self, make: Callable[P, Callable[[SansIoClient], Flow[T]]]) -> None:
        self.make = make

    @overload
    def __get__(self, client: Client, owner: object) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: object) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, client: None, owner: object) -> Callable[P, object]: ...
    def __get__(self, client: Client | AsyncClient | None, owner: object) -> object:
        if client is None:
            return self.make

        @wraps(self.make)
        def method(*args: P.args, **kwargs: P.kwargs) -> object:
            return client.run(self.make(*args, **kwargs))

        return method


class _ListMethod(Generic[P, T]):
    """A call for a list as a method of both clients."""

    def __init__(self, make: Callable[P, Listing[T]]) -> None:
        self.make = make

    @overload
    def __get__(self, client: Client, owner: object) -> Callable[P, Items[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: object) -> Callable[P, AsyncItems[T]]: ...
    @overload
    def __get__(self, client: None, owner: object) -> Callable[P, object]: ...
    def __get__(self, client: Client | AsyncClient | None, owner: object) -> object:
        if client is None:
            return self.make

        @wraps(self.make)
        def method(*args: P.args, **kwargs: P.kwargs) -> object:
            listing = self.make(*args, **kwargs)
            if isinstance(client, Client):
                return Items(client, listing)
            return AsyncItems(client, listing)

        return method


class _Methods:
    """The calls by name. Each may raise any ApiError of `errors`."""

    search = _ListMethod(calls.search)
    get_companion = _Method(calls.get_companion)
    get_availability = _Method(calls.get_availability)
    get_service_types = _Method(calls.get_service_types)
    get_reviews = _Method(calls.get_reviews)
    quote = _Method(calls.quote)
    book = _Method(calls.book)
    get_booking = _Method(calls.get_booking)
    get_bookings = _ListMethod(calls.get_bookings)
    wait_for = _Method(calls.wait_for)
    get_webhooks = _Method(calls.get_webhooks)
    create_webhook = _Method(calls.create_webhook)
    update_webhook = _Method(calls.update_webhook)
    delete_webhook = _Method(calls.delete_webhook)
    rotate_webhook_secret = _Method(calls.rotate_webhook_secret)
    activate_webhook_secret = _Method(calls.activate_webhook_secret)
    try_webhook = _Method(calls.try_webhook)
    get_deliveries = _ListMethod(calls.get_deliveries)
    redeliver = _Method(calls.redeliver)
    get_events = _ListMethod(calls.get_events)


class Client(_Methods):
    """The API by key, for programs without an event loop. Threads may share a client.

    `base_url` begins with `http://` or `https://` and may have a path; ValueError is raised for
    another, and for a key that no header can have, such as one with a line end. `http` brings its
    own transport, timeouts and proxies, and is closed by the caller. `sleep`, `clock` (seconds of
    any origin) and `random` (0 to 1) are for tests.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        http: httpx.Client | None = None,
        retries: Retries = Retries(),  # noqa: B008
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random_number,
    ) -> None:
        self._sans_io = SansIoClient(base_url, api_key, retries, clock, random)
        self._http, self._is_own = http or httpx.Client(timeout=_TIMEOUT), http is None
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._is_own:
            self._http.close()

    def run(self, plan: Callable[[SansIoClient], Flow[T]]) -> T:
        """Carry out a call or another flow."""
        flow = plan(self._sans_io)
        try:
            step = next(flow)
            while True:
                if not isinstance(step, httpx.Request):
                    self._sleep(step)
                    step = next(flow)
                    continue
                try:
                    response = self._http.send(_with_timeouts(step, self._http.timeout))
                except RETRIED_ERRORS as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(response)
        except StopIteration as end:
            result: T = end.value
            return result


class AsyncClient(_Methods):
    """The API by key, for asyncio and trio: as `Client`, with methods to await and lists for
    `async for`."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        http: httpx.AsyncClient | None = None,
        retries: Retries = Retries(),  # noqa: B008
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random_number,
    ) -> None:
        self._sans_io = SansIoClient(base_url, api_key, retries, clock, random)
        self._http, self._is_own = http or httpx.AsyncClient(timeout=_TIMEOUT), http is None
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._is_own:
            await self._http.aclose()

    async def run(self, plan: Callable[[SansIoClient], Flow[T]]) -> T:
        """Carry out a call or another flow."""
        flow = plan(self._sans_io)
        try:
            step = next(flow)
            while True:
                if not isinstance(step, httpx.Request):
                    await self._sleep(step)
                    step = next(flow)
                    continue
                try:
                    response = await self._http.send(_with_timeouts(step, self._http.timeout))
                except RETRIED_ERRORS as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(response)
        except StopIteration as end:
            result: T = end.value
            return result


def _with_timeouts(request: httpx.Request, timeout: httpx.Timeout) -> httpx.Request:
    """The request with the timeouts that httpx gives to requests that it builds itself."""
    request.extensions = {**request.extensions, "timeout": timeout.as_dict()}
    return request
