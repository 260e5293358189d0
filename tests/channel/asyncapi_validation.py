"""Holds the frames of the channel to the AsyncAPI document."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema_rs
from attrs import define, field

from staffbooking_http.docs import asyncapi
from tests.support.builders import POLICY

ASYNCAPI_DOCUMENT = asyncapi.build_document(POLICY)
JSON_SCHEMA_DIALECT = "http://json-schema.org/draft-07/schema#"
"""What the schemas of AsyncAPI are an extension of."""


@cache
def payload_validator(name: str) -> Any:
    """Of the payload of a message, by its name in the document."""
    components = ASYNCAPI_DOCUMENT["components"]
    payload = components["messages"][name]["payload"]
    schema = {"$schema": JSON_SCHEMA_DIALECT, "components": components, **payload}
    return jsonschema_rs.validator_for(schema, validate_formats=True)


@define
class FrameValidator:
    """A critic who has read the document."""

    message_names: set[str] = field(factory=set)
    """The names of messages that were sent, either way."""

    def validate_server_frame(self, frame: dict[str, Any]) -> None:
        """The service has sent it."""
        self._validate(frame["event"], frame)
        if frame["event"] == "error":
            assert frame["data"]["code"] in ASYNCAPI_DOCUMENT["x-codes"]

    def validate_client_frame(self, frame: dict[str, Any]) -> None:
        """A client sends it, and does nothing wrong by it."""
        self._validate(f"client_{frame['event']}", frame)

    def _validate(self, name: str, frame: dict[str, Any]) -> None:
        payload_validator(name).validate(frame)
        self.message_names.add(name)
