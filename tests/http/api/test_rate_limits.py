"""Rate limits over HTTP: who is counted, and the response headers (CONTRACT 8)."""

from __future__ import annotations

from ipaddress import ip_network

import httpx
import pytest

from staffbooking_adapters.testing.builders import HOUR, MINUTE, NOW, make_api_key_text
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Admission
from tests.http.deployment import HttpDeployment, error_body, json_body

pytestmark = pytest.mark.anyio

SEARCH = "/api/v1/companions"
BOOKINGS = "/api/v1/bookings"
RESET = int((NOW + HOUR).timestamp())


def shown(answer: httpx.Response) -> tuple[int, int, int]:
    """Limit, remaining requests and reset time, from the headers of a response."""
    limit, remaining, reset = (
        int(answer.headers[f"x-ratelimit-{name}"]) for name in ("limit", "remaining", "reset")
    )
    return limit, remaining, reset


def general_limit(limit: int) -> RateLimit:
    return RateLimit("general", limit, HOUR)


async def test_the_headers_count_down(world: HttpDeployment) -> None:
    """The headers give the limit, the remaining requests and the Unix time of the reset."""
    program = world.client_with_key()
    assert shown(await program.get(SEARCH)) == (1000, 999, RESET)
    world.clock.advance(MINUTE)
    assert shown(await program.get(SEARCH)) == (1000, 998, RESET)
    world.clock.advance(HOUR)
    assert shown(await program.get(SEARCH)) == (1000, 999, RESET + 3660)


async def test_the_limit_is_exact(world: HttpDeployment) -> None:
    """As many requests as the limit pass, and the next is 429 with the seconds until the reset."""
    world.raise_limits(general=general_limit(3))
    program = world.client_with_key()
    for _ in range(3):
        json_body(await program.get(SEARCH))
    answer = await program.get(SEARCH)
    body = error_body(answer, 429, "rate_limited")
    assert body["retry_after"] == int(answer.headers["retry-after"]) == 3600
    assert shown(answer) == (3, 0, RESET)
    world.clock.advance(HOUR)
    json_body(await program.get(SEARCH))


async def test_each_key_has_its_own_window(world: HttpDeployment) -> None:
    """Two keys of one owner have separate windows."""
    world.raise_limits(general=general_limit(1))
    json_body(await world.client_with_key().get(SEARCH))
    error_body(await world.client_with_key().get(SEARCH), 429, "rate_limited")
    json_body(await world.client_with_key(await world.add_api_key(world.subscriber)).get(SEARCH))


async def test_sessions_of_a_user_share_a_window(world: HttpDeployment) -> None:
    """Two sessions of one user share a window."""
    first, second = [await world.signed_in_client(world.customer.id) for _ in range(2)]
    json_body(await first.get("/bookings"))
    assert shown(await second.get("/bookings"))[1] == 998


async def test_a_creation_spends_both_windows(world: HttpDeployment) -> None:
    """A booking request counts in the bookings window, which its headers show, and in the general
    one."""
    program = world.client_with_key()
    assert shown(await program.post(BOOKINGS, json={})) == (10, 9, RESET)
    assert shown(await program.get(SEARCH))[1] == 998


async def test_ten_creations_an_hour(world: HttpDeployment) -> None:
    """The eleventh booking request is 429 even if the first ten failed, and reading is still
    allowed."""
    program = world.client_with_key()
    for _ in range(10):
        error_body(await program.post(BOOKINGS, json={}), 400, "missing_field")
    error_body(await program.post(BOOKINGS, json=world.request_body()), 429, "rate_limited")
    json_body(await program.get(SEARCH))


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"bookings": RateLimit("bookings", 1, HOUR)}, "bookings, 1 in 60 minutes"),
        ({"general": general_limit(1)}, "general, 1 in 60 minutes"),
    ],
)
async def test_a_429_names_its_limit(
    world: HttpDeployment, limits: dict[str, RateLimit], named: str
) -> None:
    """The error says which of the limits of a booking request is exceeded, and its figures."""
    world.raise_limits(**limits)
    for client, path in (
        (world.client_with_key(), BOOKINGS),
        (await world.signed_in_client(world.customer.id), "/bookings"),
    ):
        await client.post(path, json={})
        body = error_body(await client.post(path, json={}), 429, "rate_limited")
        assert body["error"] == f"Rate limit exceeded: {named}"


async def test_creations_by_session_are_limited(world: HttpDeployment) -> None:
    """A customer's booking requests have the same limit as those of an API key."""
    customer = await world.signed_in_client(world.customer.id)
    assert shown(await customer.post("/bookings", json={})) == (10, 9, RESET)


async def test_a_spent_general_window_stops_creations(world: HttpDeployment) -> None:
    """A booking request beyond the general limit is 429, with headers of the general window."""
    world.raise_limits(general=general_limit(1))
    program = world.client_with_key()
    json_body(await program.get(SEARCH))
    answer = await program.post(BOOKINGS, json={})
    error_body(answer, 429, "rate_limited")
    assert shown(answer)[:2] == (1, 0)


async def test_a_forbidden_call_does_not_count(world: HttpDeployment) -> None:
    """A call refused for a missing permission does not count."""
    reader = world.client_with_key(await world.add_api_key(world.subscriber, Permission.READ))
    for _ in range(3):
        error_body(await reader.post(BOOKINGS, json={}), 403, "permission_required")
    assert shown(await reader.get(SEARCH))[1] == 999


async def test_a_forged_csrf_token_does_not_count(world: HttpDeployment) -> None:
    """A call with a forged CSRF token does not count."""
    customer = await world.signed_in_client(world.customer.id)
    await customer.post("/bookings", headers={"x-csrf-token": "forged"})
    assert shown(await customer.get("/bookings"))[1] == 999


async def test_a_forbidden_call_shows_the_windows_of_its_caller(world: HttpDeployment) -> None:
    """A refused right has the headers of the caller's most specific window, not of the address."""
    reader = world.client_with_key(await world.add_api_key(world.subscriber, Permission.READ))
    await reader.get(SEARCH)
    assert shown(await reader.post("/api/webhooks", json={}))[:2] == (30, 30)
    assert shown(await reader.post(BOOKINGS, json={}))[:2] == (10, 10)
    booker = world.client_with_key(await world.add_api_key(world.subscriber, Permission.BOOK))
    await booker.post(BOOKINGS, json={})
    assert shown(await booker.get(SEARCH))[:2] == (1000, 999)


async def test_a_forged_csrf_token_shows_the_windows_of_its_user(world: HttpDeployment) -> None:
    """A forged CSRF token has the headers of the user's most specific window."""
    customer = await world.signed_in_client(world.customer.id)
    await customer.post("/bookings", json={})
    forged = await customer.post("/bookings", headers={"x-csrf-token": "forged"})
    assert shown(forged)[:2] == (10, 9)


async def test_bad_keys_count_against_their_address(world: HttpDeployment) -> None:
    """Invalid keys count against their IP address, and beyond the limit are 429 instead of 401."""
    world.raise_limits(general=general_limit(2))
    guesses = [make_api_key_text(), "ps_garbled", make_api_key_text()]
    answers = [await world.client_with_key(guess).get(SEARCH) for guess in guesses]
    assert [one.status_code for one in answers] == [401, 401, 429]
    json_body(await world.client_with_key().get(SEARCH))
    other = world.client("198.51.100.7", authorization=f"Bearer {make_api_key_text()}")
    error_body(await other.get(SEARCH), 401, "invalid_api_key")


async def test_bad_sessions_count_against_their_address(world: HttpDeployment) -> None:
    """Invalid cookies, and keys on session endpoints, count against their IP address."""
    world.raise_limits(general=general_limit(2))
    guess = world.client(cookie="connect.sid=guess")
    assert (await guess.get("/bookings")).status_code == 401
    assert (await world.client_with_key().get("/bookings")).status_code == 401
    error_body(await guess.get("/bookings"), 429, "rate_limited")


async def test_calls_without_credentials_do_not_count(world: HttpDeployment) -> None:
    """A call without credentials, an unknown path, a wrong method and OPTIONS do not count."""
    client = world.client()
    for method, path in (("GET", SEARCH), ("GET", "/nope"), ("PUT", SEARCH), ("OPTIONS", SEARCH)):
        assert shown(await client.request(method, path)) == (1000, 1000, RESET)


async def test_signing_in_counts_the_address(world: HttpDeployment) -> None:
    """Login and registration count against the IP address."""
    client = world.client()
    await client.post("/auth/login", json={})
    assert shown(await client.post("/auth/register", json={}))[1] == 998


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/"])
async def test_operations_have_no_limits(world: HttpDeployment, path: str) -> None:
    """Operational endpoints and pages have no rate limit headers."""
    answer = await world.client().get(path)
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


class UnreachableAdmission:
    """An admission whose windows cannot be read."""

    async def peek(self, *_: object) -> None:
        raise StoreUnavailable


async def test_headers_come_even_without_the_store(world: HttpDeployment) -> None:
    """A response has the headers of an unused window when the windows cannot be read."""
    world.restart(admission=UnreachableAdmission())
    answer = await world.client().get(SEARCH)
    error_body(answer, 401, "unauthenticated")
    assert shown(answer) == (1000, 1000, RESET)


class CountingAdmission:
    """An admission that counts hits, and must not be asked for windows."""

    def __init__(self, admission: Admission) -> None:
        self.count_hit = admission.count_hit


@pytest.mark.parametrize("method, path", [("GET", "/nope"), ("PUT", SEARCH)])
async def test_unmatched_calls_ask_no_store(world: HttpDeployment, method: str, path: str) -> None:
    """An unknown path or method has the headers of the address as the process knows it."""
    world.restart(admission=CountingAdmission(world.store.admission))
    await world.client().post("/auth/login", json={})
    answer = await world.client().request(method, path)
    assert shown(answer) == (1000, 999, RESET)
    assert shown(await world.client("198.51.100.7").request(method, path)) == (1000, 1000, RESET)


# Client addresses -----------------------------------------------------------------------


async def remaining(world: HttpDeployment, address: str, *forwarded: str) -> int:
    headers = [("x-forwarded-for", one) for one in forwarded]
    return shown(await world.client(address).post("/auth/login", json={}, headers=headers))[1]


async def test_forwarded_addresses_are_ignored(world: HttpDeployment) -> None:
    """Without trusted proxies X-Forwarded-For is ignored and the peer address counts."""
    assert await remaining(world, "198.51.100.7", "1.1.1.1") == 999
    assert await remaining(world, "198.51.100.7", "2.2.2.2") == 998


async def test_a_trusted_proxy_names_the_client(world: HttpDeployment) -> None:
    """With trusted proxies the last X-Forwarded-For address that is not a proxy counts."""
    world.restart(proxies=(ip_network("10.0.0.0/8"), ip_network("::1")))
    assert await remaining(world, "10.0.0.1", "9.9.9.9, 198.51.100.7, 10.0.0.2") == 999
    assert await remaining(world, "10.0.0.1", "8.8.8.8", "198.51.100.7") == 998
    assert await remaining(world, "::ffff:10.0.0.1", "::ffff:198.51.100.7") == 997
    assert await remaining(world, "::1", "198.51.100.7") == 996
    assert await remaining(world, "198.51.100.7") == 995


async def test_a_network_of_ipv6_addresses_counts_as_one(world: HttpDeployment) -> None:
    """IPv6 addresses count by /64 network, and IPv4-mapped ones as their IPv4 address."""
    assert await remaining(world, "2001:db8:0:7::1") == 999
    assert await remaining(world, "2001:db8:0:7:ffff::2") == 998
    assert await remaining(world, "2001:db8:0:8::1") == 999
    assert await remaining(world, "::ffff:198.51.100.7") == 999
    assert await remaining(world, "::ffff:198.51.100.8") == 999
    assert await remaining(world, "198.51.100.7") == 998


async def test_a_trusted_ipv6_proxy_is_one_address(world: HttpDeployment) -> None:
    """A trusted IPv6 proxy is one address, not its /64 network, and its clients count by
    network."""
    world.restart(proxies=(ip_network("2001:db8::1"),))
    assert await remaining(world, "2001:db8::1", "2001:db8:0:7::1") == 999
    assert await remaining(world, "2001:db8::1", "2001:db8:0:7::2") == 998
    assert await remaining(world, "2001:db8::2", "2001:db8:0:7::3") == 999


async def test_a_forwarded_address_may_have_a_port(world: HttpDeployment) -> None:
    """A port after a forwarded address is ignored, also after an IPv6 address in brackets."""
    world.restart(proxies=(ip_network("10.0.0.0/8"),))
    assert await remaining(world, "10.0.0.1", "198.51.100.7:8443") == 999
    assert await remaining(world, "10.0.0.1", "198.51.100.7:8444, 10.0.0.2:80") == 998
    assert await remaining(world, "10.0.0.1", "[2001:db8:0:7::1]:443") == 999
    assert await remaining(world, "10.0.0.1", "[2001:db8:0:7::2]") == 998
    assert await remaining(world, "10.0.0.1", "2001:db8:0:7::3") == 997


@pytest.mark.parametrize("forwarded", ["", "unknown", "10.0.0.2", "é", "1.2.3", "evil, 10.0.0.2"])
async def test_an_invalid_forwarded_address_is_counted(
    world: HttpDeployment, forwarded: str
) -> None:
    """A call with no valid client address in X-Forwarded-For is counted."""
    world.restart(proxies=(ip_network("10.0.0.0/8"),))
    headers = [(b"x-forwarded-for", forwarded.encode())]
    answer = await world.client("10.0.0.1").post("/auth/login", json={}, headers=headers)
    assert shown(answer)[1] == 999
