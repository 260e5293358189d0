"""Who is in which conversation, in memory."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from staffbooking_adapters.memory.state import ConversationRow, MemoryState
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.messaging.conversations import Conversation, ConversationMember


def find_conversation(state: MemoryState, conversation_id: int) -> Conversation | None:
    """A conversation that is open, with its members' names of now."""
    row = state.conversations.get(conversation_id)
    return (
        with_current_members(state, row.conversation) if row is not None and row.is_open else None
    )


def with_current_members(state: MemoryState, conversation: Conversation) -> Conversation:
    """Its members are who they are now."""
    members = [_with_current_name(each, state.users[each.user_id]) for each in conversation.members]
    return evolve(conversation, members=tuple(members))


def _with_current_name(member: ConversationMember, user: User) -> ConversationMember:
    return evolve(member, name=user.name, disabled=user.disabled_at is not None)


def conversations_of(state: MemoryState, user_id: int) -> Iterator[Conversation]:
    """The open ones that a user is or was in; the names in them may be old."""
    rows = (state.conversations[number] for number in state.conversations_of.get(user_id) or ())
    found = (row.conversation for row in rows if row.is_open)
    return (conversation for conversation in found if conversation.find_member(user_id))


def acquaintances_of(state: MemoryState, user_id: int) -> set[int]:
    """With whom a user is in a conversation now; oneself too."""
    among = {user_id}
    for conversation in conversations_of(state, user_id):
        if user_id in conversation.recipient_ids:
            among.update(conversation.recipient_ids)
    return among


def put_conversation(state: MemoryState, conversation: Conversation, *, is_open: bool) -> None:
    """Put it in its place, and into the index of each member."""
    state.conversations[conversation.id] = ConversationRow(conversation, is_open)
    for member in conversation.members:
        others = state.conversations_of.get(member.user_id) or ()
        if conversation.id not in others:
            state.conversations_of[member.user_id] = (*others, conversation.id)
