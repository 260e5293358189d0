"""Windows of requests over HTTP: whose they are, and what answers tell (CONTRACT 8)."""

from __future__ import annotations

from ipaddress import ip_network

import httpx
import pytest

from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.shared.rate_limits import Rule
from staffbooking_core.errors import Unavailable
from tests.http.deployment import World, ok, refused
from tests.support.builders import HOUR, MINUTE, NOW, make_key_text

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


def few(limit: int) -> Rule:
    return Rule("general", limit, HOUR)


async def test_the_headers_count_down(world: World) -> None:
    """The limit, what is left of it, and the Unix time of its reset."""
    program = world.by_key()
    assert shown(await program.get(SEARCH)) == (1000, 999, RESET)
    world.clock.advance(MINUTE)
    assert shown(await program.get(SEARCH)) == (1000, 998, RESET)
    world.clock.advance(HOUR)
    assert shown(await program.get(SEARCH)) == (1000, 999, RESET + 3660)


async def test_the_limit_is_exact(world: World) -> None:
    """As many as the limit says pass, the next is 429 and says when to come again."""
    world.raise_limits(general=few(3))
    program = world.by_key()
    for _ in range(3):
        ok(await program.get(SEARCH))
    answer = await program.get(SEARCH)
    body = refused(answer, 429, "rate_limited")
    assert body["retry_after"] == int(answer.headers["retry-after"]) == 3600
    assert shown(answer) == (3, 0, RESET)
    world.clock.advance(HOUR)
    ok(await program.get(SEARCH))


async def test_each_key_has_its_own_window(world: World) -> None:
    """Two keys of one owner don't share."""
    world.raise_limits(general=few(1))
    ok(await world.by_key().get(SEARCH))
    refused(await world.by_key().get(SEARCH), 429, "rate_limited")
    ok(await world.by_key(await world.new_key(world.subscriber)).get(SEARCH))


async def test_sessions_of_a_user_share_a_window(world: World) -> None:
    """Two browsers of one user count together."""
    first, second = [await world.browser(world.customer.id) for _ in range(2)]
    ok(await first.get("/bookings"))
    assert shown(await second.get("/bookings"))[1] == 998


async def test_a_creation_spends_both_windows(world: World) -> None:
    """Its headers show the bookings' window; the general one goes down as well."""
    program = world.by_key()
    assert shown(await program.post(BOOKINGS, json={})) == (10, 9, RESET)
    assert shown(await program.get(SEARCH))[1] == 998


async def test_ten_creations_an_hour(world: World) -> None:
    """The eleventh is 429, whatever the ten have answered; reading goes on."""
    program = world.by_key()
    for _ in range(10):
        refused(await program.post(BOOKINGS, json={}), 400, "missing_field")
    refused(await program.post(BOOKINGS, json=world.request_body()), 429, "rate_limited")
    ok(await program.get(SEARCH))


async def test_creations_by_session_count_per_user(world: World) -> None:
    """A customer's own requests have the same limit."""
    customer = await world.browser(world.customer.id)
    assert shown(await customer.post("/bookings", json={})) == (10, 9, RESET)


async def test_a_spent_general_window_stops_creations(world: World) -> None:
    """The refused answer shows the window that is spent."""
    world.raise_limits(general=few(1))
    program = world.by_key()
    ok(await program.get(SEARCH))
    answer = await program.post(BOOKINGS, json={})
    refused(answer, 429, "rate_limited")
    assert shown(answer)[:2] == (1, 0)


async def test_a_forbidden_call_does_not_count(world: World) -> None:
    """What is refused with 403 spends nothing."""
    reader = world.by_key(await world.new_key(world.subscriber, Permission.READ))
    for _ in range(3):
        refused(await reader.post(BOOKINGS, json={}), 403, "permission_required")
    assert shown(await reader.get(SEARCH))[1] == 999


async def test_a_missing_csrf_token_does_not_count(world: World) -> None:
    """A forged request of a foreign page spends nothing of its victim's."""
    customer = await world.browser(world.customer.id)
    await customer.post("/bookings", headers={"x-csrf-token": "forged"})
    assert shown(await customer.get("/bookings"))[1] == 999


async def test_bad_keys_count_against_their_address(world: World) -> None:
    """Once the address has spent its window, 429 comes in place of 401."""
    world.raise_limits(general=few(2))
    guesses = [make_key_text(), "ps_garbled", make_key_text()]
    answers = [await world.by_key(guess).get(SEARCH) for guess in guesses]
    assert [one.status_code for one in answers] == [401, 401, 429]
    ok(await world.by_key().get(SEARCH))
    other = world.client("198.51.100.7", authorization=f"Bearer {make_key_text()}")
    refused(await other.get(SEARCH), 401, "invalid_api_key")


async def test_bad_sessions_count_against_their_address(world: World) -> None:
    """Guessed cookies, and keys where a session is asked for, count as bad credentials."""
    world.raise_limits(general=few(2))
    guess = world.client(cookie="connect.sid=guess")
    assert (await guess.get("/bookings")).status_code == 401
    assert (await world.by_key().get("/bookings")).status_code == 401
    refused(await guess.get("/bookings"), 429, "rate_limited")


async def test_no_credentials_only_look(world: World) -> None:
    """A call without credentials, an unknown path and a wrong method count nothing."""
    client = world.client()
    for method, path in (("GET", SEARCH), ("GET", "/nope"), ("PUT", SEARCH), ("OPTIONS", SEARCH)):
        assert shown(await client.request(method, path)) == (1000, 1000, RESET)


async def test_signing_in_counts_the_address(world: World) -> None:
    """Where nobody is signed in, the address is what counts."""
    client = world.client()
    await client.post("/auth/login", json={})
    assert shown(await client.post("/auth/register", json={}))[1] == 998


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/"])
async def test_operations_have_no_limits(world: World, path: str) -> None:
    """Operations and pages tell of no window."""
    answer = await world.client().get(path)
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


class Unreachable:
    """An admission whose windows can't be looked at."""

    async def look(self, *_: object) -> None:
        raise Unavailable


async def test_headers_come_even_without_the_store(world: World) -> None:
    """An answer is never lost for its headers."""
    world.restart(admission=Unreachable())
    answer = await world.client().get("/nope")
    refused(answer, 404, "not_found")
    assert shown(answer) == (1000, 1000, RESET)


# Whose address --------------------------------------------------------------------------


async def remaining(world: World, address: str, *forwarded: str) -> int:
    headers = [("x-forwarded-for", one) for one in forwarded]
    return shown(await world.client(address).post("/auth/login", json={}, headers=headers))[1]


async def test_forwarded_addresses_are_not_believed(world: World) -> None:
    """Without trusted proxies the peer counts, whatever it says."""
    assert await remaining(world, "198.51.100.7", "1.1.1.1") == 999
    assert await remaining(world, "198.51.100.7", "2.2.2.2") == 998


async def test_a_trusted_proxy_is_believed(world: World) -> None:
    """What trusted proxies wrote counts: the end of the header, not what a client put before."""
    world.restart(proxies=(ip_network("10.0.0.0/8"), ip_network("::1")))
    assert await remaining(world, "10.0.0.1", "9.9.9.9, 198.51.100.7, 10.0.0.2") == 999
    assert await remaining(world, "10.0.0.1", "8.8.8.8", "198.51.100.7") == 998
    assert await remaining(world, "::ffff:10.0.0.1", "::ffff:198.51.100.7") == 997
    assert await remaining(world, "::1", "198.51.100.7") == 996
    assert await remaining(world, "198.51.100.7") == 995


async def test_a_network_of_ipv6_addresses_counts_as_one(world: World) -> None:
    """One machine has the whole of a /64; its neighbours, and IPv4 within IPv6, count apart."""
    assert await remaining(world, "2001:db8:0:7::1") == 999
    assert await remaining(world, "2001:db8:0:7:ffff::2") == 998
    assert await remaining(world, "2001:db8:0:8::1") == 999
    assert await remaining(world, "::ffff:198.51.100.7") == 999
    assert await remaining(world, "::ffff:198.51.100.8") == 999
    assert await remaining(world, "198.51.100.7") == 998


async def test_a_proxy_is_one_address(world: World) -> None:
    """Others of its IPv6 network are not believed; whom it names counts by their network."""
    world.restart(proxies=(ip_network("2001:db8::1"),))
    assert await remaining(world, "2001:db8::1", "2001:db8:0:7::1") == 999
    assert await remaining(world, "2001:db8::1", "2001:db8:0:7::2") == 998
    assert await remaining(world, "2001:db8::2", "2001:db8:0:7::3") == 999


@pytest.mark.parametrize("forwarded", ["", "unknown", "10.0.0.2", "é", "1.2.3", "evil, 10.0.0.2"])
async def test_a_proxy_that_tells_nothing_counts_itself(world: World, forwarded: str) -> None:
    """Garbage is not an address; the nearest known hop counts."""
    world.restart(proxies=(ip_network("10.0.0.0/8"),))
    headers = [(b"x-forwarded-for", forwarded.encode())]
    answer = await world.client("10.0.0.1").post("/auth/login", json={}, headers=headers)
    assert shown(answer)[1] == 999
