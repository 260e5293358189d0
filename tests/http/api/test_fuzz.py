"""Hostile requests to every operation of the published document: each response is documented, the
same on every store, and names the invalid field. `test_fuzz_soak.py` has more."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from staffbooking_http.api.request_body import MAX_BODY_BYTES
from tests.contract.stores import STORES
from tests.fuzz.hostile_inputs import (
    ALWAYS_INVALID_VALUES,
    INVALID_JSON_BODIES,
    INVALID_PATH_SEGMENTS,
    INVALID_QUERY_VALUES,
    ODD_QUERY_VALUES,
    ODD_VALUES,
    sample_values,
)
from tests.fuzz.openapi_document import ApiOperation, json_paths, path_parameters, replace_at
from tests.fuzz.twin_deployments import TwinDeployments, open_twin_deployments
from tests.http.deployment import error_body, error_fields

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}
SAMPLE_SIZE = 3
"""Odd values to try per field, parameter and path segment."""


@pytest.fixture
async def twins(request: pytest.FixtureRequest) -> AsyncIterator[TwinDeployments]:
    """A deployment on each store."""
    async with open_twin_deployments(request, *STORES) as made:
        yield made


@pytest.fixture
async def single(request: pytest.FixtureRequest) -> AsyncIterator[TwinDeployments]:
    """A deployment in memory alone, for what has to be refused before any store sees it."""
    async with open_twin_deployments(request, "memory") as made:
        yield made


def operations_with_fields(twins: TwinDeployments) -> list[ApiOperation]:
    """The operations that take JSON with at least one field."""
    return [operation for operation in twins.document.operations if operation.body]


async def test_an_always_invalid_value_is_422_for_its_field(single: TwinDeployments) -> None:
    """A value that no field accepts is 422 and names only its field, at every place of a body."""
    for operation in operations_with_fields(single):
        for place in json_paths(operation.body):
            for wrong in ALWAYS_INVALID_VALUES:
                body = json.dumps(replace_at(operation.body, place, wrong))
                answer = await single.request(operation, content=body, headers=JSON)
                error_body(answer, 422, "invalid_field")
                assert error_fields(answer) == {".".join(map(str, place))}, operation
    assert single.request_count > 150


async def test_an_odd_value_gets_the_same_response(twins: TwinDeployments) -> None:
    """An odd value in any field gets the same documented response on every store."""
    for operation in operations_with_fields(twins):
        for place in json_paths(operation.body):
            for odd in sample_values(ODD_VALUES, SAMPLE_SIZE, operation.path, place):
                body = json.dumps(replace_at(operation.body, place, odd))
                await twins.request(operation, content=body, headers=JSON)
    assert twins.request_count > 300


async def test_invalid_json_is_refused(single: TwinDeployments) -> None:
    """Invalid JSON is 400, another media type 415 and an overlong body 413, for every operation
    that takes JSON."""
    for operation in operations_with_fields(single):
        for raw in sample_values(INVALID_JSON_BODIES, SAMPLE_SIZE, operation.path):
            answer = await single.request(operation, content=raw, headers=JSON)
            error_body(answer, 400, "malformed_json")
        answer = await single.request(
            operation, content=b"{}", headers={"content-type": "text/plain"}
        )
        error_body(answer, 415, "unsupported_media_type")
        answer = await single.request(operation, content=b" " * (MAX_BODY_BYTES + 1), headers=JSON)
        error_body(answer, 413, "body_too_large")


async def test_a_query_is_as_strict_as_a_body(single: TwinDeployments) -> None:
    """An invalid or repeated query parameter is 422 and is named."""
    for operation in single.document.operations:
        for name in (one["name"] for one in operation.queries):
            for wrong in (*INVALID_QUERY_VALUES, f"1&{name}=1"):
                needed = [one["name"] for one in operation.queries if one.get("required")]
                others = "".join(f"&{one}=2027-03-03" for one in needed if one != name)
                answer = await single.request(operation, query=f"{name}={wrong}{others}")
                error_body(answer, 422, "invalid_field")
                assert name in error_fields(answer), operation


async def test_an_odd_query_gets_the_same_response(twins: TwinDeployments) -> None:
    """An odd value in any query parameter gets the same documented response on every store."""
    for operation in twins.document.operations:
        for name in (one["name"] for one in operation.queries):
            for odd in sample_values(ODD_QUERY_VALUES, SAMPLE_SIZE, operation.path, name):
                await twins.request(operation, query=f"{name}={odd}")


async def test_an_invalid_path_segment_is_404(twins: TwinDeployments) -> None:
    """An invalid value of a path parameter is 404."""
    for operation in twins.document.operations:
        for name in path_parameters(operation.path):
            for odd in (
                "%00",
                *sample_values(INVALID_PATH_SEGMENTS, SAMPLE_SIZE, operation.path, name),
            ):
                answer = await twins.request(operation, twins.path(operation, **{name: odd}))
                error_body(answer, 404, "not_found")
