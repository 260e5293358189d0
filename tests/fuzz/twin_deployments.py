"""Deployments that differ only in their store and get the same requests: their responses must be
equal, and valid by the OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from typing import Any, TypeAlias

import httpx
import pytest

from staffbooking_adapters.testing.builders import add_booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from tests.contract.stores import STORES
from tests.fuzz.openapi_document import ApiDocument, ApiOperation, path_parameters
from tests.http.deployment import HttpDeployment, json_body

_RANDOM_CONTENT = re.compile(rb'"masked_key":"[^"]*"|/sandbox/\w+/[\w-]+|user[0-9]+@example\.com')
"""Content that differs each time: keys, pages of the fake processor, and addresses of users."""
_STAFF_PATH_SUFFIXES = ("/respond", "/accept", "/decline", "/check-in")

HttpClient: TypeAlias = httpx.AsyncClient


class TwinDeployments:
    """One deployment or several, and requests of all."""

    def __init__(
        self,
        document: ApiDocument,
        sides: Sequence[Mapping[str, HttpClient]],
        numbers: Mapping[str, str],
    ) -> None:
        """`sides` has the clients of each deployment by role. `numbers` has the ids of existing
        objects by the prefix of their paths; the first matching prefix counts."""
        self.document, self._clients_by_role, self._path_values = document, sides, numbers
        self.request_count = 0

    async def request(
        self, operation: ApiOperation, path: str = "", query: str = "", **given: Any
    ) -> httpx.Response:
        """Request all and return the response, which must be equal and allowed by the document.
        Without a path, its parameters name existing objects."""
        path, self.request_count = path or self.path(operation), self.request_count + 1
        url = f"{path}?{query}" if query else path
        role = _role_for(operation)
        answers = [
            await side[role].request(operation.method, url, **given)
            for side in self._clients_by_role
        ]
        contents = [(one.status_code, _RANDOM_CONTENT.sub(b"", one.content)) for one in answers]
        assert all(content == contents[0] for content in contents), (operation, url, contents)
        self.document.check_response(operation, answers[0])
        return answers[0]

    def path(self, operation: ApiOperation, **odd: str) -> str:
        """The path of an operation; parameters can be replaced by texts."""
        path = operation.path
        for name in path_parameters(path):
            path = path.replace(f"{{{name}}}", odd.get(name) or self._path_value(operation, name))
        return path

    def _path_value(self, operation: ApiOperation, name: str) -> str:
        if name == "delivery_id":
            return self._path_values[name]
        found = (
            known for start, known in self._path_values.items() if operation.path.startswith(start)
        )
        return next(found, "1")


@asynccontextmanager
async def open_twin_deployments(
    request: pytest.FixtureRequest, *names: str
) -> AsyncIterator[TwinDeployments]:
    """A deployment on each named store, with users and one object of each kind that paths name."""
    async with AsyncExitStack() as stack:
        sides, numbers = [], {}
        for name in names:
            world = HttpDeployment(await stack.enter_async_context(STORES[name](request)))
            await world.add_people()
            world.raise_limits()
            numbers = await _add_resources(world)
            sides.append(await _make_clients(world))
        answer = await sides[0]["nobody"].get("/openapi.json")
        json_body(answer)
        yield TwinDeployments(_read_document(answer.text), sides, numbers)


@cache
def _read_document(text: str) -> ApiDocument:
    """Read once: it keeps the validators of responses, which take most of a test's time to make."""
    return ApiDocument(json.loads(text))


async def _make_clients(world: HttpDeployment) -> dict[str, HttpClient]:
    return {
        "nobody": world.client(),
        "program": world.client_with_key(),
        "customer": await world.signed_in_client(world.customer.id),
        "staff": await world.signed_in_client(world.companion.id),
        "subscriber": await world.signed_in_client(world.subscriber.id),
        "admin": await world.signed_in_client(world.admin.id),
    }


def _role_for(operation: ApiOperation) -> str:
    """The role of a client that may request an operation."""
    if operation.takes_key:
        return "program"
    if not operation.takes_session:
        return "nobody"
    if operation.path.startswith("/api/admin/"):
        return "admin"
    if operation.path.startswith("/staff/") or operation.path.endswith(_STAFF_PATH_SUFFIXES):
        return "staff"
    return "subscriber" if operation.path.startswith("/api/keys") else "customer"


_LISTS_BY_CODE = ("disputes", "payouts", "refunds", "ledger")
"""Lists of operators whose entries are addressed by booking code."""


async def _add_resources(world: HttpDeployment) -> dict[str, str]:
    """Add the objects that paths name; returns their ids by path prefix."""
    people = world.companion, world.customer
    pending, completed, reviewed = [
        await add_booking(world.store, *people, code=f"BK{number:012}", status=status)
        for number, status in enumerate(
            (BookingStatus.PENDING, BookingStatus.COMPLETED, BookingStatus.COMPLETED)
        )
    ]
    customer, staff = [await world.signed_in_client(one.id) for one in reversed(people)]
    companion = str(world.companion.id)

    async def made(client: HttpClient, path: str, what: str, **body: Any) -> Any:
        answer = await client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()[what]

    sent_message = await made(customer, f"/messages/send/{companion}", "message", content="Hello")
    review = await made(customer, f"/reviews/booking/{reviewed.id}", "review", rating=5)
    item = await made(staff, "/staff/portfolio", "item", title="A ball", image="photos/1.jpg")
    program, hooks = world.client_with_key(), "/api/webhooks"
    hook = await made(program, hooks, "webhook", url="https://hooks.example.com/in")
    sent = await made(program, f"{hooks}/{hook['id']}/test", "delivery")
    return {
        "delivery_id": str(sent["id"]),
        "/api/v1/bookings/": pending.code,
        **dict.fromkeys((f"/api/admin/{name}/" for name in _LISTS_BY_CODE), pending.code),
        "/api/v1/companions/": companion,
        "/api/webhooks/": str(hook["id"]),
        "/bookings/": str(pending.id),
        "/messages/conversation/": str(sent_message["conversation_id"]),
        "/messages/send/": companion,
        "/reviews/booking/": str(completed.id),
        "/reviews/user/": companion,
        "/reviews/": str(review["id"]),
        "/staff/portfolio/": str(item["id"]),
    }
