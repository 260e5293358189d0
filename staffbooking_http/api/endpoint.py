"""What an endpoint is, what its handler gets and what it gives back.

The table of endpoints is declared by `@endpoint` in `routes/`; one pipeline runs them all,
and the OpenAPI document is made of the same declarations.
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
from datetime import datetime
from itertools import count
from typing import Any, Protocol, TypeAlias

from attrs import field, frozen

from staffbooking_adapters.settings import IpNetwork
from staffbooking_core.domain.accounts.users import Actor, Session, User, csrf_token
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.shared.rate_limits import RateLimit, RateLimitDecision, RateLimits
from staffbooking_core.errors import NotFound
from staffbooking_core.inputs import MAX_ID
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.idempotency import IdempotencyRequest
from staffbooking_http.api.metrics import BacklogCache, ChannelMetrics, RequestMetrics
from staffbooking_http.api.upload_limits import UploadLimiter

Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
Header: TypeAlias = tuple[bytes, bytes]

_JSON_MEDIA_TYPE = b"application/json"
REQUEST_ID_KEY = "staffbooking_request_id"
"""The key in a page's request state of the id that the answer bears."""


@frozen
class Reply:
    """An answer before it goes out; the pipeline adds the headers that all answers have."""

    status: int
    body: bytes = b""
    headers: tuple[Header, ...] = ()
    media_type: bytes = _JSON_MEDIA_TYPE
    body_stream: AsyncGenerator[bytes] | None = None
    """In the body's place where that is made while it goes out: its length is not told."""


@frozen(eq=False)
class AppContext:
    """What all calls of an application share."""

    ports: Ports
    openapi_document: bytes
    """The OpenAPI document."""
    trusted_proxies: tuple[IpNetwork, ...] = ()
    """Networks whose X-Forwarded-For is believed."""
    default_headers: tuple[Header, ...] = ()
    """What every answer of the interface bears."""
    request_ids: Iterator[str] = field(init=False)
    """A name for each answer, by which the log knows it."""
    request_metrics: list[RequestMetrics] = field(factory=list)
    """What became of calls so far, for the metrics."""
    channel_metrics: ChannelMetrics = field(factory=ChannelMetrics)
    """What passes over the channel, for the metrics."""
    backlog_cache: BacklogCache = field(factory=BacklogCache)
    """What waits to be done, for the metrics."""
    upload_limiters: dict[str, UploadLimiter] = field(factory=lambda: defaultdict(UploadLimiter))
    """Of the endpoints that take files, by their path."""

    @request_ids.default
    def _generate_request_ids(self) -> Iterator[str]:
        run = self.ports.ids.token()[:10]
        return (f"{run}-{number}" for number in count(1))


@frozen
class SignedInUser:
    """Who is signed in, and by which session."""

    user: User
    token: str = field(repr=False)
    """Of the session."""
    session: Session

    @property
    def actor(self) -> Actor:
        return Actor(self.user.id, self.user.role)

    @property
    def csrf(self) -> str:
        """What requests bear that change something, in a header or a form."""
        return csrf_token(self.token)


class Call:
    """One request on its way: what came, and what the pipeline has found out about it."""

    __slots__ = (
        "actor",
        "idempotency_request",
        "now",
        "params",
        "parsed_input",
        "ports",
        "receive",
        "rules",
        "scope",
        "signed_in",
        "site",
        "user",
        "verdict",
    )

    actor: Actor
    """Who calls: there once the caller is admitted, as is `user` and, in a browser, `signed_in`."""
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
        """The windows that the call is counted in, the most specific first."""
        self.verdict: RateLimitDecision | None = None
        self.idempotency_request: IdempotencyRequest[Booking] | None = None

    def headers(self, name: bytes) -> list[bytes]:
        """Every value of a header, in the order in which they came."""
        return [value for known, value in self.scope["headers"] if known == name]

    def has_matching_etag(self, etag: bytes) -> bool:
        """Whether who calls has this version (ETag) already."""
        known_etags = b",".join(self.headers(b"if-none-match")).split(b",")
        return any(one.strip().removeprefix(b"W/") in (etag, b"*") for one in known_etags)

    def path_id(self, resource_name: str, position: int = 0) -> int:
        """The number at a place of the path's parameters, to the letter; NotFound where it can't
        be one (CONTRACT)."""
        text = self.params[position]
        is_well_formed = text.isascii() and text.isdigit() and text[0] != "0" and len(text) < 20
        if not is_well_formed or (number := int(text)) > MAX_ID:
            raise NotFound(resource_name)
        return number


class Access(Protocol):
    """How an endpoint is guarded: one way in each, in `access.py`."""

    @property
    def is_rate_limited(self) -> bool:
        """Whether its calls are counted, and its answers tell of a window."""
        ...

    async def admit(self, call: Call) -> None:
        """Let the call in, counted: raises Unauthenticated, Forbidden and LimitExceeded."""
        ...


Handler: TypeAlias = Callable[[Call], Awaitable[Reply]]


@frozen(kw_only=True)
class Endpoint:
    """One row of the table."""

    method: str
    path: str
    handler: Handler
    access: Access
    summary: str
    response_schema: Mapping[str, Any]
    """The JSON schema of a success."""
    status: int = 200
    description: str = ""
    """Figures of the policy stand in it by their names in braces."""
    body: type | None = None
    is_body_optional: bool = False
    max_raw_bytes: int | str | None = None
    """The most bytes of a body that is taken as it comes, or the name of the policy's figure
    that says how many."""
    raw_media_type: str = ""
    """What such a body must be declared as; anything where it is empty."""
    has_file: bool = False
    """Whether it takes a form (multipart/form-data) with an image in its field `file`."""
    is_upload_limited: bool = False
    """Whether its bodies are large and slow to process: few calls of one user at a time are read,
    and few of all users processed (`UploadLimiter`)."""
    query: type | None = None
    rate_limit_name: str | None = None
    """The name of its own limit, which is spent besides the general one."""
    check_target: Handler | None = None
    """Raises NotFound and Forbidden for what the path names. It is called where the body is
    refused: these errors precede those of a body (CONTRACT 1)."""
    build_stored_reply: Callable[[Call, Booking], Reply] | None = None
    """Builds the reply of a success that is stored under an Idempotency-Key; None takes none."""
    rule_codes: tuple[str, ...] = ()
    """The codes of the rules that it may refuse by, for the documents."""
    not_found_name: str = ""
    """What a 404 is about; empty where there is none."""
    response_media_type: str = "application/json"
    """Of a success, for the documents."""
    has_etag: bool = False
    """Whether a success bears an ETag, so that who has it already is told 304."""

    def raw_byte_limit(self, policy: Policy) -> int:
        """The most bytes of a raw body in a deployment."""
        limit = self.max_raw_bytes
        byte_limit: int = getattr(policy, limit) if isinstance(limit, str) else limit or 0
        return byte_limit

    def rate_limit_rules(self, limits: RateLimits) -> tuple[RateLimit, ...]:
        """The windows of a deployment that a call spends, the most specific first."""
        name, general = self.rate_limit_name, (limits.general,)
        return general if name is None else (getattr(limits, name), *general)


def endpoint(
    method: str, path: str, access: Access, **fields: Any
) -> Callable[[Handler], Endpoint]:
    """Declare a handler as an endpoint; the fields are those of `Endpoint`."""

    def declare(handler: Handler) -> Endpoint:
        return Endpoint(method=method, path=path, access=access, handler=handler, **fields)

    return declare
