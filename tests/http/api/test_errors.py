"""Error responses, and the order of the checks (CONTRACT 1)."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import HOUR, add_booking, make_api_key_text
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.errors import Conflict, ConstraintViolated, StoreUnavailable
from staffbooking_http.api.request_body import MAX_BODY_BYTES
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body

pytestmark = pytest.mark.anyio

BOOKINGS = "/api/v1/bookings"
JSON = {"content-type": "application/json"}


# Error responses ------------------------------------------------------------------------


async def test_a_body_that_is_not_json_is_400(world: HttpDeployment) -> None:
    """A body that is not JSON is 400 `malformed_json`, without a list of fields."""
    answer = await world.client_with_key().post(BOOKINGS, content="{", headers=JSON)
    assert "errors" not in error_body(answer, 400, "malformed_json")


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "nope"])
async def test_a_content_coding_is_415(world: HttpDeployment, coding: str) -> None:
    """A body with a Content-Encoding is 415, and Accept-Encoding says that none is taken."""
    headers = JSON | {"content-encoding": coding}
    answer = await world.client_with_key().post(BOOKINGS, content=b"\x1f\x8b", headers=headers)
    error_body(answer, 415, "unsupported_media_type")
    assert answer.headers["accept-encoding"] == "identity"


async def test_the_identity_coding_passes(world: HttpDeployment) -> None:
    """The coding `identity` is no coding."""
    booker = world.client_with_key()
    headers = {"content-encoding": "Identity"}
    json_body(await booker.post(BOOKINGS, json=world.request_body(), headers=headers), 201)


async def test_missing_fields_are_400_and_all_listed(world: HttpDeployment) -> None:
    """All absent and null required fields are listed with 400, and no other fields."""
    body = world.request_body(location=None, duration_hours="4")
    del body["companion_id"]
    answer = await world.client_with_key().post(BOOKINGS, json=body)
    error_body(answer, 400, "missing_field")
    assert error_fields(answer) == {"companion_id", "location"}


async def test_wrong_fields_are_422_and_all_listed(world: HttpDeployment) -> None:
    """Fields of a wrong type, range or format are listed together with 422."""
    body = world.request_body(companion_id="4", duration_hours=25, start_time="9:5", location="")
    answer = await world.client_with_key().post(BOOKINGS, json=body)
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"companion_id", "duration_hours", "start_time", "location"}


async def test_unbookable_values_are_422_and_all_listed(world: HttpDeployment) -> None:
    """A past date, a service that is not offered and an unknown customer are listed together with
    422."""
    body = world.request_body(
        event_date="2027-02-27", service_type="Fire eating", customer_email="no@example.com"
    )
    answer = await world.client_with_key().post(BOOKINGS, json=body)
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"event_date", "service_type", "customer_email"}


async def test_a_broken_rule_is_400_with_its_code(world: HttpDeployment) -> None:
    """An action that the booking's status forbids is 400 with the code of the rule."""
    customer = await world.signed_in_client(world.customer.id)
    booking = await add_booking(world.store, world.companion, world.customer)
    error_body(await customer.post(f"/bookings/{booking.id}/confirm"), 400, "booking_not_paid")


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ps_x", "Basic YTpi", f"Bearer {make_api_key_text()}", "Bearer é"],
    ids=["empty", "no key", "short", "basic", "unknown", "not ascii"],
)
async def test_bad_credentials_are_401(world: HttpDeployment, value: str) -> None:
    """A malformed or unknown API key is 401 with a Bearer challenge."""
    client = world.client()
    answer = await client.get("/api/v1/companions", headers=[(b"authorization", value.encode())])
    error_body(answer, 401, "invalid_api_key")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_no_credentials_are_401(world: HttpDeployment) -> None:
    """A request without credentials is 401 with a Bearer challenge, on key and session
    endpoints."""
    for path in ("/api/v1/companions", "/api/keys"):
        answer = await world.client().get(path)
        error_body(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_two_authorization_headers_are_401(world: HttpDeployment) -> None:
    """A request with two Authorization headers is 401."""
    headers = [("authorization", f"Bearer {world.api_key}")] * 2
    answer = await world.client().get("/api/v1/companions", headers=headers)
    error_body(answer, 401, "invalid_api_key")


async def test_the_scheme_has_no_case(world: HttpDeployment) -> None:
    """The Bearer scheme is case-insensitive."""
    json_body(await world.client(authorization=f"bEARER {world.api_key}").get("/api/v1/companions"))


async def test_a_missing_permission_is_403(world: HttpDeployment) -> None:
    """A key without the book permission is 403 for a booking request."""
    reader = world.client_with_key(await world.add_api_key(world.subscriber, Permission.READ))
    answer = await reader.post(BOOKINGS, json=world.request_body())
    error_body(answer, 403, "permission_required")


async def test_a_missing_subscription_is_403(world: HttpDeployment) -> None:
    """A key of an owner without a subscription is 403."""
    lapsed = world.client_with_key(await world.add_api_key(world.customer))
    error_body(await lapsed.get("/api/v1/companions"), 403, "subscription_required")


async def test_an_unknown_companion_is_404(world: HttpDeployment) -> None:
    """An unknown companion is 404 in a path and in a body."""
    program = world.client_with_key()
    error_body(await program.get("/api/v1/companions/999"), 404, "not_found")
    answer = await program.post(BOOKINGS, json=world.request_body(companion_id=999))
    error_body(answer, 404, "not_found")


async def test_anothers_booking_is_404(world: HttpDeployment) -> None:
    """A stranger gets the same 404 for an existing booking as for an unknown one."""
    booking = await add_booking(world.store, world.companion, world.customer)
    stranger = await world.signed_in_client(world.stranger.id)
    theirs = await stranger.get(f"/bookings/{booking.id}")
    none = await stranger.get("/bookings/999")
    assert (theirs.status_code, theirs.json()) == (404, none.json())


class Failing:
    """A store whose every call raises the given error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def read_view(self) -> None:
        raise self.error

    async def run_transaction(self, _: object) -> None:
        raise self.error


@pytest.mark.parametrize(
    "error", [StoreUnavailable("gone"), Conflict("row")], ids=["gone", "conflict"]
)
async def test_an_unavailable_store_is_503(world: HttpDeployment, error: Exception) -> None:
    """A StoreUnavailable or Conflict error of the store is 503 with a Retry-After header."""
    world.restart(store=Failing(error))
    answer = await world.client_with_key().get("/api/v1/companions")
    error_body(answer, 503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0


async def test_the_log_says_why_the_store_is_unavailable(
    world: HttpDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    """The cause of a 503 is logged with the request id, and is not in the response."""
    world.restart(store=Failing(StoreUnavailable("the disk is gone")))
    answer = await world.client_with_key().get("/api/v1/companions")
    request_id = answer.headers["x-request-id"]
    assert (
        f"request {request_id} to GET /api/v1/companions: unavailable: the disk is gone"
        in caplog.messages
    )
    assert "disk" not in answer.text


@pytest.mark.parametrize(
    "error",
    [RuntimeError(f"secret {make_api_key_text()}"), ConstraintViolated("uq_secret")],
    ids=["fault", "constraint"],
)
async def test_an_internal_error_reveals_nothing(
    world: HttpDeployment, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error is 500 with only a request id, which the log contains too."""
    world.restart(store=Failing(error))
    answer = await world.client_with_key().get("/api/v1/companions")
    body = error_body(answer, 500, "internal")
    assert set(body) == {"error", "code", "request_id"}
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["request_id"] in caplog.text
    assert "x-ratelimit-limit" in answer.headers


async def test_an_unavailable_processor_is_500(world: HttpDeployment) -> None:
    """A checkout is 500 `processor_unavailable` while the processor fails, and succeeds when
    retried."""
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


# Paths and methods ----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/nope", "/api/v1/companions/", "/docs/", "/api/v1", "/auth"])
async def test_an_unknown_path_is_404(world: HttpDeployment, path: str) -> None:
    """An unknown path, or a known one with an extra slash, is 404 in the contract's format."""
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
    """A wrong method is 405 without credentials, with the allowed methods in the Allow header."""
    answer = await world.client().request(method, path)
    error_body(answer, 405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == allow


async def test_options_lists_the_methods(world: HttpDeployment) -> None:
    """OPTIONS needs no credentials and returns 204 with an Allow header, without body or CORS
    header."""
    answer = await world.client().options("/api/keys/1")
    assert (answer.status_code, answer.headers["allow"]) == (204, "DELETE, OPTIONS")
    assert answer.content == b""
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/api/v1/companions", "/healthz", "/docs", "/"])
async def test_head_is_get_without_a_body(world: HttpDeployment, path: str) -> None:
    """HEAD has the status and length of its GET, and no body."""
    program = world.client_with_key()
    got, head = await program.get(path), await program.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


# Order of the checks --------------------------------------------------------------------


async def test_the_order_for_a_creation(world: HttpDeployment) -> None:
    """The checks of a booking request run in the order 401, 403, 413, 415, 400, 422 for format,
    404, 422 for meaning."""
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
    """An exceeded rate limit is 429 before the body is checked."""
    booker = world.client_with_key()
    for _ in range(10):
        await booker.post(BOOKINGS, content=b"{", headers=JSON)
    answer = await booker.post(BOOKINGS, content=b"x" * (MAX_BODY_BYTES + 1))
    error_body(answer, 429, "rate_limited")


@pytest.mark.parametrize("word", ["cancel", "dispute"])
async def test_the_path_goes_before_the_body(world: HttpDeployment, word: str) -> None:
    """An unknown or another's booking is 404, and a wrong party 403, before the body is checked."""
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
    """An unknown companion is 404 before the query is checked."""
    program = world.client_with_key()
    for query in ("", "?start_date=x&end_date=y", "?start_date=2027-01-02&end_date=2027-01-01"):
        answer = await program.get(f"/api/v1/companions/999/availability{query}")
        error_body(answer, 404, "not_found")


async def test_the_party_goes_before_the_state(world: HttpDeployment) -> None:
    """A companion's action is 403 for the customer, also where the booking's status forbids it."""
    booking = await add_booking(world.store, world.companion, world.customer)
    customer = await world.signed_in_client(world.customer.id)
    for word in ("accept", "decline", "check-in"):
        error_body(await customer.post(f"/bookings/{booking.id}/{word}"), 403, "wrong_party")


async def test_csrf_goes_before_the_path(world: HttpDeployment) -> None:
    """A missing CSRF token is 403 before the booking is looked up."""
    customer = await world.signed_in_client(world.customer.id)
    del customer.headers["x-csrf-token"]
    error_body(await customer.post("/bookings/999/cancel"), 403, "csrf_failed")
