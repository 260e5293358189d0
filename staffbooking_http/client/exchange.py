"""Calls and their repetitions without I/O (sans-I/O), for `Client` and `AsyncClient` alike.

A flow is a generator that `Client.run` and `AsyncClient.run` drive: it yields a request and
receives the response, or yields the seconds after which it is resumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import date, time
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeAlias, TypeVar, cast
from urllib.parse import quote, urlsplit
from uuid import uuid4

import httpx

from staffbooking_core import __version__
from staffbooking_http.client.errors import ApiError, RateLimited, Unavailable, error_of

T = TypeVar("T")

Flow: TypeAlias = Generator[httpx.Request | float, httpx.Response, T]

RETRIED_ERRORS = (
    httpx.NetworkError,
    httpx.TimeoutException,
    httpx.RemoteProtocolError,
    httpx.ProxyError,
    httpx.DecodingError,
)
"""Errors of requests that are sent again. They are thrown into a flow in place of a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often and after what time a call is repeated.

    `attempts` counts the first one too. The wait before the n-th repetition is random, up to
    `base_seconds` doubled n-1 times and at most `max_seconds`. A wait that the service asks for
    is kept in addition; if it is longer than `max_seconds`, the error is raised at once. Raises
    ValueError for less than one attempt.
    """

    attempts: int = 4
    base_seconds: float = 0.5
    max_seconds: float = 30

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call: its path as in the OpenAPI document with the values of its parameters.

    Values that are None are not sent. `result` is a field that each success has: it is returned,
    or the whole answer if `is_whole`. `changes` is false for a POST that changes nothing.
    """

    method: str
    path: str
    path_values: Mapping[str, object] = field(default_factory=dict)
    query: Mapping[str, object] = field(default_factory=dict)
    body: Mapping[str, object] | None = None
    idempotency_key: str | None = None
    changes: bool = True
    _: KW_ONLY
    result: str
    is_whole: bool = False

    def __call__(self, client: SansIoClient) -> Flow[T]:
        return client.send(self)


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A list in pages: the call for the first one. Its `result` is the field with the items."""

    first: Call[Any]

    @property
    def items_field(self) -> str:
        return self.first.result

    def first_call(self) -> Call[Any]:
        return self.first

    def next_call(self, call: Call[Any], page: Mapping[str, Any]) -> Call[Any] | None:
        """The call for the page after this one, or None after the last."""
        items = page[self.items_field]
        if not (page["has_more"] and items):
            return None
        return replace(call, query={**call.query, **self._position(call, items)})

    def _position(self, call: Call[Any], items: Sequence[Any]) -> dict[str, object]:
        """The query parameters of the page after these items."""
        return {"page": int(str(call.query.get("page") or 1)) + 1}

    def mark_processed(self, item: T) -> None:
        """Called with each item when the next one is asked for."""


@dataclass(frozen=True)
class SansIoClient:
    """A client without I/O: makes calls into flows. `clock` returns seconds of any origin, `random`
    a number from 0 to 1."""

    base_url: str
    api_key: str = field(repr=False)
    retries: Retries
    clock: Callable[[], float]
    random: Callable[[], float]

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"base_url must be an address such as https://staff.example, not {self.base_url!r}"
            )
        _check_header_value("api_key", self.api_key)

    def send(self, call: Call[T]) -> Flow[T]:
        """Make a call and repeat it (`Retries`). Raises ApiError."""
        request = self._request(call)
        for attempt in range(1, self.retries.attempts + 1):
            cause: Exception | None = None
            try:
                response = yield request
            except RETRIED_ERRORS as error:
                cause = error
                failure: ApiError = Unavailable(f"No usable answer: {error!r}")
            else:
                body = _decode_object(response)
                # A repeated deletion finds nothing if only the answer to the first was lost.
                is_gone = call.method == "DELETE" and attempt > 1 and response.status_code == 404
                if (response.is_success and call.result in body) or is_gone:
                    return cast(T, body if call.is_whole else body[call.result])
                failure = error_of(response.status_code, body, _retry_after(response))
            seconds = self._seconds_before_repetition(attempt, failure)
            if seconds is None:
                failure.idempotency_key = request.headers.get("Idempotency-Key")
                raise failure from cause
            yield seconds
        raise AssertionError("the last attempt returns or raises")

    def _seconds_before_repetition(self, attempt: int, failure: ApiError) -> float | None:
        """The seconds until the next attempt, or None if there is none."""
        retries = self.retries
        if not isinstance(failure, RateLimited | Unavailable) or attempt >= retries.attempts:
            return None
        retry_after = failure.retry_after or 0
        if retry_after > retries.max_seconds:
            return None
        max_backoff = min(retries.max_seconds, retries.base_seconds * 2.0 ** (attempt - 1))
        return retry_after + max_backoff * self.random()

    def _request(self, call: Call[Any]) -> httpx.Request:
        headers = {
            "Authorization": f"Bearer {self.api_key}",
            "Accept": "application/json",
            "User-Agent": f"staffbooking-client/{__version__}",
        }
        if call.method == "POST" and call.changes:
            key = uuid4().hex if call.idempotency_key is None else call.idempotency_key
            _check_header_value("idempotency_key", key)
            headers["Idempotency-Key"] = key
        content = None
        if call.body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(_to_json_values(call.body)).encode()
        path = call.path.format_map(
            {name: _to_path_segment(name, value) for name, value in call.path_values.items()}
        )
        query = cast(dict[str, str], _to_json_values(call.query))
        url = httpx.URL(self.base_url.rstrip("/") + path).copy_merge_params(query)
        return httpx.Request(call.method, url, headers=headers, content=content)


def _check_header_value(name: str, value: str) -> None:
    """Raises ValueError, without the value, for what httpx would refuse with the value in its
    error."""
    if not (value.isascii() and value.isprintable() and value.strip() == value != ""):
        raise ValueError(f"{name} must be printable ASCII without spaces around it")


def _to_path_segment(name: str, value: object) -> str:
    """Raises ValueError for what would make the path that of another call."""
    if str(value) in ("", ".", ".."):
        raise ValueError(f"{name} must not be {str(value)!r}")
    return quote(str(value), safe="")


def _to_json_values(values: Mapping[str, object]) -> dict[str, object]:
    """The values that are not None, as JSON values."""
    return {name: _to_json_value(value) for name, value in values.items() if value is not None}


def _to_json_value(value: object) -> object:
    match value:
        case time():
            if value != value.replace(second=0, microsecond=0, tzinfo=None):
                raise ValueError(f"{value} must be a time in whole minutes without a time zone")
            return value.strftime("%H:%M")
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")  # the service takes no exponents
        case _:
            return value


def _decode_object(response: httpx.Response) -> dict[str, Any]:
    """The JSON object in a response, empty without one; numbers with a fraction are exact."""
    try:
        body = json.loads(response.content, parse_float=Decimal)
    except (ValueError, ArithmeticError):  # not JSON, or a number beyond Decimal
        return {}
    return body if isinstance(body, dict) else {}


def _retry_after(response: httpx.Response) -> float | None:
    """The seconds that a response asks to wait, by the service's own clock where it names a time.
    None if it asks for nothing."""
    headers = response.headers
    retry_after, reset = headers.get("Retry-After", ""), headers.get("X-RateLimit-Reset", "")
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        sent_at = parsedate_to_datetime(headers["Date"]).timestamp()
        if retry_after:
            return max(0.0, parsedate_to_datetime(retry_after).timestamp() - sent_at)
        return max(0.0, float(reset) - sent_at) if response.status_code == 429 else None
    except (KeyError, ValueError):
        return None
