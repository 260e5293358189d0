"""Authentication of calls: by API key, by session, or signed out (CONTRACT 2). An invalid
credential counts against the rate limit of the client's address."""

import hmac
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NoReturn, TypeAlias

from attrs import frozen

from staffbooking_core.domain.accounts import api_keys
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import (
    ApiKeyForbidden,
    Role,
    User,
    hash_session_token,
)
from staffbooking_core.domain.shared.rate_limits import RateLimit, RateLimitDecision
from staffbooking_core.errors import Forbidden, Unauthenticated
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import sessions
from staffbooking_http.api import mounting, rate_limits
from staffbooking_http.api.access_log import note_caller
from staffbooking_http.api.endpoint import Call, Header, SignedInUser

SESSION_COOKIE_NAME = "connect.sid"
SAFE_METHODS = frozenset({"GET", "HEAD"})

UserCheck: TypeAlias = Callable[[User, datetime], None]
"""Raises Forbidden for a user of the wrong role or tier."""

_SESSION_COOKIE_NAME_BYTES = SESSION_COOKIE_NAME.encode()
_ONE_SECOND = timedelta(seconds=1)


@frozen
class ApiKeyAccess:
    """Access by an API key in the Authorization header only."""

    permission: Permission
    is_rate_limited: bool = True
    identifies_caller: bool = True

    async def admit(self, call: Call) -> None:
        verdicts = await _admit_api_key(call, self.permission, call.rules)
        rate_limits.apply_verdicts(call, verdicts, call.rules)


@frozen
class SessionAccess:
    """Access by a session cookie; methods other than GET and HEAD also need the CSRF token."""

    check_user: UserCheck | None = None
    is_rate_limited: bool = True
    identifies_caller: bool = True

    async def admit(self, call: Call) -> None:
        if call.headers(b"authorization"):
            await _reject_credential(
                call, "session_required", "This takes a session, not an API key"
            )
        try:
            signed_in = await authenticate_session(call.ports, call.scope["headers"], call.now)
        except SessionEnded:
            await rate_limits.count_address(call)
            raise
        user = signed_in.user
        call.signed_in, call.user, call.actor = signed_in, user, signed_in.actor
        call.subject = rate_limits.user_subject(user.id)
        note_caller(call.scope, user.id)
        if call.scope["method"] not in SAFE_METHODS:
            check_csrf(
                signed_in,
                call.headers(b"x-csrf-token"),
                "The X-CSRF-Token header is missing or wrong",
            )
        if self.check_user is not None:
            self.check_user(user, call.now)
        await rate_limits.count(call, call.subject)
        await sessions.touch_session(call.ports, signed_in.session)


@frozen
class ApiKeyOrSessionAccess:
    """Access by an API key or a session; an Authorization header excludes the session."""

    permission: Permission
    """The permission that a key needs."""
    check_user: UserCheck | None = None
    """The check of a session's user."""
    replacing_rate_limit_name: str | None = None
    """The name of a per-user limit, shared by keys and sessions, that replaces the general one."""
    is_rate_limited: bool = True
    identifies_caller: bool = True

    async def admit(self, call: Call) -> None:
        if self.replacing_rate_limit_name is not None:
            call.rules = (getattr(call.ports.policy.limits, self.replacing_rate_limit_name),)
        if not call.headers(b"authorization"):
            await SessionAccess(self.check_user).admit(call)
        elif self.replacing_rate_limit_name is None:
            await ApiKeyAccess(self.permission).admit(call)
        else:
            await _admit_api_key(call, self.permission, ())
            await rate_limits.count_user(call, call.user.id)


@frozen
class SignedOutAccess:
    """Access without credentials, for sign-up, sign-in and inquiries; refuses foreign origins."""

    is_rate_limited: bool = True
    identifies_caller: bool = False

    async def admit(self, call: Call) -> None:
        policy = call.ports.policy
        own = mounting.origin(policy).encode()
        if any(origin.lower() != own for origin in call.headers(b"origin")):
            message = f"The request comes from a foreign page, not from {policy.base_url}"
            raise Forbidden("foreign_origin", message)
        await rate_limits.count(call, rate_limits.address_subject(call))


@frozen
class SecretPathAccess:
    """Access for anyone who knows the secret path. Calls count against the client's address, so
    that paths cannot be guessed by trial."""

    is_rate_limited: bool = True
    identifies_caller: bool = False

    async def admit(self, call: Call) -> None:
        await rate_limits.count_address(call)


@frozen
class PublicAccess:
    """Access for operations and the sandbox: no authentication, rate limits or limit headers."""

    is_rate_limited: bool = False
    identifies_caller: bool = False

    async def admit(self, call: Call) -> None:
        """Nothing to check."""


class SessionEnded(Unauthenticated):
    """The session cookie names no active session."""

    def __init__(self) -> None:
        super().__init__("unauthenticated", "The session has ended: sign in again")


async def authenticate_session(
    ports: Ports, headers: Iterable[Header], now: datetime
) -> SignedInUser:
    """The user signed in by the session cookie. Does not extend the session: see
    `sessions.touch_session`. Raises Unauthenticated (no cookie), SessionEnded, StoreUnavailable."""
    if (token := find_session_token(headers)) is None:
        raise Unauthenticated("unauthenticated", "Sign in first")
    caller = await ports.admission.authenticate_session(hash_session_token(token), now)
    if caller is None:
        raise SessionEnded
    return SignedInUser(caller.user, token, caller.session)


def check_csrf(signed_in: SignedInUser, submitted: Sequence[bytes], message: str) -> None:
    """Raises Forbidden `csrf_failed` unless exactly the session's token was submitted."""
    if len(submitted) != 1 or not hmac.compare_digest(submitted[0], signed_in.csrf.encode()):
        raise Forbidden("csrf_failed", message)


def find_session_token(headers: Iterable[Header]) -> str | None:
    """The text of the session cookie; None without one."""
    for header in (value for known, value in headers if known == b"cookie"):
        for crumb in header.split(b";"):
            name, _, value = crumb.strip().partition(b"=")
            if name == _SESSION_COOKIE_NAME_BYTES and value:
                return value.decode("latin-1")
    return None


def session_cookie_header(policy: Policy, token: str | None) -> Header:
    """The Set-Cookie header that stores a session token; with None, the one that deletes it."""
    seconds = 0 if token is None else policy.session_lifetime // _ONE_SECOND
    secure = "; Secure" if policy.base_url.startswith("https:") else ""
    lifetime = f"Path={mounting.base_path(policy) or '/'}; Max-Age={seconds}"
    cookie = f"{SESSION_COOKIE_NAME}={token or ''}; {lifetime}; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", cookie.encode("ascii")


def require_customer(user: User, _: datetime) -> None:
    """Raises Forbidden for a user who is not a customer."""
    if user.role is not Role.CUSTOMER:
        raise Forbidden("customers_only", "Only customers book for themselves")


def require_staff(user: User, _: datetime) -> None:
    """Raises Forbidden for a user who is not a staff member."""
    if user.role is not Role.STAFF:
        raise Forbidden("staff_only", "This is for staff members only")


def require_admin(user: User, _: datetime) -> None:
    """Raises Forbidden for a user who is not an admin."""
    if user.role is not Role.ADMIN:
        raise Forbidden("admins_only", "This is for admins only")


async def _admit_api_key(
    call: Call, permission: Permission, rules: Sequence[RateLimit]
) -> Sequence[RateLimitDecision]:
    """Authenticate the API key; returns the decision of each rate limit rule."""
    authorization = call.headers(b"authorization")
    if not authorization:
        raise Unauthenticated("unauthenticated", "An API key is required")
    if (key := _parse_bearer_key(authorization)) is None:
        await _reject_credential(call, "invalid_api_key", "The API key is not valid")
    try:
        caller, verdicts = await call.ports.admission.authenticate_api_key(
            api_keys.digest_api_key(key), permission, rules, call.now
        )
    except Unauthenticated:
        await rate_limits.count_address(call)
        raise
    except ApiKeyForbidden as error:
        refused = error.key
        call.subject = f"key:{refused.id}" if rules else rate_limits.user_subject(refused.owner_id)
        raise
    call.user, call.actor = caller.owner, caller.actor
    note_caller(call.scope, caller.owner.id, caller.key.id)
    return verdicts


def _parse_bearer_key(authorization: list[bytes]) -> str | None:
    """The key of a single, well-formed header; None for any other, which needs no look-up."""
    scheme, _, rest = authorization[0].partition(b" ")
    key = rest.strip().decode("latin-1")
    if (
        len(authorization) > 1
        or scheme.lower() != b"bearer"
        or not api_keys.is_well_formed_api_key(key)
    ):
        return None
    return key


async def _reject_credential(call: Call, code: str, message: str) -> NoReturn:
    await rate_limits.count_address(call)
    raise Unauthenticated(code, message)
