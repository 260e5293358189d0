"""Endpoint declarations, the call that a handler receives and the reply that it returns.

`@endpoint` declares the endpoints in `routes/`. One pipeline runs them all, and the OpenAPI
document is built from the same declarations.
"""

from collections import defaultdict
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from datetime import datetime, timedelta
from email.utils import format_datetime
from itertools import count
from typing import Any, Protocol, TypeAlias

from attrs import field, frozen

from staffbooking_adapters.settings import IpNetwork
from staffbooking_core.bounds import MAX_ID
from staffbooking_core.domain.accounts.users import Actor, Session, User, csrf_token
from staffbooking_core.domain.bookings.booking import BOOKING_CODE_LENGTH, Booking
from staffbooking_core.domain.shared.rate_limits import RateLimit, RateLimitDecision, RateLimits
from staffbooking_core.errors import NotFound
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_http.api.metrics import (
    BacklogCache,
    ChannelMetrics,
    LoadMetrics,
    RequestMetrics,
)
from staffbooking_http.api.readiness import ReadinessCheck
from staffbooking_http.api.upload_limits import UploadLimiter

Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
Header: TypeAlias = tuple[bytes, bytes]

_JSON_MEDIA_TYPE = b"application/json"
REQUEST_ID_KEY = "staffbooking_request_id"
"""The key of the request's id in its scope."""


@frozen
class Reply:
    """A response before the pipeline adds the headers common to all responses."""

    status: int
    body: bytes = b""
    headers: tuple[Header, ...] = ()
    media_type: bytes = _JSON_MEDIA_TYPE
    body_stream: AsyncGenerator[bytes] | None = None
    """Streamed instead of `body`; the response then has no Content-Length."""


_MAX_ADDRESS_VERDICTS = 10_000


class AddressVerdicts:
    """The newest decision about each client address that this process knows."""

    __slots__ = ("_verdicts",)

    def __init__(self) -> None:
        self._verdicts: dict[str, RateLimitDecision] = {}

    def add(self, window_key: str, verdict: RateLimitDecision) -> None:
        """Store a decision; beyond _MAX_ADDRESS_VERDICTS the oldest one is removed."""
        self._verdicts.pop(window_key, None)
        self._verdicts[window_key] = verdict
        if len(self._verdicts) > _MAX_ADDRESS_VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]

    def find(self, window_key: str, now: datetime) -> RateLimitDecision | None:
        """The decision about an address, if its window has not ended."""
        verdict = self._verdicts.get(window_key)
        return verdict if verdict is not None and verdict.reset > now.timestamp() else None


@frozen(eq=False)
class AppContext:
    """The state shared by all calls of an application."""

    ports: Ports
    encode_openapi: Callable[[], bytes]
    """Returns the OpenAPI document."""
    trusted_proxies: tuple[IpNetwork, ...] = ()
    """Networks whose X-Forwarded-For is trusted."""
    default_headers: tuple[Header, ...] = ()
    """The headers of every response of the API."""
    request_ids: Iterator[str] = field(init=False)
    """Ids of responses, as they appear in the log."""
    request_metrics: list[RequestMetrics] = field(factory=list)
    """Request counts and durations, for the metrics."""
    channel_metrics: ChannelMetrics = field(factory=ChannelMetrics)
    """Connection and message counts of the channel, for the metrics."""
    load_metrics: LoadMetrics = field(factory=LoadMetrics)
    """The number of requests refused because of an overload, for the metrics."""
    backlog_cache: BacklogCache = field(factory=BacklogCache)
    """The backlog of due work, for the metrics."""
    readiness_check: ReadinessCheck = field(factory=ReadinessCheck)
    """The running check of /readyz."""
    address_verdicts: AddressVerdicts = field(factory=AddressVerdicts)
    """Rate limit decisions, for responses that do not ask the store."""
    upload_limiters: dict[str, UploadLimiter] = field(factory=lambda: defaultdict(UploadLimiter))
    """The limiter of each endpoint that takes files, by path."""

    @request_ids.default
    def _generate_request_ids(self) -> Iterator[str]:
        run = self.ports.ids.token()[:10]
        return (f"{run}-{number}" for number in count(1))


@frozen
class SignedInUser:
    """A signed-in user and their session."""

    user: User
    token: str = field(repr=False)
    """The session's token."""
    session: Session

    @property
    def actor(self) -> Actor:
        return Actor(self.user.id, self.user.role)

    @property
    def csrf(self) -> str:
        """The CSRF token that a changing request sends in a header or a form."""
        return csrf_token(self.token)


class Call:
    """One request, with the state that the pipeline adds to it."""

    __slots__ = (
        "actor",
        "now",
        "params",
        "parsed_input",
        "ports",
        "receive",
        "rules",
        "scope",
        "signed_in",
        "site",
        "subject",
        "user",
        "verdict",
    )

    actor: Actor
    """The caller. Set on admission, as are `user` and, for a session, `signed_in`."""
    user: User
    signed_in: SignedInUser
    parsed_input: Any
    """The endpoint's input: an instance of its `body` or `query` class, or the bytes of a raw
    body, or an upload."""

    def __init__(self, site: AppContext, scope: Scope, receive: Receive) -> None:
        self.site = site
        self.ports = site.ports
        self.scope = scope
        self.receive = receive
        self.now: datetime = site.ports.clock.wall()
        self.params: Sequence[str] = ()
        self.rules: tuple[RateLimit, ...] = ()
        """The rate limits that count the call, the most specific first."""
        self.subject: str | None = None
        """Whose windows count the call of a known caller: `key:ID` or `user:ID`."""
        self.verdict: RateLimitDecision | None = None

    def headers(self, name: bytes) -> list[bytes]:
        """Every value of a header, in order of arrival."""
        return [value for known, value in self.scope["headers"] if known == name]

    def has_matching_etag(self, etag: bytes) -> bool:
        """Whether If-None-Match names this ETag."""
        known_etags = b",".join(self.headers(b"if-none-match")).split(b",")
        return any(one.strip().removeprefix(b"W/") in (etag, b"*") for one in known_etags)

    def path_id(self, resource_name: str, position: int = 0) -> int:
        """The id at a position of the path's parameters, in canonical decimal form. Raises
        NotFound for any other text (CONTRACT)."""
        text = self.params[position]
        is_well_formed = text.isascii() and text.isdigit() and text[0] != "0" and len(text) < 20
        if not is_well_formed or (number := int(text)) > MAX_ID:
            raise NotFound(resource_name)
        return number

    def path_code(self) -> str:
        """The booking code in the path. Raises NotFound for a text that is none."""
        code = self.params[0]
        if len(code) != BOOKING_CODE_LENGTH or not (code.isascii() and code.isalnum()):
            raise NotFound("Booking")
        return code


class Access(Protocol):
    """The authentication of an endpoint; `access.py` has the implementations."""

    @property
    def is_rate_limited(self) -> bool:
        """Whether calls are rate limited and responses have the limit headers."""
        ...

    @property
    def identifies_caller(self) -> bool:
        """Whether every call is of an API key or a user."""
        ...

    async def admit(self, call: Call) -> None:
        """Authenticate and count the call. Raises Unauthenticated, Forbidden, RateLimitExceeded."""
        ...


Handler: TypeAlias = Callable[[Call], Awaitable[Reply]]

_MIN_DEPRECATION_PERIOD = timedelta(days=365)
"""The shortest time from a deprecation to the sunset (docs/compatibility.md)."""


@frozen
class Deprecation:
    """When an endpoint was deprecated, and when it is removed. Raises ValueError if that is less
    than 12 months later."""

    since: datetime
    sunset: datetime
    """The earliest time of its removal."""

    def __attrs_post_init__(self) -> None:
        if self.sunset - self.since < _MIN_DEPRECATION_PERIOD:
            raise ValueError(
                "an endpoint is removed 12 months after its deprecation at the earliest"
            )

    @property
    def headers(self) -> tuple[Header, ...]:
        """`Deprecation` (RFC 9745) and `Sunset` (RFC 8594)."""
        since = b"@%d" % self.since.timestamp()
        return (
            (b"deprecation", since),
            (b"sunset", format_datetime(self.sunset, usegmt=True).encode()),
        )


@frozen(kw_only=True)
class Endpoint:
    """The declaration of one endpoint."""

    method: str
    path: str
    handler: Handler
    access: Access
    operation_id: str
    """The name of the operation in the documents and in generated clients, in camel case."""
    summary: str
    response_schema: Mapping[str, Any]
    """The JSON schema of a successful response."""
    status: int = 200
    description: str = ""
    """Names in braces are replaced by the policy's figures."""
    body: type | None = None
    is_body_optional: bool = False
    max_raw_bytes: int | str | None = None
    """The size limit of a raw body in bytes, or the name of the policy's figure for it."""
    raw_media_type: str = ""
    """The required media type of a raw body; empty accepts any."""
    has_file: bool = False
    """Whether the body is a multipart/form-data form with a file in its field `file`."""
    file_types: str = "JPEG, PNG or WebP"
    """The types of the file, for the documents."""
    is_upload_limited: bool = False
    """Whether `UploadLimiter` bounds the concurrent calls, as bodies are large and slow to
    process."""
    query: type | None = None
    additional_rate_limit_name: str | None = None
    """The name of the endpoint's own limit, counted in addition to the general one."""
    check_target: Handler | None = None
    """Raises NotFound and Forbidden for the path's target. Called when the input is invalid,
    because these errors precede input errors (CONTRACT 1). Every endpoint with a target has one,
    except for a GET without a query, whose handler does the same."""
    build_booking_reply: Callable[[Call, Booking], Reply] | None = None
    """Builds the success reply of a booking request, which is stored under an Idempotency-Key in
    the statement that stores the booking."""
    calls_services: bool = False
    """Whether the handler calls other services between its transactions, and may be repeated
    safely: under an Idempotency-Key it is claimed by a lease."""
    shows_secret: bool = False
    """Whether a success shows a secret, which is stored sealed under an Idempotency-Key."""
    changes_nothing: bool = False
    """Whether it is a POST that changes nothing, and ignores an Idempotency-Key."""
    rule_codes: tuple[str, ...] = ()
    """The codes of the rules that the endpoint may break, for the documents."""
    not_found_name: str = ""
    """The resource name of a 404; empty if the endpoint has none."""
    response_media_type: str = "application/json"
    """The media type of a successful response, for the documents."""
    is_versioned: bool = False
    """Whether the endpoint reads a versioned resource, whose version is the ETag (never a 304), or
    changes it under If-Match."""
    deprecation: Deprecation | None = None
    """Set if it is deprecated: every response then has the headers that say so."""
    has_etag: bool = False
    """Whether a success has an ETag, so that If-None-Match gets a 304."""

    @property
    def takes_idempotency_key(self) -> bool:
        """Whether an Idempotency-Key makes the endpoint safe to repeat (CONTRACT 4): every POST of
        keys and sessions that changes something, but for uploads and accounts."""
        return (
            self.method == "POST"
            and self.access.identifies_caller
            and not (self.changes_nothing or self.takes_upload)
            and not self.path.startswith(("/auth/", "/account/"))
        )

    @property
    def takes_upload(self) -> bool:
        return self.has_file or self.is_upload_limited or self.max_raw_bytes is not None

    def raw_byte_limit(self, policy: Policy) -> int:
        """The size limit of a raw body under a policy, in bytes."""
        limit = self.max_raw_bytes
        byte_limit: int = getattr(policy, limit) if isinstance(limit, str) else limit or 0
        return byte_limit

    def rate_limit_rules(self, limits: RateLimits) -> tuple[RateLimit, ...]:
        """The rate limits that count a call, the most specific first."""
        name, general = self.additional_rate_limit_name, (limits.general,)
        return general if name is None else (getattr(limits, name), *general)


def endpoint(
    method: str, path: str, access: Access, **fields: Any
) -> Callable[[Handler], Endpoint]:
    """Declare a handler as an endpoint; `fields` are those of `Endpoint`."""

    def declare(handler: Handler) -> Endpoint:
        return Endpoint(method=method, path=path, access=access, handler=handler, **fields)

    return declare
