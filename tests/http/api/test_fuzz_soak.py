"""Further hostile requests, random or generated from the document: each response is documented and
the same on every store."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from random import Random

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from schemathesis import Case, GenerationMode

from tests.fuzz.hostile_inputs import ALWAYS_INVALID_VALUES, ODD_VALUES
from tests.fuzz.openapi_document import ApiOperation, json_paths, replace_at
from tests.fuzz.twin_deployments import TwinDeployments, open_twin_deployments
from tests.http.deployment import BASE_URL

pytestmark = [pytest.mark.anyio, pytest.mark.soak]

SEED = int(os.environ.get("FUZZ_SEED", "1"))
ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "10000"))
CASES = int(os.environ.get("FUZZ_CASES", "40"))
"""Generated valid cases per operation, and as many invalid ones."""
JSON = {"content-type": "application/json"}
EXCLUDED_PATH_PREFIXES = (
    "/auth/logout",
    "/auth/sessions",
    "/api/keys/{id}",
    "/sandbox/clock",
    "/metrics",
)
"""Prefixes of excluded paths: a valid request there ends the session, revokes the key or moves the
clock of later requests, or its responses always differ."""


@pytest.fixture(params=["sqlite", "postgresql"])
async def twins(request: pytest.FixtureRequest) -> AsyncIterator[TwinDeployments]:
    """A deployment in memory, and one on a database."""
    async with open_twin_deployments(request, "memory", request.param) as made:
        yield made


def repeatable_operations(twins: TwinDeployments) -> list[ApiOperation]:
    """The operations that can be called repeatedly without affecting later calls."""
    return [
        one for one in twins.document.operations if not one.path.startswith(EXCLUDED_PATH_PREFIXES)
    ]


async def test_random_odd_values_get_the_same_response(twins: TwinDeployments) -> None:
    """A body with up to three random odd values gets the same documented response on both
    stores."""
    random, takers = Random(SEED), [one for one in repeatable_operations(twins) if one.body]
    for _ in range(ROUNDS):
        operation = random.choice(takers)
        body, known = operation.body, list(json_paths(operation.body))
        # Deepest first: replacing an outer value may remove the inner places.
        for place in sorted(random.sample(known, min(3, len(known))), key=len, reverse=True):
            body = replace_at(body, place, random.choice((*ODD_VALUES, *ALWAYS_INVALID_VALUES)))
        await twins.request(operation, content=json.dumps(body), headers=JSON)


async def test_generated_requests_get_the_same_response(twins: TwinDeployments) -> None:
    """Requests generated from the document, valid and invalid, get the same documented response on
    both stores."""
    for operation in repeatable_operations(twins):
        for case in generate_cases(twins, operation):
            sent = requests.Request(**case.as_transport_kwargs(base_url=BASE_URL)).prepare()
            path, _, query = str(sent.path_url).partition("?")
            headers = {} if sent.body is None else {"content-type": case.media_type or ""}
            content = sent.body or b""
            await twins.request(operation, path, query, content=content, headers=headers)


def generate_cases(twins: TwinDeployments, operation: ApiOperation) -> Iterator[Case]:
    """Cases of an operation, the same ones in each run."""
    schema = schemathesis.openapi.from_dict(twins.document.content)
    described = schema[operation.path][operation.method]
    for mode in GenerationMode:
        yield from draw_cases(described.as_strategy(generation_mode=mode))


def draw_cases(strategy: SearchStrategy[Case]) -> list[Case]:
    """Cases of a strategy, without shrinking; none where the operation has no input to make
    invalid."""
    found: list[Case] = []

    @hypothesis.seed(SEED)
    @hypothesis.settings(
        max_examples=CASES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=strategy)
    def collect(case: Case) -> None:
        found.append(case)

    with suppress(Unsatisfiable):
        collect()
    return found
