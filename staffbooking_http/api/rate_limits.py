"""Windows of requests as HTTP knows them: whose they are, and the headers (CONTRACT 8)."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

from staffbooking_adapters.settings import Network
from staffbooking_core.domain.shared import rate_limits
from staffbooking_core.domain.shared.rate_limits import LimitExceeded, Verdict
from staffbooking_core.errors import Unavailable
from staffbooking_http.api.endpoint import Call, Header

Address: TypeAlias = IPv4Address | IPv6Address

NAMES = (b"x-ratelimit-limit", b"x-ratelimit-remaining", b"x-ratelimit-reset")


def headers(verdict: Verdict) -> tuple[Header, Header, Header]:
    """The three headers that every response of the interface bears (SPECIFICATION 8)."""
    limit, remaining, reset = NAMES
    return (
        (limit, b"%d" % verdict.limit),
        (remaining, b"%d" % verdict.remaining),
        (reset, b"%d" % verdict.reset),
    )


async def count(call: Call, whose: str) -> None:
    """Count the call in its windows of a user or an address; LimitExceeded where one is spent."""
    admission = call.ports.admission
    settle(
        call,
        [await admission.hit(f"{rule.name}:{whose}", rule, call.now) for rule in call.rules],
    )


async def count_address(call: Call) -> None:
    """Count in the general window of the caller's address, where nobody is signed in."""
    rule = call.ports.policy.limits.general
    settle(call, [await call.ports.admission.hit(_address_scope(call), rule, call.now)])


def of_address(call: Call) -> str:
    """Whose windows are spent where nobody is signed in."""
    return f"addr:{address(call)}"


def settle(call: Call, verdicts: Sequence[Verdict]) -> None:
    """Take note of what the counting gave: the headers show the most specific window."""
    call.verdict = verdicts[0]
    for verdict in verdicts:
        if not verdict.allowed:
            raise LimitExceeded(verdict)


async def shown(call: Call) -> Verdict:
    """The window that the answer tells of: that of the address, uncounted, where the call
    was refused before it was counted."""
    if call.verdict is not None:
        return call.verdict
    rule = call.ports.policy.limits.general
    try:
        return await call.ports.admission.look(_address_scope(call), rule, call.now)
    except Unavailable:  # An answer is never lost for its headers.
        return rate_limits.look(None, call.now, rule)


def _address_scope(call: Call) -> str:
    return f"general:{of_address(call)}"


def address(call: Call) -> str:
    """Whose windows are spent: of IPv4 the caller's address; of IPv6 its network of 64 bits,
    since one machine may have all the addresses in that."""
    nearest = _caller(call)
    if isinstance(nearest, IPv6Address):
        return f"{IPv6Address(int(nearest) >> 64 << 64)}/64"
    return "local" if nearest is None else str(nearest)


def _caller(call: Call) -> Address | None:
    """The address of the caller, as far as it can be believed: of X-Forwarded-For counts what
    trusted proxies wrote, which is its end."""
    peer = call.scope.get("client")
    nearest = _parsed(peer[0]) if peer else None
    if nearest is None or not _is_proxy(nearest, call.site.proxies):
        return nearest
    for hop in reversed(b",".join(call.headers(b"x-forwarded-for")).split(b",")):
        further = _parsed(hop.decode("latin-1").strip())
        if further is None:
            break
        nearest = further
        if not _is_proxy(nearest, call.site.proxies):
            break
    return nearest


def _parsed(text: str) -> Address | None:
    """An address, whatever its spelling; an IPv4 one in IPv6 clothes is itself."""
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed


def _is_proxy(found: Address, proxies: Sequence[Network]) -> bool:
    return any(found in network for network in proxies)
