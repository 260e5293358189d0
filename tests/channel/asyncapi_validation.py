"""Validates channel frames against the AsyncAPI document."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema_rs
from attrs import define, field

from staffbooking_adapters.testing.builders import POLICY
from staffbooking_http.docs import asyncapi

ASYNCAPI_DOCUMENT = asyncapi.build_document(POLICY)
JSON_SCHEMA_DIALECT = "http://json-schema.org/draft-07/schema#"
"""The JSON Schema dialect that AsyncAPI schemas extend."""


@cache
def payload_validator(name: str) -> Any:
    """The validator for the payload of a message, by the message's name in the document."""
    components = ASYNCAPI_DOCUMENT["components"]
    payload = components["messages"][name]["payload"]
    schema = {"$schema": JSON_SCHEMA_DIALECT, "components": components, **payload}
    return jsonschema_rs.validator_for(schema, validate_formats=True)


@define
class FrameValidator:
    """Validates frames against the document and records which messages occurred."""

    message_names: set[str] = field(factory=set)
    """Names of the messages sent in either direction."""

    def validate_server_frame(self, frame: dict[str, Any]) -> None:
        """Validate a frame that the service sent."""
        self._validate(frame["event"], frame)
        if frame["event"] == "error":
            assert frame["data"]["code"] in ASYNCAPI_DOCUMENT["x-codes"]

    def validate_client_frame(self, frame: dict[str, Any]) -> None:
        """Validate a well-formed frame that a client sends."""
        self._validate(f"client_{frame['event']}", frame)

    def _validate(self, name: str, frame: dict[str, Any]) -> None:
        payload_validator(name).validate(frame)
        self.message_names.add(name)
