"""All connections of a process: who gets what, who types, who has just left."""

from __future__ import annotations

from attrs import evolve

from staffbooking_core.representations import channel
from staffbooking_core.representations.channel import Departures, Hub, Line, Tell, Told
from tests.support.builders import NOW, POLICY, SECOND

LAPSE, GRACE = POLICY.typing_lapse, POLICY.presence_grace
MOMENT = SECOND / 1_000_000
ADA, MIA, NOA = 1, 2, 3


def make_hub(*user_ids: int) -> tuple[Hub[Line], list[Line]]:
    """With a line of each of these users."""
    hub: Hub[Line] = Hub(POLICY)
    lines = [Line(user_id, "name") for user_id in user_ids]
    for line in lines:
        hub.open(line)
    return hub, lines


def typing(is_typing: bool, conversation_id: int = 7, by: int = MIA) -> Tell:
    data = channel.typing(conversation_id, by, "Mia", is_typing)
    return Tell((ADA, NOA), Told.TYPING, data)


# Lines ------------------------------------------------------------------------------------


def test_each_connection_of_a_user_is_found():
    """Those of people who are asked for, and no others."""
    hub, [first, _, second, other] = make_hub(ADA, MIA, ADA, NOA)
    assert list(hub.lines_of([NOA, 9, ADA])) == [other, first, second]


def test_a_hub_knows_its_lines():
    """All of them, until they are closed."""
    hub, [ada, mia] = make_hub(ADA, MIA)
    assert (len(hub), list(hub)) == (2, [ada, mia])
    hub.close(ada)
    assert (len(hub), list(hub), list(hub.lines_of([ADA]))) == (1, [mia], [])


def test_two_lines_that_look_alike_are_two():
    """The one that is closed is the one that goes."""
    hub, [first, second] = make_hub(ADA, ADA)
    hub.close(second)
    [left] = hub
    assert left is first


# Typing -----------------------------------------------------------------------------------


def test_typing_lapses_by_itself():
    """Those who were told of it are told its end, at the moment and once."""
    hub, _ = make_hub()
    hub.told(typing(True), NOW)
    assert hub.lapsed(NOW + LAPSE - MOMENT) == []
    assert hub.lapsed(NOW + LAPSE) == [typing(False)]
    assert hub.lapsed(NOW + 2 * LAPSE) == []


def test_who_goes_on_typing_does_not_lapse():
    """It counts from the last time."""
    hub, _ = make_hub()
    for seconds in (0, 4, 8):
        hub.told(typing(True), NOW + seconds * SECOND)
    assert hub.lapsed(NOW + 8 * SECOND + LAPSE - MOMENT) == []
    assert hub.lapsed(NOW + 8 * SECOND + LAPSE) == [typing(False)]


def test_who_stopped_typing_does_not_lapse():
    """Its end was told."""
    hub, _ = make_hub()
    hub.told(typing(True), NOW)
    hub.told(typing(False), NOW + SECOND)
    assert hub.lapsed(NOW + LAPSE) == []


def test_who_did_not_type_may_stop_typing():
    """Nothing follows from it."""
    hub, _ = make_hub()
    hub.told(typing(False), NOW)
    assert hub.lapsed(NOW + LAPSE) == []


def test_typing_lapses_of_each_alone():
    """By conversation and by who types there."""
    hub, _ = make_hub()
    for tell in (typing(True), typing(True, by=NOA), typing(True, conversation_id=8)):
        hub.told(tell, NOW)
    hub.told(typing(False), NOW)
    ended = [typing(False, by=NOA), typing(False, conversation_id=8)]
    assert hub.lapsed(NOW + LAPSE) == ended


def test_nothing_else_lapses():
    """Marks and presence stay."""
    hub, _ = make_hub()
    hub.told(Tell((ADA,), Told.READ, channel.read(7, 1, MIA)), NOW)
    hub.told(Tell((ADA,), Told.PRESENCE, channel.presence(MIA, True, None)), NOW)
    assert hub.lapsed(NOW + 10 * LAPSE) == []


def test_the_lapse_is_the_policys():
    """A deployment may have another one."""
    hub: Hub[Line] = Hub(evolve(POLICY, typing_lapse=SECOND))
    hub.told(typing(True), NOW)
    assert hub.lapsed(NOW + SECOND) == [typing(False)]


# Leaving ----------------------------------------------------------------------------------


def test_who_left_is_told_of_when_the_grace_ends():
    """At the moment; and until it is done."""
    departures = Departures(POLICY)
    departures.left(ADA, NOW)
    assert departures.due(NOW + GRACE - MOMENT) == []
    assert departures.due(NOW + GRACE) == departures.due(NOW + 2 * GRACE) == [ADA]
    departures.done(ADA, NOW + 2 * GRACE)
    assert departures.due(NOW + 3 * GRACE) == []


def test_who_comes_back_in_time_never_left():
    """The grace begins anew when they leave again."""
    departures = Departures(POLICY)
    departures.left(ADA, NOW)
    departures.back(ADA)
    assert departures.due(NOW + GRACE) == []
    departures.left(ADA, NOW + GRACE)
    assert departures.due(NOW + 2 * GRACE - MOMENT) == []
    assert departures.due(NOW + 2 * GRACE) == [ADA]


def test_who_leaves_while_it_is_told_is_told_of_again():
    """What is told is what was so before."""
    departures = Departures(POLICY)
    departures.left(ADA, NOW)
    departures.back(ADA)
    departures.left(ADA, NOW + 2 * GRACE)
    departures.done(ADA, NOW + GRACE)
    assert departures.due(NOW + 3 * GRACE) == [ADA]


def test_who_is_in_doubt_is_told_of_at_once():
    """Their lease was time enough to come back."""
    departures = Departures(POLICY)
    departures.doubted([ADA, MIA], NOW)
    assert departures.due(NOW) == [ADA, MIA]


def test_the_grace_is_not_cut_short_by_doubt():
    """Who has just left here is looked after when it ends."""
    departures = Departures(POLICY)
    departures.left(MIA, NOW)
    departures.doubted([ADA, MIA], NOW)
    assert departures.due(NOW) == [ADA]
    assert departures.due(NOW + GRACE) == [MIA, ADA]


def test_what_is_done_was_perhaps_never_due():
    """Nothing follows from it."""
    departures = Departures(POLICY)
    departures.back(ADA)
    departures.done(ADA, NOW)
    assert departures.due(NOW + GRACE) == []


def test_the_grace_is_the_policys():
    """A deployment may have another one."""
    departures = Departures(evolve(POLICY, presence_grace=2 * SECOND))
    departures.left(ADA, NOW)
    assert departures.due(NOW + SECOND) == []
    assert departures.due(NOW + 2 * SECOND) == [ADA]
