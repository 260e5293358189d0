"""Examples in the documents: a value of each text, and whole bodies made of them.

A field whose schema says only that it is a text has its example here, by its name. All other
values follow from the schemas, so that the example of a body is always a valid one.
"""

from typing import Any

from staffbooking_http.api.response_schemas import Schema
from staffbooking_http.docs.references import JsonObject, plain_schema

TEXTS = {
    "act": "approve",
    "bio": "Ten years at fairs and galas.",
    "booking_code": "BK7Q2M4X9T6HVC",
    "checkout_url": "https://pay.example.com/c/7Q2M",
    "client_message_id": "m-1",
    "code": "not_found",
    "companion_name": "Ana",
    "comment": "Everything went well.",
    "content": "See you at the entrance.",
    "country": "PT",
    "csrf_token": "9f2c61d07b",
    "currency": "eur",
    "current_password": "correct horse",
    "customer_name": "Rui Costa",
    "description": "At the spring fair",
    "email": "ana@example.com",
    "error": "Booking not found",
    "event_ref": "fair-2027",
    "field": "duration_hours",
    "file": "f7q2m4x9.pdf",
    "files": "f7q2m4x9.pdf",
    "first_name": "Ana",
    "host": "calendar.example.com",
    "id": "s7q2m4x9",
    "images": "7q2m4x9t.jpg",
    "key": "payment:1",
    "kind": "timeout_before",
    "languages": "Portuguese",
    "last_name": "Silva",
    "location": "Rua Augusta 1, Lisbon",
    "location_city": "Lisbon",
    "location_country": "Portugal",
    "message": "is out of bounds",
    "missing": "bio",
    "name": "Ana Silva",
    "needs": "bank account",
    "new_password": "battery staple",
    "onboarding_url": "https://pay.example.com/p/7Q2M",
    "op": "refund",
    "owner_email": "rui@example.com",
    "password": "correct horse",
    "provider": "stripe",
    "quote": "q.7Q2M.9f2c",
    "reason": "The plans have changed",
    "rebooking_of": "BK7Q2M4X9T6HVC",
    "request_id": "7q2m4x9-12",
    "response": "Thank you!",
    "reviewer_name": "Rui",
    "rule": "full",
    "secret": "c7q2m4x9t6",
    "sender_name": "Rui",
    "service": "Hostess",
    "service_type": "Hostess",
    "service_types": "Hostess",
    "state": "paid",
    "subject": "A question",
    "tagline": "Calm and punctual",
    "text": "The event was cut short.",
    "timezone": "Europe/Lisbon",
    "title": "Spring fair",
    "token": "t7q2m4x9",
    "url": "https://hooks.example.com/in",
}
"""An example of each text, by the name of its field or parameter."""

_FORMATS = {
    "date": "2027-06-12",
    "date-time": "2027-06-12T18:00:00Z",
    "email": "ana@example.com",
    "iri": "https://hooks.example.com/in",
}
_SELF_EXPLAINING = {"enum", "const", "format", "examples", "contentMediaType"}


def with_example(name: str, schema: Schema) -> Schema:
    """A field's schema with an example, if the schema says only that it is a text."""
    if schema.get("type") == "array" and name in TEXTS:
        return {**schema, "items": with_example(name, schema["items"])}
    if schema.get("type") != "string" or schema.keys() & _SELF_EXPLAINING or name not in TEXTS:
        return schema
    return {**schema, "examples": [TEXTS[name]]}


def example_of(document: JsonObject, schema: JsonObject) -> Any:
    """A valid value of a schema of the document: with every field, but for those of answers that
    some readers do not get; null where that is allowed."""
    schema = plain_schema(document, schema)
    for keyword in ("examples", "enum"):
        if keyword in schema:
            return schema[keyword][0]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        forms = schema["anyOf"]
        return None if {"type": "null"} in forms else example_of(document, forms[0])
    match schema.get("type"):
        case "object":
            return _example_of_object(document, schema)
        case "array":
            return [example_of(document, schema["items"])]
        case "integer" | "number":
            return _example_of_number(schema)
        case "boolean":
            return schema.get("default", True)
        case "string":
            return _FORMATS.get(schema.get("format", ""), "text")
    return None


def _example_of_object(document: JsonObject, schema: JsonObject) -> JsonObject:
    fields = schema.get("properties", {})
    names = schema.get("required") or fields
    return {name: example_of(document, fields[name]) for name in fields if name in names}


def _example_of_number(schema: JsonObject) -> int | float:
    if "default" in schema:
        number: int | float = schema["default"]
        return number
    low, high = schema.get("minimum", 1), schema.get("maximum", 100)
    return _within(4, low, high)


def _within(number: int, low: int | float, high: int | float) -> int | float:
    return max(low, min(high, number))
