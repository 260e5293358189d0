"""The processing of a request: access, route, idempotency key, fault, execution, checks."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import unquote

from attrs import evolve, frozen

from tests.stripe_stub import response_check
from tests.stripe_stub.call import EndpointCall, expand
from tests.stripe_stub.contract import StripeOperation
from tests.stripe_stub.errors import StripeApiError
from tests.stripe_stub.faults import InjectedStubFault, StubFault, StubFaultInjector
from tests.stripe_stub.http_messages import (
    ConnectionEnding,
    StubRequest,
    StubResponse,
    json_response,
)
from tests.stripe_stub.idempotency import IdempotencyKeys, key_in_use_error
from tests.stripe_stub.openapi_limits import check_length_limits, schema_of
from tests.stripe_stub.request_parser import decode_form, decode_json, parse_params
from tests.stripe_stub.routes import StubRoute, find_route
from tests.stripe_stub.state import StripeState
from tests.stripe_stub.version import VERSION

API_KEY = "sk_test_of_the_platform"
RESTRICTED_KEY = "rk_test_without_permissions"

BAD_GATEWAY_RESPONSE = StubResponse(
    502, b"<html><body><h1>502 Bad Gateway</h1></body></html>", {"Content-Type": "text/html"}
)


@frozen
class ReceivedCall:
    """A request to a known endpoint; `operation` is the SDK's name of it."""

    operation: str
    idempotency_key: str
    params: dict[str, Any]


class RequestPipeline:
    def __init__(self, state: StripeState) -> None:
        self.state = state
        self.faults = StubFaultInjector()
        self.received_calls: list[ReceivedCall] = []
        self.bugs: list[Exception] = []
        """Errors of the stub itself; `open_stub` raises them at its end."""
        self._keys = IdempotencyKeys(state.now)

    def handle(self, request: StubRequest) -> StubResponse:
        """The response to a request; never raises."""
        self.state.run_due()
        try:
            answer = self._dispatch(request)
        except StripeApiError as refusal:
            answer = json_response(refusal.document(), refusal.status)
        except Exception as bug:
            self.bugs.append(bug)
            answer = json_response(StripeApiError(repr(bug), kind="api_error").document(), 500)
        request_id = self.state.new_id("req_", 14)
        return evolve(answer, headers={"Request-Id": request_id, **answer.headers})

    def _dispatch(self, request: StubRequest) -> StubResponse:
        _check_access(request)
        found = find_route(request.verb, request.path)
        if found is None:
            raise StripeApiError(
                f"Unrecognized request URL ({request.verb.upper()}: {request.path}).", status=404
            )
        route, ids = found
        params = _decode_params(route.operation, request)
        call = EndpointCall(request.path, [unquote(each) for each in ids], params)
        if request.verb == "post":
            return self._handle_post(route, call, request.headers.get("idempotency-key", ""))
        self.received_calls.append(ReceivedCall(route.operation.name, "", params))
        injected = self.faults.next_fault(route.operation.name, is_post=False, is_fresh=True)
        return self._faulty_response(injected, "") or _apply_response_fault(
            self._execute(route, call, injected), injected
        )

    def _handle_post(self, route: StubRoute, call: EndpointCall, key: str) -> StubResponse:
        operation = route.operation
        sent = (call.path, call.params)
        self.received_calls.append(ReceivedCall(operation.name, key, call.params))
        stored = self._keys.find(key, sent, operation.is_v2)
        injected = self.faults.next_fault(operation.name, is_post=True, is_fresh=stored is None)
        if before := self._faulty_response(injected, key):
            return before
        if stored is not None:
            return _apply_response_fault(stored, injected)
        answer = self._execute(route, call, injected)
        self._keys.reserve(key, sent, operation.is_v2)
        response = (
            _server_error() if injected and injected.fault is StubFault.ERROR_500_AFTER else answer
        )
        # v2 completes an interrupted call, so a repeat gets the true answer.
        end = partial(
            self._keys.store, key, operation.is_v2, answer if operation.is_v2 else response
        )
        if injected and injected.fault is StubFault.SLOW:
            return evolve(response, delay_seconds=injected.seconds, on_sent=end)
        end()
        return _apply_response_fault(response, injected)

    @staticmethod
    def _faulty_response(injected: InjectedStubFault | None, key: str) -> StubResponse | None:
        """The response of a call that a fault prevents. Raises StripeApiError for a conflict."""
        match injected and injected.fault:
            case StubFault.RESET_BEFORE:
                return StubResponse(0, b"", ending=ConnectionEnding.RESET_BEFORE_RESPONSE)
            case StubFault.HTML:
                return BAD_GATEWAY_RESPONSE
            case StubFault.RATE_LIMIT:
                refusal = StripeApiError("Request rate limit exceeded.", code="rate_limit")
                return json_response(refusal.document(), 429, Retry_After="1")
            case StubFault.CONFLICT:
                raise key_in_use_error(key)
            case _:
                return None

    def _execute(
        self, route: StubRoute, call: EndpointCall, injected: InjectedStubFault | None
    ) -> StubResponse:
        """The endpoint's response. Raises InvalidRequestError if the parameters are invalid."""
        operation = route.operation
        params = parse_params(operation.params.load(), call.params, "", _is_form_encoded(operation))
        check_length_limits(schema_of(operation), params)
        match injected and injected.fault:
            case StubFault.ERROR_500:
                return _server_error()
            case StubFault.REFUSE if injected:
                refusal = StripeApiError(f"Refused by a test: {injected.code}", code=injected.code)
                return json_response(refusal.document(), refusal.status)
        try:
            document = route.handler(self.state, EndpointCall(call.path, call.ids, params))
            document = expand(self.state, document, params.get("expand", ()))
        except StripeApiError as refusal:
            return json_response(refusal.document(), refusal.status)
        response_check.check_response(operation, document)
        return json_response(document)


def _check_access(request: StubRequest) -> None:
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if given == RESTRICTED_KEY:
        raise StripeApiError("The provided key does not have the required permissions.", status=403)
    if given != API_KEY:
        raise StripeApiError(f"Invalid API Key provided: {given[:7]}****", status=401)
    if account := request.headers.get("stripe-account"):
        raise StripeApiError(
            f"The provided key does not have access to account '{account}'.",
            code="account_invalid",
            status=403,
        )
    version = request.headers.get("stripe-version")
    if version != VERSION:
        raise StripeApiError(f"Invalid Stripe API version: {version}. This stub speaks {VERSION}.")


def _is_form_encoded(operation: StripeOperation) -> bool:
    return operation.verb != "post" or not operation.is_v2


def _decode_params(operation: StripeOperation, request: StubRequest) -> dict[str, Any]:
    if request.verb != "post":
        return decode_form(request.query)
    return decode_json(request.body) if operation.is_v2 else decode_form(request.body.decode())


def _server_error() -> StubResponse:
    refusal = StripeApiError("An unknown error occurred", kind="api_error")
    return json_response(refusal.document(), 500, Stripe_Should_Retry="false")


def _apply_response_fault(answer: StubResponse, injected: InjectedStubFault | None) -> StubResponse:
    """A response with the connection ending or the delay of a fault."""
    match injected and injected.fault:
        case StubFault.RESET_AFTER:
            return evolve(answer, ending=ConnectionEnding.RESET_BEFORE_RESPONSE)
        case StubFault.TRUNCATED:
            return evolve(answer, ending=ConnectionEnding.CUT_WITHIN_RESPONSE)
        case StubFault.SLOW if injected:
            return evolve(answer, delay_seconds=injected.seconds)
        case _:
            return answer
