"""The AsyncAPI document: valid, complete, and agreeing with the frames that are sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import MINUTE, POLICY
from staffbooking_core.domain.messaging.conversations import MAX_MESSAGE_LENGTH
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.representations.channel import ClientEvent, CloseCode, ServerEvent
from staffbooking_http.docs import asyncapi, openapi
from staffbooking_http.routes import ENDPOINTS_BY_TAG
from tests.channel.all_scenarios import SCENARIOS
from tests.channel.asyncapi_validation import JSON_SCHEMA_DIALECT, FrameValidator, payload_validator
from tests.channel.scenario_drivers import connect_directly
from tests.channel.scenarios import make_scenario_ports, run_scenario
from tests.channel.test_socketio_node import node_folder
from tests.http.deployment import HttpDeployment
from tests.support.virtual_loop import VirtualTimeLoop

__all__ = ["node_folder"]

pytestmark = pytest.mark.anyio

DOCUMENT = asyncapi.build_document(POLICY)
CHANNEL = DOCUMENT["channels"]["channel"]
OPERATIONS: dict[str, dict[str, Any]] = DOCUMENT["operations"]
MESSAGES: dict[str, dict[str, Any]] = DOCUMENT["components"]["messages"]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def follow(pointer: str) -> Any:
    """The part of the document to which a reference points."""
    found: Any = DOCUMENT
    for step in pointer.removeprefix("#/").split("/"):
        found = found[step]
    return found


# The document -----------------------------------------------------------------------------


def test_the_document_is_asyncapi_3_0(node_folder: Path) -> None:
    """The document is valid by the published schema of AsyncAPI 3.0.0."""
    schemas = node_folder / "node_modules/@asyncapi/specs/schemas"
    schema = json.loads((schemas / "3.0.0-without-$id.json").read_text(encoding="utf-8"))
    jsonschema_rs.validator_for(schema, validate_formats=True).validate(DOCUMENT)
    assert DOCUMENT["asyncapi"] == "3.0.0"


def test_every_reference_leads_somewhere() -> None:
    """Each reference points to an existing part of the document."""
    for pointer in references(DOCUMENT):
        assert pointer.startswith("#/")
        assert follow(pointer)


def test_operations_use_messages_of_their_channel() -> None:
    """Operations and replies use only messages of the channel."""
    own = {f"#/channels/channel/messages/{name}" for name in CHANNEL["messages"]}
    for name, operation in OPERATIONS.items():
        assert operation["action"] == name.partition("_")[0]
        for each in (operation, operation.get("reply", operation)):
            assert each["channel"] == {"$ref": "#/channels/channel"}
            assert {message["$ref"] for message in each["messages"]} <= own


@pytest.mark.parametrize("name", MESSAGES)
def test_each_payload_is_a_schema(name: str) -> None:
    """Each payload is a valid JSON Schema of draft 7."""
    jsonschema_rs.meta.validate({"$schema": JSON_SCHEMA_DIALECT, **MESSAGES[name]["payload"]})


def test_the_messages_are_the_events() -> None:
    """The messages are exactly the client and server events."""
    assert MESSAGES.keys() == {*(f"client_{event}" for event in ClientEvent), *ServerEvent}
    assert {each["title"] for each in MESSAGES.values()} == {*ClientEvent, *ServerEvent}
    assert CHANNEL["messages"].keys() == MESSAGES.keys()


def test_each_message_belongs_to_an_operation() -> None:
    """Each message belongs to an operation or a reply."""
    used = {
        message["$ref"].rpartition("/")[2]
        for operation in OPERATIONS.values()
        for each in (operation, operation.get("reply", operation))
        for message in each["messages"]
    }
    assert used == MESSAGES.keys()


def test_messages_with_a_ref() -> None:
    """Exactly the client events, `ack` and `error` have a correlation id and a `ref`."""
    with_ref = {name for name, each in MESSAGES.items() if "correlationId" in each}
    assert with_ref == {*(f"client_{event}" for event in ClientEvent), "ack", "error"}
    for name in with_ref:
        assert "ref" in MESSAGES[name]["payload"]["properties"]


def test_closing_codes_are_described() -> None:
    """The description names all closing codes, with the limits of the policy."""
    limits = evolve(POLICY.limits, channel=RateLimit("channel", 7, 2 * MINUTE))
    policy = evolve(POLICY, limits=limits, channel_overrun=5, max_connections=3)
    about = asyncapi.build_document(policy)["info"]["description"]
    assert [int(code) for code in re.findall(r"\b(1\d{3}): ", about)] == [*CloseCode]
    for text in ("7 frames in 120 seconds", "after the 35th", "most 3 connections", "65536 bytes"):
        assert text in " ".join(about.split())


@pytest.mark.parametrize(
    "base_url, protocol, host",
    [
        ("https://booking.example", "wss", "booking.example"),
        ("http://127.0.0.1:8000", "ws", "127.0.0.1:8000"),
    ],
)
def test_the_server_is_the_deployments(base_url: str, protocol: str, host: str) -> None:
    """Protocol and host of the server are those of the base URL."""
    [server] = asyncapi.build_document(evolve(POLICY, base_url=base_url))["servers"].values()
    assert (server["protocol"], server["host"]) == (protocol, host)


def test_the_message_schema_is_that_of_openapi() -> None:
    """The schema of a message equals that of the OpenAPI document."""
    other = openapi.build_document(ENDPOINTS_BY_TAG, POLICY)["components"]["schemas"]["Message"]
    assert DOCUMENT["components"]["schemas"]["Message"] == other


async def test_the_document_is_served(world: HttpDeployment) -> None:
    """/asyncapi.json returns the document without authentication."""
    answer = await world.client().get("/asyncapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == json.loads(json.dumps(DOCUMENT))


# Frames -----------------------------------------------------------------------------------


def frame_of(event: ClientEvent, **data: Any) -> dict[str, Any]:
    return {"event": str(event), "data": data, "ref": 1}


@pytest.mark.parametrize(
    "frame",
    [
        frame_of(
            ClientEvent.SEND_MESSAGE, conversation_id=1, content="x" * (MAX_MESSAGE_LENGTH + 1)
        ),
        frame_of(ClientEvent.SEND_MESSAGE, conversation_id=1),
        frame_of(ClientEvent.TYPING, conversation_id=1, is_typing="yes"),
        frame_of(ClientEvent.READ, conversation_id=0, message_id=1),
        frame_of(ClientEvent.PRESENCE, user_ids=[1] * 51),
        frame_of(ClientEvent.RESUME, after=-1),
        {"event": "resume"},
    ],
    ids=lambda frame: frame["event"],
)
def test_frames_out_of_bounds_are_invalid(frame: dict[str, Any]) -> None:
    """Frames beyond the bounds of inputs are invalid by the document."""
    assert not payload_validator(f"client_{frame['event']}").is_valid(frame)


async def test_every_frame_is_as_the_document_says() -> None:
    """All frames of the scenarios are valid, and every message of the document occurs in one."""
    validator = FrameValidator()
    for each_scenario in SCENARIOS:
        ports = make_scenario_ports(each_scenario)
        async with connect_directly(ports) as connect:
            await run_scenario(each_scenario, ports, connect, validator)
    assert validator.message_names == MESSAGES.keys()
