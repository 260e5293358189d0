"""Repetitions, waits and errors, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from staffbooking_http.client import AsyncClient, Client, FileCursor, Retries, errors
from tests.http.client.samples import SAMPLES, sample_call

Answer = httpx.Response | Exception
BOOKING = {"booking_code": "BK1", "status": "pending", "event_date": "2027-03-03"}
GALA: dict[str, Any] = {
    "companion_id": 1,
    "event_date": "2027-03-03",
    "start_time": "18:00",
    "duration_hours": 4,
    "service_type": "Gala dinner",
    "location": "Rua Augusta 1",
    "customer_email": "ada@example.com",
}


class Service:
    """A service that gives these answers in turn, the last one for ever, in virtual time."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(given, Exception):
            raise given
        return given

    def client(self, **options: Any) -> Client:
        return Client(
            "https://staff.example/base/",
            "ps_key",
            http=httpx.Client(transport=httpx.MockTransport(self)),
            sleep=self.waits.append,
            clock=lambda: sum(self.waits),
            random=lambda: 0.5,
            **options,
        )


def answer(status: int, body: Any = None, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, json=body or {}, headers=named)


def booked(**given: Any) -> httpx.Response:
    return answer(200, {"booking": {**BOOKING, **given}})


def call_booking(client: Client) -> object:
    return client.get_booking("BK1")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("url", ["127.0.0.1:18431", "localhost:8000", "//x", "https://", ""])
def test_an_address_without_scheme_or_host_is_refused(
    kind: type[Client | AsyncClient], url: str
) -> None:
    """A client is not made with an address that no call could be sent to."""
    with pytest.raises(ValueError, match="base_url must be an address such as https://"):
        kind(url, "ps_key")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("key", ["ps_key\n", " ps_key", "", "ps_k\u00e9y", "ps\0key"])
def test_a_key_that_no_header_can_have_is_refused(
    kind: type[Client | AsyncClient], key: str
) -> None:
    """A client is not made with a key that could not be sent, and the error does not show it."""
    with pytest.raises(ValueError, match=r"^api_key must be printable ASCII without spaces"):
        kind("https://staff.example", key)


def test_the_key_is_in_no_representation() -> None:
    """The key is not shown where a client is, as in a log or a debugger."""
    client = Client("https://staff.example", "ps_key")
    assert "ps_key" not in repr(vars(client))


@pytest.mark.parametrize("key", ["order 1\n", "", "b\u00e9b\u00e9"])
def test_an_idempotency_key_that_no_header_can_have_is_refused(key: str) -> None:
    """A booking is not sent with a key that would be lost or break the request."""
    service = Service(booked())
    with pytest.raises(ValueError, match=r"^idempotency_key must be printable ASCII"):
        service.client().book(**GALA, idempotency_key=key)
    assert service.requests == []


@pytest.mark.parametrize(
    "failure",
    [
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("closed"),
        httpx.DecodingError("not gzip"),
        answer(503),
        answer(429),
        httpx.Response(502, text="<html>"),
    ],
    ids=["refused", "slow", "closed", "broken", "503", "429", "502"],
)
def test_a_booking_is_repeated_under_one_key(failure: Answer) -> None:
    """After no answer, a broken one, 429, 502 or 503 the same bytes are sent under the same key."""
    service = Service(failure, booked())
    assert service.client().book(**GALA)["booking_code"] == "BK1"
    first, second = service.requests
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert first.content == second.content


def test_each_booking_has_its_own_key() -> None:
    """Two calls have different keys."""
    service = Service(booked())
    client = service.client()
    client.book(**GALA)
    client.book(**GALA)
    assert len({each.headers["Idempotency-Key"] for each in service.requests}) == 2


def test_a_key_may_be_given() -> None:
    """A given key is sent in place of an own one, and not in the body."""
    service = Service(booked())
    service.client().book(**GALA, idempotency_key="order-1")
    assert service.requests[0].headers["Idempotency-Key"] == "order-1"
    assert b"order-1" not in service.requests[0].content


@pytest.mark.parametrize("failure", [httpx.ReadTimeout("slow"), answer(400)], ids=["lost", "400"])
@pytest.mark.parametrize("given", [None, "order-1"])
def test_an_error_has_the_key_of_its_call(failure: Answer, given: str | None) -> None:
    """An error has the idempotency key that was sent, so that the caller can repeat the call."""
    service = Service(failure)
    with pytest.raises(errors.ApiError) as raised:
        service.client().create_webhook("https://example.com/hooks", idempotency_key=given)
    sent = service.requests[0].headers["Idempotency-Key"]
    assert raised.value.idempotency_key == sent
    assert given in (None, sent)


def test_an_error_of_a_read_has_no_key() -> None:
    """A call that sends no idempotency key raises an error without one."""
    with pytest.raises(errors.NotFound) as raised:
        call_booking(Service(answer(404)).client())
    assert raised.value.idempotency_key is None


def test_a_quote_has_no_key() -> None:
    """A quote changes nothing and has no key."""
    service = Service(answer(200, {"quote": {}}))
    asked = {name: GALA[name] for name in list(GALA)[:5]}
    service.client().quote(**asked)
    assert "Idempotency-Key" not in service.requests[0].headers


def test_waits_double_and_are_random() -> None:
    """Without a wait asked for, waits are a random part of a doubling one."""
    service = Service(httpx.ConnectError("refused"))
    with pytest.raises(errors.Unavailable) as raised:
        call_booking(service.client())
    assert service.waits == [0.25, 0.5, 1.0]
    assert isinstance(raised.value.__cause__, httpx.ConnectError)


def test_waits_are_bounded() -> None:
    """No wait is longer than the longest."""
    service = Service(answer(503))
    with pytest.raises(errors.Unavailable):
        call_booking(service.client(retries=Retries(attempts=6, max_seconds=2)))
    assert service.waits == [0.25, 0.5, 1.0, 1.0, 1.0]


DATE = "Mon, 01 Mar 2027 12:00:00 GMT"


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry_After": "7"},
        {"Retry_After": "Mon, 01 Mar 2027 12:00:07 GMT", "Date": DATE},
        {"X_RateLimit_Reset": "1803902407", "Date": DATE},
    ],
    ids=["seconds", "a date", "the window's end"],
)
def test_a_wait_that_is_asked_for_is_kept(headers: dict[str, str]) -> None:
    """The wait is what the service asks for in any form, and a random part more."""
    service = Service(answer(429, **headers), booked())
    call_booking(service.client())
    assert service.waits == [7.25]


def test_a_long_wait_is_left_to_the_caller() -> None:
    """A wait over the longest one raises at once, with its seconds."""
    service = Service(answer(429, {"code": "rate_limited"}, Retry_After="3000"))
    with pytest.raises(errors.RateLimited) as raised:
        call_booking(service.client())
    assert (raised.value.retry_after, service.waits) == (3000, [])


def test_a_programming_error_is_not_repeated() -> None:
    """An address that httpx does not support raises its error at once."""
    service = Service(httpx.UnsupportedProtocol("gopher"))
    with pytest.raises(httpx.UnsupportedProtocol):
        call_booking(service.client())
    assert len(service.requests) == 1


def test_a_deletion_whose_answer_was_lost_succeeds() -> None:
    """A repeated deletion that finds nothing is a success."""
    service = Service(httpx.ReadError("reset"), answer(404))
    service.client().delete_webhook(1)
    assert len(service.requests) == 2


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, {"code": "too_many_webhooks"}, errors.RuleBroken),
        (400, {"code": "missing_field", "errors": []}, errors.InvalidInput),
        (422, {"code": "invalid_field", "errors": []}, errors.InvalidInput),
        (401, {"code": "unauthenticated"}, errors.Unauthenticated),
        (403, {"code": "forbidden"}, errors.Forbidden),
        (404, {"code": "not_found"}, errors.NotFound),
        (500, {"code": "internal"}, errors.ApiError),
        (500, {"code": "", "errors": ["of a proxy"]}, errors.ApiError),
    ],
)
def test_an_error_has_a_type(status: int, body: Any, expected: type[Exception]) -> None:
    """Each status raises its type with the code, without a repetition."""
    service = Service(answer(status, body))
    with pytest.raises(errors.ApiError) as raised:
        call_booking(service.client())
    assert (type(raised.value), raised.value.code) == (expected, body["code"])
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    "text",
    ["<html>", "[]", '{"status": "maintenance"}', '{"booking": 1e9999999999999999999}'],
    ids=["HTML", "an array", "another object", "a number out of range"],
)
def test_an_answer_of_another_server_is_repeated(text: str) -> None:
    """A success that is not the service's is a failure, and the next attempt may succeed."""
    service = Service(httpx.Response(200, text=text), booked())
    assert service.client().book(**GALA) == BOOKING
    assert len({each.headers["Idempotency-Key"] for each in service.requests}) == 1


@pytest.mark.parametrize("name", SAMPLES)
def test_an_answer_without_its_field_is_no_result(name: str) -> None:
    """A call whose answers lack the field of its result raises Unavailable after all attempts."""
    service = Service(answer(200, {"status": "maintenance"}))
    with pytest.raises(errors.Unavailable, match="not from the service"):
        service.client().run(sample_call(name))
    assert len(service.requests) == 4


def test_an_error_of_a_proxy_is_repeated() -> None:
    """A 502 with `errors` is no invalid input."""
    service = Service(answer(502, {"errors": ["no upstream"]}))
    with pytest.raises(errors.Unavailable):
        call_booking(service.client())
    assert len(service.requests) == 4


@pytest.mark.parametrize("code", ["", ".", ".."])
def test_a_path_to_another_call_is_refused(code: str) -> None:
    """A code that would change the path is refused without a request."""
    service = Service(booked())
    with pytest.raises(ValueError, match=r"^code must not be"):
        service.client().get_booking(code)
    assert service.requests == []


def test_a_client_makes_one_attempt_at_least() -> None:
    """Less than one attempt is refused."""
    with pytest.raises(ValueError, match="attempts must be at least 1"):
        Retries(attempts=0)


def test_a_request_goes_to_the_base_path_with_the_key() -> None:
    """The path of the base address stays, parts of the path are quoted, and the key is sent."""
    service = Service(booked())
    service.client().get_booking("a/b")
    (request,) = service.requests
    assert str(request.url) == "https://staff.example/base/api/v1/bookings/a%2Fb"
    assert request.headers["Authorization"] == "Bearer ps_key"
    assert request.extensions["timeout"]["connect"] == 5


def test_amounts_are_exact() -> None:
    """Numbers with a fraction are decimals."""
    service = Service(httpx.Response(200, text='{"booking": {"price": 200.10}}'))
    assert service.client().get_booking("BK1")["price"] == Decimal("200.10")


# Waiting for a booking --------------------------------------------------------------------


def test_a_status_is_awaited() -> None:
    """Polls become rarer until the booking has the status."""
    service = Service(booked(), booked(), booked(), booked(status="accepted"))
    record = service.client().wait_for("BK1", "accepted", timeout=600)
    assert (record["status"], service.waits) == ("accepted", [2, 4, 8])


def test_a_status_that_was_passed_is_seen() -> None:
    """A booking that went on between two polls has reached the status."""
    service = Service(booked(status="paid", timeline=[{"to": "accepted"}, {"to": "paid"}]))
    assert service.client().wait_for("BK1", "accepted", timeout=0)["status"] == "paid"


@pytest.mark.parametrize(("status", "waited"), [("pending", 9), ("cancelled", 0)])
def test_a_wait_ends(status: str, waited: float) -> None:
    """A wait ends after its timeout, and at once when the booking is cancelled."""
    service = Service(booked(status=status))
    with pytest.raises(errors.NotReached) as raised:
        service.client().wait_for("BK1", "paid", timeout=9)
    assert (raised.value.booking["status"], sum(service.waits)) == (status, waited)


def test_a_wait_outlives_an_outage() -> None:
    """A wait goes on after polls that were answered 503 in each attempt."""
    service = Service(booked(), *[answer(503)] * 8, booked(status="accepted"))
    record = service.client().wait_for("BK1", "accepted", timeout=600)
    assert (record["status"], service.waits) == (
        "accepted",
        [2, 0.25, 0.5, 1, 4, 0.25, 0.5, 1, 8],
    )


def test_a_wait_outlives_a_rate_limit() -> None:
    """A poll that was refused with 429 is repeated after the seconds that the service asks for."""
    service = Service(answer(429, Retry_After="60"), booked(status="accepted"))
    assert service.client().wait_for("BK1", "accepted", timeout=600)["status"] == "accepted"
    assert service.waits == [60]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (httpx.ConnectError("refused"), errors.Unavailable),
        (answer(429, Retry_After="3000"), errors.RateLimited),
    ],
    ids=["refused", "429"],
)
def test_a_wait_raises_the_error_of_its_last_poll(
    failure: Answer, expected: type[errors.ApiError]
) -> None:
    """A wait whose last poll failed raises the error of it, once the timeout is over."""
    service = Service(booked(), failure)
    with pytest.raises(expected):
        service.client().wait_for("BK1", "accepted", timeout=600)
    assert 600 <= sum(service.waits) < 605


def test_a_wait_ends_at_an_error_that_stays() -> None:
    """A wait raises an error that no repetition removes at once."""
    service = Service(answer(404))
    with pytest.raises(errors.NotFound):
        service.client().wait_for("BK1", "accepted", timeout=600)
    assert service.waits == []


# Pages and the feed -----------------------------------------------------------------------


def test_a_search_reads_page_after_page() -> None:
    """A search gives the companions of all pages, each page when it is needed."""
    service = Service(
        answer(200, {"companions": [{"id": 1}, {"id": 2}], "has_more": True}),
        answer(200, {"companions": [{"id": 3}], "has_more": False}),
    )
    found = iter(service.client().search(location="Lisbon"))
    assert [next(found)["id"], next(found)["id"]] == [1, 2]
    assert len(service.requests) == 1
    assert [each["id"] for each in found] == [3]
    assert service.requests[1].url.query == b"location=Lisbon&page=2"


def feed(request: httpx.Request) -> httpx.Response:
    """Three events, two a page."""
    start = int(request.url.params.get("after", "evt_0").removeprefix("evt_"))
    events = [{"id": f"evt_{number}"} for number in range(start + 1, min(start + 2, 3) + 1)]
    return answer(200, {"events": events, "has_more": start + 2 < 3})


def read(cursor: FileCursor, process: Callable[[str], None]) -> None:
    with httpx.Client(transport=httpx.MockTransport(feed)) as http:
        for event in Client("https://staff.example", "ps_key", http=http).get_events(cursor):
            process(event["id"])


def test_a_cursor_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """An event whose processing failed comes again in the next run, those before do not."""
    cursor, seen = FileCursor(tmp_path / "cursor"), []

    def fail_once(event_id: str) -> None:
        seen.append(event_id)
        if seen == ["evt_1", "evt_2"]:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        read(cursor, fail_once)
    read(cursor, fail_once)
    read(cursor, fail_once)
    assert seen == ["evt_1", "evt_2", "evt_2", "evt_3"]
    assert [each.name for each in tmp_path.iterdir()] == ["cursor"]
