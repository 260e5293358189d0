"""The way of a request: who asks, which call, which key, what goes wrong, what comes out."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import unquote

from attrs import evolve, frozen

from tests.stripe_stub import response_check
from tests.stripe_stub.call import Call, expanded
from tests.stripe_stub.contract import Operation
from tests.stripe_stub.errors import Refusal
from tests.stripe_stub.faults import Break, Fault, Faults
from tests.stripe_stub.http_messages import Answer, Ending, Request, as_json
from tests.stripe_stub.idempotency import Keys, in_use
from tests.stripe_stub.openapi_limits import limit, schema_of
from tests.stripe_stub.request_parser import decode_form, decode_json, read
from tests.stripe_stub.routes import Route, route
from tests.stripe_stub.state import Books
from tests.stripe_stub.version import VERSION

API_KEY = "sk_test_of_the_platform"
RESTRICTED_KEY = "rk_test_without_permissions"

BAD_GATEWAY = Answer(
    502, b"<html><body><h1>502 Bad Gateway</h1></body></html>", {"Content-Type": "text/html"}
)


@frozen
class Seen:
    """A request that came to an endpoint; `operation` is the SDK's name for it."""

    operation: str
    key: str
    params: dict[str, Any]


class Gate:
    def __init__(self, books: Books) -> None:
        self.books = books
        self.faults = Faults()
        self.seen: list[Seen] = []
        self.bugs: list[Exception] = []
        """What the stub itself did wrong; a test that made it come to this has failed."""
        self._keys = Keys(books.now)

    def answer(self, request: Request) -> Answer:
        """What goes back for a request; never raises."""
        self.books.catch_up()
        try:
            answer = self._admit(request)
        except Refusal as refusal:
            answer = as_json(refusal.document(), refusal.status)
        except Exception as bug:
            self.bugs.append(bug)
            answer = as_json(Refusal(repr(bug), kind="api_error").document(), 500)
        request_id = self.books.new_id("req_", 14)
        return evolve(answer, headers={"Request-Id": request_id, **answer.headers})

    def _admit(self, request: Request) -> Answer:
        _check_access(request)
        found = route(request.verb, request.path)
        if found is None:
            raise Refusal(
                f"Unrecognized request URL ({request.verb.upper()}: {request.path}).", status=404
            )
        way, ids = found
        params = _decoded(way.operation, request)
        call = Call(request.path, [unquote(each) for each in ids], params)
        if request.verb == "post":
            return self._post(way, call, request.headers.get("idempotency-key", ""))
        self.seen.append(Seen(way.operation.name, "", params))
        broken = self.faults.draw(way.operation.name, is_post=False, is_fresh=True)
        return self._broken(broken, "") or _finished(self._executed(way, call, broken), broken)

    def _post(self, way: Route, call: Call, key: str) -> Answer:
        operation = way.operation
        sent = (call.path, call.params)
        self.seen.append(Seen(operation.name, key, call.params))
        kept = self._keys.find(key, sent, operation.is_v2)
        broken = self.faults.draw(operation.name, is_post=True, is_fresh=kept is None)
        if before := self._broken(broken, key):
            return before
        if kept is not None:
            return _finished(kept, broken)
        answer = self._executed(way, call, broken)
        self._keys.begin(key, sent, operation.is_v2)
        told = _server_error() if broken and broken.fault is Fault.ERROR_500_AFTER else answer
        # v2 finishes what an error has interrupted: a repeat gets the true answer.
        end = partial(self._keys.end, key, operation.is_v2, answer if operation.is_v2 else told)
        if broken and broken.fault is Fault.SLOW:
            return evolve(told, seconds=broken.seconds, sent=end)
        end()
        return _finished(told, broken)

    @staticmethod
    def _broken(broken: Break | None, key: str) -> Answer | None:
        """The answer of a call that is not even begun."""
        match broken and broken.fault:
            case Fault.RESET_BEFORE:
                return Answer(0, b"", ending=Ending.RESET)
            case Fault.HTML:
                return BAD_GATEWAY
            case Fault.RATE_LIMIT:
                refusal = Refusal("Request rate limit exceeded.", code="rate_limit")
                return as_json(refusal.document(), 429, Retry_After="1")
            case Fault.CONFLICT:
                raise in_use(key)
            case _:
                return None

    def _executed(self, way: Route, call: Call, broken: Break | None) -> Answer:
        """What the endpoint answers; raises `Unfit` when it does not begin."""
        operation = way.operation
        params = read(operation.params.load(), call.params, "", _is_textual(operation))
        limit(schema_of(operation), params)
        match broken and broken.fault:
            case Fault.ERROR_500:
                return _server_error()
            case Fault.REFUSE if broken:
                refusal = Refusal(f"Refused by a test: {broken.code}", code=broken.code)
                return as_json(refusal.document(), refusal.status)
        try:
            document = way.handler(self.books, Call(call.path, call.ids, params))
            document = expanded(self.books, document, params.get("expand", ()))
        except Refusal as refusal:
            return as_json(refusal.document(), refusal.status)
        response_check.hold(operation, document)
        return as_json(document)


def _check_access(request: Request) -> None:
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if given == RESTRICTED_KEY:
        raise Refusal("The provided key does not have the required permissions.", status=403)
    if given != API_KEY:
        raise Refusal(f"Invalid API Key provided: {given[:7]}****", status=401)
    if account := request.headers.get("stripe-account"):
        raise Refusal(
            f"The provided key does not have access to account '{account}'.",
            code="account_invalid",
            status=403,
        )
    version = request.headers.get("stripe-version")
    if version != VERSION:
        raise Refusal(f"Invalid Stripe API version: {version}. This stub speaks {VERSION}.")


def _is_textual(operation: Operation) -> bool:
    return operation.verb != "post" or not operation.is_v2


def _decoded(operation: Operation, request: Request) -> dict[str, Any]:
    if request.verb != "post":
        return decode_form(request.query)
    return decode_json(request.body) if operation.is_v2 else decode_form(request.body.decode())


def _server_error() -> Answer:
    refusal = Refusal("An unknown error occurred", kind="api_error")
    return as_json(refusal.document(), 500, Stripe_Should_Retry="false")


def _finished(answer: Answer, broken: Break | None) -> Answer:
    """An answer with what befalls it on its way back."""
    match broken and broken.fault:
        case Fault.RESET_AFTER:
            return evolve(answer, ending=Ending.RESET)
        case Fault.TRUNCATED:
            return evolve(answer, ending=Ending.CUT)
        case Fault.SLOW if broken:
            return evolve(answer, seconds=broken.seconds)
        case _:
            return answer
