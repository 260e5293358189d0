"""The frames of the channel, and the rate limit and phases of one connection."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from staffbooking_adapters.testing.builders import NOW, SECOND
from staffbooking_adapters.testing.builders_messages import make_message
from staffbooking_core.domain.messaging.conversations import ContentBlocked
from staffbooking_core.domain.shared.rate_limits import (
    RateLimit,
    RateLimitDecision,
    RateLimitExceeded,
)
from staffbooking_core.errors import FieldError, InvalidField, NotFound
from staffbooking_core.representations import channel
from staffbooking_core.representations.channel import (
    ClientEvent,
    CloseCode,
    ConnectionPhase,
    ConnectionState,
    Frame,
    MalformedFrame,
    ServerEvent,
    UnknownClientEvent,
)

RULE = RateLimit("channel", 3, timedelta(seconds=60))
OVERRUN = 2

# Frames -----------------------------------------------------------------------------------


def test_a_connection_is_greeted_with_the_last_message():
    """The first frame has the user's id and the last message's id."""
    assert channel.ready_frame(5, 9) == Frame(
        ServerEvent.READY, {"user_id": 5, "last_message_id": 9}
    )


def test_a_message_frame_has_the_record():
    """A message frame has the message's record; an acknowledgement also the sender's `ref`."""
    record = {
        "id": 8,
        "conversation_id": 1,
        "sender_id": 1,
        "sender_name": "Ada Okoro",
        "content": "See you at nine",
        "created_at": "2027-03-01T12:00:00Z",
    }
    message = make_message(id=8, client_id="mine")
    assert channel.new_message_frame(message) == Frame(ServerEvent.NEW_MESSAGE, record)
    assert channel.ack_frame(message, "r") == Frame(ServerEvent.ACK, {"message": record}, "r")


@pytest.mark.parametrize(
    "problem, data",
    [
        (NotFound("Message"), {"error": "Message not found", "code": "not_found"}),
        (MalformedFrame("no frame"), {"error": "no frame", "code": "bad_frame"}),
        (
            InvalidField([FieldError("a.0", "is wrong"), FieldError("b", "is missing")]),
            {
                "error": "a.0: is wrong; b: is missing",
                "code": "invalid_field",
                "errors": [
                    {"field": "a.0", "message": "is wrong"},
                    {"field": "b", "message": "is missing"},
                ],
            },
        ),
        (
            ContentBlocked("is not allowed"),
            {
                "error": "content: is not allowed",
                "code": "content_blocked",
                "errors": [{"field": "content", "message": "is not allowed"}],
            },
        ),
        (
            RateLimitExceeded(
                RateLimitDecision(100, 0, 1_800_000_000, allowed=False, retry_after=17)
            ),
            {"error": "Rate limit exceeded", "code": "rate_limited", "retry_after": 17},
        ),
    ],
    ids=["nothing there", "malformed", "faults", "blocked", "too many"],
)
def test_an_error_frame_has_its_details(problem, data):
    """An error frame has message and code, the faults of fields, and the retry delay."""
    assert channel.error_frame(problem, [1]) == Frame(ServerEvent.ERROR, data, [1])


def test_an_unknown_event_lists_the_known_ones():
    """The error of an unknown event lists all client events."""
    error = UnknownClientEvent()
    assert error.code == "unknown_event"
    assert error.message.endswith("send_message, typing, read, presence, resume")
    assert list(ClientEvent) == ["send_message", "typing", "read", "presence", "resume"]


def test_a_presence_event_has_the_last_time():
    """A presence event has the time when the user was last seen, or null."""
    told = {"user_id": 5, "online": False, "last_seen": "2027-03-01T12:00:00Z"}
    assert channel.presence_data(5, False, NOW) == told
    assert channel.presence_data(5, True, None) == {"user_id": 5, "online": True, "last_seen": None}


def test_a_typing_event_has_the_name():
    """A typing event has conversation, user and name."""
    assert channel.typing_data(3, 5, "Mia", True) == {
        "conversation_id": 3,
        "user_id": 5,
        "sender_name": "Mia",
        "is_typing": True,
    }


def test_a_read_event_has_its_reader():
    """A read event has conversation, message and reader."""
    told = {"conversation_id": 3, "message_id": 8, "user_id": 5}
    assert channel.read_data(3, 8, 5) == told


def test_closing_codes_are_those_of_the_contract():
    """The close codes are those of CONTRACT 6 and RFC 6455."""
    assert {close.name: close.value for close in CloseCode} == {
        "FORBIDDEN": 1008,
        "TOO_BIG": 1009,
        "RESTART": 1012,
        "SLOW": 1013,
    }


# Client frames ----------------------------------------------------------------------------


def make_line() -> ConnectionState:
    return ConnectionState(user_id=5, name="Mia")


def count(line: ConnectionState, at=NOW, ref: object = None) -> Frame | CloseCode | None:
    return line.count_frame(ref, at, RULE, OVERRUN)


def outcome(refusal: Frame | CloseCode | None) -> str:
    """The result of a frame, as one word."""
    if isinstance(refusal, CloseCode):
        return "closed"
    return "admitted" if refusal is None else refusal.data["code"]


def test_a_refused_frame_has_a_retry_delay():
    """The retry delay lasts until the end of the window, which began with its first frame."""
    line = make_line()
    for seconds in (0, 10, 20):
        count(line, NOW + seconds * SECOND)
    refusal = count(line, NOW + 25 * SECOND, ref="r")
    assert isinstance(refusal, Frame)
    assert (refusal.event, refusal.ref) == (ServerEvent.ERROR, "r")
    assert refusal.data["retry_after"] == 35


def test_the_frame_after_the_overrun_closes():
    """The frame after the overrun closes the connection without a reply."""
    line = make_line()
    for _ in range(OVERRUN * RULE.limit):
        assert outcome(count(line)) != "closed"
    assert count(line) is CloseCode.FORBIDDEN


@given(st.lists(st.integers(0, 40), max_size=40))
def test_each_window_admits_its_limit(gaps):
    """Each window allows its limit, refuses more, and closes after the overrun."""
    line, at, opened, number = make_line(), 0, None, 0
    for gap in gaps:
        at += gap
        if opened is None or at >= opened + 60:
            opened, number = at, 0
        number += 1
        expected = "admitted" if number <= 3 else "rate_limited" if number <= 6 else "closed"
        assert outcome(count(line, NOW + at * SECOND)) == expected


# Delivered messages -----------------------------------------------------------------------


def live(cursor: int = 5) -> ConnectionState:
    """A live connection to which all messages up to this one were delivered."""
    return evolve(make_line(), cursor=cursor, phase=ConnectionPhase.LIVE)


def test_a_new_connection_is_quiet():
    """A new connection is quiet until it is known whether it resumes."""
    line = make_line()
    assert (line.phase, line.cursor, line.newest_known_id) == (ConnectionPhase.QUIET, 0, 0)


def test_a_quiet_connection_gets_no_messages():
    """A new message of a quiet connection becomes pending."""
    line = make_line()
    line.mark_ready(5)
    assert not line.should_deliver(6)
    assert (line.cursor, line.newest_known_id) == (5, 6)


def test_messages_are_delivered_after_the_greeting():
    """After the first frame without pending messages, new messages are delivered."""
    assert not make_line().is_ready
    line = make_line()
    line.mark_ready(5)
    assert line.is_ready
    assert line.newest_known_id == line.cursor == 5


def test_what_came_before_the_greeting_does_not_wait():
    """A message included in the first frame is not pending."""
    line = make_line()
    line.should_deliver(5)
    line.mark_ready(5)
    assert line.newest_known_id == line.cursor == 5


def test_a_message_is_delivered_once():
    """A message that was delivered is not delivered again."""
    line = live()
    assert [line.should_deliver(number) for number in (6, 6, 5, 9)] == [True, False, False, True]
    assert line.cursor == 9


def test_asking_for_older_messages_moves_back():
    """A resume moves the cursor back, and new messages become pending."""
    line = live()
    line.resume_after(2)
    assert (line.phase, line.cursor, line.newest_known_id) == (ConnectionPhase.CATCHING_UP, 2, 5)
    assert not line.should_deliver(6)
    assert line.newest_known_id == 6


def test_a_resume_after_an_unknown_id_asks_for_nothing():
    """A resume after an unknown id asks for nothing, and new messages are delivered."""
    line = live()
    line.resume_after(2**63 - 1)
    assert line.cursor == 5
    assert line.mark_caught_up(line.newest_known_id)
    assert line.should_deliver(6)


def test_a_resume_keeps_pending_messages():
    """A resume keeps pending messages, also after an id beyond the cursor."""
    line = make_line()
    line.mark_ready(5)
    line.should_deliver(7)
    line.resume_after(6)
    assert (line.cursor, line.newest_known_id) == (6, 7)


def test_a_connection_is_live_once_nothing_waits():
    """A connection stays in catch-up while messages are pending."""
    line = live()
    line.resume_after(2)
    line.should_deliver(8)
    assert not line.mark_caught_up(5)
    assert (line.phase, line.cursor) == (ConnectionPhase.CATCHING_UP, 5)
    assert line.mark_caught_up(8)
    assert line.phase is ConnectionPhase.LIVE


def test_catching_up_never_moves_back():
    """The cursor never moves back when a catch-up ends."""
    line = live()
    assert line.mark_caught_up(3)
    assert line.cursor == 5
