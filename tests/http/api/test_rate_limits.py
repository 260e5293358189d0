"""Windows of requests over HTTP: whose they are, and what answers tell (CONTRACT 8)."""

from __future__ import annotations

from ipaddress import ip_network

import httpx
import pytest

from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.errors import StoreUnavailable
from tests.http.deployment import HttpDeployment, error_body, json_body
from tests.support.builders import HOUR, MINUTE, NOW, make_api_key_text

pytestmark = pytest.mark.anyio

SEARCH = "/api/v1/companions"
BOOKINGS = "/api/v1/bookings"
RESET = int((NOW + HOUR).timestamp())


def shown(answer: httpx.Response) -> tuple[int, int, int]:
    """Limit, remaining and reset, as the headers say."""
    limit, remaining, reset = (
        int(answer.headers[f"x-ratelimit-{name}"]) for name in ("limit", "remaining", "reset")
    )
    return limit, remaining, reset


def few(limit: int) -> RateLimit:
    return RateLimit("general", limit, HOUR)


async def test_the_headers_count_down(world: HttpDeployment) -> None:
    """The limit, what is left of it, and the Unix time of its reset."""
    program = world.client_with_key()
    assert shown(await program.get(SEARCH)) == (1000, 999, RESET)
    world.clock.advance(MINUTE)
    assert shown(await program.get(SEARCH)) == (1000, 998, RESET)
    world.clock.advance(HOUR)
    assert shown(await program.get(SEARCH)) == (1000, 999, RESET + 3660)


async def test_the_limit_is_exact(world: HttpDeployment) -> None:
    """As many as the limit says pass, the next is 429 and says when to come again."""
    world.raise_limits(general=few(3))
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
    """Two keys of one owner don't share."""
    world.raise_limits(general=few(1))
    json_body(await world.client_with_key().get(SEARCH))
    error_body(await world.client_with_key().get(SEARCH), 429, "rate_limited")
    json_body(await world.client_with_key(await world.add_api_key(world.subscriber)).get(SEARCH))


async def test_sessions_of_a_user_share_a_window(world: HttpDeployment) -> None:
    """Two browsers of one user count together."""
    first, second = [await world.signed_in_client(world.customer.id) for _ in range(2)]
    json_body(await first.get("/bookings"))
    assert shown(await second.get("/bookings"))[1] == 998


async def test_a_creation_spends_both_windows(world: HttpDeployment) -> None:
    """Its headers show the bookings' window; the general one goes down as well."""
    program = world.client_with_key()
    assert shown(await program.post(BOOKINGS, json={})) == (10, 9, RESET)
    assert shown(await program.get(SEARCH))[1] == 998


async def test_ten_creations_an_hour(world: HttpDeployment) -> None:
    """The eleventh is 429, whatever the ten have answered; reading goes on."""
    program = world.client_with_key()
    for _ in range(10):
        error_body(await program.post(BOOKINGS, json={}), 400, "missing_field")
    error_body(await program.post(BOOKINGS, json=world.request_body()), 429, "rate_limited")
    json_body(await program.get(SEARCH))


async def test_creations_by_session_count_per_user(world: HttpDeployment) -> None:
    """A customer's own requests have the same limit."""
    customer = await world.signed_in_client(world.customer.id)
    assert shown(await customer.post("/bookings", json={})) == (10, 9, RESET)


async def test_a_spent_general_window_stops_creations(world: HttpDeployment) -> None:
    """The refused answer shows the window that is spent."""
    world.raise_limits(general=few(1))
    program = world.client_with_key()
    json_body(await program.get(SEARCH))
    answer = await program.post(BOOKINGS, json={})
    error_body(answer, 429, "rate_limited")
    assert shown(answer)[:2] == (1, 0)


async def test_a_forbidden_call_does_not_count(world: HttpDeployment) -> None:
    """What is refused with 403 spends nothing."""
    reader = world.client_with_key(await world.add_api_key(world.subscriber, Permission.READ))
    for _ in range(3):
        error_body(await reader.post(BOOKINGS, json={}), 403, "permission_required")
    assert shown(await reader.get(SEARCH))[1] == 999


async def test_a_missing_csrf_token_does_not_count(world: HttpDeployment) -> None:
    """A forged request of a foreign page spends nothing of its victim's."""
    customer = await world.signed_in_client(world.customer.id)
    await customer.post("/bookings", headers={"x-csrf-token": "forged"})
    assert shown(await customer.get("/bookings"))[1] == 999


async def test_bad_keys_count_against_their_address(world: HttpDeployment) -> None:
    """Once the address has spent its window, 429 comes in place of 401."""
    world.raise_limits(general=few(2))
    guesses = [make_api_key_text(), "ps_garbled", make_api_key_text()]
    answers = [await world.client_with_key(guess).get(SEARCH) for guess in guesses]
    assert [one.status_code for one in answers] == [401, 401, 429]
    json_body(await world.client_with_key().get(SEARCH))
    other = world.client("198.51.100.7", authorization=f"Bearer {make_api_key_text()}")
    error_body(await other.get(SEARCH), 401, "invalid_api_key")


async def test_bad_sessions_count_against_their_address(world: HttpDeployment) -> None:
    """Guessed cookies, and keys where a session is asked for, count as bad credentials."""
    world.raise_limits(general=few(2))
    guess = world.client(cookie="connect.sid=guess")
    assert (await guess.get("/bookings")).status_code == 401
    assert (await world.client_with_key().get("/bookings")).status_code == 401
    error_body(await guess.get("/bookings"), 429, "rate_limited")


async def test_no_credentials_only_look(world: HttpDeployment) -> None:
    """A call without credentials, an unknown path and a wrong method count nothing."""
    client = world.client()
    for method, path in (("GET", SEARCH), ("GET", "/nope"), ("PUT", SEARCH), ("OPTIONS", SEARCH)):
        assert shown(await client.request(method, path)) == (1000, 1000, RESET)


async def test_signing_in_counts_the_address(world: HttpDeployment) -> None:
    """Where nobody is signed in, the address is what counts."""
    client = world.client()
    await client.post("/auth/login", json={})
    assert shown(await client.post("/auth/register", json={}))[1] == 998


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/"])
async def test_operations_have_no_limits(world: HttpDeployment, path: str) -> None:
    """Operations and pages tell of no window."""
    answer = await world.client().get(path)
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


class Unreachable:
    """An admission whose windows can't be looked at."""

    async def peek(self, *_: object) -> None:
        raise StoreUnavailable


async def test_headers_come_even_without_the_store(world: HttpDeployment) -> None:
    """An answer is never lost for its headers."""
    world.restart(admission=Unreachable())
    answer = await world.client().get("/nope")
    error_body(answer, 404, "not_found")
    assert shown(answer) == (1000, 1000, RESET)


# Whose address --------------------------------------------------------------------------


async def remaining(world: HttpDeployment, address: str, *forwarded: str) -> int:
    headers = [("x-forwarded-for", one) for one in forwarded]
    return shown(await world.client(address).post("/auth/login", json={}, headers=headers))[1]


async def test_forwarded_addresses_are_not_believed(world: HttpDeployment) -> None:
    """Without trusted proxies the peer counts, whatever it says."""
    assert await remaining(world, "198.51.100.7", "1.1.1.1") == 999
    assert await remaining(world, "198.51.100.7", "2.2.2.2") == 998


async def test_a_trusted_proxy_is_believed(world: HttpDeployment) -> None:
    """What trusted proxies wrote counts: the end of the header, not what a client put before."""
    world.restart(proxies=(ip_network("10.0.0.0/8"), ip_network("::1")))
    assert await remaining(world, "10.0.0.1", "9.9.9.9, 198.51.100.7, 10.0.0.2") == 999
    assert await remaining(world, "10.0.0.1", "8.8.8.8", "198.51.100.7") == 998
    assert await remaining(world, "::ffff:10.0.0.1", "::ffff:198.51.100.7") == 997
    assert await remaining(world, "::1", "198.51.100.7") == 996
    assert await remaining(world, "198.51.100.7") == 995


async def test_a_network_of_ipv6_addresses_counts_as_one(world: HttpDeployment) -> None:
    """One machine has the whole of a /64; its neighbours, and IPv4 within IPv6, count apart."""
    assert await remaining(world, "2001:db8:0:7::1") == 999
    assert await remaining(world, "2001:db8:0:7:ffff::2") == 998
    assert await remaining(world, "2001:db8:0:8::1") == 999
    assert await remaining(world, "::ffff:198.51.100.7") == 999
    assert await remaining(world, "::ffff:198.51.100.8") == 999
    assert await remaining(world, "198.51.100.7") == 998


async def test_a_proxy_is_one_address(world: HttpDeployment) -> None:
    """Others of its IPv6 network are not believed; whom it names counts by their network."""
    world.restart(proxies=(ip_network("2001:db8::1"),))
    assert await remaining(world, "2001:db8::1", "2001:db8:0:7::1") == 999
    assert await remaining(world, "2001:db8::1", "2001:db8:0:7::2") == 998
    assert await remaining(world, "2001:db8::2", "2001:db8:0:7::3") == 999


@pytest.mark.parametrize("forwarded", ["", "unknown", "10.0.0.2", "é", "1.2.3", "evil, 10.0.0.2"])
async def test_a_proxy_that_tells_nothing_counts_itself(
    world: HttpDeployment, forwarded: str
) -> None:
    """Garbage is not an address; the nearest known hop counts."""
    world.restart(proxies=(ip_network("10.0.0.0/8"),))
    headers = [(b"x-forwarded-for", forwarded.encode())]
    answer = await world.client("10.0.0.1").post("/auth/login", json={}, headers=headers)
    assert shown(answer)[1] == 999
