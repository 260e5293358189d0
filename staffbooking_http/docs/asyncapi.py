"""The AsyncAPI 3.0 document of the channel, made of what the channel itself runs on
(CONTRACT 6 and 9)."""

from functools import cache
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from staffbooking_adapters import codec
from staffbooking_core import __version__
from staffbooking_core.policy import Policy
from staffbooking_core.representations.channel import Asked, Close, Told
from staffbooking_http.api.access import COOKIE
from staffbooking_http.api.errors import CODES
from staffbooking_http.api.input_schemas import of_class
from staffbooking_http.api.query_string import Connect
from staffbooking_http.api.response_schemas import (
    COMPONENTS,
    FLAG,
    ID,
    INSTANT,
    TEXT,
    WHOLE,
    Schema,
    items,
    nullable,
    ref,
    shape,
)
from staffbooking_http.channel.frames import CHANNEL_PATH, FRAME_BYTES, REQUESTS

Object: TypeAlias = dict[str, Any]

ABOUT = """\
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

CLOSED = {
    Close.FORBIDDEN: "too many frames, or the session has ended",
    Close.TOO_BIG: "a frame was too long",
    Close.RESTART: "the service restarts: come again, and resume",
    Close.SLOW: "too much lay unread, or the service is out of reach: come again, and resume",
}

ASKED = {
    Asked.SEND_MESSAGE: "Say something in a conversation. Whether it is stored is told by an `ack` "
    "or an `error`; with a `client_message_id` it may be sent again, and is stored once",
    Asked.TYPING: "You type in a conversation, or do no more; to be sent again while it goes on",
    Asked.READ: "You have read a conversation up to a message",
    Asked.PRESENCE: "Ask who of some people is there: people with whom you share a conversation",
    Asked.RESUME: "Ask for all messages newer than one, over all conversations; 0 for every one",
}

TOLD: dict[Told, tuple[Schema, str]] = {
    Told.READY: (
        shape({"user_id": ID, "last_message_id": {"type": "integer", "minimum": 0}}),
        "The first frame: who you are, and the last message that you may read, 0 with none",
    ),
    Told.NEW_MESSAGE: (
        ref("Message"),
        "Somebody has said something; to each connection of each participant, the sender's too",
    ),
    Told.TYPING: (
        shape({"conversation_id": ID, "user_id": ID, "sender_name": TEXT, "is_typing": FLAG}),
        "Somebody else types, or does no more",
    ),
    Told.PRESENCE: (
        shape({"user_id": ID, "online": FLAG, "last_seen": nullable(INSTANT)}),
        "Somebody with whom you share a conversation has come or gone, or was asked for",
    ),
    Told.READ: (
        shape({"conversation_id": ID, "message_id": ID, "user_id": ID}),
        "A participant, perhaps yourself elsewhere, has read up to a message",
    ),
    Told.ACK: (
        shape({"message": ref("Message")}),
        "What you said is stored, and survives whatever happens",
    ),
    Told.ERROR: (
        shape(
            {"error": TEXT, "code": TEXT},
            {"errors": items(shape({"field": TEXT, "message": TEXT})), "retry_after": WHOLE},
        ),
        "A frame was refused; `x-codes` lists why. Nothing came of it, only after `unavailable` "
        "and `internal` nobody knows",
    ),
}

ANSWERS = (Told.ACK, Told.ERROR)
"""They bear the `ref` of the frame that they answer."""

SUCCESSES = {Asked.SEND_MESSAGE: (Told.ACK,), Asked.PRESENCE: (Told.PRESENCE,)}
"""What a frame is answered by, where all is well, to who sent it alone."""

SHARED = "missing_field invalid_field content_blocked conversation_left rate_limited".split()
REFUSALS = {
    "bad_frame": "the frame is binary, no JSON object, nested too deep, or has no event",
    "unknown_event": "there is no event of this name",
    **{code: CODES[code] for code in SHARED},
    "not_found": "no such conversation, message or person, or one of others",
    "unavailable": "the service is out of reach for now: send it again",
    "internal": "a fault of ours",
}
"""Why a frame is refused, by code."""


@cache
def encoded(policy: Policy) -> bytes:
    """The document as JSON."""
    return codec.encode(document(policy))


def document(policy: Policy) -> Object:
    """The whole document, as plain structures."""
    base = urlsplit(policy.base_url)
    frames = [*(_asked(event) for event in Asked), *(_told(event) for event in Told)]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Staff booking: the channel",
            "version": __version__,
            "description": _about(policy),
            "license": {
                "name": "Apache-2.0",
                "url": "https://www.apache.org/licenses/LICENSE-2.0.html",
            },
        },
        "x-codes": REFUSALS,
        "defaultContentType": "application/json",
        "servers": {
            "service": {
                "host": base.netloc,
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
                "bindings": {"ws": {"method": "GET", "query": of_class(Connect)}},
            },
        },
        "operations": {
            **{f"receive_{event}": _receiving(event) for event in Asked},
            **{f"send_{event}": _sending(event) for event in Told if event not in ANSWERS},
        },
        "components": {
            "schemas": {"Message": COMPONENTS["Message"]},
            "messages": {frame["name"]: frame for frame in frames},
            "securitySchemes": {
                "session": {"type": "httpApiKey", "in": "cookie", "name": COOKIE},
            },
        },
    }


def _about(policy: Policy) -> str:
    rule = policy.limits.channel
    return ABOUT.format(
        connections=policy.max_connections,
        bytes=FRAME_BYTES,
        limit=rule.limit,
        window=int(rule.window.total_seconds()),
        overrun=policy.channel_overrun * rule.limit,
        codes="; ".join(f"{code.value}: {meaning}" for code, meaning in CLOSED.items()),
    )


def _asked(event: Asked) -> Object:
    """A frame of a client; its name says so, for some events go both ways."""
    return _frame(f"client_{event}", event, of_class(REQUESTS[event]), ASKED[event], {"ref": {}})


def _told(event: Told) -> Object:
    schema, meaning = TOLD[event]
    return _frame(str(event), event, schema, meaning, {"ref": {}} if event in ANSWERS else {})


def _frame(
    name: str, event: Asked | Told, data: Schema, meaning: str, optional: dict[str, Schema]
) -> Object:
    return {
        "name": name,
        "title": str(event),
        "summary": meaning,
        "payload": shape({"event": {"const": str(event)}, "data": data}, optional),
        **({"correlationId": {"location": "$message.payload#/ref"}} if optional else {}),
    }


def _receiving(event: Asked) -> Object:
    """What the service does with a frame of a client."""
    answers = [*SUCCESSES.get(event, ()), Told.ERROR]
    return {
        **_operation("receive", f"client_{event}", ASKED[event]),
        "reply": {"channel": _CHANNEL, "messages": [_message(answer) for answer in answers]},
    }


def _sending(event: Told) -> Object:
    return _operation("send", event, TOLD[event][1])


def _operation(action: str, name: str, summary: str) -> Object:
    return {
        "action": action,
        "channel": _CHANNEL,
        "summary": summary,
        "messages": [_message(name)],
    }


_CHANNEL: Object = {"$ref": "#/channels/channel"}


def _message(name: str) -> Object:
    return {"$ref": f"#/channels/channel/messages/{name}"}
