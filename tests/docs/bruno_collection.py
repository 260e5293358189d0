"""Makes the Bruno collection of docs/bruno from the OpenAPI document: `make docs`.

A folder for each tag has the document's calls with its examples; the first folder has the whole
life of a booking, made of the same calls with values of its own. Variables in double braces are
Bruno's.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

from attrs import field, frozen

from staffbooking_core.policy import Policy
from staffbooking_http.docs.examples import example_of
from staffbooking_http.docs.openapi import ServedDocument
from staffbooking_http.routes import ENDPOINTS_BY_TAG, SANDBOX_ENDPOINTS_BY_TAG

FOLDER = Path(__file__).parents[2] / "docs" / "bruno"
DOCUMENT = ServedDocument({**ENDPOINTS_BY_TAG, **SANDBOX_ENDPOINTS_BY_TAG}, Policy()).plain

VARIABLES = {
    "base": "http://127.0.0.1:8000",
    "csrf": "",
    "companion_id": "1",
    "booking_id": "1",
    "booking_code": "BK7Q2M4X9T6HVC",
    "event_date": "2027-06-12",
    "email": "customer@demo.test",
    "password": "demo-password-1",
}
"""The variables of the environment, but for the secret `key`."""

_VARIABLES_BY_PLACE = {
    "/api/v1/companions/{id}": "companion_id",
    "/bookings/{id}": "booking_id",
    "/reviews/booking/{id}": "booking_id",
    "/api/v1/bookings/{code}": "booking_code",
    "/api/admin/ledger/{code}": "booking_code",
}
_NOT_REQUESTS = {"openChannel"}

_REQUEST = {
    "companion_id": "{{companion_id}}",
    "event_date": "{{event_date}}",
    "start_time": "18:00",
    "duration_hours": 4,
    "service_type": "Bartender",
}
_BOOKING = {**_REQUEST, "location": "Rua do Alecrim 12, Lisbon"}
_BODIES: dict[str, Mapping[str, object]] = {
    "quoteBooking": _REQUEST,
    "quoteOwnBooking": _REQUEST,
    "createBooking": {**_BOOKING, "customer_email": "customer@demo.test"},
    "createOwnBooking": _BOOKING,
    "login": {"email": "{{email}}", "password": "{{password}}"},
    "moveClock": {"advance_seconds": 3600},
}
"""Bodies with values of the demo, which the document does not know."""


@frozen
class Call:
    """An operation of the document."""

    path: str
    method: str
    operation: Mapping[str, Any]

    @property
    def takes_session(self) -> bool:
        """Whether a session alone may make this call."""
        return any("session" in way for way in self.operation["security"]) and not self.takes_key

    @property
    def takes_key(self) -> bool:
        """Whether an API key may make this call."""
        return {"key": []} in self.operation["security"]

    @property
    def content(self) -> Mapping[str, Any]:
        """The schemas of its body by content type."""
        content: Mapping[str, Any] = self.operation.get("requestBody", {}).get("content", {})
        return content

    def parameters(self, place: str) -> Iterator[Mapping[str, Any]]:
        """Its parameters in the path, the query or the headers."""
        return (each for each in self.operation.get("parameters", []) if each["in"] == place)


@frozen
class Step:
    """A call in the life of a booking."""

    name: str
    operation_id: str
    body: Mapping[str, object] = field(factory=dict)
    query: Mapping[str, str] = field(factory=dict)
    keeps: Mapping[str, str] = field(factory=dict)
    """Variables for later calls, as JavaScript that reads the response `res`."""
    expects: Mapping[str, str] = field(factory=dict)
    """What holds of the answer, in Bruno's words, by the path of the value."""
    place: str = ""
    """The variable in the path, where it is none of `VARIABLES`."""
    waits: bool = False
    """Whether the worker has to have worked before."""


_LIFE_TEXT = (
    "Run this folder against a demo: a booking from the search to the payout. It moves the clock "
    "of the sandbox by two weeks or more. Put the key that the demo prints into the environment."
)
_STATUS = "res.body.booking.status"


def _day_from_now(days: int) -> str:
    return f"new Date(Date.parse(res.body.now) + {days} * 864e5).toISOString().slice(0, 10)"


def _sign_in(who: str, email: str, when: str = "", **keeps: str) -> Step:
    return Step(
        f"{who} signs in{when}",
        "login",
        {"email": email, "password": "{{password}}"},
        keeps={"csrf": "res.body.csrf_token", **keeps},
    )


LIFE = (
    Step(
        "Read the clock of the sandbox",
        "moveClock",
        {"advance_seconds": 1},
        keeps={"from": _day_from_now(14), "until": _day_from_now(40)},
    ),
    Step("Search", "searchCompanions", query={"location": "lisbon", "limit": "3"}),
    _sign_in("The staff member", "staff@demo.test", companion_id="res.body.user.id"),
    Step(
        "Find a free evening",
        "getAvailability",
        query={"start_date": "{{from}}", "end_date": "{{until}}"},
        keeps={
            "evening": "res.body.availability.find(day => day.slots.some("
            'slot => slot.start <= "18:00" && slot.end >= "22:00")).date'
        },
    ),
    Step(
        "Ask for the price",
        "quoteBooking",
        {**_REQUEST, "event_date": "{{evening}}"},
        expects={"res.body.quote.available": "eq true"},
    ),
    Step(
        "Request a booking for a customer",
        "createBooking",
        {**_BODIES["createBooking"], "event_date": "{{evening}}"},
        keeps={
            "booking_id": "res.body.booking.id",
            "booking_code": "res.body.booking.booking_code",
            "starts_at": "res.body.booking.starts_at",
            "ends_at": "res.body.booking.ends_at",
        },
        expects={_STATUS: "eq pending"},
    ),
    Step("Read its status", "getBooking", expects={_STATUS: "eq pending"}),
    Step("The staff member accepts", "acceptBooking", expects={_STATUS: "eq accepted"}),
    _sign_in("The customer", "customer@demo.test"),
    Step(
        "Open the checkout",
        "openCheckout",
        keeps={"checkout_id": "res.body.checkout_url.split('/').pop()"},
    ),
    Step("Pay on its page", "actOnCheckout", {"outcome": "succeed"}, place="checkout_id"),
    Step("See it paid", "getOwnBooking", expects={_STATUS: "eq paid"}, waits=True),
    Step("The event begins", "moveClock", {"set_to": "{{starts_at}}"}),
    _sign_in("The staff member", "staff@demo.test", " to check in"),
    Step("Check in", "checkIn", expects={"res.body.booking.checked_in_at": "isDefined"}),
    Step("The event is over", "moveClock", {"set_to": "{{ends_at}}"}),
    _sign_in("The customer", "customer@demo.test", " to confirm"),
    Step("Confirm", "confirmBooking", expects={_STATUS: "eq completed"}),
    Step("Review", "createReview", {"rating": 5, "comment": "Everything went well."}),
    Step("A day later", "moveClock", {"advance_seconds": 90_000}),
    _sign_in("The staff member", "staff@demo.test", " to see the payout"),
    Step(
        "See the payout",
        "getOwnBooking",
        expects={"res.body.booking.payout_status": "eq paid"},
        waits=True,
    ),
)
"""A booking from the search to the payout, with the people of the demo."""


def calls() -> dict[str, Call]:
    """The calls of the document by their operation ids."""
    return {
        operation["operationId"]: Call(path, method, operation)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if operation["operationId"] not in _NOT_REQUESTS
    }


def render_files() -> dict[str, str]:
    """The files of the collection by their paths in its folder."""
    files = {
        "bruno.json": json.dumps(
            {"version": "1", "name": "staffbooking", "type": "collection"}, indent=2
        )
        + "\n",
        "environments/demo.bru": _block(
            "vars", "\n".join(f"{name}: {value}".rstrip() for name, value in VARIABLES.items())
        )
        + "vars:secret [\n  key\n]\n",
        "collection.bru": _block("docs", DOCUMENT["info"]["description"]),
    }
    known = calls()
    life = {step.name: _render_step(known[step.operation_id], step) for step in LIFE}
    folders = {"The life of a booking": life}
    for call in known.values():
        requests = folders.setdefault(call.operation["tags"][0], {})
        name = call.operation["summary"].rstrip("?")
        if name in requests:
            raise ValueError(f"two calls of one folder are named {name!r}")
        requests[name] = _render_call(call)
    for place, (folder, requests) in enumerate(folders.items(), start=1):
        files[f"{folder}/folder.bru"] = _block("meta", f"name: {folder}\nseq: {place}")
        if requests is life:
            files[f"{folder}/folder.bru"] += "\n" + _block("docs", _LIFE_TEXT)
        for number, (name, text) in enumerate(requests.items(), start=1):
            meta = _block("meta", f"name: {name}\ntype: http\nseq: {number}")
            files[f"{folder}/{name}.bru"] = f"{meta}\n{text}"
    return files


def _render_call(call: Call) -> str:
    """The call with the values of the document."""
    schema = call.content.get("application/json", {}).get("schema")
    body = _BODIES.get(call.operation["operationId"])
    if body is None and schema is not None:
        body = example_of(DOCUMENT, schema)
    query = {
        each["name"]: str(example_of(DOCUMENT, each["schema"])) for each in call.parameters("query")
    }
    text = _render(call, body, query, all_queries=False)
    if call.operation["operationId"] == "login":
        text += "\n" + _block("vars:post-response", "csrf: res.body.csrf_token")
    return text


def _render_step(call: Call, step: Step) -> str:
    """The call with the step's values, what it keeps and what it expects."""
    text = _render(call, step.body or None, step.query, all_queries=True, place=step.place)
    if step.waits:
        text += "\n" + _block("script:pre-request", "await bru.sleep(3000);")
    if step.keeps:
        text += "\n" + _block("vars:post-response", _pairs(step.keeps))
    expects = {"res.status": "lt 300", **step.expects}
    return text + "\n" + _block("assert", _pairs(expects))


def _render(
    call: Call,
    body: object,
    query: Mapping[str, str],
    *,
    all_queries: bool,
    place: str = "",
) -> str:
    required = {each["name"] for each in call.parameters("query") if each.get("required")}
    sent = [name for name in query if all_queries or name in required]
    url = "{{base}}" + re.sub(r"\{(\w+)\}", r":\1", call.path)
    if sent:
        url += "?" + "&".join(f"{name}={query[name]}" for name in sent)
    mode, body_block = _body(call, body)
    auth = "bearer" if call.takes_key else "none"
    blocks = [_block(call.method, f"url: {url}\nbody: {mode}\nauth: {auth}")]
    if query:
        lines = (f"{'' if name in sent else '~'}{name}: {value}" for name, value in query.items())
        blocks.append(_block("params:query", "\n".join(lines)))
    if places := {
        each["name"]: "{{" + place + "}}" if place else _place_value(call, each)
        for each in call.parameters("path")
    }:
        blocks.append(_block("params:path", _pairs(places)))
    if headers := "\n".join(_headers(call)):
        blocks.append(_block("headers", headers))
    if call.takes_key:
        blocks.append(_block("auth:bearer", "token: {{key}}"))
    if body_block:
        blocks.append(body_block)
    if not all_queries and (told := call.operation.get("description")):
        blocks.append(_block("docs", told))
    return "\n".join(blocks)


def _place_value(call: Call, parameter: Mapping[str, Any]) -> str:
    for path, variable in _VARIABLES_BY_PLACE.items():
        if call.path.startswith(path) and f"{{{parameter['name']}}}" in path:
            return "{{" + variable + "}}"
    return str(example_of(DOCUMENT, parameter["schema"]))


def _headers(call: Call) -> Iterator[str]:
    if call.takes_session and any("csrf" in way for way in call.operation["security"]):
        yield "X-CSRF-Token: {{csrf}}"
    for each in call.parameters("header"):
        yield f"~{each['name']}: {'{{$guid}}' if each['name'] == 'Idempotency-Key' else '*'}"
    if (upload := _upload_kind(call)) not in ("", "multipart/form-data"):
        yield f"Content-Type: {upload.replace('*/*', 'application/json')}"


def _upload_kind(call: Call) -> str:
    return next((kind for kind in call.content if kind != "application/json"), "")


def _body(call: Call, body: object) -> tuple[str, str]:
    """The mode of the body and its block."""
    upload = _upload_kind(call)
    if upload == "multipart/form-data":
        return "multipartForm", _block("body:multipart-form", "file: @file()")
    if upload:
        return "file", _block("body:file", f"file: @file() @contentType({upload})")
    if body is None:
        return "none", ""
    text = json.dumps(body, ensure_ascii=False, indent=2)
    # A number that is a variable stands without quotes.
    text = text.replace('"{{companion_id}}"', "{{companion_id}}")
    return "json", _block("body:json", text)


def _pairs(values: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in values.items())


def _block(name: str, text: str) -> str:
    return f"{name} {{\n{indent(text, '  ')}\n}}\n"


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, text in render_files().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
