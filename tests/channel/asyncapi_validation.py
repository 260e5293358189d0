"""Holds the frames of the channel to the AsyncAPI document."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema_rs
from attrs import define, field

from staffbooking_http.docs import asyncapi
from tests.support.builders import POLICY

DOCUMENT = asyncapi.document(POLICY)
DIALECT = "http://json-schema.org/draft-07/schema#"
"""What the schemas of AsyncAPI are an extension of."""


@cache
def validator(name: str) -> Any:
    """Of the payload of a message, by its name in the document."""
    components = DOCUMENT["components"]
    payload = components["messages"][name]["payload"]
    schema = {"$schema": DIALECT, "components": components, **payload}
    return jsonschema_rs.validator_for(schema, validate_formats=True)


@define
class Documented:
    """A critic who has read the document."""

    seen: set[str] = field(factory=set)
    """The names of messages that were sent, either way."""

    def told(self, frame: dict[str, Any]) -> None:
        """The service has sent it."""
        self._check(frame["event"], frame)
        if frame["event"] == "error":
            assert frame["data"]["code"] in DOCUMENT["x-codes"]

    def asked(self, frame: dict[str, Any]) -> None:
        """A client sends it, and does nothing wrong by it."""
        self._check(f"client_{frame['event']}", frame)

    def _check(self, name: str, frame: dict[str, Any]) -> None:
        validator(name).validate(frame)
        self.seen.add(name)
