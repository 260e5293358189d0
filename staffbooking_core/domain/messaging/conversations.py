"""Messages and conversations: the rules for reading and writing (SPECIFICATION 2.7, CONTRACT 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum

from attrs import evolve, field, frozen

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.errors import (
    FieldError,
    Forbidden,
    InvalidField,
    NotFound,
    RuleBroken,
    Unauthenticated,
)

__all__ = [
    "ContentFindings",
    "Conversation",
    "ConversationKind",
    "ConversationMember",
    "ConversationOverview",
    "Message",
    "NewMessage",
]

MAX_MESSAGE_LENGTH = 5000

CONTACT_SHARING_STATUSES = frozenset(
    {BookingStatus.PAID, BookingStatus.COMPLETED, BookingStatus.DISPUTED}
)
"""The two parties of a booking in one of these statuses may share contact details."""

_OPEN_STATUSES = frozenset(
    {
        BookingStatus.PENDING,
        BookingStatus.ACCEPTED,
        BookingStatus.PAID,
        BookingStatus.DISPUTED,
    }
)

MIN_GROUP_BOOKINGS = 2
"""Number of accepted bookings of an event at which its group opens."""


class ConversationKind(StrEnum):
    DIRECT = "direct"
    GROUP = "group"


@frozen
class ConversationMember:
    """A present or former participant of a conversation."""

    user_id: int
    name: str
    read_id: int = 0
    """Id of the last message that the member has read; 0 before the first."""
    left_id: int | None = None
    """Id of the last message that a former participant may read; None for a participant."""
    disabled: bool = False
    """Whether the account was disabled or erased."""
    erased: bool = False

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
    """Set for a direct conversation."""
    event_ref: str | None
    """Set for a group."""
    updated_at: datetime
    """Business time of the last message, or of the creation."""
    last_id: int = 0
    """The last message; 0 before the first."""
    members: tuple[ConversationMember, ...] = ()
    """Sorted by user id."""

    @property
    def participants(self) -> tuple[ConversationMember, ...]:
        """The present participants."""
        return tuple(member for member in self.members if member.is_participant)

    @property
    def recipient_ids(self) -> tuple[int, ...]:
        """User ids of the present participants, who receive new messages."""
        return tuple(member.user_id for member in self.members if member.is_participant)

    @property
    def staff_ids(self) -> tuple[int, ...]:
        return tuple(user_id for user_id in self.recipient_ids if user_id != self.customer_id)

    @property
    def is_over(self) -> bool:
        """Whether nobody can write any more: a member of a direct conversation was erased."""
        is_direct = self.kind is ConversationKind.DIRECT
        return is_direct and any(member.erased for member in self.members)

    def find_member(self, user_id: int) -> ConversationMember | None:
        return next((member for member in self.members if member.user_id == user_id), None)


@frozen
class NewMessage:
    """A message before it is stored; `created_at` is business time."""

    conversation_id: int
    sender_id: int
    sender_name: str
    content: str = field(repr=False)
    created_at: datetime
    recipients: tuple[int, ...]
    """User ids of the participants at that time, including the sender."""
    client_id: str | None = None
    """The sender's own id of the message, which identifies a repetition."""


@frozen
class Message(NewMessage):
    """A stored message.

    Ids increase over all conversations in the order in which messages become visible: a reader of
    one has missed none with a smaller id.
    """

    id: int = 0


@frozen
class ConversationOverview:
    """A conversation as one of its members sees it."""

    conversation: Conversation
    last_message: Message | None
    """The last message that the member may read."""
    unread: int
    """Number of messages of others that the member has not read."""
    booking_code: str | None
    """Set for a direct conversation: the code of the pair's newest booking."""
    online: frozenset[int]
    """User ids of the participants who are connected."""


class ContentBlocked(InvalidField):
    """The text of a message is not allowed (CONTRACT 6)."""

    code = "content_blocked"

    def __init__(self, message: str) -> None:
        super().__init__([FieldError("content", message)])


_BLOCKED_TERM = "contains words that are not allowed here"
_EARLY_CONTACT = "contains contact or payment details before the booking is paid"
BLOCKED_CONTENT_MESSAGES = (_BLOCKED_TERM, _EARLY_CONTACT)
"""What a sender is told of a text with forbidden content."""


@frozen
class ContentFindings:
    """The findings of a content filter in a text."""

    has_blocked_term: bool = False
    has_contact: bool = False
    """Contact or payment details outside the platform."""


def check_content(findings: ContentFindings, *, may_share_contacts: bool) -> None:
    """Raise ContentBlocked for forbidden content. The message does not quote the findings, which
    would help to evade the filter."""
    if findings.has_blocked_term:
        raise ContentBlocked(_BLOCKED_TERM)
    if findings.has_contact and not may_share_contacts:
        raise ContentBlocked(_EARLY_CONTACT)


def require_member(
    conversation: Conversation | None, user_id: int
) -> tuple[Conversation, ConversationMember]:
    """The conversation and the user's membership. Raises NotFound, also for a stranger."""
    member = None if conversation is None else conversation.find_member(user_id)
    if conversation is None or member is None:
        raise NotFound("Conversation")
    return conversation, member


def check_can_write(conversation: Conversation, member: ConversationMember) -> None:
    """Raise Forbidden for a former participant and in a direct conversation whose other member was
    erased, and Unauthenticated for a user who was disabled or erased after signing in."""
    if member.disabled:
        raise Unauthenticated
    if not member.is_participant:
        raise Forbidden("conversation_left", "You are not in this conversation any more")
    if conversation.is_over:
        raise Forbidden("conversation_left", "The account of the other participant was erased")


def compose_message(
    conversation: Conversation,
    member: ConversationMember,
    content: str,
    client_id: str | None,
    now: datetime,
) -> NewMessage:
    """Create a participant's message to all present participants. Raises as `check_can_write`."""
    check_can_write(conversation, member)
    return NewMessage(
        conversation_id=conversation.id,
        sender_id=member.user_id,
        sender_name=member.name,
        content=content,
        created_at=now,
        recipients=conversation.recipient_ids,
        client_id=client_id,
    )


def check_repetition(first: NewMessage, content: str) -> None:
    """Raise RuleBroken `idempotency_mismatch` unless a message that is sent again under its client
    id has the same content."""
    if first.content != content:
        message = "The client_message_id was used for another message"
        raise RuleBroken("idempotency_mismatch", message)


def last_readable_id(conversation: Conversation, member: ConversationMember) -> int:
    """Id of the last message that a member may read; 0 without messages."""
    return conversation.last_id if member.left_id is None else member.left_id


def can_share_contacts(conversation: Conversation, paid_staff_ids: Iterable[int]) -> bool:
    """Whether contact details may be shared: each staff participant has been paid for by the
    customer.

    Never without staff participants, because later ones read the messages too.
    """
    staff_ids = set(conversation.staff_ids)
    return bool(staff_ids) and staff_ids <= set(paid_staff_ids)


def sync_group_members(conversation: Conversation, booked_names: Mapping[int, str]) -> Conversation:
    """The group with the booked staff members (names by user id) and the customer as participants.

    Former participants keep the messages until they left; new or returning ones may read all.
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
    """The overview that a member may see: a former participant sees the messages until they left
    and no other members. Raises NotFound for a stranger."""
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


def sort_by_relevance(bookings: Iterable[Booking], now: datetime) -> list[Booking]:
    """The bookings that people talk about, the one that matters now first: what is ahead by its
    start, then what is over and still open, then what is completed, and last what came to
    nothing, the newest of each first."""

    def rank(booking: Booking) -> tuple[int, float]:
        start = booking.starts_at.timestamp()
        if booking.status in _OPEN_STATUSES:
            return (0, start) if booking.ends_at > now else (1, -start)
        return (2 if booking.status is BookingStatus.COMPLETED else 3, -start)

    return sorted(bookings, key=rank)


def conversation_title(conversation: Conversation, reader_id: int) -> str:
    """The title: a group's event, or the name of the other participant."""
    if conversation.event_ref is not None:
        return conversation.event_ref
    return " ".join(m.name for m in conversation.members if m.user_id != reader_id)
