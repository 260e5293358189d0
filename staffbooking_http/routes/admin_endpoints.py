"""Declarations of operators' lists and changes, for admins with a session (CONTRACT 10).

Every change is in the audit with its reason, in the transaction of the change.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from attrs import frozen

from staffbooking_adapters import codec
from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.operator_inputs import (
    OperatorDecision,
)
from staffbooking_core.ports import Ports
from staffbooking_core.representations.json_types import Success
from staffbooking_http.api.access import SessionAccess, require_admin
from staffbooking_http.api.endpoint import Call, Endpoint, Reply, endpoint
from staffbooking_http.api.operator_acts import run_operator_act
from staffbooking_http.api.query_string import (
    ListForOperators,
)
from staffbooking_http.api.response_schemas import component_name, reply_schema

ADMIN_ACCESS = SessionAccess(check_user=require_admin)

ListReader: TypeAlias = Callable[[Call, int, int], Awaitable[Sequence[object]]]
"""Reads a page of records, up to `limit + 1`; its arguments are the call, `page` and `limit`."""
Change: TypeAlias = Callable[[Call, Ports], Awaitable[object]]
"""Makes a change on audited ports; returns the changed record."""


def list_endpoint(
    name: str, record: Any, description: str, query: type = ListForOperators
) -> Callable[[ListReader], Endpoint]:
    """Declare the reader of a list as an endpoint."""

    def declare(read: ListReader) -> Endpoint:
        async def handle(call: Call) -> Reply:
            page, limit = call.parsed_input.page, call.parsed_input.limit
            records = await read(call, page, limit)
            answer = {
                name: records[:limit],
                "page": page,
                "limit": limit,
                "has_more": len(records) > limit,
            }
            return Reply(200, codec.encode(answer))

        fields = {name: list[record], "page": int, "limit": int, "has_more": bool}
        return endpoint(
            "GET",
            f"/api/admin/{name}",
            ADMIN_ACCESS,
            operation_id=f"{_camel_case(read)}ForOperators",
            summary=f"List {name} for operators",
            description=description,
            query=query,
            response_schema=reply_schema(f"{component_name(record)}Page", **fields),
        )(handle)

    return declare


def _camel_case(function: Callable[..., object]) -> str:
    first, *more = function.__name__.split("_")
    return "".join((first, *(word.capitalize() for word in more)))


@frozen
class AuditedResource:
    """What a change is made to: its list, its name in replies, and its place in the audit."""

    list_name: str
    reply_name: str
    record: Any
    kind: AuditSubject
    resource_name: str
    check: Callable[[Call], Awaitable[object]]
    """Raises NotFound where the path names nothing."""
    is_named_by_code: bool = False
    """Whether it belongs to a booking, which has a code and a version."""

    def id_of(self, call: Call) -> int | str:
        return call.path_code() if self.is_named_by_code else call.path_id(self.resource_name)


def change_endpoint(
    subject: AuditedResource,
    act: str,
    description: str,
    body: type = OperatorDecision,
    rule_codes: tuple[str, ...] = (),
    *,
    calls_services: bool = False,
) -> Callable[[Change], Endpoint]:
    """Declare an operator's change as an endpoint."""

    async def check_target(call: Call) -> Reply:
        await subject.check(call)
        return Reply(200)

    def declare(change: Change) -> Endpoint:
        async def handle(call: Call) -> Reply:
            record = await run_operator_act(
                *(call, call.user.id, act, subject.kind, subject.id_of(call)),
                call.parsed_input.reason,
                partial(change, call),
            )
            return Reply(200, codec.encode({"success": True, subject.reply_name: record}))

        parameter = "{code}" if subject.is_named_by_code else "{id}"
        fields = {"success": Success, subject.reply_name: subject.record}
        return endpoint(
            "POST",
            f"/api/admin/{subject.list_name}/{parameter}/{act}",
            ADMIN_ACCESS,
            operation_id=_camel_case(change),
            summary=change.__name__.replace("_", " ").capitalize(),
            description=description,
            body=body,
            check_target=check_target,
            response_schema=reply_schema(f"{component_name(subject.record)}Reply", **fields),
            rule_codes=rule_codes,
            calls_services=calls_services,
            is_versioned=subject.is_named_by_code,
            not_found_name=subject.resource_name,
        )(handle)

    return declare
