"""Malformed input that lenient parsers accept or crash on: each is a 4xx in the contract's format,
on every store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import anyio
import pytest

from staffbooking_http.api import request_body
from staffbooking_http.api.request_body import MAX_BODY_BYTES
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body

pytestmark = pytest.mark.anyio

BOOKINGS = "/api/v1/bookings"
SEARCH = "/api/v1/companions"
JSON = {"content-type": "application/json"}


def nested(levels: int) -> bytes:
    return b'{"x":' * (levels - 1) + b"{}" + b"}" * (levels - 1)


MALFORMED = {
    "20,000 levels": b'{"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "65 levels": nested(65),
    "bad UTF-8": b'{"x":"\xff"}',
    "UTF-16": '{"x":1}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"x":1}',
    "NaN": b'{"x":NaN}',
    "Infinity": b'{"x":-Infinity}',
    "a key twice": b'{"x":1,"x":1}',
    "a key twice inside": b'{"x":[{"y":1,"y":2}]}',
    "a list": b"[]",
    "a number": b"1",
    "nothing": b"",
    "a comma too many": b'{"x":1,}',
    "text behind": b"{} {}",
    "an endless exponent": b'{"x":1e99999999999999999999}',
}


async def test_malformed_json_is_400(each_world: HttpDeployment) -> None:
    """A body that is not strictly a JSON object is 400 `malformed_json`."""
    each_world.raise_limits()
    program = each_world.client_with_key()
    for raw in MALFORMED.values():
        error_body(await program.post(BOOKINGS, content=raw, headers=JSON), 400, "malformed_json")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "The body is empty"),
        ("bad UTF-8", "The body is not UTF-8 at byte 7"),
        ("a key twice", 'The body has the key "x" twice'),
        ("a key twice inside", 'The body has the key "y" twice'),
        ("NaN", "The body is not JSON: it has NaN"),
        ("Infinity", "The body is not JSON: it has -Infinity"),
        ("text behind", "The body is not JSON at line 1, column 4: Extra data"),
        ("a list", "The body is not a JSON object"),
        ("65 levels", "The body is deeper than 64 levels"),
        ("20,000 levels", "The body is deeper than 64 levels"),
        ("an endless exponent", "The body has a number out of range"),
    ],
)
async def test_the_fault_of_a_body_is_named(world: HttpDeployment, name: str, said: str) -> None:
    """The error says what is wrong with the body, and where."""
    program = world.client_with_key()
    answer = await program.post(BOOKINGS, content=MALFORMED[name], headers=JSON)
    assert error_body(answer, 400, "malformed_json")["error"] == said


async def test_a_repeated_key_that_is_no_text_is_named(world: HttpDeployment) -> None:
    """A lone surrogate in a repeated key is told as JSON escapes it."""
    raw = rb'{"\ud800":1,"\ud800":2}'
    answer = await world.client_with_key().post(BOOKINGS, content=raw, headers=JSON)
    assert r'"\ud800"' in error_body(answer, 400, "malformed_json")["error"]


async def test_sixty_four_levels_pass(world: HttpDeployment) -> None:
    """A body of 64 nested levels is parsed, and only its missing fields are reported."""
    answer = await world.client_with_key().post(BOOKINGS, content=nested(64), headers=JSON)
    error_body(answer, 400, "missing_field")


@pytest.mark.parametrize(
    "media",
    ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", None],
)
async def test_another_content_type_is_415(world: HttpDeployment, media: str | None) -> None:
    """A body of another content type, or of none, is 415."""
    raw = json.dumps(world.request_body()).encode()
    headers = {} if media is None else {"content-type": media}
    answer = await world.client_with_key().post(BOOKINGS, content=raw, headers=headers)
    error_body(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize(
    "media",
    ["application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"'],
)
async def test_json_in_utf8_passes(world: HttpDeployment, media: str) -> None:
    """A JSON content type is accepted in any case and with the charset UTF-8."""
    raw = json.dumps(world.request_body()).encode()
    json_body(
        await world.client_with_key().post(BOOKINGS, content=raw, headers={"content-type": media}),
        201,
    )


async def test_a_body_over_the_cap_is_413(world: HttpDeployment) -> None:
    """A body of 64 KiB is accepted and one more byte is 413, with or without a declared length."""
    program = world.client_with_key()
    fits = b" " * (MAX_BODY_BYTES - 2) + b"{}"
    error_body(await program.post(BOOKINGS, content=fits, headers=JSON), 400, "missing_field")
    answer = await program.post(BOOKINGS, content=fits + b" ", headers=JSON)
    error_body(answer, 413, "body_too_large")

    async def undeclared() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 1024 + 1):
            yield b" " * 1024

    answer = await program.post(BOOKINGS, content=undeclared(), headers=JSON)
    error_body(answer, 413, "body_too_large")
    assert answer.headers["connection"] == "close"


async def test_a_body_that_never_ends_times_out(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that is not received within the timeout is 400 `body_timeout`."""
    monkeypatch.setattr(request_body, "BODY_TIMEOUT_SECONDS", 0.01)
    sent = []

    async def receive() -> dict[str, object]:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": BOOKINGS,
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {world.api_key}".encode())],
        "client": ("203.0.113.9", 1),
    }
    await world.app(scope, receive, send)
    assert sent[0]["status"] == 400
    assert json.loads(sent[1]["body"])["code"] == "body_timeout"


WRONG: dict[str, list[object]] = {
    "companion_id": ["4", 4.0, True, 0, -1, 2**63, 10**30, 1e400, [4], {}],
    "event_date": [
        "2026-W01-1",
        "20270303",
        "2027-3-3",
        "2027-02-30",
        "2027-03-03T00:00",
        "\u0662\u0660\u0662\u0667-\u0660\u0663-\u0660\u0663",
        5,
    ],
    "start_time": ["9:5", "24:00", "18:00:00", "18.00", "\uff11\uff18:00", "-1:00", " 18:00", 18],
    "duration_hours": ["4", 4.0, 0, 25, True, 10**30],
    "service_type": ["", " ", "a\0b", "\ud800", "x" * 101, 5, ["Gala dinner"]],
    "location": ["", "x" * 301, "a\0b", "\udfff\ud800", None.__class__.__name__ * 100],
    "customer_email": [
        "ada",
        "a@b",
        "ada@example.com\0",
        "a b@example.com",
        "x" * 300 + "@e.com",
        1,
    ],
    "cancellation_insurance": ["true", 1, 0, []],
    "event_ref": ["", "x" * 65, "\0", 5],
    "rebooking_of": ["", 5],
}


async def test_a_wrong_value_is_422(each_world: HttpDeployment) -> None:
    """A value of the wrong type or format is 422 and its field is named."""
    each_world.raise_limits()
    program = each_world.client_with_key()
    for field, values in WRONG.items():
        for value in values:
            raw = json.dumps(each_world.request_body(**{field: value}))
            raw = raw.replace("Infinity", "1e400")
            answer = await program.post(BOOKINGS, content=raw.encode(), headers=JSON)
            error_body(answer, 422, "invalid_field")
            assert error_fields(answer) == {field}, value


async def test_a_date_out_of_range_is_422(each_world: HttpDeployment) -> None:
    """An event date in the past or too far ahead is 422, without an overflow error."""
    for day in ("9999-12-31", "0001-01-01", "2999-12-31", "1900-01-01", "2031-01-01"):
        body = each_world.request_body(event_date=day, duration_hours=24)
        answer = await each_world.client_with_key().post(BOOKINGS, json=body)
        error_body(answer, 422, "invalid_field")
        assert error_fields(answer) == {"event_date"}


async def test_unknown_fields_are_ignored(each_world: HttpDeployment) -> None:
    """Price, status and ids in the body of a booking request are ignored."""
    body = each_world.request_body(
        total_amount=1, hourly_rate=1, status="paid", customer_id=1, id=7, price=0, version=9
    )
    booking = json_body(await each_world.client_with_key().post(BOOKINGS, json=body), 201)[
        "booking"
    ]
    assert (booking["total_amount"], booking["status"], booking["version"]) == (400.0, "pending", 1)


IDS = [
    "0",
    "01",
    "-1",
    "+1",
    "1_0",
    "1.0",
    "1e3",
    "\u0661",
    "\uff11",
    " 1",
    "x",
    str(2**63),
    "9" * 30,
    "%00",
]


async def test_a_malformed_id_is_404(each_world: HttpDeployment) -> None:
    """A path id that is not a plain positive number up to 2^63 - 1 is 404."""
    program = each_world.client_with_key()
    customer = await each_world.signed_in_client(each_world.customer.id)
    days = "start_date=2027-03-01&end_date=2027-03-01"
    for number in IDS:
        for tail in ("", f"/availability?{days}"):
            error_body(await program.get(f"/api/v1/companions/{number}{tail}"), 404, "not_found")
        error_body(await customer.get(f"/bookings/{number}"), 404, "not_found")
        error_body(await customer.post(f"/bookings/{number}/accept"), 404, "not_found")
        error_body(await customer.delete(f"/api/keys/{number}"), 404, "not_found")


async def test_the_largest_id_is_only_unknown(each_world: HttpDeployment) -> None:
    """The id 2^63 - 1 is 404 in a path and in a body."""
    program = each_world.client_with_key()
    error_body(await program.get(f"/api/v1/companions/{2**63 - 1}"), 404, "not_found")
    answer = await program.post(BOOKINGS, json=each_world.request_body(companion_id=2**63 - 1))
    error_body(answer, 404, "not_found")


CODES = ["BK", "x" * 14, "BK00000000000%00", "BK0000000000%C3%A9", "%FF" * 14, "bk0000000000001"]


async def test_a_malformed_code_is_404(each_world: HttpDeployment) -> None:
    """A malformed booking code is 404."""
    for code in CODES:
        answer = await each_world.client_with_key().get(f"/api/v1/bookings/{code}")
        error_body(answer, 404, "not_found")


QUERIES = {
    "min_price": ["nan", "inf", "-1", "1e2", "0x10", "", "\uff11", "1_0", "1,5", "%ff", "9" * 30],
    "max_price": ["-0.01", "Infinity", "abc"],
    "date": ["2027-2-1", "2027-W01-1", "", "today", "%00", "2027-02-30", "0000-01-01"],
    "page": ["0", "-1", "1.0", "01", "+1", "%2B1", "100001", "x", "", "\u0661"],
    "limit": ["0", "51", "12.0", "9" * 40],
    "location": ["", "%20", "%00", "%ff", "x" * 101, "%ED%A0%80"],
    "service": ["", "a%00b", "%C3"],
}


async def test_a_wrong_parameter_is_422(each_world: HttpDeployment) -> None:
    """An invalid query parameter is 422 and is named."""
    program = each_world.client_with_key()
    for field, values in QUERIES.items():
        for value in values:
            answer = await program.get(f"{SEARCH}?{field}={value}")
            error_body(answer, 422, "invalid_field")
            assert error_fields(answer) == {field}, value


async def test_a_parameter_given_twice_is_422(world: HttpDeployment) -> None:
    """A repeated query parameter is 422, listed with every other invalid parameter."""
    answer = await world.client_with_key().get(f"{SEARCH}?page=1&page=1&limit=0&location=%ff")
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"page", "limit", "location"}


async def test_an_unknown_parameter_given_twice_is_422(world: HttpDeployment) -> None:
    """An unknown query parameter is ignored once and 422 when repeated, named by its first 100
    characters."""
    program, long = world.client_with_key(), "a" * 300
    json_body(await program.get(f"{SEARCH}?colour=red&&"))
    answer = await program.get(f"{SEARCH}?colour=red&{long}=1&colour=blue&{long}=2")
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"colour", long[:100]}


CALLS_WITHOUT_PARAMETERS = (
    ("GET", "/api/v1/companions/{companion}", 422),
    ("GET", "/api/v1/service-types", 422),
    ("GET", "/api/v1/companions/999", 404),
    ("POST", "/api/v1/quotes", 400),
    ("GET", "/nope", 404),
)


@pytest.mark.parametrize(("method", "path", "status"), CALLS_WITHOUT_PARAMETERS)
async def test_a_parameter_given_twice_is_422_where_none_is_read(
    world: HttpDeployment, method: str, path: str, status: int
) -> None:
    """A call without parameters of its own refuses a repeated one too, where nothing that is
    checked before is wrong."""
    address = path.format(companion=world.companion.id)
    program = world.client_with_key()
    answer = await program.request(method, f"{address}?x=1&x=1", json={})
    assert answer.status_code == status
    if status == 422:
        assert error_fields(answer) == {"x"}


async def test_a_booking_with_a_parameter_given_twice_is_not_made(world: HttpDeployment) -> None:
    """A booking request with a valid body and a repeated parameter is 422 and stores nothing."""
    program = world.client_with_key()
    answer = await program.post(f"{BOOKINGS}?a=1&a=2", json=world.request_body())
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"a"}
    assert json_body(await program.get(BOOKINGS))["bookings"] == []


async def test_a_day_of_another_age_finds_nobody(each_world: HttpDeployment) -> None:
    """A search on any date of the calendar is answered: long ago or far ahead nobody is found."""
    program = each_world.client_with_key()
    for day in ("0001-01-01", "1899-12-31", "2999-12-31", "3000-01-01", "9999-12-31"):
        assert json_body(await program.get(f"{SEARCH}?date={day}"))["companions"] == []


async def test_a_price_has_no_upper_bound(each_world: HttpDeployment) -> None:
    """A highest price above all prices finds everybody, and a lowest price above them nobody."""
    program = each_world.client_with_key()
    for number in ("1000000000.01", "9" * 20):
        dear = await program.get(f"{SEARCH}?min_price={number}")
        assert json_body(dear)["companions"] == []
        cheap = await program.get(f"{SEARCH}?max_price={number}")
        assert len(json_body(cheap)["companions"]) == 1


@pytest.mark.parametrize(("low", "high"), [(20, 10), (3_000_000_000, 2_000_000_000)])
async def test_prices_out_of_order_are_422(world: HttpDeployment, low: int, high: int) -> None:
    """A `min_price` above `max_price` is 422 and names `min_price`."""
    answer = await world.client_with_key().get(f"{SEARCH}?min_price={low}&max_price={high}")
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"min_price"}


FOUND = {
    "min_price=100.00&max_price=100": 1,
    "min_price=100.001": 0,
    "max_price=99.999": 0,
    "max_price=100.009": 1,
    "location=LISB": 1,
    "location=%25": 0,
    "location=L_sbon": 0,
    "location=tu'; drop": 0,
    "service=gala+dinner": 1,
    "service=gala": 0,
    "unknown=1&other=2": 1,
    "&&=&=1": 1,
    "date=2027-03-03&page=1&limit=50": 1,
    "page=100000&limit=50": 0,
}


async def test_search_filters_match_exactly(each_world: HttpDeployment) -> None:
    """Search treats wildcards literally, compares prices exactly and ignores unknown parameters."""
    program = each_world.client_with_key()
    found = {
        query: len(json_body(await program.get(f"{SEARCH}?{query}"))["companions"])
        for query in FOUND
    }
    assert found == FOUND


SPANS = {
    "": (400, {"start_date", "end_date"}),
    "start_date=2027-03-01": (400, {"end_date"}),
    "start_date=x&end_date=y": (422, {"start_date", "end_date"}),
    "start_date=2027-03-02&end_date=2027-03-01": (422, {"end_date"}),
    "start_date=2027-03-01&end_date=2027-06-01": (422, {"end_date"}),
    "start_date=9999-12-31&end_date=9999-12-31": (422, {"start_date", "end_date"}),
    "start_date=0001-01-01&end_date=9999-12-31": (422, {"start_date", "end_date"}),
}


async def test_availability_is_bounded(each_world: HttpDeployment) -> None:
    """Availability needs both dates, in order, within the supported years, at most 92 days."""
    program, path = each_world.client_with_key(), f"{SEARCH}/{each_world.companion.id}/availability"
    for query, expected in SPANS.items():
        answer = await program.get(f"{path}?{query}")
        assert (answer.status_code, error_fields(answer)) == expected


async def test_ninety_two_days_pass(world: HttpDeployment) -> None:
    """Availability can be queried for 92 days."""
    path = f"{SEARCH}/{world.companion.id}/availability?start_date=2027-03-01&end_date=2027-05-31"
    assert len(json_body(await world.client_with_key().get(path))["availability"]) == 92


SIGN_UPS: list[tuple[dict[str, object], set[str]]] = [
    (
        {"email": "x", "password": "short", "first_name": "", "last_name": "B", "role": "admin"},
        {"email", "password", "first_name", "role"},
    ),
    (
        {"email": "a@b.co", "password": "x" * 129, "first_name": "A\0", "last_name": 3, "role": 1},
        {"password", "first_name", "last_name", "role"},
    ),
]


async def test_signing_up_is_strict(each_world: HttpDeployment) -> None:
    """Registration refuses the role admin, bad passwords, names and email addresses, and names
    every field."""
    for body, named in SIGN_UPS:
        answer = await each_world.client().post("/auth/register", json=body)
        error_body(answer, 422, "invalid_field")
        assert error_fields(answer) == named


async def test_names_of_every_script_pass(each_world: HttpDeployment) -> None:
    """A name of any script is accepted and returned unchanged."""
    name = "Åsa 山田 🎈"
    body = {
        "email": "asa@example.com",
        "password": "hunter2hunter2",
        "first_name": name,
        "last_name": "x" * 100,
        "role": "staff",
    }
    user = json_body(await each_world.client().post("/auth/register", json=body), 201)["user"]
    assert user["first_name"] == name
