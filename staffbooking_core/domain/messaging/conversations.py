"""Messages and conversations: who may read and write what (SPECIFICATION 2.7, CONTRACT 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum

from attrs import evolve, field, frozen

from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.errors import FieldError, Forbidden, InvalidField, NotFound, Unauthenticated

MAX_MESSAGE_LENGTH = 5000

CONTACT_SHARING_STATUSES = frozenset(
    {BookingStatus.PAID, BookingStatus.COMPLETED, BookingStatus.DISPUTED}
)
"""From such a booking on its two parties may tell each other how to be reached."""

MIN_GROUP_BOOKINGS = 2
"""So many bookings of an event, accepted at the same time, open its group."""


class ConversationKind(StrEnum):
    DIRECT = "direct"
    GROUP = "group"


@frozen
class ConversationMember:
    """Somebody who is in a conversation, or was."""

    user_id: int
    name: str
    read_id: int = 0
    """The last message that they have read; 0 before the first."""
    left_id: int | None = None
    """Of who left: the last message that they may read."""
    disabled: bool = False
    """Whether their account was closed or erased."""

    @property
    def is_participant(self) -> bool:
        return self.left_id is None


@frozen
class Conversation:
    """Two people who share a booking, or a customer and the staff of an event."""

    id: int
    kind: ConversationKind
    customer_id: int
    companion_id: int | None
    """Of a direct one."""
    event_ref: str | None
    """Of a group."""
    updated_at: datetime
    """Business time of the last message, or of its making."""
    last_id: int = 0
    """The last message; 0 before the first."""
    members: tuple[ConversationMember, ...] = ()
    """In the order of their ids."""

    @property
    def participants(self) -> tuple[ConversationMember, ...]:
        """Who is in it now."""
        return tuple(member for member in self.members if member.is_participant)

    @property
    def recipient_ids(self) -> tuple[int, ...]:
        """Who gets what is said in it now."""
        return tuple(member.user_id for member in self.members if member.is_participant)

    @property
    def staff_ids(self) -> tuple[int, ...]:
        return tuple(user_id for user_id in self.recipient_ids if user_id != self.customer_id)

    def find_member(self, user_id: int) -> ConversationMember | None:
        return next((member for member in self.members if member.user_id == user_id), None)


@frozen
class NewMessage:
    """What somebody says, about to be kept; business time."""

    conversation_id: int
    sender_id: int
    sender_name: str
    content: str = field(repr=False)
    created_at: datetime
    recipients: tuple[int, ...]
    """Who was in the conversation when it was said, the sender too."""
    client_id: str | None = None
    """The sender's own name for it, by which a repetition is known."""


@frozen
class Message(NewMessage):
    """A message as it is kept. Ids rise over all conversations, in the order in which the
    messages can be seen: who has seen one has missed none before it."""

    id: int = 0


@frozen
class ConversationOverview:
    """A conversation as one of its members finds it."""

    conversation: Conversation
    last_message: Message | None
    """The last one that the member may read."""
    unread: int
    """Messages of others that the member has not read."""
    booking_code: str | None
    """Of a direct one: the pair's newest booking."""
    online: frozenset[int]
    """Those of its participants who are connected."""


class ContentBlocked(InvalidField):
    """What was said must not be said here (CONTRACT 6)."""

    code = "content_blocked"

    def __init__(self, message: str) -> None:
        super().__init__([FieldError("content", message)])


@frozen
class ContentFindings:
    """What a content filter has found in a text."""

    has_blocked_term: bool = False
    has_contact: bool = False
    """A way to reach somebody, or to pay them, past the platform."""


def check_content(findings: ContentFindings, *, may_share_contacts: bool) -> None:
    """Raises ContentBlocked; it doesn't say what was found, for who would dodge it."""
    if findings.has_blocked_term:
        raise ContentBlocked("contains words that are not allowed here")
    if findings.has_contact and not may_share_contacts:
        raise ContentBlocked("contains contact or payment details before the booking is paid")


def require_member(
    conversation: Conversation | None, user_id: int
) -> tuple[Conversation, ConversationMember]:
    """The conversation with the place of a user in it; NotFound for a stranger too."""
    member = None if conversation is None else conversation.find_member(user_id)
    if conversation is None or member is None:
        raise NotFound("Conversation")
    return conversation, member


def check_can_write(member: ConversationMember) -> None:
    """Raises Forbidden for who has left, and Unauthenticated for who was disabled or erased
    since they were let in."""
    if member.disabled:
        raise Unauthenticated
    if not member.is_participant:
        raise Forbidden("conversation_left", "You are not in this conversation any more")


def compose_message(
    conversation: Conversation,
    member: ConversationMember,
    content: str,
    client_id: str | None,
    now: datetime,
) -> NewMessage:
    """What a participant says, for all who are in the conversation now."""
    check_can_write(member)
    return NewMessage(
        conversation_id=conversation.id,
        sender_id=member.user_id,
        sender_name=member.name,
        content=content,
        created_at=now,
        recipients=conversation.recipient_ids,
        client_id=client_id,
    )


def last_readable_id(conversation: Conversation, member: ConversationMember) -> int:
    """The last message that a member may read; 0 where there is none."""
    return conversation.last_id if member.left_id is None else member.left_id


def can_share_contacts(conversation: Conversation, paid_staff_ids: Iterable[int]) -> bool:
    """Whether ways of contact may be told in a conversation: where each of its staff members
    is `cleared`, that is, was paid for by the customer once. Never where there are none: who
    comes later reads it too."""
    staff_ids = set(conversation.staff_ids)
    return bool(staff_ids) and staff_ids <= set(paid_staff_ids)


def sync_group_members(conversation: Conversation, booked_names: Mapping[int, str]) -> Conversation:
    """The group with those in it who are booked now (their names by id), and the customer.

    Who left keeps what was said until then; who comes (again) may read all of it.
    """
    by_id = {member.user_id: member for member in conversation.members}
    for user_id, name in {conversation.customer_id: "", **booked_names}.items():
        by_id[user_id] = evolve(
            by_id.get(user_id) or ConversationMember(user_id, name), left_id=None
        )
    for member in conversation.members:
        gone = member.user_id not in booked_names and member.user_id != conversation.customer_id
        if gone and member.is_participant:
            by_id[member.user_id] = evolve(member, left_id=conversation.last_id)
    return evolve(conversation, members=tuple(by_id[key] for key in sorted(by_id)))


def overview_for_reader(overview: ConversationOverview, reader_id: int) -> ConversationOverview:
    """What a member may know of a conversation: who has left it knows what was said until
    then, and nothing of who is in it now. Raises NotFound for who has no place in it."""
    conversation, member = require_member(overview.conversation, reader_id)
    if member.is_participant:
        return overview
    last = overview.last_message
    return evolve(
        overview,
        conversation=evolve(
            conversation,
            members=(member,),
            updated_at=conversation.updated_at if last is None else last.created_at,
        ),
        online=frozenset(),
    )


def conversation_title(conversation: Conversation, reader_id: int) -> str:
    """A group's event, or the other one's name."""
    if conversation.event_ref is not None:
        return conversation.event_ref
    return " ".join(m.name for m in conversation.members if m.user_id != reader_id)
