"""The AsyncAPI 3.0 document of the channel, generated from the definitions that the channel uses
(CONTRACT 6 and 9)."""

from functools import cache
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
from staffbooking_http.api.error_codes import ERROR_CODE_DESCRIPTIONS
from staffbooking_http.api.input_schemas import class_schema
from staffbooking_http.api.query_string import ConnectQuery
from staffbooking_http.api.response_schemas import (
    Schema,
    object_schema,
    type_schema,
)
from staffbooking_http.channel.frames import CHANNEL_PATH, MAX_FRAME_BYTES, REQUEST_CLASSES
from staffbooking_http.docs.components import Components
from staffbooking_http.docs.references import JsonObject

DESCRIPTION = """\
Messages between the customers and the staff of bookings, typing, presence and read marks.
Conversations and their history are in the OpenAPI document, `/openapi.json`.

A handshake needs the cookie of a session (401) and an `Origin` that is this service's or an
allowed one (403); a user has at most {connections} connections (429). With `after`, the id of the
last message that the client has, newer messages are sent at once, as after `resume`.

A frame is JSON text of at most {bytes} bytes: `{{"event", "data", "ref"}}`; the optional `ref`, any
JSON value, is repeated in the `ack` or `error` of that frame.

A connection may send {limit} frames in {window} seconds from the first, and a user
{user_limit} over all connections; more are dropped with an error `rate_limited` and its
`retry_after`, and the one after the {overrun}th of a connection ends it. The closing codes are
{codes}.

Socket.IO at `/socket.io` has the same events with the same `data`; the data of an `ack` or `error`
are also passed to the callback of the event. Each poll and upgrade needs the session's cookie and
an allowed `Origin`, as the handshake does: the `sid` is no credential.
"""

_CLOSE_CODE_DESCRIPTIONS = {
    CloseCode.FORBIDDEN: "too many frames, or the session has ended",
    CloseCode.TOO_BIG: "a frame was too large",
    CloseCode.RESTART: "the service restarts: reconnect and resume",
    CloseCode.SLOW: "too much was unread, or the service is unavailable: reconnect and resume",
}

_CLIENT_EVENT_DESCRIPTIONS = {
    ClientEvent.SEND_MESSAGE: "Send a message to a conversation. An `ack` confirms that it is "
    "stored, an `error` that it is not; with a `client_message_id` it can be sent again and "
    "is stored once; with other content that is an `error` of code `idempotency_mismatch`",
    ClientEvent.TYPING: "Typing in a conversation has started or stopped; send it again while "
    "typing continues",
    ClientEvent.READ: "Mark a conversation as read up to a message",
    ClientEvent.PRESENCE: "Query the presence of users with whom you share a conversation",
    ClientEvent.RESUME: "Request all messages newer than this id, in all conversations; 0 for all",
}

_SERVER_EVENT_SCHEMAS: dict[ServerEvent, tuple[Schema, str]] = {
    ServerEvent.READY: (
        type_schema(ReadyRecord),
        "The first frame: your user id, and the id of the last message that you may read, or 0",
    ),
    ServerEvent.NEW_MESSAGE: (
        type_schema(MessageRecord),
        "A new message; sent to every connection of every participant, including the sender",
    ),
    ServerEvent.TYPING: (
        type_schema(TypingRecord),
        "Another participant started or stopped typing",
    ),
    ServerEvent.PRESENCE: (
        type_schema(PresenceRecord),
        "The presence of a user with whom you share a conversation changed, or was queried",
    ),
    ServerEvent.READ: (
        type_schema(ReadMarkRecord),
        "A participant, or another connection of yours, has read up to a message",
    ),
    ServerEvent.ACK: (
        type_schema(AckRecord),
        "The message is stored durably",
    ),
    ServerEvent.ERROR: (
        type_schema(FrameErrorRecord),
        "A frame was refused; `x-codes` lists the codes. It had no effect; after `unavailable` "
        "and `internal` its effect is unknown",
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
    *("missing_field", "invalid_field", "content_blocked", "idempotency_mismatch"),
    *("conversation_left", "rate_limited"),
)
FRAME_ERROR_CODES = {
    "bad_frame": "the frame is binary, not a JSON object, nested too deeply, or has no event",
    "unknown_event": "no event has this name",
    **{code: ERROR_CODE_DESCRIPTIONS[code] for code in _SHARED_ERROR_CODES},
    "not_found": "the conversation, message or user does not exist, or is not yours",
    "unavailable": "the service is temporarily unavailable: send it again",
    "internal": "an internal error",
}
"""Descriptions of the errors that refuse a frame, by code."""


@cache
def encode_document(policy: Policy) -> bytes:
    """Encode the document as JSON."""
    return codec.encode(build_document(policy))


def build_document(policy: Policy) -> JsonObject:
    """Build the document from plain structures."""
    base = urlsplit(policy.base_url)
    components = Components()
    frames = [
        {**frame, "payload": components.refer(frame["payload"])}
        for frame in (
            *(_client_event_message(event) for event in ClientEvent),
            *(_server_event_message(event) for event in ServerEvent),
        )
    ]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Staffbooking: the channel",
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
            "schemas": components.schemas,
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
        user_limit=policy.limits.channel_user.limit,
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
