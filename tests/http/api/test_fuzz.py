"""Hostile requests to every operation of the published document: each answer is a 4xx that names
what is wrong, the same on every store, and as the document says. `test_fuzz_soak.py` has more."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from staffbooking_http.api.request_body import MOST_BYTES
from tests.fuzz.hostile_inputs import (
    NOT_JSON,
    ODD,
    ODD_QUERY,
    WRONG,
    WRONG_QUERY,
    WRONG_SEGMENT,
    some,
)
from tests.fuzz.openapi_document import Operation, parameters, places, put
from tests.fuzz.twin_deployments import Twins, open_twins
from tests.http.deployment import fields, refused

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}
OF_EACH = 3
"""Odd values that each field, parameter and segment is tried with here."""


@pytest.fixture(params=["sqlite", "postgresql"])
async def twins(request: pytest.FixtureRequest) -> AsyncIterator[Twins]:
    """A deployment in memory, and one on a database."""
    async with open_twins(request, "memory", request.param) as made:
        yield made


def takers(twins: Twins) -> list[Operation]:
    """The operations that take JSON, with at least one field."""
    return [operation for operation in twins.document.operations if operation.body]


async def test_what_no_field_takes_is_told_of_that_field(twins: Twins) -> None:
    """Wherever in a body it stands, and nothing else is told."""
    for operation in takers(twins):
        for place in places(operation.body):
            for wrong in WRONG:
                body = json.dumps(put(operation.body, place, wrong))
                answer = await twins.ask(operation, content=body, headers=JSON)
                refused(answer, 422, "invalid_field")
                assert fields(answer) == {".".join(map(str, place))}, operation
    assert twins.asked > 150


async def test_an_odd_value_has_one_answer(twins: Twins) -> None:
    """Whether it is taken or not, by every field alike."""
    for operation in takers(twins):
        for place in places(operation.body):
            for odd in some(ODD, OF_EACH, operation.path, place):
                body = json.dumps(put(operation.body, place, odd))
                await twins.ask(operation, content=body, headers=JSON)
    assert twins.asked > 300


async def test_what_is_no_json_is_refused(twins: Twins) -> None:
    """By every operation that takes JSON; so is what is too long, and what is something else."""
    for operation in takers(twins):
        for raw in some(NOT_JSON, OF_EACH, operation.path):
            answer = await twins.ask(operation, content=raw, headers=JSON)
            refused(answer, 400, "malformed_json")
        answer = await twins.ask(operation, content=b"{}", headers={"content-type": "text/plain"})
        refused(answer, 415, "unsupported_media_type")
        answer = await twins.ask(operation, content=b" " * (MOST_BYTES + 1), headers=JSON)
        refused(answer, 413, "body_too_large")


async def test_a_query_is_as_strict_as_a_body(twins: Twins) -> None:
    """What no parameter takes, and one that is given twice, are told of it."""
    for operation in twins.document.operations:
        for name in (one["name"] for one in operation.queries):
            for wrong in (*WRONG_QUERY, f"1&{name}=1"):
                needed = [one["name"] for one in operation.queries if one["required"]]
                others = "".join(f"&{one}=2027-03-03" for one in needed if one != name)
                answer = await twins.ask(operation, query=f"{name}={wrong}{others}")
                refused(answer, 422, "invalid_field")
                assert name in fields(answer), operation
            for odd in some(ODD_QUERY, OF_EACH, operation.path, name):
                await twins.ask(operation, query=f"{name}={odd}")


async def test_nothing_is_at_an_odd_path(twins: Twins) -> None:
    """Whatever stands for a number, a code or a name that none has is 404."""
    for operation in twins.document.operations:
        for name in parameters(operation.path):
            for odd in ("%00", *some(WRONG_SEGMENT, OF_EACH, operation.path, name)):
                answer = await twins.ask(operation, twins.path(operation, **{name: odd}))
                refused(answer, 404, "not_found")
