"""More hostile requests, by chance and by the document's own generator: the same on every store,
and as the document says."""

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
"""Of each operation, and as many again that its schemas refuse."""
JSON = {"content-type": "application/json"}
LEFT_OUT = ("/auth/logout", "/auth/sessions", "/api/keys/{id}", "/sandbox/clock", "/metrics")
"""Where a request that is fine would take its sender's place away, or everybody's days; and
where two answers are never the same."""


@pytest.fixture(params=["sqlite", "postgresql"])
async def twins(request: pytest.FixtureRequest) -> AsyncIterator[TwinDeployments]:
    """A deployment in memory, and one on a database."""
    async with open_twin_deployments(request, "memory", request.param) as made:
        yield made


def safe(twins: TwinDeployments) -> list[ApiOperation]:
    """The operations that may be called again and again."""
    return [one for one in twins.document.operations if not one.path.startswith(LEFT_OUT)]


async def test_any_odd_values_have_one_answer(twins: TwinDeployments) -> None:
    """Up to three in a body, wherever they stand."""
    random, takers = Random(SEED), [one for one in safe(twins) if one.body]
    for _ in range(ROUNDS):
        operation = random.choice(takers)
        body, known = operation.body, list(json_paths(operation.body))
        # The deepest first: what stands above it may then be something else altogether.
        for place in sorted(random.sample(known, min(3, len(known))), key=len, reverse=True):
            body = replace_at(body, place, random.choice((*ODD_VALUES, *ALWAYS_INVALID_VALUES)))
        await twins.request(operation, content=json.dumps(body), headers=JSON)


async def test_whatever_the_document_generates_has_one_answer(twins: TwinDeployments) -> None:
    """What its schemas take, and what they refuse."""
    for operation in safe(twins):
        for case in generated(twins, operation):
            sent = requests.Request(**case.as_transport_kwargs(base_url=BASE_URL)).prepare()
            path, _, query = str(sent.path_url).partition("?")
            headers = {} if sent.body is None else {"content-type": case.media_type or ""}
            content = sent.body or b""
            await twins.request(operation, path, query, content=content, headers=headers)


def generated(twins: TwinDeployments, operation: ApiOperation) -> Iterator[Case]:
    """Cases of an operation, the same ones each time."""
    schema = schemathesis.openapi.from_dict(twins.document.content)
    described = schema[operation.path][operation.method]
    for mode in GenerationMode:
        yield from drawn(described.as_strategy(generation_mode=mode))


def drawn(strategy: SearchStrategy[Case]) -> list[Case]:
    """Cases of a strategy, without a search for the least one that fails; none where nothing is
    given that could be wrong."""
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
