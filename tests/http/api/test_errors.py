"""The table of errors, and the order of the checks (CONTRACT 1)."""

from __future__ import annotations

import pytest

from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.errors import Conflict, ConstraintViolated, StoreUnavailable
from staffbooking_http.api.request_body import MAX_BODY_BYTES
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body
from tests.support.builders import HOUR, add_booking, make_api_key_text

pytestmark = pytest.mark.anyio

BOOKINGS = "/api/v1/bookings"
JSON = {"content-type": "application/json"}


# The table ------------------------------------------------------------------------------


async def test_a_body_that_is_not_json_is_400(world: HttpDeployment) -> None:
    """No JSON: 400 with error and code, no list of fields."""
    answer = await world.client_with_key().post(BOOKINGS, content="{", headers=JSON)
    assert "errors" not in error_body(answer, 400, "malformed_json")


async def test_missing_fields_are_400_and_all_told(world: HttpDeployment) -> None:
    """Absent and null required fields are listed, every one, and nothing else."""
    body = world.request_body(location=None, duration_hours="4")
    del body["companion_id"]
    answer = await world.client_with_key().post(BOOKINGS, json=body)
    error_body(answer, 400, "missing_field")
    assert error_fields(answer) == {"companion_id", "location"}


async def test_wrong_fields_are_422_and_all_told(world: HttpDeployment) -> None:
    """Wrong types, bounds and formats are listed together."""
    body = world.request_body(companion_id="4", duration_hours=25, start_time="9:5", location="")
    answer = await world.client_with_key().post(BOOKINGS, json=body)
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"companion_id", "duration_hours", "start_time", "location"}


async def test_values_that_cannot_be_honoured_are_422_and_all_told(world: HttpDeployment) -> None:
    """A past day, a service not offered and an unknown customer come together."""
    body = world.request_body(
        event_date="2027-02-27", service_type="Fire eating", customer_email="no@example.com"
    )
    answer = await world.client_with_key().post(BOOKINGS, json=body)
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"event_date", "service_type", "customer_email"}


async def test_a_broken_rule_is_400_with_its_code(world: HttpDeployment) -> None:
    """What the state forbids is 400, and the code names the rule."""
    customer = await world.signed_in_client(world.customer.id)
    booking = await add_booking(world.store, world.companion, world.customer)
    error_body(await customer.post(f"/bookings/{booking.id}/confirm"), 400, "booking_not_paid")


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ps_x", "Basic YTpi", f"Bearer {make_api_key_text()}", "Bearer é"],
    ids=["empty", "no key", "short", "basic", "unknown", "not ascii"],
)
async def test_bad_credentials_are_401(world: HttpDeployment, value: str) -> None:
    """Whatever is wrong with a key, the answer is 401 and asks for a bearer."""
    client = world.client()
    answer = await client.get("/api/v1/companions", headers=[(b"authorization", value.encode())])
    error_body(answer, 401, "invalid_api_key")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_no_credentials_are_401(world: HttpDeployment) -> None:
    """Without credentials the answer is 401, by key and by session alike."""
    for path in ("/api/v1/companions", "/api/keys"):
        answer = await world.client().get(path)
        error_body(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_two_authorization_headers_are_401(world: HttpDeployment) -> None:
    """Which of two keys counts is nobody's guess."""
    headers = [("authorization", f"Bearer {world.api_key}")] * 2
    answer = await world.client().get("/api/v1/companions", headers=headers)
    error_body(answer, 401, "invalid_api_key")


async def test_the_scheme_has_no_case(world: HttpDeployment) -> None:
    """`bearer` is `Bearer`."""
    json_body(await world.client(authorization=f"bEARER {world.api_key}").get("/api/v1/companions"))


async def test_a_missing_permission_is_403(world: HttpDeployment) -> None:
    """A key without book can't book."""
    reader = world.client_with_key(await world.add_api_key(world.subscriber, Permission.READ))
    answer = await reader.post(BOOKINGS, json=world.request_body())
    error_body(answer, 403, "permission_required")


async def test_a_missing_subscription_is_403(world: HttpDeployment) -> None:
    """A key works while its owner subscribes."""
    lapsed = world.client_with_key(await world.add_api_key(world.customer))
    error_body(await lapsed.get("/api/v1/companions"), 403, "subscription_required")


async def test_an_unknown_thing_is_404(world: HttpDeployment) -> None:
    """An unknown companion in a path and in a body are both 404."""
    program = world.client_with_key()
    error_body(await program.get("/api/v1/companions/999"), 404, "not_found")
    answer = await program.post(BOOKINGS, json=world.request_body(companion_id=999))
    error_body(answer, 404, "not_found")


async def test_a_thing_of_somebody_elses_is_404(world: HttpDeployment) -> None:
    """A stranger can't tell a booking from none."""
    booking = await add_booking(world.store, world.companion, world.customer)
    stranger = await world.signed_in_client(world.stranger.id)
    theirs = await stranger.get(f"/bookings/{booking.id}")
    none = await stranger.get("/bookings/999")
    assert (theirs.status_code, theirs.json()) == (404, none.json())


class Failing:
    """A store that is not there, or a fault of ours."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def read_view(self) -> None:
        raise self.error

    async def run_transaction(self, _: object) -> None:
        raise self.error


@pytest.mark.parametrize(
    "error", [StoreUnavailable("gone"), Conflict("row")], ids=["gone", "conflict"]
)
async def test_a_store_out_of_reach_is_503(world: HttpDeployment, error: Exception) -> None:
    """The answer says when to come again."""
    world.restart(store=Failing(error))
    answer = await world.client_with_key().get("/api/v1/companions")
    error_body(answer, 503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    "error",
    [RuntimeError(f"secret {make_api_key_text()}"), ConstraintViolated("uq_secret")],
    ids=["fault", "constraint"],
)
async def test_a_fault_of_ours_tells_nothing(
    world: HttpDeployment, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """500 has a request id that the log has too, and not a word more."""
    world.restart(store=Failing(error))
    answer = await world.client_with_key().get("/api/v1/companions")
    body = error_body(answer, 500, "internal")
    assert set(body) == {"error", "code", "request_id"}
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["request_id"] in caplog.text
    assert "x-ratelimit-limit" in answer.headers


async def test_a_processor_out_of_reach_is_500(world: HttpDeployment) -> None:
    """Checkout says so, and can be repeated."""
    customer, staff = [
        await world.signed_in_client(one.id) for one in (world.customer, world.companion)
    ]
    booking = await add_booking(world.store, world.companion, world.customer)
    json_body(await staff.post(f"/bookings/{booking.id}/accept"))
    fault = {"op": "open_checkout", "kind": "rate_limit"}
    json_body(await world.client().post("/sandbox/payments/faults", json=fault))
    answer = await customer.post(f"/bookings/{booking.id}/checkout")
    error_body(answer, 500, "processor_unavailable")
    world.clock.advance(HOUR)
    json_body(await world.client().request("DELETE", "/sandbox/payments/faults"))
    json_body(await customer.post(f"/bookings/{booking.id}/checkout"))


# The framework's own --------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/nope", "/api/v1/companions/", "/docs/", "/api/v1", "/auth"])
async def test_an_unknown_path_is_404(world: HttpDeployment, path: str) -> None:
    """Unknown paths, and those with a slash too many, are 404 in the contract's shape."""
    error_body(await world.client().get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/api/v1/companions", {"GET", "HEAD", "OPTIONS"}),
        ("POST", "/api/v1/companions/abc", {"GET", "HEAD", "OPTIONS"}),
        ("PATCH", "/api/keys", {"GET", "HEAD", "POST", "OPTIONS"}),
        ("GET", "/api/keys/1", {"DELETE", "OPTIONS"}),
        ("BREW", "/healthz", {"GET", "HEAD", "OPTIONS"}),
        ("DELETE", "/docs", {"GET", "HEAD", "OPTIONS"}),
    ],
)
async def test_a_wrong_method_is_405(
    world: HttpDeployment, method: str, path: str, allow: set[str]
) -> None:
    """405 comes before everything but an unknown path, and tells what is allowed."""
    answer = await world.client().request(method, path)
    error_body(answer, 405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == allow


async def test_options_tells_the_methods(world: HttpDeployment) -> None:
    """OPTIONS needs no credentials, and has no body."""
    answer = await world.client().options("/api/keys/1")
    assert (answer.status_code, answer.headers["allow"]) == (204, "DELETE, OPTIONS")
    assert answer.content == b""
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/api/v1/companions", "/healthz", "/docs", "/"])
async def test_head_is_get_without_a_body(world: HttpDeployment, path: str) -> None:
    """HEAD has the status and the length of its GET."""
    program = world.client_with_key()
    got, head = await program.get(path), await program.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


# The order ------------------------------------------------------------------------------


async def test_the_order_for_a_creation(world: HttpDeployment) -> None:
    """401 before 403 before 413, 415, 400, 422, 404 of the body, 422 of meaning, the rules."""
    huge, text = b"x" * (MAX_BODY_BYTES + 1), {"content-type": "text/plain"}
    nobody = world.client()
    reader = world.client_with_key(await world.add_api_key(world.subscriber, Permission.READ))
    booker = world.client_with_key()
    error_body(await nobody.post(BOOKINGS, content=huge, headers=text), 401, "unauthenticated")
    error_body(await reader.post(BOOKINGS, content=huge, headers=text), 403, "permission_required")
    error_body(await booker.post(BOOKINGS, content=huge, headers=text), 413, "body_too_large")
    error_body(
        await booker.post(BOOKINGS, content=b"{", headers=text), 415, "unsupported_media_type"
    )
    error_body(await booker.post(BOOKINGS, content=b"{", headers=JSON), 400, "malformed_json")
    missing = {"companion_id": "x"}
    error_body(await booker.post(BOOKINGS, json=missing), 400, "missing_field")
    wrong = world.request_body(companion_id=999, duration_hours=0)
    error_body(await booker.post(BOOKINGS, json=wrong), 422, "invalid_field")
    unknown = world.request_body(companion_id=999, event_date="2020-01-01")
    error_body(await booker.post(BOOKINGS, json=unknown), 404, "not_found")
    past = world.request_body(event_date="2020-01-01")
    error_body(await booker.post(BOOKINGS, json=past), 422, "invalid_field")


async def test_the_limit_goes_before_the_body(world: HttpDeployment) -> None:
    """A spent window is told before anything of the body is looked at."""
    booker = world.client_with_key()
    for _ in range(10):
        await booker.post(BOOKINGS, content=b"{", headers=JSON)
    answer = await booker.post(BOOKINGS, content=b"x" * (MAX_BODY_BYTES + 1))
    error_body(answer, 429, "rate_limited")


@pytest.mark.parametrize("word", ["cancel", "dispute"])
async def test_the_path_goes_before_the_body(world: HttpDeployment, word: str) -> None:
    """What the path names, and the caller's side of it, go before 413, 415, 400 and 422."""
    booking = await add_booking(world.store, world.companion, world.customer)
    stranger = await world.signed_in_client(world.stranger.id)
    admin = await world.signed_in_client(world.admin.id)
    huge = b"x" * (MAX_BODY_BYTES + 1)
    for path in (f"/bookings/{booking.id}/{word}", f"/bookings/999/{word}", f"/bookings/x/{word}"):
        error_body(await stranger.post(path, content=huge), 404, "not_found")
        error_body(await stranger.post(path, json={"reason": 4}), 404, "not_found")
    if word == "dispute":
        answer = await admin.post(f"/bookings/{booking.id}/dispute", content=huge)
        error_body(answer, 403, "wrong_party")


async def test_the_path_goes_before_the_query(world: HttpDeployment) -> None:
    """An unknown companion is 404, whatever is wrong with the dates."""
    program = world.client_with_key()
    for query in ("", "?start_date=x&end_date=y", "?start_date=2027-01-02&end_date=2027-01-01"):
        answer = await program.get(f"/api/v1/companions/999/availability{query}")
        error_body(answer, 404, "not_found")


async def test_the_wrong_side_goes_before_the_state(world: HttpDeployment) -> None:
    """The customer can't accept, whatever the booking's status."""
    booking = await add_booking(world.store, world.companion, world.customer)
    customer = await world.signed_in_client(world.customer.id)
    for word in ("accept", "decline", "check-in"):
        error_body(await customer.post(f"/bookings/{booking.id}/{word}"), 403, "wrong_party")


async def test_csrf_goes_before_the_path(world: HttpDeployment) -> None:
    """Without the token nobody learns whether a booking is there."""
    customer = await world.signed_in_client(world.customer.id)
    del customer.headers["x-csrf-token"]
    error_body(await customer.post("/bookings/999/cancel"), 403, "csrf_failed")
