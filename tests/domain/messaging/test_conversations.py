"""Messages and conversations: reading, writing, and membership of groups."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, make_booking
from staffbooking_adapters.testing.builders_messages import (
    make_conversation,
    make_group,
    make_message,
    make_new_message,
)
from staffbooking_core.domain.bookings.lifecycle import CONFIRMED_STATUSES, BookingStatus
from staffbooking_core.domain.messaging.conversations import (
    CONTACT_SHARING_STATUSES,
    ContentBlocked,
    ContentFindings,
    Conversation,
    ConversationMember,
    Message,
    NewMessage,
    can_share_contacts,
    check_can_write,
    check_content,
    compose_message,
    conversation_title,
    last_readable_id,
    require_member,
    sort_by_relevance,
    sync_group_members,
)
from staffbooking_core.errors import Forbidden, InvalidField, NotFound, Unauthenticated

ADA, MIA, NOA = 1, 2, 3
DIRECT, GROUP = make_conversation(last_id=7), make_group(last_id=7)
LEFT = make_group(
    last_id=7,
    members=(
        ConversationMember(1, "Ada"),
        ConversationMember(2, "Mia", left_id=4),
        ConversationMember(3, "Noa"),
    ),
)
"""The group after Mia has left it."""


def member_of(conversation: Conversation, user_id: int) -> ConversationMember:
    member = conversation.find_member(user_id)
    assert member is not None
    return member


# Members ----------------------------------------------------------------------------------


def test_participants_are_the_recipients():
    """Former participants are members, but not recipients."""
    assert GROUP.recipient_ids == (ADA, MIA, NOA)
    assert LEFT.recipient_ids == (ADA, NOA)
    assert [member.user_id for member in LEFT.participants] == [ADA, NOA]
    assert member_of(LEFT, MIA) == ConversationMember(2, "Mia", left_id=4)


def test_the_staff_are_all_participants_but_the_customer():
    """A former participant is not among the staff of the conversation."""
    assert (GROUP.staff_ids, LEFT.staff_ids, DIRECT.staff_ids) == ((MIA, NOA), (NOA,), (MIA,))


def test_a_member_is_found_in_a_conversation():
    """A member gets the conversation with their membership."""
    assert require_member(LEFT, MIA) == (LEFT, member_of(LEFT, MIA))


@pytest.mark.parametrize("conversation", [None, DIRECT], ids=["nowhere", "of others"])
def test_a_stranger_finds_no_conversation(conversation):
    """A stranger gets NotFound, as for a conversation that does not exist."""
    with pytest.raises(NotFound, match="Conversation not found"):
        require_member(conversation, NOA)


@pytest.mark.parametrize(
    "conversation, reader_id, title",
    [
        (GROUP, ADA, "Gala 2027"),
        (DIRECT, ADA, "Mia Lindqvist"),
        (DIRECT, MIA, "Ada Okoro"),
    ],
    ids=["a group", "to the customer", "to the companion"],
)
def test_a_conversation_has_a_title(conversation, reader_id, title):
    """The title is a group's event, or the other participant's name."""
    assert conversation_title(conversation, reader_id) == title


# Reading and writing ----------------------------------------------------------------------


def test_a_message_goes_to_all_participants():
    """A message has the sender's name, and goes to all participants including the sender."""
    said = compose_message(LEFT, member_of(LEFT, NOA), "Hello", "a", NOW)
    assert said == NewMessage(
        conversation_id=LEFT.id,
        sender_id=NOA,
        sender_name="Noa",
        content="Hello",
        created_at=NOW,
        recipients=(ADA, NOA),
        client_id="a",
    )


def test_who_has_left_may_not_write():
    """A former participant gets Forbidden with a reason."""
    with pytest.raises(Forbidden) as caught:
        compose_message(LEFT, member_of(LEFT, MIA), "Hello", None, NOW)
    assert caught.value.code == "conversation_left"


def test_who_was_disabled_may_not_write():
    """A disabled user gets Unauthenticated."""
    with pytest.raises(Unauthenticated):
        compose_message(LEFT, evolve(member_of(LEFT, NOA), disabled=True), "Hello", None, NOW)


def test_who_takes_part_may_write():
    """A participant may write."""
    check_can_write(LEFT, member_of(LEFT, NOA))


@pytest.mark.parametrize("reader_id, last", [(ADA, 7), (MIA, 4)], ids=["there", "left"])
def test_who_has_left_reads_what_was_said_until_then(reader_id, last):
    """A former participant may read the messages until they left, others all."""
    assert last_readable_id(LEFT, member_of(LEFT, reader_id)) == last


def test_nothing_is_read_by_who_left_before_the_first_message():
    """A former participant who left before the first message may read none."""
    assert last_readable_id(LEFT, ConversationMember(4, "Kim", left_id=0)) == 0


def test_a_text_is_not_shown_by_accident():
    """The representation of a message does not contain its text."""
    for each in (make_new_message(content="hush"), make_message(content="hush")):
        assert "hush" not in repr(each)


def test_a_message_is_what_was_said_with_an_id():
    """A stored message is the new message with an id."""
    assert isinstance(make_message(id=9), Message)
    assert make_message(id=9) == evolve(make_message(), id=9)


# Content filter ---------------------------------------------------------------------------

TERM, CONTACT = ContentFindings(has_blocked_term=True), ContentFindings(has_contact=True)


@pytest.mark.parametrize("may", [True, False])
def test_a_blocked_term_never_passes(may):
    """Forbidden words are refused, whether the booking is paid or not."""
    with pytest.raises(ContentBlocked, match="words that are not allowed"):
        check_content(TERM, may_share_contacts=may)


def test_contacts_do_not_pass_before_they_may_be_shared():
    """Contact details are refused before payment."""
    with pytest.raises(ContentBlocked, match="before the booking is paid"):
        check_content(CONTACT, may_share_contacts=False)


@pytest.mark.parametrize(
    "found, may", [(CONTACT, True), (ContentFindings(), False)], ids=["shared", "harmless"]
)
def test_all_else_passes(found, may):
    """Other texts are accepted."""
    check_content(found, may_share_contacts=may)


def test_what_is_blocked_is_a_fault_of_the_content():
    """The error is a fault of the field `content` with its own code (CONTRACT 6)."""
    with pytest.raises(InvalidField) as caught:
        check_content(TERM, may_share_contacts=False)
    assert caught.value.code == "content_blocked"
    assert [fault.field for fault in caught.value.field_errors] == ["content"]


def test_paid_once_is_paid_for_good():
    """Paid, completed and disputed bookings allow contact details; cancelled ones do not (CONTRACT
    6)."""
    assert {
        BookingStatus.PAID,
        BookingStatus.DISPUTED,
        BookingStatus.COMPLETED,
    } == CONTACT_SHARING_STATUSES


@pytest.mark.parametrize(
    "conversation, cleared, may",
    [
        (DIRECT, [], False),
        (DIRECT, [MIA], True),
        (DIRECT, [NOA], False),
        (GROUP, [MIA], False),
        (GROUP, [MIA, NOA], True),
        (LEFT, [NOA], True),
        (LEFT, [MIA], False),
        (make_group(members=(ConversationMember(1, "Ada"),)), [], False),
    ],
    ids=[
        *("unpaid", "paid", "another one is paid", "one of two is paid", "both are paid"),
        *("who left doesn't count", "who left doesn't count as paid", "nobody is there"),
    ],
)
def test_contacts_are_shared_where_all_staff_were_paid(conversation, cleared, may):
    """Contact details are allowed if all staff participants, at least one, were paid."""
    assert can_share_contacts(conversation, cleared) is may


# Groups -----------------------------------------------------------------------------------


def test_who_is_booked_is_in_the_group_of_an_event():
    """Staff members are in the group from acceptance until cancellation (CONTRACT 6)."""
    assert {
        BookingStatus.ACCEPTED,
        BookingStatus.PAID,
        BookingStatus.COMPLETED,
        BookingStatus.DISPUTED,
    } == CONFIRMED_STATUSES


def test_a_group_takes_in_who_is_booked():
    """New participants have a name and nothing read, and are sorted by id."""
    followed = sync_group_members(GROUP, {MIA: "Mia", NOA: "Noa", 9: "Kim", 4: "Lea"})
    assert followed.recipient_ids == (ADA, MIA, NOA, 4, 9)
    assert member_of(followed, 9) == ConversationMember(9, "Kim")


def test_who_is_booked_no_more_leaves_the_group():
    """Staff members who are not booked any more leave, and keep the earlier messages."""
    assert member_of(sync_group_members(GROUP, {NOA: "Noa"}), MIA).left_id == 7


def test_who_left_keeps_the_moment_of_leaving():
    """Later changes of the group do not move the time at which a member left."""
    later = evolve(LEFT, last_id=99)
    assert member_of(sync_group_members(later, {}), MIA).left_id == 4


def test_a_returning_member_reads_all():
    """A returning member may read all messages, and keeps their read mark."""
    group = evolve(
        GROUP,
        members=(ConversationMember(1, "Ada"), ConversationMember(2, "Mia", read_id=3, left_id=4)),
    )
    assert member_of(sync_group_members(group, {MIA: "Mia"}), MIA) == ConversationMember(
        2, "Mia", read_id=3
    )


def test_the_customer_stays_in_a_group():
    """The customer stays in a group without bookings."""
    assert sync_group_members(GROUP, {}).recipient_ids == (ADA,)


def test_the_customer_is_in_a_group_from_the_start():
    """The customer is added to a new group without members."""
    assert sync_group_members(make_group(members=()), {MIA: "Mia"}).recipient_ids == (ADA, MIA)


BOOKINGS = st.dictionaries(st.integers(2, 6), st.just("name"), max_size=5)


@given(st.lists(st.tuples(BOOKINGS, st.integers(0, 3)), max_size=8))
def test_participants_are_the_booked_staff_and_the_customer(history):
    """After any changes the participants are the customer and the booked staff; former ones keep
    their last readable message."""
    group = make_group(members=())
    last_seen: dict[int, int] = {}
    for booked, said in history:
        group = sync_group_members(group, booked)
        assert group.recipient_ids == (ADA, *sorted(booked))
        assert list(group.members) == sorted(group.members, key=lambda member: member.user_id)
        group = evolve(group, last_id=group.last_id + said, updated_at=group.updated_at + HOUR)
        last_seen |= dict.fromkeys(group.recipient_ids, group.last_id)
    read = {member.user_id: last_readable_id(group, member) for member in group.members}
    assert read == last_seen


@given(BOOKINGS, BOOKINGS)
def test_following_twice_changes_nothing(before, booked):
    """A second synchronization changes nothing."""
    once = sync_group_members(sync_group_members(GROUP, before), booked)
    assert sync_group_members(once, booked) == once


# Bookings -------------------------------------------------------------------------------------


def test_people_talk_about_the_next_booking_that_holds() -> None:
    """What is ahead comes first by its start, then what is over and open, what is completed, and
    what came to nothing."""
    days = {
        2: BookingStatus.PAID,
        9: BookingStatus.PENDING,
        -1: BookingStatus.PAID,
        -3: BookingStatus.DISPUTED,
        -2: BookingStatus.COMPLETED,
        -4: BookingStatus.COMPLETED,
        5: BookingStatus.CANCELLED,
    }
    bookings = [
        make_booking(id=number, starts_at=NOW + day * DAY, status=status)
        for number, (day, status) in enumerate(days.items(), 1)
    ]
    assert sort_by_relevance(reversed(bookings), NOW) == bookings
    assert sort_by_relevance([], NOW) == []


def test_a_booking_that_has_begun_is_not_over() -> None:
    """A booking stays ahead of later ones until it ends."""
    running, later = [
        make_booking(id=number, starts_at=NOW + start, status=BookingStatus.PAID)
        for number, start in ((1, -HOUR), (2, HOUR))
    ]
    assert sort_by_relevance([later, running], NOW) == [running, later]
