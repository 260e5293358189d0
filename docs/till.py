"""Till, the payment processor of docs/adapters.md: its REST API in this process, over the fake
processor's books. `TillServer` is a worked `ProcessorWorld`, too."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import httpx
from attrs import asdict, define, field, fields

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.testing.builders import NOW
from staffbooking_core.domain.payments.payees import OpenPayee
from staffbooking_core.domain.payments.processor import (
    Checkout,
    IntentRefs,
    OpenCheckout,
    OperationKey,
    OperationKeyReused,
    OperationKind,
    OutcomeUnknown,
    Payment,
    PayOut,
    PayoutState,
    ProcessorBusy,
    ProcessorRefused,
    RefundPayment,
    ReversePayout,
)

LONG = 60.0

_NAMES = {
    "ref": "id",
    "event_id": "id",
    "op_id": "operation",
    "intent_id": "intent",
    "payment_ref": "payment",
    "payout_ref": "payout",
    "payee_ref": "payee",
}
Body = dict[str, Any]


def _show(value: Any) -> Body:
    """An object as Till shows it."""
    return {_NAMES.get(name, name): each for name, each in asdict(value).items()}


@define
class TillServer:
    """Till as its clients see it, and, as `ProcessorWorld`, what people do there."""

    clock: VirtualClock = field(factory=lambda: VirtualClock(NOW))
    people: dict[str, int] = field(factory=dict)
    """The person of each payee."""
    breaks_connections: bool = False
    """Whether a call with an unknown outcome gets no answer, or a server error."""
    secret: bytes = b"what Till and the service know"
    fake: FakeProcessor = field(init=False)

    def __attrs_post_init__(self) -> None:
        url, book = "https://pay.till.example", MemoryFakeDocumentStore()
        self.fake = FakeProcessor(
            book, self.clock, base_url=url, secret=b"inside", fee_ppm=29_000, manual_payees=True
        )

    def connect(self) -> httpx.AsyncClient:
        """A client with a key."""
        return httpx.AsyncClient(
            base_url="https://api.till.example/v1/",
            headers={"Authorization": "Bearer till-key"},
            transport=httpx.MockTransport(self.answer),
        )

    # The interface ------------------------------------------------------------------------------

    async def answer(self, request: httpx.Request) -> httpx.Response:
        """The answer to a request."""
        await asyncio.sleep(0)  # Any network lets other tasks run.
        if request.headers.get("authorization") != "Bearer till-key":
            return httpx.Response(401, json={"error": "unauthorized"})
        body = json.loads(request.content or b"{}")
        try:
            found = await self._route(request, body)
        except OutcomeUnknown:
            if self.breaks_connections:
                raise httpx.ReadTimeout("no answer", request=request) from None
            return httpx.Response(500, text="<html>")
        except ProcessorBusy:
            return httpx.Response(429, json={"error": "busy"})
        except OperationKeyReused:
            return httpx.Response(422, json={"error": "key_reused"})
        except ProcessorRefused as refused:
            return httpx.Response(422, json={"error": refused.reason})
        return httpx.Response(200, text=json.dumps(found, default=_encode))

    async def _route(self, request: httpx.Request, body: Body) -> Any:
        path = request.url.path.removeprefix("/v1/")
        for pattern, handler in ROUTES.items():
            method, _, route = pattern.partition(" ")
            if request.method == method and (match := re.fullmatch(route, path)):
                return await handler(self, request, body, *match.groups())
        raise LookupError(path)

    async def _open_checkout(self, request: httpx.Request, body: Body) -> Body:
        given = {each.name: body[each.name] for each in fields(OpenCheckout)}
        expires_at = datetime.fromisoformat(given["expires_at"])
        command = OpenCheckout(**{**given, "expires_at": expires_at})
        return _show(await self.fake.open_checkout(command, _key(request, body), LONG))

    async def _close_checkout(self, request: httpx.Request, body: Body, ref: str) -> Body:
        return _show(await self.fake.close_checkout(ref, _key(request, body), LONG))

    async def _refund(self, request: httpx.Request, body: Body) -> Body:
        command = RefundPayment(body["payment"], body["amount"], "usd")
        return _show(await self.fake.refund(command, _key(request, body), LONG))

    async def _pay_out(self, request: httpx.Request, body: Body) -> Body:
        person = self.people.get(body["payee"], 0)
        command = PayOut(body["payment"], person, body["amount"], "usd", body["payee"])
        return _show(await self.fake.pay_out(command, _key(request, body), LONG))

    async def _reverse(self, request: httpx.Request, body: Body, ref: str) -> Body:
        command = ReversePayout(0, body["amount"], "usd")
        return _show(await self.fake.reverse_payout(command, ref, _key(request, body), LONG))

    async def _open_payee(self, request: httpx.Request, body: Body) -> Body:
        command = OpenPayee(**{each.name: body[each.name] for each in fields(OpenPayee)})
        opened = await self.fake.open_payee(command, _key(request, body), LONG)
        self.people[opened.ref] = command.companion_id
        return _show(opened)

    async def _payee(self, _: httpx.Request, __: Body, ref: str) -> Body:
        return _show(await self.fake.payee(ref, LONG))

    async def _link(self, _: httpx.Request, body: Body, ref: str) -> Body:
        urls = body["return_url"], body["refresh_url"]
        return _show(await self.fake.onboarding_link(ref, *urls, LONG))

    async def _intent(self, _: httpx.Request, __: Body, intent_id: str) -> Body:
        found = await self.fake.snapshot(IntentRefs(int(intent_id)), LONG)
        parts = ("checkouts", "payments", "refunds", "payouts", "reversals", "chargebacks", "fees")
        return {name: [_show(each) for each in getattr(found, name)] for name in parts}

    async def _payment(self, _: httpx.Request, __: Body, ref: str) -> Body:
        return {"intent": await self.fake.find_intent(ref, LONG)}

    async def _events(self, request: httpx.Request, _: Body) -> Body:
        events, cursor = await self.fake.list_events(request.url.params["after"] or None, LONG)
        return {"events": [_show(each) for each in events], "cursor": cursor}

    async def _statement(self, request: httpx.Request, _: Body) -> list[Body]:
        lines = [_show(line) async for line in self.fake.statement()]
        start = int(request.url.params["after"] or 0)
        numbered = [line | {"cursor": str(number)} for number, line in enumerate(lines, 1)]
        return numbered[start : start + 2]

    async def _settings(self, _: httpx.Request, __: Body) -> Body:
        return {"payout_schedule": "manual", "webhook_url": "https://book.example/processor"}

    # The world ----------------------------------------------------------------------------------

    async def pay(self, checkout: Checkout) -> None:
        await self.pay_page(checkout.ref)

    async def pay_page(self, ref: str) -> None:
        """The client pays on the page with this reference."""
        await self.fake.sandbox.simulate_checkout(ref, "succeed")

    async def decline(self, checkout: Checkout) -> None:
        await self.fake.sandbox.simulate_checkout(checkout.ref, "decline")

    async def charge_back(self, intent_id: int, outcome: str) -> None:
        await self.fake.sandbox.chargeback(intent_id, outcome)

    async def refund_by_hand(self, payment: Payment, amount: int) -> None:
        intent_id = await self.fake.find_intent(payment.ref, LONG)
        assert intent_id is not None
        await self.fake.dashboard.refund(intent_id, amount)

    async def reverse_by_hand(self, payout: PayoutState, amount: int) -> None:
        await self.fake.dashboard.reverse_payout(12, amount)

    async def break_next(self, op: OperationKind, kind: str) -> None:
        self.breaks_connections = kind.startswith("timeout")
        await self.fake.sandbox.add_fault(op, kind, 1)

    async def set_ready(self, payee_ref: str, ready: bool) -> None:
        await self.fake.dashboard.set_payee_ready(self.people[payee_ref], ready)

    async def events(self) -> Sequence[tuple[Mapping[str, str], bytes]]:
        now = self.clock.wall()
        sent = await self.fake.sandbox.take_due_events(100)
        return [
            self._signed(json.dumps(_show(event)).encode())
            for headers, body in sent
            for event in self.fake.parse_webhook(headers, body, now)
        ]

    async def balance(self) -> int:
        return await self.fake.sandbox.balance()

    def _signed(self, body: bytes) -> tuple[Mapping[str, str], bytes]:
        moment = int(self.clock.wall().timestamp())
        signature = hmac.new(self.secret, f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
        return {"Till-Signature": f"{moment}.{signature}"}, body


ROUTES: dict[str, Callable[..., Awaitable[Any]]] = {
    "POST checkouts": TillServer._open_checkout,
    r"POST checkouts/([^/]+)/close": TillServer._close_checkout,
    "POST refunds": TillServer._refund,
    "POST payouts": TillServer._pay_out,
    r"POST payouts/([^/]+)/reversals": TillServer._reverse,
    "POST payees": TillServer._open_payee,
    r"GET payees/([^/]+)": TillServer._payee,
    r"POST payees/([^/]+)/links": TillServer._link,
    r"GET intents/(\d+)": TillServer._intent,
    r"GET payments/([^/]+)": TillServer._payment,
    "GET events": TillServer._events,
    "GET statement": TillServer._statement,
    "GET settings": TillServer._settings,
}


def _key(request: httpx.Request, body: Body) -> OperationKey:
    deployment, _, text = request.headers["idempotency-key"].partition("/")
    assert deployment == "tests"
    match = re.fullmatch(r"(\w+)_(\d+)_g(\d+)", text)
    assert match is not None
    kind, number, generation = match.groups()
    assert int(number) == body["operation"]
    return OperationKey(body["intent"], int(number), OperationKind(kind), int(generation))


def _encode(value: Any) -> str:
    assert isinstance(value, datetime)
    return value.isoformat()


@asynccontextmanager
async def open_till() -> AsyncIterator[tuple[TillServer, httpx.AsyncClient]]:
    """Till with empty books, and a client with a key."""
    server = TillServer()
    async with server.connect() as http:
        yield server, http
