"""The connections of a process: lookup, typing, and presence."""

from __future__ import annotations

from attrs import evolve

from staffbooking_adapters.testing.builders import NOW, POLICY, SECOND
from staffbooking_core.representations import channel
from staffbooking_core.representations.channel import (
    Broadcast,
    ConnectionState,
    Hub,
    PresenceQueue,
    ServerEvent,
)

LAPSE, GRACE = POLICY.typing_timeout, POLICY.presence_grace_period
MOMENT = SECOND / 1_000_000
ADA, MIA, NOA = 1, 2, 3


def make_hub(*user_ids: int) -> tuple[Hub[ConnectionState], list[ConnectionState]]:
    """A hub with a connection for each of these users."""
    hub: Hub[ConnectionState] = Hub(POLICY)
    lines = [ConnectionState(user_id, "name") for user_id in user_ids]
    for line in lines:
        hub.add(line)
    return hub, lines


def typing(is_typing: bool, conversation_id: int = 7, by: int = MIA) -> Broadcast:
    data = channel.typing_data(conversation_id, by, "Mia", is_typing)
    return Broadcast((ADA, NOA), ServerEvent.TYPING, data)


# Connections ------------------------------------------------------------------------------


def test_each_connection_of_a_user_is_found():
    """The hub finds all connections of the given users, and no others."""
    hub, [first, _, second, other] = make_hub(ADA, MIA, ADA, NOA)
    assert list(hub.connections_of([NOA, 9, ADA])) == [other, first, second]


def test_a_hub_has_its_connections():
    """The hub has its connections until they are removed."""
    hub, [ada, mia] = make_hub(ADA, MIA)
    assert (len(hub), list(hub)) == (2, [ada, mia])
    hub.remove(ada)
    assert (len(hub), list(hub), list(hub.connections_of([ADA]))) == (1, [mia], [])


def test_equal_connections_are_distinct():
    """Removing one of two equal connections keeps the other one."""
    hub, [first, second] = make_hub(ADA, ADA)
    hub.remove(second)
    [left] = hub
    assert left is first


# Typing -----------------------------------------------------------------------------------


def test_typing_lapses_by_itself():
    """The recipients of a typing event get its end once, at its expiry."""
    hub, _ = make_hub()
    hub.track_typing(typing(True), NOW)
    assert hub.expire_typing(NOW + LAPSE - MOMENT) == []
    assert hub.expire_typing(NOW + LAPSE) == [typing(False)]
    assert hub.expire_typing(NOW + 2 * LAPSE) == []


def test_who_goes_on_typing_does_not_lapse():
    """The timeout starts with the last typing event."""
    hub, _ = make_hub()
    for seconds in (0, 4, 8):
        hub.track_typing(typing(True), NOW + seconds * SECOND)
    assert hub.expire_typing(NOW + 8 * SECOND + LAPSE - MOMENT) == []
    assert hub.expire_typing(NOW + 8 * SECOND + LAPSE) == [typing(False)]


def test_who_stopped_typing_does_not_lapse():
    """Typing that was stopped does not expire."""
    hub, _ = make_hub()
    hub.track_typing(typing(True), NOW)
    hub.track_typing(typing(False), NOW + SECOND)
    assert hub.expire_typing(NOW + LAPSE) == []


def test_who_did_not_type_may_stop_typing():
    """Stopping without typing does nothing."""
    hub, _ = make_hub()
    hub.track_typing(typing(False), NOW)
    assert hub.expire_typing(NOW + LAPSE) == []


def test_typing_lapses_of_each_alone():
    """Typing expires separately for each conversation and user."""
    hub, _ = make_hub()
    for tell in (typing(True), typing(True, by=NOA), typing(True, conversation_id=8)):
        hub.track_typing(tell, NOW)
    hub.track_typing(typing(False), NOW)
    ended = [typing(False, by=NOA), typing(False, conversation_id=8)]
    assert hub.expire_typing(NOW + LAPSE) == ended


def test_nothing_else_lapses():
    """Read marks and presence do not expire."""
    hub, _ = make_hub()
    hub.track_typing(Broadcast((ADA,), ServerEvent.READ, channel.read_data(7, 1, MIA)), NOW)
    hub.track_typing(
        Broadcast((ADA,), ServerEvent.PRESENCE, channel.presence_data(MIA, True, None)), NOW
    )
    assert hub.expire_typing(NOW + 10 * LAPSE) == []


def test_the_lapse_is_the_policys():
    """The typing timeout is the policy's."""
    hub: Hub[ConnectionState] = Hub(evolve(POLICY, typing_timeout=SECOND))
    hub.track_typing(typing(True), NOW)
    assert hub.expire_typing(NOW + SECOND) == [typing(False)]


# Leaving ----------------------------------------------------------------------------------


def test_a_departure_is_due_after_the_grace_period():
    """A user who left is due after the grace period, until the broadcast is done."""
    departures = PresenceQueue(POLICY)
    departures.mark_left(ADA, NOW)
    assert departures.due_users(NOW + GRACE - MOMENT) == []
    assert departures.due_users(NOW + GRACE) == departures.due_users(NOW + 2 * GRACE) == [ADA]
    departures.mark_broadcast(ADA, NOW + 2 * GRACE)
    assert departures.due_users(NOW + 3 * GRACE) == []


def test_a_return_within_the_grace_period_is_not_due():
    """A user who returns is not due; leaving again restarts the grace period."""
    departures = PresenceQueue(POLICY)
    departures.mark_left(ADA, NOW)
    departures.mark_returned(ADA)
    assert departures.due_users(NOW + GRACE) == []
    departures.mark_left(ADA, NOW + GRACE)
    assert departures.due_users(NOW + 2 * GRACE - MOMENT) == []
    assert departures.due_users(NOW + 2 * GRACE) == [ADA]


def test_leaving_during_the_broadcast_is_due_again():
    """A user who leaves during the broadcast is due again later."""
    departures = PresenceQueue(POLICY)
    departures.mark_left(ADA, NOW)
    departures.mark_returned(ADA)
    departures.mark_left(ADA, NOW + 2 * GRACE)
    departures.mark_broadcast(ADA, NOW + GRACE)
    assert departures.due_users(NOW + 3 * GRACE) == [ADA]


def test_a_user_in_doubt_is_due_at_once():
    """A user in doubt is due at once."""
    departures = PresenceQueue(POLICY)
    departures.mark_uncertain([ADA, MIA], NOW)
    assert departures.due_users(NOW) == [ADA, MIA]


def test_the_grace_is_not_cut_short_by_doubt():
    """A user in doubt who has just left is due at the end of the grace period."""
    departures = PresenceQueue(POLICY)
    departures.mark_left(MIA, NOW)
    departures.mark_uncertain([ADA, MIA], NOW)
    assert departures.due_users(NOW) == [ADA]
    assert departures.due_users(NOW + GRACE) == [MIA, ADA]


def test_marking_an_undue_broadcast_does_nothing():
    """Marking the broadcast of a user who is not due does nothing."""
    departures = PresenceQueue(POLICY)
    departures.mark_returned(ADA)
    departures.mark_broadcast(ADA, NOW)
    assert departures.due_users(NOW + GRACE) == []


def test_the_grace_is_the_policys():
    """The grace period is the policy's."""
    departures = PresenceQueue(evolve(POLICY, presence_grace_period=2 * SECOND))
    departures.mark_left(ADA, NOW)
    assert departures.due_users(NOW + SECOND) == []
    assert departures.due_users(NOW + 2 * SECOND) == [ADA]
