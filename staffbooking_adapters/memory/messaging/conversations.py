"""Conversations and their members in memory."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from staffbooking_adapters.memory.state import ConversationRow, MemoryState
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.messaging.conversations import Conversation, ConversationMember


def find_conversation(state: MemoryState, conversation_id: int) -> Conversation | None:
    """An open conversation with its members' current names; None if there is none."""
    row = state.conversations.get(conversation_id)
    return (
        with_current_members(state, row.conversation) if row is not None and row.is_open else None
    )


def with_current_members(state: MemoryState, conversation: Conversation) -> Conversation:
    """The conversation with its members' current names."""
    members = [_with_current_name(each, state.users[each.user_id]) for each in conversation.members]
    return evolve(conversation, members=tuple(members))


def _with_current_name(member: ConversationMember, user: User) -> ConversationMember:
    is_disabled, is_erased = user.disabled_at is not None, user.erased_at is not None
    return evolve(member, name=user.name, disabled=is_disabled, erased=is_erased)


def conversations_of(state: MemoryState, user_id: int) -> Iterator[Conversation]:
    """The open conversations that a user is or was in; members' names may be outdated."""
    rows = (
        state.conversations[conversation_id]
        for conversation_id in state.conversations_of.get(user_id) or ()
    )
    found = (row.conversation for row in rows if row.is_open)
    return (conversation for conversation in found if conversation.find_member(user_id))


def acquaintances_of(state: MemoryState, user_id: int) -> set[int]:
    """The users who share a conversation with a user now, including the user."""
    among = {user_id}
    for conversation in conversations_of(state, user_id):
        if user_id in conversation.recipient_ids:
            among.update(conversation.recipient_ids)
    return among


def put_conversation(state: MemoryState, conversation: Conversation, *, is_open: bool) -> None:
    """Insert or replace a conversation, and index it by member."""
    state.conversations[conversation.id] = ConversationRow(conversation, is_open)
    for member in conversation.members:
        others = state.conversations_of.get(member.user_id) or ()
        if conversation.id not in others:
            state.conversations_of[member.user_id] = (*others, conversation.id)
