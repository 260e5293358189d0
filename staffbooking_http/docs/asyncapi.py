"""The AsyncAPI 3.0 document of the channel, generated from the definitions that the channel uses
(CONTRACT 6 and 9)."""

from functools import cache
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from staffbooking_adapters import codec
from staffbooking_core import __version__
from staffbooking_core.policy import Policy
from staffbooking_core.representations.channel import ClientEvent, CloseCode, ServerEvent
from staffbooking_core.representations.frames import (
    AckRecord,
    FrameErrorRecord,
    PresenceRecord,
    ReadMarkRecord,
    ReadyRecord,
    TypingRecord,
)
from staffbooking_core.representations.messaging import MessageRecord
from staffbooking_http.api.access import SESSION_COOKIE_NAME
from staffbooking_http.api.errors import ERROR_CODE_DESCRIPTIONS
from staffbooking_http.api.input_schemas import class_schema
from staffbooking_http.api.query_string import ConnectQuery
from staffbooking_http.api.response_schemas import (
    COMPONENT_SCHEMAS,
    Schema,
    object_schema,
    type_schema,
)
from staffbooking_http.channel.frames import CHANNEL_PATH, MAX_FRAME_BYTES, REQUEST_CLASSES

JsonObject: TypeAlias = dict[str, Any]

DESCRIPTION = """\
Messages between the customers and the staff of bookings, who types, who is there, and what was
read. Conversations and their history are in the OpenAPI document, `/openapi.json`.

A handshake needs the cookie of a session (401) and an `Origin` that is this service's or an
allowed one (403); a user has at most {connections} connections (429). Who names the last message
that they have, by `after`, is told at once of what came since, as by `resume`.

A frame is JSON text of at most {bytes} bytes: `{{"event", "data", "ref"}}`; the `ref`, anything or
nothing, comes back in the `ack` or `error` of that frame.

A client may send {limit} frames in {window} seconds from the first; more are dropped with an error
`rate_limited`, and the one after the {overrun}th ends the connection. The closing codes are
{codes}.

The same events come over Socket.IO at `/socket.io`: `data` is what an event carries there, and
the data of the `ack` or `error` go to the callback that was given, too.
"""

_CLOSE_CODE_DESCRIPTIONS = {
    CloseCode.FORBIDDEN: "too many frames, or the session has ended",
    CloseCode.TOO_BIG: "a frame was too long",
    CloseCode.RESTART: "the service restarts: come again, and resume",
    CloseCode.SLOW: "too much lay unread, or the service is out of reach: come again, and resume",
}

_CLIENT_EVENT_DESCRIPTIONS = {
    ClientEvent.SEND_MESSAGE: "Say something in a conversation. Whether it is stored is "
    "told by an `ack` or an `error`; with a `client_message_id` it may be sent again, and "
    "is stored once",
    ClientEvent.TYPING: "You type in a conversation, or do no more; to be sent again while it "
    "goes on",
    ClientEvent.READ: "You have read a conversation up to a message",
    ClientEvent.PRESENCE: "Ask who of some people is there: people with whom you share a "
    "conversation",
    ClientEvent.RESUME: "Ask for all messages newer than one, over all conversations; 0 for "
    "every one",
}

_SERVER_EVENT_SCHEMAS: dict[ServerEvent, tuple[Schema, str]] = {
    ServerEvent.READY: (
        type_schema(ReadyRecord),
        "The first frame: who you are, and the last message that you may read, 0 with none",
    ),
    ServerEvent.NEW_MESSAGE: (
        type_schema(MessageRecord),
        "Somebody has said something; to each connection of each participant, the sender's too",
    ),
    ServerEvent.TYPING: (
        type_schema(TypingRecord),
        "Somebody else types, or does no more",
    ),
    ServerEvent.PRESENCE: (
        type_schema(PresenceRecord),
        "Somebody with whom you share a conversation has come or gone, or was asked for",
    ),
    ServerEvent.READ: (
        type_schema(ReadMarkRecord),
        "A participant, perhaps yourself elsewhere, has read up to a message",
    ),
    ServerEvent.ACK: (
        type_schema(AckRecord),
        "What you said is stored, and survives whatever happens",
    ),
    ServerEvent.ERROR: (
        type_schema(FrameErrorRecord),
        "A frame was refused; `x-codes` lists why. Nothing came of it, only after `unavailable` "
        "and `internal` nobody knows",
    ),
}

_REPLY_EVENTS = (ServerEvent.ACK, ServerEvent.ERROR)
"""Events that carry the `ref` of the frame that they answer."""

_SUCCESS_REPLIES = {
    ClientEvent.SEND_MESSAGE: (ServerEvent.ACK,),
    ClientEvent.PRESENCE: (ServerEvent.PRESENCE,),
}
"""The events that answer a successful frame, sent only to its sender."""

_SHARED_ERROR_CODES = (
    "missing_field invalid_field content_blocked conversation_left rate_limited".split()
)
FRAME_ERROR_CODES = {
    "bad_frame": "the frame is binary, no JSON object, nested too deep, or has no event",
    "unknown_event": "there is no event of this name",
    **{code: ERROR_CODE_DESCRIPTIONS[code] for code in _SHARED_ERROR_CODES},
    "not_found": "no such conversation, message or person, or one of others",
    "unavailable": "the service is out of reach for now: send it again",
    "internal": "a fault of ours",
}
"""Descriptions of the errors that refuse a frame, by code."""


@cache
def encode_document(policy: Policy) -> bytes:
    """Encode the document as JSON."""
    return codec.encode(build_document(policy))


def build_document(policy: Policy) -> JsonObject:
    """Build the document from plain structures."""
    base = urlsplit(policy.base_url)
    frames = [
        *(_client_event_message(event) for event in ClientEvent),
        *(_server_event_message(event) for event in ServerEvent),
    ]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Staff booking: the channel",
            "version": __version__,
            "description": _format_description(policy),
            "license": {
                "name": "Apache-2.0",
                "url": "https://www.apache.org/licenses/LICENSE-2.0.html",
            },
        },
        "x-codes": FRAME_ERROR_CODES,
        "defaultContentType": "application/json",
        "servers": {
            "service": {
                "host": base.netloc,
                **({"pathname": base.path} if base.path else {}),
                "protocol": "wss" if base.scheme == "https" else "ws",
                "security": [{"$ref": "#/components/securitySchemes/session"}],
            },
        },
        "channels": {
            "channel": {
                "address": CHANNEL_PATH,
                "messages": {
                    frame["name"]: {"$ref": f"#/components/messages/{frame['name']}"}
                    for frame in frames
                },
                "bindings": {"ws": {"method": "GET", "query": class_schema(ConnectQuery)}},
            },
        },
        "operations": {
            **{f"receive_{event}": _receive_operation(event) for event in ClientEvent},
            **{
                f"send_{event}": _send_operation(event)
                for event in ServerEvent
                if event not in _REPLY_EVENTS
            },
        },
        "components": {
            "schemas": {"Message": COMPONENT_SCHEMAS["Message"]},
            "messages": {frame["name"]: frame for frame in frames},
            "securitySchemes": {
                "session": {"type": "httpApiKey", "in": "cookie", "name": SESSION_COOKIE_NAME},
            },
        },
    }


def _format_description(policy: Policy) -> str:
    rule = policy.limits.channel
    return DESCRIPTION.format(
        connections=policy.max_connections,
        bytes=MAX_FRAME_BYTES,
        limit=rule.limit,
        window=int(rule.window.total_seconds()),
        overrun=policy.channel_overrun * rule.limit,
        codes="; ".join(
            f"{code.value}: {meaning}" for code, meaning in _CLOSE_CODE_DESCRIPTIONS.items()
        ),
    )


def _client_event_message(event: ClientEvent) -> JsonObject:
    """Describe a client's frame. The message name includes the sender: some events go both ways."""
    return _event_message(
        f"client_{event}",
        event,
        class_schema(REQUEST_CLASSES[event]),
        _CLIENT_EVENT_DESCRIPTIONS[event],
        {"ref": {}},
    )


def _server_event_message(event: ServerEvent) -> JsonObject:
    schema, meaning = _SERVER_EVENT_SCHEMAS[event]
    return _event_message(
        str(event), event, schema, meaning, {"ref": {}} if event in _REPLY_EVENTS else {}
    )


def _event_message(
    name: str,
    event: ClientEvent | ServerEvent,
    data: Schema,
    summary: str,
    optional: dict[str, Schema],
) -> JsonObject:
    return {
        "name": name,
        "title": str(event),
        "summary": summary,
        "payload": object_schema({"event": {"const": str(event)}, "data": data}, optional),
        **({"correlationId": {"location": "$message.payload#/ref"}} if optional else {}),
    }


def _receive_operation(event: ClientEvent) -> JsonObject:
    """Describe the operation that receives a client's frame."""
    answers = [*_SUCCESS_REPLIES.get(event, ()), ServerEvent.ERROR]
    return {
        **_operation("receive", f"client_{event}", _CLIENT_EVENT_DESCRIPTIONS[event]),
        "reply": {
            "channel": _CHANNEL_REF,
            "messages": [_message_ref(answer) for answer in answers],
        },
    }


def _send_operation(event: ServerEvent) -> JsonObject:
    return _operation("send", event, _SERVER_EVENT_SCHEMAS[event][1])


def _operation(action: str, name: str, summary: str) -> JsonObject:
    return {
        "action": action,
        "channel": _CHANNEL_REF,
        "summary": summary,
        "messages": [_message_ref(name)],
    }


_CHANNEL_REF: JsonObject = {"$ref": "#/channels/channel"}


def _message_ref(name: str) -> JsonObject:
    return {"$ref": f"#/channels/channel/messages/{name}"}
