"""The OpenAPI 3.1 document, generated from the table of endpoints (CONTRACT 9)."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from attrs import frozen

from staffbooking_adapters import codec
from staffbooking_core import __version__
from staffbooking_core.bounds import MAX_ID
from staffbooking_core.policy import Policy
from staffbooking_core.representations.events import EventEnvelope
from staffbooking_core.representations.json_types import BookingCode
from staffbooking_http.api.access import (
    SAFE_METHODS,
    SESSION_COOKIE_NAME,
    ApiKeyAccess,
    ApiKeyOrSessionAccess,
    SessionAccess,
)
from staffbooking_http.api.endpoint import Endpoint
from staffbooking_http.api.error_codes import ERROR_CODE_DESCRIPTIONS
from staffbooking_http.api.idempotency import MAX_KEY_LENGTH
from staffbooking_http.api.input_schemas import class_schema, field_schemas
from staffbooking_http.api.response_schemas import PAGE_SCHEMA, Schema, type_schema
from staffbooking_http.docs.components import Components
from staffbooking_http.docs.examples import with_example
from staffbooking_http.docs.hosted_pages import describe_hosted_pages
from staffbooking_http.docs.policy_texts import format_description, policy_values
from staffbooking_http.docs.references import JsonObject, plain_document
from staffbooking_http.docs.responses import (
    ResponseWriter,
    error_responses,
    shared_headers,
    takes_if_match,
)
from staffbooking_http.docs.snippets import CallSnippets, describe_calls
from staffbooking_http.docs.webhook_operations import (
    describe_webhooks,
    event_headers,
    event_responses,
)

_STRING = type_schema(str)


@frozen(eq=False, slots=False)
class ServedDocument:
    """The document of an application, made when it is first asked for."""

    families: Mapping[str, Sequence[Endpoint]]
    policy: Policy

    @cached_property
    def content(self) -> JsonObject:
        """The document."""
        return build_document(self.families, self.policy)

    @cached_property
    def plain(self) -> JsonObject:
        """The document as a page shows it."""
        return plain_document(self.content)

    @cached_property
    def calls(self) -> dict[str, list[CallSnippets]]:
        """The calls by their tags, with examples of each in curl and Python."""
        return describe_calls(self.plain)

    @cached_property
    def _encoded(self) -> bytes:
        return codec.encode(self.content)

    def encode(self) -> bytes:
        """The document as JSON."""
        return self._encoded


def build_document(families: Mapping[str, Sequence[Endpoint]], policy: Policy) -> JsonObject:
    """Build the document from plain structures."""
    values = policy_values(policy)
    components = Components()
    for base in (PAGE_SCHEMA, type_schema(EventEnvelope)):
        components.refer(base)
    writer = _OperationWriter(families, policy, values)
    paths: dict[str, JsonObject] = {}
    for family, rows in families.items():
        for row in rows:
            paths.setdefault(row.path, {})[row.method.lower()] = writer.describe(family, row)
    if "Sandbox" in families:
        paths |= describe_hosted_pages()
    content = {
        "paths": components.refer(paths),
        "webhooks": components.refer(describe_webhooks()),
        "components": components.refer(
            {
                "responses": {
                    **writer.responses.successes,
                    **error_responses(),
                    **event_responses(values),
                },
                "requestBodies": writer.bodies,
                "parameters": {**writer.parameters, **event_headers()},
                "headers": shared_headers(writer.rows),
            }
        ),
    }
    content["components"] = {
        "schemas": components.schemas,
        **content["components"],
        "securitySchemes": _SECURITY_SCHEMES,
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Staffbooking",
            "version": __version__,
            "description": format_description(policy),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "x-codes": {
            code: text.format_map(values) for code, text in ERROR_CODE_DESCRIPTIONS.items()
        },
        "servers": [{"url": policy.base_url}],
        "security": _USUAL_SECURITY,
        "tags": [{"name": family} for family in families],
        **content,
    }


_SECURITY_SCHEMES: JsonObject = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key: `ps_…`"},
    "session": {"type": "apiKey", "in": "cookie", "name": SESSION_COOKIE_NAME},
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": "X-CSRF-Token",
        "description": "With a session, for whatever may change something",
    },
}


class _OperationWriter:
    """Describes endpoints; collects the parameters that they share."""

    def __init__(
        self, families: Mapping[str, Sequence[Endpoint]], policy: Policy, values: JsonObject
    ) -> None:
        self.policy, self.values = policy, values
        self.parameters: JsonObject = {}
        """The shared parameters by their names as components."""
        self.bodies: JsonObject = {}
        """The shared bodies by their names as components."""
        self.rows = [row for family in families.values() for row in family]
        self.responses = ResponseWriter(self.rows)
        bodies = Counter(row.body for row in self.rows)
        self._shared_bodies = {body for body, count in bodies.items() if count > 1}

    def describe(self, family: str, endpoint: Endpoint) -> JsonObject:
        operation: JsonObject = {
            "tags": [family],
            "operationId": endpoint.operation_id,
            "summary": endpoint.summary,
            "responses": self.responses.describe(endpoint),
        }
        if (security := _security_requirements(endpoint)) != _USUAL_SECURITY:
            operation["security"] = security
        if endpoint.description:
            operation["description"] = endpoint.description.format_map(self.values)
        if endpoint.deprecation is not None:
            operation["deprecated"] = True
        if parameters := [self._share(each) for each in _parameters(endpoint)]:
            operation["parameters"] = parameters
        if (content := self._body_content(endpoint)) is not None:
            body = {"required": not endpoint.is_body_optional, "content": content}
            operation["requestBody"] = self._share_body(endpoint.body, body)
        return operation

    def _share_body(self, body: type | None, described: JsonObject) -> JsonObject:
        if body is None or body not in self._shared_bodies:
            return described
        self.bodies[body.__name__] = described
        return {"$ref": f"#/components/requestBodies/{body.__name__}"}

    def _share(self, parameter: JsonObject) -> JsonObject:
        """A reference to the parameter, if it is of those that operations share."""
        if (name := _SHARED_PARAMETERS.get(parameter["name"])) is None:
            return parameter
        for known in (name, f"{name}UpTo{parameter['schema'].get('maximum')}"):
            if self.parameters.setdefault(known, parameter) == parameter:
                return {"$ref": f"#/components/parameters/{known}"}
        return parameter

    def _body_content(self, endpoint: Endpoint) -> JsonObject | None:
        if endpoint.body is not None:
            schema = class_schema(endpoint.body, self._body_name(endpoint, endpoint.body))
            return {"application/json": {"schema": schema}}
        if endpoint.has_file:
            return {"multipart/form-data": {"schema": _upload_form_schema(endpoint, self.values)}}
        if endpoint.max_raw_bytes is not None:
            kibibytes = endpoint.raw_byte_limit(self.policy) // 1024
            most = f"At most {kibibytes} KiB of {endpoint.raw_media_type or 'any type'}"
            return {endpoint.raw_media_type or "*/*": {"schema": {"description": most}}}
        return None

    def _body_name(self, endpoint: Endpoint, body: type) -> str:
        """The body is named after its operation, or its class if operations share it."""
        operation_id = endpoint.operation_id
        name = f"{operation_id[0].upper()}{operation_id[1:]}Request"
        return body.__name__ if body in self._shared_bodies else name


def _upload_form_schema(endpoint: Endpoint, values: JsonObject) -> Schema:
    file: Schema = {
        "type": "string",
        "contentMediaType": "application/octet-stream",
        "description": f"{endpoint.file_types}, at most {values['max_image_bytes']}",
    }
    return {"type": "object", "properties": {"file": file}, "required": ["file"]}


_USUAL_SECURITY: list[JsonObject] = [{"session": [], "csrf": []}]
"""What an operation needs unless it says otherwise."""


def _security_requirements(endpoint: Endpoint) -> list[JsonObject]:
    ways: list[JsonObject] = []
    if isinstance(endpoint.access, ApiKeyAccess | ApiKeyOrSessionAccess):
        ways.append({"key": []})
    if isinstance(endpoint.access, SessionAccess | ApiKeyOrSessionAccess):
        ways.append(
            {"session": []} if endpoint.method in SAFE_METHODS else {"session": [], "csrf": []}
        )
    return ways


_SHARED_PARAMETERS = {
    "id": "Id",
    "code": "BookingCode",
    "name": "Name",
    "page": "Page",
    "limit": "Limit",
    "If-Match": "IfMatch",
    "Idempotency-Key": "IdempotencyKey",
}
"""The names of parameters as components, where operations share them."""

_IF_MATCH: JsonObject = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "Refuse the change unless this is the booking's version (its ETag)",
    "schema": _STRING,
}
_IDEMPOTENCY_KEY: JsonObject = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": (
        "Makes the call safe to repeat: the same key and body get the first response again, with "
        "`Idempotent-Replay: true`. 401, 403, 412, 429 and 5xx are not stored. Another path or "
        "body under the key is 400 `idempotency_mismatch`. Each caller has keys of its own."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH},
}
_ID_SCHEMA: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_ID}
_PATH_PARAMETER_SCHEMAS: dict[str, Schema] = {
    "id": _ID_SCHEMA,
    "delivery_id": _ID_SCHEMA,
    "code": type_schema(BookingCode),
    "provider": _STRING,
    "name": _STRING,
    "file": _STRING,
    "secret": _STRING,
}


def _parameters(endpoint: Endpoint) -> Iterator[JsonObject]:
    for name in re.findall(r"{(\w+)}", endpoint.path):
        schema = with_example(name, _PATH_PARAMETER_SCHEMAS[name])
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    if endpoint.query is not None:
        for name, (schema, required) in field_schemas(endpoint.query).items():
            needed = {"required": True} if required else {}
            yield {"name": name, "in": "query", **needed, "schema": with_example(name, schema)}
    if takes_if_match(endpoint):
        yield _IF_MATCH
    if endpoint.takes_idempotency_key:
        yield _IDEMPOTENCY_KEY
