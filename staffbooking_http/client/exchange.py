"""Calls as values, and how an exchange with the service goes: without I/O.

A flow is a generator that asks for what it needs: it yields a request and receives the response,
or yields seconds and is resumed after them. `Client` and `AsyncClient` only carry that out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeAlias, TypeVar, cast
from urllib.parse import quote, urlsplit
from uuid import uuid4

import httpx

from staffbooking_core import __version__
from staffbooking_http.client.errors import ApiError, Unavailable, error_of

T = TypeVar("T")

Flow: TypeAlias = Generator[httpx.Request | float, httpx.Response, T]

NO_ANSWER = (
    httpx.NetworkError,
    httpx.TimeoutException,
    httpx.RemoteProtocolError,
    httpx.ProxyError,
)
"""What a driver throws into a flow in place of a response."""

_RETRIED_STATUSES = {429, 502, 503, 504}


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often and after what time a call is repeated.

    `attempts` counts the first one too. The wait before the n-th repetition is random, up to
    `base_seconds` doubled n-1 times and at most `max_seconds`. A wait that the service asks for
    is kept in addition; if it is longer than `max_seconds`, the error is raised at once.
    """

    attempts: int = 4
    base_seconds: float = 0.5
    max_seconds: float = 30


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call: its path as in the OpenAPI document with the values of its parameters.

    Values that are None are not sent. `result` is the field of the answer to return, or None for
    the whole answer. `changes` is false for a POST that changes nothing.
    """

    method: str
    path: str
    path_values: Mapping[str, object] = field(default_factory=dict)
    query: Mapping[str, object] = field(default_factory=dict)
    body: Mapping[str, object] | None = None
    result: str | None = None
    idempotency_key: str | None = None
    changes: bool = True

    def __call__(self, core: Core) -> Flow[T]:
        return core.send(self)


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A list in pages: the call for the first one, and the field of the answer with the items."""

    first: Call[Any]
    items: str

    def start(self) -> Call[Any]:
        return self.first

    def following(self, call: Call[Any], page: Mapping[str, Any]) -> Call[Any] | None:
        """The call for the page after this one, or None after the last."""
        if not (page["has_more"] and page[self.items]):
            return None
        return replace(call, query={**call.query, **self._position(call, page[self.items])})

    def _position(self, call: Call[Any], items: Sequence[Any]) -> dict[str, object]:
        return {"page": int(str(call.query.get("page") or 1)) + 1}

    def processed(self, item: T) -> None:
        """Called with each item when the next one is asked for."""


@dataclass(frozen=True)
class Core:
    """What the calls of one client share: address, key, retries and sources of time and chance."""

    base_url: str
    api_key: str
    retries: Retries
    clock: Callable[[], float]
    random: Callable[[], float]

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"base_url must be an address such as https://staff.example, not {self.base_url!r}"
            )

    def send(self, call: Call[T]) -> Flow[T]:
        """Make a call with its repetitions. Raises ApiError."""
        request = self._request(call)
        for attempt in range(1, self.retries.attempts + 1):
            cause: Exception | None = None
            try:
                response = yield request
            except NO_ANSWER as error:
                cause = error
                failed: ApiError = Unavailable(f"No answer: {error!r}")
            else:
                body = _decoded(response)
                # A repeated deletion finds nothing if only the answer to the first was lost.
                is_gone = call.method == "DELETE" and attempt > 1 and response.status_code == 404
                if (response.is_success and body is not None) or is_gone:
                    return cast(T, body if call.result is None else (body or {}).get(call.result))
                failed = error_of(response.status_code, body or {}, _retry_after(response))
            wait = self._wait(attempt, failed)
            if wait is None:
                raise failed from cause
            yield wait
        raise AssertionError("the last attempt returns or raises")

    def _wait(self, attempt: int, failed: ApiError) -> float | None:
        """The seconds until the next attempt, or None if there is none."""
        retries = self.retries
        if failed.status not in {None, *_RETRIED_STATUSES} or attempt >= retries.attempts:
            return None
        asked = failed.retry_after or 0
        if asked > retries.max_seconds:
            return None
        longest = min(retries.max_seconds, retries.base_seconds * 2.0 ** (attempt - 1))
        return asked + longest * self.random()

    def _request(self, call: Call[Any]) -> httpx.Request:
        headers = {
            "Authorization": f"Bearer {self.api_key}",
            "Accept": "application/json",
            "User-Agent": f"staffbooking-client/{__version__}",
        }
        if call.method == "POST" and call.changes:
            headers["Idempotency-Key"] = call.idempotency_key or uuid4().hex
        content = None
        if call.body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(_given(call.body)).encode()
        path = call.path.format_map(
            {name: quote(str(value), safe="") for name, value in call.path_values.items()}
        )
        query = cast(dict[str, str], _given(call.query))
        url = httpx.URL(self.base_url.rstrip("/") + path).copy_merge_params(query)
        return httpx.Request(call.method, url, headers=headers, content=content)


def _given(values: Mapping[str, object]) -> dict[str, object]:
    """The values that are not None, as JSON takes them."""
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: object) -> object:
    match value:
        case time():
            return value.strftime("%H:%M")
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case _:
            return value


def _decoded(response: httpx.Response) -> dict[str, Any] | None:
    """The JSON object in a response, or None; numbers with a fraction are exact."""
    try:
        body = json.loads(response.content, parse_float=Decimal)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _retry_after(response: httpx.Response) -> float | None:
    """The seconds that a response asks to wait, by the service's own clock where it names a time.
    None if it asks for nothing."""
    headers = response.headers
    asked, reset = headers.get("Retry-After", ""), headers.get("X-RateLimit-Reset", "")
    if asked.isdecimal():
        return float(asked)
    try:
        sent = parsedate_to_datetime(headers["Date"]).timestamp()
        if asked:
            return max(0.0, parsedate_to_datetime(asked).timestamp() - sent)
        return max(0.0, float(reset) - sent) if response.status_code == 429 else None
    except (KeyError, ValueError):
        return None
