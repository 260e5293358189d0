"""Windows of requests as HTTP knows them: whose they are, and the headers (CONTRACT 8)."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

from staffbooking_adapters.settings import IpNetwork
from staffbooking_core.domain.shared import rate_limits
from staffbooking_core.domain.shared.rate_limits import RateLimitDecision, RateLimitExceeded
from staffbooking_core.errors import StoreUnavailable
from staffbooking_http.api.endpoint import Call, Header

Address: TypeAlias = IPv4Address | IPv6Address

_RATE_LIMIT_HEADER_NAMES = (b"x-ratelimit-limit", b"x-ratelimit-remaining", b"x-ratelimit-reset")


def headers(verdict: RateLimitDecision) -> tuple[Header, Header, Header]:
    """The three headers that every response of the interface bears (SPECIFICATION 8)."""
    limit, remaining, reset = _RATE_LIMIT_HEADER_NAMES
    return (
        (limit, b"%d" % verdict.limit),
        (remaining, b"%d" % verdict.remaining),
        (reset, b"%d" % verdict.reset),
    )


async def count(call: Call, subject: str) -> None:
    """Count the call for a user or an address. Raises RateLimitExceeded if a limit is reached."""
    admission = call.ports.admission
    apply_verdicts(
        call,
        [
            await admission.count_hit(f"{rule.name}:{subject}", rule, call.now)
            for rule in call.rules
        ],
    )


async def count_user(call: Call, user_id: int) -> None:
    """Count the call for a user. Raises RateLimitExceeded if a limit is reached."""
    await count(call, f"user:{user_id}")


async def count_address(call: Call) -> None:
    """Count in the general window of the caller's address, where nobody is signed in."""
    rule = call.ports.policy.limits.general
    apply_verdicts(
        call, [await call.ports.admission.count_hit(_general_window_key(call), rule, call.now)]
    )


def address_subject(call: Call) -> str:
    """The rate limit subject of a caller without credentials."""
    return f"addr:{address_key(call)}"


def apply_verdicts(call: Call, verdicts: Sequence[RateLimitDecision]) -> None:
    """Take note of what the counting gave: the headers show the most specific window."""
    call.verdict = verdicts[0]
    for verdict in verdicts:
        if not verdict.allowed:
            raise RateLimitExceeded(verdict)


async def current_verdict(call: Call) -> RateLimitDecision:
    """The window that the answer tells of: that of the address, uncounted, where the call
    was refused before it was counted."""
    if call.verdict is not None:
        return call.verdict
    rule = call.ports.policy.limits.general
    try:
        return await call.ports.admission.peek(_general_window_key(call), rule, call.now)
    except StoreUnavailable:  # An answer is never lost for its headers.
        return rate_limits.peek(None, call.now, rule)


def _general_window_key(call: Call) -> str:
    return f"general:{address_subject(call)}"


def address_key(call: Call) -> str:
    """The counted address: an IPv4 address, or the /64 network of an IPv6 address, since one
    machine may hold all of that network."""
    nearest = _client_address(call)
    if isinstance(nearest, IPv6Address):
        return f"{IPv6Address(int(nearest) >> 64 << 64)}/64"
    return "local" if nearest is None else str(nearest)


def _client_address(call: Call) -> Address | None:
    """The address of the caller, as far as it can be believed: of X-Forwarded-For counts what
    trusted proxies wrote, which is its end."""
    peer = call.scope.get("client")
    address_found = _parse_address(peer[0]) if peer else None
    if address_found is None or not _is_trusted_proxy(address_found, call.site.trusted_proxies):
        return address_found
    for hop in reversed(b",".join(call.headers(b"x-forwarded-for")).split(b",")):
        further = _parse_address(hop.decode("latin-1").strip())
        if further is None:
            break
        address_found = further
        if not _is_trusted_proxy(address_found, call.site.trusted_proxies):
            break
    return address_found


def _parse_address(text: str) -> Address | None:
    """Parse an address; an IPv4-mapped IPv6 address becomes the IPv4 address."""
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed


def _is_trusted_proxy(candidate: Address, trusted_proxies: Sequence[IpNetwork]) -> bool:
    return any(candidate in network for network in trusted_proxies)
